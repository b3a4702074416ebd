"""Products of bins in single precision: near to those in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.matrices.binned import BinnedMatrix, SingleBins
from gramless.matrices.transformed import CentredMatrix, RowScaledMatrix

N_ROWS, N_BINS = 9000, 40


def bins(first_code=1, n_jobs=None):
    codes = np.random.default_rng(0).integers(first_code, N_BINS + 1, (11, N_ROWS), np.uint8)
    return BinnedMatrix(codes, N_BINS * np.arange(12), n_jobs=n_jobs)


@pytest.mark.parametrize("n_columns", [1, 12, 19])
def test_products_are_near_double_precision(n_columns):
    matrix, single = bins(), bins().to_single()
    rng = np.random.default_rng(1)
    w, v = rng.normal(size=(matrix.shape[1], n_columns)), rng.normal(size=(N_ROWS, n_columns))
    # Eleven roundings of values up to 5, and 225 rows a bin.
    np.testing.assert_allclose(single.matvec(w), matrix.matvec(w), rtol=0, atol=11 * 5 * 2**-23)
    np.testing.assert_allclose(single.rmatvec(v), matrix.rmatvec(v), rtol=0, atol=225 * 5 * 2**-23)
    few = np.arange(5, 200)
    np.testing.assert_array_equal(single.take_rows(few).matvec(w), single.matvec(w)[few])


def test_vector_products_are_double_precision():
    matrix, w, v = bins(), np.linspace(0.0, 1.0, 11 * N_BINS), np.linspace(0.0, 1.0, N_ROWS)
    np.testing.assert_array_equal(matrix.to_single().matvec(w), matrix.matvec(w))
    np.testing.assert_array_equal(matrix.to_single().rmatvec(v), matrix.rmatvec(v))


def test_number_of_threads_does_not_change_products():
    v = np.random.default_rng(2).normal(size=(N_ROWS, 12))
    one, two = (matrix.matvec(matrix.rmatvec(v)).tobytes() for matrix in map(SingleBins, pair()))
    assert one == two


def pair():
    return bins(n_jobs=1), bins(n_jobs=2)


def test_derived_matrices_are_single_precision():
    matrix, w = bins(), np.random.default_rng(3).normal(size=(11 * N_BINS, 3))
    centred = CentredMatrix(matrix, matrix.rmatvec(np.full(N_ROWS, 1 / N_ROWS)))
    for made in (centred, RowScaledMatrix(matrix, np.linspace(1, 2, N_ROWS))):
        result, exact = made.to_single().matvec(w), made.matvec(w)
        np.testing.assert_allclose(result, exact, rtol=0, atol=11 * 10 * 2**-23)
        assert not np.array_equal(result, exact)


def test_unseen_bins_stay_double_precision():
    matrix = bins(first_code=0)
    assert matrix.to_single() is matrix
