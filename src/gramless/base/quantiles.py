"""Weighted quantiles, and robust estimates of location and scale."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gramless.base.types import FloatArray

# Levels are lowered by this fraction. Cumulative weights have rounding errors that depend on the
# unit of the weights, and could otherwise select the next value for some units.
_ROUNDING = 1e-10
# Interquartile range and median absolute deviation of the standard normal distribution.
_NORMAL_IQR, _NORMAL_MAD = 1.3489795, 0.6744898


def weighted_quantiles(
    values: FloatArray, levels: ArrayLike, weights: FloatArray | None = None
) -> FloatArray:
    """Return a quantile of each column: the smallest value with enough cumulative weight.

    Parameters
    ----------
    values : array (n,) or (n, K)
        At least one row.
    levels : float or array (K,)
        Fractions between 0 and 1; an array has one for each column.
    weights : array (n,), optional
        At least 0; equal by default.

    Examples
    --------
    >>> weighted_quantiles(np.array([5.0, 1.0, 3.0]), 0.5)
    array(3.)
    """
    columns = values.reshape(len(values), -1)
    weights = np.ones(len(columns)) if weights is None else weights
    shares = np.broadcast_to(levels, columns.shape[1:]) * (1.0 - _ROUNDING)
    order = np.argsort(columns, axis=0, kind="stable")
    cumulative = np.cumsum(weights[order], axis=0)
    ranks = (cumulative < shares * cumulative[-1]).sum(axis=0)
    rows = np.take_along_axis(order, ranks[None], axis=0)
    return np.take_along_axis(columns, rows, axis=0).reshape(values.shape[1:])


def robust_centre(values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    return weighted_quantiles(values, 0.5, weights)


def robust_scale(values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return an estimate of the standard deviation of each column by its interquartile range.

    The range can be 0 if at least half of the values are equal. The estimate is then based on the
    median distance from the median, over the values that differ from it. It is 1 if all values are
    equal.

    Examples
    --------
    >>> values = np.append(np.arange(100.0), 1e9)
    >>> float(robust_scale(values).round())
    37.0
    """
    spread = weighted_quantiles(values, 0.75, weights) - weighted_quantiles(values, 0.25, weights)
    scale = np.atleast_1d(spread / _NORMAL_IQR)
    distances = np.abs(values - robust_centre(values, weights)).reshape(len(values), -1)
    for k in np.flatnonzero(scale == 0.0):
        others = distances[:, k] > 0.0
        scale[k] = 1.0
        if others.any():
            rest = None if weights is None else weights[others]
            scale[k] = weighted_quantiles(distances[others, k], 0.5, rest) / _NORMAL_MAD
    return scale.reshape(spread.shape)
