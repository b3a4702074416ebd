"""Kernel ridge regression, tried where rows are few before grids are grown, and beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gramless.base.cached import cached_property
from gramless.base.random import stream
from gramless.losses import Loss
from gramless.model_selection.alpha import Goal
from gramless.model_selection.budget import GROWTH_SHARE, Budget
from gramless.model_selection.config import SearchConfig
from gramless.model_selection.kernel_ridge import (
    MOST_TRAINING,
    GaussianRidge,
    GaussianTrials,
    pessimistic_loss,
    sampled_splits,
    validate_ridge,
)
from gramless.model_selection.search import Search
from gramless.model_selection.selected import SelectedModel
from gramless.model_selection.splits import Split
from gramless.model_selection.validation import ValidationResult, joined

_FAR_BETTER, _BETTER = 0.5, 0.95
"""Kernel ridge regression is taken below so much of the loss of the first grids, or of the model
with all of them."""
_ALL_ROWS, _TWICE_THE_ROWS, _OTHER_BANDWIDTHS = 1.25, 1.06, 1.03
"""By how much fits to all rows, and to twice as many, may lower the loss of fits to samples, and
other bandwidths that of the first one."""
_RIDGE_SHARE, _BYTES_A_PAIR, _SECONDS_A_CELL = 0.1, 32, 2.5e-7
"""Of a time budget, after which it is not tried; bytes that it takes for each pair of rows, and
seconds for each number in the rows."""


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """Kernel ridge regression, and what rows held back said of it."""

    search: Search
    squares: Goal
    chosen: GaussianRidge
    result: ValidationResult | None = None

    def validated(self, split: Split) -> RidgeFit:
        """Validate it by all rows."""
        result = validate_ridge(self.chosen, self.search, self.squares, split)
        return replace(self, result=result)

    def validated_by(self, splits: Sequence[Split]) -> RidgeFit:
        """Validate it by all rows that are held back in turns."""
        chosen, search, squares = self.chosen, self.search, self.squares
        results = [validate_ridge(chosen, search, squares, split) for split in splits]
        return replace(self, result=joined(results))

    def validated_below(self, most: float, split: Split, loss: Loss) -> RidgeFit | None:
        """Validate it by the rows of a split; return None unless its loss is below ``most``."""
        again = self.validated(split)
        assert again.result is not None
        own = pessimistic_loss(self.chosen, self.search, again.result, split[0], loss, most)
        return again if own < most else None

    def selected(self, budget: Budget, growth: list[dict[str, float]]) -> SelectedModel:
        """Return the fit to all rows, after some growth of grids."""
        data, chosen = self.search.data, self.chosen
        n_rows, rows = data.n_fitted, data.fitted
        expansion, weights = chosen.fitted(data, rows, self.search.n_jobs)
        return SelectedModel(
            chosen.scaler,
            expansion,
            expansion.rows_matrix(chosen.scaler.rows(data.rows[rows], self.search.n_jobs)),
            rows,
            chosen.settings(n_rows),
            chosen.bandwidth,
            np.ones(data.rows.shape[1]),
            self.result,
            growth,
            [trial.as_dict() for trial in self.search.trials],
            budget.limits,
            self.squares.loss,
            weights,
        )


@dataclass(frozen=True, eq=False)
class RidgeTrial:
    """Kernel ridge regression on samples of the rows, as far as it may turn out to be the better.

    ``splits`` are those of the samples. The bandwidth is chosen when the first one is promising.
    """

    search: Search
    squares: Goal
    grids_loss: Loss
    splits: list[Split]
    kernels: GaussianTrials

    @classmethod
    def of(cls, search: Search, squares: Goal, grids_loss: Loss, splits: list[Split]) -> RidgeTrial:
        """Try the first bandwidth."""
        sampled = sampled_splits(splits, search.seed)
        return cls(search, squares, grids_loss, sampled, GaussianTrials.of(search, sampled))

    @property
    def of_scalings(self) -> Sequence[GaussianRidge]:
        """Each scaling with the first bandwidth, where smooth kernels are compared by these rows.

        Other splits would be other samples, and ranks are other scalings.
        """
        is_alike = len(self.splits) == 1 and self.search.rising is None
        return self.kernels.of_scalings if is_alike else ()

    @cached_property
    def first_loss(self) -> float:
        """The loss of the rows held back with the first bandwidth."""
        return self._loss_of(self.kernels.first, too_much=0.0)

    @cached_property
    def loss(self) -> float:
        """The loss of the rows held back or left out with the best bandwidth."""
        return self._loss_of(self.kernels.best, too_much=np.inf)

    def _loss_of(self, kernel: GaussianRidge, too_much: float) -> float:
        search, split = self.search, self.splits[0]
        result = validate_ridge(kernel, search, self.squares, split)
        return pessimistic_loss(kernel, search, result, split[0], self.grids_loss, too_much)

    def is_far_better(self, first_loss: float) -> bool:
        """Tell whether it is so much better than the first grids that no more are worth it."""
        most = _FAR_BETTER * first_loss
        return self.first_loss < _OTHER_BANDWIDTHS * most and self.loss < most

    @property
    def first(self) -> RidgeFit:
        """Kernel ridge regression with the first bandwidth, not validated by all rows."""
        return RidgeFit(self.search, self.squares, self.kernels.first)

    @property
    def best(self) -> RidgeFit:
        """Kernel ridge regression with the best bandwidth, not validated by all rows."""
        return RidgeFit(self.search, self.squares, self.kernels.best)

    def better_than(self, loss_of_grids: float, split: Split, loss: Loss) -> RidgeFit | None:
        """Return the fit, validated by all rows, if its loss is clearly less than that of grids.

        Where rows are many, half of them come first, in an eighth of the time.
        """
        most = _BETTER * loss_of_grids
        if self.first_loss >= _OTHER_BANDWIDTHS * _ALL_ROWS * most:
            return None
        training, held_back = split
        if len(training) > 2 * MOST_TRAINING:
            shuffled = stream(self.search.seed, "half of the rows").permutation(training)
            half = shuffled[: len(training) // 2], held_back
            of_half = _OTHER_BANDWIDTHS * _TWICE_THE_ROWS * most
            if self.first.validated_below(of_half, half, loss) is None:
                return None
        return self.best.validated_below(most, split, loss)


def tried_ridge(
    search: Search,
    goal: Goal,
    budget: Budget,
    config: SearchConfig,
    squares: Goal | None,
    splits: list[Split],
) -> RidgeTrial | None:
    """Return kernel ridge regression for the goal ``squares``, None where it is not to be tried."""
    if squares is None or not _may_be_tried(search, budget, config):
        return None
    return RidgeTrial.of(search, squares, goal.loss, splits)


def _may_be_tried(search: Search, budget: Budget, config: SearchConfig) -> bool:
    """Tell whether rows are few enough for kernel ridge regression, and there is time for it."""
    (n_rows, n_inputs), given = search.data.rows.shape, search.space
    is_left_open = given.alpha is None and given.n_grids is None
    if not (n_rows <= config.ridge_rows and is_left_open):
        return False
    trial = "the trial of kernel ridge regression"
    if not budget.has_memory(_BYTES_A_PAIR * n_rows**2, trial):
        return False
    seconds = _SECONDS_A_CELL * n_rows * n_inputs
    return budget.has_time(_RIDGE_SHARE, trial) and budget.has_time(GROWTH_SHARE, trial, seconds)
