"""The median trick against all pairs, and on rows that coincide or are huge."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.preprocessing.median import median_distance


def all_distances(X: NDArray) -> NDArray[np.float64]:
    return np.abs(X[:, None] - X).sum(axis=2)[np.triu_indices(len(X), 1)]


@pytest.mark.parametrize("seed", range(2))
def test_sampled_median_is_near_that_of_all_pairs(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(300, 4))
    assert median_distance(X, seed) == pytest.approx(np.median(all_distances(X)), rel=0.06)


def test_types_and_sparsity_do_not_change_the_median() -> None:
    for dtype in ("u1", "i1", "u8", "f4", "?"):
        values = np.random.default_rng(0).integers(0, 2 if dtype == "?" else 127, size=(40, 3))
        rows, expected = values.astype(dtype), median_distance(values.astype(float), 0)
        assert median_distance(rows, 0) == expected
        assert median_distance(sp.csr_array(rows * (values % 3 > 0)), 0) == median_distance(
            (values * (values % 3 > 0)).astype(float), 0
        )


def test_median_distance_scales_with_the_rows() -> None:
    X = np.random.default_rng(2).normal(size=(80, 3))
    assert median_distance(8.0 * X, 0) == 8.0 * median_distance(X, 0)
    assert median_distance(X + 1.7e9, 0) == pytest.approx(median_distance(X, 0), rel=1e-6)


def test_equal_rows_have_median_distance_one() -> None:
    for n_rows in (1, 2, 30):
        assert median_distance(np.full((n_rows, 2), 3.0), 0) == 1.0


def test_mostly_equal_rows_use_positive_distances() -> None:
    X = np.zeros((100, 1))
    X[:3] = 7.0
    assert median_distance(X, 0) == 7.0


def test_median_distance_scales_to_extreme_values() -> None:
    X = np.random.default_rng(3).normal(size=(50, 3))
    # A power of two, so that every sum scales without rounding.
    assert median_distance(X * 2.0**1000, 0) == median_distance(X, 0) * 2.0**1000
    assert median_distance(X * 2.0**-1000, 0) == median_distance(X, 0) * 2.0**-1000


def test_blocks_of_pairs_do_not_change_the_median() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 50))
    expected = [median_distance(rows, 0, metric=kind) for kind in ("cityblock", "euclidean")]
    results = [
        median_distance(rows, 0, metric=kind, numbers_per_block=150)
        for kind in ("cityblock", "euclidean")
    ]
    assert results == expected
