"""The constants of DSG16's Theorems 3 and 4."""

from __future__ import annotations

import numpy as np
import pytest

from studies.dsg16.theorems import Assumptions, complexity_ratio, features_ratio, noise_factor

CASE = Assumptions(alpha=0.1, theta=15.0, smoothness=1.0, slope_bound=2.0, phi=2.0)


def test_the_ratio_of_complexities():
    for new, old in [(1, 0), (1, 1), (2, 3), (5, 1)]:
        # Section 4.1.2 derives it from the constants, whose last term vanishes with t.
        assert complexity_ratio(new, old) == pytest.approx(
            noise_factor(new, old) * new / (new + old)
        )
        steps = 10_000 * noise_factor(new, old)
        assert features_ratio(new, old) * 10_000**2 == pytest.approx(steps**2 * new / (new + old))


def test_theorem_3_is_theorem_4_without_old_blocks():
    C, S = CASE.constants()
    assert C == 2 * (1 + 2) * 2.0 * 15.0
    Z, Q = 2 * 0.1 * 15.0 - 1, np.sqrt(2.0) * C * 15.0
    expected = (Q + np.sqrt(Q**2 + Z * 2.5**2 * 15.0**2 * 2.0**2)) / Z
    assert pytest.approx(S) == expected
    assert CASE.bound(100) == CASE.bound(100, new=7, old=0) == (2 * C**2 + 2 * S**2) / 100


def test_old_blocks_make_the_bound_worse():
    # G = 2, U = 3 after 30 steps: 1 + 6/5 + 18/10 + 12/60.
    assert noise_factor(2, 3, 30) == pytest.approx(4.2)
    assert CASE.constants(30, 2, 3)[0] == pytest.approx(np.sqrt(4.2) * CASE.constants()[0])
    assert CASE.bound(30) < CASE.bound(30, 1, 1) < CASE.bound(30, 2, 3)


def test_a_large_minimum_decides_s():
    assert Assumptions(0.1, 15.0, 1.0, 2.0, norm=1e9).constants()[1] == 1e9
