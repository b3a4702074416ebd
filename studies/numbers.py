"""Formatting of numbers and times in reports."""

from __future__ import annotations

import math

from gramless.base.formatting import format_duration, format_scientific

_MIN_DECIMAL = 1e-4  # Smaller numbers are written as powers of ten.


def printed(value: float, digits: int = 5) -> str:
    """Return a number with at most ``digits`` significant digits; whole numbers keep all.

    Examples
    --------
    >>> printed(83.41), printed(5221916.0), printed(0.00002), printed(62.67004846)
    ('83.41', '5,221,916', '2·10⁻⁵', '62.67')
    """
    if 0.0 < abs(value) < _MIN_DECIMAL:
        return format_scientific(value)
    if value == round(value):
        return f"{value:,.0f}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    shown = f"{value:,.{decimals}f}"
    return shown.rstrip("0").rstrip(".") if decimals else shown


def brief_seconds(seconds: float) -> str:
    """Return a duration as text, with two significant digits below 10 seconds.

    Examples
    --------
    >>> brief_seconds(0.0312), brief_seconds(75.0)
    ('0.031 s', '1 min 15 s')
    """
    return f"{seconds:.2g} s" if seconds < 10.0 else format_duration(seconds)
