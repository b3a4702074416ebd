"""Products with a binned matrix whose non-zeros have values of their own.

``codes`` and ``values`` are (n_grids, n_rows), grid-major: row i has ``values[r, i]`` in column
``starts[r] + codes[r, i]``. Codes start at 1, and ``starts`` are one less than where the columns of
each grid start, as uint64: unsigned indices need no wrap-around test. Values are read by
:func:`number`; all sums are float64. Every loop takes a block of rows or of grids.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from gramless.loops.compile import loop, reordering_loop
from gramless.loops.simd import same, vector_intrinsic

HALF_UNIT = 2.0**112
"""What a value stored in half precision is counted in."""
LARGEST_HALF = np.uint16(0x7BFF)
"""The bits of the largest finite number of half precision; those of negative ones are larger."""


@intrinsic
def number(typing_context, stored):
    """Return a value as float64: a float32 itself, the bits of a float16 in units of ``HALF_UNIT``.

    Shifting the bits of a half precision number by 13 gives a number of single precision, but for a
    factor of 2**112, by which the biases of the exponents differ: callers multiply their sums by
    it. The number must be finite and not negative.
    """

    def widen(context, builder, signature, arguments):
        single = arguments[0]
        if signature.args[0] == types.uint16:
            bits = builder.shl(builder.zext(single, ir.IntType(32)), ir.IntType(32)(13))
            single = builder.bitcast(bits, ir.FloatType())
        return builder.fpext(single, ir.DoubleType())

    if stored not in (types.float32, types.uint16):
        raise TypingError(f"values are float32, or float16 as uint16; got {stored}")
    return types.float64(stored), widen


def _gather(vectors, out, at, weights, a, x, b, y):
    """``out[at:] += x * weights[a:] + y * weights[b:]``."""
    first, second = (
        vectors.builder.fmul(same(vectors.builder, factor, vectors.lanes), vectors.load(2, index))
        for factor, index in ((x, a), (y, b))
    )
    vectors.increase(vectors.builder.fadd(first, second), 0, at)


def _scatter(vectors, out, a, x, b, y, factors, at):
    """``out[a:] += x * factors[at:]; out[b:] += y * factors[at:]``."""
    for factor, index in ((x, a), (y, b)):
        scale = same(vectors.builder, factor, vectors.lanes)
        vectors.increase(vectors.builder.fmul(scale, vectors.load(5, at)), 0, index)


_gather_8, _gather_4, _gather_2, _gather_1 = (
    vector_intrinsic(lanes)(_gather) for lanes in (8, 4, 2, 1)
)
_scatter_4, _scatter_2, _scatter_1 = (vector_intrinsic(lanes)(_scatter) for lanes in (4, 2, 1))


@loop
def gather_sum(codes, values, starts, weights, out):
    """``out[i] += sum_r values[r, i] * weights[starts[r] + codes[r, i]]``, four grids per pass."""
    n_grids, n_rows = codes.shape
    full = n_grids - n_grids % 4
    v, w = values, weights
    for r in range(0, full, 4):
        s0, s1, s2, s3 = starts[r], starts[r + 1], starts[r + 2], starts[r + 3]
        for i in range(n_rows):
            out[i] += (
                number(v[r, i]) * w[s0 + codes[r, i]]
                + number(v[r + 1, i]) * w[s1 + codes[r + 1, i]]
            ) + (
                number(v[r + 2, i]) * w[s2 + codes[r + 2, i]]
                + number(v[r + 3, i]) * w[s3 + codes[r + 3, i]]
            )
    for r in range(full, n_grids):
        start = starts[r]
        for i in range(n_rows):
            out[i] += number(v[r, i]) * w[start + codes[r, i]]


@loop
def scatter_add(codes, values, starts, factors, out):
    """``out[starts[r] + codes[r, i]] += values[r, i] * factors[i]``, four grids per pass."""
    n_grids, n_rows = codes.shape
    full = n_grids - n_grids % 4
    v = values
    for r in range(0, full, 4):
        s0, s1, s2, s3 = starts[r], starts[r + 1], starts[r + 2], starts[r + 3]
        for i in range(n_rows):
            factor = factors[i]
            out[s0 + codes[r, i]] += number(v[r, i]) * factor
            out[s1 + codes[r + 1, i]] += number(v[r + 1, i]) * factor
            out[s2 + codes[r + 2, i]] += number(v[r + 2, i]) * factor
            out[s3 + codes[r + 3, i]] += number(v[r + 3, i]) * factor
    for r in range(full, n_grids):
        start = starts[r]
        for i in range(n_rows):
            out[start + codes[r, i]] += number(v[r, i]) * factors[i]


@loop
def scatter_squares(codes, values, starts, factors, out):
    """``out[starts[r] + codes[r, i]] += values[r, i]**2 * factors[i]``."""
    n_grids, n_rows = codes.shape
    for r in range(n_grids):
        start = starts[r]
        for i in range(n_rows):
            value = number(values[r, i])
            out[start + codes[r, i]] += value * value * factors[i]


@loop
def gather_rows(codes, values, starts, weights, n_columns, out):
    """Do as :func:`gather_sum` on K columns, two grids per pass.

    ``weights`` and ``out`` are flat, row-major.
    """
    n_grids, n_rows = codes.shape
    width = np.int64(n_columns)
    for r in range(0, n_grids - 1, 2):
        s0, s1 = starts[r], starts[r + 1]
        for i in range(n_rows):
            a = np.int64(s0 + codes[r, i]) * width
            b = np.int64(s1 + codes[r + 1, i]) * width
            x, y = number(values[r, i]), number(values[r + 1, i])
            k, at = 0, i * width
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
        r = n_grids - 1
        for i in range(n_rows):
            a, x = np.int64(starts[r] + codes[r, i]) * width, number(values[r, i])
            for k in range(width):
                out[i * width + k] += x * weights[a + k]


@loop
def scatter_add_rows(codes, values, starts, factors, n_columns, out):
    """Do as :func:`scatter_add` on K columns, two grids per pass.

    ``factors`` and ``out`` are flat, row-major.
    """
    n_grids, n_rows = codes.shape
    width = np.int64(n_columns)
    for r in range(0, n_grids - 1, 2):
        s0, s1 = starts[r], starts[r + 1]
        for i in range(n_rows):
            a = np.int64(s0 + codes[r, i]) * width
            b = np.int64(s1 + codes[r + 1, i]) * width
            x, y = number(values[r, i]), number(values[r + 1, i])
            k, at = 0, i * width
            while k + 4 <= width:
                _scatter_4(out, a + k, x, b + k, y, factors, at + k)
                k += 4
            if k + 2 <= width:
                _scatter_2(out, a + k, x, b + k, y, factors, at + k)
                k += 2
            if k < width:
                _scatter_1(out, a + k, x, b + k, y, factors, at + k)
    if n_grids % 2 == 1:
        r = n_grids - 1
        for i in range(n_rows):
            a, x = np.int64(starts[r] + codes[r, i]) * width, number(values[r, i])
            for k in range(width):
                out[a + k] += x * factors[i * width + k]


@reordering_loop
def _shared(codes, values, other_codes, other_values):
    """Return the sum of the products of two rows' values in the columns that they share."""
    total = 0.0
    for r in range(len(codes)):
        product = number(values[r]) * number(other_values[r])
        total += product if codes[r] == other_codes[r] else 0.0
    return total


@loop
def sum_shared(codes, values, first, last, sums):
    """Multiply rows ``first:last`` with those before them and with themselves.

    Here ``codes`` and ``values`` are (n_rows, n_grids); both triangles of ``sums`` are written.
    """
    for i in range(first, last):
        for j in range(i + 1):
            total = _shared(codes[i], values[i], codes[j], values[j])
            sums[i, j] = total
            sums[j, i] = total
