"""Atomic reads and writes of numbers that several threads share.

All functions take a flat contiguous array and an index, which is not checked. The memory order is
that of C: writes before a release or a ``fetch_add`` are visible to a thread that then reads the
same number by an acquire or a ``fetch_add``.
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
    array: types.Type, index: types.Type, *numbers: types.Type, is_written: bool = True
) -> None:
    """Raise TypingError unless the array is flat and holds one of the types ``numbers``."""
    expected = " or ".join(map(str, numbers))
    if not isinstance(array, types.Array) or array.dtype not in numbers:
        raise TypingError(f"needs an array of {expected}, got {array}")
    if array.ndim != 1 or array.layout != "C":
        raise TypingError(f"needs a flat contiguous array, got {array}")
    if not isinstance(index, types.Integer):
        raise TypingError(f"needs a whole number as index, got {index}")
    if is_written and not array.mutable:
        raise TypingError(f"needs an array that can be written to, got {array}")


def _instruction_at(instruction: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    """Return the code generator of an instruction that takes the address of a number."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        index = context.cast(builder, arguments[1], signature.args[1], types.intp)
        result = instruction(builder, builder.gep(data, [index]), *arguments[2:])
        return context.get_dummy_value() if signature.return_type == types.void else result

    return generate


@intrinsic
def add(typing_context, array, index, value):
    """Add ``value`` to ``array[index]``, a float64.

    The addition is not ordered with respect to other numbers (``monotonic``).
    """
    _check(array, index, types.float64)
    return types.void(array, index, types.float64), _instruction_at(
        lambda builder, address, value: builder.atomic_rmw("fadd", address, value, "monotonic")
    )


@intrinsic
def fetch_add(typing_context, array, index, value):
    """Add ``value`` to ``array[index]``, an int64, and return the old number (``seq_cst``)."""
    _check(array, index, types.int64)
    return types.int64(array, index, types.int64), _instruction_at(
        lambda builder, address, value: builder.atomic_rmw("add", address, value, "seq_cst")
    )


@intrinsic
def exchange(typing_context, array, index, expected, value):
    """Set ``array[index]``, an int64, to ``value`` if it is ``expected`` (``seq_cst``).

    Returns whether ``array[index]`` was ``expected``.
    """

    def instruction(builder, address, *numbers):
        return builder.extract_value(builder.cmpxchg(address, *numbers, "seq_cst", "seq_cst"), 1)

    _check(array, index, types.int64)
    return types.boolean(array, index, types.int64, types.int64), _instruction_at(instruction)


@intrinsic
def load(typing_context, array, index):
    """Return ``array[index]``, an int64 or float64, read at each call (``acquire``)."""
    _check(array, index, types.int64, types.float64, is_written=False)
    return array.dtype(array, index), _instruction_at(
        lambda builder, address: builder.load_atomic(address, "acquire", _BYTES)
    )


@intrinsic
def store(typing_context, array, index, value):
    """Set ``array[index]``, an int64 or float64, after all earlier writes (``release``)."""
    _check(array, index, types.int64, types.float64)
    return types.void(array, index, array.dtype), _instruction_at(
        lambda builder, address, value: builder.store_atomic(value, address, "release", _BYTES)
    )


@intrinsic
def pause(typing_context):
    """Execute the pause instruction of a spinning thread on x86; do nothing elsewhere."""

    def generate(context, builder, signature, arguments):
        if _X86:
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
        return context.get_dummy_value()

    return types.void(), generate


# Lets the system run another thread on this processor.
yield_thread: Callable[[], int] = (
    types.ExternalFunction("sched_yield", types.int32()) if os.name == "posix" else pause
)
