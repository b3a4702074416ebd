"""Conjugate gradients where rows are fewer than columns: nothing is as long as the columns.

Every vector of the run lies in the span of the right-hand side ``g`` and the rows:
``t g + Z' u``. It is kept as ``t`` and ``u``, with its responses ``Z (t g + Z' u)``, so that
inner products need no column. A product passes through the columns once and leaves nothing there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from gramless.matrices.base import FeatureMatrix, Vector
from gramless.solvers.conjugate import System, matvec, rmatvec
from gramless.solvers.long_vectors import add_times, weighted_inner
from gramless.solvers.preconditioners import Inverse, SampledInverse

_WORTH_KEEPING = 0.75
"""Dropping outputs copies all others: not before a quarter has converged."""


def fit_for_rows(inverse: Inverse, matrix: FeatureMatrix) -> TypeGuard[SampledInverse]:
    """Tell whether runs can be shorter in the space of rows, and as exact."""
    n_rows, n_columns = matrix.shape
    # Where the sample is all rows, inner products without columns cancel too many digits.
    return isinstance(inverse, SampledInverse) and len(inverse.chosen) < n_rows < n_columns


@dataclass
class _Vectors:
    """``t g + Z' u`` of each output: shares (K,) and (n_rows, K)."""

    of_right: NDArray[np.float64]
    of_rows: Vector

    def add(self, length: NDArray[np.float64], other: _Vectors) -> None:
        """Add other vectors, each times a number."""
        self.of_right = self.of_right + length * other.of_right
        self.of_rows += length * other.of_rows

    def kept(self, keep: NDArray[np.bool_]) -> _Vectors:
        """Return those of some outputs."""
        return _Vectors(self.of_right[keep], np.ascontiguousarray(self.of_rows[:, keep]))


class RowRuns:
    """:class:`~gramless.solvers.conjugate.ConjugateRuns` for one ridge and sampled rows.

    The same iterates but for rounding. A step makes a product with the transpose, the two with
    the sampled rows, and a product: columns are written once and read once. Memory for eight
    vectors of ``n_rows`` and two of ``n_columns`` an output.

    Parameters
    ----------
    system : System
        With the same ridge for all columns.
    inverse : SampledInverse
        Of rows of the system's matrix.
    tol : float
        As for ``ConjugateRuns``: of the residual in the preconditioner's norm.
    n_jobs : int or None
        Threads for the vector work.
    """

    def __init__(
        self, system: System, inverse: SampledInverse, tol: float, n_jobs: int | None
    ) -> None:
        self.system, self.inverse, self.tol, self.n_jobs = system, inverse, tol, n_jobs
        self.alpha = float(system.ridge[0])
        n_rows, n_outputs = system.matrix.shape[0], system.right.shape[1]
        self.active = np.arange(n_outputs)
        self.right_responses = matvec(system.matrix, system.right)
        ones = np.ones(len(system.right))
        self.right_squared = weighted_inner(ones, system.right, system.right, n_jobs)
        self.room = np.empty_like(system.right)
        self.found = _Vectors(np.zeros(n_outputs), np.zeros((n_rows, n_outputs)))
        self.weights = self.found
        self.residual = _Vectors(np.ones(n_outputs), np.zeros((n_rows, n_outputs)))
        self.direction, self.responses = self._preconditioned()
        self.energy = self._inner(self.residual, self.direction, self.responses)
        self.scale = np.sqrt(self.energy)
        self.relative = np.where(self.scale > 0, 1.0, 0.0)

    def step(self) -> None:
        """Advance every active output by one iteration."""
        curved = self.responses.copy()
        self.system.curvature.apply(slice(None), curved, self.active)
        curvature = self._sum(np.einsum("nk,nk->k", self.responses, curved))
        curvature += self.alpha * self._inner(self.direction, self.direction, self.responses)
        length = np.divide(
            self.energy, curvature, out=np.zeros_like(curvature), where=curvature > 0
        )
        self.weights.add(length, self.direction)
        self.residual.add(-length * self.alpha, self.direction)
        self.residual.of_rows -= length * curved
        towards, responses = self._preconditioned()
        there = self._inner(self.residual, towards, responses)
        ratio = np.divide(there, self.energy, out=np.zeros_like(there), where=self.energy > 0)
        towards.add(ratio, self.direction)
        responses += ratio * self.responses
        self.direction, self.responses, self.energy = towards, responses, there
        self.relative[self.active] = np.divide(
            np.sqrt(there), self.scale[self.active], out=np.zeros_like(there), where=there > 0
        )

    def drop_converged(self) -> bool:
        """Forget the outputs that have converged, once they are many; True when all have."""
        keep = self.relative[self.active] > self.tol
        if np.count_nonzero(keep) <= _WORTH_KEEPING * len(keep):
            self._store()
            self.active, self.energy = self.active[keep], self.energy[keep]
            self.weights, self.residual = self.weights.kept(keep), self.residual.kept(keep)
            self.direction = self.direction.kept(keep)
            self.responses = np.ascontiguousarray(self.responses[:, keep])
            self.right_responses = np.ascontiguousarray(self.right_responses[:, keep])
            self.right_squared = self.right_squared[keep]
            self.room = np.empty((len(self.room), len(self.active)))
        return not keep.any()

    def result(self) -> Vector:
        """Return the weights of all outputs, (n_columns, K)."""
        self._store()
        weights = rmatvec(self.system.matrix, self.found.of_rows)
        add_times(weights, self.found.of_right, self.system.right, self.n_jobs)
        return weights

    def _preconditioned(self) -> tuple[_Vectors, Vector]:
        """Return the inverse times the residual, and its responses."""
        inverse, mu = self.inverse, self.inverse.mu
        scaled = _Vectors(self.residual.of_right / mu, self.residual.of_rows / mu)
        columns = rmatvec(self.system.matrix, scaled.of_rows, self.room)
        # The right-hand side's part of the residual is not among the columns.
        there = self.right_responses[inverse.chosen] * self.residual.of_right
        coefficients = inverse.solved(mu * matvec(inverse.rows, columns) + there)
        inverse.subtract(coefficients, columns)
        scaled.of_rows[inverse.chosen] -= inverse.subtracted(coefficients)
        responses = matvec(self.system.matrix, columns)
        responses += scaled.of_right * self.right_responses
        return scaled, responses

    def _inner(self, a: _Vectors, b: _Vectors, responses: Vector) -> NDArray[np.float64]:
        """Return each run's ``a' b``, given the responses to ``b``; never below zero."""
        with_right = b.of_right * self.right_squared
        with_right += np.einsum("nk,nk->k", b.of_rows, self.right_responses)
        sums = a.of_right * with_right + np.einsum("nk,nk->k", a.of_rows, responses)
        return np.maximum(self._sum(sums), 0.0)

    def _sum(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each run's sum: of all outputs where they are coupled."""
        return np.full_like(sums, sums.sum()) if self.system.curvature.coupled else sums

    def _store(self) -> None:
        """Write the active outputs' weights among those of all."""
        if self.weights is not self.found:
            self.found.of_right[self.active] = self.weights.of_right
            self.found.of_rows[:, self.active] = self.weights.of_rows
