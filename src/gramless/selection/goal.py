"""The goal of a fit: the loss that it minimises and the score of validation rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gramless.base.types import IntArray
from gramless.losses import Loss
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.selection.data import Data, Score
from gramless.solvers.base import Solver
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.choose import path_solver
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.monotone import MonotoneBins
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem, columns

ALPHAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
# Penalties are compared by inaccurate solutions, which suffice.
_NEWTON_TOL, _NEWTON_STEPS = 3e-2, 12
_SQUARED_TOL, _SQUARED_STEPS = 1e-2, 24
_SPARSE_TOL = 1e-1
# Mean number of alphas tried in a path, which decides whether a factorisation pays.
_MEAN_ALPHAS_TRIED = 3
# The ends of the path, relative to the smallest l1 penalty for which all weights are zero.
_FIRST_SHARE, _LAST_SHARE, _ALPHAS_A_DECADE = 10.0**-0.5, 1e-4, 4
_MAX_ALPHA = 1.0


class RowScorer(ABC):
    """A user's score of raw predictions of validation rows."""

    name: str

    @property
    @abstractmethod
    def is_gradual(self) -> bool:
        """True if small changes of predictions change the score little, so it can end growth."""

    @abstractmethod
    def __call__(self, raw: Vector, rows: IntArray, loss: float) -> float:
        """Return the score of some rows, lower is better; ``loss`` may break ties."""


@dataclass(frozen=True)
class Goal:
    """The loss and penalty of training rows, and the score of validation rows.

    Attributes
    ----------
    l1_ratio : float
        The share of the penalty that is on absolute weights.
    score : callable
        The score of raw predictions; lower is better.
    scorer : RowScorer, optional
        The user's score, which replaces ``score`` where models are compared.
    signs : array (n_grids,), optional
        For grids over one input, the direction of monotone weights along it, see
        :class:`~gramless.solvers.monotone.MonotoneBins`.
    """

    loss: Loss
    l1_ratio: float
    score: Score
    scorer: RowScorer | None = None
    signs: IntArray | None = None

    @property
    def sparse(self) -> bool:
        return self.l1_ratio > 0

    def scored(self, data: Data, raw: Vector, rows: IntArray) -> tuple[float, float]:
        """Return the score that compares models, and ``score``; they differ with a scorer."""
        loss = self.score(raw, data.targets[rows], data.weights_of(rows))
        return (loss if self.scorer is None else self.scorer(raw, rows, loss)), loss

    def measure(self, data: Data) -> str:
        if self.scorer is not None:
            return self.scorer.name
        return data.measure if self.loss.name == "squared" else f"{self.loss.name} loss"

    def problem(
        self, data: Data, matrix: FeatureMatrix, alpha: float, rows: NDArray[np.intp] | slice
    ) -> Problem:
        penalty = data.penalty(alpha, self.l1_ratio)
        return replace(data.problem(matrix, alpha, rows), loss=self.loss, penalty=penalty)

    def solver(self, problem: Problem, n_jobs: int | None) -> Solver:
        """Return a solver that is just accurate enough to compare penalties."""
        if self.sparse:
            return GridDescent(tol=_SPARSE_TOL, n_jobs=n_jobs)
        if self.loss.name == "squared" and self.signs is None:
            return path_solver(
                problem.matrix,
                problem.row_weights,
                tol=_SQUARED_TOL,
                max_iter=_SQUARED_STEPS,
                n_alphas=_MEAN_ALPHAS_TRIED,
                n_outputs=columns(problem.targets).shape[1],
                n_jobs=n_jobs,
            )
        solver: Solver = NewtonCG(tol=_NEWTON_TOL, max_iter=_NEWTON_STEPS, n_jobs=n_jobs)
        if self.loss.name == "squared":
            solver = ConjugateGradient(tol=_SQUARED_TOL, max_iter=_SQUARED_STEPS, n_jobs=n_jobs)
        return solver if self.signs is None else MonotoneBins(solver, self.signs)

    def alphas(self, problem: Problem) -> Sequence[float]:
        """Return the alphas to try for a problem, from strong to weak."""
        if not self.sparse:
            return ALPHAS
        gradient = problem.loss_gradient(
            np.zeros((problem.matrix.shape[1], *problem.targets.shape[1:]))
        )
        most = float(np.abs(gradient[: len(gradient) - problem.penalty.n_free]).max(initial=0.0))
        first = _FIRST_SHARE * min((most or 1.0) / self.l1_ratio, _MAX_ALPHA)
        decades = np.log10(first / (_LAST_SHARE * (most or 1.0)))
        return [
            first * 10.0 ** (-k / _ALPHAS_A_DECADE)
            for k in range(int(_ALPHAS_A_DECADE * decades + 1.5))
        ]


def mean_loss(loss: Loss) -> Score:
    """Return the score that is the (weighted) mean of a loss, up to a constant."""

    def score(z, y, weight):  # type: ignore[no-untyped-def]
        return float(np.average(loss.by_row(z, y), weights=weight))

    return score


def scaled_score(score: float, factor: float) -> float:
    """Return a score that is worse by a factor above 1, or better by one below.

    Examples
    --------
    >>> scaled_score(2.0, 1.5), scaled_score(-2.0, 1.5)
    (3.0, -1.0)
    """
    return score * factor if score >= 0.0 else score * (2.0 - factor)
