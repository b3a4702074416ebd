"""Numbers as users give them: integers that arrays can take, and floats."""

from __future__ import annotations

import math
from numbers import Integral, Real

_MOST = 2**63 - 1


def is_whole(value: object, least: int) -> bool:
    """Tell whether a value is an integer from ``least`` to ``2**63 - 1``; True and False are none.

    Parameters
    ----------
    value : object
    least : int

    Returns
    -------
    bool

    Examples
    --------
    >>> is_whole(3, 1), is_whole(2**70, 1), is_whole(3.0, 1), is_whole(True, 0)
    (True, False, False, False)
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        return False
    return least <= int(value) <= _MOST


def too_large(value: object) -> str:
    """Return what a message says of the largest integer, where one is beyond it; else nothing.

    Examples
    --------
    >>> too_large(2**70), too_large(0)
    (' and below 2**63', '')
    """
    return " and below 2**63" if isinstance(value, Integral) and int(value) > _MOST else ""


def as_float(value: object) -> float:
    """Return a number as a float: infinity beyond all floats, NaN for what is none.

    Parameters
    ----------
    value : object

    Returns
    -------
    float

    Examples
    --------
    >>> as_float(2), as_float(10**400), as_float("2"), as_float(True)
    (2.0, inf, nan, nan)
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
