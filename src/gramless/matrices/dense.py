"""Features without zeros, such as Fourier features, stored as they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.threads import one_blas_thread, row_blocks
from gramless.matrices.base import ColumnBlock, Vector, check_out, into, operand

_BLOCK_NUMBERS = 1 << 20


class DenseMatrix:
    """A matrix stored number by number.

    Parameters
    ----------
    array : array (n_rows, n_columns) of float64 or float32
        Not copied.

    Notes
    -----
    8 or 4 bytes a number. Products cost n_rows * n_columns multiplications a
    column, by BLAS in one thread, over blocks of rows that are widened to
    float64 where they are float32 (at most 8 MB): all sums are float64.

    Examples
    --------
    >>> import numpy as np
    >>> Z = DenseMatrix(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> Z.matvec(np.array([1.0, 10.0]))
    array([21., 43.])
    >>> Z.rmatvec(np.array([1.0, 10.0]))
    array([31., 42.])
    """

    def __init__(self, array: NDArray[np.floating]) -> None:
        array = np.asarray(array)
        if array.ndim != 2 or array.dtype not in (np.float64, np.float32):
            raise InputError(
                f"DenseMatrix: needs a 2-D array of float64 or float32, "
                f"got {array.ndim}-D {array.dtype}."
            )
        self.array = array

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        n_rows, n_columns = self.array.shape
        return n_rows, n_columns

    def matvec(self, w: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z @ w``.

        Parameters
        ----------
        w : array (n_columns,) or (n_columns, K)
        out : array (n_rows,) or (n_rows, K), optional
            Written over and returned.

        Returns
        -------
        array (n_rows,) or (n_rows, K) of float64
        """
        w = operand(self, w, self.shape[1], "w")
        result = np.empty((self.shape[0], *w.shape[1:]))
        with one_blas_thread():
            for rows, block in self._row_blocks():
                result[rows] = block @ w
        return into(self, out, result)

    def rmatvec(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z.T @ v``.

        Parameters
        ----------
        v : array (n_rows,) or (n_rows, K)
        out : array (n_columns,) or (n_columns, K), optional
            Written over and returned.

        Returns
        -------
        array (n_columns,) or (n_columns, K) of float64
        """
        v = operand(self, v, self.shape[0], "v")
        result = np.zeros((self.shape[1], *v.shape[1:]))
        with one_blas_thread():
            for rows, block in self._row_blocks():
                result += block.T @ v[rows]
        return into(self, out, result)

    def add_rmatvec(self, v: Vector, out: Vector) -> None:
        """Add ``Z.T @ v`` to ``out``, an array of float64: every column is touched."""
        product = self.rmatvec(v)
        check_out(self, out, product.shape)
        out += product

    def row_gram(self) -> NDArray[np.float64]:
        """Return ``Z @ Z.T``: n_rows**2 * n_columns / 2 multiplications."""
        rows = np.ascontiguousarray(self.array, np.float64)
        with one_blas_thread():
            return rows @ rows.T

    def gram_diagonal(self, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the diagonal of ``Z.T @ diag(weights) @ Z``: the columns' sums of squares."""
        ones = np.ones(self.shape[0]) if weights is None else weights
        weights = operand(self, ones, self.shape[0], "weights")
        result = np.zeros(self.shape[1])
        with one_blas_thread():
            for rows, block in self._row_blocks():
                result += (block**2).T @ weights[rows]
        return result

    def blocks(self) -> Iterator[ColumnBlock]:
        """Yield one block, of all columns."""
        yield ColumnBlock(0, self.shape[1], self)

    def take_rows(self, rows: NDArray[np.integer] | slice) -> DenseMatrix:
        """Return the matrix of some rows; a slice shares memory with this one."""
        return DenseMatrix(self.array[rows])

    def tocsr(self) -> sp.csr_array:
        """Return the matrix as SciPy CSR of float64: 12 bytes a non-zero (16 beyond 2^31)."""
        return sp.csr_array(self.array, dtype=np.float64)

    def _row_blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield blocks of rows as float64, no larger for any number of threads."""
        for a, b in row_blocks(self.shape[0], max(1, _BLOCK_NUMBERS // max(1, self.shape[1]))):
            yield slice(a, b), np.asarray(self.array[a:b], np.float64)
