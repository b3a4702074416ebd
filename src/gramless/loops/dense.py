"""Products of float32 rows with one vector, summed in float64 without widening the rows."""

from __future__ import annotations

from gramless.loops.compile import reordering_loop


@reordering_loop
def responses(rows, w, out):  # type: ignore[no-untyped-def]
    """``out[i] = sum_j rows[i, j] * w[j]``, four rows at a time, which share the loads of ``w``."""
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
def add_rows(rows, v, out):  # type: ignore[no-untyped-def]
    """``out[j] += sum_i v[i] * rows[i, j]``, eight rows for each pass over ``out``."""
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
