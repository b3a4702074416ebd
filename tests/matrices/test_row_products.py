"""Matrices that keep the products of their rows."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.row_products import MatrixWithRowProducts, single_row_gram

N_ROWS = 700


def bins(n_jobs: int | None = None) -> BinnedMatrix:
    codes = np.random.default_rng(0).integers(1, 31, (40, N_ROWS)).astype(np.uint8)
    return BinnedMatrix(codes, 30 * np.arange(41), n_jobs=n_jobs)


def values(n_jobs: int | None = None) -> DenseMatrix:
    return DenseMatrix(np.random.default_rng(1).normal(size=(N_ROWS, 50)), n_jobs)


@pytest.mark.parametrize("matrix", [bins(), values()])
def test_products_are_those_of_the_matrix_and_its_transpose(matrix: FeatureMatrix) -> None:
    kept = MatrixWithRowProducts(matrix, single_row_gram(matrix))
    rng = np.random.default_rng(2)
    part, rows = np.arange(100, 650), np.array([3, 40, 7])
    for own in (kept, kept.take_rows(slice(50, 600)), kept.take_rows(part)):
        dense, v = own.toarray(), rng.normal(size=(own.shape[0], 5))
        # Single precision: products of norms bound each inner product.
        norms = np.linalg.norm(dense, axis=1)
        eps = (50 + N_ROWS) * np.finfo(np.float32).eps * norms.max() ** 2
        bound = eps * np.abs(v).sum(axis=0).max()
        np.testing.assert_allclose(own.row_products(v), dense @ (dense.T @ v), atol=bound, rtol=0)
        few, expected = own.row_products(v[:3], rows), dense @ (dense[rows].T @ v[:3])
        np.testing.assert_allclose(few, expected, atol=bound, rtol=0)
        np.testing.assert_allclose(own.row_gram(), dense @ dense.T, atol=eps, rtol=0)


def test_the_number_of_threads_changes_no_bit() -> None:
    v = np.random.default_rng(2).normal(size=(N_ROWS, 5))
    for make in (bins, values):
        found = []
        for n_jobs in (1, 3):
            matrix = make(n_jobs)
            kept = MatrixWithRowProducts(matrix, single_row_gram(matrix))
            found.append((kept.gram.tobytes(), kept.row_products(v).tobytes()))
        assert found[0] == found[1]
