"""Which inputs may tell clusters apart, without labels: all that are not independent noise."""

from __future__ import annotations

import numpy as np

from gramless.base.threads import one_blas_thread
from gramless.base.types import BoolArray, FloatArray
from gramless.features.neighbours import MOST_DEVIATIONS

_LEAST, _STANDARD_ERRORS, _MOST = 0.1, 4.0, 0.3
"""Correlations count from so many standard errors on, within these bounds."""
_FEW_VALUES = 10
"""So few values always are in groups, which says nothing; two are categories."""
_TRIMMED = 0.01
"""The share of the values at either end that groups leave out."""
_QUANTILES, _MOST_GROUPS = 300, 6
_LEFT_BY_GROUPS = 0.9
"""Of the variance that as many groups leave of uniform values: values in groups leave less."""


def default_min_correlation(n_rows: int) -> float:
    """Return a correlation, 0.1 to 0.3, that independent inputs hardly reach by chance."""
    return float(np.clip(_STANDARD_ERRORS / np.sqrt(n_rows), _LEAST, _MOST))


def informative_inputs(rows: FloatArray, min_correlation: float) -> BoolArray:
    """Return which inputs of some rows (n_rows, n_inputs) may tell clusters apart.

    Inputs along which clusters differ depend on each other. So an input is noise if neither its
    values nor their squares have a correlation of at least ``min_correlation`` with those of
    another input. Inputs whose own values are in groups are not noise, nor are those of one or two
    values. If fewer than two inputs of more than ten values would be left, none is taken for noise.
    Takes ``4 * n_rows * n_inputs**2`` operations.
    """
    standard = _standardised(rows)
    n_values = np.array([len(np.unique(values)) for values in standard.T])
    found = (_largest_correlations(standard) >= min_correlation) | (n_values <= 2)
    for j in np.flatnonzero(~found & (n_values > _FEW_VALUES)):
        found[j] = variance_left_by_groups(standard[:, j]) < _LEFT_BY_GROUPS
    too_few_are_left = np.count_nonzero(found[n_values > _FEW_VALUES]) < 2
    return found | too_few_are_left


def variance_left_by_groups(values: FloatArray) -> float:
    """Return the variance within the best groups of values, over that of uniform values.

    Groups are those of exact k-means on a line, which leave ``1 / k**2`` of the variance of uniform
    values; of k = 2 to 6 the best. One value in a hundred is left out at either end.
    """
    x = np.quantile(values, np.linspace(_TRIMMED, 1.0 - _TRIMMED, _QUANTILES))
    x = x - x.mean()
    total = float(x @ x)
    if not total > 0.0:
        return 1.0
    # Squares within the group of the sorted values from i up to, and without, j.
    sums, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (x, x * x))
    counts = np.arange(len(x) + 1) - np.arange(len(x) + 1)[:, None]
    within = squares - squares[:, None] - (sums - sums[:, None]) ** 2 / np.maximum(counts, 1)
    within[counts < 0] = np.inf
    left, shares = within[0], []
    for k in range(2, _MOST_GROUPS + 1):
        left = (left[:, None] + within).min(axis=0)
        shares.append(k**2 * left[-1] / total)
    return float(min(shares))


def _standardised(rows: FloatArray) -> FloatArray:
    """Return inputs of mean 0 and deviation 1, in contiguous columns; constants are 0."""
    sizes = np.abs(rows).max(axis=0)
    # Squares of huge values overflow.
    found = np.asfortranarray(rows / np.where(sizes > 0.0, sizes, 1.0))
    is_constant = found.min(axis=0) == found.max(axis=0)
    found -= found.mean(axis=0)
    deviations = found.std(axis=0)
    found /= np.where(deviations > 0.0, deviations, 1.0)
    # What rounding leaves of a constant is no deviation.
    found[:, is_constant] = 0.0
    return found


def _largest_correlations(standard: FloatArray) -> FloatArray:
    """Return each input's largest correlation with another one, of values and squares."""
    n_inputs = standard.shape[1]
    values = np.clip(standard, -MOST_DEVIATIONS, MOST_DEVIATIONS)
    both = _standardised(np.hstack([values, values**2]))
    with one_blas_thread():
        size = np.abs(both.T @ both) / len(both)
    pairs = size.reshape(2, n_inputs, 2, n_inputs).max(axis=(0, 2))
    np.fill_diagonal(pairs, 0.0)
    largest: FloatArray = pairs.max(axis=0, initial=0.0)
    return largest
