"""The kernel of weighted bins: exact values, windows, and the plain bins of the same widths."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from gramless import RandomBinning
from gramless.base.errors import InputError, KernelError
from gramless.base.random import stream
from gramless.kernels.windowed import GammaHats, Windowed

KERNELS = {
    "default": Windowed(),
    "flat": Windowed(depth=0.0, shape=2.0),
    "deep": Windowed(depth=1.0, shape=2.0),
    "prototype": Windowed("cosine", depth=2 / 3, shape=8.0),
    "hann": Windowed("cosine", depth=1.0, shape=3.5),
    "one_width": Windowed(depth=0.6, shape=1000.0),
}
DISTANCES = np.array([1e-6, 1e-3, 0.02, 0.1, 0.3, 0.7, 1.3, 1.77, 1.93, 2.01, 2.3, 3.1, 6.0])


@pytest.fixture(params=KERNELS.values(), ids=KERNELS.keys())
def kernel(request: pytest.FixtureRequest) -> Windowed:
    return request.param


def window(kernel, u):
    """Write the windows of the docstring out."""
    if kernel.window == "parabola":
        return 1 - kernel.depth * (2 * u) ** 2
    return 1 - kernel.depth * (1 - np.cos(2 * np.pi * u)) / 2


@cache
def nodes():
    return np.polynomial.legendre.leggauss(64)


def correlation(kernel, s):
    """Integrate ``f(u) f(u + s)`` over the places where both points are inside the cell."""
    x, weights = nodes()
    u = -0.5 + (x + 1) / 2 * (1 - s)
    return weights @ (window(kernel, u) * window(kernel, u + s)) / 2 * (1 - s)


def slow_profile(kernel, distance):
    """Integrate over the widths by an adaptive rule."""
    distribution = stats.gamma(kernel.shape, scale=2 / kernel.shape)
    norm = correlation(kernel, 0.0)
    top = distribution.isf(1e-18)
    if distance >= top:
        return 0.0
    cuts = [distance, *(distribution.ppf([1e-12, 1e-4, 0.1, 0.5, 0.9, 0.9999])), 2 * distance, top]
    cuts = sorted({min(max(cut, distance), top) for cut in cuts})
    parts = [
        integrate.quad(
            lambda width: distribution.pdf(width) * correlation(kernel, distance / width) / norm,
            *(a, b),
            epsabs=1e-12,
            epsrel=1e-10,
        )[0]
        for a, b in pairwise(cuts)
    ]
    return sum(parts)


def test_profile_is_the_mean_overlap(kernel):
    slow = [slow_profile(kernel, distance) for distance in DISTANCES]
    np.testing.assert_allclose(kernel.profile(DISTANCES), slow, rtol=0, atol=1e-9)


def test_profile_falls_from_one_to_zero():
    for kernel in KERNELS.values():
        distance = np.append(0.0, np.geomspace(1e-9, 1e11, 3000))
        result = kernel.profile(distance)
        assert result[0] == 1.0
        assert (np.diff(result) <= 1e-15).all()
        assert 0.0 <= result[-1] < 1e-30
        assert 0.0 <= kernel.profile(np.array(np.inf)) < 1e-30
        for shape in ((), (2, 3), (0,)):
            assert kernel.profile(np.ones(shape)).shape == shape


def test_profile_is_never_below_zero():
    # Each of them ends a rounding below 0 on some processors, before it is cut off.
    for kernel in (
        Windowed(depth=0.5, shape=500.0),
        Windowed(depth=0.6, shape=1000.0),
        Windowed(depth=1.0, shape=10.0),
        Windowed("cosine", depth=0.1, shape=300.0),
    ):
        assert kernel.profile(np.array([100.0, 1e11, np.inf])).min() >= 0.0


def test_slope_at_zero_is_proportional_to_the_edge():
    for kernel in KERNELS.values():
        step = np.array([1e-6])
        edge = window(kernel, 0.5) ** 2 / correlation(kernel, 0.0)
        slope, plain = (1 - of.profile(step)[0] for of in (kernel, kernel.grids))
        assert slope == pytest.approx(edge * plain, rel=1e-3, abs=1e-10)


def test_zero_depth_equals_plain_bins():
    distance = np.linspace(0, 40, 4001)
    for shape in (2.0, 7.5, 30.0, 1000.0):
        for name in ("parabola", "cosine"):
            flat = Windowed(name, depth=0.0, shape=shape).profile(distance)
            np.testing.assert_allclose(flat, GammaHats(shape).profile(distance), atol=1e-11)


def test_bins_of_shape_two_are_laplacian():
    distance = np.linspace(0, 40, 4001)
    np.testing.assert_allclose(GammaHats(2.0).profile(distance), np.exp(-distance), atol=1e-15)
    np.testing.assert_allclose(
        Windowed(depth=0, shape=2).profile(distance), np.exp(-distance), atol=1e-11
    )
    widths = GammaHats(2.0).sample_widths(stream(0, "grids"), (20_000,))
    assert stats.kstest(widths, stats.gamma(2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("shape", [2.0, 5.0, 30.0, 1000.0])
def test_hats_of_gamma_widths_match_the_formula(shape):
    kernel, distance = GammaHats(shape), np.linspace(0.0, 10.0, 4001)
    result = kernel.profile(distance)
    assert (np.diff(result, 2) > -1e-14).all()
    widths = kernel.sample_widths(stream(1, "grids"), (200_000,))
    assert stats.kstest(widths[:20_000], stats.gamma(shape, scale=2 / shape).cdf).pvalue > 1e-3
    for t in (0.3, 1.0, 1.9):
        hats = np.maximum(0.0, 1.0 - t / widths)
        assert abs(hats.mean() - kernel.profile(np.array(t))) < 4 * hats.std() / np.sqrt(len(hats))
    assert kernel.profile(np.array([0.0, np.inf, 1e300])).tolist() == [1.0, 0.0, 0.0]


def test_random_binning_rejects_windowed_kernels():
    with pytest.raises(KernelError, match=r"Windowed kernel has no random binning.*SmoothBinning"):
        RandomBinning(Windowed()).fit(np.ones((3, 2)))


def test_coefficients_are_the_window_over_its_root_mean_square():
    for kernel in KERNELS.values():
        u = np.linspace(-0.5, 0.5, 101)
        result = np.polynomial.polynomial.polyval(u**2, kernel.coefficients)
        expected = window(kernel, u) / np.sqrt(correlation(kernel, 0.0))
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13)
        fourth = integrate.quad(lambda v, kernel=kernel: window(kernel, v) ** 4, -0.5, 0.5)[0]
        assert kernel.fourth_moment == pytest.approx(
            fourth / correlation(kernel, 0.0) ** 2, rel=1e-10
        )


def test_depth_is_limited_by_the_inputs():
    assert Windowed.for_inputs(0) == Windowed.for_inputs(1) == Windowed(depth=0.8)
    depths = [Windowed.for_inputs(d).depth for d in (8, 10, 21, 100, 784, 10**6)]
    assert (np.diff(depths) < 0).all()
    assert depths[-1] > 0
    for n_inputs in (21, 784):
        moment = Windowed.for_inputs(n_inputs).fourth_moment
        assert moment**n_inputs == pytest.approx(8.0, rel=1e-6)
    with pytest.raises(InputError, match="number of inputs"):
        Windowed.for_inputs(-1)


REFUSED = [
    ({"window": "hann"}, "'parabola', 'cosine'"),
    ({"window": None}, "'parabola', 'cosine'"),
    ({"depth": -0.1}, "depth"),
    ({"depth": 1.01}, r"\[0, 1\]"),
    ({"depth": None}, "depth"),
    ({"depth": np.nan}, "depth"),
    ({"shape": 1.9}, r"\[2, 1000\]"),
    ({"shape": 1001}, r"\[2, 1000\]"),
    ({"shape": "many"}, "shape"),
]


def test_invalid_parameters_are_rejected():
    for options, message in REFUSED:
        kinds = (Windowed, GammaHats) if "shape" in options else (Windowed,)
        for kind in kinds:
            with pytest.raises(KernelError, match=message):
                kind(**options)
