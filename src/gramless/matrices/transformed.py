"""Feature matrices with centred columns, scaled rows or whitened values, which are never formed."""

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
    WrappedMatrix,
    as_operand,
    copy_to_out,
    row_weights_of,
)
from gramless.matrices.dense import ChunkedMatrix


class CentredMatrix(WrappedMatrix):
    """A matrix minus one number per column, such as the column's mean, without forming it."""

    def __init__(self, matrix: FeatureMatrix, means: FloatArray) -> None:
        super().__init__(matrix)
        self.means = as_operand(matrix, means, matrix.shape[1], "means")

    def _matvec(self, w: Vector, out: Vector) -> None:
        self.matrix.matvec(w, out=out)
        with one_blas_thread():
            out -= self.means @ w

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        self.matrix.rmatvec(v, out=out)
        out -= np.multiply.outer(self.means, v.sum(axis=0))

    def to_single(self) -> CentredMatrix:
        single = self.matrix.to_single()
        return self if single is self.matrix else CentredMatrix(single, self.means)

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        weights = row_weights_of(self, weights)
        squares = self.matrix.gram_diagonal(weights)
        return squares + self.means * (
            self.means * weights.sum() - 2 * self.matrix.rmatvec(weights)
        )

    def take_rows(self, rows: Rows) -> CentredMatrix:
        return CentredMatrix(self.matrix.take_rows(rows), self.means)


class RowScaledMatrix(WrappedMatrix):
    """A matrix whose rows are multiplied by factors."""

    def __init__(self, matrix: FeatureMatrix, factors: FloatArray) -> None:
        super().__init__(matrix)
        self.factors = row_weights_of(matrix, factors)

    def _matvec(self, w: Vector, out: Vector) -> None:
        self.matrix.matvec(w, out=out)
        out *= self._factors_like(out)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        self.matrix.rmatvec(v * self._factors_like(v), out=out)

    def to_single(self) -> RowScaledMatrix:
        single = self.matrix.to_single()
        return self if single is self.matrix else RowScaledMatrix(single, self.factors)

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        return self.matrix.gram_diagonal(row_weights_of(self, weights) * self.factors**2)

    def take_rows(self, rows: Rows) -> RowScaledMatrix:
        return RowScaledMatrix(self.matrix.take_rows(rows), self.factors[rows])

    def _factors_like(self, v: Vector) -> FloatArray:
        return self.factors if v.ndim == 1 else self.factors[:, None]


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
        w = as_operand(self, w, self.shape[1], "w")
        product = self.values.pull_back(self._solve(w, transposed=True), function)
        return copy_to_out(self, out, self._solve(product, transposed=False))

    def _solve(self, rhs: Vector, transposed: bool) -> Vector:
        """Return ``L^-1 rhs``, or ``L^-T rhs`` if ``transposed``."""
        # BLAS reads matrices by columns, so it gets the transpose of L, an upper triangle.
        upper, trans = self.factor.T, int(not transposed)
        with one_blas_thread():
            if rhs.ndim == 1:
                return np.asarray(blas.dtrsv(upper, rhs, trans=trans))
            return np.ascontiguousarray(blas.dtrsm(1.0, upper, rhs, trans_a=trans))
