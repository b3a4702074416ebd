"""Numbers as people write them."""

from __future__ import annotations

import math

from gramless.base.formatting import duration, power_of_ten

_DIGITS, _LEAST = 3, 1e-4


def printed(value: float, digits: int = 5) -> str:
    """Return a number as it was given: whole, or with so many digits at most.

    Examples
    --------
    >>> printed(83.41), printed(5221916.0), printed(0.00002), printed(62.67004846)
    ('83.41', '5,221,916', '2·10⁻⁵', '62.67')
    """
    if 0.0 < abs(value) < _LEAST:
        return power_of_ten(value)
    if value == round(value):
        return f"{value:,.0f}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    shown = f"{value:,.{decimals}f}"
    return shown.rstrip("0").rstrip(".") if decimals else shown


def measured(value: float, beside: float) -> str:
    """Return a number with three digits, or as many decimals as the one it stands beside.

    Examples
    --------
    >>> measured(84.1234, 83.41), measured(3.128, 3.5), measured(1234.5, 900.0)
    ('84.12', '3.13', '1,234')
    """
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < _LEAST:
        return power_of_ten(value)
    given = len(printed(beside).partition(".")[2]) if abs(beside) >= _LEAST else 0
    own = _DIGITS - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(given, own, 0)}f}"


def ratio(ours: float, theirs: float) -> str:
    """Return how many times theirs ours is; a dash where that says nothing.

    Examples
    --------
    >>> ratio(3.0, 4.0), ratio(0.5, 210.0), ratio(500.0, 4.0), ratio(1.0, 0.0)
    ('0.75', '0.0024', '125', '–')
    """
    if theirs == 0.0 or not math.isfinite(ours / theirs):
        return "–"
    value = ours / theirs
    if value == 0.0:
        return "0"
    if abs(value) < _LEAST:
        return power_of_ten(value)
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(digits, 0) if abs(value) < 0.1 or abs(value) >= 10.0 else 2}f}"


def brief_seconds(seconds: float) -> str:
    """Return a time for people, short ones with two digits.

    Examples
    --------
    >>> brief_seconds(0.0312), brief_seconds(75.0)
    ('0.031 s', '1 min 15 s')
    """
    return f"{seconds:.2g} s" if seconds < 10.0 else duration(seconds)
