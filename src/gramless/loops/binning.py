"""Bin numbers of packed rows, by linear hashes of cells and open-addressing tables.

A bin of one grid is the vector of cells ``floor((x_j - shift_j) / width_j)`` (Rahimi & Recht 2007,
section 4). Its 64-bit key is the linear hash ``offset + sum_j multiplier_j * cell_j`` with odd
random multipliers. Two different bins share a key with probability about 2^-63, or 2^-39 if the
lowest 24 bits of the multipliers are 0. If cells differ by a multiple of 2^k, keys lose k bits;
therefore the cells of short hashes are limited, and categories have small codes.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from gramless.loops.compile import inner_loop, loop
from gramless.loops.simd import (
    BITS_OF_ZERO,
    CELL_ROWS,
    add_keys_8,
    add_near_cells,
    add_sparse_cells_8,
    set_keys_8,
    transpose_keys_8,
)

GROUP = 8  # grids per call: eight 64-bit lanes, which share one pass over patterns and non-zeros
_MAX_NEAR = 2.0**50  # cells below this are converted to integers by an addition

FIRST_BITS = 12  # initial bits of a growing index
_RUN, _JUMPS = 8, 64  # consecutive slots that a search probes, and how often it restarts elsewhere
_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@inner_loop
def add_far_cells(column, inverse, shift, multiplier, limit, keys):
    """Add ``multiplier * floor((x - shift) * inverse)`` to keys, with cells clipped to a limit."""
    for i in range(len(column)):
        scaled = (column[i] - shift) * inverse
        scaled = scaled if scaled > -limit else -limit
        scaled = scaled if scaled < limit else limit
        keys[i] += multiplier * np.int64(np.floor(scaled))


@loop
def add_cells(columns, largest, grids, keys):
    """Add ``sum multiplier * floor((x - shift) * inverse_width)`` to the keys of rows.

    ``columns`` (n_columns, n) and ``keys`` (at least n_grids, n) are C-contiguous, n a multiple of
    ``CELL_ROWS``; ``largest`` (n_columns,) are the largest absolute values. ``grids`` are (starts,
    columns, inverse_widths, shifts, multipliers, limits): grid g divides the columns from
    ``starts[g]`` to ``starts[g + 1]``. Cells are clipped to ``+-limits``.
    """
    starts, divided, inverse, shifts, multipliers, limits = grids
    n_rows = columns.shape[1]
    for g in range(len(starts) - 1):
        start, stop = starts[g], starts[g + 1]
        added, is_near = np.int64(0), True
        for q in range(start, stop):
            bound = (largest[divided[q]] + abs(shifts[q])) * inverse[q]
            is_near = is_near and bound < min(limits[q], _MAX_NEAR)
            added -= multipliers[q] * BITS_OF_ZERO
        if is_near:
            grid = divided, inverse, shifts, multipliers
            for i in range(0, n_rows, CELL_ROWS):
                to = g * n_rows + i
                add_near_cells(columns, i, n_rows, grid, start, stop, added, keys, to)
        else:
            for q in range(start, stop):
                column = columns[divided[q]]
                add_far_cells(column, inverse[q], shifts[q], multipliers[q], limits[q], keys[g])


@inner_loop
def add_sparse_cells(indptr, indices, values, start, stop, grids, zero_keys, keys):
    """Update the keys (n, GROUP) of zero rows by the non-zeros of rows ``start:stop``.

    ``grids`` are (inverse_widths, shifts, multipliers, limits), each (n_columns, GROUP), and
    ``zero_keys`` (n_columns, GROUP) the contributions of a zero in each column, which are replaced.
    All arrays are contiguous.
    """
    for i in range(start, stop):
        add_sparse_cells_8(
            indices, values, indptr[i], indptr[i + 1], grids, zero_keys, keys, (i - start) * GROUP
        )


@inner_loop
def add_patterns(ids, contributions, keys):
    """Add to the keys of each row the contributions (n_patterns, GROUP) of its pattern."""
    for i in range(len(ids)):
        add_keys_8(keys, i * GROUP, contributions, np.int64(ids[i]) * GROUP)


@inner_loop
def far_slot(key, slots, mask, shift, table):
    """Return the slot of a key whose first slots hold other keys; -1 if there is none.

    The keys of bins along a line can share their top bits and compete for the same slots. Therefore
    the search continues at slots given by mixed bits. It ends after 512 slots, which only keys
    chosen on purpose can fill.
    """
    mixed = np.uint64(key)
    slot = np.int64(0)
    for step in range(_JUMPS * _RUN):
        if step % _RUN == 0:
            mixed = (mixed ^ (mixed >> _HALF)) * _MIX + _MIX
            slot = np.int64(mixed >> shift)
        code = slots[slot]
        if code == 0 or table[code] == key:
            return slot
        slot = (slot + 1) & mask
    return -1


@inner_loop
def fill_slots(table, count, slots, bits):
    """Index bins ``1..count`` of ``table`` in the first ``2**bits`` entries of ``slots``.

    Returns False if a bin has no slot (see :func:`far_slot`) or two bins have the same key.
    """
    mask = (1 << bits) - 1
    shift = np.uint64(64 - bits)
    for empty in range(mask + 1):
        slots[empty] = 0
    for code in range(1, count + 1):
        key = table[code]
        slot = np.int64(np.uint64(key) >> shift)
        end, other = slot + _RUN, slots[slot]
        while other != 0 and table[other] != key and slot != end:
            slot += 1
            other = slots[slot & mask]
        if slot == end:
            slot = far_slot(key, slots, mask, shift, table)
            other = slots[slot] if slot >= 0 else 1
        if other != 0:
            return False
        slots[slot & mask] = code
    return True


@register_jitable
def slot_bits(n_bins, bits):
    """Return the number of bits of an index of ``n_bins`` bins, at least ``bits``."""
    # An index of more than 2**16 slots may be half full: fewer cache misses outweigh more probes.
    while n_bins + 1 > (1 << (bits - 2 if bits <= 16 else bits - 1)):
        bits += 2 if bits < 16 else 1
    return bits


@inner_loop
def number_codes(keys, n_rows, slots, bits, table, count, most, codes):
    """Number the bins of one grid in order of first appearance, from 1, up to ``most``.

    Further bins get the number 0. If ``most`` equals ``count``, known bins are looked up and no bin
    is added. The first ``2**bits`` entries of ``slots`` map the top bits of a key to a bin number
    (0: empty), ``table`` maps a bin number to its key; both need room for
    ``min(most - count, n_rows)`` more bins. Returns the number of known bins and the bits, which
    are 0 if a new key has no slot (see :func:`far_slot`).
    """
    mask = (1 << bits) - 1
    shift = np.uint64(64 - bits)
    for i in range(n_rows):
        key = keys[i]
        slot = np.int64(np.uint64(key) >> shift)
        code = slots[slot]
        if code == 0 or table[code] != key:
            end = slot + _RUN
            while code != 0 and table[code] != key and slot != end:
                slot += 1
                code = slots[slot & mask]
            if slot == end:
                slot = far_slot(key, slots, mask, shift, table)
                # Known keys always have a slot, so a key without one is new.
                code = slots[slot] if slot >= 0 else 0
            if code == 0 and count < most:
                if slot < 0:
                    return count, 0
                count += 1
                code = count
                slots[slot & mask] = code
                table[code] = key
                more_bits = slot_bits(count, bits)
                if more_bits > bits and (1 << more_bits) <= len(slots):
                    bits = more_bits
                    if not fill_slots(table, count, slots, bits):
                        return count, 0
                    mask = (1 << bits) - 1
                    shift = np.uint64(64 - bits)
        codes[i] = code
    return count, bits


@inner_loop
def distinct_keys(keys, n_keys, slots, bits, table, codes):
    """Number keys by first appearance from 1; return their number, or -1 if one has no slot.

    ``table`` maps numbers to keys. The index starts with ``2**bits`` slots; ``slots`` has room for
    those of ``n_keys`` keys (see :func:`slot_bits`).
    """
    for empty in range(1 << bits):
        slots[empty] = 0
    count, bits = number_codes(keys, n_keys, slots, bits, table, 0, n_keys, codes)
    return count if bits > 0 else -1


@loop
def number_keys(keys, slots, table, codes):
    """Call :func:`distinct_keys` with all keys from Python."""
    return distinct_keys(keys, len(keys), slots, FIRST_BITS, table, codes)


@loop
def index_bins(table, counts, slots, bits):
    """Index the bins of grids with :func:`fill_slots`; return the number of indexed grids.

    Indexing stops at the first grid in which a bin has no slot or the key of another bin.
    """
    for g in range(len(counts)):
        if not fill_slots(table[g], counts[g], slots[g], bits[g]):
            return g
    return len(counts)


@inner_loop
def tile_keys(
    t, tiles, largest, ids, contributions, sparse, dense_grids, sparse_grids, offsets, begun, keys
):
    """Compute the keys of tile ``t`` for a group of grids into ``keys`` (GROUP, width).

    ``begun`` (width, GROUP) is scratch memory for keys without the dense columns.
    """
    width = len(begun)
    indptr, indices, values = sparse
    if len(ids) + len(indices) > 0:
        for i in range(width):
            set_keys_8(begun, i * GROUP, offsets, 0)
        for p in range(len(ids)):
            add_patterns(ids[p, t * width : (t + 1) * width], contributions, begun)
        if len(indices) > 0:
            start, n_rows = t * width, len(indptr) - 1
            stop = start + width if start + width < n_rows else n_rows
            parts, zero_keys = sparse_grids
            add_sparse_cells(indptr, indices, values, start, stop, parts, zero_keys, begun)
        for i in range(0, width, 8):
            transpose_keys_8(begun, i * GROUP, keys, i, width)
    else:
        for g in range(GROUP):
            for i in range(width):
                keys[g, i] = offsets[g]
    add_cells(tiles[t], largest[t], dense_grids, keys)


@loop
def number_block(
    first_tile, n_rows, tiles, largest, ids, contributions, sparse, dense_grids, sparse_grids,
    offsets, slots, bits, table, counts, most, codes, stride, begun, keys,
):  # fmt: skip
    """Number the bins of a block of rows for a group of grids; see :func:`number_codes`.

    ``codes`` is flat: row i has the number ``codes[g * stride + i]`` in grid g. Grid g has at most
    ``most[g]`` bins; ``begun`` (width, GROUP) and ``keys`` (GROUP, width) are scratch memory for
    the keys of a tile. Returns the next tile, before which tables must be enlarged if it is not
    behind the last, or -1 if a new key has no slot, after which the tables are invalid.
    """
    width = tiles.shape[2]
    for t in range(first_tile, tiles.shape[0]):
        for g in range(len(counts)):
            if counts[g] + width >= table.shape[1] and most[g] >= table.shape[1]:
                return t
        tile_keys(
            t, tiles, largest, ids, contributions, sparse, dense_grids, sparse_grids, offsets,
            begun, keys,
        )  # fmt: skip
        start = t * width
        stop = start + width if start + width < n_rows else n_rows
        for g in range(len(counts)):
            count, grid_bits = number_codes(
                keys[g],
                stop - start,
                slots[g],
                bits[g],
                table[g],
                counts[g],
                most[g],
                codes[g * stride + start : g * stride + stop],
            )
            if grid_bits == 0:
                return -1
            # Threads that look up bins share these arrays, so unchanged numbers are not written.
            if count > counts[g]:
                counts[g], bits[g] = count, grid_bits
    return tiles.shape[0]
