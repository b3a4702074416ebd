"""Packed rows to bin numbers: linear hashes of the cells, looked up in open tables.

A bin of one grid is the vector of cells ``floor((x_j - shift_j) / width_j)``
(Rahimi & Recht 2007, section 4). Its 64-bit key is the linear hash
``offset + sum_j multiplier_j * cell_j`` with odd random multipliers: two
different bins share a key with probability about 2^-63.
"""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import loop

GROUP = 8
"""Grids a call: eight 64-bit lanes, and a tile is read once for all of them."""


@loop
def add_cells(columns, inverse_widths, shifts, multipliers, keys):  # type: ignore[no-untyped-def]
    """Add ``multiplier * floor((x - shift) * inverse_width)`` of every column to ``keys``."""
    n_rows = len(keys)
    for c in range(columns.shape[0]):
        inverse = inverse_widths[c]
        shift = shifts[c]
        multiplier = multipliers[c]
        column = columns[c]
        for i in range(n_rows):
            keys[i] += multiplier * np.int64(np.floor((column[i] - shift) * inverse))


@loop
def add_sparse_cells(  # type: ignore[no-untyped-def]
    indptr, indices, values, start, stop, inverse_widths, shifts, multipliers, zero_cells, keys
):
    """Correct the keys of the zero row at the non-zeros of rows ``start:stop``.

    The grids' parameters come as (n_columns, GROUP): eight grids a step.
    """
    total = np.empty(GROUP, np.int64)
    for i in range(start, stop):
        for g in range(GROUP):
            total[g] = 0
        for at in range(indptr[i], indptr[i + 1]):
            c = indices[at]
            value = values[at]
            for g in range(GROUP):
                cell = np.int64(np.floor((value - shifts[c, g]) * inverse_widths[c, g]))
                total[g] += multipliers[c, g] * (cell - zero_cells[c, g])
        for g in range(GROUP):
            keys[g, i - start] += total[g]


@loop
def add_patterns(ids, contributions, keys):  # type: ignore[no-untyped-def]
    """Add each row's tabulated contribution to its key."""
    for i in range(len(keys)):
        keys[i] += contributions[ids[i]]


@loop
def fill_slots(table, count, slots, bits):  # type: ignore[no-untyped-def]
    """Index bins ``1..count`` of ``table`` in the first ``2**bits`` entries of ``slots``."""
    mask = (1 << bits) - 1
    shift = np.uint64(64 - bits)
    slots[: mask + 1] = 0
    for code in range(1, count + 1):
        slot = np.int64(np.uint64(table[code]) >> shift)
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = code


@loop
def slot_bits(n_bins, bits):  # type: ignore[no-untyped-def]
    """Return how many bits the index of a grid needs, at least ``bits``.

    At most a quarter full up to 2**16 slots; half full beyond, where a smaller
    index saves more cache misses than it costs probes.
    """
    while n_bins + 1 > (1 << (bits - 2 if bits <= 16 else bits - 1)):
        bits += 2 if bits < 16 else 1
    return bits


@loop
def learn_codes(keys, n_rows, slots, bits, table, count, codes):  # type: ignore[no-untyped-def]
    """Number the bins of one grid in order of first appearance, from 1.

    The first ``2**bits`` entries of ``slots`` map the top bits of a key to a
    bin number (0: empty), ``table`` maps a bin number to its key. The index
    grows in place, see :func:`slot_bits`; ``table`` must have room for ``count
    + n_rows + 1`` keys, and ``slots`` for their index, more than as many, or the
    search for an empty slot would never end. Returns (bins known, bits).
    """
    mask = (1 << bits) - 1
    shift = np.uint64(64 - bits)
    for i in range(n_rows):
        key = keys[i]
        slot = np.int64(np.uint64(key) >> shift)
        code = slots[slot]
        if code == 0 or table[code] != key:
            while code != 0 and table[code] != key:
                slot = (slot + 1) & mask
                code = slots[slot]
            if code == 0:
                count += 1
                code = count
                slots[slot] = code
                table[code] = key
                wanted = slot_bits(count, bits)
                if wanted > bits and (1 << wanted) <= len(slots):
                    bits = wanted
                    fill_slots(table, count, slots, bits)
                    mask = (1 << bits) - 1
                    shift = np.uint64(64 - bits)
        codes[i] = code
    return count, bits


@loop
def find_codes(keys, n_rows, slots, bits, table, codes):  # type: ignore[no-untyped-def]
    """Look up the bins of one grid; a bin never seen gets number 0."""
    mask = (1 << bits) - 1
    shift = np.uint64(64 - bits)
    for i in range(n_rows):
        key = keys[i]
        slot = np.int64(np.uint64(key) >> shift)
        code = slots[slot]
        if table[code] != key:
            while code != 0 and table[code] != key:
                slot = (slot + 1) & mask
                code = slots[slot]
        codes[i] = code


@loop
def tile_keys(  # type: ignore[no-untyped-def]
    t, n_grids, tiles, ids, contributions, sparse, dense_grids, sparse_grids, offsets, keys
):
    """Compute the keys of tile ``t`` for a group of grids into ``keys`` (GROUP, width)."""
    width = keys.shape[1]
    inverse_widths, shifts, multipliers = dense_grids
    for g in range(n_grids):
        for i in range(width):
            keys[g, i] = offsets[g]
        add_cells(tiles[t], inverse_widths[g], shifts[g], multipliers[g], keys[g])
        for p in range(ids.shape[0]):
            add_patterns(ids[p, t * width : (t + 1) * width], contributions[g], keys[g])
    indptr, indices, values = sparse
    if len(indices) > 0:
        start = t * width
        stop = min(start + width, len(indptr) - 1)
        s_inverse, s_shifts, s_multipliers, s_zero = sparse_grids
        add_sparse_cells(
            indptr, indices, values, start, stop, s_inverse, s_shifts, s_multipliers, s_zero, keys
        )


@loop
def learn_block(  # type: ignore[no-untyped-def]
    first_tile,
    n_rows,
    tiles,
    ids,
    contributions,
    sparse,
    dense_grids,
    sparse_grids,
    offsets,
    slots,
    bits,
    table,
    counts,
    codes,
):
    """Number the bins of a block of rows for a group of grids; see :func:`learn_codes`.

    Returns the next tile to do: fewer than all are done when a table might
    not hold the bins of one more tile. Enlarge the tables and call again.
    """
    width = tiles.shape[2]
    keys = np.empty((GROUP, width), np.int64)
    for t in range(first_tile, tiles.shape[0]):
        if counts.max() + width >= table.shape[1]:
            return t
        tile_keys(
            t,
            len(counts),
            tiles,
            ids,
            contributions,
            sparse,
            dense_grids,
            sparse_grids,
            offsets,
            keys,
        )
        start = t * width
        stop = min(start + width, n_rows)
        for g in range(len(counts)):
            counts[g], bits[g] = learn_codes(
                keys[g], stop - start, slots[g], bits[g], table[g], counts[g], codes[g, start:stop]
            )
    return tiles.shape[0]


@loop
def find_block(  # type: ignore[no-untyped-def]
    n_rows,
    tiles,
    ids,
    contributions,
    sparse,
    dense_grids,
    sparse_grids,
    offsets,
    slots,
    bits,
    table,
    counts,
    codes,
):
    """Look up the bins of a block of rows for a group of grids (0: never seen)."""
    width = tiles.shape[2]
    keys = np.empty((GROUP, width), np.int64)
    for t in range(tiles.shape[0]):
        tile_keys(
            t,
            len(counts),
            tiles,
            ids,
            contributions,
            sparse,
            dense_grids,
            sparse_grids,
            offsets,
            keys,
        )
        start = t * width
        stop = min(start + width, n_rows)
        for g in range(len(counts)):
            find_codes(keys[g], stop - start, slots[g], bits[g], table[g], codes[g, start:stop])


@loop
def pattern_contributions(values, starts, columns, dense_grids, contributions):  # type: ignore[no-untyped-def]
    """Tabulate each pattern's part of the key for every grid of a group.

    ``values[c, p]`` are the values of column ``c`` of pattern ``p``; pattern
    group k owns patterns ``starts[0, k]:starts[0, k + 1]`` and the parameter
    columns ``columns[starts[1, k]:starts[1, k + 1]]``.
    """
    inverse_widths, shifts, multipliers = dense_grids
    for g in range(contributions.shape[0]):
        for k in range(starts.shape[1] - 1):
            first, last = starts[0, k], starts[0, k + 1]
            out = contributions[g, first:last]
            for p in range(last - first):
                out[p] = 0
            for at in range(starts[1, k], starts[1, k + 1]):
                c = columns[at]
                row = values[at - starts[1, k], first:last]
                inverse, shift, multiplier = inverse_widths[g, c], shifts[g, c], multipliers[g, c]
                for p in range(last - first):
                    out[p] += multiplier * np.int64(np.floor((row[p] - shift) * inverse))
