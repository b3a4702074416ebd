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
from numba.extending import intrinsic

CELL_ROWS = 8
"""Rows whose cells :func:`add_cells_8` computes at once."""

Intrinsic = Callable[..., None]
"""A function that compiled code may call."""

_DOUBLE, _INTEGER = ir.DoubleType(), ir.IntType(64)
_DOUBLES, _INTEGERS = ir.VectorType(_DOUBLE, 8), ir.VectorType(_INTEGER, 8)


def check_contiguous(*arrays: types.Array) -> None:
    """Refuse to compile for arrays that are not contiguous.

    Arrays of several dimensions are read as flat ones: a loop that reshapes them takes twice as
    long to compile.
    """
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


def _gatherer(lanes: int) -> Intrinsic:
    """Make ``out[at:] += weights[a:] + weights[b:]`` over ``lanes`` numbers."""

    @intrinsic
    def gather(typing_context, out, at, weights, a, b):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            kinds = signature.args
            target = vector_at(context, builder, kinds[0], arguments[0], arguments[1], lanes)
            first, second = (
                builder.load(
                    vector_at(context, builder, kinds[2], arguments[2], index, lanes), align=8
                )
                for index in arguments[3:]
            )
            total = builder.fadd(builder.load(target, align=8), builder.fadd(first, second))
            builder.store(total, target, align=8)
            return context.get_dummy_value()

        check_contiguous(out, weights)
        return types.void(out, at, weights, a, b), generate

    return gather


def _scatterer(lanes: int) -> Intrinsic:
    """Make ``out[a:] += values[at:]; out[b:] += values[at:]`` over ``lanes`` numbers."""

    @intrinsic
    def scatter(typing_context, out, a, b, values, at):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            kinds = signature.args
            source = vector_at(context, builder, kinds[3], arguments[3], arguments[4], lanes)
            value = builder.load(source, align=8)
            targets = [
                vector_at(context, builder, kinds[0], arguments[0], index, lanes)
                for index in arguments[1:3]
            ]
            for target in targets:
                builder.store(builder.fadd(builder.load(target, align=8), value), target, align=8)
            return context.get_dummy_value()

        check_contiguous(out, values)
        return types.void(out, a, b, values, at), generate

    return scatter


def _depositor(lanes: int) -> Intrinsic:
    """Make ``out[a:] += values[at:]`` over ``lanes`` numbers."""

    @intrinsic
    def deposit(typing_context, out, a, values, at):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            kinds = signature.args
            source = vector_at(context, builder, kinds[2], arguments[2], arguments[3], lanes)
            target = vector_at(context, builder, kinds[0], arguments[0], arguments[1], lanes)
            value = builder.load(source, align=4)
            total = builder.fadd(builder.load(target, align=4), value)
            builder.store(total, target, align=4)
            return context.get_dummy_value()

        check_contiguous(out, values)
        return types.void(out, a, values, at), generate

    return deposit


deposit_8, deposit_4 = (_depositor(lanes) for lanes in (8, 4))
gather_8, gather_4, gather_2, gather_1 = (_gatherer(lanes) for lanes in (8, 4, 2, 1))
scatter_4, scatter_2, scatter_1 = (_scatterer(lanes) for lanes in (4, 2, 1))


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


def _key_step(combine: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]) -> Intrinsic:
    """Make ``out[at:] = combine(out[at:], keys[a:])`` over 8 integers."""

    @intrinsic
    def step(typing_context, out, at, keys, a):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            kinds = signature.args
            target = vector_at(context, builder, kinds[0], arguments[0], arguments[1], 8)
            source = vector_at(context, builder, kinds[2], arguments[2], arguments[3], 8)
            result = combine(builder, target, builder.load(source, align=8))
            builder.store(result, target, align=8)
            return context.get_dummy_value()

        check_contiguous(out, keys)
        return types.void(out, at, keys, a), generate

    return step


set_keys_8 = _key_step(lambda builder, target, keys: keys)
add_keys_8 = _key_step(
    lambda builder, target, keys: builder.add(builder.load(target, align=8), keys)
)


@intrinsic
def add_cells_8(  # type: ignore[no-untyped-def]
    typing_context, rows, at, n_columns, grids, begun, a, keys, to, stride
):
    """Add the cells of 8 rows to their keys in 8 grids, all sums in registers.

    ``rows`` are flat rows of ``n_columns`` numbers, from ``at`` on; ``grids`` are flat (inverse
    widths, shifts, multipliers), 8 per column; ``begun`` are the keys so far, 8 per row, from ``a``
    on. The sums go to ``keys``, 8 per grid, the first to ``to``, the others each ``stride``
    further.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        rows, at, n_columns, grids, begun, a, keys, to, stride = arguments
        kinds = signature.args
        numbers = context.make_array(kinds[0])(context, builder, rows).data
        sums = []
        for r in range(CELL_ROWS):
            first = builder.add(a, _INTEGER(8 * r))
            row = builder.load(vector_at(context, builder, kinds[4], begun, first, 8), align=8)
            sums.append(cgutils.alloca_once_value(builder, row))
        with cgutils.for_range(builder, n_columns) as columns:
            first = builder.mul(columns.index, _INTEGER(8))
            inverse, shift, multiplier = _column(context, builder, kinds[3], grids, first)
            for r in range(CELL_ROWS):
                row = builder.add(at, builder.mul(n_columns, _INTEGER(r)))
                number = builder.load(builder.gep(numbers, [builder.add(row, columns.index)]))
                cells = _cells(builder, number, inverse, shift)
                added = builder.mul(multiplier, cells)
                builder.store(builder.add(builder.load(sums[r]), added), sums[r])
        turned = _transposed(builder, [builder.load(total) for total in sums])
        for g, part in enumerate(turned):
            first = builder.add(to, builder.mul(stride, _INTEGER(g)))
            target = vector_at(context, builder, kinds[6], keys, first, 8)
            builder.store(part, target, align=8)
        return context.get_dummy_value()

    check_contiguous(rows, *grids, begun, keys)
    return types.void(rows, at, n_columns, grids, begun, a, keys, to, stride), generate


@intrinsic
def add_sparse_cells_8(  # type: ignore[no-untyped-def]
    typing_context, indices, values, start, stop, grids, zero_keys, keys, to
):
    """Correct 8 keys of the zero row, from ``to`` on, at the non-zeros ``start:stop``.

    ``zero_keys`` are what a zero in each column has added to the keys, 8 per column.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        indices, values, start, stop, grids, zero_keys, keys, to = arguments
        kinds = signature.args
        columns = context.make_array(kinds[0])(context, builder, indices).data
        numbers = context.make_array(kinds[1])(context, builder, values).data
        target = vector_at(context, builder, kinds[6], keys, to, 8)
        total = cgutils.alloca_once_value(builder, builder.load(target, align=8))
        with cgutils.for_range_slice(builder, start, stop, _INTEGER(1), _INTEGER) as (at, _):
            first = builder.mul(builder.load(builder.gep(columns, [at])), _INTEGER(8))
            inverse, shift, multiplier = _column(context, builder, kinds[4], grids, first)
            zero = builder.load(vector_at(context, builder, kinds[5], zero_keys, first, 8), align=8)
            number = builder.load(builder.gep(numbers, [at]))
            added = builder.mul(multiplier, _cells(builder, number, inverse, shift))
            builder.store(builder.add(builder.load(total), builder.sub(added, zero)), total)
        builder.store(builder.load(total), target, align=8)
        return context.get_dummy_value()

    check_contiguous(indices, values, *grids, zero_keys, keys)
    return types.void(indices, values, start, stop, grids, zero_keys, keys, to), generate


def _column(
    context: BaseContext,
    builder: ir.IRBuilder,
    kinds: Sequence[types.Array],
    grids: ir.Value,
    first: ir.Value,
) -> list[ir.Value]:
    """Load a column's (inverse widths, shifts, multipliers), from flat index ``first`` on."""
    parts = [builder.extract_value(grids, k) for k in range(3)]
    return [
        builder.load(vector_at(context, builder, kind, part, first, 8), align=8)
        for kind, part in zip(kinds, parts, strict=True)
    ]


def _cells(builder: ir.IRBuilder, number: ir.Value, inverse: ir.Value, shift: ir.Value) -> ir.Value:
    """Return ``floor((number - shift) * inverse)`` as 8 integers."""
    undefined, zeros = _DOUBLES(ir.Undefined), _lanes([0] * 8)
    one = builder.insert_element(undefined, number, ir.IntType(32)(0))
    same = builder.shuffle_vector(one, undefined, zeros)
    floor = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_DOUBLES, [_DOUBLES]), "llvm.floor.v8f64"
    )
    scaled = builder.fmul(builder.fsub(same, shift), inverse)
    return builder.fptosi(builder.call(floor, [scaled]), _INTEGERS)


def _transposed(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """Transpose 8 vectors of 8: swap ever smaller off-diagonal blocks."""
    for half in (4, 2, 1):
        for i in range(8):
            if i & half == 0:
                rows[i], rows[i + half] = (
                    builder.shuffle_vector(rows[i], rows[i + half], _lanes(chosen))
                    for chosen in (_first_halves(half), _second_halves(half))
                )
    return rows


def _lanes(chosen: list[int]) -> ir.Constant:
    return ir.VectorType(ir.IntType(32), 8)(chosen)


def _first_halves(half: int) -> list[int]:
    """Lanes of blocks' first halves: the upper row's own, then the lower row's."""
    return [j if j & half == 0 else 8 + j - half for j in range(8)]


def _second_halves(half: int) -> list[int]:
    return [j + half if j & half == 0 else 8 + j for j in range(8)]
