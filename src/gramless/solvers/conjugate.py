"""Conjugate gradients on ``(Z' C Z + ridge) w = right``, many outputs at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import inner
from gramless.loops import conjugate as loops
from gramless.matrices.abilities import SupportsOnePass
from gramless.matrices.base import FeatureMatrix, RowFunction, Vector
from gramless.solvers.long_vectors import over_blocks
from gramless.solvers.preconditioners import Inverse, energy

WORTH_KEEPING = 0.75
"""Dropping outputs copies all others: not before a quarter has converged."""


class Curvature(Protocol):
    """The weights ``C`` between ``Z'`` and ``Z``: one number a row and output, or a K x K block."""

    coupled: ClassVar[bool]

    def apply(self, rows: slice, responses: Vector, active: NDArray[np.intp]) -> None:
        """Multiply responses (m, len(active)) of some rows and outputs in place."""


@dataclass(frozen=True)
class RowCurvature:
    """One number a row, (n_rows, 1), or a row and output, (n_rows, K)."""

    weights: NDArray[np.float64]
    coupled: ClassVar[bool] = False

    def apply(self, rows: slice, responses: Vector, active: NDArray[np.intp]) -> None:
        """Multiply by the outputs' weights."""
        weights = self.weights[rows]
        responses *= weights if weights.shape[1] == 1 else weights[:, active]


@dataclass(frozen=True)
class SoftmaxCurvature:
    """``s (diag(p) - p p')`` of each row, for probabilities ``p`` (n_rows, K)."""

    row_weights: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    coupled: ClassVar[bool] = True

    def apply(self, rows: slice, responses: Vector, active: NDArray[np.intp]) -> None:
        """Multiply by each row's block."""
        p = self.probabilities[rows]
        responses -= np.einsum("nk,nk->n", p, responses)[:, None]
        responses *= p
        responses *= self.row_weights[rows, None]


@dataclass(frozen=True)
class System:
    """The equations: their matrix and right-hand sides (n_columns, K)."""

    matrix: FeatureMatrix
    curvature: Curvature
    ridge: NDArray[np.float64]
    right: Vector

    def times(self, w: Vector, active: NDArray[np.intp], out: Vector | None = None) -> Vector:
        """Return ``Z' C Z w`` of some outputs, without the ridge."""

        def curve(rows: slice, responses: Vector) -> Vector:
            self.curvature.apply(rows, responses, active)
            return responses

        return pull_back(self.matrix, w, curve, out)


class ConjugateRuns:
    """CG runs side by side, on the outputs that have not converged.

    Coupled outputs share their steps: they are one run over all of them.
    """

    def __init__(
        self,
        system: System,
        inverse: Inverse,
        tol: float,
        n_jobs: int | None,
        start: Vector | None = None,
    ) -> None:
        self.system, self.inverse, self.tol, self.n_jobs = system, inverse, tol, n_jobs
        right = system.right
        self.active = np.arange(right.shape[1])
        self.found = np.zeros_like(right) if start is None else start.astype(float)
        self.residual = right.copy()
        if start is not None:
            self.residual -= system.times(self.found, self.active)
            self.residual -= self.found * system.ridge[:, None]
        self.decrease = 0.5 * inner(self.found, right + self.residual)
        self.weights = self.found
        self.room = np.empty_like(right)
        coefficients = inverse.coefficients(self.residual)
        self.energy = by_run(
            energy(inverse, self.residual, coefficients, n_jobs), self.system.curvature
        )
        at_zero = (
            self.energy
            if start is None
            else by_run(energy(inverse, right, n_jobs=n_jobs), self.system.curvature)
        )
        self.scale = np.sqrt(at_zero)
        self.direction = self.residual * inverse.diagonal[:, None]
        inverse.subtract(coefficients, self.direction)
        self.relative = relative_norm(self.energy, self.scale)

    def step(self) -> None:
        """Advance every active output by one iteration."""
        product = self.system.times(self.direction, self.active, self.room)
        curvature = by_run(
            self._over_rows(loops.add_ridge, self.direction, self.system.ridge, product),
            self.system.curvature,
        )
        length = np.divide(
            self.energy, curvature, out=np.zeros_like(curvature), where=curvature > 0
        )
        self.decrease += 0.5 * float(length @ self.energy) / self._runs_in_one()
        whole = self._over_rows(
            partial(loops.advance, length),
            self.direction,
            product,
            self.inverse.diagonal,
            self.weights,
            self.residual,
        )
        coefficients = self.inverse.coefficients(self.residual)
        there = by_run(
            np.maximum(whole - self.inverse.energy(coefficients), 0.0), self.system.curvature
        )
        ratio = np.divide(there, self.energy, out=np.zeros_like(there), where=self.energy > 0)
        self._over_rows(
            lambda residual, inverse, direction, _: loops.redirect(
                ratio, residual, inverse, direction
            ),
            self.residual,
            self.inverse.diagonal,
            self.direction,
        )
        self.inverse.subtract(coefficients, self.direction)
        self.energy = there
        self.relative[self.active] = relative_norm(there, self.scale[self.active])

    def drop_converged(self) -> bool:
        """Forget the outputs that have converged, once they are many; True when all have."""
        keep = self.relative[self.active] > self.tol
        if np.count_nonzero(keep) <= WORTH_KEEPING * len(keep):
            self.result()
            self.active = self.active[keep]
            self.weights = np.ascontiguousarray(self.weights[:, keep])
            self.residual = np.ascontiguousarray(self.residual[:, keep])
            self.direction = np.ascontiguousarray(self.direction[:, keep])
            self.energy = self.energy[keep]
            self.room = np.empty_like(self.residual)
        return not keep.any()

    def result(self) -> Vector:
        """Return the weights of all outputs, (n_columns, K)."""
        if self.weights is not self.found:
            self.found[:, self.active] = self.weights
        return self.found

    def _runs_in_one(self) -> int:
        return len(self.active) if self.system.curvature.coupled else 1

    def _over_rows(self, function: Callable[..., None], *arrays: Vector) -> Vector:
        """Call ``function(*row blocks, sums)`` side by side; return the sums, added in order."""

        def work(first: int, last: int) -> Vector:
            sums = np.zeros(len(self.active))
            function(*(array[first:last] for array in arrays), sums)
            return sums

        return np.sum(over_blocks(work, self.residual, self.n_jobs), axis=0)


def by_run(sums: Vector, curvature: Curvature) -> Vector:
    """Return each run's sum, given the outputs': of all outputs where they are coupled."""
    return np.full_like(sums, sums.sum()) if curvature.coupled else sums


def relative_norm(energy: Vector, scale: Vector) -> Vector:
    """Return each run's norm, given its square, relative to a scale; that itself where it is 0."""
    norm = np.sqrt(np.maximum(energy, 0.0))
    return np.divide(norm, scale, out=norm, where=scale > 0)


def pull_back(
    matrix: FeatureMatrix, w: Vector, function: RowFunction, out: Vector | None = None
) -> Vector:
    """Return ``Z.T @ function(rows, Z @ w)`` for ``w`` (n_columns, K), in one pass if it can be.

    Where features are computed as they are needed, one pass costs half of two.
    ``function`` gets responses (m, K) of a slice of the rows, which it may write over.
    """
    if not isinstance(matrix, SupportsOnePass):
        return rmatvec(matrix, function(slice(None), matvec(matrix, w)), out)
    if w.shape[1] > 1:
        return matrix.pull_back(w, function, out)
    narrow = None if out is None else out[:, 0]
    product = matrix.pull_back(w[:, 0], lambda rows, v: function(rows, v[:, None])[:, 0], narrow)
    return product[:, None]


def matvec(matrix: FeatureMatrix, w: Vector) -> Vector:
    """Return ``Z @ w`` for ``w`` (n_columns, K), one column as a vector: that is faster."""
    return matrix.matvec(w[:, 0])[:, None] if w.shape[1] == 1 else matrix.matvec(w)


def rmatvec(matrix: FeatureMatrix, v: Vector, out: Vector | None = None) -> Vector:
    """Return ``Z.T @ v`` for ``v`` (n_rows, K)."""
    if v.shape[1] == 1:
        return matrix.rmatvec(v[:, 0], None if out is None else out[:, 0])[:, None]
    return matrix.rmatvec(v, out)
