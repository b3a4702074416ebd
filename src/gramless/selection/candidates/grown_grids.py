"""Grids grown on the rows that are not held back, with their penalty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gramless.base.memory import release_freed_memory
from gramless.features.binning import GivenBinning
from gramless.features.grids import Grids
from gramless.selection.bins import (
    count_power_of,
    scaled_by_priors,
    signed_columns,
    signs_of_grids,
)
from gramless.selection.budget import GROWTH_SHARE, max_grown_grids
from gramless.selection.candidate import Candidate, Fitted, GrownFeatures
from gramless.selection.candidates.kernel_ridge import MIN_ROWS_TO_GROW, screen_kernel_ridge
from gramless.selection.gradient_directions import gradient_directions
from gramless.selection.growth import GrownGrids, grow
from gramless.selection.splits import all_rows
from gramless.selection.task import GROWN, SelectionTask

# The first penalty of fits to numbers, in multiples of that of growth, whose models fit the targets
# less closely than a solve does. Piecewise linear losses need more.
_PENALTY_FACTOR, _PENALTY_FACTOR_OF_PIECEWISE_LINEAR = 10.0**0.5, 10.0


class GrownGridsCandidate(Candidate):
    """Grids that are grown one by one for what they add to the prediction."""

    name = "growth"

    def applies(self, task: SelectionTask, best: Fitted | None) -> bool:
        if not task.grows_grids or task.earlier is not None:
            return False
        # With fewer than 60 rows, kernel ridge regression is better if it can be tried.
        return task.n_rows >= MIN_ROWS_TO_GROW or task.once(screen_kernel_ridge) is None

    def fit(self, task: SelectionTask, best: Fitted | None) -> GrownFeatures | None:
        """Grow grids and validate them; None if kernel ridge regression is far better."""
        screen, split, data = task.once(screen_kernel_ridge), task.split, task.data
        sets = _grow_sets(task)
        task.growth.extend(sets[0].history)
        if screen is not None and screen.is_far_better(sets[0].first_loss):
            return None
        order = all_rows(split, task.n_rows)
        rows = task.scaler.ordered(data.rows, order, task.n_jobs)
        grids = Grids.joined([grown.grids for grown in sets])
        task.report("binning", f"{len(order):>7} rows, binned by {len(grids)} grids")
        release_freed_memory()
        binning, budget = GivenBinning(n_jobs=task.n_jobs), task.budget
        bins = binning.learn_bins(rows, grids)
        if not budget.fits(bins.shape[1]):
            n_grids = max(1, int((bins.offsets[1:] <= budget.most_columns()).sum()))
            binning.keep_bins(np.arange(bins.shape[1]) < bins.offsets[n_grids])
            bins = bins.first_grids(n_grids)
        if task.monotone is not None:
            bins = binning.complete_cells(rows, signed_columns(binning.grids, task.monotone))
        budget.note_disk(bins)
        goal, loss, alpha = task.goal, task.goal.loss, task.fixed.alpha
        if alpha is not None:
            ridge = alpha * data.mass_of(split[0])
        else:
            ridge = float(np.mean([grown.alpha for grown in sets]))
            if not loss.is_of_classes:
                is_linear = loss.is_piecewise_linear
                ridge *= _PENALTY_FACTOR_OF_PIECEWISE_LINEAR if is_linear else _PENALTY_FACTOR
        if task.monotone is not None:
            goal = replace(goal, signs=signs_of_grids(binning.grids, task.monotone))
        power = count_power_of(goal, task.config)
        features = GrownFeatures(
            goal=goal,
            relevance=sets[0].relevance(data.rows.shape[1]),
            scaler=task.scaler,
            feature_map=binning,
            matrix=scaled_by_priors(bins, data, order, power),
            order=order,
            rows=rows,
            settings=GROWN if alpha is None else replace(GROWN, alpha=alpha),
            count_power=power,
        )
        return features.validated(task, ridge)


def _grow_sets(task: SelectionTask) -> list[GrownGrids]:
    """Return grids grown with each seed.

    Those of every second seed may also divide the directions along which the first ones vary.
    """
    budget, split, screen = task.budget, task.split, task.once(screen_kernel_ridge)
    config = budget.within(task.config)
    if task.fixed.n_grids is not None:
        # The user has given the number of grids, so none is dropped.
        config = replace(config, dropped_share=0.0)
    n_worth_growing = max_grown_grids(len(split[0]), task.data.n_outputs, config.most_grids)
    most = budget.affordable(config.n_seeds * (task.fixed.n_grids or n_worth_growing))

    def is_interrupted() -> bool:
        return "growth" in task.report.ended or not budget.has_time(GROWTH_SHARE, "growth")

    def is_enough(first_loss: float) -> bool:
        return screen is not None and screen.is_far_better(first_loss)

    def grow_set(k: int, projection: np.ndarray | None = None) -> GrownGrids:
        return grow(
            task.data,
            split,
            task.scaler,
            task.goal.loss,
            config,
            max_grids=max(1, most // config.n_seeds),
            seed=task.seed + k,
            n_jobs=task.n_jobs,
            groups=task.held_back.groups,
            is_interrupted=is_interrupted,
            has_room=lambda n_columns: budget.fits(config.n_seeds * n_columns),
            is_enough=is_enough,
            report=task.report,
            scorer=task.goal.scorer,
            uncombined=None if task.monotone is None else np.tile(task.monotone != 0, 2),
            projection=projection,
        )

    sets = [grow_set(0)]
    if config.n_seeds == 1 or is_interrupted() or is_enough(sets[0].first_loss):
        return sets
    projection = gradient_directions(task, sets[0], config.n_directions)
    sets += [grow_set(k, projection if k % 2 == 1 else None) for k in range(1, config.n_seeds)]
    return sets if projection is None else [grown.projected(projection) for grown in sets]
