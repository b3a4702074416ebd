"""Sizes, times and powers of ten as text."""

from __future__ import annotations

from gramless.base.formatting import format_bytes, format_duration, format_scientific


def test_numbers_are_written_with_units() -> None:
    assert [format_bytes(n) for n in (900, 2_500_000, 10**14)] == [
        "900 bytes",
        "2.5 MB",
        "100000.0 GB",
    ]
    assert [format_duration(s) for s in (4.21, 200.0, 8000.0)] == [
        "4 s",
        "3 min 20 s",
        "2 h 13 min",
    ]
    assert [format_scientific(x) for x in (5e-6, 1e12)] == ["5·10⁻⁶", "10¹²"]
