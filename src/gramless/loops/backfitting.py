"""Newton steps of block coordinate descent over grids: the bins of a grid are disjoint.

The smooth backfitting of generalised additive models (Hastie & Tibshirani 1990, section 6.3) with
one grid in the place of a term. Each step is exact for the quadratic model of the loss at the raw
predictions where the pass begins, because the Hessian of a grid's own bins is diagonal.
"""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import loop
from gramless.loops.simd import deposit_4, deposit_8, follow_4, follow_8


@loop
def backfit(codes, offsets, grids, first, last, ridge, slopes, curvatures, weights, raw, sums):
    """Update the weights (n_bins,) of some grids of one output, in the order of ``grids``.

    ``codes`` (n_grids, n_rows) of uint16 are bin numbers from 1; ``offsets`` (n_grids + 1,).
    Weights are fitted to the rows ``first:last``; ``ridge`` is the penalty of their squares, in
    units of a bin's summed curvature. ``slopes`` and ``curvatures`` (n_rows,) are the negative
    gradient and the curvature of each row's loss, ``raw`` (n_rows,) the raw predictions; slopes and
    predictions of all rows are updated. ``sums`` is room for two numbers a bin. All float32.
    """
    n_rows = codes.shape[1]
    for q in range(len(grids)):
        code, start = codes[grids[q]], offsets[grids[q]]
        n_bins = offsets[grids[q] + 1] - start
        for c in range(2 * n_bins):
            sums[c] = np.float32(0.0)
        for i in range(first, last):
            at = 2 * (np.int64(code[i]) - 1)
            sums[at] += slopes[i]
            sums[at + 1] += curvatures[i]
        for c in range(n_bins):
            own = weights[start + c]
            step = (sums[2 * c] - ridge * own) / (sums[2 * c + 1] + ridge)
            weights[start + c] = own + step
            sums[c] = step
        for i in range(n_rows):
            at = np.int64(code[i]) - 1
            slopes[i] -= curvatures[i] * sums[at]
            raw[i] += sums[at]


@loop
def backfit_outputs(
    codes, offsets, grids, first, last, ridge, slopes, curvatures, weights, raw, sums
):
    """Do as :func:`backfit` with K outputs: arrays of rows and bins have K columns."""
    n_rows, n_outputs = raw.shape
    for q in range(len(grids)):
        code, start = codes[grids[q]], offsets[grids[q]]
        n_bins = offsets[grids[q] + 1] - start
        for c in range(2 * n_bins * n_outputs):
            sums[c] = np.float32(0.0)
        for i in range(first, last):
            c = 2 * n_outputs * (np.int64(code[i]) - 1)
            for k in range(n_outputs):
                sums[c + k] += slopes[i, k]
                sums[c + n_outputs + k] += curvatures[i, k]
        for c in range(n_bins):
            at = 2 * n_outputs * c
            for k in range(n_outputs):
                own = weights[start + c, k]
                step = (sums[at + k] - ridge * own) / (sums[at + n_outputs + k] + ridge)
                weights[start + c, k] = own + step
                sums[n_outputs * c + k] = step
        for i in range(n_rows):
            c = n_outputs * (np.int64(code[i]) - 1)
            for k in range(n_outputs):
                slopes[i, k] -= curvatures[i, k] * sums[c + k]
                raw[i, k] += sums[c + k]


@loop
def backfit_alike(
    codes, offsets, grids, first, last, ridge, slopes, curvatures, weights, raw, sums, masses
):
    """Do as :func:`backfit_outputs` where all outputs of a row have one curvature, (n_rows,).

    ``slopes``, ``weights`` and ``raw`` have K columns, a multiple of 4: zeros fill them up.
    ``sums`` is room for K numbers a bin, ``masses`` for one.
    """
    n_rows, n_outputs = raw.shape
    for q in range(len(grids)):
        code, start = codes[grids[q]], offsets[grids[q]]
        n_bins = offsets[grids[q] + 1] - start
        for c in range(n_bins):
            masses[c] = np.float32(0.0)
        for c in range(n_bins * n_outputs):
            sums[c] = np.float32(0.0)
        for i in range(first, last):
            own_bin, k, at = np.int64(code[i]) - 1, 0, n_outputs * i
            to = n_outputs * own_bin
            masses[own_bin] += curvatures[i]
            while k + 8 <= n_outputs:
                deposit_8(sums, to + k, slopes, at + k)
                k += 8
            if k < n_outputs:
                deposit_4(sums, to + k, slopes, at + k)
        for c in range(n_bins):
            total = masses[c] + ridge
            for k in range(n_outputs):
                own = weights[start + c, k]
                step = (sums[n_outputs * c + k] - ridge * own) / total
                weights[start + c, k] = own + step
                sums[n_outputs * c + k] = step
        for i in range(n_rows):
            k, at = 0, n_outputs * i
            to = n_outputs * (np.int64(code[i]) - 1)
            while k + 8 <= n_outputs:
                follow_8(slopes, raw, at + k, curvatures[i], sums, to + k)
                k += 8
            if k < n_outputs:
                follow_4(slopes, raw, at + k, curvatures[i], sums, to + k)
