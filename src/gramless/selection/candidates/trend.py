"""Polynomial trends, alone or added to the best features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray
from gramless.features.polynomial_trend import PolynomialTrend
from gramless.matrices.base import FeatureMatrix
from gramless.preprocessing.scaling import Scaler
from gramless.selection.budget import Cost
from gramless.selection.candidate import (
    DENSE_TIME_SHARE,
    MAX_NUMBERS,
    REQUIRED_GAIN,
    Candidate,
    Fitted,
    FittedFeatures,
    GrownFeatures,
    Refinement,
    dense_features,
)
from gramless.selection.candidates.kernel_ridge import FittedKernelRidge
from gramless.selection.goal import scaled_score
from gramless.selection.splits import Split
from gramless.selection.task import GROWN, SelectionTask
from gramless.selection.validation import PenaltyPath, ValidationResult, joined, record

# Sample on which trends are standardised and tried with one step.
_SAMPLE_ROWS = 4000
_MAX_INPUTS, _MULTIPLIED_INPUTS, _MAX_CATEGORIES = 100, 10, 200
# A trend may be better when fitted if one step reaches this multiple of the best score.
_MAY_BE_BETTER = 1.1
# The length with the best score is used, because the curvature at a constant is only typical.
_STEP_LENGTHS = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
_COARSE_EXPONENTS = (-7, -4, -1, 2)  # powers of ten; the score can have several local minima


class TrendCandidate(Refinement):
    """A linear or quadratic trend, alone or added to the best features if that is better."""

    name = "the trial of a polynomial trend"
    time_share = DENSE_TIME_SHARE

    def is_wanted(self, task: SelectionTask) -> bool:
        return task.config.tries_trend and not task.validation_has_ended

    def refinement_cost(self, task: SelectionTask, best: GrownFeatures) -> Cost:
        n_rows, width = best.rows.shape
        if n_rows * width > MAX_NUMBERS:
            return Cost()
        # Only the scaled rows are counted, because a linear trend has hardly more features.
        return task.budget.cost_of_dense_features(0, width)

    def refine(self, task: SelectionTask, best: GrownFeatures) -> GrownFeatures | None:
        """Validate trends alone, then the better one added to the best features.

        Nearly always one Newton step, computed on some of the rows, shows that a trend alone does
        not predict better than the best features; then nothing is fitted.
        """
        rows, (n_rows, width), n_training = best.rows, best.rows.shape, len(task.split[0])
        sample = np.asarray(rows[: min(n_training, _SAMPLE_ROWS)])
        weights = task.data.counts_of(task.split[0][: len(sample)])
        linear, quadratic = polynomial_trends(
            best.relevance, best.scaler, sample, weights, n_rows, task.n_jobs
        )
        n_numbers = n_rows * quadratic.n_features_out
        cost = task.budget.cost_of_dense_features(n_numbers, width)
        if n_numbers > MAX_NUMBERS or not task.budget.allows(self.name, cost, self.time_share):
            return None
        validation_rows = np.asarray(rows[n_training:])
        if not _may_be_better(quadratic, task, best, sample, validation_rows):
            return None
        whole = np.asarray(rows)
        both_degrees = []
        for trend, matrix in dense_features([linear, quadratic], whole, task.n_jobs):
            description = f"a polynomial trend of {matrix.shape[1]} features"
            features = replace(best, feature_map=trend, matrix=matrix)
            # The fit ends early if it cannot reach the best.
            features = features.validated(
                task, best.result.alpha, beat=best.score, description=description
            )
            both_degrees.append(features)
        alone = min(both_degrees, key=lambda features: features.score)
        if alone.score >= best.score:
            return None
        beside = best.beside(task, alone.parts, alone.weights)
        required = scaled_score(min(best.score, alone.score), REQUIRED_GAIN)
        return beside if beside.score < required else alone

    def replaces(self, task: SelectionTask, best: Fitted, fitted: Fitted) -> bool:
        return True  # refine returns None unless the trend is better


class TrendOfFewRows(Candidate):
    """A trend that replaces kernel ridge regression or a cross-validated model of few rows.

    Its penalty is selected by the splits that validated the best model.
    """

    name = "the trial of a polynomial trend"

    def applies(self, task: SelectionTask, best: Fitted | None) -> bool:
        if not task.grows_grids or task.earlier is not None or best is None:
            return False
        has_few_rows = best.is_cross_validated or isinstance(best, FittedKernelRidge)
        is_open = not task.fixed.fixes_model and best.goal.loss == task.goal.loss
        is_wanted = task.config.tries_trend and not task.is_over("validation")
        return has_few_rows and is_open and is_wanted and best.validation is not None

    def fit(self, task: SelectionTask, best: Fitted | None) -> FittedFeatures | None:
        assert best is not None
        data, scaler, splits = task.data, task.scaler, task.held_back.splits
        if not best.is_cross_validated:
            splits = splits[:1]
        rows = np.asarray(scaler.rows(data.rows, task.n_jobs))
        equal, order = np.ones(data.rows.shape[1]), np.arange(len(rows))
        trends = polynomial_trends(
            equal, scaler, rows, data.counts_of(order), len(rows), task.n_jobs
        )
        tried = []
        for trend, matrix in dense_features(trends, rows, task.n_jobs):
            result, alpha = _with_best_penalty(matrix, task, splits)
            features = FittedFeatures(
                goal=task.goal,
                relevance=best.relevance,
                validation=result,
                is_cross_validated=best.is_cross_validated,
                scaler=scaler,
                feature_map=trend,
                matrix=matrix,
                order=order,
                settings=replace(GROWN, alpha=alpha),
            )
            tried.append(features)
        chosen = min(tried, key=lambda features: features.score)
        if chosen.score >= scaled_score(best.score, REQUIRED_GAIN):
            return None
        assert chosen.validation is not None
        size, n_training = chosen.matrix.shape[1], len(splits[0][0])
        description = f"a polynomial trend of {size} features"
        record(
            task,
            task.goal,
            "validation",
            chosen.settings,
            chosen.validation,
            n_training,
            size,
            description,
        )
        return chosen


def polynomial_trends(
    relevance: FloatArray,
    scaler: Scaler,
    sample: FloatArray,
    weights: FloatArray | None,
    n_rows: int,
    n_jobs: int | None,
) -> list[PolynomialTrend]:
    """Return the linear and the quadratic trend over scaled rows, fitted to a sample of them."""
    numbers = np.flatnonzero(~scaler.categorical_mask[: len(relevance)])
    strongest = numbers[np.argsort(-relevance[numbers], kind="stable")][:_MAX_INPUTS]
    most_categories = max(0, min(_MAX_CATEGORIES, MAX_NUMBERS // n_rows - _MAX_INPUTS))
    return [
        PolynomialTrend(
            strongest,
            n_multiplied=n_multiplied,
            categorical=np.flatnonzero(scaler.categorical_mask),
            most_categories=most_categories,
            n_jobs=n_jobs,
        ).fit(sample, sample_weight=weights)
        for n_multiplied in (0, _MULTIPLIED_INPUTS)
    ]


def _may_be_better(
    trend: PolynomialTrend,
    task: SelectionTask,
    best: GrownFeatures,
    training: FloatArray,
    validation: FloatArray,
) -> bool:
    """Return whether a trend alone may predict better than the best features.

    One Newton step from a constant decides, with the best of several lengths; with the squared
    loss it is the solution. ``training`` are some of the training rows.
    """
    data, goal, (rows, held_back) = task.data, best.goal, task.split
    loss, seen = goal.loss, rows[: len(training)]
    targets, counts = data.targets[seen], data.counts_of(seen)
    weights = np.ones(len(seen)) if counts is None else counts
    with np.errstate(divide="ignore"):
        constant = loss.initial_constant(targets, weights)
    # A class that is missing has infinite log odds.
    constant = np.where(np.isfinite(constant), constant, 0.0)
    slopes = -loss.gradient(np.broadcast_to(constant, targets.shape), targets)
    curvature = loss.typical_curvature(targets, weights)
    with one_blas_thread():
        features = trend.transform(training)
        weighted = weights[:, None] * features
        gram = curvature * (features.T @ weighted)
        gram += best.result.alpha * np.eye(features.shape[1])
        # Without a penalty, equal inputs leave no single solution.
        step = np.linalg.lstsq(gram, weighted.T @ slopes, rcond=None)[0]
        responses = trend.transform(validation) @ step
    raws = (constant + length * responses for length in _STEP_LENGTHS)
    score = min(goal.scored(data, raw, held_back)[0] for raw in raws)
    return score <= scaled_score(best.score, _MAY_BE_BETTER)


def _with_best_penalty(
    matrix: FeatureMatrix, task: SelectionTask, splits: Sequence[Split]
) -> tuple[ValidationResult, float]:
    """Return the result of the best penalty over all splits, and this penalty of the mean loss."""
    paths = [
        PenaltyPath(task, task.goal, matrix.take_rows(np.concatenate(split)), split)
        for split in splits
    ]
    sums_of_weights = [task.data.mass_of(training) for training, _ in splits]

    def with_exponent(exponent: int) -> ValidationResult:
        tried = zip(paths, sums_of_weights, strict=True)
        return joined([path.solve(10.0**exponent * total) for path, total in tried])

    tried = {exponent: with_exponent(exponent) for exponent in _COARSE_EXPONENTS}
    best = min(tried, key=lambda exponent: tried[exponent].score)
    for exponent in (best - 1, best + 1):
        tried[exponent] = with_exponent(exponent)
    best = min(tried, key=lambda exponent: tried[exponent].score)
    return tried[best], 10.0**best
