"""Sums that do not depend on their order.

Sums over blocks of rows are sent as integers, multiples of a power of two. Sums of integers do not
depend on the order, so that neither the number of workers nor the places of blocks change a bit.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gramless.base.types import FloatArray, IntArray
from gramless.loops.fixed_point import add_multiples

_BITS = 61  # bits for the largest sum; the other bits are for the sign and rounding
_MAX_EXPONENT = 1000  # larger powers of two would overflow


def exponent_of(bound: float) -> int:
    """Return the exponent of the scale for numbers whose sums stay below a bound.

    Examples
    --------
    >>> exponent_of(1.0), exponent_of(0.0)
    (61, 0)
    """
    return min(_BITS - int(np.ceil(np.log2(bound))), _MAX_EXPONENT) if bound > 0 else 0


def fixed_sum(parts: Iterable[FloatArray], exponent: int) -> IntArray | None:
    """Return the sum of arrays, each rounded to multiples of ``2**-exponent``; None without arrays.

    Examples
    --------
    >>> parts = [np.array([0.1]), np.array([0.2]), np.array([0.3])]
    >>> fixed_sum(parts, 50) == fixed_sum([np.array([x]) for x in (0.3, 0.2, 0.1)], 50)
    array([ True])
    """
    total = None
    for part in parts:
        if total is None:
            total = np.zeros(part.shape, np.int64)
        add_multiples(part.reshape(-1), 2.0**exponent, total.reshape(-1))
    return total


def add_sums(sums: Iterable[IntArray | None]) -> IntArray | None:
    total = None
    for part in sums:
        if part is not None:
            total = part if total is None else total + part
    return total


def sum_as_floats(total: IntArray, exponent: int) -> FloatArray:
    return np.asarray(total * 2.0**-exponent)
