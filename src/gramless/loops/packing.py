"""Packing rows for binning: float64 tiles, numbered patterns, non-zeros."""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import loop

_MOST_PROBES = 256

TILE = 512
"""Rows a tile: few enough that rows and keys stay near, enough to use a table while it is hot."""


@loop
def pack_rows(numbers, strides, n_rows, first_tile, columns, limits, tiles):
    """Copy columns of a matrix into rows of float64, clipped to ``+-limits``.

    The matrix is flat: row i and column j are at ``i * strides[0] + j * strides[1]``. ``tiles``
    (n_tiles, width, n_columns) begins at tile ``first_tile`` of the rows; the tail of the last tile
    repeats the last row, so that no tile holds undefined numbers. Returns whether a number had to
    be clipped.
    """
    n_tiles, width, n_columns = tiles.shape
    last, down, across = n_rows - 1, np.uint64(strides[0]), np.uint64(strides[1])
    clipped = False
    for t in range(n_tiles):
        origin = (first_tile + t) * width
        for i in range(width):
            row = np.uint64(min(origin + i, last)) * down
            for c in range(n_columns):
                place, limit = row + np.uint64(columns[c]) * across, limits[c]
                value = np.float64(numbers[place])
                inside = min(max(value, -limit), limit)
                clipped |= inside != value
                tiles[t, i, c] = inside
    return clipped


@loop
def hash_rows(bits, first, multipliers, start, stop, hashes):
    """Hash some columns of rows ``start:stop`` of a row-major matrix to 64 bits each.

    ``bits`` are the numbers as integers of their own size. ``multipliers`` belong to the columns
    from ``first`` on; 0 leaves a column out. High bits, in which alone whole numbers differ, are
    folded into low ones before the linear hash.
    """
    n_columns = len(multipliers)
    for i in range(start, stop):
        row = bits[i, first : first + n_columns]
        total = np.int64(0)
        for c in range(n_columns):
            value = np.uint64(row[c])
            folded = value ^ (value >> np.uint64(16)) ^ (value >> np.uint64(44))
            total += multipliers[c] * np.int64(folded)
        hashes[i] = total


@loop
def hash_columns(bits, first, multipliers, start, stop, hashes):
    """Do as :func:`hash_rows` on a column-major matrix, a column at a time."""
    for i in range(start, stop):
        hashes[i] = 0
    for c in range(len(multipliers)):
        multiplier = multipliers[c]
        if multiplier != 0:
            for i in range(start, stop):
                value = np.uint64(bits[i, first + c])
                folded = value ^ (value >> np.uint64(16)) ^ (value >> np.uint64(44))
                hashes[i] += multiplier * np.int64(folded)


@loop
def number_patterns(hashes, ids, first_rows, slots):
    """Number equal hashes in order of first appearance.

    Returns the number of patterns, or -1 if there are more than ``first_rows`` can hold or too many
    for one slot. ``slots`` is an int32 table of -1, of a power of two of entries, at least twice as
    long as ``first_rows``.
    """
    mask = len(slots) - 1
    count = 0
    for i in range(len(hashes)):
        key = hashes[i]
        slot = (key ^ (key >> 32)) & mask
        end = slot + _MOST_PROBES
        while True:
            if slot == end:
                return -1
            found = slots[slot & mask]
            if found < 0:
                if count == len(first_rows):
                    return -1
                slots[slot & mask] = count
                first_rows[count] = i
                ids[i] = count
                count += 1
                break
            if hashes[first_rows[found]] == key:
                ids[i] = found
                break
            slot += 1
    return count


@loop
def count_nonzeros(X, columns, indptr):
    """Count the non-zeros of ``columns`` in each row: ``indptr[1 + i]``."""
    for i in range(X.shape[0]):
        count = 0
        for c in range(len(columns)):
            if X[i, columns[c]] != 0:
                count += 1
        indptr[i + 1] = count


@loop
def fill_nonzeros(X, columns, indptr, indices, values):
    """Write the non-zeros counted by :func:`count_nonzeros`, columns renumbered."""
    for i in range(X.shape[0]):
        at = indptr[i]
        for c in range(len(columns)):
            value = np.float64(X[i, columns[c]])
            if value != 0:
                indices[at] = c
                values[at] = value
                at += 1
