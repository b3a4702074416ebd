"""What each grid adds to predictions."""

from __future__ import annotations

import numpy as np

from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray, FloatArray, IntArray

_GRIDS_A_TASK = 8
"""Grids whose contributions are computed at a time."""


def covariances(
    counts: FloatArray,
    offsets: IntArray,
    weights: AnyArray,
    others: AnyArray,
    n_jobs: int | None = 1,
) -> FloatArray:
    """Return, for each grid, the covariance of what it adds to two predictions.

    Covariances are summed over outputs. With the same weights twice they are variances.

    Parameters
    ----------
    counts : array (n_bins,)
        Number of rows in each bin, or the sum of their weights.
    offsets : array (n_grids + 1,)
        The first bin of each grid, and the number of bins at the end.
    weights, others : arrays (n_bins,) or (n_bins, K) of float32 or float64
        What a bin adds to the first prediction, and to the second.
    n_jobs : int or None, default=1
        Threads. Results do not depend on it.

    Examples
    --------
    >>> counts, offsets = np.array([2.0, 2.0, 4.0]), np.array([0, 2, 3])
    >>> covariances(counts, offsets, np.array([1.0, -1.0, 5.0]), np.array([2.0, -2.0, 1.0]))
    array([2., 0.])
    """
    a, b = (w.reshape(len(w), -1) for w in (weights, others))
    found = np.empty(len(offsets) - 1)

    def fill(first: int, last: int) -> None:
        columns = slice(offsets[first], offsets[last])
        own_counts = counts[columns, None]
        starts = np.asarray(offsets[first:last] - offsets[first], np.intp)
        n_rows = np.add.reduceat(own_counts, starts)

        def means(values: FloatArray) -> FloatArray:
            return np.asarray(np.add.reduceat(own_counts * values, starts) / n_rows)

        x, y = np.asarray(a[columns], np.float64), np.asarray(b[columns], np.float64)
        found[first:last] = (means(x * y) - means(x) * means(y)).sum(axis=1)

    map_blocks(fill, row_blocks(len(found), _GRIDS_A_TASK), n_jobs)
    return found
