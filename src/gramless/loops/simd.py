"""Vector operations in LLVM's language: sums over a few neighbouring numbers, codes, cells.

The compiler cannot prove that weights and sums do not overlap, and leaves short inner loops over
outputs scalar. LLVM splits a vector that is wider than the registers of the processor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.errors import TypingError
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

CELL_ROWS = 8
"""Rows whose cells :func:`add_cells_8` computes at once."""

Intrinsic = Callable[..., None]
"""A function that compiled code may call."""

_INTEGER = ir.IntType(64)
_DOUBLES, _INTEGERS = ir.VectorType(ir.DoubleType(), 8), ir.VectorType(_INTEGER, 8)


def check_contiguous(*arrays: types.Array) -> None:
    """Refuse to compile for arrays that are not contiguous, as all are read as flat ones."""
    for array in arrays:
        if array.layout != "C":
            raise TypingError(f"needs contiguous arrays, got {array}")


def vector_at(
    context: BaseContext,
    builder: ir.IRBuilder,
    kind: types.Array,
    array: ir.Value,
    index: ir.Value,
    lanes: int,
) -> ir.Value:
    """Return a pointer to ``lanes`` numbers of an array, from flat ``index`` on."""
    data = context.make_array(kind)(context, builder, array).data
    start = builder.gep(data, [index])
    return builder.bitcast(start, ir.VectorType(data.type.pointee, lanes).as_pointer())


class Vectors:
    """The arrays among the arguments of an intrinsic, read and written ``lanes`` numbers at a time.

    An array is named by its place among the arguments, numbers by their flat index.
    """

    def __init__(
        self,
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
        lanes: int,
    ) -> None:
        self._context, self._builder, self._lanes = context, builder, lanes
        self._kinds, self._arguments = signature.args, arguments

    def at(self, k: int, index: ir.Value) -> tuple[ir.Value, int]:
        """Return a pointer to numbers of argument k, and the bytes of one."""
        kind = self._kinds[k]
        arguments = kind, self._arguments[k], index, self._lanes
        return vector_at(self._context, self._builder, *arguments), kind.dtype.bitwidth // 8

    def load(self, k: int, index: ir.Value) -> ir.Value:
        """Read numbers of argument k."""
        place, size = self.at(k, index)
        return self._builder.load(place, align=size)

    def store(self, value: ir.Value, k: int, index: ir.Value) -> None:
        """Write numbers of argument k."""
        place, size = self.at(k, index)
        self._builder.store(value, place, align=size)

    def increase(self, value: ir.Value, k: int, index: ir.Value) -> None:
        """Add floating-point numbers to those of argument k."""
        place, size = self.at(k, index)
        total = self._builder.fadd(self._builder.load(place, align=size), value)
        self._builder.store(total, place, align=size)


def same(builder: ir.IRBuilder, number: ir.Value, lanes: int) -> ir.Value:
    """Return a vector of one number."""
    undefined = ir.VectorType(number.type, lanes)(ir.Undefined)
    one = builder.insert_element(undefined, number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, undefined, ir.VectorType(ir.IntType(32), lanes)([0] * lanes))


def _gatherer(lanes: int) -> Intrinsic:
    """Make ``out[at:] += (weights[a:] + weights[b:])``, then ``+= (weights[c:] + weights[d:])``.

    Over ``lanes`` numbers, which are read and written once.
    """

    @intrinsic
    def gather(typing_context, out, at, weights, a, b, c, d):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            vectors = Vectors(context, builder, signature, arguments, lanes)
            target, size = vectors.at(0, arguments[1])
            total = builder.load(target, align=size)
            for first, second in (arguments[3:5], arguments[5:]):
                pair = builder.fadd(vectors.load(2, first), vectors.load(2, second))
                total = builder.fadd(total, pair)
            builder.store(total, target, align=size)
            return context.get_dummy_value()

        check_contiguous(out, weights)
        return types.void(out, at, weights, a, b, c, d), generate

    return gather


def _scatterer(lanes: int) -> Intrinsic:
    """Make ``out[p:] += values[at:]`` over ``lanes`` numbers, for four p one after the other."""

    @intrinsic
    def scatter(typing_context, out, a, b, c, d, values, at):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            vectors = Vectors(context, builder, signature, arguments, lanes)
            added = vectors.load(5, arguments[6])
            for index in arguments[1:5]:
                vectors.increase(added, 0, index)
            return context.get_dummy_value()

        check_contiguous(out, values)
        return types.void(out, a, b, c, d, values, at), generate

    return scatter


def _depositor(lanes: int) -> Intrinsic:
    """Make ``out[a:] += values[at:]`` over ``lanes`` numbers."""

    @intrinsic
    def deposit(typing_context, out, a, values, at):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            vectors = Vectors(context, builder, signature, arguments, lanes)
            vectors.increase(vectors.load(2, arguments[3]), 0, arguments[1])
            return context.get_dummy_value()

        check_contiguous(out, values)
        return types.void(out, a, values, at), generate

    return deposit


def _follower(lanes: int) -> Intrinsic:
    """Make ``slopes[at:] -= factor * steps[a:]; raw[at:] += steps[a:]`` over ``lanes`` numbers."""

    @intrinsic
    def follow(typing_context, slopes, raw, at, factor, steps, a):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            vectors = Vectors(context, builder, signature, arguments, lanes)
            step = vectors.load(4, arguments[5])
            fallen = builder.fmul(same(builder, arguments[3], lanes), step)
            place, size = vectors.at(0, arguments[2])
            builder.store(builder.fsub(builder.load(place, align=size), fallen), place, align=size)
            vectors.increase(step, 1, arguments[2])
            return context.get_dummy_value()

        check_contiguous(slopes, raw, steps)
        return types.void(slopes, raw, at, factor, steps, a), generate

    return follow


deposit_16, deposit_8, deposit_4 = (_depositor(lanes) for lanes in (16, 8, 4))
follow_8, follow_4 = (_follower(lanes) for lanes in (8, 4))
gather_16, gather_8, gather_4, gather_2, gather_1 = (_gatherer(n) for n in (16, 8, 4, 2, 1))
scatter_16, scatter_8, scatter_4, scatter_2, scatter_1 = (_scatterer(n) for n in (16, 8, 4, 2, 1))


@intrinsic
def codes_4(typing_context, codes, at):  # type: ignore[no-untyped-def]
    """Return ``codes[at:at + 4]`` as four uint64, read from memory at once."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
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


def _key_step(added: bool) -> Intrinsic:
    """Make ``out[at:] = keys[a:]``, or ``+=``, over 8 integers."""

    @intrinsic
    def step(typing_context, out, at, keys, a):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            vectors = Vectors(context, builder, signature, arguments, 8)
            result = vectors.load(2, arguments[3])
            if added:
                result = builder.add(vectors.load(0, arguments[1]), result)
            vectors.store(result, 0, arguments[1])
            return context.get_dummy_value()

        check_contiguous(out, keys)
        return types.void(out, at, keys, a), generate

    return step


set_keys_8, add_keys_8 = _key_step(added=False), _key_step(added=True)


@intrinsic
def add_cells_8(typing_context, rows, at, n_columns, grids, begun, a, keys, to, stride):  # type: ignore[no-untyped-def]
    """Add the cells of 8 rows to their keys in 8 grids, all sums in registers.

    ``rows`` are flat rows of ``n_columns`` numbers, from ``at`` on; ``grids`` are flat (inverse
    widths, shifts, multipliers), 8 per column; ``begun`` are the keys so far, 8 per row, from ``a``
    on. The sums go to ``keys``, 8 per grid, the first to ``to``, the others each ``stride``
    further.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        rows, at, n_columns, grids, _, a, _, to, stride = arguments
        vectors = Vectors(context, builder, signature, arguments, 8)
        numbers = context.make_array(signature.args[0])(context, builder, rows).data
        sums = []
        for r in range(CELL_ROWS):
            begun = vectors.load(4, builder.add(a, _INTEGER(8 * r)))
            sums.append(cgutils.alloca_once_value(builder, begun))
        with cgutils.for_range(builder, n_columns) as columns:
            column = _column(context, builder, signature.args[3], grids, columns.index)
            for r in range(CELL_ROWS):
                row = builder.add(at, builder.mul(n_columns, _INTEGER(r)))
                number = builder.load(builder.gep(numbers, [builder.add(row, columns.index)]))
                total = builder.add(builder.load(sums[r]), _key_part(builder, number, *column))
                builder.store(total, sums[r])
        for g, part in enumerate(_transposed(builder, [builder.load(total) for total in sums])):
            vectors.store(part, 6, builder.add(to, builder.mul(stride, _INTEGER(g))))
        return context.get_dummy_value()

    check_contiguous(rows, *grids, begun, keys)
    return types.void(rows, at, n_columns, grids, begun, a, keys, to, stride), generate


@intrinsic
def add_sparse_cells_8(typing_context, indices, values, start, stop, grids, zero_keys, keys, to):  # type: ignore[no-untyped-def]
    """Correct 8 keys of the zero row, from ``to`` on, at the non-zeros ``start:stop``.

    ``zero_keys`` are what a zero in each column has added to the keys, 8 per column.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        indices, values, start, stop, grids, _, _, to = arguments
        kinds, vectors = signature.args, Vectors(context, builder, signature, arguments, 8)
        columns = context.make_array(kinds[0])(context, builder, indices).data
        numbers = context.make_array(kinds[1])(context, builder, values).data
        total = cgutils.alloca_once_value(builder, vectors.load(6, to))
        with cgutils.for_range_slice(builder, start, stop, _INTEGER(1), _INTEGER) as (at, _):
            j = builder.load(builder.gep(columns, [at]))
            column = _column(context, builder, kinds[4], grids, j)
            zero = vectors.load(5, builder.mul(j, _INTEGER(8)))
            number = builder.load(builder.gep(numbers, [at]))
            added = builder.sub(_key_part(builder, number, *column), zero)
            builder.store(builder.add(builder.load(total), added), total)
        vectors.store(builder.load(total), 6, to)
        return context.get_dummy_value()

    check_contiguous(indices, values, *grids, zero_keys, keys)
    return types.void(indices, values, start, stop, grids, zero_keys, keys, to), generate


def _column(
    context: BaseContext,
    builder: ir.IRBuilder,
    kinds: Sequence[types.Array],
    grids: ir.Value,
    column: ir.Value,
) -> list[ir.Value]:
    """Load a column's inverse widths, shifts and multipliers."""
    first = builder.mul(column, _INTEGER(8))
    parts = [builder.extract_value(grids, k) for k in range(3)]
    return [
        builder.load(vector_at(context, builder, kind, part, first, 8), align=8)
        for kind, part in zip(kinds, parts, strict=True)
    ]


def _key_part(
    builder: ir.IRBuilder,
    number: ir.Value,
    inverse: ir.Value,
    shift: ir.Value,
    multiplier: ir.Value,
) -> ir.Value:
    """Return ``multiplier * floor((number - shift) * inverse)`` as 8 integers."""
    kind = ir.FunctionType(_DOUBLES, [_DOUBLES])
    floor = cgutils.get_or_insert_function(builder.module, kind, "llvm.floor.v8f64")
    scaled = builder.fmul(builder.fsub(same(builder, number, 8), shift), inverse)
    return builder.mul(multiplier, builder.fptosi(builder.call(floor, [scaled]), _INTEGERS))


def _transposed(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """Transpose 8 vectors of 8: swap ever smaller off-diagonal blocks."""
    kind = ir.VectorType(ir.IntType(32), 8)
    for half in (4, 2, 1):
        # The first halves of the blocks of two rows, then the second halves.
        chosen = (
            kind([j if j & half == 0 else 8 + j - half for j in range(8)]),
            kind([j + half if j & half == 0 else 8 + j for j in range(8)]),
        )
        for i in (i for i in range(8) if i & half == 0):
            pair = rows[i], rows[i + half]
            rows[i], rows[i + half] = (builder.shuffle_vector(*pair, lanes) for lanes in chosen)
    return rows
