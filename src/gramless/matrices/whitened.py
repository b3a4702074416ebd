"""Whitened kernel values, whose products do not need the whitened matrix."""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from gramless.base.threads import one_blas_thread, row_blocks
from gramless.base.types import FloatArray
from gramless.matrices.base import (
    FeatureMatrix,
    RowFunction,
    Rows,
    Vector,
    copy_to_out,
    operand,
    row_weights_of,
)
from gramless.matrices.chunked import ChunkedMatrix


class WhitenedMatrix(FeatureMatrix):
    """The matrix ``Z = K L^-T``, whose products use ``K`` and triangular solves.

    ``values`` is ``K``, the kernel values of rows and landmarks. ``factor`` (n, n) is ``L``, lower
    triangular and C-contiguous, such that ``L L'`` is the kernel matrix of the landmarks.
    """

    def __init__(self, values: ChunkedMatrix, factor: FloatArray) -> None:
        self.values, self.factor = values, factor
        self.n_jobs = values.n_jobs

    @property
    def has_one_pass(self) -> bool:
        return True

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape

    def _matvec(self, w: Vector, out: Vector) -> None:
        self.values.matvec(self._solve(w, transposed=True), out)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        out[...] = self._solve(self.values.rmatvec(v), transposed=False)

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        row_weights, total = row_weights_of(self, weights), np.zeros(self.shape[1])
        for start, stop in row_blocks(self.shape[0], self.values.chunk_rows):
            rows = np.asarray(self.values.chunk(start, stop), np.float64)
            whitened = self._solve(np.ascontiguousarray(rows.T), transposed=False)
            total += whitened**2 @ row_weights[start:stop]
        return total

    def take_rows(self, rows: Rows) -> WhitenedMatrix:
        return WhitenedMatrix(self.values.take_rows(rows), self.factor)

    def pull_back(self, w: Vector, function: RowFunction, out: Vector | None = None) -> Vector:
        w = operand(self, w, self.shape[1], "w")
        product = self.values.pull_back(self._solve(w, transposed=True), function)
        return copy_to_out(self, out, self._solve(product, transposed=False))

    def _solve(self, right: Vector, transposed: bool) -> Vector:
        """Return ``L^-1 right``, or ``L^-T right`` if ``transposed``."""
        # BLAS reads matrices by columns, so it gets the transpose of L, an upper triangle.
        upper, trans = self.factor.T, int(not transposed)
        with one_blas_thread():
            if right.ndim == 1:
                return np.asarray(blas.dtrsv(upper, right, trans=trans))
            return np.ascontiguousarray(blas.dtrsm(1.0, upper, right, trans_a=trans))
