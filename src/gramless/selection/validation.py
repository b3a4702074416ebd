"""Fits to the training rows of a split, scored on its validation rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gramless.base.memory import release_freed_memory
from gramless.base.progress import Watch
from gramless.base.threads import one_blas_thread
from gramless.base.types import IntArray
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.row_products import SingleRowProducts, single_row_gram, weighted_sum
from gramless.matrices.stacked import HStack, stacked_parts
from gramless.selection.goal import Goal, scaled_score
from gramless.selection.splits import Split
from gramless.selection.task import Hyperparameters, SelectionTask, Trial
from gramless.solvers.base import Solver
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.newton_cg import NewtonCG

# The penalty is multiplied by one of these for as long as the score falls.
NEARBY = (10.0**0.5, 10.0**-0.5)
_MAX_STEPS = 8
_TIE = 1.001  # the strongest penalty within this factor of the best score is selected
# A warm start may meet the usual tolerance before new columns have any weight. Newton's method
# measures its tolerance relative to the gradient at zero, which is larger; with few rows the scores
# vary too much for the difference to matter.
_WARM_SHARE, _WARM_NEWTON_SHARE, _FEW_ROWS = 0.2, 0.04, 2000
# The tolerance, relative to the error that remains, and its minimum.
_SHARE_OF_ERROR, _MIN_TOL = 0.05, 1e-4
_TIME_SHARE = 0.7  # fraction of the time budget; the final fit needs the remaining time
# A fit ends early if its score is this factor above the best, and this share of its last
# improvement would not close the gap. The factor exceeds that of ties, so no such fit is selected.
# Losses are convex: a fit that starts from the best weights and ends worse gets worse on the way.
_CLEARLY_WORSE, _NEXT_FALL = 1.002, 0.5
_FIRST_CHECK = 4  # iterations of conjugate gradients before their first check
# Between these numbers of rows their Gram matrix is computed once. Fewer rows take no time, and
# sums over them would lose digits: nearly all of them precondition.
_MIN_GRAM_ROWS, _MAX_GRAM_ROWS = 600, 2500


@dataclass(frozen=True, kw_only=True, eq=False)
class ValidationResult:
    """How well features predict rows that they were not fitted to.

    Attributes
    ----------
    alpha : float
        The best penalty, times the number of training rows: this product is kept when the number
        of rows changes.
    score, loss : float
        The score that compares candidates, and the goal's score; they differ only if the user gave
        a scorer.
    rows, raw : arrays (n_rows,), (n_rows,) or (n_rows, K)
        The validation rows, and their raw predictions.
    weights : array (n_columns,) or (n_columns, K), or None
        The weights of the fit, with the intercept last; None after cross-validation.
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
        return replace(self, rows=self.rows[chosen], raw=self.raw[chosen])


def validate(
    task: SelectionTask,
    goal: Goal,
    matrix: FeatureMatrix,
    split: Split,
    alpha: float,
    start: Vector | None = None,
    beat: float = np.inf,
) -> ValidationResult:
    """Fit to the training rows of a split and score its validation rows.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
        Features of the training rows, then of the validation rows, without the intercept's column.
    alpha : float
        The penalty, times the number of training rows, by their weights if these count rows.
    start : array (n_columns,) or (n_columns, K), optional
        Weights to start from, that of the intercept last if there is one.
    beat : float
        The score to beat. A fit that is clearly worse and improves too slowly ends early.
    """
    release_freed_memory()
    return PenaltyPath(task, goal, matrix, split).solve(alpha, start, beat)


def improve_alpha(
    task: SelectionTask,
    goal: Goal,
    matrix: FeatureMatrix,
    split: Split,
    first: ValidationResult,
) -> ValidationResult:
    """Return the result of the best penalty near that of ``first``, a result of :func:`validate`.

    The penalty is multiplied by a factor, at most eight times, while that lowers the score; by
    another factor if the first does not help and targets are not classes. No fit starts after 70 %
    of the time budget. Of penalties whose scores are within 0.1 % of the best, the strongest is
    selected. The result contains only the trials made here.
    """
    path = PenaltyPath(task, goal, matrix, split)
    path.results[first.alpha] = replace(first, trials=[])
    # For classes, weakly penalised fits take longest and help least.
    for factor in NEARBY[:1] if goal.loss.is_of_classes else NEARBY:
        alpha, has_moved = path.best.alpha, False
        for _ in range(_MAX_STEPS):
            if task.budget.deadline.is_past(_TIME_SHARE):
                break
            last = path.results[alpha]
            if path.solve(alpha * factor, last.weights, path.best.score).score >= last.score:
                break
            alpha, has_moved = alpha * factor, True
        if has_moved:
            break
    tie = scaled_score(path.best.score, _TIE)
    best = max(alpha for alpha, result in path.results.items() if result.score <= tie)
    trials = [trial for result in path.results.values() for trial in result.trials]
    return replace(path.results[best], trials=trials)


def record(
    task: SelectionTask,
    goal: Goal,
    stage: str,
    settings: Hyperparameters,
    result: ValidationResult,
    n_rows: int,
    size: int,
    description: str | None = None,
) -> None:
    for trial in result.trials:
        task.trials.append(
            Trial(
                stage=stage,
                settings=replace(settings, alpha=trial["alpha"]),
                score=trial["score"],
                measure=goal.measure(task.data),
                n_iter=int(trial["n_iter"]),
                n_rows=n_rows,
                size=size,
                seconds=trial["seconds"],
                curve=[trial["score"]],
            )
        )
    description = description or f"{size} {settings.grids} {task.feature_map.size_unit}"
    alpha = result.alpha / n_rows
    task.report(
        stage,
        f"{n_rows:>7} rows, {description}, alpha {alpha:.1e} -> {result.score:.5f}",
        n_rows=n_rows,
        size=size,
        alpha=alpha,
        score=result.score,
    )


def joined(results: Sequence[ValidationResult]) -> ValidationResult:
    """Return the results of several splits as one, with scores, losses and alphas averaged."""
    return ValidationResult(
        alpha=float(np.mean([result.alpha for result in results])),
        score=float(np.mean([result.score for result in results])),
        loss=float(np.mean([result.loss for result in results])),
        rows=np.concatenate([result.rows for result in results]),
        raw=np.concatenate([result.raw for result in results]),
        weights=results[0].weights if len(results) == 1 else None,
        trials=[trial for result in results for trial in result.trials],
    )


class PenaltyPath:
    """Fits with several penalties to the training rows of a split, with one solver.

    The arguments are those of :func:`validate`.
    """

    def __init__(
        self, task: SelectionTask, goal: Goal, matrix: FeatureMatrix, split: Split
    ) -> None:
        self.data, self.goal, self.n_jobs = task.data, goal, task.n_jobs
        self.watch = task.budget.deadline.watch(_TIME_SHARE)
        self.training, self.validation = split
        n = len(self.training)
        self.training_matrix = self.data.matrix(matrix.take_rows(slice(0, n)))
        validation_rows = slice(n, n + len(self.validation))
        self.validation_matrix = self.data.matrix(matrix.take_rows(validation_rows))
        self.results: dict[float, ValidationResult] = {}
        self.solver: Solver | None = None

    @property
    def best(self) -> ValidationResult:
        return min(self.results.values(), key=lambda result: result.score)

    def solve(
        self, alpha: float, start: Vector | None = None, beat: float = np.inf
    ) -> ValidationResult:
        """Fit with the penalty ``alpha`` over the number of training rows, and keep the result.

        The solve ends early once it is clear that its score will stay above ``beat``.
        """
        begun, mean_alpha = time.perf_counter(), alpha / self.data.mass_of(self.training)
        problem = self.goal.problem(self.data, self.training_matrix, mean_alpha, self.training)
        if self.solver is None:
            self.solver = self.goal.solver(problem, self.n_jobs)
            if isinstance(self.solver, NewtonCG | ConjugateGradient) and start is not None:
                is_newton = isinstance(self.solver, NewtonCG)
                has_many_rows = len(self.training) + len(self.validation) >= _FEW_ROWS
                is_strict = is_newton and has_many_rows and not self.goal.loss.is_piecewise_linear
                share = _WARM_NEWTON_SHARE if is_strict else _WARM_SHARE
                self.solver = replace(self.solver, tol=share * self.solver.tol)
        if isinstance(self.solver, ConjugateGradient) and self.results:
            # If targets are nearly without noise, a solution meets the usual tolerance for nearby
            # penalties too, and the path would end where it begins.
            tol = max(_SHARE_OF_ERROR * relative_error(self.goal, self.best), _MIN_TOL)
            self.solver = replace(self.solver, tol=min(self.solver.tol, tol))
        # The solver enters this context hundreds of times, which is faster if it is active already.
        with one_blas_thread():
            solution = self.solver.solve(problem, start, self._callback(start, beat))
        raw = self.validation_matrix.matvec(solution.weights)
        score, loss = self.goal.scored(self.data, raw, self.validation)
        trial = {
            "alpha": mean_alpha,
            "score": score,
            "n_iter": solution.n_iter,
            "seconds": time.perf_counter() - begun,
        }
        self.results[alpha] = ValidationResult(
            alpha=alpha,
            score=score,
            loss=loss,
            rows=self.validation,
            raw=raw,
            weights=solution.weights,
            trials=[trial],
        )
        return self.results[alpha]

    def _callback(self, start: Vector | None, beat: float) -> Watch | None:
        """Return the deadline as a watch of a solve, with early stopping if ``beat`` is given."""
        if not (np.isfinite(beat) and isinstance(self.solver, NewtonCG | ConjugateGradient)):
            return self.watch

        def score(weights: Vector) -> float:
            raw = self.validation_matrix.matvec(weights)
            return self.goal.scored(self.data, raw, self.validation)[0]

        early = EarlyStopping(score, beat, np.inf if start is None else score(start))
        stops = (lambda iteration: False) if self.watch is None else self.watch.stops
        first = 1 if isinstance(self.solver, NewtonCG) else _FIRST_CHECK
        return Watch(stops, early.should_stop, first)


@dataclass
class EarlyStopping:
    """Ends a fit that can no longer beat the best score.

    The fit is clearly worse, and half of its last improvement would not close the gap.
    """

    score: Callable[[Vector], float]
    beat: float
    last: float

    def should_stop(self, weights: Vector) -> bool:
        score = self.score(weights)
        improvement, self.last = self.last - score, score
        is_clearly_worse = score > scaled_score(self.beat, _CLEARLY_WORSE)
        return is_clearly_worse and _NEXT_FALL * improvement < score - self.beat


def relative_error(goal: Goal, result: ValidationResult) -> float:
    """Return the root of the validation loss, for targets of variance 1; 1 for other losses.

    If targets are nearly without noise, the error of the final solve must be smaller than this.
    """
    if goal.loss.name != "squared":
        return 1.0
    n_outputs = 1 if result.raw.ndim == 1 else result.raw.shape[1]
    return float(np.sqrt(max(result.loss, 0.0) / n_outputs))


class RowGrams:
    """Gram matrices of the rows of features, shared by trials."""

    def __init__(self, task: SelectionTask) -> None:
        self._known: list[tuple[FeatureMatrix, NDArray[np.float32]]] = []

    def of(self, matrix: FeatureMatrix) -> NDArray[np.float32]:
        """Return the Gram matrix; that of stacked features is the sum over the parts."""
        for known, gram in self._known:
            if known is matrix:
                return gram
        if isinstance(matrix, HStack):
            parts = [(np.float32(scale**2), self.of(part)) for scale, part in stacked_parts(matrix)]
            gram = weighted_sum(parts, matrix.n_jobs)
        else:
            gram = single_row_gram(matrix)
        self._known.append((matrix, gram))
        return gram


def with_row_products(task: SelectionTask, goal: Goal, matrix: FeatureMatrix) -> FeatureMatrix:
    """Return features with single-precision row products if they make Newton's method faster.

    With 600 to 2,500 rows and more columns than rows, the products use the Gram matrix of the rows.
    Otherwise several outputs are needed. The matrix is returned unchanged if these conditions do
    not hold, and for fits that take no Newton steps or have an intercept or signs.
    """
    data, loss = task.data, goal.loss
    takes_newton_steps = loss.name != "squared" and not (goal.sparse or loss.is_piecewise_linear)
    if not takes_newton_steps or data.intercept or goal.signs is not None:
        return matrix
    if not matrix.has_row_products:
        return matrix
    n_rows, n_columns = matrix.shape
    needs_gram = _MIN_GRAM_ROWS <= n_rows <= _MAX_GRAM_ROWS and n_columns > n_rows
    if data.n_outputs == 1 and not needs_gram:
        return matrix
    return SingleRowProducts(matrix, task.once(RowGrams).of(matrix) if needs_gram else None)
