"""Conjugate gradients on combinations of rows, by products of rows with each other.

Weights are ``Z' u + t g``: combinations ``u`` (n_rows, K) of the rows, and multiples ``t`` (K,) of
initial weights ``g``. The minimum has this form for every start (the representer theorem). Vectors
over the columns are needed only at the start and at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gramless.base.types import FloatArray
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.solvers.cg import Curvature, Runs
from gramless.solvers.preconditioners import SampledInverse
from gramless.solvers.vectors import add_times, matvec, rmatvec, weighted_inner


@dataclass(frozen=True, eq=False)
class RowSpace:
    """Combinations of the rows of a matrix and of one given vector for each output.

    A combination is stored as the array (2 n_rows + 1, K) of ``u``, ``t`` and its responses
    ``Z (Z' u + t g)``. Linear operations on the array keep the responses correct.

    Attributes
    ----------
    given : array (n_columns, K) or None
        ``g``; None if it is zero, or if :meth:`weights` is not used.
    of_given : array (n_rows, K)
        ``Z g``.
    squared : array (K,)
        ``g' g``.
    """

    matrix: FeatureMatrix
    given: Vector | None
    of_given: Vector
    squared: FloatArray

    @classmethod
    def from_start(cls, matrix: FeatureMatrix, given: Vector | None, n_outputs: int) -> RowSpace:
        if given is None:
            return cls(matrix, None, np.zeros((matrix.shape[0], n_outputs)), np.zeros(n_outputs))
        return cls(matrix, given, matvec(matrix, given), weighted_inner(None, given, given, None))

    @property
    def n_rows(self) -> int:
        return len(self.of_given)

    def vector(self, u: Vector) -> Vector:
        """Return the vector ``Z' u``, by one product of the rows."""
        return np.concatenate([u, np.zeros((1, u.shape[1])), self.matrix.row_products(u)])

    def multiple(self, t: FloatArray) -> Vector:
        u = np.zeros_like(self.of_given)
        return np.concatenate([u, t[None], t * self.of_given])

    def product(self, a: Vector, b: Vector) -> FloatArray:
        """Return the inner product of two vectors, (K,)."""
        n = self.n_rows
        product = weighted_inner(None, a[:n], b[n + 1 :], None)
        if a[n].any():
            with_given = b[n] * self.squared + weighted_inner(None, b[:n], self.of_given, None)
            product += a[n] * with_given
        return product

    def weights(self, vector: Vector) -> Vector:
        weights = rmatvec(self.matrix, np.ascontiguousarray(vector[: self.n_rows]))
        if self.given is not None:
            add_times(weights, vector[self.n_rows], self.given, self.matrix.n_jobs)
        return weights

    def take_outputs(self, outputs: NDArray[np.bool_]) -> RowSpace:
        given = None if self.given is None else self.given[:, outputs]
        squared = self.squared[outputs]
        return replace(self, given=given, of_given=self.of_given[:, outputs], squared=squared)

    def preconditioned(self, inverse: SampledInverse, vector: Vector) -> Vector:
        n, chosen = self.n_rows, inverse.chosen
        result = vector / inverse.mu
        shares = inverse.row_coefficients(inverse.coefficients_of(vector[n + 1 :][chosen]))
        result[chosen] -= shares
        result[n + 1 :] -= self.matrix.row_products(shares, chosen)
        return result


class RowSpaceRuns(Runs):
    def __init__(
        self,
        space: RowSpace,
        curvature: Curvature,
        alpha: float,
        right: Vector,
        inverse: SampledInverse,
        tol: float,
        n_jobs: int | None,
    ) -> None:
        super().__init__(curvature, right.shape[1], tol, n_jobs)
        self.space, self.alpha, self.inverse = space, alpha, inverse
        self.iterate = self.solution = np.zeros_like(right)
        self.residual, self.decrease = right.copy(), 0.0
        self.direction = space.preconditioned(inverse, self.residual)
        self.energy = self._energy(self.residual, self.direction)
        self.scale = np.sqrt(self.energy)
        self.relative = (self.scale > 0).astype(float)

    @property
    def weights(self) -> Vector:
        self._store()
        return self.solution

    def _curvatures(self) -> FloatArray:
        space, n, direction = self.space, self.space.n_rows, self.direction
        curved, sums = self._apply_curvature(direction[n + 1 :])
        sums += self.alpha * space.product(direction, direction)
        self.product = space.vector(curved)
        add_times(self.product, np.full(len(self.active), self.alpha), direction, self.n_jobs)
        return self._by_run(sums)

    def _advance(self, length: FloatArray) -> FloatArray:
        add_times(self.iterate, length, self.direction, self.n_jobs)
        add_times(self.residual, -length, self.product, self.n_jobs)
        self.preconditioned = self.space.preconditioned(self.inverse, self.residual)
        return self._energy(self.residual, self.preconditioned)

    def _redirect(self, ratio: FloatArray) -> None:
        add_times(self.preconditioned, ratio, self.direction, self.n_jobs)
        self.direction = self.preconditioned

    def _keep(self, keep: NDArray[np.bool_]) -> None:
        self.space, self.product = self.space.take_outputs(keep), np.empty_like(self.residual)

    def _energy(self, residual: Vector, preconditioned: Vector) -> FloatArray:
        return np.maximum(self._by_run(self.space.product(residual, preconditioned)), 0.0)
