"""Which inputs can tell clusters apart, without labels: those that are not noise of their own."""

from __future__ import annotations

import numpy as np

from gramless.base.threads import one_blas_thread
from gramless.base.types import BoolArray, FloatArray

_MOST_DEVIATIONS = 2.0
"""Values count up to so many standard deviations from their mean, as in distances."""
_LEAST, _ERRORS, _MOST = 0.1, 4.0, 0.3
"""Correlations count from the first, or so many of their standard errors, but at most the last."""
_FEW_VALUES = 10
"""Inputs of so few values are always in groups, which say nothing; of two they are categories."""
_TRIMMED = 0.01
"""The share of rows at either end of an input that its groups ignore."""
_QUANTILES = 300
_MOST_GROUPS = 6
_GROUPED = 0.9
"""Of the variance that as many groups leave of uniform values."""


def least_correlation(n_rows: int) -> float:
    """Return a correlation that inputs without relation hardly reach by chance, 0.1 to 0.3."""
    return float(np.clip(_ERRORS / np.sqrt(n_rows), _LEAST, _MOST))


def informative_inputs(rows: FloatArray, least: float) -> BoolArray:
    """Return which inputs of some rows (n_rows, n_inputs) may tell clusters apart.

    Clusters relate the inputs along which they differ. So an input is noise if neither its values
    nor their squares have a correlation of ``least`` with those of another one, unless its own
    values are in groups, or no more than two. If fewer than two inputs of more than ten values were
    left, all are: of such rows nothing can be said. Takes ``4 * n_rows * n_inputs**2`` operations.
    """
    standard = _standardised(rows)
    n_values = np.array([len(np.unique(values)) for values in standard.T])
    found = (_largest_correlations(standard) >= least) | (n_values <= 2)
    for j in np.flatnonzero(~found & (n_values > _FEW_VALUES)):
        found[j] = variance_left_by_groups(standard[:, j]) < _GROUPED
    nothing_is_known = np.count_nonzero(found[n_values > _FEW_VALUES]) < 2
    return found | nothing_is_known


def variance_left_by_groups(values: FloatArray) -> float:
    """Return the variance within the best groups of values, over that of uniform values.

    Of k = 2 to 6 groups by exact k-means on a line, which leave ``1 / k**2`` of the variance of
    uniform values, the number counts that leaves the least in comparison. One value in a hundred is
    left out at either end.
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
    values = np.clip(standard, -_MOST_DEVIATIONS, _MOST_DEVIATIONS)
    both = _standardised(np.hstack([values, values**2]))
    with one_blas_thread():
        size = np.abs(both.T @ both) / len(both)
    pairs = size.reshape(2, n_inputs, 2, n_inputs).max(axis=(0, 2))
    np.fill_diagonal(pairs, 0.0)
    largest: FloatArray = pairs.max(axis=0, initial=0.0)
    return largest
