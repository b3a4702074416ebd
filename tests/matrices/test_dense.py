"""Dense matrices: what they accept, and what they share. The products are in the contract."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.matrices.dense import DenseMatrix


@pytest.mark.parametrize(
    "bad",
    [np.zeros(3), np.zeros((2, 2, 2)), np.zeros((2, 2), int), np.zeros((2, 2), np.float16)],
)
def test_other_arrays_are_rejected(bad):
    with pytest.raises(InputError, match="2-D array of float64 or float32"):
        DenseMatrix(bad)


def test_array_and_its_slices_are_not_copied():
    array = np.zeros((6, 2), np.float32)
    matrix = DenseMatrix(array)
    assert matrix.array is array
    assert np.shares_memory(matrix.take_rows(slice(1, 4)).array, array)


def test_rows_may_be_read_only():
    array = np.arange(6.0).reshape(3, 2)
    expected = DenseMatrix(array.copy()).matvec(np.ones(2))
    array.flags.writeable = False
    np.testing.assert_array_equal(DenseMatrix(array).matvec(np.ones(2)), expected)


def test_out_of_add_rmatvec_is_never_broadcast():
    matrix = DenseMatrix(np.ones((3, 2)))
    with pytest.raises(InputError, match="out"):
        matrix.add_rmatvec(np.ones(3), np.zeros((2, 2)))


def test_sums_are_float64():
    matrix = DenseMatrix(np.array([[1.0, 1e-12]], np.float32))
    assert matrix.matvec(np.ones(2))[0] > 1.0
