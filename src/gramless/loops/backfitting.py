"""Backfitting: Newton steps of block coordinate descent over grids.

This is the backfitting of generalised additive models (Hastie & Tibshirani 1990, section 6.3) with
grids as terms. Each step exactly minimises, over the weights of one grid, the second-order
expansion of the loss around the raw predictions at the start of the pass. A step is one division
per bin, because the bins of a grid are disjoint, which makes the Hessian of its weights diagonal.
"""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import loop
from gramless.loops.simd import deposit_4, deposit_8, follow_4, follow_8


@loop
def backfit(codes, offsets, grids, first, last, ridge, slopes, curvatures, weights, raw, sums):
    """Update the weights (n_bins,) of one output, for each grid in ``grids`` in turn.

    ``codes`` (n_grids, n_rows) of uint16 are 1-based bin numbers. The weights of grid ``g`` are
    ``weights[offsets[g] : offsets[g + 1]]``. They are fitted to the rows ``first:last``, one half
    of the training rows. ``ridge`` is the L2 penalty, added to each bin's summed curvature.

    ``slopes`` (n_rows,) is the *negative* gradient of the loss of each row, ``curvatures``
    (n_rows,) its second derivative, and ``raw`` (n_rows,) the raw predictions. ``slopes`` and
    ``raw`` are updated for all rows, because the rows outside of ``first:last`` score the weights.
    ``sums`` is scratch memory for two numbers per bin of the largest grid. All numbers are float32.
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
            weight = weights[start + c]
            step = (sums[2 * c] - ridge * weight) / (sums[2 * c + 1] + ridge)
            weights[start + c] = weight + step
            # Steps overwrite sums that were read already: those at index c belong to bin c // 2.
            sums[c] = step
        for i in range(n_rows):
            at = np.int64(code[i]) - 1
            slopes[i] -= curvatures[i] * sums[at]
            raw[i] += sums[at]


@loop
def backfit_outputs(
    codes, offsets, grids, first, last, ridge, slopes, curvatures, weights, raw, sums
):
    """Update the weights of K outputs as :func:`backfit` does.

    ``slopes``, ``curvatures``, ``weights`` and ``raw`` have K columns. ``sums`` is scratch memory
    for 2K numbers per bin of the largest grid.
    """
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
                weight = weights[start + c, k]
                step = (sums[at + k] - ridge * weight) / (sums[at + n_outputs + k] + ridge)
                weights[start + c, k] = weight + step
                sums[n_outputs * c + k] = step
        for i in range(n_rows):
            c = n_outputs * (np.int64(code[i]) - 1)
            for k in range(n_outputs):
                slopes[i, k] -= curvatures[i, k] * sums[c + k]
                raw[i, k] += sums[c + k]


@loop
def backfit_shared_curvature(
    codes, offsets, grids, first, last, ridge, slopes, curvatures, weights, raw, sums, masses
):
    """Update the weights of K outputs that share one curvature per row, (n_rows,).

    ``slopes``, ``weights`` and ``raw`` have K columns, padded with zeros to a multiple of 4.
    ``sums`` is scratch memory for K numbers per bin, ``masses`` for one.
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
            row_bin, k, at = np.int64(code[i]) - 1, 0, n_outputs * i
            to = n_outputs * row_bin
            masses[row_bin] += curvatures[i]
            while k + 8 <= n_outputs:
                deposit_8(sums, to + k, slopes, at + k)
                k += 8
            if k < n_outputs:
                deposit_4(sums, to + k, slopes, at + k)
        for c in range(n_bins):
            total = masses[c] + ridge
            for k in range(n_outputs):
                weight = weights[start + c, k]
                step = (sums[n_outputs * c + k] - ridge * weight) / total
                weights[start + c, k] = weight + step
                sums[n_outputs * c + k] = step
        for i in range(n_rows):
            k, at = 0, n_outputs * i
            to = n_outputs * (np.int64(code[i]) - 1)
            while k + 8 <= n_outputs:
                follow_8(slopes, raw, at + k, curvatures[i], sums, to + k)
                k += 8
            if k < n_outputs:
                follow_4(slopes, raw, at + k, curvatures[i], sums, to + k)
