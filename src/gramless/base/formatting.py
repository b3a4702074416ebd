"""Formatting of sizes, times and powers of ten."""

from __future__ import annotations

import math

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_bytes(n_bytes: int) -> str:
    """Return a number of bytes as text, such as "2.5 MB"."""
    if n_bytes < 1000:
        return f"{n_bytes} bytes"
    power = min(3, int(math.log10(n_bytes) / 3))
    return f"{n_bytes / 1000**power:.1f} {['kB', 'MB', 'GB'][power - 1]}"


def format_duration(seconds: float) -> str:
    """Return a number of seconds as text, such as "3 min 20 s"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def format_scientific(value: float) -> str:
    """Return a number in scientific notation, such as 5·10⁻⁶, or only 10⁻⁶ for a power of ten."""
    digits, _, power = f"{value:.2e}".partition("e")
    exponent = f"10{str(int(power)).translate(_SUPERSCRIPTS)}"
    return exponent if float(digits) == 1.0 else f"{float(digits):g}·{exponent}"
