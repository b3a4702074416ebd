"""Sums that do not depend on their order.

Sums over blocks of rows travel as integers, multiples of one power of two. Integers add up to the
same whatever the order, so that neither the number of workers nor who has which rows changes a bit.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gramless.base.types import FloatArray, IntArray
from gramless.loops.fixed_point import add_multiples

_BITS = 61
"""Of the largest sum: the sign, and one more for rounding."""
_MOST = 1000
"""Beyond, the power itself would be infinite."""


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
    return np.asarray(total * 2.0**-exponent)
