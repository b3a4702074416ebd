"""Axes hold their numbers and name a few of them."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.base.axes import linear_axis, log_axis

RANGES = [(0.0, 0.0), (5.0, 5.0), (-3.0, 7.0), (1e6, 1e6 + 3), (1e-9, 3e-9), (-1e12, 1e12)]


@pytest.mark.parametrize("ends", RANGES)
def test_linear_axes(ends):
    axis = linear_axis("", ends)
    assert 2 <= len(axis.ticks) <= 9
    assert len({name for _, name in axis.ticks}) == len(axis.ticks)
    assert all(0 <= axis.share(value) <= 1 for value in (*ends, *(v for v, _ in axis.ticks)))
    for value, name in axis.ticks:
        assert float(name) == pytest.approx(value, abs=1e-6 * (axis.high - axis.low))


@pytest.mark.parametrize("ends", [(1e-7, 1e-1), (0.25, 0.25), (0.3, 0.31), (0.1, 2.0), (1e-30, 1)])
def test_logarithmic_axes(ends):
    axis = log_axis("", ends)
    assert 1 <= len(axis.ticks) <= 12
    assert all(0 <= axis.share(value) <= 1 for value in (*ends, *(v for v, _ in axis.ticks)))
    middle = np.sqrt(ends[0] * ends[1])
    assert axis.share(middle) == pytest.approx(0.5)
