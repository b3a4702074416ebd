"""Fast Walsh-Hadamard transform, and projections that combine it with octonions.

The length of rows is a power of two, at least ``LANES``. They are float32 or float64.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from gramless.loops.compile import loop
from gramless.loops.simd import vector_intrinsic
from gramless.loops.trig import multiply_adder

# Cayley-Dickson construction: the product of units i and j is ``_SIGNS[i, j]`` times unit i ^ j.
_SIGNS = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1, 1],
        [1, -1, 1, -1, 1, -1, -1, 1],
        [1, -1, -1, 1, 1, 1, -1, -1],
        [1, 1, -1, -1, 1, -1, 1, -1],
        [1, -1, -1, -1, -1, 1, 1, 1],
        [1, 1, -1, 1, -1, -1, -1, 1],
        [1, 1, 1, -1, -1, 1, -1, -1],
        [1, -1, 1, 1, -1, -1, 1, -1],
    ]
)

LANES = 16  # the first four stages transform this many numbers within registers


@loop
def transform(rows):
    """Multiply each row (n, p) by Sylvester's Hadamard matrix in place: ``p log2 p`` additions."""
    for i in range(rows.shape[0]):
        transform_row(rows[i])


@loop
def transform_row(row):
    n = len(row)
    for a in range(0, n, LANES):
        _transform_lanes(row, a)
    half = LANES
    while half < n:
        for a in range(0, n, 2 * half):
            first, second = row[a : a + half], row[a + half : a + 2 * half]
            for j in range(half):
                x, y = first[j], second[j]
                first[j] = x + y
                second[j] = x - y
        half *= 2


@loop
def multiply_octonions(first, second, product):
    """Multiply p / 8 pairs of octonions; number c of octonion b is at index ``c p / 8 + b``.

    The norm of a product is the product of the norms. The cost is 16 operations per number.
    """
    n = len(product) // 8
    if n >= 16:
        for b in range(0, n, 16):
            _multiply_16(first, second, product, n, b)
    elif n == 8:
        _multiply_8(first, second, product, n, 0)
    elif n == 4:
        _multiply_4(first, second, product, n, 0)
    else:
        _multiply_2(first, second, product, n, 0)


@loop
def project_blocks(rows, signs, orders, factors, scales, room, starts, sums):
    """Write ``starts + S H G P H B x`` of each block to ``sums``, for each row x.

    Row ``c p / 8 + b`` of ``H G P H B`` is frequency ``8 b + c``. Frequencies with the same c are
    correlated, so the first frequencies are spread over all c. ``signs`` (n_blocks, p) are the
    diagonals of B, ``P x = x[order]`` with ``orders`` (n_blocks, p), ``factors`` (n_blocks, p) the
    octonions of G, and ``scales`` (n,) the diagonals of S for the n frequencies. ``room`` (2, p) is
    scratch memory. ``rows`` (n_rows, p), ``room`` and ``sums`` are C-contiguous.
    """
    p = rows.shape[1]
    once, twice = room[0], room[1]
    for i in range(rows.shape[0]):
        for k in range(len(signs)):
            for j in range(p):
                once[j] = rows[i, j] * signs[k, j]
            transform_row(once)
            for j in range(p):
                twice[j] = once[orders[k, j]]
            multiply_octonions(factors[k], twice, once)
            transform_row(once)
            _write_frequencies(once, starts[k * p :], scales[k * p :], sums[i, k * p :])


@loop
def _write_frequencies(numbers, starts, scales, sums):
    """Write starts plus scaled numbers in the order of frequencies, one for each scale."""
    apart = len(numbers) // 8
    n = min(len(numbers), len(scales))
    for b in range(n // 8):
        for c in range(8):
            f = 8 * b + c
            sums[f] = starts[f] + scales[f] * numbers[c * apart + b]
    for f in range(n // 8 * 8, n):
        sums[f] = starts[f] + scales[f] * numbers[f % 8 * apart + f // 8]


@vector_intrinsic(LANES)
def _transform_lanes(vectors, row, at):
    """Transform ``LANES`` numbers of a flat row, from ``at`` on."""
    numbers = vectors.load(0, at)
    for half in (1, 2, 4, 8):
        numbers = _butterflies(vectors.builder, numbers, half)
    vectors.store(numbers, 0, at)


def _butterflies(builder: ir.IRBuilder, numbers: ir.Value, half: int) -> ir.Value:
    """Return sums and differences of the pairs of numbers at distance ``half``."""
    kind = numbers.type
    others = ir.VectorType(ir.IntType(32), LANES)([j ^ half for j in range(LANES)])
    swapped = builder.shuffle_vector(numbers, kind(ir.Undefined), others)
    signed = builder.fmul(numbers, kind([-1.0 if j & half else 1.0 for j in range(LANES)]))
    return builder.fadd(signed, swapped)


def _multiply(vectors, first, second, product, n, at):
    """Multiply the octonions ``at`` to ``at + lanes - 1`` of n."""
    builder = vectors.builder

    def number(c):
        return builder.add(builder.mul(n, ir.IntType(64)(c)), at)

    others = [vectors.load(1, number(c)) for c in range(8)]
    totals = [others[0].type([0.0] * vectors.lanes)] * 8
    adder = multiply_adder(builder, others[0].type)
    for i in range(8):
        factor = vectors.load(0, number(i))
        signed = {1: factor, -1: builder.fneg(factor)}
        for j in range(8):
            terms = [signed[int(_SIGNS[i, j])], others[j], totals[i ^ j]]
            totals[i ^ j] = builder.call(adder, terms)
    for c, total in enumerate(totals):
        vectors.store(total, 2, number(c))


_multiply_16, _multiply_8, _multiply_4, _multiply_2 = (
    vector_intrinsic(lanes)(_multiply) for lanes in (16, 8, 4, 2)
)
