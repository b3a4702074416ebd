"""Whitened kernel values, multiplied without being whitened."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from gramless.base.threads import one_blas_thread
from gramless.matrices.base import RowFunction, Vector, into, operand
from gramless.matrices.slabs import SlabMatrix


class WhitenedMatrix:
    """``Z = K L^-T`` by its products alone: those with ``K``, and triangular solves.

    Parameters
    ----------
    values : SlabMatrix (n_rows, n)
        ``K``: kernel values of rows and landmarks.
    factor : array (n, n) of float64
        Lower triangular ``L``, C-contiguous, its diagonal not 0; ``L L'`` is the kernel matrix of
        the landmarks.

    Notes
    -----
    A product takes n**2 operations an output beside those of ``values``, where whitening all rows
    takes n**2 operations a row, once.

    Examples
    --------
    >>> from gramless.matrices.dense import DenseMatrix
    >>> factor = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> Z = WhitenedMatrix(DenseMatrix(np.array([[1.0, 0.5], [0.0, 1.0]])), factor)
    >>> Z.matvec(np.array([1.0, 2.0]))
    array([1., 4.])
    """

    def __init__(self, values: SlabMatrix, factor: NDArray[np.float64]) -> None:
        self.values, self.factor = values, factor

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n)."""
        return self.values.shape

    def matvec(self, w: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z @ w``: (n,) or (n, K) to (n_rows,) or (n_rows, K)."""
        w = operand(self, w, self.shape[1], "w")  # type: ignore[arg-type]
        return self.values.matvec(self._solved(w, transposed=True), out)

    def rmatvec(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z.T @ v``: (n_rows,) or (n_rows, K) to (n,) or (n, K)."""
        product = self._solved(self.values.rmatvec(v), transposed=False)
        return into(self, out, product)  # type: ignore[arg-type]

    def pull_back(self, w: Vector, function: RowFunction, out: Vector | None = None) -> Vector:
        """Return ``Z.T @ function(rows, Z @ w)`` in one pass over the rows."""
        w = operand(self, w, self.shape[1], "w")  # type: ignore[arg-type]
        of_landmarks = self.values.pull_back(self._solved(w, transposed=True), function)
        product = self._solved(of_landmarks, transposed=False)
        return into(self, out, product)  # type: ignore[arg-type]

    def _solved(self, right: Vector, transposed: bool) -> Vector:
        """Return ``L^-1 right``, or ``L^-T right``."""
        # BLAS counts by columns: to it, the transpose of L is an upper triangle.
        upper, trans = self.factor.T, int(not transposed)
        with one_blas_thread():
            if right.ndim == 1:
                return np.asarray(blas.dtrsv(upper, right, trans=trans))
            return np.ascontiguousarray(blas.dtrsm(1.0, upper, right, trans_a=trans))
