"""Kernel ridge regression with a Gaussian kernel, for tables of few rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gramless.base.random import stream
from gramless.base.threads import cached_property
from gramless.selection.budget import GROWTH_SHARE, Cost
from gramless.selection.candidate import Candidate, Fitted
from gramless.selection.goal import mean_loss
from gramless.selection.kernel_ridge import (
    MAX_TRAINING,
    GaussianRidge,
    GaussianTrials,
    pessimistic_loss,
    sampled_splits,
    validate_ridge,
)
from gramless.selection.selected import SelectedModel
from gramless.selection.splits import Split
from gramless.selection.task import SelectionTask
from gramless.selection.validation import ValidationResult, joined

MIN_ROWS_TO_GROW = 60  # with fewer rows, only kernel ridge regression and a trend are tried
# Kernel ridge regression replaces grids if its loss is below the first share of that of the grids
# of the first stage, or below the second share of that of the whole model.
_FAR_BETTER, _BETTER = 0.5, 0.95
# How much lower the loss may become by fitting all rows, twice the rows, or with another bandwidth.
_ALL_ROWS, _TWICE_THE_ROWS, _OTHER_BANDWIDTHS = 1.25, 1.06, 1.03
_TIME_SHARE = 0.1  # kernel ridge regression is not tried after this fraction of the time budget
_BYTES_A_PAIR = 32  # per pair of rows
_SECONDS_A_CELL = 2.5e-7  # per number in a pair of rows


class KernelRidge(Candidate):
    """Kernel ridge regression in which every row is a landmark."""

    name = "the trial of kernel ridge regression"

    def applies(self, task: SelectionTask, best: Fitted | None) -> bool:
        """Return whether the loss of a sample is low enough to fit all rows."""
        if not task.grows_grids or task.earlier is not None:
            return False
        screen = task.once(screen_kernel_ridge)
        return screen is not None and (
            best is None or screen.may_beat(_validation_loss(task, best))
        )

    def fit(self, task: SelectionTask, best: Fitted | None) -> FittedKernelRidge | None:
        """Fit all training rows; None if the loss is not clearly below that of the best."""
        screen = task.once(screen_kernel_ridge)
        assert screen is not None
        if best is not None:
            return screen.better_than(_validation_loss(task, best))
        if task.n_rows < MIN_ROWS_TO_GROW:
            return screen.best.cross_validated(task)
        return screen.best.validated(task, task.split)

    def replaces(self, task: SelectionTask, best: Fitted, fitted: Fitted) -> bool:
        return True  # fit returns None unless it is clearly better


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedKernelRidge(Fitted):
    """Kernel ridge regression with selected settings."""

    kernel: GaussianRidge

    def validated(self, task: SelectionTask, split: Split) -> FittedKernelRidge:
        return replace(self, validation=validate_ridge(self.kernel, task, self.goal, split))

    def cross_validated(self, task: SelectionTask) -> FittedKernelRidge:
        splits = task.held_back.splits
        results = [validate_ridge(self.kernel, task, self.goal, split) for split in splits]
        return replace(self, validation=joined(results), is_cross_validated=True)

    def finish(self, task: SelectionTask) -> SelectedModel:
        data, kernel, rows = task.data, self.kernel, task.data.fitted
        expansion, weights = kernel.fitted(data, rows, task.n_jobs)
        scaled = kernel.scaler.rows(data.rows[rows], task.n_jobs)
        return SelectedModel(
            scaler=kernel.scaler,
            feature_map=expansion,
            matrix=expansion.rows_matrix(scaled),
            order=rows,
            settings=kernel.settings(data.n_fitted),
            bandwidth=kernel.bandwidth,
            relevance=self.relevance,
            validation=self.validation,
            growth=task.growth,
            trials=[trial.as_dict() for trial in task.trials],
            limits=task.budget.limits,
            loss=self.goal.loss,
            weights=weights,
        )


@dataclass(frozen=True, eq=False)
class KernelRidgeScreen:
    """Kernel ridge regression on samples of the rows, which decides about a fit to all rows.

    ``splits`` are those of the samples. The bandwidth is only searched if the first is promising.
    """

    task: SelectionTask
    splits: list[Split]
    kernels: GaussianTrials

    @cached_property
    def first_loss(self) -> float:
        """The validation loss of a sample with the first bandwidth."""
        return self._sample_loss(self.kernels.first, too_much=0.0)

    @cached_property
    def loss(self) -> float:
        """The loss of the validation or left-out rows of a sample with the best bandwidth."""
        return self._sample_loss(self.kernels.best, too_much=np.inf)

    def _sample_loss(self, kernel: GaussianRidge, too_much: float) -> float:
        task, split = self.task, self.splits[0]
        assert task.least_squares is not None
        result = validate_ridge(kernel, task, task.least_squares, split)
        return pessimistic_loss(kernel, task, result, split[0], too_much)

    def is_far_better(self, first_loss: float) -> bool:
        """Return whether its loss is so far below that of the first grids that growth stops."""
        bound = _FAR_BETTER * first_loss
        return self.first_loss < _OTHER_BANDWIDTHS * bound and self.loss < bound

    def may_beat(self, loss_of_best: float) -> bool:
        """Return whether a fit of all rows may be clearly better than the best model."""
        return self.first_loss < _OTHER_BANDWIDTHS * _ALL_ROWS * _BETTER * loss_of_best

    def _with(self, kernel: GaussianRidge) -> FittedKernelRidge:
        task = self.task
        assert task.least_squares is not None
        relevance = np.ones(task.data.rows.shape[1])
        return FittedKernelRidge(goal=task.least_squares, relevance=relevance, kernel=kernel)

    @property
    def best(self) -> FittedKernelRidge:
        return self._with(self.kernels.best)

    def better_than(self, loss_of_best: float) -> FittedKernelRidge | None:
        """Return a fit to all training rows if its loss is clearly less than that of the best.

        If there are many rows, half of them come first, in an eighth of the time.
        """
        bound, (training, held_back) = _BETTER * loss_of_best, self.task.split
        if len(training) > 2 * MAX_TRAINING:
            shuffled = stream(self.task.seed, "half of the rows").permutation(training)
            half = shuffled[: len(training) // 2], held_back
            bound_of_half = _OTHER_BANDWIDTHS * _TWICE_THE_ROWS * bound
            if self._below(self._with(self.kernels.first), bound_of_half, half) is None:
                return None
        return self._below(self.best, bound, self.task.split)

    def _below(
        self, unfitted: FittedKernelRidge, bound: float, split: Split
    ) -> FittedKernelRidge | None:
        fitted = unfitted.validated(self.task, split)
        assert fitted.validation is not None
        loss = pessimistic_loss(fitted.kernel, self.task, fitted.validation, split[0], bound)
        return fitted if loss < bound else None


def screen_kernel_ridge(task: SelectionTask) -> KernelRidgeScreen | None:
    """Try kernel ridge regression on samples of the rows; None if it is not to be tried."""
    (n_rows, n_inputs), budget = task.data.rows.shape, task.budget
    is_wanted = task.least_squares is not None and not task.fixed.fixes_model
    if not is_wanted or n_rows > task.config.ridge_rows:
        return None
    cost = Cost(_SECONDS_A_CELL * n_rows * n_inputs, _BYTES_A_PAIR * n_rows**2)
    if not budget.has_memory(cost.n_bytes, KernelRidge.name):
        return None
    if not budget.has_time(_TIME_SHARE, KernelRidge.name):
        return None
    if not budget.has_time(GROWTH_SHARE, KernelRidge.name, cost.seconds):
        return None
    splits = sampled_splits(task.held_back.splits, task.seed)
    return KernelRidgeScreen(task, splits, GaussianTrials.of(task, splits))


def sampled_trials(task: SelectionTask) -> GaussianTrials:
    """Return the kernels of samples of the rows, those of the screening if there is one."""
    screen = task.once(screen_kernel_ridge)
    if screen is not None:
        return screen.kernels
    return GaussianTrials.of(task, sampled_splits([task.split], task.seed))


def _validation_loss(task: SelectionTask, best: Fitted) -> float:
    result: ValidationResult | None = best.validation
    assert result is not None
    data, rows = task.data, result.rows
    return mean_loss(best.goal.loss)(result.raw, data.targets[rows], data.weights_of(rows))
