"""Packing of rows for binning, as float64 tiles, numbered patterns and non-zeros."""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import loop

_MAX_PROBES = 256

TILE = 512  # rows per tile: rows and keys stay in the cache, and each table is used often


@loop
def pack_rows(numbers, strides, n_rows, first_tile, columns, limits, tiles):
    """Copy columns of a matrix into rows of float64, clipped to ``+-limits``.

    The matrix is flat: row i and column j are at ``i * strides[0] + j * strides[1]``. ``tiles``
    (n_tiles, width, n_columns) starts at tile ``first_tile`` of the rows; the last row fills the
    end of the last tile, so that no number is undefined. Returns whether a number was clipped.
    """
    n_tiles, width, n_columns = tiles.shape
    last, down, across = n_rows - 1, np.uint64(strides[0]), np.uint64(strides[1])
    is_clipped = False
    for t in range(n_tiles):
        origin = (first_tile + t) * width
        for i in range(width):
            row = np.uint64(min(origin + i, last)) * down
            for c in range(n_columns):
                place, limit = row + np.uint64(columns[c]) * across, limits[c]
                value = np.float64(numbers[place])
                inside = min(max(value, -limit), limit)
                is_clipped |= inside != value
                tiles[t, i, c] = inside
    return is_clipped


@loop
def hash_rows(bits, first, multipliers, start, stop, hashes):
    """Hash some columns of rows ``start:stop`` of a row-major matrix to 64 bits each.

    ``bits`` are the bits of the numbers as integers. ``multipliers`` belong to the columns from
    ``first`` on; 0 excludes a column. Floats of whole numbers differ only in high bits, so these
    are folded into low bits before the linear hash.
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
    """Compute the hashes of :func:`hash_rows` for a column-major matrix, column by column."""
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

    Returns the number of patterns, or -1 if there are more than the length of ``first_rows`` or a
    search takes too many probes. ``slots`` is an int32 array of -1, whose length is a power of two
    and at least twice that of ``first_rows``.
    """
    mask = len(slots) - 1
    count = 0
    for i in range(len(hashes)):
        key = hashes[i]
        slot = (key ^ (key >> 32)) & mask
        end = slot + _MAX_PROBES
        while True:
            if slot == end:
                return -1
            pattern = slots[slot & mask]
            if pattern < 0:
                if count == len(first_rows):
                    return -1
                slots[slot & mask] = count
                first_rows[count] = i
                ids[i] = count
                count += 1
                break
            if hashes[first_rows[pattern]] == key:
                ids[i] = pattern
                break
            slot += 1
    return count


@loop
def count_nonzeros(X, columns, indptr):
    """Write the number of non-zeros of row i in ``columns`` to ``indptr[i + 1]``."""
    for i in range(X.shape[0]):
        count = 0
        for c in range(len(columns)):
            if X[i, columns[c]] != 0:
                count += 1
        indptr[i + 1] = count


@loop
def fill_nonzeros(X, columns, indptr, indices, values):
    """Write the non-zeros counted by :func:`count_nonzeros`, with columns renumbered."""
    for i in range(X.shape[0]):
        at = indptr[i]
        for c in range(len(columns)):
            value = np.float64(X[i, columns[c]])
            if value != 0:
                indices[at] = c
                values[at] = value
                at += 1
