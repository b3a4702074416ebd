"""Random features of one kernel: what a search chose, or what was given."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from gramless.base.types import FloatArray, IntArray
from gramless.features.base import FeatureMap, SizedMap
from gramless.features.binning import BinningMap, RandomBinning
from gramless.matrices.base import FeatureMatrix
from gramless.model_selection.alpha import Goal, search_alpha
from gramless.model_selection.budget import Budget
from gramless.model_selection.data import Data
from gramless.model_selection.scoring import scaled_score
from gramless.model_selection.search import TIME_SHARE, Search
from gramless.model_selection.search_space import Hyperparameters
from gramless.model_selection.splits import Split, all_rows
from gramless.model_selection.validation import ValidationResult, joined, record, validate
from gramless.preprocessing.scaling import Scaler

ENOUGH_TO_SEARCH = 40
"""With fewer rows nothing is searched."""
_DEFAULT_ALPHA = 1e-3
_COST = 4.0
"""Of a grid over all inputs, relative to one over a few: most rows have a bin of their own, and
vectors of weights are as long as all codes."""
_FIRST_SIZE, _LEAST_GAIN = 64, 0.02
"""A doubling of the grids that lowers the score by a smaller share is the last."""
_SIZING_ROWS, _LEAST_TO_SIZE = 12_500, 2500
"""Rows that say how many grids are worth their time; with fewer nothing is asked."""


@dataclass(frozen=True, eq=False)
class RandomFeatures:
    """An unfitted map of random features, over the rows of a scaler.

    The template's bandwidth is in units of the rows that the scaler returns, ``bandwidth`` in
    those of the scaled inputs; ``settings.alpha`` is for all rows.
    """

    scaler: Scaler
    template: SizedMap
    settings: Hyperparameters
    bandwidth: FloatArray | float

    @property
    def relevance(self) -> FloatArray:
        """Weights of the inputs."""
        relevance = self.settings.relevance
        return np.ones(len(self.scaler.unit)) if relevance is None else relevance

    def fitted(
        self, data: Data, order: IntArray | slice, n_jobs: int | None
    ) -> tuple[FeatureMap, FeatureMatrix]:
        """Return the map fitted to some rows, and their feature matrix."""
        feature_map: SizedMap = clone(self.template)
        if isinstance(feature_map, BinningMap):
            # Bins are learned in one pass over rows, of which there need be no copy.
            rows = self.scaler.ordered(data.rows, order, n_jobs)
        else:
            rows = self.scaler.rows(data.rows[order], n_jobs)
        return feature_map, feature_map.fit_rows(rows)


def is_open(search: Search) -> bool:
    """Tell whether there is anything to search for, and enough rows or given folds to do so."""
    space = search.space
    given = space.bandwidth is not None and space.alpha is not None
    decided = given and len(space.scalings) == 1
    enough = search.folds is not None or search.data.rows.shape[0] >= ENOUGH_TO_SEARCH
    return not decided and enough


def choose_random(search: Search, goal: Goal, split: Split, budget: Budget) -> RandomFeatures:
    """Return random features: as given, searched, or by rule where rows are few."""
    settings = _settings(search, goal, budget)
    scaler = search.data.scaler(settings.scaling).weighted(settings.relevance)
    bandwidth = search.bandwidth(settings, scaler)
    template: SizedMap = clone(search.feature_map).set_params(
        bandwidth=scaler.unscaled(bandwidth), categorical=scaler.categorical
    )
    chosen = RandomFeatures(scaler, template, settings, bandwidth)
    if not isinstance(template, RandomBinning):
        return chosen
    most = budget.affordable(template.size, _COST)
    open_size = search.space.n_grids is None and not goal.sparse
    if open_size and search.data.rows.shape[0] >= _LEAST_TO_SIZE:
        most = _enough_grids(chosen, search, goal, split, most, budget)
    return replace(chosen, template=template.resized(most))


def fitted_in_memory(
    chosen: RandomFeatures, search: Search, budget: Budget, order: IntArray | slice
) -> tuple[FeatureMap, FeatureMatrix]:
    """Return the map fitted to some rows, and their matrix; with fewer grids if weights need it.

    Grids whose number was given stay, and are refused where the problem is made.
    """
    feature_map, matrix = chosen.fitted(search.data, order, search.n_jobs)
    is_open = isinstance(feature_map, RandomBinning) and search.space.n_grids is None
    if not is_open or budget.fits(matrix.shape[1]):
        return feature_map, matrix
    size = max(1, chosen.template.size * budget.most_columns() // matrix.shape[1])
    del matrix
    fewer = replace(chosen, template=chosen.template.resized(size))
    return fewer.fitted(search.data, order, search.n_jobs)


def validate_random(
    chosen: RandomFeatures, search: Search, goal: Goal, splits: list[Split], budget: Budget
) -> tuple[ValidationResult, FeatureMap | None, FeatureMatrix | None]:
    """Validate random features with their penalty.

    Of bins, also returns the map and matrix of all rows, in the order of the split where there is
    one: bins of no training row keep the weight zero, as if they had never been seen.
    """
    n_rows = search.data.rows.shape[0]
    alpha = chosen.settings.alpha * search.data.n_fitted
    if not isinstance(chosen.template, BinningMap):
        results = [_validated_apart(chosen, search, goal, split, alpha) for split in splits]
        return replace(joined(results), weights=None), None, None
    order = all_rows(splits[0], n_rows) if len(splits) == 1 else slice(None)
    feature_map, matrix = fitted_in_memory(chosen, search, budget, order)
    if len(splits) == 1:
        result = validate(search, goal, matrix, splits[0], alpha)
        return result, feature_map, matrix
    results = [
        validate(search, goal, matrix.take_rows(np.concatenate(split)), split, alpha)
        for split in splits
    ]
    return replace(joined(results), weights=None, trials=[]), feature_map, matrix


def _validated_apart(
    chosen: RandomFeatures, search: Search, goal: Goal, split: Split, alpha: float
) -> ValidationResult:
    """Return the result of a split, features learned from its training rows alone."""
    data, n_jobs, (training, held_back) = search.data, search.n_jobs, split
    feature_map, own = chosen.fitted(data, training, n_jobs)
    problem = goal.problem(data, data.matrix(own), alpha / data.mass_of(training), training)
    weights = goal.solver(problem, n_jobs).solve(problem).weights
    others = feature_map.rows_matrix(chosen.scaler.rows(data.rows[held_back], n_jobs))
    raw = data.matrix(others).matvec(weights)
    return ValidationResult(alpha, *goal.scored(data, raw, held_back), held_back, raw, weights)


def _settings(search: Search, goal: Goal, budget: Budget) -> Hyperparameters:
    space = search.space
    if not is_open(search):
        return search.first_settings(_DEFAULT_ALPHA if space.alpha is None else space.alpha)
    squares = search.data.for_squares
    settings = (search if squares is search.data else replace(search, data=squares)).run(budget)
    if space.alpha is None and (goal.loss.name != "squared" or goal.sparse):
        settings = search_alpha(search, settings, goal)
    budget.has_time(TIME_SHARE, "search")
    return settings


def _enough_grids(
    chosen: RandomFeatures, search: Search, goal: Goal, split: Split, most: int, budget: Budget
) -> int:
    """Double the number of grids for as long as that predicts rows held back clearly better."""
    share = min(1.0, _SIZING_ROWS / (len(split[0]) + len(split[1])))
    first, second = (rows[: max(1, int(share * len(rows)))] for rows in split)
    part = first, second
    alpha = chosen.settings.alpha * search.data.n_fitted
    size, last = min(_FIRST_SIZE, most), np.inf
    while True:
        sized = replace(chosen, template=chosen.template.resized(size))
        _, matrix = sized.fitted(search.data, np.concatenate(part), search.n_jobs)
        if not budget.fits(matrix.shape[1]):
            return max(1, size * budget.most_columns() // matrix.shape[1])
        found = validate(search, goal, matrix, part, alpha)
        record(search, goal, "size", chosen.settings, found, len(part[0]), size)
        enough = found.score > scaled_score(last, 1.0 - _LEAST_GAIN) or size == most
        if enough or search.is_over("size"):
            return size
        size, last = min(2 * size, most), found.score
