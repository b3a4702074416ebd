"""Polynomials of degree 2 as features."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from gramless import load, save
from gramless.base.errors import InputError, ModelFileError
from gramless.estimators.persistence import pack, write
from gramless.features.polynomial_trend import PolynomialTrend
from gramless.features.shapley import shapley_values
from gramless.features.shapley_grids import Players

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(300, 4)) * [1.0, 5.0, 0.1, 0.0] + 3.0, RNG.normal(size=(1500, 4)) + 3.0


def trend(n_jobs: int | None = 2) -> PolynomialTrend:
    return PolynomialTrend([2, 0, 1, 3], n_multiplied=2, variance=6.0, n_jobs=n_jobs).fit(X)


def test_features_are_constant_inputs_and_products() -> None:
    z = np.clip((NEW - X.mean(axis=0)) / np.append(X[:, :3].std(axis=0), 1.0), -6.0, 6.0)
    scaled = np.clip((X - X.mean(axis=0)) / np.append(X[:, :3].std(axis=0), 1.0), -6.0, 6.0)
    pairs = [(2, None), (0, None), (1, None), (2, 2), (2, 0), (0, 0)]
    expected = [np.ones(len(NEW))]
    for a, b in pairs:
        known = scaled[:, a] if b is None else scaled[:, a] * scaled[:, b]
        new = z[:, a] if b is None else z[:, a] * z[:, b]
        expected.append((new - known.mean()) / known.std())
    weight = np.sqrt(6.0 / len(expected))
    np.testing.assert_allclose(trend().transform(NEW), weight * np.stack(expected, 1), atol=1e-12)
    assert trend().used_columns.tolist() == [True, True, True, False]
    assert (trend().transform(X) ** 2).mean(axis=0).sum() == pytest.approx(6.0)


def test_quadratic_functions_are_linear_in_the_features() -> None:
    rows = RNG.uniform(-1.0, 1.0, size=(200, 3))
    target = 2.0 + rows[:, 0] - rows[:, 1] * rows[:, 2] + 3.0 * rows[:, 2] ** 2
    result = PolynomialTrend().fit_transform(rows)
    assert np.linalg.lstsq(result, target)[1] < 1e-20


def test_constant_rows_leave_the_constant() -> None:
    result = PolynomialTrend().fit(np.ones((9, 2)))
    np.testing.assert_allclose(result.transform(np.zeros((2, 2))), 10.0)
    assert not result.used_columns.any()


def test_number_of_threads_does_not_change_the_matrix() -> None:
    weights = RNG.normal(size=(7, 2))
    results = [trend(n).feature_matrix(NEW).matvec(weights) for n in (1, 3)]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], trend().transform(NEW) @ weights, atol=1e-5)


def test_layout_of_rows_does_not_change_features() -> None:
    expected = trend().transform(NEW)
    for layout in (sp.csr_array, np.asfortranarray, np.float32):
        np.testing.assert_allclose(trend().transform(layout(NEW)), expected, atol=1e-4)


def test_huge_inputs_are_clipped() -> None:
    huge = trend().transform(np.full((1, 4), 1e300))
    np.testing.assert_array_equal(huge, trend().transform(np.full((1, 4), 1e4)))
    result = PolynomialTrend().fit([[1e300], [-1e300], [0.0]]).transform([[1e300]])
    assert np.isfinite(result).all()


def test_shapley_values_share_a_product_between_two_inputs() -> None:
    rows = RNG.normal(size=(200, 14))
    features = PolynomialTrend(n_multiplied=2).fit(rows)
    weights = np.zeros((len(features.factors_), 1))
    product = features.factors_.tolist().index([0, 1])
    weights[[5, product]] = [[2.0], [3.0]]
    players = Players(np.arange(14), 14)
    result, mean = shapley_values(features, weights, rows[:9], rows[50:90], players)
    z = np.clip((rows - features.centre_) / features.spread_, -6.0, 6.0)
    new, others = z[:9], z[50:90]
    expected = np.zeros((9, 14))
    factor = features.factors_.tolist().index([4, -1])
    assert factor == 5
    expected[:, 4] = 2.0 * features.scales_[5] * (new[:, 4] - others[:, 4].mean())
    for j, k in ((0, 1), (1, 0)):
        first = new[:, j] * others[:, k].mean() - (others[:, 0] * others[:, 1]).mean()
        last = new[:, 0] * new[:, 1] - others[:, j].mean() * new[:, k]
        expected[:, j] = 1.5 * features.scales_[product] * (first + last)
    np.testing.assert_allclose(result[:, :, 0], expected, atol=1e-9)
    responses = features.transform(rows[:9]) @ weights
    np.testing.assert_allclose(mean + result.sum(axis=1), responses, atol=1e-9)


MIXED = np.column_stack([X[:, 0], RNG.permutation(np.repeat([0.0, 1, 2, 7], [150, 99, 50, 1]))])


def of_categories(most: int = 200) -> PolynomialTrend:
    categorical = [1]
    return PolynomialTrend(categorical=categorical, most_categories=most).fit(MIXED)


def test_categories_are_features() -> None:
    result = of_categories()
    assert result.categories_.tolist() == [[1, 0], [1, 1], [1, 2], [1, 7]]
    assert result.factors_[-4:].tolist() == [[2, -1], [3, -1], [4, -1], [5, -1]]
    assert result.used_columns.tolist() == [True, True]
    shares = np.array([150, 99, 50, 1]) / 300
    expected = (MIXED[:, [1]] == [0.0, 1.0, 2.0, 7.0]) - shares
    size = np.sqrt(100.0 / len(result.factors_))
    np.testing.assert_allclose(result.transform(MIXED)[:, -4:], size * expected, atol=1e-12)
    unknown = result.transform([[0.0, 5.0], [0.0, 6.0]])[:, -4:]
    np.testing.assert_allclose(unknown, np.tile(-size * shares, (2, 1)))
    assert of_categories(2).categories_.tolist() == [[1, 0], [1, 1]]
    two = PolynomialTrend(categorical=[1]).fit(np.column_stack([X[:, 0], MIXED[:, 1] > 0]))
    assert two.categories_.tolist() == [[1, 1]]


def test_shapley_values_of_categories_match_brute_force() -> None:
    result = of_categories()
    weights = RNG.normal(size=(len(result.factors_), 1))
    players = Players(np.arange(2), 2)
    values, mean = shapley_values(result, weights, MIXED[:9], MIXED[50:90], players)
    responses = result.transform(MIXED[:9]) @ weights
    np.testing.assert_allclose(mean + values.sum(axis=1), responses, atol=1e-9)
    moved = MIXED[50:90].copy()
    moved[:, 1] = MIXED[0, 1]
    alone = result.transform(moved) @ weights - result.transform(MIXED[50:90]) @ weights
    np.testing.assert_allclose(values[0, 1], alone.mean(axis=0), atol=1e-9)


def test_saved_and_pickled_maps_transform_the_same(tmp_path: Path) -> None:
    for result, rows in ((trend(), NEW), (of_categories(), MIXED)):
        save(result, tmp_path / "map")
        for again in (load(tmp_path / "map"), pickle.loads(pickle.dumps(result))):
            np.testing.assert_array_equal(again.transform(rows), result.transform(rows))


def test_earlier_files_have_no_categories(tmp_path: Path) -> None:
    content, tensors = pack(trend())
    for part in ("state", "params"):
        content[part] = {k: v for k, v in content[part].items() if "categor" not in k}
    write(tmp_path / "map", content, {k: v for k, v in tensors.items() if "categor" not in k})
    np.testing.assert_array_equal(load(tmp_path / "map").transform(NEW), trend().transform(NEW))


UNSOUND: list[tuple[str, object]] = [
    ("centre_", np.full(4, np.nan)),
    ("spread_", np.zeros(4)),
    ("spread_", np.ones(3)),
    ("factors_", np.full((7, 2), 4)),
    ("factors_", np.full((7, 2), -2)),
    ("categories_", np.zeros((1, 3))),
    ("categories_", np.array([[4.0, 0.0]])),
    ("means_", np.zeros(6)),
    ("scales_", np.full(7, np.inf)),
    ("n_features_in_", 3),
]


def test_invalid_files_are_rejected(tmp_path: Path) -> None:
    for name, value in UNSOUND:
        broken = trend()
        setattr(broken, name, value)
        write(tmp_path / "map", *pack(broken))
        with pytest.raises(ModelFileError):
            load(tmp_path / "map")


def test_invalid_use_is_rejected() -> None:
    with pytest.raises(NotFittedError, match="fit it first"):
        PolynomialTrend().transform(X)
    with pytest.raises(InputError, match="PolynomialTrend"):
        trend().rows_matrix(NEW[:, :3])
