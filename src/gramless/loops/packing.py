"""Rows to column tiles: the layout in which bin keys are computed at full speed."""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import loop

TILE = 1024
"""Rows a tile: eight bytes of key a row and a few columns stay in the first-level cache."""

_STRIP = 16
"""Rows transposed at once: a strip of every column fills whole cache lines."""


@loop
def pack_columns(X, first_tile, columns, limits, tiles):  # type: ignore[no-untyped-def]
    """Copy columns of ``X`` into float64 tiles, clipped to ``+-limits``.

    ``tiles`` (n_tiles, n_columns, width) begins at tile ``first_tile`` of the
    rows; the tail of the last tile repeats the last row, so that no tile
    holds undefined numbers. Returns whether a number had to be clipped.
    """
    n_tiles, n_columns, width = tiles.shape
    last = X.shape[0] - 1
    clipped = False
    for t in range(n_tiles):
        origin = (first_tile + t) * width
        for strip in range(0, width, _STRIP):
            end = min(strip + _STRIP, width)
            for c in range(n_columns):
                column, limit = columns[c], limits[c]
                if origin + end <= X.shape[0]:
                    for i in range(strip, end):
                        tiles[t, c, i] = np.float64(X[origin + i, column])
                else:
                    for i in range(strip, end):
                        tiles[t, c, i] = np.float64(X[min(origin + i, last), column])
                for i in range(strip, end):
                    value = tiles[t, c, i]
                    inside = min(max(value, -limit), limit)
                    clipped |= inside != value
                    tiles[t, c, i] = inside
    return clipped


@loop
def hash_rows(bits, first, multipliers, start, stop, hashes):  # type: ignore[no-untyped-def]
    """Hash some columns of rows ``start:stop`` of a row-major matrix to 64 bits each.

    ``bits`` are the numbers as integers of their own size. ``multipliers``
    belong to the columns from ``first`` on; 0 leaves a column out. The bits are
    mixed before the linear hash: 0.0 and 1.0 differ in their high bits alone,
    which a bare product would lose.
    """
    for i in range(start, stop):
        total = np.int64(0)
        for c in range(len(multipliers)):
            value = np.int64(bits[i, first + c])
            mixed = (value ^ ((value >> 20) & 0xFFFFFFFFFFF)) * 0x1B873593CC9E2D51
            total += multipliers[c] * (mixed ^ ((mixed >> 32) & 0xFFFFFFFF))
        hashes[i] = total


@loop
def hash_columns(bits, first, multipliers, start, stop, hashes):  # type: ignore[no-untyped-def]
    """Do as :func:`hash_rows` on a column-major matrix, a column at a time."""
    for i in range(start, stop):
        hashes[i] = 0
    for c in range(len(multipliers)):
        multiplier = multipliers[c]
        if multiplier != 0:
            for i in range(start, stop):
                value = np.int64(bits[i, first + c])
                mixed = (value ^ ((value >> 20) & 0xFFFFFFFFFFF)) * 0x1B873593CC9E2D51
                hashes[i] += multiplier * (mixed ^ ((mixed >> 32) & 0xFFFFFFFF))


@loop
def number_patterns(hashes, ids, first_rows, slots):  # type: ignore[no-untyped-def]
    """Number equal hashes in order of first appearance.

    Returns the number of patterns, or -1 when there are more than
    ``first_rows`` can hold. ``slots`` is an int32 table of a power of two
    entries, all -1, at least twice as long as ``first_rows``.
    """
    mask = len(slots) - 1
    count = 0
    for i in range(len(hashes)):
        key = hashes[i]
        slot = (key ^ (key >> 32)) & mask
        while True:
            found = slots[slot]
            if found < 0:
                if count == len(first_rows):
                    return -1
                slots[slot] = count
                first_rows[count] = i
                ids[i] = count
                count += 1
                break
            if hashes[first_rows[found]] == key:
                ids[i] = found
                break
            slot = (slot + 1) & mask
    return count


@loop
def count_nonzeros(X, columns, indptr):  # type: ignore[no-untyped-def]
    """Count the non-zeros of ``columns`` in each row: ``indptr[1 + i]``."""
    for i in range(X.shape[0]):
        count = 0
        for c in range(len(columns)):
            if X[i, columns[c]] != 0:
                count += 1
        indptr[i + 1] = count


@loop
def fill_nonzeros(X, columns, indptr, indices, values):  # type: ignore[no-untyped-def]
    """Write the non-zeros counted by :func:`count_nonzeros`, columns renumbered."""
    for i in range(X.shape[0]):
        at = indptr[i]
        for c in range(len(columns)):
            value = np.float64(X[i, columns[c]])
            if value != 0:
                indices[at] = c
                values[at] = value
                at += 1
