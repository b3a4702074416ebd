"""Sums over a few neighbouring numbers as one vector operation.

The compiler cannot prove that weights and sums do not overlap, and so leaves
short inner loops over outputs scalar; these say it in its own language. LLVM
splits a vector that is wider than the processor's registers.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _vector(context: Any, builder: Any, kind: Any, array: Any, index: Any, lanes: int) -> Any:
    """Return a pointer to ``lanes`` doubles of a flat array, from ``index`` on."""
    data = context.make_array(kind)(context, builder, array).data
    start = builder.gep(data, [index])
    return builder.bitcast(start, ir.VectorType(ir.DoubleType(), lanes).as_pointer())


def _gatherer(lanes: int) -> Any:
    """Make ``out[at:] += weights[a:] + weights[b:]`` over ``lanes`` numbers."""

    @intrinsic
    def gather(typing_context, out, at, weights, a, b):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            kinds = signature.args
            target = _vector(context, builder, kinds[0], arguments[0], arguments[1], lanes)
            first, second = (
                builder.load(
                    _vector(context, builder, kinds[2], arguments[2], index, lanes), align=8
                )
                for index in arguments[3:]
            )
            total = builder.fadd(builder.load(target, align=8), builder.fadd(first, second))
            builder.store(total, target, align=8)
            return context.get_dummy_value()

        return types.void(out, at, weights, a, b), generate

    return gather


def _scatterer(lanes: int) -> Any:
    """Make ``out[a:] += values[at:]; out[b:] += values[at:]`` over ``lanes`` numbers."""

    @intrinsic
    def scatter(typing_context, out, a, b, values, at):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            kinds = signature.args
            source = _vector(context, builder, kinds[3], arguments[3], arguments[4], lanes)
            value = builder.load(source, align=8)
            targets = [
                _vector(context, builder, kinds[0], arguments[0], index, lanes)
                for index in arguments[1:3]
            ]
            for target in targets:
                builder.store(builder.fadd(builder.load(target, align=8), value), target, align=8)
            return context.get_dummy_value()

        return types.void(out, a, b, values, at), generate

    return scatter


gather_8, gather_4, gather_2, gather_1 = (_gatherer(lanes) for lanes in (8, 4, 2, 1))
scatter_4, scatter_2, scatter_1 = (_scatterer(lanes) for lanes in (4, 2, 1))
