"""Feature matrices with centred columns or scaled rows, neither of which is ever formed."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray
from gramless.matrices.base import FeatureMatrix, Rows, Vector, operand, row_weights_of


class CentredMatrix(FeatureMatrix):
    """A matrix less a number a column, such as its mean; sparse forms stay sparse beneath."""

    def __init__(self, matrix: FeatureMatrix, means: FloatArray) -> None:
        self.matrix, self.n_jobs = matrix, matrix.n_jobs
        self.means = operand(matrix, means, matrix.shape[1], "means")

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes + self.means.nbytes

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

    def tocsr(self) -> sp.csr_array:
        return sp.csr_array(self.matrix.toarray() - self.means)


class RowScaledMatrix(FeatureMatrix):
    """A matrix with each row times a factor."""

    def __init__(self, matrix: FeatureMatrix, factors: FloatArray) -> None:
        self.matrix, self.n_jobs = matrix, matrix.n_jobs
        self.factors = row_weights_of(matrix, factors)

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes + self.factors.nbytes

    def _matvec(self, w: Vector, out: Vector) -> None:
        self.matrix.matvec(w, out=out)
        out *= self._beside(out)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        self.matrix.rmatvec(v * self._beside(v), out=out)

    def to_single(self) -> RowScaledMatrix:
        single = self.matrix.to_single()
        return self if single is self.matrix else RowScaledMatrix(single, self.factors)

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        return self.matrix.gram_diagonal(row_weights_of(self, weights) * self.factors**2)

    def take_rows(self, rows: Rows) -> RowScaledMatrix:
        return RowScaledMatrix(self.matrix.take_rows(rows), self.factors[rows])

    def tocsr(self) -> sp.csr_array:
        return sp.csr_array(sp.diags_array(self.factors) @ self.matrix.tocsr())

    def _beside(self, v: Vector) -> FloatArray:
        """Return the factors in a shape that multiplies one or several columns."""
        return self.factors if v.ndim == 1 else self.factors[:, None]
