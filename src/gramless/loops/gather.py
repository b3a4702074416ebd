"""Products with a binned matrix: each row picks one weight a grid.

``codes`` is (n_grids, n_rows), small unsigned integers, grid-major; the weight
of row i in grid r is ``weights[starts[r] + codes[r, i]]``. Every loop takes a
block of rows or of grids, so that blocks can run side by side without conflict.
``starts`` is uint64: unsigned indices need no wrap-around test.
"""

from __future__ import annotations

import numpy as np

from gramless.loops import lanes
from gramless.loops.compile import loop


@loop
def gather_sum(codes, starts, weights, out):  # type: ignore[no-untyped-def]
    """``out[i] += sum_r weights[starts[r] + codes[r, i]]``.

    Eight grids a pass over the rows; reads 2 bytes a non-zero with 16-bit codes.
    """
    n_grids, n_rows = codes.shape
    full = n_grids - n_grids % 8
    w = weights
    for r in range(0, full, 8):
        s0, s1, s2, s3 = starts[r], starts[r + 1], starts[r + 2], starts[r + 3]
        s4, s5, s6, s7 = starts[r + 4], starts[r + 5], starts[r + 6], starts[r + 7]
        for i in range(n_rows):
            out[i] += (
                (w[s0 + codes[r, i]] + w[s1 + codes[r + 1, i]])
                + (w[s2 + codes[r + 2, i]] + w[s3 + codes[r + 3, i]])
            ) + (
                (w[s4 + codes[r + 4, i]] + w[s5 + codes[r + 5, i]])
                + (w[s6 + codes[r + 6, i]] + w[s7 + codes[r + 7, i]])
            )
    for r in range(full, n_grids):
        start = starts[r]
        for i in range(n_rows):
            out[i] += w[start + codes[r, i]]


@loop
def scatter_add(codes, starts, values, out):  # type: ignore[no-untyped-def]
    """``out[starts[r] + codes[r, i]] += values[i]`` for every row and grid.

    Four grids a pass: four independent chains of loads and stores.
    """
    n_grids, n_rows = codes.shape
    full = n_grids - n_grids % 4
    for r in range(0, full, 4):
        s0, s1, s2, s3 = starts[r], starts[r + 1], starts[r + 2], starts[r + 3]
        for i in range(n_rows):
            value = values[i]
            out[s0 + codes[r, i]] += value
            out[s1 + codes[r + 1, i]] += value
            out[s2 + codes[r + 2, i]] += value
            out[s3 + codes[r + 3, i]] += value
    for r in range(full, n_grids):
        start = starts[r]
        for i in range(n_rows):
            out[start + codes[r, i]] += values[i]


@loop
def gather_rows(codes, starts, weights, n_columns, out):  # type: ignore[no-untyped-def]
    """``out[i, :] += sum_r weights[starts[r] + codes[r, i], :]``, K columns.

    ``weights`` and ``out`` are flat, row-major. Two grids a pass.
    """
    n_grids, n_rows = codes.shape
    width = np.int64(n_columns)
    for r in range(0, n_grids - 1, 2):
        s0, s1 = starts[r], starts[r + 1]
        for i in range(n_rows):
            a = np.int64(s0 + codes[r, i]) * width
            b = np.int64(s1 + codes[r + 1, i]) * width
            k, at = 0, i * width
            while k + 8 <= width:
                lanes.gather_8(out, at + k, weights, a + k, b + k)
                k += 8
            if k + 4 <= width:
                lanes.gather_4(out, at + k, weights, a + k, b + k)
                k += 4
            if k + 2 <= width:
                lanes.gather_2(out, at + k, weights, a + k, b + k)
                k += 2
            if k < width:
                lanes.gather_1(out, at + k, weights, a + k, b + k)
    if n_grids % 2 == 1:
        start = starts[n_grids - 1]
        for i in range(n_rows):
            a = np.int64(start + codes[n_grids - 1, i]) * width
            for k in range(width):
                out[i * width + k] += weights[a + k]


@loop
def scatter_add_rows(codes, starts, values, n_columns, out):  # type: ignore[no-untyped-def]
    """``out[starts[r] + codes[r, i], :] += values[i, :]``, K columns.

    ``values`` and ``out`` are flat, row-major. Two grids a pass.
    """
    n_grids, n_rows = codes.shape
    width = np.int64(n_columns)
    for r in range(0, n_grids - 1, 2):
        s0, s1 = starts[r], starts[r + 1]
        for i in range(n_rows):
            a = np.int64(s0 + codes[r, i]) * width
            b = np.int64(s1 + codes[r + 1, i]) * width
            k, at = 0, i * width
            while k + 4 <= width:
                lanes.scatter_4(out, a + k, b + k, values, at + k)
                k += 4
            if k + 2 <= width:
                lanes.scatter_2(out, a + k, b + k, values, at + k)
                k += 2
            if k < width:
                lanes.scatter_1(out, a + k, b + k, values, at + k)
    if n_grids % 2 == 1:
        start = starts[n_grids - 1]
        for i in range(n_rows):
            a = np.int64(start + codes[n_grids - 1, i]) * width
            for k in range(width):
                out[a + k] += values[i * width + k]


@loop
def count_shared(codes, first, last, counts):  # type: ignore[no-untyped-def]
    """Count the grids in which rows ``first:last`` share a known bin with those before them.

    ``codes`` are (n_rows, n_grids) here; both triangles of ``counts`` are written.
    """
    n_grids = codes.shape[1]
    for i in range(first, last):
        a = codes[i]
        for j in range(i + 1):
            b = codes[j]
            total = 0
            for r in range(n_grids):
                total += (a[r] == b[r]) & (a[r] != 0)
            counts[i, j] = total
            counts[j, i] = total
