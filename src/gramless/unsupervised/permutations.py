"""Permutation tests: p-values of statistics whose first column is that of the data as they are."""

from __future__ import annotations

import numpy as np

from gramless.base.errors import InputError
from gramless.base.numeric import is_whole
from gramless.base.types import FloatArray

LEAST_PERMUTATIONS = 19
_TIES = 1e-9
"""Statistics that differ by less, relative to the largest, count as equal: that is rounding."""


def check_permutations(given: int, owner: str) -> int:
    """Return a number of permutations that is worth a test; ``owner`` names the caller."""
    if not is_whole(given, LEAST_PERMUTATIONS):
        raise InputError(
            f"{owner}: n_permutations must be an integer, at least {LEAST_PERMUTATIONS}; got "
            f"{given!r}."
        )
    return int(given)


def p_value(statistics: FloatArray) -> float:
    """Return the share of (n,) statistics that are as large as the first.

    The first is that of the data, the others are of permutations that were drawn from a group which
    leaves the distribution of the data alone if the null hypothesis is true. Then the p-value is at
    most alpha with a probability of at most alpha (Hemerik & Goeman 2018, Theorem 2).

    Examples
    --------
    >>> p_value(np.array([3.0, 1.0, 3.0, 2.0]))
    0.5
    """
    slack = _TIES * np.abs(statistics).max()
    return float(np.mean(statistics >= statistics[0] - slack))


def standardised(statistics: FloatArray) -> FloatArray:
    """Return statistics (m, n) less the mean over all permutations, in standard deviations.

    Each row is that of one statistic; one that no permutation changes becomes 0.
    """
    centred = statistics - statistics.mean(axis=1, keepdims=True)
    deviation = centred.std(axis=1, keepdims=True)
    varies = deviation > _TIES * np.abs(statistics).max(axis=1, keepdims=True, initial=0.0)
    return np.where(varies, centred / np.where(varies, deviation, 1.0), 0.0)


def adjusted_p_values(statistics: FloatArray) -> FloatArray:
    """Return a p-value (m,) for each of several statistics, adjusted for looking at all of them.

    It is the share of the permutations whose largest statistic is as large as this one (Westfall &
    Young 1993, single step): the probability that any true null hypothesis has a p-value of at most
    alpha is at most alpha.

    Parameters
    ----------
    statistics : array (m, n)
        :func:`standardised`, the data as they are first.

    Examples
    --------
    >>> adjusted_p_values(np.array([[2.0, 0.0, 1.0, -3.0], [0.5, 1.0, -1.0, -0.5]]))
    array([0.25, 0.75])
    """
    largest = np.sort(statistics.max(axis=0))
    slack = _TIES * np.abs(largest).max()
    below = np.searchsorted(largest, statistics[:, 0] - slack)
    return np.asarray((len(largest) - below) / len(largest), np.float64)
