"""Numbers that several threads read and write at once, by atomic instructions of the processor.

All functions take a flat contiguous array and an index, which is not checked, and work in any loop,
cached and without the GIL. Memory is ordered as in C: what a thread wrote before a release or a
``fetch_add`` is seen by a thread that then reads that number by an acquire or a ``fetch_add``.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.errors import TypingError
from numba.extending import intrinsic

_X86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
_BYTES = 8


def _check(array: types.Type, index: types.Type, *numbers: types.Type) -> None:
    """Refuse to compile for anything but flat arrays of one of ``numbers``."""
    wanted = " or ".join(map(str, numbers))
    if not isinstance(array, types.Array) or array.dtype not in numbers:
        raise TypingError(f"needs an array of {wanted}, got {array}")
    if array.ndim != 1 or array.layout != "C":
        raise TypingError(f"needs a flat contiguous array, got {array}")
    if not isinstance(index, types.Integer):
        raise TypingError(f"needs a whole number as index, got {index}")


def _check_writable(array: types.Array) -> None:
    if not array.mutable:
        raise TypingError(f"needs an array that can be written to, got {array}")


def _place(
    context: BaseContext,
    builder: ir.IRBuilder,
    kinds: Sequence[types.Type],
    arguments: Sequence[ir.Value],
) -> ir.Value:
    """Return a pointer to the number at an index, given (array, index, ...)."""
    data = context.make_array(kinds[0])(context, builder, arguments[0]).data
    index = context.cast(builder, arguments[1], kinds[1], types.intp)
    return builder.gep(data, [index])


@intrinsic
def add(typing_context, array, index, value):  # type: ignore[no-untyped-def]
    """``array[index] += value`` for float64; no thread's part is lost.

    Not ordered with respect to other numbers (``monotonic``).
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature.args, arguments)
        builder.atomic_rmw("fadd", place, arguments[2], "monotonic")
        return context.get_dummy_value()

    _check(array, index, types.float64)
    _check_writable(array)
    return types.void(array, index, types.float64), generate


@intrinsic
def fetch_add(typing_context, array, index, value):  # type: ignore[no-untyped-def]
    """``array[index] += value`` for int64; returns the number that was there (``seq_cst``)."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature.args, arguments)
        return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

    _check(array, index, types.int64)
    _check_writable(array)
    return types.int64(array, index, types.int64), generate


@intrinsic
def exchange(typing_context, array, index, expected, value):  # type: ignore[no-untyped-def]
    """``array[index] = value`` for int64 if it is ``expected``; returns whether (``seq_cst``)."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature.args, arguments)
        done = builder.cmpxchg(place, arguments[2], arguments[3], "seq_cst", "seq_cst")
        return builder.extract_value(done, 1)

    _check(array, index, types.int64)
    _check_writable(array)
    return types.boolean(array, index, types.int64, types.int64), generate


@intrinsic
def load(typing_context, array, index):  # type: ignore[no-untyped-def]
    """``array[index]`` for int64 or float64, read anew at each call (``acquire``)."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature.args, arguments)
        return builder.load_atomic(place, "acquire", _BYTES)

    _check(array, index, types.int64, types.float64)
    return array.dtype(array, index), generate


@intrinsic
def store(typing_context, array, index, value):  # type: ignore[no-untyped-def]
    """``array[index] = value`` for int64 or float64, after all writes before it (``release``)."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, signature.args, arguments)
        builder.store_atomic(arguments[2], place, "release", _BYTES)
        return context.get_dummy_value()

    _check(array, index, types.int64, types.float64)
    _check_writable(array)
    return types.void(array, index, array.dtype), generate


@intrinsic
def pause(typing_context):  # type: ignore[no-untyped-def]
    """Tell the processor that this thread is spinning; does nothing except on x86."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        if _X86:
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
        return context.get_dummy_value()

    return types.void(), generate


def _find_give_way() -> Callable[[], int]:
    """Return the C library's function that lets another thread have the processor."""
    if os.name == "posix":
        return types.ExternalFunction("sched_yield", types.int32())
    return pause


give_way = _find_give_way()
"""Let another thread have the processor; as :func:`pause` where the system has no such call."""
