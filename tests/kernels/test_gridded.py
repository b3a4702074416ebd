"""Contract of random binning: grids put two points together with the kernel's probability."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.base.random import stream, streams
from gramless.kernels import ExponentialPower, InversePower, Laplacian
from tests.kernels.conftest import BINNING_KERNELS

N_GRIDS = 400_000
DISTANCES = np.array([0.05, 0.2, 0.5, 0.8, 1.3, 2.0, 3.1])


def together(kernel, distances, bandwidth, generator, n_grids=N_GRIDS):
    """Bins agree or not, (n_grids, n_distances); grids of one input, all drawn at once."""
    widths = bandwidth * kernel.sample_widths(generator, (n_grids, 1))
    shifts = widths * generator.random((n_grids, 1))
    x = generator.uniform(-50.0, 50.0, size=(n_grids, 1))
    y = x + distances
    return np.floor((x - shifts) / widths) == np.floor((y - shifts) / widths)


@pytest.mark.parametrize("bandwidth", [0.03, pytest.param(40.0, marks=pytest.mark.slow)])
def test_grids_are_unbiased_and_five_percent_error_is_detected(binning_kernel, bandwidth):
    """Distances from the exact kernel in standard errors; the same draws judge every scale."""
    distances = DISTANCES * bandwidth
    hits = together(binning_kernel, distances, bandwidth, stream(3, "grids")).mean(axis=0)
    for factor, is_right in ((1.0, True), (1.05, False), (1 / 1.05, False)):
        exact = binning_kernel.gram([[0.0]], distances[:, None], bandwidth=factor * bandwidth)[0]
        error = np.sqrt(np.maximum(exact * (1 - exact), 1.0 / N_GRIDS) / N_GRIDS)
        assert (np.max(np.abs(hits - exact) / error) < 4.0) == is_right, factor


def test_grids_are_unbiased_over_several_inputs(binning_kernel):
    bandwidth = np.array([0.7, np.inf, 2.0])
    x, y = np.array([0.2, 5.0, -1.0]), np.array([0.5, -9.0, -1.6])
    n_grids = 2000
    drawn = binning_kernel.sample_grids(streams(5, "grids", n_grids), n_grids, bandwidth)
    hits = 0
    for widths, shifts in zip(*drawn, strict=True):
        hits += np.array_equal(np.floor((x - shifts) / widths), np.floor((y - shifts) / widths))
    exact = binning_kernel.gram([x], [y], bandwidth=bandwidth)[0, 0]
    assert abs(hits / n_grids - exact) < 4 * np.sqrt(exact * (1 - exact) / n_grids)


def test_many_grids_equal_single_draws():
    for binning_kernel in BINNING_KERNELS.values():
        bandwidth = np.array([0.7, np.inf, 2.0])
        for n_grids in (1, 6):
            drawn = binning_kernel.sample_grids(streams(5, "grids", n_grids), n_grids, bandwidth)
            for r in range(n_grids):
                generator = stream(5, "grids", r)
                widths = bandwidth * binning_kernel.sample_widths(generator, (3,))
                shares = generator.random(3)
                assert drawn[0][r].tolist() == widths.tolist()
                assert drawn[1][r].tolist() == [widths[0] * shares[0], 0.0, widths[2] * shares[2]]


def test_widths_follow_the_distribution_of_the_profile():
    # The Dvoretzky-Kiefer-Wolfowitz bound at one in ten thousand; the slope of the profile comes
    # from central differences, so the points keep away from round numbers, where kinks are.
    for binning_kernel in BINNING_KERNELS.values():
        n = 50_000
        widths = np.sort(binning_kernel.sample_widths(stream(7, "grids"), (n, 1))[:, 0])
        points = np.geomspace(1.1e-3, 0.97e3, 400)
        step = 1e-5 * points
        slope = (binning_kernel.profile(points + step) - binning_kernel.profile(points - step)) / (
            2 * step
        )
        distribution = 1.0 - binning_kernel.profile(points) + points * slope
        measured = np.searchsorted(widths, points, side="right") / n
        assert np.max(np.abs(measured - distribution)) < np.sqrt(np.log(2 / 1e-4) / (2 * n))


def test_grid_scales_with_the_bandwidth():
    for binning_kernel in BINNING_KERNELS.values():
        widths, shifts = binning_kernel.sample_grid(stream(1, "grids", 4), np.ones(5))
        again = binning_kernel.sample_grid(stream(1, "grids", 4), np.ones(5))
        np.testing.assert_array_equal(again, (widths, shifts))
        stretched = binning_kernel.sample_grid(stream(1, "grids", 4), np.full(5, 3.0))
        np.testing.assert_allclose(stretched, (3.0 * widths, 3.0 * shifts))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "kernel", [ExponentialPower(power=1e-3), InversePower(power=1e-3), InversePower(power=1e3)]
)
def test_extreme_powers_give_usable_widths(kernel):
    widths = kernel.sample_widths(stream(2, "grids"), (10_000,))
    assert np.all((widths >= 2.0**-40) & (widths <= 2.0**60))
    hits = np.mean(np.maximum(0.0, 1.0 - 0.5 / widths))
    assert hits == pytest.approx(float(kernel.profile(np.array(0.5))), abs=0.02)


@pytest.mark.parametrize("bandwidth", [[1.0, 0.0], [np.nan], np.ones((2, 2))])
def test_grids_reject_invalid_bandwidths(bandwidth):
    with pytest.raises(InputError, match="bandwidth must be"):
        Laplacian().sample_grid(stream(0, "grids"), bandwidth)
