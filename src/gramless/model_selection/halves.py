"""Two models over the same grids, each of half the rows, judged by the other half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import padded_rows
from gramless.base.threads import map_blocks, thread_count
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.model_selection.alpha import Goal
from gramless.model_selection.data import Data
from gramless.model_selection.scoring import Unexplained
from gramless.solvers.base import Solver
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem
from gramless.solvers.preconditioners import RowSample, SampledRows

_STEP = 0.4
"""Share of what new grids could explain by themselves that they do until the next solve."""
_LEAST_CURVATURE = 0.1
"""In units of the typical one: where a loss is straight, a step along its slope must end too."""
_ITERATIONS, _NEWTON_STEPS, _TOL = 8, 3, 1e-2


@dataclass(frozen=True)
class Half:
    """A model of half the rows.

    Attributes
    ----------
    rows, others : slice
        Rows that it is fitted to, and not.
    weights : tuple of arrays (n_bins, K)
        Of features of value 1; those of some grids each.
    constant : array (K,)
    responses : array (n_rows, K)
        For all rows.
    """

    rows: slice
    others: slice
    weights: tuple[Vector, ...]
    constant: Vector
    responses: Vector


class Halves:
    """Both models, and the bins of all rows.

    Parameters
    ----------
    data : Data
        In random order.
    parts : (slice, slice, slice)
        The rows of each half, and those that judge both models.
    goal : Goal
    most_grids : int
        That there is room for.
    n_jobs : int or None
    """

    def __init__(
        self,
        data: Data,
        parts: tuple[slice, slice, slice],
        goal: Goal,
        most_grids: int,
        n_jobs: int | None,
    ) -> None:
        self.data, self.goal, self.n_jobs = data, goal, n_jobs
        n_rows = data.rows.shape[0]
        first, second, self.judges = parts
        self.row_weights = data.counts_of(np.arange(n_rows))
        weights = np.ones(n_rows) if self.row_weights is None else self.row_weights
        self.unit = goal.loss.typical_curvature(data.targets, weights)
        self.codes = padded_rows((most_grids, n_rows), np.uint16)
        self.offsets = np.zeros(most_grids + 1, np.int64)
        self.count = 0
        self._samples: dict[int, tuple[int, RowSample]] = {}
        """What preconditions each half's problems over so many grids."""
        nothing = np.zeros((n_rows, data.n_outputs))
        self.models = [
            Half(rows, others, (), np.zeros(data.n_outputs), nothing.copy())
            for rows, others in ((first, second), (second, first))
        ]

    def unexplained(self) -> Unexplained:
        """Return what both models leave to be explained."""
        shape = self.models[0].responses.shape
        fitted, judged = np.zeros(shape), np.zeros(shape)
        own, others = np.zeros(shape[0]), np.zeros(shape[0])
        for half in self.models:
            slopes, curvature = self._derivatives(half)
            fitted[half.rows], judged[half.others] = slopes[half.rows], slopes[half.others]
            own[half.rows], others[half.others] = curvature[half.rows], curvature[half.others]
        return Unexplained(fitted, judged, own, others)

    def add(
        self, codes: NDArray[np.unsignedinteger], n_bins: NDArray[np.int64], shrinkage: float
    ) -> None:
        """Add the bins of new grids; both models take a small step along them.

        Parameters
        ----------
        codes : array (n_new, n_rows)
        n_bins : array (n_new,)
            Of each grid.
        shrinkage : float
            Rows' worth of zero that a bin's value is shrunk by.
        """
        n_new, at = len(codes), self.count
        ends = np.cumsum(n_bins)
        self.codes[at : at + n_new] = codes
        self.offsets[at + 1 : at + n_new + 1] = self.offsets[at] + ends
        self.count += n_new
        new = self._matrix(codes, np.append(0, ends))
        for k, half in enumerate(self.models):
            slopes, curvature = self._derivatives(half)
            own = new.take_rows(half.rows)
            size = own.gram_diagonal(curvature[half.rows]) + shrinkage
            step = own.rmatvec(slopes[half.rows]) * (_STEP / n_new / size)[:, None]
            self.models[k] = replace(
                half,
                weights=(*half.weights, step),
                responses=half.responses + new.matvec(step),
            )

    def solved(self, alpha: float) -> tuple[float, list[Half]]:
        """Return the score and both models with all weights solved again.

        Parameters
        ----------
        alpha : float
            Of a model of half the rows.
        """
        matrix = self._matrix(self.codes[: self.count], self.offsets[: self.count + 1])
        calls = [(matrix, k, alpha) for k in range(len(self.models))]
        # Each half on a thread of its own needs no waiting; more threads share each half.
        apart = self.n_jobs if thread_count(self.n_jobs) <= len(calls) else 1
        models = map_blocks(self._solved, calls, apart)
        return self.score(models), models

    def score(self, models: Sequence[Half]) -> float:
        """Return the mean score of the models on the rows that judge them."""
        targets, weight = self.data.targets[self.judges], self.data.sample_weight
        weight = None if weight is None else weight[self.judges]
        responses = [half.responses[self.judges].reshape(targets.shape) for half in models]
        return float(np.mean([self.goal.score(own, targets, weight) for own in responses]))

    def _derivatives(self, half: Half) -> tuple[Vector, NDArray[np.float64]]:
        """Return each row's weighted negative gradient (n, K), and mean curvature (n,).

        In units of the loss's typical curvature, in which the shrinkage counts rows.
        """
        loss, targets, shape = self.goal.loss, self.data.targets, half.responses.shape
        z, unit = half.responses.reshape(targets.shape), self.unit
        slopes = -loss.gradient(z, targets).reshape(shape) / unit
        curvature = loss.curvature(z, targets).reshape(shape).mean(axis=1) / unit
        curvature = np.maximum(curvature, _LEAST_CURVATURE)
        weight = self.row_weights
        if weight is None:
            return slopes, curvature
        return slopes * weight[:, None], curvature * weight

    def _solved(self, matrix: BinnedMatrix, k: int, alpha: float) -> Half:
        data, intercept, half = self.data, self.data.intercept, self.models[k]
        Z: FeatureMatrix = data.matrix(matrix)
        own = data.matrix(matrix.take_rows(half.rows))
        parts = (*half.weights, half.constant[None]) if intercept else half.weights
        start = np.concatenate(parts)
        # Features have the value 1 here, not 1/sqrt(n_grids).
        penalty = data.penalty(alpha * self.count)
        weight = None if data.sample_weight is None else data.sample_weight[half.rows]
        problem = Problem(own, data.targets[half.rows], penalty, self.goal.loss, weight)
        shape = (len(start), *data.targets.shape[1:])
        found = self._solver(problem, k).solve(problem, start.reshape(shape)).weights
        responses = Z.matvec(found).reshape(half.responses.shape)
        weights = found.reshape(start.shape)
        if not intercept:
            return replace(half, weights=(weights,), responses=responses)
        return replace(half, weights=(weights[:-1],), constant=weights[-1], responses=responses)

    def _solver(self, problem: Problem, k: int) -> Solver:
        if self.goal.loss.name != "squared":
            return NewtonCG(tol=_TOL, max_iter=_NEWTON_STEPS, n_jobs=self.n_jobs)
        count, sample = self._samples.get(k, (0, None))
        if sample is None or count != self.count:
            sample = SampledRows().draw(problem.matrix, problem.row_weights)
            self._samples[k] = self.count, sample
        return ConjugateGradient(sample, _TOL, _ITERATIONS, self.n_jobs)

    def _matrix(
        self, codes: NDArray[np.unsignedinteger], offsets: NDArray[np.int64]
    ) -> BinnedMatrix:
        return BinnedMatrix(codes, offsets, scale=1.0, has_unseen=False, n_jobs=self.n_jobs)
