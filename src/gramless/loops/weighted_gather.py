"""Products with a binned matrix whose non-zeros have different values.

``codes`` and ``values`` are flat arrays. Row i has, in grid r, the code ``c[r, i]``, which is
``codes[r * stride + i]``, and the value ``v[r, i]``, which is ``values[r * step + i]``, in column
``starts[r] + c[r, i]``. Codes start at 1, so ``starts`` are one less than the first columns of the
grids; they are uint64, because unsigned indices need no test for negative ones. Values are read by
:func:`widen`; all sums are float64. Every loop processes a block of rows or of grids.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from gramless.loops.compile import loop, reordering_loop
from gramless.loops.simd import broadcast, vector_intrinsic

HALF_UNIT = 2.0**112  # unit of values in half precision, see ``widen``
# Bits of the largest finite number of half precision; those of negative numbers are larger.
MAX_HALF = np.uint16(0x7BFF)


@intrinsic
def widen(typing_context, stored):
    """Return a float32, or a float16 given by its bits in units of ``HALF_UNIT``, as float64.

    The bits of a float16, shifted by 13, are a float32 that is too small by the factor 2**112,
    because the biases of the exponents differ. Callers multiply their sums by this factor. A
    float16 must be finite and not negative, because its sign and exponent are not converted.
    """

    def generate(context, builder, signature, arguments):
        single = arguments[0]
        if signature.args[0] == types.uint16:
            bits = builder.shl(builder.zext(single, ir.IntType(32)), ir.IntType(32)(13))
            single = builder.bitcast(bits, ir.FloatType())
        return builder.fpext(single, ir.DoubleType())

    if stored not in (types.float32, types.uint16):
        raise TypingError(f"values are float32, or float16 as uint16; got {stored}")
    return types.float64(stored), generate


def _gather(vectors, out, at, weights, a, x, b, y):
    """Compute ``out[at:] += x * weights[a:] + y * weights[b:]``."""
    first, second = (
        vectors.builder.fmul(
            broadcast(vectors.builder, factor, vectors.lanes), vectors.load(2, index)
        )
        for factor, index in ((x, a), (y, b))
    )
    vectors.increase(vectors.builder.fadd(first, second), 0, at)


def _scatter(vectors, out, a, x, b, y, factors, at):
    """Compute ``out[a:] += x * factors[at:]``, then ``out[b:] += y * factors[at:]``."""
    for factor, index in ((x, a), (y, b)):
        scale = broadcast(vectors.builder, factor, vectors.lanes)
        vectors.increase(vectors.builder.fmul(scale, vectors.load(5, at)), 0, index)


_gather_8, _gather_4, _gather_2, _gather_1 = (
    vector_intrinsic(lanes)(_gather) for lanes in (8, 4, 2, 1)
)
_scatter_4, _scatter_2, _scatter_1 = (vector_intrinsic(lanes)(_scatter) for lanes in (4, 2, 1))


@loop
def gather_sum(codes, stride, values, step, starts, weights, out):
    """Compute ``out[i] += sum_r v[r, i] * weights[starts[r] + c[r, i]]``, four grids per pass."""
    n_grids, n_rows = len(starts), np.uint64(len(out))
    full = n_grids - n_grids % 4
    c, v, w = codes, values, weights
    for r in range(0, full, 4):
        s0, s1, s2, s3 = starts[r], starts[r + 1], starts[r + 2], starts[r + 3]
        c0, c1 = np.uint64(r * stride), np.uint64((r + 1) * stride)
        c2, c3 = np.uint64((r + 2) * stride), np.uint64((r + 3) * stride)
        v0, v1 = np.uint64(r * step), np.uint64((r + 1) * step)
        v2, v3 = np.uint64((r + 2) * step), np.uint64((r + 3) * step)
        for i in range(n_rows):
            out[i] += (
                widen(v[v0 + i]) * w[s0 + c[c0 + i]] + widen(v[v1 + i]) * w[s1 + c[c1 + i]]
            ) + (widen(v[v2 + i]) * w[s2 + c[c2 + i]] + widen(v[v3 + i]) * w[s3 + c[c3 + i]])
    for r in range(full, n_grids):
        start, c0, v0 = starts[r], np.uint64(r * stride), np.uint64(r * step)
        for i in range(n_rows):
            out[i] += widen(v[v0 + i]) * w[start + c[c0 + i]]


@loop
def scatter_add(codes, stride, values, step, starts, factors, out):
    """Compute ``out[starts[r] + c[r, i]] += v[r, i] * factors[i]``, four grids per pass."""
    n_grids, n_rows = len(starts), np.uint64(len(factors))
    full = n_grids - n_grids % 4
    c, v = codes, values
    for r in range(0, full, 4):
        s0, s1, s2, s3 = starts[r], starts[r + 1], starts[r + 2], starts[r + 3]
        c0, c1 = np.uint64(r * stride), np.uint64((r + 1) * stride)
        c2, c3 = np.uint64((r + 2) * stride), np.uint64((r + 3) * stride)
        v0, v1 = np.uint64(r * step), np.uint64((r + 1) * step)
        v2, v3 = np.uint64((r + 2) * step), np.uint64((r + 3) * step)
        for i in range(n_rows):
            factor = factors[i]
            out[s0 + c[c0 + i]] += widen(v[v0 + i]) * factor
            out[s1 + c[c1 + i]] += widen(v[v1 + i]) * factor
            out[s2 + c[c2 + i]] += widen(v[v2 + i]) * factor
            out[s3 + c[c3 + i]] += widen(v[v3 + i]) * factor
    for r in range(full, n_grids):
        start, c0, v0 = starts[r], np.uint64(r * stride), np.uint64(r * step)
        for i in range(n_rows):
            out[start + c[c0 + i]] += widen(v[v0 + i]) * factors[i]


@loop
def scatter_squares(codes, stride, values, step, starts, factors, out):
    """Compute ``out[starts[r] + c[r, i]] += v[r, i]**2 * factors[i]``."""
    for r in range(len(starts)):
        start, c0, v0 = starts[r], np.uint64(r * stride), np.uint64(r * step)
        for i in range(np.uint64(len(factors))):
            value = widen(values[v0 + i])
            out[start + codes[c0 + i]] += value * value * factors[i]


@loop
def gather_rows(codes, stride, values, step, starts, weights, n_columns, out):
    """Compute :func:`gather_sum` for K columns of weights, two grids per pass.

    ``weights`` and ``out`` are flat and row-major.
    """
    n_grids, width = len(starts), np.int64(n_columns)
    n_rows = np.uint64(len(out) // width)
    for r in range(0, n_grids - 1, 2):
        s0, s1 = starts[r], starts[r + 1]
        c0, c1 = np.uint64(r * stride), np.uint64((r + 1) * stride)
        v0, v1 = np.uint64(r * step), np.uint64((r + 1) * step)
        for i in range(n_rows):
            x, y = widen(values[v0 + i]), widen(values[v1 + i])
            a = np.int64(s0 + codes[c0 + i]) * width
            b = np.int64(s1 + codes[c1 + i]) * width
            k, at = 0, np.int64(i) * width
            while k + 8 <= width:
                _gather_8(out, at + k, weights, a + k, x, b + k, y)
                k += 8
            if k + 4 <= width:
                _gather_4(out, at + k, weights, a + k, x, b + k, y)
                k += 4
            if k + 2 <= width:
                _gather_2(out, at + k, weights, a + k, x, b + k, y)
                k += 2
            if k < width:
                _gather_1(out, at + k, weights, a + k, x, b + k, y)
    if n_grids % 2 == 1:
        start, c0 = starts[n_grids - 1], np.uint64((n_grids - 1) * stride)
        v0 = np.uint64((n_grids - 1) * step)
        for i in range(n_rows):
            a = np.int64(start + codes[c0 + i]) * width
            x = widen(values[v0 + i])
            for k in range(width):
                out[np.int64(i) * width + k] += x * weights[a + k]


@loop
def scatter_add_rows(codes, stride, values, step, starts, factors, n_columns, out):
    """Compute :func:`scatter_add` for K columns of factors, two grids per pass.

    ``factors`` and ``out`` are flat and row-major.
    """
    n_grids, width = len(starts), np.int64(n_columns)
    n_rows = np.uint64(len(factors) // width)
    for r in range(0, n_grids - 1, 2):
        s0, s1 = starts[r], starts[r + 1]
        c0, c1 = np.uint64(r * stride), np.uint64((r + 1) * stride)
        v0, v1 = np.uint64(r * step), np.uint64((r + 1) * step)
        for i in range(n_rows):
            x, y = widen(values[v0 + i]), widen(values[v1 + i])
            a = np.int64(s0 + codes[c0 + i]) * width
            b = np.int64(s1 + codes[c1 + i]) * width
            k, at = 0, np.int64(i) * width
            while k + 4 <= width:
                _scatter_4(out, a + k, x, b + k, y, factors, at + k)
                k += 4
            if k + 2 <= width:
                _scatter_2(out, a + k, x, b + k, y, factors, at + k)
                k += 2
            if k < width:
                _scatter_1(out, a + k, x, b + k, y, factors, at + k)
    if n_grids % 2 == 1:
        start, c0 = starts[n_grids - 1], np.uint64((n_grids - 1) * stride)
        v0 = np.uint64((n_grids - 1) * step)
        for i in range(n_rows):
            a = np.int64(start + codes[c0 + i]) * width
            x = widen(values[v0 + i])
            for k in range(width):
                out[a + k] += x * factors[np.int64(i) * width + k]


@reordering_loop
def _inner_product(codes, values, other_codes, other_values):
    """Return the inner product of two rows: the sum over the columns that they share."""
    total = 0.0
    for r in range(len(codes)):
        product = widen(values[r]) * widen(other_values[r])
        total += product if codes[r] == other_codes[r] else 0.0
    return total


@loop
def write_row_products(codes, values, first, last, sums):
    """Write the inner products of rows ``first:last`` with themselves and each earlier row.

    ``codes`` and ``values`` are (n_rows, n_grids); both triangles of ``sums`` are written.
    """
    for i in range(first, last):
        for j in range(i + 1):
            total = _inner_product(codes[i], values[i], codes[j], values[j])
            sums[i, j] = total
            sums[j, i] = total
