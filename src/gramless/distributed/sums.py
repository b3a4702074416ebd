"""Numbers on their way: sums that do not depend on their order, and vectors in 48 bits.

Sums over blocks of rows travel as integers, multiples of one power of two. Integers add up to the
same whatever the order, so that neither the number of workers nor who has which rows changes a bit.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from gramless.base.types import FloatArray, IntArray
from gramless.loops.fixed_point import add_multiples

Packed = NDArray[np.uint8]

_BITS = 61
"""Of the largest sum: the sign, and one more for rounding."""
_MOST = 1000
"""Beyond, the power itself would be infinite."""
_HALF = np.uint64(1 << 15)
_LOW, _MIDDLE = np.uint64(32), np.uint64(16)


def exponent_of(bound: float) -> int:
    """Return the power of two that numbers are multiplied by, whose sums stay below a bound.

    Examples
    --------
    >>> exponent_of(1.0), exponent_of(0.0)
    (61, 0)
    """
    return min(_BITS - int(np.ceil(np.log2(bound))), _MOST) if bound > 0 else 0


def fixed_sum(parts: Iterable[FloatArray], exponent: int) -> IntArray | None:
    """Return the sum of arrays, each rounded to multiples of ``2**-exponent``.

    None is the sum of no arrays.

    Examples
    --------
    >>> parts = [np.array([0.1]), np.array([0.2]), np.array([0.3])]
    >>> fixed_sum(parts, 50) == fixed_sum([np.array([own]) for own in (0.3, 0.2, 0.1)], 50)
    array([ True])
    """
    total = None
    for part in parts:
        if total is None:
            total = np.zeros(part.shape, np.int64)
        add_multiples(part.reshape(-1), 2.0**exponent, total.reshape(-1))
    return total


def added(sums: Iterable[IntArray | None]) -> IntArray | None:
    """Return the sum of such sums."""
    total = None
    for own in sums:
        if own is not None:
            total = own if total is None else total + own
    return total


def as_floats(total: IntArray, exponent: int) -> FloatArray:
    """Return what :func:`fixed_sum` stands for."""
    return np.asarray(np.ldexp(total.astype(np.float64), -exponent))


def packed(vector: FloatArray) -> Packed:
    """Return an array in 48 bits a number, rounded to 37 significant ones.

    Examples
    --------
    >>> vector = np.array([1.0, -0.1, 1e-300])
    >>> bool((abs(unpacked(packed(vector), (3,)) / vector - 1) < 2e-11).all())
    True
    """
    bits = np.ascontiguousarray(vector, np.float64).reshape(-1).view(np.uint64) + _HALF
    n = len(bits)
    room = np.empty(6 * n, np.uint8)
    room[: 4 * n].view(np.uint32)[:] = bits >> _LOW
    room[4 * n :].view(np.uint16)[:] = (bits >> _MIDDLE).astype(np.uint16)
    return room


def unpacked(room: Packed, shape: tuple[int, ...]) -> FloatArray:
    """Return the array of a shape that :func:`packed` was given, but for rounding."""
    n = len(room) // 6
    bits = room[: 4 * n].view(np.uint32).astype(np.uint64)
    bits <<= _MIDDLE
    bits |= room[4 * n :].view(np.uint16)
    bits <<= _MIDDLE
    return bits.view(np.float64).reshape(shape)
