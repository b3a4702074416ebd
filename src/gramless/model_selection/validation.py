"""Features fitted to most of the rows and validated on the others, along a path of penalties."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gramless.base.compact import rounded_to_multiples
from gramless.base.deadline import Watch
from gramless.base.memory import release_freed_memory
from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray, IntArray
from gramless.losses import Loss
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.scaled_bins import plain_matrix, unscaled_weights
from gramless.model_selection.alpha import Goal
from gramless.model_selection.data import Data
from gramless.model_selection.scoring import scaled_score
from gramless.model_selection.search import Search
from gramless.model_selection.search_space import Hyperparameters, Trial
from gramless.model_selection.splits import Split
from gramless.solvers.base import Solver
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.newton_cg import NewtonCG

NEARBY = (10.0**0.5, 10.0**-0.5)
"""The factors by which the penalty is changed, in this order, for as long as that helps."""
_MOST_STEPS = 8
_WARM_SHARE, _WARM_NEWTON_SHARE, _FEW_ROWS = 0.2, 0.04, 2000
"""Of the tolerance: a start may meet it before columns that are new have any weight. Newton's
method measures it in the metric there, where the gradient at zero is larger; scores of few rows
vary too much for the difference to matter."""
_TIE = 1.001
"""Of penalties whose scores differ by less, the strongest."""
_CLEARLY_WORSE, _NEXT_FALL, _FIRST_CHECK = 1.02, 0.5, 4
"""A fit ends early if its score is more than this multiple of the score to beat, and if half of
its last improvement would not close the gap. Conjugate gradients are checked from the fourth
iteration on."""
_SHARE_OF_ERROR, _LEAST_TOL = 0.05, 1e-4
"""Of the error that is left, what solutions along the path may be off by."""
_TIME_SHARE = 0.7
"""Of a time budget: the rest is for the final fit."""
_MOST_LOST = 1e-3
"""Of the loss of rows held back, by rounding."""
_FINEST = 2.0**-22
"""Of the largest weight: steps as fine as single precision need no rows that judge them."""
_HALVINGS = 6
"""Of the powers of two between the finest step and the largest weight."""


@dataclass(frozen=True, eq=False)
class ValidationResult:
    """What rows held back said of features.

    Attributes
    ----------
    alpha : float
        The best penalty, times the number of rows that were fitted to: this product is kept when
        the number of rows changes.
    score, loss : float
        What chose, and the goal's own score, which is the same unless a user named another.
    rows, raw : arrays (n_held_back,), (n_held_back,) or (n_held_back, K)
        Which rows were held back, and their raw predictions.
    weights : array (n_columns,) or (n_columns, K), or None
        Of the fit, that of the intercept last if there is one; None after several fits.
    trials : list of dict
        ``alpha`` (of the mean loss), ``score``, ``n_iter`` and ``seconds`` of each penalty.
    """

    alpha: float
    score: float
    loss: float
    rows: IntArray = field(repr=False)
    raw: Vector = field(repr=False)
    weights: Vector | None = field(repr=False)
    trials: list[dict[str, float]] = field(repr=False, default_factory=list)

    def of_rows(self, chosen: slice) -> ValidationResult:
        """Return what some of the rows held back said."""
        return replace(self, rows=self.rows[chosen], raw=self.raw[chosen])


def validate(
    search: Search,
    goal: Goal,
    matrix: FeatureMatrix,
    split: tuple[IntArray, IntArray],
    alpha: float,
    start: Vector | None = None,
    beat: float = np.inf,
) -> ValidationResult:
    """Fit to the training rows of a split and score the others.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
        Features of the training rows, then of those held back, without the intercept's column.
    alpha : float
        The penalty, times the number of training rows, by their weights where these count rows.
    start : array (n_columns,) or (n_columns, K), optional
        Weights to start from, that of the intercept last if there is one.
    beat : float
        The score to beat. A fit that is clearly worse and improves too slowly ends early.
    """
    release_freed_memory()
    path = _Path(search, goal, matrix, split)
    path.solve(alpha, start, beat)
    return path.found[alpha]


def improve_alpha(
    search: Search,
    goal: Goal,
    matrix: FeatureMatrix,
    split: tuple[IntArray, IntArray],
    found: ValidationResult,
) -> ValidationResult:
    """Return the result of the best penalty near that of a result of :func:`validate`.

    The penalty is multiplied by the first of some factors, again and again, while that lowers the
    score; by the next one if the first does not help. Which factors these are depends on the loss.
    The trials are those made here.
    """
    path = _Path(search, goal, matrix, split)
    path.found[found.alpha] = replace(found, trials=[])
    for factor in _nearby(goal.loss):
        at, moved = path.best.alpha, False
        for _ in range(_MOST_STEPS):
            if search.deadline.beyond(_TIME_SHARE):
                break
            path.solve(at * factor, path.found[at].weights, path.best.score)
            if path.found[at * factor].score >= path.found[at].score:
                break
            at, moved = at * factor, True
        if moved:
            break
    least = path.best.score
    best = max(tried for tried, own in path.found.items() if own.score <= scaled_score(least, _TIE))
    trials = [trial for own in path.found.values() for trial in own.trials]
    return replace(path.found[best], trials=trials)


def _nearby(loss: Loss) -> tuple[float, ...]:
    """Return the factors of :data:`NEARBY` that are tried for a loss, in their order."""
    # Weakly penalised fits take longest; for classes they help least.
    return NEARBY[:1] if loss.is_of_classes else NEARBY


def record(
    search: Search,
    goal: Goal,
    stage: str,
    settings: Hyperparameters,
    found: ValidationResult,
    n_rows: int,
    size: int,
    what: str | None = None,
) -> None:
    """Add what was validated to the trials of a search, and report it in some words."""
    for trial in found.trials:
        tried = replace(settings, alpha=trial["alpha"])
        score, n_iter, seconds = trial["score"], int(trial["n_iter"]), trial["seconds"]
        told = score, goal.measure(search.data), n_iter, n_rows, size, seconds, [score]
        search.trials.append(Trial(stage, tried, *told))
    what = what or f"{size} {settings.grids} {search.feature_map.size_unit}"
    search.report(
        stage,
        f"{n_rows:>7} rows, {what}, alpha {found.alpha / n_rows:.1e} -> {found.score:.5f}",
        n_rows=n_rows,
        size=size,
        alpha=found.alpha / n_rows,
        score=found.score,
    )


def joined(results: Sequence[ValidationResult]) -> ValidationResult:
    """Return the results of several splits as one, their scores averaged."""
    return ValidationResult(
        float(np.mean([own.alpha for own in results])),
        float(np.mean([own.score for own in results])),
        float(np.mean([own.loss for own in results])),
        np.concatenate([own.rows for own in results]),
        np.concatenate([own.raw for own in results]),
        results[0].weights if len(results) == 1 else None,
        [trial for own in results for trial in own.trials],
    )


class _Path:
    """Solutions over one matrix by their penalties."""

    def __init__(
        self, search: Search, goal: Goal, matrix: FeatureMatrix, split: tuple[IntArray, IntArray]
    ) -> None:
        self.data, self.goal, self.n_jobs = search.data, goal, search.n_jobs
        self.watch = search.deadline.watch(_TIME_SHARE)
        self.training, self.held_back = split
        n = len(self.training)
        self.own = self.data.matrix(matrix.take_rows(slice(0, n)))
        self.others = self.data.matrix(matrix.take_rows(slice(n, n + len(self.held_back))))
        self.found: dict[float, ValidationResult] = {}
        self.solver: Solver | None = None

    @property
    def best(self) -> ValidationResult:
        """That of the penalty with the least score."""
        return min(self.found.values(), key=lambda own: own.score)

    def solve(self, alpha: float, start: Vector | None, beat: float = np.inf) -> None:
        """Solve the problem of the training rows for ``alpha`` over their number.

        The solve ends early once it is clear that its score will stay above ``beat``.
        """
        begun, strength = time.perf_counter(), alpha / self.data.mass_of(self.training)
        problem = self.goal.problem(self.data, self.own, strength, self.training)
        if self.solver is None:
            self.solver = self.goal.solver(problem, self.n_jobs)
            if isinstance(self.solver, NewtonCG | ConjugateGradient) and start is not None:
                newton = isinstance(self.solver, NewtonCG) and not self.goal.loss.straight
                newton &= len(self.training) + len(self.held_back) >= _FEW_ROWS
                share = _WARM_NEWTON_SHARE if newton else _WARM_SHARE
                self.solver = replace(self.solver, tol=share * self.solver.tol)
        if isinstance(self.solver, ConjugateGradient) and self.found:
            self.solver = replace(self.solver, tol=self._tol(self.solver.tol))
        with one_blas_thread():  # A solve enters it hundreds of times, which takes time alone.
            solution = self.solver.solve(problem, start, self._check(start, beat))
        raw = self.others.matvec(solution.weights)
        score, loss = self.goal.scored(self.data, raw, self.held_back)
        told = {"alpha": strength, "score": score, "n_iter": solution.n_iter}
        trials = [{**told, "seconds": time.perf_counter() - begun}]
        self.found[alpha] = ValidationResult(
            alpha, score, loss, self.held_back, raw, solution.weights, trials
        )

    def _check(self, start: Vector | None, beat: float) -> Watch | None:
        """Return what ends a solve: the deadline, or a score that stays above another."""
        if not (np.isfinite(beat) and isinstance(self.solver, NewtonCG | ConjugateGradient)):
            return self.watch

        def score(weights: Vector) -> float:
            return self.goal.scored(self.data, self.others.matvec(weights), self.held_back)[0]

        prospects = _Prospects(score, beat, np.inf if start is None else score(start))
        stops = (lambda iteration: False) if self.watch is None else self.watch.stops
        first = 1 if isinstance(self.solver, NewtonCG) else _FIRST_CHECK
        return Watch(stops, prospects.are_poor, first)

    def _tol(self, tol: float) -> float:
        """Return a tolerance that is well below the error that is left.

        Where targets are nearly without noise, a solution meets the usual tolerance for penalties
        nearby too: the path would end where it begins.
        """
        error = relative_error(self.goal, self.best)
        return min(tol, max(_SHARE_OF_ERROR * error, _LEAST_TOL))


@dataclass
class _Prospects:
    """Whether a fit that goes on can still reach the score to beat, judged by its last two."""

    score: Callable[[Vector], float]
    beat: float
    last: float

    def are_poor(self, weights: Vector) -> bool:
        """Tell whether the score is clearly worse and has hardly improved since the last check."""
        score = self.score(weights)
        fall, self.last = self.last - score, score
        clearly_worse = score > scaled_score(self.beat, _CLEARLY_WORSE)
        return clearly_worse and _NEXT_FALL * fall < score - self.beat


def relative_error(goal: Goal, found: ValidationResult) -> float:
    """Return the root of the validation loss, for targets of variance 1; 1 for other losses.

    Where targets are nearly without noise, the final solve must be closer than the error that is
    left.
    """
    if goal.loss.name != "squared":
        return 1.0
    n_outputs = 1 if found.raw.ndim == 1 else found.raw.shape[1]
    return float(np.sqrt(max(found.loss, 0.0) / n_outputs))


def coarsest_step(
    goal: Goal, data: Data, matrix: FeatureMatrix, split: Split, weights: Vector | None
) -> float:
    """Return the largest step of which weights may be multiples.

    Rounded weights must not raise the mean loss of the rows held back by more than a thousandth,
    twice its standard error included. Weights smaller than half a step become zero, and their bins
    are forgotten.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
        Features of the training rows of the split, then of those held back, without the intercept's
        column.
    weights : array (n_columns,) or (n_columns, K)
        Of a fit to the training rows, that of the intercept last if there is one; None after
        several fits. Those of scaled bins count as weights of the bins themselves.

    Returns
    -------
    float
        Zero where all weights are, or none are given.

    Notes
    -----
    Takes seven products of the features of the rows held back.
    """
    if weights is None:
        return 0.0
    weights, matrix = unscaled_weights(matrix, weights), plain_matrix(matrix)
    n, n_bound = len(split[0]), matrix.shape[1]
    others = data.matrix(matrix.take_rows(slice(n, n + len(split[1]))))
    judges = _Judges.of(goal, data, split, others.matvec(weights))
    largest = float(np.abs(weights[:n_bound]).max())
    if largest == 0.0:
        return 0.0

    rounded = weights.copy()

    def is_fine(step: float) -> bool:
        rounded_to_multiples(weights[:n_bound], step, matrix.n_jobs, out=rounded[:n_bound])
        return judges.lost(others.matvec(rounded)) <= _MOST_LOST

    low, high = np.log2(_FINEST), 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_fine(largest * 2.0**middle) else (low, middle)
    return largest * float(2.0**low)


@dataclass(frozen=True, eq=False)
class _Judges:
    """Rows held back, and their losses without any rounding."""

    goal: Goal
    targets: Vector
    weights: FloatArray
    losses: FloatArray
    mean: float

    @classmethod
    def of(cls, goal: Goal, data: Data, split: Split, raw: Vector) -> _Judges:
        """Return the rows held back, with their raw predictions."""
        rows = split[1]
        counts, targets = data.counts_of(rows), data.targets[rows]
        weights = np.ones(len(rows)) if counts is None else counts
        losses = goal.loss.by_row(raw, targets)
        return cls(goal, targets, weights, losses, abs(float(np.average(losses, weights=weights))))

    def lost(self, raw: Vector) -> float:
        """Return by which share other predictions raise the mean loss, at worst."""
        more = self.goal.loss.by_row(raw, self.targets) - self.losses
        mean = np.average(more, weights=self.weights)
        error = np.sqrt(np.average((more - mean) ** 2, weights=self.weights) / len(more))
        return float(mean + 2.0 * error) / self.mean if self.mean > 0.0 else np.inf
