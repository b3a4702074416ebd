"""Products with a binned matrix, in which each row selects one weight per grid.

``codes`` are small unsigned integers in a flat array, of one type for all blocks of rows: row i has
the code ``codes[r * stride + i]`` in grid r, which selects ``weights[starts[r] + code]``. Every
loop processes a block of rows or of grids, so that blocks can run in parallel. ``starts`` and all
indices are uint64, because unsigned indices need no test for negative ones.
"""

from __future__ import annotations

import numpy as np

from gramless.loops import simd
from gramless.loops.compile import loop


@loop
def gather_sum(codes, stride, starts, weights, out):
    """Compute ``out[i] += sum_r weights[starts[r] + codes[r * stride + i]]``.

    Each pass over the rows takes four grids, and four rows at once. It is fastest if
    ``stride`` is a multiple of 4.
    """
    n_grids, n_rows = len(starts), np.uint64(len(out))
    full, by_four = n_grids - n_grids % 4, n_rows - n_rows % np.uint64(4)
    c, w = codes, weights
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    for r in range(0, full, 4):
        s0, s1, s2, s3 = starts[r], starts[r + 1], starts[r + 2], starts[r + 3]
        c0, c1 = np.uint64(r * stride), np.uint64((r + 1) * stride)
        c2, c3 = np.uint64((r + 2) * stride), np.uint64((r + 3) * stride)
        for i in range(np.uint64(0), by_four, four):
            p, q = simd.codes_4(c, c0 + i), simd.codes_4(c, c1 + i)
            s, t = simd.codes_4(c, c2 + i), simd.codes_4(c, c3 + i)
            out[i] += (w[s0 + p[0]] + w[s1 + q[0]]) + (w[s2 + s[0]] + w[s3 + t[0]])
            out[i + one] += (w[s0 + p[1]] + w[s1 + q[1]]) + (w[s2 + s[1]] + w[s3 + t[1]])
            out[i + two] += (w[s0 + p[2]] + w[s1 + q[2]]) + (w[s2 + s[2]] + w[s3 + t[2]])
            out[i + three] += (w[s0 + p[3]] + w[s1 + q[3]]) + (w[s2 + s[3]] + w[s3 + t[3]])
        for i in range(by_four, n_rows):
            first, second = w[s0 + c[c0 + i]] + w[s1 + c[c1 + i]], w[s2 + c[c2 + i]]
            out[i] += first + (second + w[s3 + c[c3 + i]])
    for r in range(full, n_grids):
        start, begin = starts[r], np.uint64(r * stride)
        for i in range(n_rows):
            out[i] += w[start + c[begin + i]]


@loop
def scatter_add(codes, stride, starts, values, out):
    """Compute ``out[starts[r] + codes[r * stride + i]] += values[i]`` for every row and grid.

    Each pass over the rows takes four grids, and four rows at once.
    """
    n_grids, n_rows = len(starts), np.uint64(len(values))
    full, by_four = n_grids - n_grids % 4, n_rows - n_rows % np.uint64(4)
    c, one, two, three, four = codes, np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    for r in range(0, full, 4):
        s0, s1, s2, s3 = starts[r], starts[r + 1], starts[r + 2], starts[r + 3]
        c0, c1 = np.uint64(r * stride), np.uint64((r + 1) * stride)
        c2, c3 = np.uint64((r + 2) * stride), np.uint64((r + 3) * stride)
        for i in range(np.uint64(0), by_four, four):
            p, q = simd.codes_4(c, c0 + i), simd.codes_4(c, c1 + i)
            s, t = simd.codes_4(c, c2 + i), simd.codes_4(c, c3 + i)
            add_to_four(out, values[i], s0 + p[0], s1 + q[0], s2 + s[0], s3 + t[0])
            add_to_four(out, values[i + one], s0 + p[1], s1 + q[1], s2 + s[1], s3 + t[1])
            add_to_four(out, values[i + two], s0 + p[2], s1 + q[2], s2 + s[2], s3 + t[2])
            add_to_four(out, values[i + three], s0 + p[3], s1 + q[3], s2 + s[3], s3 + t[3])
        for i in range(by_four, n_rows):
            first, second = s0 + c[c0 + i], s1 + c[c1 + i]
            add_to_four(out, values[i], first, second, s2 + c[c2 + i], s3 + c[c3 + i])
    for r in range(full, n_grids):
        start, first = starts[r], np.uint64(r * stride)
        for i in range(n_rows):
            out[start + c[first + i]] += values[i]


@loop
def add_to_four(out, value, a, b, c, d):
    """Add a number at four indices, which may be equal, one after the other."""
    out[a] += value
    out[b] += value
    out[c] += value
    out[d] += value


@loop
def scatter_add_few(codes, stride, starts, values, out):
    """Compute :func:`scatter_add`, faster if bins are few and consecutive rows often share one.

    Additions to the same bin wait for each other. Eight grids per pass are eight independent chains
    of additions, so the processor can work on one while another waits.
    """
    n_grids, n_rows = len(starts), np.uint64(len(values))
    full = n_grids - n_grids % 8
    c, one_stride = codes, np.uint64(stride)
    two, three, four = np.uint64(2 * stride), np.uint64(3 * stride), np.uint64(4 * stride)
    five, six, seven = np.uint64(5 * stride), np.uint64(6 * stride), np.uint64(7 * stride)
    # The step is 1, but if the compiler knew that, it would run out of registers.
    step = np.uint64(codes.strides[0] // codes.itemsize)
    for r in range(0, full, 8):
        s0, s1, s2, s3 = starts[r], starts[r + 1], starts[r + 2], starts[r + 3]
        s4, s5, s6, s7 = starts[r + 4], starts[r + 5], starts[r + 6], starts[r + 7]
        first = np.uint64(r * stride)
        for i in range(n_rows):
            at, value = first + i * step, values[i]
            out[s0 + c[at]] += value
            out[s1 + c[at + one_stride]] += value
            out[s2 + c[at + two]] += value
            out[s3 + c[at + three]] += value
            out[s4 + c[at + four]] += value
            out[s5 + c[at + five]] += value
            out[s6 + c[at + six]] += value
            out[s7 + c[at + seven]] += value
    for r in range(full, n_grids):
        start, first = starts[r], np.uint64(r * stride)
        for i in range(n_rows):
            out[start + c[first + i]] += values[i]


@loop
def gather_rows(codes, stride, starts, weights, n_columns, out):
    """Compute ``out[i, :] += sum_r weights[starts[r] + codes[r * stride + i], :]``.

    ``weights`` and ``out`` are flat and row-major. Each pass takes four grids, and four columns at
    once.
    """
    n_grids, width = len(starts), np.int64(n_columns)
    n_rows, full = len(out) // width, n_grids - n_grids % 4
    for r in range(0, full, 4):
        s0, s1, s2, s3 = starts[r], starts[r + 1], starts[r + 2], starts[r + 3]
        c0, c1 = np.uint64(r * stride), np.uint64((r + 1) * stride)
        c2, c3 = np.uint64((r + 2) * stride), np.uint64((r + 3) * stride)
        for i in range(n_rows):
            a = np.int64(s0 + codes[c0 + np.uint64(i)]) * width
            b = np.int64(s1 + codes[c1 + np.uint64(i)]) * width
            c = np.int64(s2 + codes[c2 + np.uint64(i)]) * width
            d = np.int64(s3 + codes[c3 + np.uint64(i)]) * width
            k, at = 0, i * width
            while k + 4 <= width:
                simd.gather_4(out, at + k, weights, a + k, b + k, c + k, d + k)
                k += 4
            if k + 2 <= width:
                simd.gather_2(out, at + k, weights, a + k, b + k, c + k, d + k)
                k += 2
            if k < width:
                simd.gather_1(out, at + k, weights, a + k, b + k, c + k, d + k)
    for r in range(full, n_grids):
        start, first = starts[r], np.uint64(r * stride)
        for i in range(n_rows):
            a = np.int64(start + codes[first + np.uint64(i)]) * width
            for k in range(width):
                out[i * width + k] += weights[a + k]


@loop
def scatter_add_rows(codes, stride, starts, values, n_columns, out):
    """Compute ``out[starts[r] + codes[r * stride + i], :] += values[i, :]``.

    ``values`` and ``out`` are flat and row-major. Each pass takes four grids, and four columns at
    once: while one grid waits for the sum of the previous row, additions of others proceed.
    """
    n_grids, width = len(starts), np.int64(n_columns)
    n_rows, full = len(values) // width, n_grids - n_grids % 4
    for r in range(0, full, 4):
        s0, s1, s2, s3 = starts[r], starts[r + 1], starts[r + 2], starts[r + 3]
        c0, c1 = np.uint64(r * stride), np.uint64((r + 1) * stride)
        c2, c3 = np.uint64((r + 2) * stride), np.uint64((r + 3) * stride)
        for i in range(n_rows):
            a = np.int64(s0 + codes[c0 + np.uint64(i)]) * width
            b = np.int64(s1 + codes[c1 + np.uint64(i)]) * width
            c = np.int64(s2 + codes[c2 + np.uint64(i)]) * width
            d = np.int64(s3 + codes[c3 + np.uint64(i)]) * width
            k, at = 0, i * width
            while k + 4 <= width:
                simd.scatter_4(out, a + k, b + k, c + k, d + k, values, at + k)
                k += 4
            if k + 2 <= width:
                simd.scatter_2(out, a + k, b + k, c + k, d + k, values, at + k)
                k += 2
            if k < width:
                simd.scatter_1(out, a + k, b + k, c + k, d + k, values, at + k)
    for r in range(full, n_grids):
        start, first = starts[r], np.uint64(r * stride)
        for i in range(n_rows):
            a = np.int64(start + codes[first + np.uint64(i)]) * width
            for k in range(width):
                out[a + k] += values[i * width + k]


@loop
def gather_rows_16(codes, stride, starts, weights, out):
    """Compute :func:`gather_rows` for 16 columns of float32, which are a cache line.

    ``weights`` and ``out`` should start on a cache line.
    """
    n_grids, n_rows = len(starts), len(out) // 16
    full = n_grids - n_grids % 4
    for r in range(0, full, 4):
        s0, s1, s2, s3 = starts[r], starts[r + 1], starts[r + 2], starts[r + 3]
        c0, c1 = np.uint64(r * stride), np.uint64((r + 1) * stride)
        c2, c3 = np.uint64((r + 2) * stride), np.uint64((r + 3) * stride)
        for i in range(n_rows):
            a = np.int64(s0 + codes[c0 + np.uint64(i)]) * 16
            b = np.int64(s1 + codes[c1 + np.uint64(i)]) * 16
            c = np.int64(s2 + codes[c2 + np.uint64(i)]) * 16
            d = np.int64(s3 + codes[c3 + np.uint64(i)]) * 16
            simd.gather_16(out, 16 * i, weights, a, b, c, d)
    for r in range(full, n_grids):
        start, first = starts[r], np.uint64(r * stride)
        for i in range(n_rows):
            a = np.int64(start + codes[first + np.uint64(i)]) * 16
            simd.deposit_16(out, 16 * i, weights, a)


@loop
def scatter_add_rows_16(codes, stride, starts, values, out):
    """Compute :func:`scatter_add_rows` for 16 columns, eight grids per pass."""
    n_grids, n_rows = len(starts), len(values) // 16
    full = n_grids - n_grids % 8
    for r in range(0, full, 8):
        s0, s1, s2, s3 = starts[r], starts[r + 1], starts[r + 2], starts[r + 3]
        s4, s5, s6, s7 = starts[r + 4], starts[r + 5], starts[r + 6], starts[r + 7]
        c0, c1 = np.uint64(r * stride), np.uint64((r + 1) * stride)
        c2, c3 = np.uint64((r + 2) * stride), np.uint64((r + 3) * stride)
        c4, c5 = np.uint64((r + 4) * stride), np.uint64((r + 5) * stride)
        c6, c7 = np.uint64((r + 6) * stride), np.uint64((r + 7) * stride)
        for i in range(n_rows):
            a = np.int64(s0 + codes[c0 + np.uint64(i)]) * 16
            b = np.int64(s1 + codes[c1 + np.uint64(i)]) * 16
            c = np.int64(s2 + codes[c2 + np.uint64(i)]) * 16
            d = np.int64(s3 + codes[c3 + np.uint64(i)]) * 16
            simd.scatter_16(out, a, b, c, d, values, 16 * i)
            a = np.int64(s4 + codes[c4 + np.uint64(i)]) * 16
            b = np.int64(s5 + codes[c5 + np.uint64(i)]) * 16
            c = np.int64(s6 + codes[c6 + np.uint64(i)]) * 16
            d = np.int64(s7 + codes[c7 + np.uint64(i)]) * 16
            simd.scatter_16(out, a, b, c, d, values, 16 * i)
    for r in range(full, n_grids):
        start, first = starts[r], np.uint64(r * stride)
        for i in range(n_rows):
            a = np.int64(start + codes[first + np.uint64(i)]) * 16
            simd.deposit_16(out, a, values, 16 * i)


@loop
def add_row_products(codes, stride, n_bins, first, last, rows, values, sums, out):
    """Add to each row of ``out`` the ``values`` of the rows that share its bins.

    The bins are those of the grids ``first:last``, four per pass. ``values`` (m, K) belong to the
    rows with the indices ``rows`` (m,), ``out`` is (n_rows, K), and K is a multiple of 4. ``sums``
    is flat scratch memory of (4, maximum number of bins + 1, K). Code 0 is not a bin.
    """
    n_rows, width = out.shape
    room = len(sums) // 4
    for g in range(first, last, 4):
        # Beyond the last grid, the first one is repeated with bin 0 for all rows.
        s1, s2, s3 = np.int64(g + 1 < last), np.int64(g + 2 < last), np.int64(g + 3 < last)
        g0, g1 = g * stride, (g + s1) * stride
        g2, g3 = (g + 2 * s2) * stride, (g + 3 * s3) * stride
        w1, w2, w3 = width * s1, width * s2, width * s3
        r1, r2, r3 = room, 2 * room, 3 * room
        for q in range(4):
            if g + q < last:
                for c in range((n_bins[g + q] + 1) * width):
                    sums[q * room + c] = 0.0
        for j in range(len(rows)):
            i = rows[j]
            a, b = width * np.int64(codes[g0 + i]), r1 + w1 * np.int64(codes[g1 + i])
            c, d = r2 + w2 * np.int64(codes[g2 + i]), r3 + w3 * np.int64(codes[g3 + i])
            k, at = 0, width * j
            while k + 8 <= width:
                simd.scatter_8(sums, a + k, b + k, c + k, d + k, values, at + k)
                k += 8
            if k < width:
                simd.scatter_4(sums, a + k, b + k, c + k, d + k, values, at + k)
        for q in range(4):
            for k in range(width):
                sums[q * room + k] = 0.0
        for i in range(n_rows):
            a, b = width * np.int64(codes[g0 + i]), r1 + w1 * np.int64(codes[g1 + i])
            c, d = r2 + w2 * np.int64(codes[g2 + i]), r3 + w3 * np.int64(codes[g3 + i])
            k, at = 0, width * i
            while k + 8 <= width:
                simd.gather_8(out, at + k, sums, a + k, b + k, c + k, d + k)
                k += 8
            if k < width:
                simd.gather_4(out, at + k, sums, a + k, b + k, c + k, d + k)


@loop
def count_shared_bins(codes, first, last, counts):
    """Count the grids in which each of the rows ``first:last`` and each earlier row share a bin.

    ``codes`` are (n_rows, n_grids); code 0 is not a bin. Both triangles of ``counts`` are written,
    and the diagonal.
    """
    n_grids = codes.shape[1]
    for i in range(first, last):
        a = codes[i]
        for j in range(i + 1):
            b = codes[j]
            # 32 bits, because more of them fit into a vector.
            total = np.int32(0)
            for r in range(n_grids):
                total = np.int32(total + np.int32((a[r] == b[r]) & (a[r] != 0)))
            counts[i, j] = total
            counts[j, i] = total
