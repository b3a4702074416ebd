"""NearestLandmarks: the nearest by definition, of dense and sparse rows, with categories."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gramless.base.errors import InputError, ModelFileError
from gramless.base.memory import limit_fit_memory
from gramless.estimators.persistence import load, pack, save, write
from gramless.features.neighbours import NearestLandmarks


def slow_neighbours(X, units, categorical, k, zero):
    """Return which rows are nearest, as a mask; inputs have bounds, which ``zero`` lies within."""
    low, high = (X.mean(axis=0) + sign * 2 * X.std(axis=0) for sign in (-1, 1))
    bounded = np.clip(X, np.fmin(low, zero), np.fmax(high, zero))
    gaps = (bounded[:, None] - bounded) / units
    two = np.array([len(np.unique(column)) == 2 for column in X.T]) & np.isfinite(units)
    numbers = np.unique((bounded / units)[:, ~two & ~categorical], axis=0)
    lengths = np.linalg.norm(numbers[:, None] - numbers, axis=2)
    apart = np.median(np.sort(lengths, axis=1)[:, k])
    gaps = np.where(two, np.sqrt(0.5) * apart * (X[:, None] != X), gaps)
    gaps = np.where(categorical, apart * (X[:, None] != X), gaps)
    order = np.argsort((gaps**2).sum(axis=2), axis=1, kind="stable")
    result = np.zeros(order.shape, bool)
    np.put_along_axis(result, order[:, :k], True, axis=1)
    return result


@pytest.mark.parametrize(("form", "zero"), [(np.asarray, np.nan), (sp.csr_array, 0.0)])
def test_neighbours_are_the_nearest_landmarks(form, zero):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6)) * (rng.random((120, 6)) < 0.7)
    X[:, 0] = 3.0 + rng.gamma(2.0, size=120)
    X[:, 3] = rng.integers(0, 3, 120)
    # A rare value, and two that are not 0.
    X[:, 4], X[:, 5] = 7.0 * (rng.random(120) < 0.05), rng.choice([1.5, 4.0], 120)
    units = np.array([1.0, 2.0, np.inf, 1.0, 2.0, 0.1])
    neighbours = NearestLandmarks(5, units=units, categorical=[3], random_state=0).fit(form(X))
    result = neighbours.transform(form(X)).toarray()
    expected = slow_neighbours(X, units, np.arange(6) == 3, 5, zero)
    np.testing.assert_allclose(result, expected / np.sqrt(5), atol=1e-15)
    one = NearestLandmarks(5, units=units, categorical=[3], random_state=0, n_jobs=1).fit(form(X))
    assert (one.transform(form(X)) != neighbours.transform(form(X))).nnz == 0


def test_categories_do_not_outweigh_numbers():
    rng = np.random.default_rng(0)
    y, kind = rng.integers(0, 3, 600), rng.integers(0, 10, 600)
    numbers = 6.0 * np.eye(3)[y] + rng.normal(size=(600, 3))
    one_hot = np.column_stack([numbers, np.eye(10)[kind]])
    for rows, categorical in ((one_hot, None), (np.column_stack([numbers, kind]), [3])):
        neighbours = NearestLandmarks(8, categorical=categorical, random_state=0).fit(rows)
        shared = neighbours.transform(rows) @ neighbours.transform(rows).T
        joined = shared.toarray() > 0
        assert (kind[:, None] != kind)[joined].mean() > 0.3
        assert (y[:, None] != y)[joined].mean() < 0.05


@pytest.mark.parametrize(
    "rows", [np.eye(3), np.ones((5, 2)), np.array([[1.0, 0.0], [1.0, 1.0]] * 20)]
)
def test_rows_without_numbers_use_categories(rows):
    neighbours = NearestLandmarks(2, random_state=0).fit(rows)
    assert neighbours.category_distance_ == 1.0
    assert neighbours.transform(rows).shape == (len(rows), len(np.unique(rows, axis=0)))


def test_equal_landmarks_count_once():
    X = np.repeat([[0.0, 1.0], [1.0, 0.0], [5.0, 5.0]], 40, axis=0)
    for rows in (X, sp.csr_array(X)):
        neighbours = NearestLandmarks(8, random_state=0).fit(rows)
        assert neighbours.transform(rows).shape == (120, 3)
        assert neighbours.numbers_per_row == 3
    assert NearestLandmarks(2, n_landmarks=7, random_state=0).fit(X[::40]).transform(X).nnz == 240


def test_saved_map_transforms_the_same(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    for rows in (X, sp.csr_array(np.where(X > 0, X, 0))):
        neighbours = NearestLandmarks(3, random_state=0).fit(rows)
        save(neighbours, tmp_path / "map")
        assert (load(tmp_path / "map").transform(rows) != neighbours.transform(rows)).nnz == 0
    content, tensors = pack(neighbours)
    tensors["indices_"] = tensors["indices_"] + 3
    write(tmp_path / "foreign", content, tensors)
    with pytest.raises(ModelFileError):
        load(tmp_path / "foreign")


@pytest.mark.parametrize("wrong", [{"n_neighbors": 0}, {"n_landmarks": 0.5}])
def test_invalid_sizes_are_rejected(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        NearestLandmarks(**wrong).fit(np.eye(3))


def test_landmarks_beyond_memory_are_rejected() -> None:
    X = np.random.default_rng(0).normal(size=(300, 40))
    with (
        limit_fit_memory(200_000),
        pytest.raises(InputError, match="n_landmarks=300 of 40 inputs would need .* lower n_land"),
    ):
        NearestLandmarks(random_state=0).fit(X)
