"""Random features of one kernel: as given, searched, or by a rule if there are few rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from gramless.base.errors import InputError
from gramless.base.types import FloatArray, IntArray
from gramless.features.base import FeatureMap, SizedMap
from gramless.features.binning import BinningMap, RandomBinning
from gramless.matrices.base import FeatureMatrix
from gramless.preprocessing.scaling import Scaler
from gramless.selection.bandwidth_search import (
    BandwidthSearch,
    bandwidth_in_scaled_units,
    first_settings,
)
from gramless.selection.candidate import Candidate, Fitted, FittedFeatures
from gramless.selection.data import Data
from gramless.selection.goal import scaled_score
from gramless.selection.penalty_path import search_alpha
from gramless.selection.selected import Order
from gramless.selection.splits import Split, all_rows
from gramless.selection.task import TIME_SHARE, Hyperparameters, SelectionTask
from gramless.selection.validation import ValidationResult, joined, record, validate

MIN_ROWS_TO_SEARCH = 40  # with fewer rows nothing is searched
_DEFAULT_ALPHA = 1e-3
# The cost of a grid over all inputs, relative to one over a few: most rows are alone in a bin,
# and vectors of weights are as long as all codes.
_COST_OF_GRID = 4.0
_FIRST_SIZE, _MIN_GAIN = 64, 0.02  # doubling the grids must lower the score by this share
_SIZING_ROWS, _MIN_ROWS_TO_SIZE = 12_500, 2500


class RandomFeatures(Candidate):
    """Random features of one kernel, for all fits that do not grow grids."""

    name = "random features"

    def applies(self, task: SelectionTask, best: Fitted | None) -> bool:
        return not task.grows_grids and task.earlier is None

    def fit(self, task: SelectionTask, best: Fitted | None) -> FittedFeatures:
        """Choose the settings, then fit the features of all rows.

        Features that are learned from rows are validated with those of the training rows. Bins of
        no training row keep the weight zero, as if they had never been seen, so the bins of all
        rows can be validated.
        """
        data, goal, splits = task.data, task.goal, task.held_back.splits
        if task.validates and task.n_rows < 2:
            raise InputError("calibrate=True needs at least 2 rows, to hold one back.")
        chosen = _choose(task)
        order: Order = data.fitted
        result, fitted = None, None
        alpha = chosen.settings.alpha * data.n_fitted
        if task.validates and isinstance(chosen.template, BinningMap):
            order = all_rows(splits[0], task.n_rows) if len(splits) == 1 else slice(None)
            fitted = _fitted_in_memory(task, chosen, order)
            if len(splits) == 1:
                result = validate(task, goal, fitted[1], splits[0], alpha)
            else:
                result = joined(
                    [
                        validate(
                            task, goal, fitted[1].take_rows(np.concatenate(split)), split, alpha
                        )
                        for split in splits
                    ]
                )
                result, order = replace(result, weights=None, trials=[]), data.fitted
        elif task.validates:
            result = joined([_validated_apart(task, chosen, split, alpha) for split in splits])
            result = replace(result, weights=None)
        if result is not None:
            n_training, size = len(splits[0][0]), chosen.template.size
            record(task, goal, "validation", chosen.settings, result, n_training, size)
        if fitted is None:
            fitted = _fitted_in_memory(task, chosen, order)
        task.budget.note_disk(fitted[1])
        return FittedFeatures(
            goal=goal,
            relevance=chosen.relevance,
            validation=result,
            is_cross_validated=result is not None,
            scaler=chosen.scaler,
            feature_map=fitted[0],
            matrix=fitted[1],
            order=order,
            settings=chosen.settings,
            bandwidth=chosen.bandwidth,
        )


@dataclass(frozen=True, eq=False)
class _UnfittedFeatures:
    """An unfitted map of random features, and the scaler of its rows.

    The bandwidth of ``template`` is in units of the rows that the scaler returns, ``bandwidth`` in
    those of the scaled inputs; ``settings.alpha`` is for all rows.
    """

    scaler: Scaler
    template: SizedMap
    settings: Hyperparameters
    bandwidth: FloatArray | float

    @property
    def relevance(self) -> FloatArray:
        relevance = self.settings.relevance
        return np.ones(len(self.scaler.unit)) if relevance is None else relevance

    def resized(self, size: int) -> _UnfittedFeatures:
        return replace(self, template=self.template.resized(size))

    def fitted(
        self, data: Data, order: IntArray | slice, n_jobs: int | None
    ) -> tuple[FeatureMap, FeatureMatrix]:
        feature_map: SizedMap = clone(self.template)
        if isinstance(feature_map, BinningMap):
            # Bins are learned in one pass over the rows, so no copy of them is needed.
            rows = self.scaler.ordered(data.rows, order, n_jobs)
        else:
            rows = self.scaler.rows(data.rows[order], n_jobs)
        return feature_map, feature_map.fit_rows(rows)


def has_open_settings(task: SelectionTask) -> bool:
    """Return whether there are settings to search for, and enough rows or folds to do so."""
    fixed = task.fixed
    are_given = fixed.bandwidth is not None and fixed.alpha is not None
    is_decided = are_given and len(fixed.scalings) == 1
    has_rows = task.held_back.folds is not None or task.n_rows >= MIN_ROWS_TO_SEARCH
    return not is_decided and has_rows


def _choose(task: SelectionTask) -> _UnfittedFeatures:
    fixed, goal = task.fixed, task.goal
    if not has_open_settings(task):
        settings = first_settings(task, _DEFAULT_ALPHA if fixed.alpha is None else fixed.alpha)
    else:
        settings = BandwidthSearch(replace(task, data=task.data.for_squares)).run()
        if fixed.alpha is None and (goal.loss.name != "squared" or goal.sparse):
            settings = search_alpha(task, settings, goal)
        task.budget.has_time(TIME_SHARE, "search")  # records that the search was cut short
    scaler = task.data.scaler(settings.scaling).weighted(settings.relevance)
    bandwidth = bandwidth_in_scaled_units(task, settings, scaler)
    template: SizedMap = clone(task.feature_map).set_params(
        bandwidth=scaler.unscaled(bandwidth), categorical=scaler.categorical
    )
    chosen = _UnfittedFeatures(scaler, template, settings, bandwidth)
    if not isinstance(template, RandomBinning):
        return chosen
    most = task.budget.affordable(template.size, _COST_OF_GRID)
    has_open_size = fixed.n_grids is None and not goal.sparse
    if has_open_size and task.n_rows >= _MIN_ROWS_TO_SIZE:
        most = _enough_grids(task, chosen, most)
    return chosen.resized(most)


def _enough_grids(task: SelectionTask, chosen: _UnfittedFeatures, most: int) -> int:
    """Double the number of grids while that lowers the validation score clearly."""
    budget, (training, held_back) = task.budget, task.held_back.splits[0]
    share = min(1.0, _SIZING_ROWS / (len(training) + len(held_back)))
    training, held_back = (rows[: max(1, int(share * len(rows)))] for rows in (training, held_back))
    split, alpha = (training, held_back), chosen.settings.alpha * task.data.n_fitted
    size, last = min(_FIRST_SIZE, most), np.inf
    while True:
        _, matrix = chosen.resized(size).fitted(task.data, np.concatenate(split), task.n_jobs)
        if not budget.fits(matrix.shape[1]):
            return max(1, size * budget.most_columns() // matrix.shape[1])
        result = validate(task, task.goal, matrix, split, alpha)
        record(task, task.goal, "size", chosen.settings, result, len(training), size)
        is_enough = result.score > scaled_score(last, 1.0 - _MIN_GAIN) or size == most
        if is_enough or task.is_over("size"):
            return size
        size, last = min(2 * size, most), result.score


def _fitted_in_memory(
    task: SelectionTask, chosen: _UnfittedFeatures, order: Order
) -> tuple[FeatureMap, FeatureMatrix]:
    """Return the fitted map and its matrix, with fewer grids if memory needs it.

    A given number of grids is kept; the problem raises an error if it does not fit.
    """
    feature_map, matrix = chosen.fitted(task.data, order, task.n_jobs)
    is_open = isinstance(feature_map, RandomBinning) and task.fixed.n_grids is None
    if not is_open or task.budget.fits(matrix.shape[1]):
        return feature_map, matrix
    size = max(1, chosen.template.size * task.budget.most_columns() // matrix.shape[1])
    del matrix
    return chosen.resized(size).fitted(task.data, order, task.n_jobs)


def _validated_apart(
    task: SelectionTask, chosen: _UnfittedFeatures, split: Split, alpha: float
) -> ValidationResult:
    """Return the result of a split with features learned from its training rows only."""
    data, goal, n_jobs, (training, held_back) = task.data, task.goal, task.n_jobs, split
    feature_map, matrix = chosen.fitted(data, training, n_jobs)
    problem = goal.problem(data, data.matrix(matrix), alpha / data.mass_of(training), training)
    weights = goal.solver(problem, n_jobs).solve(problem).weights
    others = feature_map.rows_matrix(chosen.scaler.rows(data.rows[held_back], n_jobs))
    raw = data.matrix(others).matvec(weights)
    score, loss = goal.scored(data, raw, held_back)
    return ValidationResult(
        alpha=alpha, score=score, loss=loss, rows=held_back, raw=raw, weights=weights
    )
