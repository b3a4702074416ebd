"""Arguments and results of the steps of a fit: encoded rows, the selected model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from gramless.base.errors import InputError
from gramless.base.progress import Callbacks, Deadline, Reporter, Watch
from gramless.base.random import stream
from gramless.base.types import AnyArray, FloatArray, IntArray, TableLike
from gramless.estimators.given_rows import GivenRows, ValidationArguments, take_given_rows
from gramless.estimators.inputs import RowInputs
from gramless.estimators.scoring import NamedScorer
from gramless.estimators.targets import TargetEncoder, plain_numbers
from gramless.losses import Loss, Squared
from gramless.preprocessing.rows import checked_weights
from gramless.selection.data import Data
from gramless.selection.goal import Goal
from gramless.selection.selected import SelectedModel
from gramless.selection.task import SelectionTask
from gramless.selection.validation import ValidationResult
from gramless.solvers.objective import Problem

_SOLVE_TIME_SHARE = 0.95  # the final solve stops after this fraction of the time budget
_MIN_SINGLE_TOL = 1e-5  # a smaller tolerance needs products in double precision


@dataclass(frozen=True, eq=False)
class FitArguments:
    """The arguments of a fit.

    Attributes
    ----------
    classes : array (n_classes,) or None
        All classes, if some occur only in later batches.
    exposures : array (n_rows,) or None
        The exponential of the offsets of the rows. Targets have been divided by them, and the
        weights of the rows multiplied.
    weight_given : array (n_rows,) or None
        The weights of the rows before this.
    """

    X: TableLike = field(repr=False)
    y: ArrayLike = field(repr=False)
    sample_weight: ArrayLike | None = field(repr=False, default=None)
    groups: ArrayLike | None = field(repr=False, default=None)
    callbacks: Callbacks = None
    validation: ValidationArguments | None = None
    classes: AnyArray | None = None
    exposures: FloatArray | None = None
    weight_given: FloatArray | None = None

    def take(self, rows: IntArray) -> FitArguments:
        """Return the arguments with the table, targets and weights of some rows."""
        X, y, weight = (take_given_rows(x, rows) for x in (self.X, self.y, self.sample_weight))
        return replace(self, X=X, y=y, sample_weight=weight)

    def without_offset(self, owner: str, loss: Loss, offset: ArrayLike) -> FitArguments:
        """Return equivalent targets and weights of a regression without an offset."""
        numbers = np.asarray(plain_numbers(self.y, owner), np.float64)
        if numbers.ndim == 0:
            return self
        offsets = checked_offset(offset, len(numbers))
        per_output = offsets.reshape(-1, *[1] * (numbers.ndim - 1))
        targets, factors = loss.without_offset(numbers, per_output)
        if not loss.has_positive_means:
            return replace(self, y=targets)
        factors = factors.reshape(-1)
        with np.errstate(over="ignore"):
            exposures = np.exp(offsets)
        if not (np.isfinite(factors).all() and np.isfinite(exposures).all()):
            raise InputError("KernelRegressor: the exponential of an offset is infinite.")
        weight = self.sample_weight
        if weight is not None:
            weight = checked_weights(weight, len(numbers), owner)
            factors = factors * weight
        return replace(
            self, y=targets, sample_weight=factors, exposures=exposures, weight_given=weight
        )


def checked_offset(offset: ArrayLike, n_rows: int) -> FloatArray:
    """Return the offset as an array; raise InputError for another shape or infinite numbers."""
    values = np.asarray(offset, np.float64)
    if values.shape != (n_rows,) or not np.isfinite(values).all():
        raise InputError(
            f"KernelRegressor: offset must be a finite number per row, of shape ({n_rows},); got "
            f"shape {values.shape}."
        )
    return values


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedRows:
    """The encoded rows of a fit: training rows, then validation rows.

    Attributes
    ----------
    inputs : RowInputs
        The conversion of the columns of tables to inputs.
    given : GivenRows
        The rows as the user gave them.
    classes : array (n_rows,) or None
        The index of each row's class, if targets are classes.
    n_given : int
        The number of training rows before a time budget left some out.
    goes_on : bool
        Whether a warm start keeps the selection of the last fit.
    """

    inputs: RowInputs
    data: Data
    given: GivenRows
    arguments: FitArguments
    classes: IntArray | None
    encoder: TargetEncoder
    seed: int
    n_given: int
    goes_on: bool
    deadline: Deadline
    report: Reporter


@dataclass(frozen=True, kw_only=True, eq=False)
class Selection(EncodedRows):
    """The selected model, and the rows it was selected on.

    ``errors`` holds the predictions of validation rows for calibration, or None without it.
    """

    goal: Goal
    selected: SelectedModel
    errors: ValidationResult | None

    def watch(self) -> Watch | None:
        """Return the solver callback for reporting and early stopping, or None."""
        deadline, report = self.deadline, self.report
        if not report.has_listeners:
            return deadline.watch(_SOLVE_TIME_SHARE)

        def should_stop(iteration: int) -> bool:
            report.detail("solve", f"iteration {iteration}", n_iter=iteration)
            return "solve" in report.ended or deadline.is_past(_SOLVE_TIME_SHARE)

        return Watch(should_stop)

    def problem(self, tol: float = 0.0) -> Problem:
        """Return the problem over these rows; ``tol`` is the relative tolerance of its solution."""
        selected, features = self.selected, self.selected.matrix
        if selected.products is not None and tol >= _MIN_SINGLE_TOL:
            features = selected.products
        matrix = self.data.matrix(features)
        return self.goal.problem(self.data, matrix, selected.alpha, selected.order)


def with_scorer(
    scorer: NamedScorer, task: SelectionTask, given: GivenRows, encoder: TargetEncoder
) -> SelectionTask:
    """Return the task with a scorer that selects the model."""
    data, goal = task.data, task.goal
    codes, rows = data.targets, task.split[1]
    goal = replace(goal, scorer=scorer.of_rows(given, encoder, codes, goal.loss))
    # A scorer that fails should do so before the first fit, so it scores targets with noise.
    noise = stream(task.seed, "scoring").normal(size=codes[rows].shape)
    goal.scored(data, codes[rows] + noise, rows)
    search_scorer = scorer.of_rows(given, encoder, codes, Squared())
    return replace(task, goal=goal, search_scorer=search_scorer)


def scores_by_round(selection: Selection) -> dict[str, list[float]]:
    """Return the scores of growth and of validation fits by measure, with the selected one last."""
    selected, goal, data = selection.selected, selection.goal, selection.data
    measure = f"{goal.loss.name} loss" if goal.scorer is None else goal.scorer.name
    scores = {measure: [stage["score"] for stage in selected.growth]}
    for trial in selected.trials:
        if trial["stage"] == "validation":
            scores.setdefault(trial["measure"], []).append(trial["score"])
    assert selected.validation is not None
    best = selected.validation.score
    selected_scores = scores.setdefault(goal.measure(data), [])
    if selected_scores[-1:] != [best]:
        selected_scores.append(best)
    return {name: values for name, values in scores.items() if values}
