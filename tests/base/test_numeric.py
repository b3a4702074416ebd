"""Integers and floats as users give them."""

from __future__ import annotations

import math

from gramless.base.numeric import as_float, is_whole, upper_limit_text


def test_is_whole_accepts_64_bit_integers_only() -> None:
    cases = (3, 1, True), (2**70, 1, False), (3.0, 1, False), (True, 0, False)
    for value, least, whole in cases:
        assert is_whole(value, least) is whole


def test_too_large_names_the_limit() -> None:
    assert upper_limit_text(2**70) == " and below 2**63"
    assert upper_limit_text(0) == ""


def test_as_float_converts_large_integers_to_infinity() -> None:
    assert [as_float(2), as_float(10**400)] == [2.0, math.inf]
    assert math.isnan(as_float("2"))
    assert math.isnan(as_float(True))
