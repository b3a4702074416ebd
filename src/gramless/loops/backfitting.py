"""Backfitting: Newton steps of block coordinate descent over grids.

This is the backfitting of generalised additive models (Hastie & Tibshirani 1990, section 6.3) with
grids as terms. Each step exactly minimises, over the weights of one grid, the second-order
expansion of the loss around the raw predictions at the start of the pass. A step is one division
per bin, because the bins of a grid are disjoint, which makes the Hessian of its weights diagonal.
"""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import loop
from gramless.loops.simd import deposit_4, deposit_derivatives_2


@loop
def backfit(
    codes, offsets, grids, half, ridges, derivatives, weights, column, changes, steps, sums
):
    """Update two weights per bin and model, for each grid in ``grids`` in turn.

    The first model is fitted to rows ``0:half`` and the second to rows ``half:n_training``. Two
    columns of weights, of two outputs or for two ridge penalties, share one pass over the codes.

    ``codes`` (n_grids, n_rows) of uint16 are 1-based bin numbers. Bin c of grid g has the weights
    ``weights[offsets[g] + c, model, column + k]`` for k = 0 and 1, or only 0 if there are no more
    columns. ``ridges`` (2,) are the L2 penalties, added to the summed curvatures of each bin.

    ``derivatives`` (n_training, 4) are the *negative* gradients of the loss of each row for both
    columns, then the second derivatives, of the model that is fitted to the row. ``changes``
    (n_rows, 4) of the raw predictions of both columns by the first model, then by the second, start
    at zero; those of all rows are computed, because other rows score the weights. ``steps`` and
    ``sums`` are scratch memory for 4 and 8 numbers per bin of the largest grid. All numbers are
    float32.
    """
    n_rows, n_training, n_grids = len(changes), len(derivatives), len(grids)
    n_columns = min(2, weights.shape[2] - column)
    steps[:] = np.float32(0.0)
    # Each turn adds the steps of the previous grid to the changes of a row, and then sums the row's
    # derivatives over the bins of the next grid. The sums of the last turn are not used.
    for turn in range(n_grids + 1 if n_grids > 0 else 0):
        before, grid = codes[grids[max(turn - 1, 0)]], grids[min(turn, n_grids - 1)]
        code, start = codes[grid], offsets[grid]
        n_bins = offsets[grid + 1] - start
        sums[: 8 * n_bins] = np.float32(0.0)
        # Rows of the two halves alternate: an addition waits for the previous one to the same bin,
        # but the sums of two models are independent.
        both = min(half, n_training - half)
        for i in range(both):
            j = half + i
            deposit_4(changes, 4 * i, steps, 4 * (np.int64(before[i]) - 1))
            deposit_4(changes, 4 * j, steps, 4 * (np.int64(before[j]) - 1))
            first, second = 8 * (np.int64(code[i]) - 1), 8 * (np.int64(code[j]) - 1) + 4
            deposit_derivatives_2(sums, first, derivatives, 4 * i, changes, 4 * i)
            deposit_derivatives_2(sums, second, derivatives, 4 * j, changes, 4 * j + 2)
        for i in range(both, half):
            deposit_4(changes, 4 * i, steps, 4 * (np.int64(before[i]) - 1))
            first = 8 * (np.int64(code[i]) - 1)
            deposit_derivatives_2(sums, first, derivatives, 4 * i, changes, 4 * i)
        for j in range(half + both, n_training):
            deposit_4(changes, 4 * j, steps, 4 * (np.int64(before[j]) - 1))
            second = 8 * (np.int64(code[j]) - 1) + 4
            deposit_derivatives_2(sums, second, derivatives, 4 * j, changes, 4 * j + 2)
        for i in range(n_training, n_rows):
            deposit_4(changes, 4 * i, steps, 4 * (np.int64(before[i]) - 1))
        if turn < n_grids:
            for c in range(n_bins):
                for model in range(2):
                    for k in range(n_columns):
                        at, ridge = 8 * c + 4 * model + k, ridges[k]
                        weight = weights[start + c, model, column + k]
                        step = (sums[at] - ridge * weight) / (sums[at + 2] + ridge)
                        weights[start + c, model, column + k] = weight + step
                        steps[4 * c + 2 * model + k] = step
