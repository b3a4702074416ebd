"""Checks of numbers that users give."""

from __future__ import annotations

import math
from numbers import Integral, Real

_MOST = 2**63 - 1


def is_whole(value: object, least: int) -> bool:
    """Tell whether a value is an integer from ``least`` to ``2**63 - 1``, and not a truth value."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        return False
    return least <= int(value) <= _MOST


def too_large(value: object) -> str:
    """Return the end of a message on an integer beyond 2**63 - 1; empty for all other values."""
    return " and below 2**63" if isinstance(value, Integral) and int(value) > _MOST else ""


def as_float(value: object) -> float:
    """Return a number as a float: infinity beyond all floats, NaN for what is no number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
