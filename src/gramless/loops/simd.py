"""Vector operations written as LLVM instructions: sums of short vectors, codes and cells.

The compiler cannot prove that weights and sums do not overlap, and therefore does not vectorise
short inner loops over outputs. LLVM splits vectors that are wider than the registers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.errors import TypingError
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

CELL_ROWS = 16  # rows per call of ``add_near_cells``
# Added to a whole number of at most 51 bits, this float has the number in its lowest bits. Only
# AVX-512 has an instruction that converts vectors of doubles to 64-bit integers.
_SHIFT_TO_BITS = 1.5 * 2.0**52
BITS_OF_ZERO = int(np.float64(_SHIFT_TO_BITS).view(np.int64))

_INTEGER = ir.IntType(64)
_DOUBLES, _INTEGERS = ir.VectorType(ir.DoubleType(), 8), ir.VectorType(_INTEGER, 8)


class Vectors:
    """The arguments of an intrinsic, whose arrays are read and written as vectors.

    A vector has ``lanes`` numbers or, if ``lanes`` is 0, ``n_bytes`` bytes. Methods take the
    position of an array among the arguments and a flat index.
    """

    def __init__(
        self,
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
        lanes: int,
        n_bytes: int,
    ) -> None:
        self.builder, self.lanes, self._n_bytes = builder, lanes, n_bytes
        self._context, self._kinds, self._arguments = context, signature.args, arguments

    def data(self, k: int) -> ir.Value:
        """Return a pointer to the first number of argument k."""
        return self._data(self._kinds[k], self._arguments[k])

    def load(self, k: int, index: ir.Value) -> ir.Value:
        """Return the vector of argument k at an index."""
        return self._load(self._kinds[k], self._arguments[k], index)

    def load_parts(self, k: int, index: ir.Value) -> list[ir.Value]:
        """Return the vectors of all arrays of argument k, which is a tuple, at an index."""
        return [
            self._load(kind, self.builder.extract_value(self._arguments[k], i), index)
            for i, kind in enumerate(self._kinds[k])
        ]

    def load_numbers(self, k: int, index: ir.Value) -> list[ir.Value]:
        """Return the numbers of all arrays of argument k, which is a tuple, at an index."""
        pointers = [
            self._data(kind, self.builder.extract_value(self._arguments[k], i))
            for i, kind in enumerate(self._kinds[k])
        ]
        return [self.builder.load(self.builder.gep(pointer, [index])) for pointer in pointers]

    def store(self, value: ir.Value, k: int, index: ir.Value) -> None:
        """Write a vector to argument k at an index."""
        kind = self._kinds[k]
        self.builder.store(
            value, self._at(kind, self._arguments[k], index), align=kind.dtype.bitwidth // 8
        )

    def increase(self, value: ir.Value, k: int, index: ir.Value) -> None:
        """Add a floating-point vector to argument k at an index."""
        self.store(self.builder.fadd(self.load(k, index), value), k, index)

    def _data(self, kind: types.Array, array: ir.Value) -> ir.Value:
        return self._context.make_array(kind)(self._context, self.builder, array).data

    def _at(self, kind: types.Array, array: ir.Value, index: ir.Value) -> ir.Value:
        start = self.builder.gep(self._data(kind, array), [index])
        lanes = self.lanes or 8 * self._n_bytes // kind.dtype.bitwidth
        return self.builder.bitcast(start, ir.VectorType(start.type.pointee, lanes).as_pointer())

    def _load(self, kind: types.Array, array: ir.Value, index: ir.Value) -> ir.Value:
        return self.builder.load(self._at(kind, array, index), align=kind.dtype.bitwidth // 8)


def check_contiguous(*kinds: types.Type) -> None:
    """Raise TypingError if an array is not contiguous, because loops read flat arrays."""
    for kind in kinds:
        if isinstance(kind, types.BaseTuple):
            check_contiguous(*kind)
        elif isinstance(kind, types.Array) and kind.layout != "C":
            raise TypingError(f"needs contiguous arrays, got {kind}")


def vector_intrinsic(
    lanes: int = 0, *, n_bytes: int = 0
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that turns a function which emits instructions into an intrinsic.

    The function takes :class:`Vectors` and the values of all arguments. The intrinsic returns
    nothing.
    """

    def decorate(write: Callable[..., None]) -> Callable[..., None]:
        # numba reads the names of the arguments from the wrapped function.
        @intrinsic
        @wraps(write)
        def operation(typing_context, *kinds):
            def generate(context, builder, signature, arguments):
                vectors = Vectors(context, builder, signature, arguments, lanes, n_bytes)
                write(vectors, *arguments)
                return context.get_dummy_value()

            check_contiguous(*kinds)
            return types.void(*kinds), generate

        return operation

    return decorate


def broadcast(builder: ir.IRBuilder, number: ir.Value, lanes: int) -> ir.Value:
    """Return a vector in which all numbers are ``number``."""
    undefined = ir.VectorType(number.type, lanes)(ir.Undefined)
    one = builder.insert_element(undefined, number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, undefined, ir.VectorType(ir.IntType(32), lanes)([0] * lanes))


def _gather(vectors, out, at, weights, a, b, c, d):
    """Add ``weights[a:] + weights[b:]``, then ``weights[c:] + weights[d:]`` to ``out[at:]``."""
    builder, total = vectors.builder, vectors.load(0, at)
    for first, second in ((a, b), (c, d)):
        pair = builder.fadd(vectors.load(2, first), vectors.load(2, second))
        total = builder.fadd(total, pair)
    vectors.store(total, 0, at)


def _scatter(vectors, out, a, b, c, d, values, at):
    """Add ``values[at:]`` to ``out`` from ``a``, ``b``, ``c`` and ``d`` on, one after the other."""
    added = vectors.load(5, at)
    for index in (a, b, c, d):
        vectors.increase(added, 0, index)


def _deposit(vectors, out, a, values, at):
    """Add ``values[at:]`` to ``out[a:]``."""
    vectors.increase(vectors.load(2, at), 0, a)


deposit_16, deposit_8, deposit_4 = (vector_intrinsic(n)(_deposit) for n in (16, 8, 4))
gather_16, gather_8, gather_4, gather_2, gather_1 = (
    vector_intrinsic(n)(_gather) for n in (16, 8, 4, 2, 1)
)
scatter_16, scatter_8, scatter_4, scatter_2, scatter_1 = (
    vector_intrinsic(n)(_scatter) for n in (16, 8, 4, 2, 1)
)


@vector_intrinsic(2)
def deposit_derivatives_2(vectors, out, a, derivatives, at, changes, to):
    """Add two changed slopes and two curvatures to ``out[a:]``.

    The slopes at ``derivatives[at:]`` change by minus the curvatures, which follow, times
    ``changes[to:]``.
    """
    builder = vectors.builder
    slopes, curvatures = (vectors.load(2, builder.add(at, _INTEGER(k))) for k in (0, 2))
    change = builder.fmul(curvatures, vectors.load(4, to))
    vectors.increase(builder.fsub(slopes, change), 0, a)
    vectors.increase(curvatures, 0, builder.add(a, _INTEGER(2)))


@intrinsic
def codes_4(typing_context, codes, at):
    """Return ``codes[at:at + 4]`` as four uint64, loaded by one instruction."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        kind = data.type.pointee
        word = ir.IntType(4 * kind.width)
        start = builder.bitcast(builder.gep(data, [arguments[1]]), word.as_pointer())
        whole = builder.load(start, align=kind.width // 8)
        lowest_first = [builder.lshr(whole, word(lane * kind.width)) for lane in range(4)]
        in_order = lowest_first if sys.byteorder == "little" else lowest_first[::-1]
        parts = [builder.zext(builder.trunc(part, kind), _INTEGER) for part in in_order]
        return context.make_tuple(builder, signature.return_type, parts)

    check_contiguous(codes)
    return types.UniTuple(types.uint64, 4)(codes, at), generate


@vector_intrinsic(8)
def set_keys_8(vectors, out, at, keys, a):
    """Copy 8 integers from ``keys[a:]`` to ``out[at:]``."""
    vectors.store(vectors.load(2, a), 0, at)


@vector_intrinsic(8)
def add_keys_8(vectors, out, at, keys, a):
    """Add 8 integers from ``keys[a:]`` to ``out[at:]``."""
    added = vectors.load(2, a)
    vectors.store(vectors.builder.add(vectors.load(0, at), added), 0, at)


@vector_intrinsic(8)
def transpose_keys_8(vectors, begun, a, keys, to, stride):
    """Write the keys of 8 rows in 8 grids, 8 per row from ``a`` on, grid by grid.

    The 8 keys of the first grid are written to ``keys[to:]``, those of each further grid ``stride``
    entries later.
    """
    builder = vectors.builder
    rows = [vectors.load(0, builder.add(a, _INTEGER(8 * r))) for r in range(8)]
    for g, part in enumerate(_transpose(builder, rows)):
        vectors.store(part, 2, builder.add(to, builder.mul(stride, _INTEGER(g))))


@vector_intrinsic(8)
def add_near_cells(vectors, columns, at, stride, grid, start, stop, added, keys, to):
    """Add the cells of ``CELL_ROWS`` rows to their keys in one grid, with all sums in registers.

    ``columns`` are flat columns of ``stride`` numbers, of which those from ``at`` on are taken.
    ``grid`` are (columns, inverse widths, shifts, multipliers) of the inputs that the grid divides,
    from ``start`` to ``stop``. Cells have at most 51 bits. Each adds ``BITS_OF_ZERO`` times its
    multiplier too much, for which ``added`` makes up; it is added to ``keys[to:]`` too.
    """
    builder, sums = vectors.builder, []
    for r in range(0, CELL_ROWS, 8):
        total = builder.add(
            vectors.load(7, builder.add(to, _INTEGER(r))), broadcast(builder, added, 8)
        )
        sums.append(cgutils.alloca_once_value(builder, total))
    to_bits = broadcast(builder, ir.Constant(ir.DoubleType(), _SHIFT_TO_BITS), 8)
    with cgutils.for_range_slice(builder, start, stop, _INTEGER(1), _INTEGER) as (q, _):
        column, *parameters = vectors.load_numbers(3, q)
        inverse, shift, multiplier = (broadcast(builder, number, 8) for number in parameters)
        first = builder.add(at, builder.mul(column, stride))
        for r, total in enumerate(sums):
            values = vectors.load(0, builder.add(first, _INTEGER(8 * r)))
            cells = _floor(builder, builder.fmul(builder.fsub(values, shift), inverse))
            bits = builder.bitcast(builder.fadd(cells, to_bits), _INTEGERS)
            builder.store(builder.add(builder.load(total), builder.mul(multiplier, bits)), total)
    for r, total in enumerate(sums):
        vectors.store(builder.load(total), 7, builder.add(to, _INTEGER(8 * r)))


@vector_intrinsic(8)
def add_sparse_cells_8(vectors, indices, values, start, stop, grids, zero_keys, keys, to):
    """Update 8 keys of a zero row, from ``to`` on, by the non-zeros ``start:stop``.

    ``zero_keys`` are the contributions of a zero in each column, 8 per column, which are replaced.
    """
    builder, columns, numbers = vectors.builder, vectors.data(0), vectors.data(1)
    total = cgutils.alloca_once_value(builder, vectors.load(6, to))
    with cgutils.for_range_slice(builder, start, stop, _INTEGER(1), _INTEGER) as (at, _):
        j = builder.mul(builder.load(builder.gep(columns, [at])), _INTEGER(8))
        column, zero = vectors.load_parts(4, j), vectors.load(5, j)
        number = builder.load(builder.gep(numbers, [at]))
        added = builder.sub(_key_part(builder, number, *column), zero)
        builder.store(builder.add(builder.load(total), added), total)
    vectors.store(builder.load(total), 6, to)


def _key_part(
    builder: ir.IRBuilder,
    number: ir.Value,
    inverse: ir.Value,
    shift: ir.Value,
    multiplier: ir.Value,
    limit: ir.Value,
) -> ir.Value:
    """Return ``multiplier * floor((number - shift) * inverse)``, clipped to ``+-limit``."""
    scaled = builder.fmul(builder.fsub(broadcast(builder, number, 8), shift), inverse)
    lowest = builder.fneg(limit)
    scaled = builder.select(builder.fcmp_ordered(">", scaled, lowest), scaled, lowest)
    scaled = builder.select(builder.fcmp_ordered("<", scaled, limit), scaled, limit)
    return builder.mul(multiplier, builder.fptosi(_floor(builder, scaled), _INTEGERS))


def _floor(builder: ir.IRBuilder, numbers: ir.Value) -> ir.Value:
    kind = ir.FunctionType(_DOUBLES, [_DOUBLES])
    floor = cgutils.get_or_insert_function(builder.module, kind, "llvm.floor.v8f64")
    return builder.call(floor, [numbers])


def _transpose(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """Transpose 8 vectors of 8 numbers by swapping off-diagonal blocks of 4, 2 and 1."""
    kind = ir.VectorType(ir.IntType(32), 8)
    for half in (4, 2, 1):
        # Lanes of the first halves of the blocks of two rows, then of the second halves.
        halves = (
            kind([j if j & half == 0 else 8 + j - half for j in range(8)]),
            kind([j + half if j & half == 0 else 8 + j for j in range(8)]),
        )
        for i in (i for i in range(8) if i & half == 0):
            pair = rows[i], rows[i + half]
            rows[i], rows[i + half] = (builder.shuffle_vector(*pair, lanes) for lanes in halves)
    return rows
