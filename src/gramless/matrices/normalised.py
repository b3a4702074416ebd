"""Feature matrices with centred columns or scaled rows, which are never formed."""

from __future__ import annotations

import numpy as np

from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray
from gramless.matrices.base import (
    FeatureMatrix,
    Rows,
    Vector,
    WrappedMatrix,
    operand,
    row_weights_of,
)


class CentredMatrix(WrappedMatrix):
    """A matrix minus one number per column, such as its mean; the matrix itself stays sparse."""

    def __init__(self, matrix: FeatureMatrix, means: FloatArray) -> None:
        super().__init__(matrix)
        self.means = operand(matrix, means, matrix.shape[1], "means")

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
        """Return the factors in a shape that broadcasts with ``v``."""
        return self.factors if v.ndim == 1 else self.factors[:, None]
