"""Weighted quantiles, and a centre and a scale that outliers hardly change."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gramless.base.types import FloatArray

# Masses that are a whole multiple of a row's weight round differently for every unit of weights.
_ROUNDING = 1e-10
# Of the standard normal distribution, so that the scale of normal numbers is their deviation.
_NORMAL_RANGE, _NORMAL_DISTANCE = 1.3489795, 0.6744898


def weighted_quantiles(
    values: FloatArray, levels: ArrayLike, weights: FloatArray | None = None
) -> FloatArray:
    """Return quantiles of each column: the least value up to which a share of the weights lies.

    Parameters
    ----------
    values : array (n,) or (n, K)
        At least one row.
    levels : float or array (K,)
        Shares between 0 and 1; an array has one for each column.
    weights : array (n,), optional
        At least 0. All rows have the same weight by default.

    Examples
    --------
    >>> weighted_quantiles(np.array([5.0, 1.0, 3.0]), 0.5)
    array(3.)
    """
    columns = values.reshape(len(values), -1)
    weights = np.ones(len(columns)) if weights is None else weights
    shares = np.broadcast_to(levels, columns.shape[1:]) * (1.0 - _ROUNDING)
    order = np.argsort(columns, axis=0, kind="stable")
    masses = np.cumsum(weights[order], axis=0)
    ranks = (masses < shares * masses[-1]).sum(axis=0)
    at = np.take_along_axis(order, np.minimum(ranks, len(columns) - 1)[None], axis=0)
    return np.take_along_axis(columns, at, axis=0).reshape(values.shape[1:])


def robust_centre(values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the median of each column."""
    return weighted_quantiles(values, 0.5, weights)


def robust_scale(values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the standard deviation of each column, estimated by the interquartile range.

    If half of the values or more are equal, the range may be 0: then the median distance of the
    other values from the median counts, and 1 if there are no others.

    Examples
    --------
    >>> values = np.append(np.arange(100.0), 1e9)
    >>> float(robust_scale(values).round())
    37.0
    """
    spread = weighted_quantiles(values, 0.75, weights) - weighted_quantiles(values, 0.25, weights)
    scale = np.atleast_1d(spread / _NORMAL_RANGE)
    distances = np.abs(values - robust_centre(values, weights)).reshape(len(values), -1)
    for k in np.flatnonzero(scale == 0.0):
        others = distances[:, k] > 0.0
        scale[k] = 1.0
        if others.any():
            rest = None if weights is None else weights[others]
            scale[k] = weighted_quantiles(distances[others, k], 0.5, rest) / _NORMAL_DISTANCE
    return scale.reshape(spread.shape)
