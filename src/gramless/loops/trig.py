"""Fourier features: scaling of rows, projections, and their cosines and sines.

Angles are in half turns, because whole half turns can be subtracted exactly.

Frequencies are stored in panels of 64 bytes, one vector register. Projections are summed in
registers and always in the same order, so the features of a row do not depend on its position.
All loops are for float32 and float64.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, register_jitable

from gramless.loops.compile import allocating_loop, loop
from gramless.loops.simd import broadcast, vector_intrinsic

PANEL_BYTES = 64
GROUP_ROWS = 6  # rows per pass over a panel: their sums take 12 of 16 registers of 256 bits
_PASS_INPUTS = 256  # inputs per pass: so much of a panel stays in the first-level cache

_INTEGER = ir.IntType(64)
_LARGEST = float(np.finfo(np.float64).max)

# cos(pi x) = 1 + x^2 c(x^2), sin(pi x) = pi x + x s(x^2) for |x| <= 1/2, highest powers first.
# The coefficients are least-squares fits, in which each is rounded before those of higher powers
# are fitted. The last one of s is the rounding error of pi. Each tuple holds pi, 1/2, 1 and the
# coefficients of c and s, in the precision of the angle.
_SINGLE = (
    *(np.float32(x) for x in (np.pi, 0.5, 1.0)),
    tuple(
        np.float32(c)
        for c in (-0.02417261899, 0.2347943634, -1.335180044, 4.05870628357, -4.93480205536)
    ),
    tuple(
        np.float32(c)
        for c in (0.07727696747, -0.59807908535, 2.55003833771, -5.16770744324, -1.464438384e-07)
    ),
)
_DOUBLE = (
    *(np.pi, 0.5, 1.0),
    (
        *(4.152658721870275e-06, -0.00010456975759203505, 0.0019295576301943103),
        *(-0.025806889039545495, 0.2353306301674107, -1.3352627688460779),
        *(4.05871212641659, -4.934802200544678),
    ),
    (
        *(7.680256929666845e-07, -2.1901630824809455e-05, 0.00046629900084720164),
        *(-0.007370430317297311, 0.08214588654835293, -0.5992645293171184),
        *(2.5501640398772305, -5.1677127800499685, 1.1805806586768462e-16),
    ),
)


@loop
def scale_rows(rows, center, inverse, limit, scaled):
    """Write ``(rows - center) * inverse``, clipped to ``+-limit``, into the first rows and columns.

    Numbers of all types are computed in float64.
    """
    n_rows, n_inputs = rows.shape
    for i in range(n_rows):
        for j in range(n_inputs):
            # An ignored input has the inverse width 0, whose product with infinity would be NaN.
            gap = min(max(np.float64(rows[i, j]) - center[j], -_LARGEST), _LARGEST)
            scaled[i, j] = min(max(gap * inverse[j], -limit), limit)


@allocating_loop
def project(rows, panels, starts, sums):
    """Write ``starts`` plus the inner products of the rows with the frequencies of the panels.

    ``rows`` are (n, d), n a multiple of ``GROUP_ROWS``, ``panels`` (n_panels, d, PANEL_BYTES /
    itemsize); ``starts`` has at least as many numbers as there are frequencies, and ``sums`` as
    many columns. All are C-contiguous.
    """
    n_rows, n_inputs = rows.shape
    lanes, width = panels.shape[2], sums.shape[1]
    flat_sums = sums.reshape(-1)
    before, stride = starts, 0
    for begin in range(0, n_inputs, _PASS_INPUTS):
        length = min(_PASS_INPUTS, n_inputs - begin)
        for p in range(len(panels)):
            panel = (p * n_inputs + begin) * lanes
            for i in range(0, n_rows, GROUP_ROWS):
                _add_group(
                    *(rows, i * n_inputs + begin, n_inputs, length, panels, panel),
                    *(before, i * stride + p * lanes, stride),
                    *(flat_sums, i * width + p * lanes, width),
                )
        before, stride = flat_sums, width


@loop
def project_sparse(indptr, indices, values, panels, starts, sums):
    """Compute the projections of :func:`project` for rows in CSR format."""
    n_inputs, lanes, width = panels.shape[1], panels.shape[2], sums.shape[1]
    for p in range(len(panels)):
        for i in range(len(indptr) - 1):
            first, last = np.int64(indptr[i]), np.int64(indptr[i + 1])
            _add_sparse(
                *(indices, values, first, last, panels, p * n_inputs * lanes),
                *(starts, p * lanes, sums, i * width + p * lanes),
            )


@loop
def write_cosines_and_sines(projections, n_rows, scale, out, row, first):
    """Write the alternating cosines and sines of the first ``n_rows`` rows of projections.

    They are multiplied by ``scale``, which has the type of the projections, and written from row
    ``row`` and column ``2 * first`` on, up to the last column of ``out``. All arrays are
    C-contiguous.
    """
    n = min(projections.shape[1], out.shape[1] // 2 - first)
    for i in range(n_rows):
        angles, pairs = projections[i], out[row + i, 2 * first : 2 * (first + n)]
        for r in range(n):
            cosine, sine = cosine_sine(angles[r])
            pairs[2 * r] = scale * cosine
            pairs[2 * r + 1] = scale * sine


@loop
def write_cosines(projections, n_rows, scale, out, row, first):
    """Write cosines only, as :func:`write_cosines_and_sines` does, from column ``first`` on."""
    n = min(projections.shape[1], out.shape[1] - first)
    for i in range(n_rows):
        angles, target = projections[i], out[row + i, first : first + n]
        for r in range(n):
            cosine, _ = cosine_sine(angles[r])
            target[r] = scale * cosine


def cosine_sine(angle):
    """Return the cosine and sine of an angle in half turns, with an error of about one ulp of 1."""
    raise NotImplementedError("for compiled code")


@overload(cosine_sine)
def _choose_cosine_sine(angle):
    pi, half, one, cosines, sines = _SINGLE if angle == types.float32 else _DOUBLE

    def compute(angle):
        whole = np.rint(angle)
        rest = angle - whole
        square = rest * rest
        sine = multiply_add(rest, pi, rest * _polynomial(square, sines))
        cosine = multiply_add(square, _polynomial(square, cosines), one)
        return _negate_if_odd(cosine, sine, whole * half)

    return compute


@register_jitable
def _polynomial(x, coefficients):
    """Return the polynomial with the given coefficients, highest powers first, at x."""
    total = coefficients[0]
    for coefficient in coefficients[1:]:
        total = multiply_add(total, x, coefficient)
    return total


@register_jitable
def _negate_if_odd(cosine, sine, turns):
    """Return the cosine and sine, negated if the number of half turns, ``2 * turns``, is odd."""
    is_odd = np.floor(turns) != turns
    return -cosine if is_odd else cosine, -sine if is_odd else sine


@intrinsic
def multiply_add(typing_context, a, b, c):
    """Return ``a * b + c``, computed by one instruction if the processor has it."""

    def generate(context, builder, signature, arguments):
        return builder.call(multiply_adder(builder, arguments[0].type), arguments)

    if not (a == b == c and a in (types.float32, types.float64)):
        raise TypingError(f"needs three numbers of one precision, got {a}, {b}, {c}")
    return a(a, a, a), generate


@vector_intrinsic(n_bytes=PANEL_BYTES)
def _add_group(
    vectors, rows, at, apart, length, panels, panel, before, start, stride, sums, to, width
):
    """Write ``before`` plus the products of ``GROUP_ROWS`` rows with a panel to ``sums``.

    The products are over ``length`` inputs. ``rows`` start at ``at`` with stride ``apart``,
    ``before`` at ``start`` with stride ``stride``, ``sums`` at ``to`` with stride ``width``, and
    ``panels`` at ``panel``. All arrays are flat.
    """
    builder, numbers, firsts, totals = vectors.builder, vectors.data(0), [], []

    def row(first, step, r):
        return builder.add(first, builder.mul(step, _INTEGER(r)))

    for r in range(GROUP_ROWS):
        firsts.append(builder.gep(numbers, [row(at, apart, r)]))
        begun = vectors.load(6, row(start, stride, r))
        totals.append(cgutils.alloca_once_value(builder, begun))
    adder, lanes = multiply_adder(builder, begun.type), begun.type.count
    with cgutils.for_range(builder, length) as inputs:
        weights = vectors.load(4, row(panel, inputs.index, lanes))
        for first, total in zip(firsts, totals, strict=True):
            number = builder.load(builder.gep(first, [inputs.index]))
            added = [broadcast(builder, number, lanes), weights, builder.load(total)]
            builder.store(builder.call(adder, added), total)
    for r, total in enumerate(totals):
        vectors.store(builder.load(total), 9, row(to, width, r))


@vector_intrinsic(n_bytes=PANEL_BYTES)
def _add_sparse(vectors, indices, values, a, b, panels, panel, before, start, sums, to):
    """Write ``before[start:]`` plus the products of non-zeros ``a:b`` with a panel to ``sums``."""
    builder, inputs, numbers = vectors.builder, vectors.data(0), vectors.data(1)
    begun = vectors.load(6, start)
    adder, lanes = multiply_adder(builder, begun.type), begun.type.count
    total = cgutils.alloca_once_value(builder, begun)
    with cgutils.for_range_slice(builder, a, b, _INTEGER(1), _INTEGER) as (at, _):
        column = builder.sext(builder.load(builder.gep(inputs, [at])), _INTEGER)
        weights = vectors.load(4, builder.add(panel, builder.mul(column, _INTEGER(lanes))))
        number = broadcast(builder, builder.load(builder.gep(numbers, [at])), lanes)
        builder.store(builder.call(adder, [number, weights, builder.load(total)]), total)
    vectors.store(builder.load(total), 8, to)


def multiply_adder(builder: ir.IRBuilder, kind: ir.Type) -> ir.Function:
    """Return the LLVM function ``a * b + c`` of numbers or vectors of a type."""
    number = getattr(kind, "element", kind)
    lanes = f"v{kind.count}" if hasattr(kind, "count") else ""
    name = f"llvm.fmuladd.{lanes}f{32 if isinstance(number, ir.FloatType) else 64}"
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name)
