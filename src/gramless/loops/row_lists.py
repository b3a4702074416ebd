"""The rows in each bin, listed."""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import allocating_loop


@allocating_loop
def list_rows(codes, rows, bounds):  # type: ignore[no-untyped-def]
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
