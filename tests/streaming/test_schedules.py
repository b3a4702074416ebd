"""Steps along the iterations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramless.base.errors import InputError
from gramless.streaming.schedules import InverseTime


@given(st.floats(1e-6, 1e6), st.floats(0.0, 1e6), st.integers(1, 10**9))
def test_inverse_time(theta: float, delay: float, t: int) -> None:
    schedule = InverseTime(theta, delay)
    assert schedule.step(t) * (t + delay) == pytest.approx(theta)
    assert schedule.step(t + 1) < schedule.step(t) or t + delay > 1e15


def test_without_a_delay_it_is_the_papers() -> None:
    steps = [InverseTime(1.5).step(t) for t in range(1, 5)]
    np.testing.assert_allclose(steps, 1.5 / np.arange(1, 5))


@pytest.mark.parametrize(
    ("theta", "delay"),
    [(0.0, 0.0), (-1.0, 0.0), (np.inf, 0.0), (np.nan, 0.0), (1.0, -1e-9), (1.0, np.inf)],
)
def test_what_is_refused(theta: float, delay: float) -> None:
    with pytest.raises(InputError, match="theta must be positive and delay not negative"):
        InverseTime(theta, delay)
