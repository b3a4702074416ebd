"""Numbers that several threads read and write at once, by atomic instructions of the processor.

All take a flat contiguous array and an index, which is not checked. Memory is ordered as in C:
what a thread wrote before a release or a ``fetch_add`` is seen by a thread that then reads that
number by an acquire or a ``fetch_add``.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

_X86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
_BYTES = 8


def _check(
    array: types.Type, index: types.Type, *numbers: types.Type, written: bool = True
) -> None:
    """Refuse to compile for anything but flat arrays of one of ``numbers``."""
    wanted = " or ".join(map(str, numbers))
    if not isinstance(array, types.Array) or array.dtype not in numbers:
        raise TypingError(f"needs an array of {wanted}, got {array}")
    if array.ndim != 1 or array.layout != "C":
        raise TypingError(f"needs a flat contiguous array, got {array}")
    if not isinstance(index, types.Integer):
        raise TypingError(f"needs a whole number as index, got {index}")
    if written and not array.mutable:
        raise TypingError(f"needs an array that can be written to, got {array}")


def _at_place(instruction: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    """Make the generator of an instruction, given the builder, a number's place and the rest."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        index = context.cast(builder, arguments[1], signature.args[1], types.intp)
        result = instruction(builder, builder.gep(data, [index]), *arguments[2:])
        return context.get_dummy_value() if signature.return_type == types.void else result

    return generate


@intrinsic
def add(typing_context, array, index, value):
    """``array[index] += value`` for float64; no thread's part is lost.

    Not ordered with respect to other numbers (``monotonic``).
    """
    _check(array, index, types.float64)
    return types.void(array, index, types.float64), _at_place(
        lambda builder, place, value: builder.atomic_rmw("fadd", place, value, "monotonic")
    )


@intrinsic
def fetch_add(typing_context, array, index, value):
    """``array[index] += value`` for int64; returns the number that was there (``seq_cst``)."""
    _check(array, index, types.int64)
    return types.int64(array, index, types.int64), _at_place(
        lambda builder, place, value: builder.atomic_rmw("add", place, value, "seq_cst")
    )


@intrinsic
def exchange(typing_context, array, index, expected, value):
    """``array[index] = value`` for int64 if it is ``expected``; returns whether (``seq_cst``)."""

    def instruction(builder, place, *numbers):
        return builder.extract_value(builder.cmpxchg(place, *numbers, "seq_cst", "seq_cst"), 1)

    _check(array, index, types.int64)
    return types.boolean(array, index, types.int64, types.int64), _at_place(instruction)


@intrinsic
def load(typing_context, array, index):
    """``array[index]`` for int64 or float64, read anew at each call (``acquire``)."""
    _check(array, index, types.int64, types.float64, written=False)
    return array.dtype(array, index), _at_place(
        lambda builder, place: builder.load_atomic(place, "acquire", _BYTES)
    )


@intrinsic
def store(typing_context, array, index, value):
    """``array[index] = value`` for int64 or float64, after all writes before it (``release``)."""
    _check(array, index, types.int64, types.float64)
    return types.void(array, index, array.dtype), _at_place(
        lambda builder, place, value: builder.store_atomic(value, place, "release", _BYTES)
    )


@intrinsic
def pause(typing_context):
    """Tell the processor that this thread is spinning; does nothing except on x86."""

    def generate(context, builder, signature, arguments):
        if _X86:
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
        return context.get_dummy_value()

    return types.void(), generate


give_way: Callable[[], int] = (
    types.ExternalFunction("sched_yield", types.int32()) if os.name == "posix" else pause
)
"""Let another thread have the processor; as :func:`pause` where the system has no such call."""
