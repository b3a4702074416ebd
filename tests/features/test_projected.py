"""Features of projections of the rows."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from gramless import Nystrom, load, save
from gramless.base.errors import ModelFileError
from gramless.estimators.persistence import pack, write
from gramless.features.projected import ProjectedMap
from gramless.kernels import Gaussian

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(300, 4)), RNG.normal(size=(1500, 4))
PROJECTION = np.vstack([RNG.normal(size=(3, 2)), np.zeros((1, 2))])


def projected(n_jobs: int | None = 2) -> ProjectedMap:
    inner = Nystrom(bandwidth=1.5, n_components=300, random_state=0, n_jobs=n_jobs)
    return ProjectedMap.of(PROJECTION, inner.fit(X @ PROJECTION), n_jobs)


def test_inner_products_are_kernel_values_of_projections() -> None:
    result = projected().transform(X)
    expected = Gaussian().gram(X @ PROJECTION, bandwidth=1.5)
    np.testing.assert_allclose(result @ result.T, expected, atol=1e-5)
    assert projected().used_columns.tolist() == [True, True, True, False]


def test_number_of_threads_does_not_change_the_matrix() -> None:
    weights = RNG.normal(size=(projected().n_features_out, 2))
    results = [projected(n).feature_matrix(NEW).matvec(weights) for n in (1, 3)]
    np.testing.assert_array_equal(results[0], results[1])
    expected = projected().transform(NEW) @ weights
    np.testing.assert_allclose(results[0], expected, atol=1e-4 * np.abs(expected).max())


def test_layout_of_rows_does_not_change_features() -> None:
    expected = projected().transform(NEW)
    for layout in (sp.csr_array, np.asfortranarray, np.float32):
        np.testing.assert_allclose(projected().transform(layout(NEW)), expected, atol=1e-4)


def test_huge_inputs_have_zero_kernel() -> None:
    rows = np.full((2, 4), 1e300) * [[1.0], [-1.0]]
    np.testing.assert_array_equal(projected().transform(rows), 0.0)


def test_saved_and_copied_maps_transform_the_same(tmp_path: Path) -> None:
    expected = projected().transform(NEW)
    save(projected(), tmp_path / "map")
    used = projected()
    used.transform(NEW)
    for again in (load(tmp_path / "map"), pickle.loads(pickle.dumps(used)), copy.deepcopy(used)):
        np.testing.assert_array_equal(again.transform(NEW), expected)


UNSOUND: list[tuple[str, object]] = [
    ("projection_", np.zeros((4, 3))),
    ("projection_", np.full((4, 2), np.nan)),
    ("projection_", np.zeros((0, 2))),
    ("map_", None),
    ("n_features_in_", 3),
]


def test_invalid_files_are_rejected(tmp_path: Path) -> None:
    for name, value in UNSOUND:
        broken = projected()
        setattr(broken, name, value)
        write(tmp_path / "map", *pack(broken))
        with pytest.raises(ModelFileError):
            load(tmp_path / "map")
