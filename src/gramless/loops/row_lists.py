"""Lists of the rows in each bin, and one row of each bin."""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import allocating_loop, loop


@allocating_loop
def list_rows(codes, rows, bounds):
    """Sort the rows of one grid by their codes, rows of a bin in ascending order.

    The rows of code b become ``rows[bounds[b - 1]:bounds[b]]``; rows of code 0 are omitted.
    """
    n_bins = len(bounds) - 1
    bounds[:] = 0
    for i in range(len(codes)):
        if codes[i] > 0:
            bounds[codes[i]] += 1
    for b in range(n_bins):
        bounds[b + 1] += bounds[b]
    place = bounds[:n_bins].copy()
    for i in range(len(codes)):
        if codes[i] > 0:
            b = codes[i] - np.uint32(1)
            rows[place[b]] = i
            place[b] += 1


@loop
def last_rows(codes, starts, rows):
    """Write the index of the last row with code b in grid r to ``rows[starts[r] + b - 1]``.

    Entries of bins without rows do not change; code 0 is ignored.
    """
    n_grids, n_rows = codes.shape
    for r in range(n_grids):
        before = starts[r] - 1
        for i in range(n_rows):
            if codes[r, i] > 0:
                rows[before + np.int64(codes[r, i])] = i
