"""Contract of random binning: grids put two points together with the kernel's probability."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gramless.base.errors import InputError
from gramless.base.random import stream, streams
from gramless.kernels import ExponentialPower, InversePower, Laplacian

N_GRIDS = 400_000
DISTANCES = np.array([0.05, 0.2, 0.5, 0.8, 1.3, 2.0, 3.1])


def together(kernel, distances, bandwidth, generator, n_grids=N_GRIDS):
    """Bins agree or not, (n_grids, n_distances); grids of one input, all drawn at once."""
    widths = bandwidth * kernel.sample_widths(generator, (n_grids, 1))
    shifts = widths * generator.random((n_grids, 1))
    x = generator.uniform(-50.0, 50.0, size=(n_grids, 1))
    y = x + distances
    return np.floor((x - shifts) / widths) == np.floor((y - shifts) / widths)


def standard_errors_off(kernel, sampled_bandwidth, true_bandwidth, seed):
    """Largest deviation of the sampled from the exact kernel, in standard errors."""
    distances = DISTANCES * true_bandwidth
    hits = together(kernel, distances, sampled_bandwidth, stream(seed, "grids")).mean(axis=0)
    exact = kernel.gram([[0.0]], distances[:, None], bandwidth=true_bandwidth)[0]
    error = np.sqrt(np.maximum(exact * (1 - exact), 1.0 / N_GRIDS) / N_GRIDS)
    return np.max(np.abs(hits - exact) / error)


@pytest.mark.parametrize("bandwidth", [0.03, pytest.param(40.0, marks=pytest.mark.slow)])
def test_grids_are_unbiased(binning_kernel, bandwidth):
    assert standard_errors_off(binning_kernel, bandwidth, bandwidth, seed=3) < 4.0


@pytest.mark.parametrize("factor", [1.05, pytest.param(1 / 1.05, marks=pytest.mark.slow)])
def test_a_scale_five_per_cent_off_would_be_noticed(binning_kernel, factor):
    assert standard_errors_off(binning_kernel, factor, 1.0, seed=3) > 4.0


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


def test_many_grids_are_those_drawn_one_by_one(binning_kernel):
    bandwidth = np.array([0.7, np.inf, 2.0])
    for n_grids in (1, 6):
        drawn = binning_kernel.sample_grids(streams(5, "grids", n_grids), n_grids, bandwidth)
        for r in range(n_grids):
            generator = stream(5, "grids", r)
            widths = bandwidth * binning_kernel.sample_widths(generator, (3,))
            shares = generator.random(3)
            assert drawn[0][r].tolist() == widths.tolist()
            assert drawn[1][r].tolist() == [widths[0] * shares[0], 0.0, widths[2] * shares[2]]


def test_widths_follow_the_distribution_of_the_profile(binning_kernel):
    # The Dvoretzky-Kiefer-Wolfowitz bound at one in ten thousand; the slope of the profile comes
    # from central differences, so the points keep away from round numbers, where kinks are.
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


@pytest.mark.parametrize(
    ("kernel", "distribution"),
    [
        (Laplacian(), stats.gamma(2)),
        (ExponentialPower(power=1.0), stats.gamma(2)),
        (InversePower(power=1.5), stats.betaprime(2, 1.5)),
    ],
)
def test_widths_follow_the_textbook_distribution(kernel, distribution):
    widths = kernel.sample_widths(stream(8, "grids"), (20_000,))
    assert stats.kstest(widths, distribution.cdf).pvalue > 1e-3


def test_error_falls_with_the_square_root_of_the_number_of_grids(binning_kernel):
    sizes = np.array([16, 64, 256, 1024, 4096])
    distances = np.array([0.1, 0.3, 0.6, 0.9])
    hits = together(binning_kernel, distances, 1.0, stream(9, "grids"), n_grids=4096 * 60)
    exact = binning_kernel.profile(distances)
    errors = [
        np.sqrt(np.mean((hits.reshape(-1, size, distances.size).mean(axis=1) - exact) ** 2))
        for size in sizes
    ]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.1)


def test_a_grid_is_fixed_by_its_stream_and_stretches_with_the_bandwidth(binning_kernel):
    widths, shifts = binning_kernel.sample_grid(stream(1, "grids", 4), np.ones(5))
    again = binning_kernel.sample_grid(stream(1, "grids", 4), np.ones(5))
    np.testing.assert_array_equal(again, (widths, shifts))
    stretched = binning_kernel.sample_grid(stream(1, "grids", 4), np.full(5, 3.0))
    np.testing.assert_allclose(stretched, (3.0 * widths, 3.0 * shifts))


def test_an_ignored_input_gets_one_bin_and_changes_no_other(binning_kernel):
    widths, shifts = binning_kernel.sample_grid(stream(1, "grids"), np.array([1.0, 2.0, 1.0]))
    fewer = binning_kernel.sample_grid(stream(1, "grids"), np.array([1.0, np.inf, 1.0]))
    assert fewer[0][1] == np.inf
    assert fewer[1][1] == 0.0
    np.testing.assert_array_equal(np.array(fewer)[:, [0, 2]], np.array([widths, shifts])[:, [0, 2]])


def test_widths_have_the_asked_shape_and_shifts_lie_inside(binning_kernel):
    assert binning_kernel.sample_widths(stream(0, "grids"), (2, 3, 4)).shape == (2, 3, 4)
    assert binning_kernel.sample_widths(stream(0, "grids"), ()).shape == ()
    widths, shifts = binning_kernel.sample_grid(stream(0, "grids"), np.ones(1000))
    assert np.all((shifts >= 0) & (shifts < widths))


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
def test_grids_refuse_senseless_bandwidths(bandwidth):
    with pytest.raises(InputError, match="bandwidth must be"):
        Laplacian().sample_grid(stream(0, "grids"), bandwidth)
