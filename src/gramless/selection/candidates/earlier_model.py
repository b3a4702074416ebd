"""A fit that keeps what an earlier one chose, for other rows or another penalty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gramless.features.base import FeatureMap
from gramless.features.binning import BinningMap
from gramless.features.expansion import KernelExpansion
from gramless.features.hybrid import JoinedMaps, parts_of
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import HStack
from gramless.matrices.weighted import scale_weights
from gramless.selection.bins import (
    count_power_of,
    scaled_by_priors,
    signed_columns,
    signs_of_grids,
)
from gramless.selection.candidate import Candidate, Fitted, FittedFeatures
from gramless.selection.candidates.kernel_ridge import FittedKernelRidge
from gramless.selection.kernel_ridge import GaussianRidge
from gramless.selection.selected import Order, coarsest_step
from gramless.selection.splits import all_rows
from gramless.selection.task import EarlierFit, SelectionTask
from gramless.selection.validation import joined, record, validate


class EarlierModel(Candidate):
    """The features of an earlier fit, with bins learned again from the rows."""

    name = "the earlier model"

    def applies(self, task: SelectionTask, best: Fitted | None) -> bool:
        return task.earlier is not None

    def fit(self, task: SelectionTask, best: Fitted | None) -> Fitted:
        """Compute the features of the rows; validate them if the task asks for it."""
        earlier = task.earlier
        assert earlier is not None
        task.growth.extend(earlier.growth)
        if not isinstance(earlier.feature_map, KernelExpansion):
            return _features(task, earlier)
        length = earlier.settings.bandwidth or 1.0
        ridge = earlier.alpha * task.data.n_fitted
        kernel = GaussianRidge(earlier.scaler, length, earlier.bandwidth / length, ridge, np.inf)
        assert task.least_squares is not None
        relevance = np.ones(task.data.rows.shape[1])
        unfitted = FittedKernelRidge(goal=task.least_squares, relevance=relevance, kernel=kernel)
        return unfitted.validated(task, task.split) if task.validates else unfitted


def _features(task: SelectionTask, earlier: EarlierFit) -> FittedFeatures:
    data, goal, monotone = task.data, task.goal, task.monotone
    settings = replace(earlier.settings, alpha=earlier.alpha)
    splits = task.held_back.splits if task.validates else []
    order: Order = all_rows(splits[0], task.n_rows) if len(splits) == 1 else data.fitted
    feature_map, matrix, weights = _relearned(task, earlier, order)
    if monotone is not None and isinstance(feature_map, BinningMap):
        goal = replace(goal, signs=signs_of_grids(feature_map.grids, monotone))
    task.budget.note_disk(matrix)
    power = count_power_of(goal, task.config) if settings.grids == "grown" else 0.0
    matrix = scaled_by_priors(matrix, data, order, power)
    weights = scale_weights(matrix, weights)
    result, step = None, 0.0
    if splits:
        ridge = earlier.alpha * data.n_fitted
        if len(splits) == 1:
            result = validate(task, goal, matrix, splits[0], ridge, weights)
        else:
            of_splits = [
                validate(task, goal, matrix.take_rows(np.concatenate(split)), split, ridge, weights)
                for split in splits
            ]
            result = replace(joined(of_splits), weights=None)
        size = feature_map.numbers_per_row
        record(task, goal, "validation", settings, result, len(splits[0][0]), size)
        step = coarsest_step(goal, data, matrix, splits[0], result.weights)
    return FittedFeatures(
        goal=goal,
        relevance=earlier.relevance,
        validation=result,
        is_cross_validated=True,
        scaler=earlier.scaler,
        feature_map=feature_map,
        matrix=matrix,
        order=order,
        settings=settings,
        bandwidth=earlier.bandwidth,
        count_power=power,
        rounding_step=step,
        start=weights,
    )


def _relearned(
    task: SelectionTask, earlier: EarlierFit, order: Order
) -> tuple[FeatureMap, FeatureMatrix, Vector]:
    """Return the map, the features of the rows, and the earlier weights of these features.

    Bins are learned again from the rows; other features stay as they are.
    """
    data, n_jobs, maps = task.data, task.n_jobs, parts_of(earlier.feature_map)
    bins = maps[0]
    if not isinstance(bins, BinningMap):
        rows = earlier.scaler.rows(data.rows[order], n_jobs)
        return earlier.feature_map, earlier.feature_map.rows_matrix(rows), earlier.weights
    rows = earlier.scaler.ordered(data.rows, order, n_jobs)
    again, matrix = bins.relearned(rows)
    if task.monotone is not None:
        matrix = again.complete_cells(rows, signed_columns(again.grids, task.monotone))
    weights = bins.weights_in(again, earlier.weights)
    if not isinstance(earlier.feature_map, JoinedMaps):
        return again, matrix, weights
    whole, scales = np.asarray(rows), earlier.feature_map.scales_.tolist()
    dense = [DenseMatrix(np.asarray(part.transform(whole)), n_jobs) for part in maps[1:]]
    both = JoinedMaps.of([again, *maps[1:]], scales, n_jobs)
    return both, HStack([matrix, *dense], scales), weights
