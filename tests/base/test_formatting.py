"""Sizes, times and powers of ten as text."""

from __future__ import annotations

from gramless.base.formatting import duration, power_of_ten, sized


def test_numbers_are_written_with_units() -> None:
    assert [sized(n) for n in (900, 2_500_000, 10**14)] == ["900 bytes", "2.5 MB", "100000.0 GB"]
    assert [duration(s) for s in (4.21, 200.0, 8000.0)] == ["4 s", "3 min 20 s", "2 h 13 min"]
    assert [power_of_ten(x) for x in (5e-6, 1e12)] == ["5·10⁻⁶", "10¹²"]
