"""Packed rows to bin numbers: linear hashes of the cells, looked up in open tables.

A bin of one grid is the vector of cells ``floor((x_j - shift_j) / width_j)`` (Rahimi & Recht 2007,
section 4). Its 64-bit key is the linear hash ``offset + sum_j multiplier_j * cell_j`` with odd
random multipliers: two different bins share a key with probability about 2^-63.
"""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import loop
from gramless.loops.simd import CELL_ROWS, add_cells_8, add_keys_8, add_sparse_cells_8, set_keys_8

GROUP = 8
"""Grids a call: eight 64-bit lanes, and rows are read once for all of them."""

_RUN, _JUMPS = 8, 64
"""Neighbouring slots that a search tries, and how often it then begins again elsewhere."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@loop
def add_cells(rows, grids, begun, keys):  # type: ignore[no-untyped-def]
    """Set ``keys`` to ``begun`` plus ``multiplier * floor((x - shift) * inverse_width)``, summed.

    ``rows`` (n, n_columns), ``begun`` (n, GROUP) and ``keys`` (GROUP, n) are C-contiguous, n a
    multiple of ``CELL_ROWS``. ``grids`` are (inverse_widths, shifts, multipliers), each (n_columns,
    GROUP).
    """
    n_rows, n_columns = rows.shape
    for i in range(0, n_rows, CELL_ROWS):
        add_cells_8(rows, i * n_columns, n_columns, grids, begun, i * GROUP, keys, i, n_rows)


@loop
def add_sparse_cells(indptr, indices, values, start, stop, grids, zero_keys, keys):  # type: ignore[no-untyped-def]
    """Correct the keys of the zero row at the non-zeros of rows ``start:stop``.

    ``grids`` are as in :func:`add_cells`; ``zero_keys`` (n_columns, GROUP) are what a zero in each
    column has added to the keys (n, GROUP). All are contiguous.
    """
    for i in range(start, stop):
        add_sparse_cells_8(
            indices, values, indptr[i], indptr[i + 1], grids, zero_keys, keys, (i - start) * GROUP
        )


@loop
def add_patterns(ids, contributions, keys):  # type: ignore[no-untyped-def]
    """Add each row's tabulated contributions (n_patterns, GROUP) to its keys."""
    for i in range(len(ids)):
        add_keys_8(keys, i * GROUP, contributions, np.int64(ids[i]) * GROUP)


@loop
def far_slot(key, slots, mask, shift, table):  # type: ignore[no-untyped-def]
    """Return the slot of a key whose first slots are occupied by others; -1 if it has none.

    The keys of bins along a line can share their top bits and crowd the slots that these name: the
    search continues wherever better mixed bits point, and ends after 512 slots, which only keys
    made on purpose fill.
    """
    mixed = np.uint64(key)
    for _ in range(_JUMPS):
        mixed = (mixed ^ (mixed >> _HALF)) * _MIX + _MIX
        slot = np.int64(mixed >> shift)
        for _ in range(_RUN):
            code = slots[slot]
            if code == 0 or table[code] == key:
                return slot
            slot = (slot + 1) & mask
    return -1


@loop
def fill_slots(table, count, slots, bits):  # type: ignore[no-untyped-def]
    """Index bins ``1..count`` of ``table`` in the first ``2**bits`` entries of ``slots``.

    Returns whether all have a slot, see :func:`far_slot`.
    """
    mask = (1 << bits) - 1
    shift = np.uint64(64 - bits)
    for empty in range(mask + 1):
        slots[empty] = 0
    for code in range(1, count + 1):
        slot = np.int64(np.uint64(table[code]) >> shift)
        end = slot + _RUN
        while slots[slot & mask] != 0 and slot != end:
            slot += 1
        if slot == end:
            slot = far_slot(table[code], slots, mask, shift, table)
            if slot < 0:
                return False
        slots[slot & mask] = code
    return True


@loop
def has_room(n_bins, bits):  # type: ignore[no-untyped-def]
    """Return whether an index of ``2**bits`` slots is large enough for so many bins.

    It may be half full beyond 2**16 slots, where fewer cache misses are worth more probes.
    """
    return n_bins + 1 <= (1 << (bits - 2 if bits <= 16 else bits - 1))


@loop
def slot_bits(n_bins, bits):  # type: ignore[no-untyped-def]
    """Return how many bits a growing index needs, at least ``bits``; see :func:`has_room`."""
    while not has_room(n_bins, bits):
        bits += 2 if bits < 16 else 1
    return bits


@loop
def fewest_bits(counts, bits):  # type: ignore[no-untyped-def]
    """Raise the bits of each grid's index to what it needs if it does not grow: half full at most.

    A model from a file takes half the memory so, and its look-ups some 3 % longer.
    """
    for g in range(len(counts)):
        while counts[g] + 1 > 1 << (bits[g] - 1):
            bits[g] += 1


@loop
def learn_codes(keys, n_rows, slots, bits, table, count, codes):  # type: ignore[no-untyped-def]
    """Number the bins of one grid in order of first appearance, from 1.

    The first ``2**bits`` entries of ``slots`` map the top bits of a key to a bin number (0: empty),
    ``table`` maps a bin number to its key; both must have room for ``n_rows`` more bins. Returns
    (bins known, bits); bits are 0 if a key finds no slot, see :func:`far_slot`.
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
                if slot < 0:
                    return count, 0
                code = slots[slot]
            if code == 0:
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
            end = slot + _RUN
            while code != 0 and table[code] != key and slot != end:
                slot += 1
                code = slots[slot & mask]
            if slot == end:
                slot = far_slot(key, slots, mask, shift, table)
                # A known key has a slot that is found: without one, this key is new.
                code = slots[slot] if slot >= 0 else 0
        codes[i] = code


@loop
def index_bins(table, counts, slots, bits):  # type: ignore[no-untyped-def]
    """Index the bins of some grids, see :func:`fill_slots`, and return how many grids are indexed.

    These are fewer than all if a bin of the next grid has no slot, or the key of another bin.
    """
    for g in range(len(counts)):
        count = counts[g]
        if not fill_slots(table[g], count, slots[g], bits[g]):
            return g
        found = np.empty(count, np.uint32)
        find_codes(table[g, 1 : count + 1], count, slots[g], bits[g], table[g], found)
        for code in range(1, count + 1):
            if found[code - 1] != code:
                return g
    return len(counts)


@loop
def tile_keys(  # type: ignore[no-untyped-def]
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
        start = t * width
        stop = min(start + width, len(indptr) - 1)
        parts, zero_keys = sparse_grids
        add_sparse_cells(indptr, indices, values, start, stop, parts, zero_keys, begun)
    add_cells(tiles[t], dense_grids, begun, keys)


@loop
def learn_block(  # type: ignore[no-untyped-def]
    first_tile, n_rows, tiles, ids, contributions, sparse, dense_grids, sparse_grids, offsets,
    slots, bits, table, counts, codes,
):  # fmt: skip
    """Number the bins of a block of rows for a group of grids; see :func:`learn_codes`.

    Returns the next tile to do, before which tables must be enlarged, or -1 if a key finds no slot:
    the tables are then useless.
    """
    width = tiles.shape[1]
    begun, keys = np.empty((width, GROUP), np.int64), np.empty((GROUP, width), np.int64)
    for t in range(first_tile, tiles.shape[0]):
        for g in range(len(counts)):
            if counts[g] + width >= table.shape[1]:
                return t
        tile_keys(
            t, tiles, ids, contributions, sparse, dense_grids, sparse_grids, offsets, begun, keys
        )
        start = t * width
        stop = min(start + width, n_rows)
        for g in range(len(counts)):
            counts[g], bits[g] = learn_codes(
                keys[g], stop - start, slots[g], bits[g], table[g], counts[g], codes[g, start:stop]
            )
            if bits[g] == 0:
                return -1
    return tiles.shape[0]


@loop
def find_block(  # type: ignore[no-untyped-def]
    n_rows, tiles, ids, contributions, sparse, dense_grids, sparse_grids, offsets,
    slots, bits, table, counts, codes,
):  # fmt: skip
    """Look up the bins of a block of rows for a group of grids (0: never seen)."""
    width = tiles.shape[1]
    begun, keys = np.empty((width, GROUP), np.int64), np.empty((GROUP, width), np.int64)
    for t in range(tiles.shape[0]):
        tile_keys(
            t, tiles, ids, contributions, sparse, dense_grids, sparse_grids, offsets, begun, keys
        )
        start = t * width
        stop = min(start + width, n_rows)
        for g in range(len(counts)):
            find_codes(keys[g], stop - start, slots[g], bits[g], table[g], codes[g, start:stop])
