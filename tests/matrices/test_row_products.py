"""Matrices that keep the products of their rows."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.base.arrays import readonly
from gramless.loops.gather import add_row_products
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.row_products import SingleRowProducts, single_row_gram
from gramless.matrices.stacked import HStack
from gramless.matrices.stored import StoredBinnedMatrix, code_file

N_ROWS = 700


def bins(n_jobs: int | None = None, unseen: bool = False) -> BinnedMatrix:
    """Return bins of an odd number of grids."""
    codes = np.random.default_rng(0).integers(not unseen, 31, (41, N_ROWS)).astype(np.uint8)
    return BinnedMatrix(codes, 30 * np.arange(42), n_jobs=n_jobs)


def values(n_jobs: int | None = None) -> DenseMatrix:
    return DenseMatrix(np.random.default_rng(1).normal(size=(N_ROWS, 50)), n_jobs)


def both() -> FeatureMatrix:
    stack = HStack([bins(), values()], [1.0, 0.5])
    assert stack.has_row_products
    return stack


MATRICES: list[FeatureMatrix] = [
    *(SingleRowProducts(matrix, single_row_gram(matrix)) for matrix in (bins(), bins(unseen=True))),
    bins(),
    bins(unseen=True),
    both(),
    SingleRowProducts(both()),
]


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("kept", MATRICES)
def test_products_match_the_matrix_and_its_transpose(kept: FeatureMatrix, single: bool) -> None:
    rng = np.random.default_rng(2)
    part, rows = np.arange(100, 650), np.array([3, 40, 7])
    for matrix in (kept, kept.take_rows(slice(50, 600)), kept.take_rows(part)):
        dense, v = matrix.toarray(), rng.normal(size=(matrix.shape[0], 5))
        # Products of norms bound each inner product.
        norms = np.linalg.norm(dense, axis=1)
        rough = single or isinstance(kept, SingleRowProducts)
        unit = float(np.finfo(np.float32 if rough else np.float64).eps)
        eps = (50 + N_ROWS) * unit * norms.max() ** 2
        bound = eps * np.abs(v).sum(axis=0).max()
        np.testing.assert_allclose(
            matrix.row_products(v, single=single), dense @ (dense.T @ v), atol=bound, rtol=0
        )
        few, expected = (
            matrix.row_products(v[:3], rows, single=single),
            dense @ (dense[rows].T @ v[:3]),
        )
        np.testing.assert_allclose(few, expected, atol=bound, rtol=0)
        np.testing.assert_allclose(matrix.row_gram(), dense @ dense.T, atol=eps, rtol=0)


def test_sums_in_bins_match_a_slow_implementation() -> None:
    """Whole numbers have exact sums."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, (5, 40)).astype(np.uint16)
    rows = np.array([3, 9, 4, 30])
    values = rng.integers(-9, 10, (4, 12)).astype(np.float32)
    for first, last in [(0, 5), (1, 4), (1, 3), (2, 3), (4, 4)]:
        out = rng.integers(-9, 10, (40, 12)).astype(np.float32)
        expected = out.copy()
        for g in range(first, last):
            for i in range(40):
                for j, row in enumerate(rows):
                    if codes[g, i] == codes[g, row] != 0:
                        expected[i] += values[j]
        room, n_bins = np.full(4 * 6 * 12, 77, np.float32), np.full(5, 5)
        flat = readonly(codes.reshape(-1))
        add_row_products(flat, 40, n_bins, first, last, rows, readonly(values), room, out)
        np.testing.assert_array_equal(out, expected)


def test_number_of_threads_does_not_change_products() -> None:
    v = np.random.default_rng(2).normal(size=(N_ROWS, 5))
    results = []
    for n_jobs in (1, 3):
        matrix, dense = bins(n_jobs), single_row_gram(values(n_jobs))
        kept = SingleRowProducts(matrix, single_row_gram(matrix))
        parts = dense, kept.gram, kept.row_products(v), matrix.row_products(v)
        results.append([np.asarray(part).tobytes() for part in parts])
    assert results[0] == results[1]


def test_memory_layout_of_codes_does_not_change_products() -> None:
    inside, file = bins(), code_file(0)
    for part in np.array_split(np.arange(N_ROWS), 3):
        file.append(inside.codes[:, part])
    outside = StoredBinnedMatrix(file.blocks(), inside.offsets, scale=inside.scale)
    v = np.random.default_rng(2).normal(size=(N_ROWS, 5))
    for single in (False, True):
        for rows in (None, np.array([3, 600, 7])):
            given = v if rows is None else v[:3]
            results = [
                matrix.row_products(given, rows, single=single) for matrix in (inside, outside)
            ]
            np.testing.assert_array_equal(*results)
