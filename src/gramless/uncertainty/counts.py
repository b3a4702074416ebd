"""Distributions of counts around predicted means, as spread as counts of rows held back were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import betainc, gammaln, pdtr, xlog1py, xlogy

from gramless.base.types import FloatArray

_LEAST, _MOST = 1e-6, 1e4
"""Dispersions below the least are taken for 0, that of the Poisson distribution."""
_NEXT = 1e-9
"""Added to a level, so that counts whose score is the level itself lie within its interval."""


@dataclass(frozen=True)
class CountDistribution:
    """Negative binomial distributions with a mean each, or Poisson's where nothing is dispersed.

    Attributes
    ----------
    dispersion : float
        Counts of mean m have the variance ``m + dispersion * m**2``.

    Examples
    --------
    >>> CountDistribution(0.0).interval(np.array([0.1, 4.0]), 0.9)
    (array([0., 1.]), array([1., 8.]))
    """

    dispersion: float

    @classmethod
    def fit(cls, counts: FloatArray, mean: FloatArray, weights: FloatArray | None = None) -> Self:
        """Return the distribution that makes counts of rows with these means most likely."""
        from scipy.optimize import minimize_scalar

        def loss(log_dispersion: float) -> float:
            return -_log_likelihood(counts, mean, weights, float(np.exp(log_dispersion)))

        ends = float(np.log(_LEAST)), float(np.log(_MOST))
        found = float(np.exp(minimize_scalar(loss, bounds=ends, method="bounded").x))
        return cls(found if found > 2.0 * _LEAST else 0.0)

    def frozen(self, mean: FloatArray) -> Any:
        """Return SciPy's distributions with these means."""
        from scipy import stats

        if self.dispersion == 0.0:
            return stats.poisson(mean)
        return stats.nbinom(1.0 / self.dispersion, 1.0 / (1.0 + self.dispersion * mean))

    def below(self, counts: FloatArray, mean: FloatArray) -> FloatArray:
        """Return the probabilities of at most so many, 0 for negative numbers."""
        known, there = counts >= 0.0, np.maximum(counts, 0.0)
        if self.dispersion == 0.0:
            return np.where(known, pdtr(there, mean), 0.0)
        share = 1.0 / (1.0 + self.dispersion * mean)
        return np.where(known, betainc(1.0 / self.dispersion, there + 1.0, share), 0.0)

    def scores(self, counts: FloatArray, mean: FloatArray) -> FloatArray:
        """Return the level of the narrowest interval that each count lies in; below 1."""
        upper = 2.0 * self.below(counts - 1.0, mean) - 1.0
        return np.maximum(1.0 - 2.0 * self.below(counts, mean), upper)

    def interval(self, mean: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Return ends with equal probabilities beyond them; infinite for an infinite level."""
        if not level < np.inf:
            return np.zeros_like(mean), np.full_like(mean, np.inf)
        tail, frozen = 0.5 * (1.0 - float(np.clip(level + _NEXT, 0.0, 1.0))), self.frozen(mean)
        return np.maximum(frozen.ppf(tail), 0.0), frozen.isf(tail)


def _log_likelihood(
    counts: FloatArray, mean: FloatArray, weights: FloatArray | None, dispersion: float
) -> float:
    """Return the mean log likelihood, but for what depends on the counts alone."""
    size, excess = 1.0 / dispersion, dispersion * mean
    terms = gammaln(counts + size) - gammaln(size) - counts * np.log(size)
    terms += xlogy(counts, mean) - xlog1py(counts + size, excess)
    return float(np.average(terms, weights=weights))
