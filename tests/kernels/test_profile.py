"""Custom profiles: valid and invalid ones, and how closely grids approximate them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gramless.base.errors import KernelError
from gramless.kernels import Profile, TabulatedProfile


class EvenlySpread:
    """A generator whose uniform numbers are the midpoints of equal parts, for quadrature."""

    def random(self, size):
        (n,) = size
        return (np.arange(n) + 0.5) / n


def kernel_of_the_grids(kernel, distances):
    widths = kernel.sample_widths(EvenlySpread(), (200_000,))
    return np.array([np.mean(np.maximum(0.0, 1.0 - t / widths)) for t in distances])


CONVEX = [
    lambda t: np.exp(-t),
    lambda t: np.exp(-np.sqrt(t)),
    lambda t: np.exp(-100 * t),
    lambda t: 1 / (1 + t) ** 2,
    lambda t: 1 / np.sqrt(1 + t),
    lambda t: np.maximum(0, 1 - t / 3),
    lambda t: np.maximum(0, 1 - t) ** 2,
    lambda t: 0.3 * np.exp(-t / 50) + 0.7 * np.maximum(0, 1 - 7 * t),
    lambda t: 1 - t / np.sqrt(1 + t * t),
]


def test_grids_represent_the_function():
    distances = np.geomspace(1e-4, 1e3, 60)
    for function in CONVEX:
        error = np.abs(kernel_of_the_grids(Profile(function), distances) - function(distances))
        assert error.max() < 2e-3


def test_slow_profile_is_represented_up_to_the_upper_distance():
    def slow(t):
        return 1 / (1 + np.log1p(t))

    with pytest.raises(KernelError, match=r"slow must fall to 0, it is still 0\.0348.*give upper"):
        Profile(slow)
    distances = np.geomspace(1e-3, 1e4, 30)
    error = np.abs(kernel_of_the_grids(Profile(slow, upper=1e4), distances) - slow(distances))
    assert error.max() < 2e-3


def test_profile_is_never_called_beyond_the_upper_distance():
    def root(t):
        return (1 - t) ** 1.5

    with pytest.raises(KernelError, match="root is not finite at distance 2: .*give upper"):
        Profile(root)
    kernel = Profile(root, upper=0.5)
    assert kernel_of_the_grids(kernel, [0.4])[0] == pytest.approx(0.6**1.5, abs=1e-3)


def test_tabulated_kernel_is_exact():
    kernel = TabulatedProfile([0.0, 0.25, 1.0, 3.0], [1.0, 0.5, 0.125, 0.0])
    distances = np.linspace(0, 4, 50)
    np.testing.assert_allclose(
        kernel_of_the_grids(kernel, distances), kernel.profile(distances), atol=2e-5
    )
    assert set(kernel.sample_widths(EvenlySpread(), (1000,))) <= {0.25, 1.0, 3.0}


NO_PROFILES = [
    (lambda t: 0.9 * np.exp(-t), "must be 1 at distance 0, it is 0.9"),
    (lambda t: 1 + t, "must decrease, it rises from .* at distance"),
    (lambda t: np.maximum(0, 1 - t) + (t == 64), "rises from 0 at distance 32 to 1 at 64"),
    (lambda t: np.exp(-t * t / 2), r"must be convex, it bends downwards near distance 0\.5"),
    (lambda t: np.exp(-(t**1.2)), "must be convex"),
    (lambda t: 1 - t, "must not be negative"),
    (lambda t: 0.5 + 0.5 * np.exp(-t), r"must fall to 0, it is still 0\.5"),
    (lambda t: np.ones_like(t), "must fall to 0, it is still 1"),
    (lambda t: np.exp(-1e15 * t), "is 0 from distance .*: stretch it"),
    (lambda t: 1.0, "must return one value per distance"),
    (lambda t: np.nan * t, "not finite at distance 0"),
    (math.exp, "the profile exp failed on an array"),
]


def test_invalid_profiles_are_rejected():
    for function, message in NO_PROFILES:
        with pytest.raises(KernelError, match=message):
            Profile(function)


def test_bump_between_powers_of_two_is_rejected():
    def bumpy(t):
        return np.exp(-t) + 1e-3 * np.exp(-(((t - 3.0) / 0.05) ** 2))

    with pytest.raises(KernelError, match=r"bumpy must .* distance (2\.9|3\.0)"):
        Profile(bumpy)


def test_invalid_upper_distances_are_rejected():
    for upper in (0.0, -1.0, np.inf, np.nan, "far", 2.0**-41, 1e30):
        with pytest.raises(KernelError, match="Profile needs upper"):
            Profile(lambda t: np.exp(-t), upper=upper)


def test_profile_flat_at_its_upper_distance_is_rejected():
    with pytest.raises(KernelError, match=r"must fall to 0, it stays at 0\.25"):
        Profile(lambda t: np.maximum(1 - t, 0.25), upper=3.0)


NO_TABLES = [
    ([0.0, 1.0], [1.0], "as many values"),
    ([0.0], [1.0], "at least two"),
    ([0.5, 1.0], [1.0, 0.0], "start at 0 and increase"),
    ([0.0, 1.0, 1.0], [1.0, 0.5, 0.0], "start at 0 and increase"),
    ([0.0, 1.0], [0.9, 0.0], "from 1 to 0"),
    ([0.0, 1.0], [1.0, 0.1], "from 1 to 0"),
    ([0.0, 1.0, 2.0], [1.0, 0.9, 0.0], "must be convex, .* near distance 1"),
    ([0.0, 1.0, 2.0, 3.0], [1.0, 0.1, 0.2, 0.0], "must decrease"),
    ([0.0, np.nan], [1.0, 0.0], "finite"),
    ([[0.0, 1.0]], [[1.0, 0.0]], "list of finite"),
    (["a", "b"], [1.0, 0.0], "numbers"),
]


def test_invalid_tables_are_rejected():
    for distances, values, message in NO_TABLES:
        with pytest.raises(KernelError, match=message):
            TabulatedProfile(distances, values)
