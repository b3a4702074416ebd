"""Fits that keep what an earlier one chose."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gramless.base.types import FloatArray, IntArray
from gramless.features.base import FeatureMap
from gramless.features.binning import BinningMap
from gramless.features.expansion import KernelExpansion
from gramless.features.hybrid import JoinedMaps, parts_of
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.scaled_bins import scaled_weights
from gramless.matrices.stacked import HStack
from gramless.model_selection.alpha import Goal
from gramless.model_selection.bin_priors import count_power_of
from gramless.model_selection.budget import Budget
from gramless.model_selection.config import SearchConfig
from gramless.model_selection.data import Data
from gramless.model_selection.kernel_ridge import GaussianRidge
from gramless.model_selection.monotone_grids import signed_columns, signs_of_grids
from gramless.model_selection.ridge_trial import RidgeFit
from gramless.model_selection.search import Search
from gramless.model_selection.search_space import Hyperparameters
from gramless.model_selection.select import scaled_by_priors
from gramless.model_selection.selected import Order, SelectedModel, fitted_part
from gramless.model_selection.splits import Split, all_rows
from gramless.model_selection.validation import (
    ValidationResult,
    coarsest_step,
    joined,
    record,
    validate,
)
from gramless.preprocessing.scaling import Scaler


@dataclass(frozen=True, eq=False)
class EarlierFit:
    """What an earlier fit chose, and its weights for the targets as they are encoded now.

    ``alpha`` is the penalty of the mean loss over the rows that are to be fitted.
    """

    scaler: Scaler
    feature_map: FeatureMap
    settings: Hyperparameters
    alpha: float
    bandwidth: Any
    relevance: FloatArray = field(repr=False)
    growth: list[dict[str, float]] = field(repr=False)
    weights: Vector = field(repr=False)

    def relearned(
        self, data: Data, order: Order, rising: IntArray | None, n_jobs: int | None
    ) -> tuple[FeatureMap, FeatureMatrix, Vector]:
        """Return the map, features of rows, and the weights as those of the map's columns.

        Which bins there are is learned from the rows; other features stay as they are.
        """
        maps = parts_of(self.feature_map)
        bins = maps[0]
        if not isinstance(bins, BinningMap):
            rows = self.scaler.rows(data.rows[order], n_jobs)
            return self.feature_map, self.feature_map.rows_matrix(rows), self.weights
        rows = self.scaler.ordered(data.rows, order, n_jobs)
        again, matrix = bins.relearned(rows)
        if rising is not None:
            matrix = again.complete_cells(rows, signed_columns(again.grids, rising))
        weights = bins.weights_in(again, self.weights)
        if not isinstance(self.feature_map, JoinedMaps):
            return again, matrix, weights
        whole, scales = np.asarray(rows), self.feature_map.scales_.tolist()
        dense = [DenseMatrix(np.asarray(part.transform(whole)), n_jobs) for part in maps[1:]]
        both = JoinedMaps.of([again, *maps[1:]], scales, n_jobs)
        return both, HStack([matrix, *dense], scales), weights


def select_again(
    search: Search,
    goal: Goal,
    budget: Budget,
    config: SearchConfig,
    earlier: EarlierFit,
    validates: bool,
) -> SelectedModel:
    """Keep what an earlier fit chose, for other rows or another penalty.

    ``validates`` says whether a fit that does not know some rows is wanted.
    """
    data, n_rows, strength = search.data, search.data.rows.shape[0], earlier.alpha
    settings, ridge = replace(earlier.settings, alpha=strength), strength * data.n_fitted
    splits = search.splits() if validates else []
    if isinstance(earlier.feature_map, KernelExpansion):
        length = settings.bandwidth or 1.0
        median = earlier.bandwidth / length
        chosen = GaussianRidge(earlier.scaler, length, median, ridge, np.inf)
        kept = RidgeFit(search, goal, chosen)
        return (kept.validated(splits[0]) if splits else kept).selected(budget, earlier.growth)
    order: Order = all_rows(splits[0], n_rows) if len(splits) == 1 else data.fitted
    rising, signs = search.rising, None
    feature_map, matrix, weights = earlier.relearned(data, order, rising, search.n_jobs)
    if rising is not None and isinstance(feature_map, BinningMap):
        signs = signs_of_grids(feature_map.grids, rising)
        goal = replace(goal, signs=signs)
    budget.note_disk(matrix)
    power = count_power_of(goal, config) if settings.grids == "grown" else 0.0
    matrix = scaled_by_priors(matrix, data, order, power)
    weights = scaled_weights(matrix, weights)
    result, step = _validated(search, goal, matrix, splits, ridge, weights), 0.0
    if result is not None:
        size = feature_map.numbers_per_row
        record(search, goal, "validation", settings, result, len(splits[0][0]), size)
        step = coarsest_step(goal, data, matrix, splits[0], result.weights)
    order, matrix = fitted_part(data, order, matrix)
    return SelectedModel(
        earlier.scaler,
        feature_map,
        matrix,
        order,
        settings,
        earlier.bandwidth,
        earlier.relevance,
        result,
        earlier.growth,
        [trial.as_dict() for trial in search.trials],
        budget.limits,
        goal.loss,
        start=weights,
        signs=signs,
        rounding_step=step,
        count_power=power,
    )


def _validated(
    search: Search,
    goal: Goal,
    matrix: FeatureMatrix,
    splits: list[Split],
    ridge: float,
    weights: Vector,
) -> ValidationResult | None:
    """Return what the rows held back say, of one split or several; None without any."""
    if not splits:
        return None
    if len(splits) == 1:
        return validate(search, goal, matrix, splits[0], ridge, weights)
    parts = [(split, matrix.take_rows(np.concatenate(split))) for split in splits]
    found = [validate(search, goal, own, split, ridge, weights) for split, own in parts]
    return replace(joined(found), weights=None)
