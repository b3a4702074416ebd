"""Sizes, times and powers of ten as text."""

from __future__ import annotations

import pytest

from gramless.base.formatting import duration, power_of_ten, sized


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(900, "900 bytes"), (2_500_000, "2.5 MB"), (10**14, "100000.0 GB")]
)
def test_sizes(n_bytes: int, text: str) -> None:
    assert sized(n_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.21, "4 s"), (200.0, "3 min 20 s"), (8000.0, "2 h 13 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("value", "text"), [(5e-6, "5·10⁻⁶"), (1e12, "10¹²")])
def test_powers_of_ten(value: float, text: str) -> None:
    assert power_of_ten(value) == text
