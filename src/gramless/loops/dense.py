"""Products of float32 rows with one vector or a few."""

from __future__ import annotations

import numpy as np

from gramless.loops.compile import reordering_loop


@reordering_loop
def responses(rows, w, out):
    """Compute ``out[i] = sum_j rows[i, j] * w[j]`` in float64, without a float64 copy of the rows.

    Four rows at a time share the loads of ``w``.
    """
    n_rows, n_columns = rows.shape
    i = 0
    while i + 4 <= n_rows:
        first = second = third = fourth = 0.0
        for j in range(n_columns):
            weight = w[j]
            first += rows[i, j] * weight
            second += rows[i + 1, j] * weight
            third += rows[i + 2, j] * weight
            fourth += rows[i + 3, j] * weight
        out[i], out[i + 1], out[i + 2], out[i + 3] = first, second, third, fourth
        i += 4
    for k in range(i, n_rows):
        total = 0.0
        for j in range(n_columns):
            total += rows[k, j] * w[j]
        out[k] = total


@reordering_loop
def add_rows(rows, v, out):
    """Compute ``out[j] += sum_i v[i] * rows[i, j]``, eight rows per pass over ``out``."""
    n_rows, n_columns = rows.shape
    i = 0
    while i + 8 <= n_rows:
        a, b, c, d = v[i], v[i + 1], v[i + 2], v[i + 3]
        e, f, g, h = v[i + 4], v[i + 5], v[i + 6], v[i + 7]
        for j in range(n_columns):
            left = a * rows[i, j] + b * rows[i + 1, j] + c * rows[i + 2, j] + d * rows[i + 3, j]
            right = (
                e * rows[i + 4, j] + f * rows[i + 5, j] + g * rows[i + 6, j] + h * rows[i + 7, j]
            )
            out[j] += left + right
        i += 8
    for k in range(i, n_rows):
        for j in range(n_columns):
            out[j] += v[k] * rows[k, j]


@reordering_loop
def responses_to_few(rows, vectors, out):
    """Compute ``out[i, k] = sum_j rows[i, j] * vectors[k, j]`` in float32.

    The number of vectors is a multiple of 3, because sums of 4 rows and 3 vectors fit into 16
    registers.
    """
    n_rows, n_columns = rows.shape
    zero = np.float32(0.0)
    for k in range(0, len(vectors), 3):
        i = 0
        while i + 4 <= n_rows:
            a0 = a1 = a2 = b0 = b1 = b2 = c0 = c1 = c2 = d0 = d1 = d2 = zero
            for j in range(n_columns):
                u, v, w = vectors[k, j], vectors[k + 1, j], vectors[k + 2, j]
                a, b, c, d = rows[i, j], rows[i + 1, j], rows[i + 2, j], rows[i + 3, j]
                a0 += a * u
                a1 += a * v
                a2 += a * w
                b0 += b * u
                b1 += b * v
                b2 += b * w
                c0 += c * u
                c1 += c * v
                c2 += c * w
                d0 += d * u
                d1 += d * v
                d2 += d * w
            out[i, k], out[i, k + 1], out[i, k + 2] = a0, a1, a2
            out[i + 1, k], out[i + 1, k + 1], out[i + 1, k + 2] = b0, b1, b2
            out[i + 2, k], out[i + 2, k + 1], out[i + 2, k + 2] = c0, c1, c2
            out[i + 3, k], out[i + 3, k + 1], out[i + 3, k + 2] = d0, d1, d2
            i += 4
        for r in range(i, n_rows):
            for m in range(k, k + 3):
                total = zero
                for j in range(n_columns):
                    total += rows[r, j] * vectors[m, j]
                out[r, m] = total
