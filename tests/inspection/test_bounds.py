"""RR07's bounds against their printed formulas, and against what draws do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from gramless import RandomBinning
from gramless.features.fourier import RandomFourier
from gramless.inspection.kernel_errors import (
    Bounds,
    claim_1_error,
    claim_2_error,
    curvature_at_zero,
    hoeffding_error,
    independent_draws,
    slope_at_zero,
)
from gramless.kernels import (
    ExponentialPower,
    Gaussian,
    Hat,
    InversePower,
    Laplacian,
    Mixture,
    Profile,
)


def claim_1_failure(error, n, d, sigma, diameter):
    """Return RR07's Claim 1 as printed."""
    return 2**8 * (sigma * diameter / error) ** 2 * math.exp(-n * error**2 / (4 * (d + 2)))


def claim_2_failure(error, n, d, slope, diameter):
    """Return RR07's Claim 2 as printed."""
    exponent = (n * error**2 / 8 + math.log(error / slope)) / (d + 1)
    return 36 * d * n * slope * diameter * math.exp(-exponent)


FAILURES = st.floats(1e-12, 0.5)
DRAWS = st.integers(1, 1 << 20)
INPUTS = st.integers(1, 2000)
LENGTHS = st.floats(1e-3, 1e4)


@given(DRAWS, FAILURES, st.sampled_from([1.0, 2.0, 4.0]), st.integers(1, 10**6))
def test_hoeffding_solves_its_inequality(n, failure, spread, pairs):
    error = hoeffding_error(n, failure, spread=spread, n_pairs=pairs)
    assert pairs * 2 * math.exp(-2 * n * error**2 / spread**2) == pytest.approx(failure)


def test_hoeffding_as_printed():
    error = hoeffding_error(700, 0.01)
    assert 2 * math.exp(-700 * error**2 / 2) == pytest.approx(0.01)


@given(FAILURES, DRAWS, INPUTS, LENGTHS, LENGTHS)
def test_claim_1_solves_what_is_printed(failure, n, d, sigma, diameter):
    error = claim_1_error(failure, n, d, sigma, diameter)
    log = 8 * math.log(2) + 2 * math.log(sigma * diameter / error) - n * error**2 / (4 * (d + 2))
    assert log == pytest.approx(math.log(failure), abs=1e-6)


@given(FAILURES, DRAWS, INPUTS, LENGTHS, LENGTHS)
def test_claim_2_solves_what_is_printed(failure, n, d, slope, diameter):
    error = claim_2_error(failure, n, d, slope, diameter)
    exponent = (n * error**2 / 8 + math.log(error / slope)) / (d + 1)
    log = math.log(36 * d * n * slope * diameter) - exponent
    assert log == pytest.approx(math.log(failure), abs=1e-6)


@pytest.mark.parametrize(
    ("claim", "solved"), [(claim_1_failure, claim_1_error), (claim_2_failure, claim_2_error)]
)
def test_claims_against_a_root_finder(claim, solved):
    root = brentq(lambda error: claim(error, 5000, 4, 1.5, 7.0) - 0.05, 0.05, 5.0)
    assert solved(0.05, 5000, 4, 1.5, 7.0) == pytest.approx(root)


def test_no_extent_no_error_and_no_moment_no_bound():
    assert claim_1_error(0.05, 100, 2, 1.0, 0.0) == 0.0
    assert claim_1_error(0.05, 100, 2, math.inf, 1.0) == math.inf
    assert claim_2_error(0.05, 100, 2, math.inf, 1.0) == math.inf


CURVATURES = {
    "gaussian": (Gaussian(), 1.0),
    "laplacian": (Laplacian(), math.inf),
    "inverse power": (InversePower(3.0), math.inf),
    "exponential power": (ExponentialPower(0.5), math.inf),
}


@pytest.mark.parametrize("name", CURVATURES)
def test_curvature(name):
    kernel, expected = CURVATURES[name]
    assert curvature_at_zero(kernel) == pytest.approx(expected, rel=1e-6)


SLOPES = {
    "laplacian": (Laplacian(), 1.0),
    "hat": (Hat(), 1.0),
    "inverse power": (InversePower(3.0), 3.0),
    "mixture": (Mixture([Laplacian(), Hat()], [0.25, 0.75], [0.5, 2.0]), 0.875),
    "exponential power": (ExponentialPower(0.5), math.inf),
    "straight lines": (Profile(lambda t: np.exp(-t)), 1.0),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slope(name):
    kernel, expected = SLOPES[name]
    assert slope_at_zero(kernel) == pytest.approx(expected, rel=5e-3)


def test_draws_that_are_independent():
    assert independent_draws(RandomBinning(n_grids=5)) == (5, 1.0)
    assert independent_draws(RandomFourier(n_components=10, sampling="iid")) == (5, 2.0)
    assert independent_draws(RandomFourier(n_components=10, map="shifted", sampling="iid")) == (
        10,
        4.0,
    )
    assert independent_draws(RandomFourier(n_components=10, sampling="orthogonal")) is None
    assert independent_draws(RandomFourier(n_components=10)) is None


def bounds(rows, bandwidth, kernel, categorical=False):
    mask = np.full(rows.shape[1], categorical)
    return Bounds.of(kernel, rows, np.asarray(bandwidth, float), mask, 0.05)


def test_rows_are_measured_in_bandwidths_and_ignored_inputs_do_not_count():
    rows = np.array([[0.0, 0.0, 0.0], [3.0, 8.0, 100.0]])
    found = bounds(rows, [1.0, 2.0, np.inf], Gaussian())
    assert (found.n_inputs, found.diameter) == (2, 5.0)
    pair, every, claim = found.at(RandomFourier(n_components=2000, sampling="iid"), 10)
    assert pair == hoeffding_error(1000, 0.05)
    assert every == hoeffding_error(1000, 0.05, n_pairs=10)
    assert claim == pytest.approx(claim_1_error(0.05, 1000, 2, math.sqrt(2.0), 5.0))
    assert found.at(RandomFourier(map="shifted", sampling="iid"), 10)[2] is None
    assert found.at(RandomFourier(sampling="qmc"), 10) == (None, None, None)


def test_claim_2_for_grids_and_none_with_categories():
    rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    found = bounds(rows, [1.0, 1.0], Laplacian())
    claim = claim_2_error(0.05, 64, 2, 1.0, 5.0)
    assert found.at(RandomBinning(n_grids=64), 10)[2] == pytest.approx(claim, rel=1e-4)
    found = bounds(rows, [1.0, 1.0], Laplacian(), categorical=True)
    pair, _, claim = found.at(RandomBinning(n_grids=64), 10)
    assert pair == hoeffding_error(64, 0.05, spread=1.0)
    assert claim is None
