"""The rows in each bin, listed; a row of each."""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import allocating_loop, loop


@allocating_loop
def list_rows(codes, rows, bounds):
    """Sort the rows of one grid by their codes, rows of a bin in ascending order.

    The rows of code b become ``rows[bounds[b - 1]:bounds[b]]``; those of code 0 are left out.
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
    """Write the last row of each bin of some grids; bins without rows stay as they are.

    That of code b of grid r becomes ``rows[starts[r] + b - 1]``; codes of 0 are left out.
    """
    n_grids, n_rows = codes.shape
    for r in range(n_grids):
        before = starts[r] - 1
        for i in range(n_rows):
            if codes[r, i] > 0:
                rows[before + np.int64(codes[r, i])] = i
