"""Scores of grids: the gain of bins that are fitted on some rows and evaluated on others."""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import inner_loop, loop, reordering_loop
from gramless.loops.simd import deposit_4, deposit_8

# An input without which a grid loses this share of its gain is not tried again after other inputs
# are dropped.
_LARGE_LOSS = 0.05

TILE = 1024  # rows per tile: their slots stay in the first-level cache


@inner_loop
def tile_slots(
    columns, start, stop, inputs, inverse, shifts, multipliers, size, begin, shift, slots
):
    """Hash the cells of rows ``start:stop`` in one grid to numbers of ``32 - shift`` bits.

    ``columns`` are (n_inputs, n_rows); the grid divides the first ``size`` of ``inputs``. Hashes
    are ``begin`` plus the sum of multipliers times cells.
    """
    n = stop - start
    for i in range(n):
        slots[i] = begin
    for q in range(size):
        column = columns[inputs[q]][start:stop]
        scale, first, multiplier = inverse[q], shifts[q], multipliers[q]
        for i in range(n):
            cell = np.int32(np.floor((column[i] - first) * scale))
            slots[i] += np.uint32(np.uint32(cell) * multiplier)
    for i in range(n):
        slots[i] = slots[i] >> shift


@inner_loop
def add_row(values, row, slot, sums):
    """Add the 4 or 8 values of a row to the sums of a bin."""
    lanes = sums.shape[1]
    if lanes == 4:
        deposit_4(sums, np.int64(slot) * 4, values, row * 4)
    else:
        deposit_8(sums, np.int64(slot) * 8, values, row * 8)


@inner_loop
def sum_bins(columns, values, parts, grid, size, begin, shift, slots, sums):
    """Add the values of the rows of two parts to the sums of their bins in one grid.

    ``values`` (n_rows, 4 or 8) and ``sums`` (2, n_bins, as many) are contiguous. ``grid`` is
    (inputs, inverse widths, shifts, multipliers), of which the first ``size`` are used; ``slots``
    (2, TILE) is scratch memory. Rows of the two parts alternate: an addition waits for the previous
    one to the same bin, but the sums of two parts are independent.
    """
    inputs, inverse, shifts, multipliers = grid
    first, second = parts[0, 0], parts[1, 0]
    n_first, n_second = parts[0, 1] - first, parts[1, 1] - second
    for a in range(0, max(n_first, n_second), TILE):
        b, c = min(a + TILE, n_first), min(a + TILE, n_second)
        if a < b:
            rows = first + a, first + b
            tile_slots(
                columns, *rows, inputs, inverse, shifts, multipliers, size, begin, shift, slots[0]
            )
        if a < c:
            rows = second + a, second + c
            tile_slots(
                columns, *rows, inputs, inverse, shifts, multipliers, size, begin, shift, slots[1]
            )
        both = min(b, c)
        for i in range(a, both):
            add_row(values, first + i, slots[0, i - a], sums[0])
            add_row(values, second + i, slots[1, i - a], sums[1])
        for i in range(max(a, both), b):
            add_row(values, first + i, slots[0, i - a], sums[0])
        for i in range(max(a, both), c):
            add_row(values, second + i, slots[1, i - a], sums[1])


@reordering_loop
def crossed_gain(first, second, n_outputs, shrinkage):
    """Return how much weights fitted on one part lower the loss of the other, for both ways.

    The row of a bin holds the sums of the gradients for fitting and for scoring, ``n_outputs``
    each, and of the curvatures for fitting and for scoring. ``shrinkage`` is positive.
    """
    at = 2 * n_outputs
    gain = 0.0
    for b in range(len(first)):
        f, s = first[b], second[b]
        # Empty bins have no gradient, so they add nothing.
        scale_f = np.float32(1.0) / (f[at] + shrinkage)
        scale_s = np.float32(1.0) / (s[at] + shrinkage)
        for k in range(n_outputs):
            value_f, value_s = f[k] * scale_f, s[k] * scale_s
            gain += s[n_outputs + k] * value_f - np.float32(0.5) * s[at + 1] * value_f * value_f
            gain += f[n_outputs + k] * value_s - np.float32(0.5) * f[at + 1] * value_s * value_s
    return gain


@loop
def score_grids(
    columns, ends, values, parts, n_outputs, sizes, grids, multipliers,
    bits, shrinkage, first, last, gains, slots, strides, sums,
):  # fmt: skip
    """Write the :func:`crossed_gain` of grids ``first:last`` on two parts of the rows.

    ``columns`` (n_inputs, n_rows) and ``values`` (n_rows, 4 or 8), padded with zeros, are float32
    and C-contiguous. ``ends`` (n_inputs, 2) are the smallest and the largest number of each column.
    ``parts`` (2, 2) holds the first and last row of each part. Grid g divides ``sizes[g]`` inputs;
    ``grids`` are their numbers, inverse widths and shifts, each (n_grids, most). If all cells
    between the ends of a grid's columns are at most ``2**bits``, each has an entry, else bins are
    hashed to ``2**bits`` entries by the odd ``multipliers`` (most,). ``slots`` (2, TILE) and
    ``strides`` (most,) of uint32 and ``sums`` (2, 2**bits, 4 or 8) of float32 are scratch memory.
    """
    inputs, inverse, shifts = grids
    max_slots = np.int64(1) << bits
    for c in range(first, last):
        n_slots, begin, shift = np.int64(1), np.uint32(0), np.uint32(0)
        for q in range(sizes[c]):
            column = inputs[c, q]
            lowest = np.floor((ends[column, 0] - shifts[c, q]) * inverse[c, q])
            highest = np.floor((ends[column, 1] - shifts[c, q]) * inverse[c, q])
            strides[q] = n_slots
            begin = np.uint32(begin - np.uint32(np.uint32(np.int32(lowest)) * strides[q]))
            n_slots *= 1 + np.int64(highest - lowest)
            if n_slots > max_slots:
                break
        if n_slots > max_slots:
            n_slots, begin, shift = max_slots, np.uint32(0), np.uint32(32 - bits)
            for q in range(sizes[c]):
                strides[q] = multipliers[q]
        grid = inputs[c], inverse[c], shifts[c], strides
        for k in range(2):
            for b in range(n_slots):
                for lane in range(sums.shape[2]):
                    sums[k, b, lane] = np.float32(0.0)
        sum_bins(columns, values, parts, grid, sizes[c], begin, shift, slots, sums)
        gains[c] = crossed_gain(sums[0, :n_slots], sums[1, :n_slots], n_outputs, shrinkage)


@inner_loop
def gain_without(
    q, n_bins, cells, hashes, multipliers, shift, sums, merged, numbers, n_outputs, shrinkage
):
    """Return the :func:`crossed_gain` of a grid without its input q, from the sums of its bins.

    With q = -1, the grid has all inputs. Bins are hashed to slots. ``merged``, of the shape of
    ``sums``, and ``numbers`` (n_slots,) of int32 are scratch memory for the sums and the numbers of
    used slots.
    """
    numbers[:] = 0
    count = 0
    for b in range(n_bins):
        part = np.uint32(0) if q < 0 else np.uint32(np.uint32(cells[q, b]) * multipliers[q])
        slot = np.uint32(hashes[b] - part) >> shift
        if numbers[slot] == 0:
            merged[0, count] = np.float32(0.0)
            merged[1, count] = np.float32(0.0)
            count += 1
            numbers[slot] = count
        add_row(sums[0], b, numbers[slot] - 1, merged[0])
        add_row(sums[1], b, numbers[slot] - 1, merged[1])
    return crossed_gain(merged[0, :count], merged[1, :count], n_outputs, shrinkage)


@inner_loop
def sum_numbered_bins(code, n_bins, values, parts, sums, members):
    """Sum the values of the rows of two parts by bins, and find the first row of each bin.

    ``code`` are 1-based bin numbers in order of first appearance.
    """
    for k in range(2):
        for b in range(n_bins):
            for lane in range(sums.shape[2]):
                sums[k, b, lane] = np.float32(0.0)
    first, second = parts[0, 0], parts[1, 0]
    n_first, n_second = parts[0, 1] - first, parts[1, 1] - second
    for i in range(max(n_first, n_second)):
        if i < n_first:
            add_row(values, first + i, code[first + i] - 1, sums[0])
        if i < n_second:
            add_row(values, second + i, code[second + i] - 1, sums[1])
    n_known, i = 0, 0
    while n_known < n_bins:
        if code[i] > n_known:
            members[n_known] = i
            n_known += 1
        i += 1


@loop
def simplify_grids(
    rows, codes, n_bins, sizes, grids, multipliers, values, parts, n_outputs, bits, shrinkage,
    share, first, last, gains, is_kept, lost, keys, members, cells, hashes, sums, merged, numbers,
):  # fmt: skip
    """Drop the inputs of grids ``first:last`` that do not contribute to their gains.

    Inputs are dropped one after the other, the least useful first, if a grid without it keeps the
    ``share`` of its gain on ``values``, see :func:`score_grids`. ``is_kept`` becomes false for
    dropped inputs, and ``lost`` becomes what the gain loses without each other input. If inputs are
    dropped, ``keys`` become hashes of the bins by the other inputs: bins with equal keys are one
    bin of the simpler grid. ``gains`` are those of grids with one input; others are not used.

    ``codes`` (n_grids, n_rows) are the 1-based numbers of the ``n_bins`` of each grid, in order of
    first appearance. Grid g divides ``sizes[g]`` inputs; ``grids`` are the columns of ``rows``,
    inverse widths, shifts, limits of cells and multipliers of keys, each (n_grids, most), as
    ``is_kept`` and ``lost``, which is zero. ``keys`` are (n_grids, most bins). The scratch
    memory is ``members`` (most bins,) and ``cells`` (most, most bins) of int64, ``hashes`` (most
    bins,) of uint32, ``sums`` (2, most bins, 4 or 8) and the arrays of :func:`gain_without`.
    """
    columns, inverse, shifts, limits, key_multipliers = grids
    shift = np.uint32(32 - bits)
    for g in range(first, last):
        n_kept, gain = sizes[g], gains[g]
        if n_kept > 1:
            sum_numbered_bins(codes[g], n_bins[g], values, parts, sums, members)
        for b in range(n_bins[g]):
            hashes[b] = np.uint32(0)
            keys[g, b] = 0
        for q in range(sizes[g] if n_kept > 1 else 0):
            limit = limits[g, q]
            for b in range(n_bins[g]):
                scaled = (rows[members[b], columns[g, q]] - shifts[g, q]) * inverse[g, q]
                cells[q, b] = np.int64(np.floor(min(max(scaled, -limit), limit)))
                hashes[b] += np.uint32(np.uint32(cells[q, b]) * multipliers[q])
        if n_kept > 1:
            # Bins collide as those of the simpler grids do, so that the gains can be compared.
            gain = gain_without(
                -1, n_bins[g], cells, hashes, multipliers, shift, sums, merged, numbers,
                n_outputs, shrinkage,
            )  # fmt: skip
        while n_kept > 1:
            best, best_gain = -1, 0.0
            for q in range(sizes[g]):
                if is_kept[g, q] and lost[g, q] <= _LARGE_LOSS * gain:
                    simpler_gain = gain_without(
                        q, n_bins[g], cells, hashes, multipliers, shift, sums, merged, numbers,
                        n_outputs, shrinkage,
                    )  # fmt: skip
                    lost[g, q] = max(gain - simpler_gain, 0.0)
                    if best < 0 or simpler_gain >= best_gain:
                        best, best_gain = q, simpler_gain
            if best < 0 or not best_gain >= share * gain:
                break
            is_kept[g, best], lost[g, best] = False, 0.0
            gain, n_kept = best_gain, n_kept - 1
            for b in range(n_bins[g]):
                hashes[b] -= np.uint32(np.uint32(cells[best, b]) * multipliers[best])
        for q in range(sizes[g]):
            if is_kept[g, q]:
                # The whole gain of a grid with one input is lost without it.
                if n_kept == 1:
                    lost[g, q] = gain
                if n_kept < sizes[g]:
                    for b in range(n_bins[g]):
                        keys[g, b] += key_multipliers[g, q] * cells[q, b]
