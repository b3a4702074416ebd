"""The model that rows held back choose.

    data -> split -> kernel ridge regression? -> polynomial trend? ------------> SelectedModel
                  |-> grow -> validate -> smooth kernels? -> polynomial trend? --^
                  `-> search -> random features -> validate ---------------------^

Of few rows each is held back in turns.

Each step is a function of what it is given; nothing that was given is changed but the record of
trials that a search keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.memory import release_freed_memory
from gramless.base.reporting import Reporter
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import BoolArray, FloatArray
from gramless.features.base import FeatureMap
from gramless.features.binning import GivenBinning
from gramless.features.expansion import KernelExpansion
from gramless.features.grids import Grids
from gramless.features.hybrid import JoinedMaps, parts_of
from gramless.features.nystrom import Nystrom
from gramless.features.polynomial_trend import PolynomialTrend
from gramless.features.projected import ProjectedMap
from gramless.losses import CumulativeLogistic, Loss
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.plain_bins import PlainBins
from gramless.matrices.row_products import (
    SingleRowProducts,
    single_row_gram,
    weighted_sum,
)
from gramless.matrices.scaled_bins import (
    first_part,
    plain_matrix,
    scale_bins,
    unscaled_weights,
)
from gramless.matrices.stacked import HStack, stacked_parts
from gramless.model_selection.alpha import Goal, mean_loss
from gramless.model_selection.bin_priors import count_power_of, prior_deviations, row_counts
from gramless.model_selection.budget import GROWTH_SHARE, Budget, worth_growing
from gramless.model_selection.config import SearchConfig
from gramless.model_selection.contributions import covariances
from gramless.model_selection.data import Data
from gramless.model_selection.gradient_directions import gradient_directions
from gramless.model_selection.growth import GrownGrids, grow
from gramless.model_selection.kernel_ridge import GaussianRidge, calibrated_loss
from gramless.model_selection.metric_learning import learned_projection
from gramless.model_selection.monotone_grids import signed_columns, signs_of_grids
from gramless.model_selection.random_features import (
    choose_random,
    fitted_in_memory,
    validate_random,
)
from gramless.model_selection.ridge_trial import RidgeFit, RidgeTrial, tried_ridge
from gramless.model_selection.scoring import scaled_score
from gramless.model_selection.search import Search
from gramless.model_selection.search_space import Hyperparameters
from gramless.model_selection.selected import Order, SelectedModel, fitted_part
from gramless.model_selection.smooth import EQUAL_LENGTH, fineness, smooth_bandwidths
from gramless.model_selection.splits import ROWS_OF_ONE_SPLIT, Split, all_rows
from gramless.model_selection.trend_trial import (
    MOST_NUMBERS,
    TREND_ROWS,
    may_be_better,
    polynomial_trends,
    with_best_penalty,
)
from gramless.model_selection.validation import (
    ValidationResult,
    coarsest_step,
    improve_alpha,
    joined,
    record,
    validate,
)
from gramless.preprocessing.rows import Rows
from gramless.preprocessing.scaling import Scaler

_SMOOTH_SHARE = 0.8
"""Of a time budget, after which the trial of smooth kernels must have ended."""
_SECONDS_A_SMOOTH_NUMBER = 4e-8
"""Of that trial, at most, for each number of the smooth features and output."""
_CLEAR_GAIN = 0.998
"""Smooth kernels must lower the score at least to this share."""
_ROUNDED_ROWS = 2048  # rows of features that are rounded at a time
_COPIED_WEIGHTS = 1 << 15
"""Weights of each output that are copied at a time."""
_GROWN = Hyperparameters("both", None, 0.0, grids="grown")
_FIRST, _STRAIGHT_FIRST = 10.0**0.5, 10.0
"""The first penalty of fits to numbers, and of fits with a straight loss, in multiples of the one
that growth found: its models fit the targets less closely than a solve does."""
_MOST_ADAPTATIONS = 4
"""Of a loss with parameters of its own, such as thresholds."""
_FEWEST_ROWS_TO_MULTIPLY, _MOST_ROWS_TO_MULTIPLY = 600, 2500
"""Between these numbers of rows the Gram matrix is computed once. Fewer rows take no time, and
sums over them would lose digits: the rows that precondition are nearly all."""
_LEAST_LANDMARKS = 100
"""Fewer are not worth their time."""
_GAIN_OVER_RIDGE = 0.95
"""Grids of few rows must lower the score of kernel ridge regression at least to this share."""
_WORTH_GROWING = 60
"""With fewer rows kernel ridge regression and a trend are tried alone, where they can be."""
_PROJECTED_LANDMARKS = 400
"""Of a kernel along learned directions, at least, where rows are not too many."""


def select_random(search: Search, goal: Goal, budget: Budget, validates: bool) -> SelectedModel:
    """Select random features of one kernel; the search gets the trials.

    ``validates`` says whether a fit that does not know some rows is wanted though nothing is open.
    """
    data = search.data
    n_rows = data.rows.shape[0]
    if validates and n_rows < 2:
        raise InputError("calibrate=True needs at least 2 rows, to hold one back.")
    splits = search.splits()
    chosen = choose_random(search, goal, splits[0], budget)
    order: Order = data.fitted
    result, feature_map, matrix = None, None, None
    if validates:
        result, feature_map, matrix = validate_random(chosen, search, goal, splits, budget)
        n_training, size = len(splits[0][0]), chosen.template.size
        record(search, goal, "validation", chosen.settings, result, n_training, size)
    if feature_map is None:
        feature_map, matrix = fitted_in_memory(chosen, search, budget, order)
    elif len(splits) == 1:
        order = all_rows(splits[0], n_rows)
    assert matrix is not None
    order, matrix = fitted_part(data, order, matrix)
    budget.note_disk(matrix)
    return SelectedModel(
        chosen.scaler,
        feature_map,
        matrix,
        order,
        chosen.settings,
        chosen.bandwidth,
        chosen.relevance,
        result,
        [],
        [trial.as_dict() for trial in search.trials],
        budget.limits,
        goal.loss,
    )


def select_grown(
    search: Search, goal: Goal, budget: Budget, config: SearchConfig, squares: Goal | None = None
) -> SelectedModel:
    """Grow grids, add smooth kernels if they help, and choose the penalty.

    Few rows are fitted by kernel ridge regression for the goal ``squares`` first, unless it is
    None; this fit is taken if it is better. Rows must be dense. The search gets the trials.

    Of fewer than 300 rows all are held back in turns, each from a model that is selected without
    them: a fifth of them would say too little of how far predictions are off.
    """
    splits = search.splits()
    config = config.of_targets(goal.loss, search.data.n_fitted)
    ridge = tried_ridge(search, goal, budget, config, squares, splits)
    return _Selection(search, goal, budget, config, ridge).by(splits)


@dataclass(frozen=True, eq=False)
class _Selection:
    """Selects grown grids for a goal, or what predicts better; ``ridge`` is None if not tried."""

    search: Search
    goal: Goal
    budget: Budget
    config: SearchConfig
    ridge: RidgeTrial | None

    def by(self, splits: list[Split]) -> SelectedModel:
        """Return what the rows held back select: by the first split, or in turns by all."""
        if self.ridge is not None and self.search.data.rows.shape[0] < _WORTH_GROWING:
            found = self.ridge.best.validated_by(splits).selected(self.budget, [])
            return self._or_trend(found, splits)
        found = self._by_one(splits[0])
        if self._takes_turns(found):
            return self._or_trend(self._judged_in_turns(found, splits), splits)
        if isinstance(found.feature_map, KernelExpansion):
            return self._or_trend(found, splits[:1])
        return found

    def _takes_turns(self, found: SelectedModel) -> bool:
        """Tell whether all rows are to be held back in turns."""
        search = self.search
        few = search.data.rows.shape[0] < ROWS_OF_ONE_SPLIT
        # Thresholds of ordered classes are those of one fit alone.
        is_alike = not isinstance(found.loss, CumulativeLogistic)
        return few and search.folds is None and is_alike and not search.is_over("validation")

    def _judged_in_turns(self, found: SelectedModel, splits: list[Split]) -> SelectedModel:
        """Return what the first split selected, judged by all rows, each from a model without it.

        Kernel ridge regression takes the place of grids that are not clearly better by all rows.
        """
        quiet, ridge = replace(self.search, trials=[], report=Reporter()), None
        if self.ridge is not None:
            ridge = replace(self.ridge.best, search=quiet).validated_by(splits)
            if isinstance(found.feature_map, KernelExpansion):
                return replace(found, validation=ridge.result)
        turn = replace(self, search=quiet, ridge=None)
        results = [own.validation for own in (found, *map(turn._by_one, splits[1:]))]
        result = joined([own for own in results if own is not None])
        if ridge is None or ridge.result is None:
            return replace(found, validation=result)
        of_grids, of_ridge = self._comparable_scores(result, ridge.result, ridge.squares.loss)
        if of_grids <= scaled_score(of_ridge, _GAIN_OVER_RIDGE):
            return replace(found, validation=result)
        return replace(ridge, search=self.search).selected(self.budget, found.growth)

    def _comparable_scores(
        self, grids: ValidationResult, ridge: ValidationResult, squares: Loss
    ) -> tuple[float, float]:
        """Return the scores of both, or log losses where kernel ridge regression fits classes."""
        if squares == self.goal.loss:
            return grids.score, ridge.score
        data, loss = self.search.data, self.goal.loss
        return (
            calibrated_loss(data, grids.rows, grids.raw, loss),
            calibrated_loss(data, ridge.rows, ridge.raw, loss),
        )

    def _or_trend(self, found: SelectedModel, splits: list[Split]) -> SelectedModel:
        """Return a polynomial trend alone in the place of a model, if the splits say so."""
        search, goal = self.search, self.goal
        data, judged, given = search.data, found.validation, search.space
        is_open = given.alpha is None and given.n_grids is None and found.loss == goal.loss
        if not (self.config.tries_trend and is_open) or search.is_over("validation"):
            return found
        scaler = _scaler(search)
        rows = np.asarray(scaler.rows(data.rows, search.n_jobs))
        equal, weights = np.ones(data.rows.shape[1]), data.counts_of(np.arange(len(rows)))
        trends = polynomial_trends(equal, scaler, rows, weights, len(rows), search.n_jobs)
        tried = [
            (*with_best_penalty(matrix, search, goal, splits), trend, matrix)
            for trend, matrix in _computed(trends, rows, search.n_jobs)
        ]
        result, alpha, trend, matrix = min(tried, key=lambda own: own[0].score)
        if judged is None or result.score >= scaled_score(judged.score, _CLEAR_GAIN):
            return found
        settings, size = replace(_GROWN, alpha=alpha), matrix.shape[1]
        what = f"a polynomial trend of {size} features"
        record(search, goal, "validation", settings, result, len(splits[0][0]), size, what)
        order, fitted = fitted_part(data, np.arange(len(rows)), matrix)
        return SelectedModel(
            scaler,
            trend,
            fitted,
            order,
            settings,
            None,
            found.relevance,
            result,
            found.growth,
            [trial.as_dict() for trial in search.trials],
            found.limits,
            goal.loss,
        )

    def _by_one(self, split: Split) -> SelectedModel:
        """Return what one split selects: grids, with what helps beside them, or kernel ridge."""
        search, goal, budget, config = self.search, self.goal, self.budget, self.config
        data, n_jobs, scaler, ridge = search.data, search.n_jobs, _scaler(search), self.ridge
        is_enough = (lambda first_loss: False) if ridge is None else ridge.is_far_better
        grown = _grown(search, goal, budget, config, split, scaler, is_enough)
        if ridge is not None and ridge.is_far_better(grown[0].first_loss):
            return ridge.best.validated(split).selected(budget, grown[0].history)
        order = all_rows(split, data.rows.shape[0])
        rows = scaler.ordered(data.rows, order, n_jobs)
        grids = Grids.joined([own.grids for own in grown])
        binning = GivenBinning(n_jobs=n_jobs)
        search.report("binning", f"{len(order):>7} rows, binned by {len(grids)} grids")
        binned = _binned(binning, rows, grids, search, budget)
        given = search.space.alpha
        straight, first = goal.loss.straight, _first_alpha(goal, data, grown, split, given)
        if search.rising is not None:
            goal = replace(goal, signs=signs_of_grids(binning.grids, search.rising))
        validation = _Validation(search, goal, budget, split, len(grids))
        power = count_power_of(goal, config)
        features = scaled_by_priors(binned, data, order, power)
        best = _Features(binning, features, validation.of(features, first, None))
        validation, best = _with_adapted_loss(validation, best)
        goal = validation.goal
        if given is None and straight and not validation.is_ended:
            best = replace(best, result=validation.nearby(best.matrix, best.result))
        known = () if ridge is None else ridge.of_scalings
        best = _with_smooth_kernels(best, validation, config, scaler, rows, known)
        better = None if ridge is None else validation.better_ridge(ridge, best.result)
        if better is not None:
            return better.selected(budget, grown[0].history)
        if given is None and config.tries_nearby_alphas and not (straight or validation.is_ended):
            best = replace(best, result=validation.nearby(best.matrix, best.result))
        best = _with_trend(best, validation, config, scaler, rows, grown[0])
        step = coarsest_step(goal, data, best.matrix, split, best.result.weights)
        fitted, matrix = fitted_part(data, order, best.matrix)
        alpha = best.result.alpha / data.n_fitted if given is None else given
        return SelectedModel(
            scaler,
            best.feature_map,
            matrix,
            fitted,
            replace(_GROWN, alpha=alpha),
            None,
            grown[0].relevance(data.rows.shape[1]),
            best.result,
            grown[0].history,
            [trial.as_dict() for trial in search.trials],
            budget.limits,
            goal.loss,
            signs=goal.signs,
            rounding_step=step,
            count_power=power,
            products=_fitted_products(data, order, validation.prepared(best.matrix)),
        )


def scaled_by_priors(
    matrix: FeatureMatrix, data: Data, order: Order, power: float
) -> FeatureMatrix:
    """Return features of rows in an order, bins scaled by the deviations of their priors.

    The bins are the first part of the features; nothing changes where there are none.
    """
    bins = first_part(matrix)
    if power == 0.0 or not isinstance(bins, PlainBins):
        return matrix
    counts = bins.rmatvec(row_counts(data, order)) / bins.scale
    return scale_bins(matrix, prior_deviations(counts, power))


def _first_alpha(
    goal: Goal, data: Data, grown: Sequence[GrownGrids], split: Split, given: float | None
) -> float:
    """Return the penalty that is tried first, times the number of rows that are fitted to."""
    if given is not None:
        return given * data.mass_of(split[0])
    mean = float(np.mean([own.alpha for own in grown]))
    if goal.loss.is_of_classes:
        return mean
    return mean * (_STRAIGHT_FIRST if goal.loss.straight else _FIRST)


def _scaler(search: Search) -> Scaler:
    """Return the scaler for growth: inputs along which predictions rise are ranks."""
    scaler = search.data.scaler("both")
    return scaler if search.rising is None else scaler.ranked(search.rising != 0)


def _fitted_products(data: Data, order: Order, matrix: FeatureMatrix) -> SingleRowProducts | None:
    """Return the features of the final fit's rows, if trials had products in single precision."""
    if not isinstance(matrix, SingleRowProducts):
        return None
    own = fitted_part(data, order, matrix)[1]
    assert isinstance(own, SingleRowProducts)
    return own


@dataclass(frozen=True, eq=False)
class _Features:
    """Fitted features of all rows, and what rows held back said of them."""

    feature_map: FeatureMap
    matrix: FeatureMatrix
    result: ValidationResult

    @property
    def binning(self) -> GivenBinning:
        """The map to the bins of grids."""
        found = self.feature_map
        found = found.maps_[0] if isinstance(found, JoinedMaps) else found
        assert isinstance(found, GivenBinning)
        return found

    @property
    def binned(self) -> PlainBins:
        """The part of the matrix that is of grids."""
        found = plain_matrix(self.bins)
        assert isinstance(found, PlainBins)
        return found

    @property
    def bins(self) -> FeatureMatrix:
        """The part of the matrix that is of grids, scaled or not."""
        return first_part(self.matrix)

    @property
    def parts(self) -> list[tuple[FeatureMap, FeatureMatrix]]:
        """The maps that stand side by side, and their features."""
        matrices = (matrix for _, matrix in stacked_parts(self.matrix))
        return list(zip(parts_of(self.feature_map), matrices, strict=True))

    @property
    def weights(self) -> Vector:
        """Of the fit to the training rows, that of the intercept last if there is one."""
        assert self.result.weights is not None
        return self.result.weights

    def variances(self) -> FloatArray:
        """Return the variance of what each grid adds to the predictions of the rows."""
        binned = self.binned
        weights = unscaled_weights(self.matrix, self.weights)[: binned.shape[1]]
        counts = binned.gram_diagonal() / binned.scale**2
        return covariances(counts, binned.offsets, weights, weights, binned.n_jobs)


class _RowGrams:
    """Gram matrices of the rows of features, which several trials need."""

    def __init__(self) -> None:
        self._known: list[tuple[FeatureMatrix, NDArray[np.float32]]] = []

    def of(self, matrix: FeatureMatrix) -> NDArray[np.float32]:
        """Return the Gram matrix; of stacked features the sum of those of the parts."""
        for other, gram in self._known:
            if other is matrix:
                return gram
        if isinstance(matrix, HStack):
            parts = [(np.float32(scale**2), self.of(part)) for scale, part in stacked_parts(matrix)]
            found = weighted_sum(parts, matrix.n_jobs)
        else:
            found = single_row_gram(matrix)
        self._known.append((matrix, found))
        return found


@dataclass(frozen=True, eq=False)
class _Validation:
    """Validates features on one split, and records what was tried."""

    search: Search
    goal: Goal
    budget: Budget
    split: Split
    size: int
    what: str | None = None
    row_grams: _RowGrams = field(default_factory=lambda: _RowGrams(), repr=False)

    @property
    def is_ended(self) -> bool:
        """Whether a callback wants no more trials."""
        return "validation" in self.search.report.ended

    def of(
        self,
        matrix: FeatureMatrix,
        alpha: float,
        start: Vector | None,
        beat: float = np.inf,
    ) -> ValidationResult:
        """Return the result of features with a penalty, see :func:`validate`."""
        own = self.prepared(matrix)
        return self._recorded(validate(self.search, self.goal, own, self.split, alpha, start, beat))

    def nearby(self, matrix: FeatureMatrix, found: ValidationResult) -> ValidationResult:
        """Return the result of the best penalty near that of a result."""
        own = self.prepared(matrix)
        return self._recorded(improve_alpha(self.search, self.goal, own, self.split, found))

    def prepared(self, matrix: FeatureMatrix) -> FeatureMatrix:
        """Return features with faster products of their rows, exact enough to compare fits.

        Where rows are few their Gram matrix is at hand.
        """
        data, goal = self.search.data, self.goal
        steps = goal.loss.name != "squared" and not (goal.sparse or goal.loss.straight)
        if not steps or data.intercept or goal.signs is not None:
            return matrix
        if not matrix.has_row_products:
            return matrix
        n_rows, n_columns = matrix.shape
        few = _FEWEST_ROWS_TO_MULTIPLY <= n_rows <= _MOST_ROWS_TO_MULTIPLY and n_columns > n_rows
        if data.n_outputs == 1 and not few:
            return matrix
        return SingleRowProducts(matrix, self.row_grams.of(matrix) if few else None)

    def _recorded(self, found: ValidationResult) -> ValidationResult:
        told = _GROWN, found, len(self.split[0]), self.size, self.what
        record(self.search, self.goal, "validation", *told)
        return found

    def better_ridge(self, ridge: RidgeTrial, found: ValidationResult) -> RidgeFit | None:
        """Return kernel ridge regression if it is clearly better than a result."""
        return ridge.better_than(self.loss_of(found), self.split, self.goal.loss)

    def loss_of(self, found: ValidationResult) -> float:
        """Return the mean loss of the rows held back."""
        data, rows = self.search.data, found.rows
        return mean_loss(self.goal.loss)(found.raw, data.targets[rows], data.weights_of(rows))


def _with_adapted_loss(
    validation: _Validation, features: _Features
) -> tuple[_Validation, _Features]:
    """Let parameters of the loss follow the predictions of rows held back, and these the loss."""
    data = validation.search.data
    for _ in range(_MOST_ADAPTATIONS):
        goal, result = validation.goal, features.result
        weights = data.counts_of(result.rows)
        weights = np.ones(len(result.rows)) if weights is None else weights
        loss = goal.loss.adapted(result.raw, data.targets[result.rows], weights)
        if loss == goal.loss:
            break
        goal = replace(goal, loss=loss, score=mean_loss(loss))
        validation = replace(validation, goal=goal)
        again = validation.of(features.matrix, result.alpha, result.weights)
        features = replace(features, result=again)
    return validation, features


def _binned(
    binning: GivenBinning, rows: Rows, grids: Grids, search: Search, budget: Budget
) -> PlainBins:
    """Learn the bins of grids; return those of the rows."""
    release_freed_memory()
    binned = _fitting(binning, binning.learn_bins(rows, grids), budget)
    if search.rising is not None:
        binned = binning.complete_cells(rows, signed_columns(binning.grids, search.rising))
    budget.note_disk(binned)
    return binned


def _fitting(binning: GivenBinning, binned: PlainBins, budget: Budget) -> PlainBins:
    """Return the bins of as many of the first grids as the weights of have memory.

    The map of the grids forgets the others.
    """
    if budget.fits(binned.shape[1]):
        return binned
    n_grids = max(1, int((binned.offsets[1:] <= budget.most_columns()).sum()))
    binning.keep_bins(np.arange(binned.shape[1]) < binned.offsets[n_grids])
    return binned.first_grids(n_grids)


def _with_smooth_kernels(
    grown: _Features,
    validation: _Validation,
    config: SearchConfig,
    scaler: Scaler,
    rows: Rows,
    known: Sequence[GaussianRidge],
) -> _Features:
    """Return the grids with smooth kernels beside them, if these help.

    What is ``known`` of kernels over equal inputs is not tried again.
    """
    search, binned = validation.search, grown.binned
    wanted = min(config.n_landmarks, config.landmarks_an_output * search.data.n_outputs)
    n_landmarks = min(wanted, MOST_NUMBERS // binned.shape[0])
    if n_landmarks < _LEAST_LANDMARKS or validation.is_ended:
        return grown
    n_kernels, n_rows = len(config.smooth_lengths), binned.shape[0]
    if not _is_affordable(validation, n_kernels * n_landmarks * n_rows, rows.shape[1]):
        return grown
    fine = fineness(grown.binning.grids, grown.variances(), scaler)
    if not fine.any():
        return grown
    split, training = validation.split, rows[: len(validation.split[0])]
    projection = learned_projection(search, split, scaler, fine, config.projection_max_error_ratio)
    size = max(n_landmarks, min(_PROJECTED_LANDMARKS, MOST_NUMBERS // n_rows))
    if projection is not None and _is_affordable(validation, size * n_rows, rows.shape[1]):
        projected = np.asarray(training) @ projection
        kernels = _gaussians(search, projected, [EQUAL_LENGTH], None, size)
        maps = [ProjectedMap.of(projection, own, search.n_jobs) for own in kernels]
        others = _computed(maps, np.asarray(rows), search.n_jobs)
        found = _beside(grown, others, validation)
        if found is not grown:
            return found
    own = smooth_bandwidths(search, split, scaler, fine, config.smooth_lengths, known)
    smooth = _gaussians(search, training, own, scaler.categorical, n_landmarks)
    return _beside(grown, _computed(smooth, np.asarray(rows), search.n_jobs), validation)


def _is_affordable(
    validation: _Validation,
    n_numbers: int,
    width: int,
    trial: str = "the trial of smooth kernels",
) -> bool:
    """Return whether there are memory and time for a trial of so many numbers of dense features.

    The scaled rows have ``width`` columns.
    """
    budget = validation.budget
    seconds = _SECONDS_A_SMOOTH_NUMBER * n_numbers * validation.search.data.n_outputs
    has_memory = budget.has_memory_for_features(n_numbers, width, trial)
    return has_memory and budget.has_time(_SMOOTH_SHARE, trial, seconds)


def _gaussians(
    search: Search,
    rows: Rows,
    bandwidths: Sequence[float | FloatArray],
    categorical: BoolArray | None,
    n_landmarks: int,
) -> list[Nystrom]:
    """Return Gaussian kernels of some bandwidths, with landmarks among the rows."""
    smooth = [
        Nystrom(
            "gaussian",
            bandwidth=bandwidth,
            categorical=categorical,
            n_components=n_landmarks,
            random_state=search.seed,
            n_jobs=search.n_jobs,
        )
        for bandwidth in bandwidths
    ]
    for part in smooth:
        part.fit_rows(rows)
        part.round_factor()
    return smooth


def _with_trend(
    best: _Features,
    validation: _Validation,
    config: SearchConfig,
    scaler: Scaler,
    rows: Rows,
    grown: GrownGrids,
) -> _Features:
    """Return features with a polynomial trend beside them, or the trend alone, if that helps.

    Both are tried if the trend alone predicts better than the features do. Nearly always one Newton
    step, computed from some of the rows, is enough to tell.
    """
    search, n_training = validation.search, len(validation.split[0])
    if not config.tries_trend or validation.is_ended:
        return best
    relevance, (n_rows, width) = grown.relevance(search.data.rows.shape[1]), rows.shape
    what = "the trial of a polynomial trend"
    # The linear part alone has about as many features as the rows have columns.
    if n_rows * width <= MOST_NUMBERS and not _is_affordable(validation, 0, width, what):
        return best
    sample = np.asarray(rows[: min(n_training, TREND_ROWS)])
    weights = search.data.counts_of(validation.split[0][: len(sample)])
    linear, trend = polynomial_trends(relevance, scaler, sample, weights, n_rows, search.n_jobs)
    n_numbers = n_rows * trend._n_features_out
    if n_numbers > MOST_NUMBERS:
        return best
    if not _is_affordable(validation, n_numbers, width, what):
        return best
    held_back = np.asarray(rows[n_training:])
    goal, split = validation.goal, validation.split
    if not may_be_better(trend, best.result, search, goal, split, sample, held_back):
        return best
    whole = np.asarray(rows)
    both_degrees = [_alone(part, best.result, validation, whole) for part in (linear, trend)]
    alone = min(both_degrees, key=lambda features: features.result.score)
    if alone.result.score >= best.result.score:
        return best
    both = _beside(best, alone.parts, validation, alone.weights)
    is_better = both.result.score < scaled_score(alone.result.score, _CLEAR_GAIN)
    return both if is_better else alone


def _alone(
    trend: PolynomialTrend, found: ValidationResult, validation: _Validation, rows: FloatArray
) -> _Features:
    """Return a trend alone; its fit ends early if it cannot reach what was found."""
    [(_, matrix)] = _computed([trend], rows, validation.search.n_jobs)
    size = matrix.shape[1]
    own = replace(validation, size=size, what=f"a polynomial trend of {size} features")
    return _Features(trend, matrix, own.of(matrix, found.alpha, None, found.score))


def _beside(
    found: _Features,
    others: Sequence[tuple[FeatureMap, FeatureMatrix]],
    validation: _Validation,
    start: Vector | None = None,
) -> _Features:
    """Return features with others beside them, if rows held back are predicted better.

    The fit starts from what was found, or from weights of the others alone, that of the intercept
    last if there is one.
    """
    search, weights, n_columns = validation.search, found.weights, found.matrix.shape[1]
    parts = [*found.parts, *others]
    scales = [1.0] * len(parts)
    joint = HStack([matrix for _, matrix in parts], scales)
    first = np.zeros((joint.shape[1] + int(search.data.intercept), *weights.shape[1:]))

    def copy(a: int, b: int) -> None:
        first[a:b] = weights[a:b]

    if start is None:
        first[joint.shape[1] :] = weights[n_columns:]
        map_blocks(copy, row_blocks(n_columns, _COPIED_WEIGHTS), search.n_jobs)
    else:
        first[n_columns:] = start
    tried = validation.of(joint, found.result.alpha, first, found.result.score)
    if tried.score >= scaled_score(found.result.score, _CLEAR_GAIN):
        return found
    joined = JoinedMaps.of([part for part, _ in parts], scales, search.n_jobs)
    return _Features(joined, joint, tried)


def _computed(
    maps: Sequence[FeatureMap], rows: FloatArray, n_jobs: int | None
) -> list[tuple[FeatureMap, FeatureMatrix]]:
    """Return maps with their features of rows, computed once and kept in single precision."""
    return [(part, DenseMatrix(_in_single(part, rows, n_jobs), n_jobs)) for part in maps]


def _in_single(features: FeatureMap, rows: FloatArray, n_jobs: int | None) -> NDArray[np.float32]:
    """Return features of rows, rounded to single precision: solvers read them again and again."""
    found = np.empty((len(rows), len(features.get_feature_names_out())), np.float32)

    def compute(first: int, last: int) -> None:
        found[first:last] = features.transform(rows[first:last])

    map_blocks(compute, row_blocks(len(rows), _ROUNDED_ROWS), n_jobs)
    return found


def _grown(
    search: Search,
    goal: Goal,
    budget: Budget,
    config: SearchConfig,
    split: Split,
    scaler: Scaler,
    is_enough: Callable[[float], bool],
) -> list[GrownGrids]:
    """Return grids grown with each seed; none is dropped where the user gave their number.

    Those of every second seed may divide the directions along which the first ones vary.
    """
    config = budget.within(config)
    if search.space.n_grids is not None:
        config = replace(config, dropped_share=0.0)
    worth = worth_growing(len(split[0]), search.data.n_outputs, config.most_grids)
    most = budget.affordable(config.n_seeds * (search.space.n_grids or worth))

    def stop() -> bool:
        return "growth" in search.report.ended or not budget.has_time(GROWTH_SHARE, "growth")

    def grown(k: int, projection: FloatArray | None = None) -> GrownGrids:
        return grow(
            search.data,
            split,
            scaler,
            goal.loss,
            config,
            most=max(1, most // config.n_seeds),
            seed=search.seed + k,
            n_jobs=search.n_jobs,
            groups=search.groups,
            stop=stop,
            fits=lambda n_columns: budget.fits(config.n_seeds * n_columns),
            is_enough=is_enough,
            report=search.report,
            scorer=goal.scorer,
            alone=None if search.rising is None else np.tile(search.rising != 0, 2),
            projection=projection,
        )

    sets = [grown(0)]
    if config.n_seeds == 1 or stop() or is_enough(sets[0].first_loss):
        return sets
    projection = gradient_directions(search, split, scaler, sets[0], config.n_directions)
    sets += [grown(k, projection if k % 2 == 1 else None) for k in range(1, config.n_seeds)]
    return sets if projection is None else [own.projected(projection) for own in sets]
