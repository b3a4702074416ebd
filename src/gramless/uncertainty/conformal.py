"""Split conformal prediction: intervals and sets of classes with a given coverage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.numeric import check_numbers, check_sample_weight, check_shape
from gramless.base.state import Stateful, array_in, require
from gramless.losses import Loss, Poisson, SmoothPinball
from gramless.solvers.objective import columns
from gramless.uncertainty.counts import CountDistribution

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]

_N_LARGEST_SCORES = 1000  # kept of many scores, because high coverages need exact ranks
# ``(n + 1) coverage`` is lowered by this fraction. If it should be a whole number, a rounding error
# could otherwise select the next rank.
_ROUNDING = 1e-10
# Counts that were divided by exposures are whole numbers up to this relative error.
_INTEGER_TOLERANCE = 1e-9
_MIN_MEAN = 1e-300


@dataclass(frozen=True, repr=False)
class Conformal(Stateful):
    """The distribution of the scores of validation rows, for split conformal prediction.

    The score of a new row that is drawn like the validation rows is at most :meth:`quantile` with
    at least the given probability (Vovk, Gammerman & Shafer 2005; Lei et al. 2018).

    Attributes
    ----------
    scores : array (m,) or (m, K)
        Scores in increasing order. If there are more than 2,000, only the 1,000 largest and 1,000
        at evenly spaced ranks are kept; ranks between two of them are rounded up.
    masses : array of the same shape
        The total weight of all rows up to each score.
    """

    scores: Values
    masses: Values

    def check(self) -> None:
        scores = array_in(vars(self), "scores", np.float64, finite=True)
        require(scores.ndim in (1, 2) and scores.size > 0, "scores have a wrong shape")
        array_in(vars(self), "masses", np.float64, scores.shape, finite=True)

    @classmethod
    def fit(cls, scores: Values, sample_weight: Values | None = None) -> Conformal:
        """Return the distribution of scores, (n,) or (n, K); larger scores are worse.

        Weights count rows: a row of weight 2 is two rows. A new row has weight 1.

        Examples
        --------
        >>> Conformal.fit(np.array([3.0, 1.0, 2.0, 4.0])).quantile(0.6)
        3.0
        """
        scores = check_numbers("Conformal: scores", scores)
        weights = check_sample_weight("Conformal", sample_weight, len(scores))
        scores, weights = scores[weights > 0], weights[weights > 0]
        order = np.argsort(scores, axis=0, kind="stable")
        masses = np.cumsum(weights[order], axis=0)
        kept = np.arange(len(scores))
        if len(kept) > 2 * _N_LARGEST_SCORES:
            spaced = np.linspace(0, len(kept) - 1, _N_LARGEST_SCORES).astype(np.intp)
            kept = np.union1d(spaced, kept[-_N_LARGEST_SCORES:])
        return cls(np.take_along_axis(scores, order, axis=0)[kept], masses[kept])

    def quantile(self, coverage: float) -> float | Values:
        """Return the ``ceil((n + 1) coverage)``-th smallest of n scores in each column.

        With sample weights, n is their sum. The quantile is infinite if n is below
        ``coverage / (1 - coverage)``.

        Examples
        --------
        >>> conformal = Conformal.fit(np.arange(1.0, 10.0))
        >>> conformal.quantile(0.9), conformal.quantile(0.95)
        (9.0, inf)
        """
        if not 0.0 < coverage < 1.0:
            raise InputError(f"coverage must lie between 0 and 1, got {coverage!r}.")
        needed = (columns(self.masses)[-1] + 1.0) * coverage * (1.0 - _ROUNDING)
        rank = (columns(self.masses) < needed).sum(axis=0)
        extended = np.vstack([columns(self.scores), np.full(len(rank), np.inf)])
        quantiles = extended[rank, np.arange(len(rank))]
        return float(quantiles[0]) if self.scores.ndim == 1 else quantiles


@dataclass(frozen=True)
class Intervals:
    """Prediction intervals of a regression, from its errors on validation rows.

    A score is the absolute error of a row, divided by the deviation that the loss predicts for its
    mean. The score of a count is the level of the narrowest interval of its distribution that
    contains it. For several quantiles, scores are the signed distances of the target from the
    interval of each pair, the outer pair first.

    Attributes
    ----------
    loss : Loss
        The fitted loss.
    errors : Conformal
        The scores of validation rows.
    dispersion : float or None
        That of a :class:`CountDistribution` if targets are counts with predicted means.
    lower_limit : array (n_outputs,)
        A lower limit of the bounds.
    """

    loss: Loss
    errors: Conformal
    dispersion: float | None
    lower_limit: Values | float = -np.inf

    @classmethod
    def fit(
        cls, loss: Loss, raw: Values, codes: Values, unit: Values, counts: Values | None
    ) -> Intervals:
        """Return the intervals that fit validation rows.

        ``unit`` is the scale of each row's encoded target, and ``counts`` holds the number of rows
        that each row counts for.
        """
        targets, rounded = codes * unit, np.rint(codes * unit)
        tolerance = _INTEGER_TOLERANCE * np.maximum(rounded, 1.0)
        are_integers = (np.abs(targets - rounded) <= tolerance).all()
        predicted = loss.inverse_link(raw)
        if are_integers and isinstance(loss, Poisson) and codes.ndim == 1:
            mean = predicted * unit
            distribution = CountDistribution.fit(rounded, mean, counts)
            errors = Conformal.fit(distribution.scores(rounded, mean), counts)
            return cls(loss, errors, distribution.dispersion)
        n_pairs = len(quantile_levels(loss)) // 2
        if n_pairs == 0:
            scores = interval_scores(predicted, codes) * unit
            return cls(
                loss, Conformal.fit(scores / _error_units(loss, predicted * unit), counts), None
            )
        predicted = np.sort(predicted, axis=1)
        below = predicted[:, :n_pairs] - codes[:, :n_pairs]
        above = codes[:, :n_pairs] - predicted[:, ::-1][:, :n_pairs]
        errors = Conformal.fit(np.maximum(below, above) * unit[:, :1], counts)
        return cls(loss, errors, None)

    def bounds(self, predicted: Values, coverage: float) -> tuple[Values, Values]:
        """Return the lower and upper bounds for predicted means, or for sorted quantiles."""
        margin = np.atleast_1d(self.errors.quantile(coverage))
        if self.dispersion is not None:
            return CountDistribution(self.dispersion).interval(predicted, float(margin[0]))
        levels = quantile_levels(self.loss)
        if len(levels) == 1:
            half = margin * _error_units(self.loss, predicted)
            lower, upper = predicted - half, predicted + half
        else:
            nominal = (levels[::-1] - levels)[: len(levels) // 2]
            k = int(np.abs(nominal - coverage).argmin())
            lower, upper = predicted[:, k] - margin[k], predicted[:, -1 - k] + margin[k]
            # A negative margin can exceed half the distance of the quantiles.
            crossed = lower > upper
            lower[crossed] = upper[crossed] = 0.5 * (lower[crossed] + upper[crossed])
        return np.maximum(lower, self.lower_limit), np.maximum(upper, self.lower_limit)

    def quantiles(self, predicted: Values, levels: Values) -> Values:
        """Return the quantiles of ``levels`` (n_rows, n_levels), which are bounds of intervals."""
        result = np.empty((len(predicted), len(levels)))
        for k, level in enumerate(levels):
            if level == 0.5:
                result[:, k] = self._medians(predicted)
            else:
                bounds = self.bounds(predicted, float(abs(2.0 * level - 1.0)))
                result[:, k] = bounds[int(level > 0.5)]
        order = np.argsort(levels, kind="stable")
        result[:, order] = np.sort(result, axis=1)
        return np.maximum(result, self.lower_limit)

    def _medians(self, predicted: Values) -> Values:
        """Return predicted medians, or the predictions of the mean if there are none."""
        if self.dispersion is not None:
            return np.asarray(
                CountDistribution(self.dispersion).scipy_distribution(predicted).median()
            )
        levels = quantile_levels(self.loss)
        if len(levels) == 1:
            return predicted
        return predicted[:, int(np.abs(levels - 0.5).argmin())]


def quantile_levels(loss: Loss) -> Values:
    """Return the quantiles that a loss predicts, (0.5,) for losses of other statistics.

    Examples
    --------
    >>> from gramless.losses import Squared
    >>> quantile_levels(SmoothPinball((0.1, 0.9))), quantile_levels(Squared())
    (array([0.1, 0.9]), array([0.5]))
    """
    return np.atleast_1d(loss.levels if isinstance(loss, SmoothPinball) else 0.5)


def _error_units(loss: Loss, predicted: Values) -> Values:
    """Return the positive scale of the errors of predictions."""
    if not loss.has_positive_means:
        return np.ones_like(predicted)
    return loss.deviation(np.maximum(predicted, _MIN_MEAN))


def interval_scores(predictions: Values, targets: Values, scale: Values | None = None) -> Values:
    """Return absolute errors, divided by a local scale if given.

    If q is their quantile, the interval ``prediction +- q * scale`` covers a new target (Lei et al.
    2018). The scale must be positive and depend only on the inputs of a row.

    Examples
    --------
    >>> interval_scores(np.array([1.0, 2.0]), np.array([3.0, 2.5]), np.array([2.0, 1.0]))
    array([1. , 0.5])
    """
    errors = np.abs(check_shape("targets", targets, np.shape(predictions)) - predictions)
    if scale is None:
        return errors
    unit = check_shape("scale", scale, errors.shape)
    if not (unit > 0).all():
        raise InputError("interval_scores: scale must be above 0.")
    return errors / unit


def set_scores(log_probabilities: Values, class_index: NDArray[np.intp]) -> Values:
    """Return one minus the probability of the true class (Sadinle, Lei & Wasserman 2019).

    Examples
    --------
    >>> set_scores(np.log([[0.25, 0.75], [0.5, 0.5]]), np.array([1, 0])).round(6)
    array([0.25, 0.5 ])
    """
    return -np.expm1(log_probabilities[np.arange(len(log_probabilities)), class_index])


def prediction_sets(log_probabilities: Values, threshold: float) -> Flags:
    """Return whether each class is in the set of each row.

    The set holds the classes whose score, one minus their probability, is at most ``threshold``, a
    quantile of :func:`set_scores`. It is empty if no class is probable enough, and holds all
    classes if the threshold is infinite.

    Examples
    --------
    >>> prediction_sets(np.log([[0.1, 0.9], [0.5, 0.5]]), 0.3)
    array([[False,  True],
           [False, False]])
    """
    return -np.expm1(log_probabilities) <= threshold
