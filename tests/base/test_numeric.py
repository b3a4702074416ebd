"""Integers and floats as users give them."""

from __future__ import annotations

import math

from gramless.base.numeric import as_float, is_whole, too_large


def test_whole_numbers() -> None:
    cases = (3, 1, True), (2**70, 1, False), (3.0, 1, False), (True, 0, False)
    for value, least, whole in cases:
        assert is_whole(value, least) is whole


def test_numbers_that_are_too_large() -> None:
    assert too_large(2**70) == " and below 2**63"
    assert too_large(0) == ""


def test_floats() -> None:
    assert [as_float(2), as_float(10**400)] == [2.0, math.inf]
    assert math.isnan(as_float("2"))
    assert math.isnan(as_float(True))
