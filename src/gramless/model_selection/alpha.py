"""The penalty for another loss or penalty than the ones that the search solves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gramless.base.types import IntArray
from gramless.losses import Loss
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.model_selection.data import Data, Score
from gramless.model_selection.scoring import RowScorer, scaled_score
from gramless.model_selection.search import ALPHAS, TIME_SHARE, Sample, Search, worse_twice
from gramless.model_selection.search_space import Hyperparameters, Trial
from gramless.solvers.base import Solver
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.choose import path_solver
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.monotone import MonotoneBins
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem, columns

_ROWS = 20_000
_SPARSE_SHARE = 8 / 3
"""L1 is searched with so many times the grids that other penalties are."""
_TOL, _SPARSE_TOL = 3e-2, 1e-1
_STEPS = 12
_SQUARED_TOL, _ITERATIONS = 1e-2, 24
_ALPHAS_JUDGED = 3
"""Of a path, on average."""
_FIRST_SHARE, _LAST_SHARE, _A_DECADE = 10.0**-0.5, 1e-4, 4
"""The path's ends, relative to the l1 from which on all weights are zero, and its density."""
_MOST_ALPHA = 1.0
_TIE = 1.01
"""Of sparse fits whose scores differ by less, the sparsest."""


@dataclass(frozen=True)
class Goal:
    """What is minimised on training rows, and how held-back rows judge it.

    ``l1_ratio`` is the share of the penalty that is on absolute values; ``scorer`` is what a user
    named to choose by, None chooses by ``score``. ``signs`` say of grids over one input which way
    weights go along it, see :class:`~gramless.solvers.monotone.MonotoneBins`.
    """

    loss: Loss
    l1_ratio: float
    score: Score
    scorer: RowScorer | None = None
    signs: IntArray | None = None

    @property
    def sparse(self) -> bool:
        """Whether weights become zero."""
        return self.l1_ratio > 0

    def scored(self, data: Data, raw: Vector, rows: IntArray) -> tuple[float, float]:
        """Return what chooses and ``score``, the same unless there is a scorer, for some rows."""
        loss = self.score(raw, data.targets[rows], data.weights_of(rows))
        return (loss if self.scorer is None else self.scorer(raw, rows, loss)), loss

    def measure(self, data: Data) -> str:
        """Return what chooses, in words."""
        if self.scorer is not None:
            return self.scorer.name
        return data.measure if self.loss.name == "squared" else f"{self.loss.name} loss"

    def problem(
        self, data: Data, matrix: FeatureMatrix, alpha: float, rows: NDArray[np.intp] | slice
    ) -> Problem:
        """Return the problem of some rows, whose matrix is given."""
        penalty = data.penalty(alpha, self.l1_ratio)
        return replace(data.problem(matrix, alpha, rows), loss=self.loss, penalty=penalty)

    def solver(self, problem: Problem, n_jobs: int | None) -> Solver:
        """Return a solver that is good enough to compare alphas, for a problem's matrix."""
        if self.sparse:
            return GridDescent(tol=_SPARSE_TOL, n_jobs=n_jobs)
        if self.signs is not None:
            return MonotoneBins(self._free_solver(n_jobs), self.signs)
        if self.loss.name == "squared":
            return path_solver(
                problem.matrix,
                problem.row_weights,
                tol=_SQUARED_TOL,
                max_iter=_ITERATIONS,
                n_alphas=_ALPHAS_JUDGED,
                n_outputs=columns(problem.targets).shape[1],
                n_jobs=n_jobs,
            )
        return NewtonCG(tol=_TOL, max_iter=_STEPS, n_jobs=n_jobs)

    def _free_solver(self, n_jobs: int | None) -> Solver:
        """Return a solver for a matrix that is not known yet."""
        if self.loss.name == "squared":
            return ConjugateGradient(tol=_SQUARED_TOL, max_iter=_ITERATIONS, n_jobs=n_jobs)
        return NewtonCG(tol=_TOL, max_iter=_STEPS, n_jobs=n_jobs)

    def alphas(self, problem: Problem) -> Sequence[float]:
        """Return alphas from strong to weak for a problem, whatever its own."""
        if not self.sparse:
            return ALPHAS
        gradient = problem.loss_gradient(
            np.zeros((problem.matrix.shape[1], *problem.targets.shape[1:]))
        )
        most = float(np.abs(gradient[: len(gradient) - problem.penalty.n_free]).max(initial=0.0))
        first = _FIRST_SHARE * min((most or 1.0) / self.l1_ratio, _MOST_ALPHA)
        decades = np.log10(first / (_LAST_SHARE * (most or 1.0)))
        return [first * 10.0 ** (-k / _A_DECADE) for k in range(int(_A_DECADE * decades + 1.5))]


def search_alpha(search: Search, settings: Hyperparameters, goal: Goal) -> Hyperparameters:
    """Choose alpha for a goal after a search, its features as chosen; the search gets the trials.

    A path of solutions on at most 20,000 rows and 96 grids (256 where weights become zero; of
    other features as many as the search takes), from strong penalties to weak ones, each from the
    last, until two in a row are worse. Of sparse fits that are as good as the best to 1 %, the
    sparsest. Alpha is scaled to all rows and grids.
    """
    most = search.feature_map.enough_to_search * (_SPARSE_SHARE if goal.sparse else 1)
    sample = Sample(search, _ROWS, int(most), 0.0)
    paths = [_path(search, sample, settings, goal, k) for k in range(len(sample.splits))]
    n_rows, own = len(sample.splits[0][0]), sample.feature_map
    trials = []
    for at in range(min(len(path) for path in paths)):
        alphas, scores, counts, seconds = zip(*(path[at] for path in paths), strict=True)
        alpha, mean = float(np.mean(alphas)), float(np.mean(scores))
        chosen = replace(settings, alpha=alpha)
        told = mean, goal.measure(search.data), counts[0], n_rows, own.size, sum(seconds), [mean]
        trial = Trial("alpha", chosen, *told)
        trials.append(trial)
        search.report(
            "alpha",
            f"{n_rows:>7} rows, {own.size} {own.size_unit}: {goal.loss.name} loss, "
            f"alpha {alpha:.1e} -> {mean:.5f}",
            **trial.as_dict(),
        )
    search.trials.extend(trials)
    least = min(trial.score for trial in trials)
    tie = scaled_score(least, _TIE if goal.sparse else 1.0)
    best = next(t for t in trials if t.score <= tie)
    more = search.data.n_fitted / search.data.mass_of(sample.splits[0][0])
    if not goal.sparse:
        return replace(settings, alpha=best.settings.alpha / more)
    # What noise adds to a bin's gradient falls as 1/sqrt(rows), its value as 1/sqrt(grids).
    finer = search.feature_map.size / own.size
    return replace(settings, alpha=best.settings.alpha / float(np.sqrt(more * finer)))


def _path(
    search: Search, sample: Sample, settings: Hyperparameters, goal: Goal, k: int
) -> list[tuple[float, float, int, float]]:
    """Return each alpha with its score, iterations and seconds on one split."""
    data, (training, validation) = search.data, sample.splits[k]
    _, Z, held_back = sample.matrices(settings, k)
    path, weights, free = [], None, goal.problem(data, Z, 0.0, training)
    solver = goal.solver(free, search.n_jobs)
    for alpha in goal.alphas(free):
        started = time.perf_counter()
        problem = goal.problem(data, Z, alpha, training)
        solution = solver.solve(problem, weights, search.deadline.watch(TIME_SHARE))
        weights = solution.weights
        seconds = time.perf_counter() - started
        score, _ = goal.scored(data, held_back.matvec(weights), validation)
        path.append((alpha, score, solution.n_iter, seconds))
        if worse_twice([entry[1] for entry in path]) or search.is_over("alpha"):
            break
    return path


def mean_loss(loss: Loss) -> Score:
    """Return the score that is the (weighted) mean of a loss, up to a constant."""

    def score(z, y, weight):  # type: ignore[no-untyped-def]
        return float(np.average(loss.by_row(z, y), weights=weight))

    return score
