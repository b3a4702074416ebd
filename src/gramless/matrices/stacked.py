"""Feature matrices side by side."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.matrices.base import ColumnBlock, FeatureMatrix, Vector
from gramless.matrices.row_lists import RowLists


class WithIntercept:
    """A matrix with one more column, of ones, at its end.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)

    Examples
    --------
    >>> import numpy as np
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> Z = WithIntercept(BinnedMatrix(np.array([[1, 2]], np.uint8), np.array([0, 2])))
    >>> Z.matvec(np.array([1.0, 2.0, 10.0]))
    array([11., 12.])
    """

    def __init__(self, matrix: FeatureMatrix) -> None:
        self.matrix = matrix

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns + 1)."""
        n_rows, n_columns = self.matrix.shape
        return n_rows, n_columns + 1

    def matvec(self, w: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z @ w[:-1] + w[-1]``."""
        result = self.matrix.matvec(w[:-1], out)
        result += w[-1]
        return result

    def rmatvec(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z.T @ v`` and the sum of ``v`` below it."""
        if out is None:
            out = np.empty((self.shape[1], *v.shape[1:]))
        self.matrix.rmatvec(v, out[:-1])
        out[-1] = v.sum(axis=0)
        return out

    def add_rmatvec(self, v: Vector, out: Vector) -> None:
        """Add ``Z.T @ v`` and the sum of ``v`` to ``out``."""
        self.matrix.add_rmatvec(v, out[:-1])
        out[-1] += v.sum(axis=0)

    def row_gram(self) -> NDArray[np.float64]:
        """Return the matrix's own, and 1 everywhere."""
        return self.matrix.row_gram() + 1.0

    def gram_diagonal(self, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the matrix's diagonal and the sum of the weights."""
        total = self.shape[0] if weights is None else weights.sum()
        return np.append(self.matrix.gram_diagonal(weights), total)

    def blocks(self) -> Iterator[ColumnBlock]:
        """Yield the matrix's blocks; the column of ones belongs to none."""
        return self.matrix.blocks()

    @cached_property
    def row_lists(self) -> RowLists:
        """The matrix's own, if it has any, and a last group of ones."""
        own: RowLists = self.matrix.row_lists  # type: ignore[attr-defined]
        return own.with_ones()

    def take_rows(self, rows: NDArray[np.integer] | slice) -> WithIntercept:
        """Return the matrix of some rows."""
        return WithIntercept(self.matrix.take_rows(rows))

    def tocsr(self) -> sp.csr_array:
        """Return the matrix's own CSR and the column of ones: one more non-zero a row."""
        ones = sp.csr_array(np.ones((self.shape[0], 1)))
        return sp.hstack([self.matrix.tocsr(), ones], format="csr")
