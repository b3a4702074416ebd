"""Packing of rows for binning, as float64 tiles, numbered patterns and non-zeros."""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import inner_loop, loop

_MAX_PROBES = 256  # slots that are searched for a hash; longer searches mean too many collisions
_WITHOUT_SIGN = 2**63 - 1

TILE = 512  # rows per tile: rows and keys stay in the cache, and each table is used often


@inner_loop
def largest_magnitude(numbers):
    """Return the largest absolute value, or a NaN if there is one."""
    # The order of floats without a sign is that of their bits. Views of arrays would import numba's
    # arrays when the compiled loop is loaded, which takes 40 ms.
    largest = np.int64(0)
    for i in range(len(numbers)):
        largest = max(largest, np.float64(numbers[i]).view(np.int64) & _WITHOUT_SIGN)
    return np.int64(largest).view(np.float64)


@loop
def pack_rows(numbers, strides, n_rows, first_tile, columns, limits, tiles, largest):
    """Copy columns of a matrix into tiles of float64, clipped to ``+-limits``.

    The matrix is flat: row i and column j are at ``i * strides[0] + j * strides[1]``. ``tiles``
    (n_tiles, n_columns, width) starts at tile ``first_tile`` of the rows; the last row fills the
    end of the last tile, so that no number is undefined. ``largest`` (n_tiles, n_columns) gets the
    largest absolute values in the tiles. Returns whether a number was clipped.
    """
    n_tiles, n_columns, width = tiles.shape
    down, across = np.uint64(strides[0]), np.uint64(strides[1])
    is_clipped = False
    for t in range(n_tiles):
        origin = (first_tile + t) * width
        n_inside = min(width, n_rows - origin)
        for c in range(n_columns):
            limit, tile = limits[c], tiles[t, c]
            start = np.uint64(origin) * down + np.uint64(columns[c]) * across
            for i in range(n_inside):
                tile[i] = np.float64(numbers[start + np.uint64(i) * down])
            for i in range(n_inside, width):
                tile[i] = tile[n_inside - 1]
            largest[t, c] = largest_magnitude(tile)
            if not largest[t, c] <= limit:
                is_clipped = True
                for i in range(width):
                    tile[i] = min(max(tile[i], -limit), limit)
                largest[t, c] = largest_magnitude(tile)
    return is_clipped


@loop
def hash_rows(bits, first, multipliers, start, stop, hashes):
    """Hash some columns of each row ``start:stop`` of a row-major matrix to 64 bits.

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
