"""A polynomial trend alone: whether one is worth a fit, and its penalty where rows are few."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray
from gramless.features.polynomial_trend import PolynomialTrend
from gramless.matrices.base import FeatureMatrix
from gramless.model_selection.alpha import Goal
from gramless.model_selection.scoring import scaled_score
from gramless.model_selection.search import Search
from gramless.model_selection.splits import Split
from gramless.model_selection.validation import ValidationResult, joined, validate
from gramless.preprocessing.scaling import Scaler

TREND_ROWS = 4000
"""By which it is standardised and tried alone, at most."""
MOST_NUMBERS = 50_000_000
"""Of dense features of all rows."""
_INPUTS, _MULTIPLIED, _CATEGORIES = 100, 10, 200
"""Of a trend, at most; of so many inputs a quadratic one has products."""
_MAY_BE_BETTER = 1.1
"""A trend that has this multiple of a score after a step may be better once it is fitted."""
_STEP_LENGTHS = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
"""Of which the one with the best score counts: the curvature at a constant is only typical."""
_POWERS = (-7, -4, -1, 2)
"""Of ten, in the first penalties; the score may have several minima between. Neighbours follow."""


def polynomial_trends(
    relevance: FloatArray,
    scaler: Scaler,
    sample: FloatArray,
    weights: FloatArray | None,
    n_rows: int,
    n_jobs: int | None,
) -> list[PolynomialTrend]:
    """Return the linear and the quadratic trend over scaled rows, of which some are given."""
    numbers = np.flatnonzero(~scaler.categorical_mask[: len(relevance)])
    strongest = numbers[np.argsort(-relevance[numbers], kind="stable")][:_INPUTS]
    most = max(0, min(_CATEGORIES, MOST_NUMBERS // n_rows - _INPUTS))
    return [
        PolynomialTrend(
            strongest,
            n_multiplied=n_multiplied,
            categorical=np.flatnonzero(scaler.categorical_mask),
            most_categories=most,
            n_jobs=n_jobs,
        ).fit(sample, sample_weight=weights)
        for n_multiplied in (0, _MULTIPLIED)
    ]


def may_be_better(
    trend: PolynomialTrend,
    best: ValidationResult,
    search: Search,
    goal: Goal,
    split: Split,
    training: FloatArray,
    validation: FloatArray,
) -> bool:
    """Return whether a trend alone may predict better than a model, after one Newton step.

    The step starts from a constant, and its best length is tried; with the squared loss it is the
    solution. ``training`` are some of the training rows, ``validation`` the rows held back.
    """
    data, loss, (rows, held_back) = search.data, goal.loss, split
    seen = rows[: len(training)]
    targets, counts = data.targets[seen], data.counts_of(seen)
    weights = np.ones(len(seen)) if counts is None else counts
    with np.errstate(divide="ignore"):
        constant = loss.initial_constant(targets, weights)
    # A class that is missing has infinite log odds.
    constant = np.where(np.isfinite(constant), constant, 0.0)
    slopes = -loss.gradient(np.broadcast_to(constant, targets.shape), targets)
    unit = loss.typical_curvature(targets, weights)
    with one_blas_thread():
        features = trend.transform(training)
        weighted = weights[:, None] * features
        gram = unit * (features.T @ weighted) + best.alpha * np.eye(features.shape[1])
        # Without a penalty equal inputs leave no single solution.
        step = (
            trend.transform(validation) @ np.linalg.lstsq(gram, weighted.T @ slopes, rcond=None)[0]
        )
    raws = (constant + length * step for length in _STEP_LENGTHS)
    score = min(goal.scored(data, raw, held_back)[0] for raw in raws)
    return score <= scaled_score(best.score, _MAY_BE_BETTER)


def with_best_penalty(
    matrix: FeatureMatrix, search: Search, goal: Goal, splits: Sequence[Split]
) -> tuple[ValidationResult, float]:
    """Validate features by all splits with the best penalty of the mean loss; return that too."""
    data = search.data
    matrices = [matrix.take_rows(np.concatenate(split)) for split in splits]

    def of(power: int) -> ValidationResult:
        results = [
            validate(search, goal, own, split, 10.0**power * data.mass_of(split[0]))
            for own, split in zip(matrices, splits, strict=True)
        ]
        return joined(results)

    tried = {power: of(power) for power in _POWERS}
    best = min(tried, key=lambda power: tried[power].score)
    for power in (best - 1, best + 1):
        tried[power] = of(power)
    best = min(tried, key=lambda power: tried[power].score)
    return tried[best], 10.0**best
