"""Packed rows to bin numbers: linear hashes of the cells, looked up in open tables.

A bin of one grid is the vector of cells ``floor((x_j - shift_j) / width_j)`` (Rahimi & Recht 2007,
section 4). Its 64-bit key is the linear hash ``offset + sum_j multiplier_j * cell_j`` with odd
random multipliers. Two different bins share a key with probability about 2^-63, or 2^-39 if the
lowest 24 bits of the multipliers are 0. Differences of cells that are multiples of a power of two
lose as many bits: cells of short hashes have limits, and categories small codes.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from gramless.loops.compile import inner_loop, loop
from gramless.loops.simd import CELL_ROWS, add_cells_8, add_keys_8, add_sparse_cells_8, set_keys_8

GROUP = 8
"""Grids a call: eight 64-bit lanes, and rows are read once for all of them."""

FIRST_BITS = 12
"""Bits of an index that is to grow."""
_RUN, _JUMPS = 8, 64
"""Neighbouring slots that a search tries, and how often it then begins again elsewhere."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@inner_loop
def cells_of_rows(rows, grids, begun, keys):
    """Set ``keys`` to ``begun`` plus ``multiplier * floor((x - shift) * inverse_width)``, summed.

    ``rows`` (n, n_columns), ``begun`` (n, GROUP) and ``keys`` (GROUP, n) are C-contiguous, n a
    multiple of ``CELL_ROWS``. ``grids`` are (inverse_widths, shifts, multipliers, limits), each
    (n_columns, GROUP); cells beyond ``+-limits`` are these limits.
    """
    n_rows, n_columns = rows.shape
    for i in range(0, n_rows, CELL_ROWS):
        add_cells_8(rows, i * n_columns, n_columns, grids, begun, i * GROUP, keys, i, n_rows)


@loop
def add_cells(rows, grids, begun, keys):
    """Do as :func:`cells_of_rows`, for callers in Python."""
    cells_of_rows(rows, grids, begun, keys)


@inner_loop
def add_sparse_cells(indptr, indices, values, start, stop, grids, zero_keys, keys):
    """Correct the keys of the zero row at the non-zeros of rows ``start:stop``.

    ``grids`` are as in :func:`add_cells`; ``zero_keys`` (n_columns, GROUP) are what a zero in each
    column has added to the keys (n, GROUP). All are contiguous.
    """
    for i in range(start, stop):
        add_sparse_cells_8(
            indices, values, indptr[i], indptr[i + 1], grids, zero_keys, keys, (i - start) * GROUP
        )


@inner_loop
def add_patterns(ids, contributions, keys):
    """Add each row's tabulated contributions (n_patterns, GROUP) to its keys."""
    for i in range(len(ids)):
        add_keys_8(keys, i * GROUP, contributions, np.int64(ids[i]) * GROUP)


@inner_loop
def far_slot(key, slots, mask, shift, table):
    """Return the slot of a key whose first slots are occupied by others; -1 if it has none.

    The keys of bins along a line can share their top bits and crowd the slots that these name: the
    search continues wherever better mixed bits point, and ends after 512 slots, which only keys
    made on purpose fill.
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

    Returns whether all have a slot of their own, see :func:`far_slot`: False too if two bins have
    the same key.
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
    """Return how many bits a growing index needs for so many bins, at least ``bits``.

    It may be half full beyond 2**16 slots, where fewer cache misses are worth more probes.
    """
    while n_bins + 1 > (1 << (bits - 2 if bits <= 16 else bits - 1)):
        bits += 2 if bits < 16 else 1
    return bits


@inner_loop
def number_codes(keys, n_rows, slots, bits, table, count, most, codes):
    """Number the bins of one grid in order of first appearance, from 1, up to ``most``.

    A bin that would be one more gets number 0: with ``most`` equal to ``count``, known bins are
    looked up and nothing changes. The first ``2**bits`` entries of ``slots`` map the top bits of a
    key to a bin number (0: empty), ``table`` maps a bin number to its key; both must have room for
    ``min(most - count, n_rows)`` more bins. Returns (bins known, bits); bits are 0 if a new key
    finds no slot, see :func:`far_slot`.
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
                # A known key has a slot that is found: without one, this key is new.
                code = slots[slot] if slot >= 0 else 0
            if code == 0 and count < most:
                if slot < 0:
                    return count, 0
                count += 1
                code = count
                slots[slot & mask] = code
                table[code] = key
                wanted = slot_bits(count, bits)
                if wanted > bits and (1 << wanted) <= len(slots):
                    bits = wanted
                    if not fill_slots(table, count, slots, bits):
                        return count, 0
                    mask = (1 << bits) - 1
                    shift = np.uint64(64 - bits)
        codes[i] = code
    return count, bits


@inner_loop
def distinct_keys(keys, n_keys, slots, bits, found, codes):
    """Number keys by first appearance from 1; return how many differ, -1 if one finds no slot.

    ``found`` has each key at its number. The index begins with ``2**bits`` slots, and there is room
    for those of ``n_keys`` keys, see :func:`slot_bits`.
    """
    for empty in range(1 << bits):
        slots[empty] = 0
    count, bits = number_codes(keys, n_keys, slots, bits, found, 0, n_keys, codes)
    return count if bits > 0 else -1


@loop
def number_keys(keys, slots, found, codes):
    """Do as :func:`distinct_keys` with all keys, for callers in Python."""
    return distinct_keys(keys, len(keys), slots, FIRST_BITS, found, codes)


@loop
def index_bins(table, counts, slots, bits):
    """Index the bins of some grids, see :func:`fill_slots`, and return how many grids are indexed.

    These are fewer than all if a bin of the next grid has no slot, or the key of another bin.
    """
    for g in range(len(counts)):
        if not fill_slots(table[g], counts[g], slots[g], bits[g]):
            return g
    return len(counts)


@inner_loop
def tile_keys(
    t, tiles, ids, contributions, sparse, dense_grids, sparse_grids, offsets, begun, keys
):
    """Compute the keys of tile ``t`` for a group of grids into ``keys`` (GROUP, width).

    ``begun`` (width, GROUP) is room for them before the cells of the tile.
    """
    width = len(begun)
    for i in range(width):
        set_keys_8(begun, i * GROUP, offsets, 0)
    for p in range(ids.shape[0]):
        add_patterns(ids[p, t * width : (t + 1) * width], contributions, begun)
    indptr, indices, values = sparse
    if len(indices) > 0:
        start, n_rows = t * width, len(indptr) - 1
        stop = start + width if start + width < n_rows else n_rows
        parts, zero_keys = sparse_grids
        add_sparse_cells(indptr, indices, values, start, stop, parts, zero_keys, begun)
    cells_of_rows(tiles[t], dense_grids, begun, keys)


@loop
def number_block(
    first_tile, n_rows, tiles, ids, contributions, sparse, dense_grids, sparse_grids, offsets,
    slots, bits, table, counts, most, codes, stride, begun, keys,
):  # fmt: skip
    """Number the bins of a block of rows for a group of grids; see :func:`number_codes`.

    ``codes`` is flat: row i has the number ``codes[g * stride + i]`` in grid g. Of grid g there are
    ``most[g]`` bins at most; ``begun`` (width, GROUP) and ``keys`` (GROUP, width) are room for the
    keys of a tile. Returns the next tile to do, before which tables must be enlarged, or -1 if a
    new key finds no slot: the tables are then useless.
    """
    width = tiles.shape[1]
    for t in range(first_tile, tiles.shape[0]):
        for g in range(len(counts)):
            if counts[g] + width >= table.shape[1] and most[g] >= table.shape[1]:
                return t
        tile_keys(
            t, tiles, ids, contributions, sparse, dense_grids, sparse_grids, offsets, begun, keys
        )
        start = t * width
        stop = start + width if start + width < n_rows else n_rows
        for g in range(len(counts)):
            count, own_bits = number_codes(
                keys[g],
                stop - start,
                slots[g],
                bits[g],
                table[g],
                counts[g],
                most[g],
                codes[g * stride + start : g * stride + stop],
            )
            if own_bits == 0:
                return -1
            # Threads that look bins up share the tables: what stays is not written.
            if count > counts[g]:
                counts[g], bits[g] = count, own_bits
    return tiles.shape[0]
