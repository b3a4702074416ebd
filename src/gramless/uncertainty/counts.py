"""Distributions of counts with predicted means and a fitted dispersion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import betainc, gammaln, pdtr, xlog1py, xlogy

from gramless.base.types import FloatArray

# Bounds of the dispersion; near the lower one it is set to 0, the Poisson distribution.
_MIN_DISPERSION, _MAX_DISPERSION = 1e-6, 1e4
# This is added to the level of an interval, so that the interval includes counts whose score equals
# the level up to rounding.
_LEVEL_ROUNDING = 1e-9


@dataclass(frozen=True)
class CountDistribution:
    """Negative binomial distributions with one dispersion, or Poisson distributions if it is 0.

    Attributes
    ----------
    dispersion : float
        Counts with mean m have the variance ``m + dispersion * m**2``.

    Examples
    --------
    >>> CountDistribution(0.0).interval(np.array([0.1, 4.0]), 0.9)
    (array([0., 1.]), array([1., 8.]))
    """

    dispersion: float

    @classmethod
    def fit(cls, counts: FloatArray, mean: FloatArray, weights: FloatArray | None = None) -> Self:
        """Return the distribution whose dispersion maximises the likelihood.

        A dispersion of at most 2e-6 becomes 0.
        """
        from scipy.optimize import minimize_scalar

        def loss(log_dispersion: float) -> float:
            # The mean negative log likelihood without the terms that depend only on the counts.
            dispersion = float(np.exp(log_dispersion))
            size, excess = 1.0 / dispersion, dispersion * mean
            terms = gammaln(counts + size) - gammaln(size) - counts * np.log(size)
            terms += xlogy(counts, mean) - xlog1py(counts + size, excess)
            return -float(np.average(terms, weights=weights))

        bounds = float(np.log(_MIN_DISPERSION)), float(np.log(_MAX_DISPERSION))
        dispersion = float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))
        return cls(dispersion if dispersion > 2.0 * _MIN_DISPERSION else 0.0)

    def scipy_distribution(self, mean: FloatArray) -> Any:
        from scipy import stats

        if self.dispersion == 0.0:
            return stats.poisson(mean)
        return stats.nbinom(1.0 / self.dispersion, 1.0 / (1.0 + self.dispersion * mean))

    def cumulative_probabilities(self, counts: FloatArray, mean: FloatArray) -> FloatArray:
        """Return the cumulative probabilities of the counts, 0 for negative ones."""
        is_valid, k = counts >= 0.0, np.maximum(counts, 0.0)
        if self.dispersion == 0.0:
            return np.where(is_valid, pdtr(k, mean), 0.0)
        p = 1.0 / (1.0 + self.dispersion * mean)
        return np.where(is_valid, betainc(1.0 / self.dispersion, k + 1.0, p), 0.0)

    def scores(self, counts: FloatArray, mean: FloatArray) -> FloatArray:
        """Return the smallest level of an equal-tailed interval that contains each count.

        The level is below 1. It is negative for a count that every interval contains.
        """
        upper = 2.0 * self.cumulative_probabilities(counts - 1.0, mean) - 1.0
        return np.maximum(1.0 - 2.0 * self.cumulative_probabilities(counts, mean), upper)

    def interval(self, mean: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Return equal-tailed intervals, which are unbounded for an infinite level."""
        if not level < np.inf:
            return np.zeros_like(mean), np.full_like(mean, np.inf)
        tail = 0.5 * (1.0 - float(np.clip(level + _LEVEL_ROUNDING, 0.0, 1.0)))
        distribution = self.scipy_distribution(mean)
        return np.maximum(distribution.ppf(tail), 0.0), distribution.isf(tail)
