"""Kernel ridge regression with a Gaussian kernel, for tables of few rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gramless.base.threads import cached_property
from gramless.selection.budget import GROWTH_SHARE, Cost
from gramless.selection.candidate import Candidate, Fitted
from gramless.selection.kernel_ridge import (
    GaussianRidge,
    GaussianTrials,
    pessimistic_loss,
    sampled_splits,
    validate_ridge,
)
from gramless.selection.selected import SelectedModel
from gramless.selection.splits import Split
from gramless.selection.task import SelectionTask
from gramless.selection.validation import joined

MIN_ROWS_TO_GROW = 60  # with fewer rows, only kernel ridge regression and a trend are tried
# Growth stops if kernel ridge regression has a loss below this share of that of the first grids.
_FAR_BETTER = 0.5
_OTHER_BANDWIDTHS = 1.03  # how much lower the loss may become with another bandwidth
_TIME_SHARE = 0.1  # kernel ridge regression is not tried after this fraction of the time budget
_BYTES_A_PAIR = 32  # per pair of rows
_SECONDS_A_CELL = 2.5e-7  # per number in a pair of rows


class KernelRidge(Candidate):
    """Kernel ridge regression in which every row is a landmark, if there are no grids."""

    name = "the trial of kernel ridge regression"

    def applies(self, task: SelectionTask, best: Fitted | None) -> bool:
        if best is not None or not task.grows_grids or task.earlier is not None:
            return False
        return task.once(screen_kernel_ridge) is not None

    def fit(self, task: SelectionTask, best: Fitted | None) -> FittedKernelRidge:
        screen = task.once(screen_kernel_ridge)
        assert screen is not None
        if task.n_rows < MIN_ROWS_TO_GROW:
            return screen.best.cross_validated(task)
        return screen.best.validated(task, task.split)


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

    @property
    def best(self) -> FittedKernelRidge:
        task = self.task
        assert task.least_squares is not None
        relevance = np.ones(task.data.rows.shape[1])
        return FittedKernelRidge(
            goal=task.least_squares, relevance=relevance, kernel=self.kernels.best
        )


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
