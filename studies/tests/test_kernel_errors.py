"""Errors of the kernel against loops over pairs, and against the variance of draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from sklearn.base import clone

from gramless import RandomBinning
from gramless.base.errors import InputError
from gramless.features.exact import ExactKernel, exact_gram
from gramless.features.fourier import RandomFourier
from gramless.features.hybrid import Hybrid
from gramless.features.nystrom import Nystrom
from gramless.features.smooth import SmoothBinning
from gramless.inspection.explanation import sample_rows
from gramless.kernels import (
    ExponentialPower,
    Gaussian,
    Hat,
    InversePower,
    Laplacian,
    Mixture,
    Profile,
)
from studies.baselines.blocks import IndependentBlocks
from studies.kernel_errors import (
    claim_1_error,
    claim_2_error,
    curvature_at_zero,
    error_bounds,
    hoeffding_error,
    independent_draws,
    kernel_errors,
    slope_at_zero,
)

ROWS = np.random.default_rng(0).normal(size=(120, 3))

MAPS = {
    "binning": RandomBinning(random_state=3),
    "paired": RandomFourier(random_state=3),
    "shifted": RandomFourier(random_state=3, map="shifted"),
    "nystrom": Nystrom(random_state=3),
    "smooth": SmoothBinning(random_state=3),
}


def without_seconds(results):
    return [{**vars(one), "seconds": None} for one in results]


def test_errors_against_a_loop_over_pairs():
    for name in MAPS:
        template = clone(MAPS[name]).set_params(bandwidth=[1.0, 2.0, 3.0])
        (result,) = kernel_errors(template, ROWS, [16], n_rows=20, n_seeds=2)
        chosen = ROWS[sample_rows(len(ROWS), 20, 3, "rows judged")]
        exact = exact_gram(template, chosen)
        numbers = []
        for seed in (3, 4):
            own = template.resized(16).set_params(random_state=seed).fit(ROWS)
            Z = own.transform(chosen)
            Z = Z.toarray() if sp.issparse(Z) else Z
            errors = [abs(Z[i] @ Z[j] - exact[i, j]) for i in range(20) for j in range(i)]
            squares = [error**2 for error in errors]
            numbers.append((max(errors), np.mean(errors), np.mean(squares)))
        expected = np.mean(numbers, axis=0)
        np.testing.assert_allclose(
            [result.sup, result.mean, result.rms**2], expected, rtol=1e-4, atol=1e-7
        )
        assert (result.size, result.n_pairs) == (16, 190)


def test_the_exact_kernel_is_exact():
    (result,) = kernel_errors(ExactKernel(), ROWS, [1000], n_seeds=1)
    assert result.sup < 1e-4
    assert result.hoeffding is None


def test_blocks_miss_what_lies_between_them():
    (result,) = kernel_errors(IndependentBlocks(), ROWS, [40], n_seeds=1)
    (whole,) = kernel_errors(IndependentBlocks(), ROWS, [120], n_seeds=1)
    assert whole.sup < 1e-4 < 0.1 < result.sup


def variance(name, k, k_twice):
    return {"binning": k * (1 - k), "paired": (1 + k_twice - 2 * k**2) / 2}[name]


def test_squares_of_errors_are_the_variance_of_a_draw():
    for name, draws in [("binning", 64), ("paired", 32)]:
        rows = np.random.default_rng(1).uniform(-2, 2, size=(60, 2))
        template = clone(MAPS[name]).set_params(bandwidth=1.0)
        rms_error = kernel_errors(template, rows, [64], n_rows=60, n_seeds=80)[0].rms
        pairs = np.triu_indices(60, 1)
        k = exact_gram(template, rows)[pairs]
        k_twice = exact_gram(template, 2.0 * rows)[pairs]
        assert rms_error == pytest.approx(
            np.sqrt(variance(name, k, k_twice).mean() / draws), rel=0.03
        )


def test_bounds_hold():
    for name in ["binning", "paired", "shifted"]:
        results = kernel_errors(
            MAPS[name], ROWS, [64, 256, 1024], n_rows=50, n_seeds=1, failure=0.05
        )
        for one in results:
            assert one.sup < one.hoeffding
            assert one.mean < one.hoeffding_pair < one.hoeffding
            assert one.claim is None or one.claim > one.sup
        assert (results[-1].claim is None) == (name == "shifted")
        assert results[0].hoeffding == pytest.approx(4 * results[2].hoeffding)


def test_one_pair_is_outside_its_bound_as_rarely_as_promised():
    rows, failure = np.array([[0.0, 0.0], [0.5, 0.5]]), 0.5
    template = RandomBinning(bandwidth=1.0, random_state=0)
    runs = [
        kernel_errors(
            template.set_params(random_state=seed), rows, [32], failure=failure, n_seeds=1
        )
        for seed in range(30)
    ]
    outside = np.mean([run[0].sup > run[0].hoeffding_pair for run in runs])
    assert 0 < outside <= failure


def test_the_median_bandwidth_is_that_of_the_first_seed():
    (result,) = kernel_errors(RandomBinning(random_state=5), ROWS, [32], n_seeds=2)
    own = RandomBinning(random_state=5).fit(ROWS).bandwidth_
    given = RandomBinning(random_state=5, bandwidth=own)
    assert without_seconds([result]) == without_seconds(kernel_errors(given, ROWS, [32], n_seeds=2))


def test_threads_change_nothing():
    for name in MAPS:
        one, two = (
            kernel_errors(clone(MAPS[name]).set_params(n_jobs=n), ROWS, [32], n_rows=30, n_seeds=1)
            for n in (1, 2)
        )
        assert without_seconds(one) == without_seconds(two)


def test_sparse_rows_are_as_dense_ones():
    dense = np.where(ROWS > 0.8, ROWS, 0.0)
    dense = np.column_stack([dense, np.zeros(len(dense))])
    template = RandomBinning(bandwidth=1.5, random_state=0)
    one, two = (kernel_errors(template, X, [32], n_rows=40) for X in (dense, sp.csr_array(dense)))
    assert one[0].rms == pytest.approx(two[0].rms)
    assert exact_gram(template, sp.csr_array(dense[:5])) == pytest.approx(
        exact_gram(template, dense[:5])
    )


def test_categories_are_compared_as_the_map_does():
    codes = np.random.default_rng(2).integers(0, 3, size=(80, 2)).astype(float)
    template = RandomBinning(bandwidth=1.0, categorical=[0, 1], random_state=0)
    few, many = kernel_errors(template, codes, [32, 512], n_rows=40, n_seeds=4)
    assert few.rms / many.rms == pytest.approx(4.0, rel=0.4)
    assert few.claim is None


def test_bytes_are_those_kept():
    assert RandomFourier(n_components=64).fit_matrix(ROWS).nbytes == 120 * 64 * 4
    matrix = RandomBinning(n_grids=7).fit_matrix(ROWS)
    assert matrix.codes.nbytes <= matrix.nbytes
    blocks = IndependentBlocks(block_rows=60, random_state=0)
    assert blocks.fit_matrix(ROWS).nbytes == 2 * 60 * 60 * 4
    both = Hybrid([blocks, RandomFourier(n_components=8)]).fit_matrix(ROWS)
    assert both.nbytes == 2 * 60 * 60 * 4 + 120 * 8 * 4


WRONG_NUMBERS = [{"n_seeds": 0}, {"n_rows": 1}, {"sizes": []}, {"n_rows": 9.5}, {"n_seeds": 1.5}]


def test_numbers_that_are_none():
    for wrong in WRONG_NUMBERS:
        with pytest.raises(InputError, match="needs a size, a seed and two rows"):
            kernel_errors(RandomBinning(), ROWS, **{"sizes": [8], **wrong})


def test_what_is_no_probability():
    for failure in [-1.0, 0.0, 1.0, np.nan]:
        with pytest.raises(InputError, match="failure must be between 0 and 1"):
            kernel_errors(RandomBinning(), ROWS, [8], failure=failure)


def test_one_row_has_no_pairs():
    with pytest.raises(ValueError, match="minimum of 2"):
        kernel_errors(RandomBinning(), ROWS[:1], [8])


# The bounds of RR07, as printed and solved.


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


def test_curvature():
    for name in CURVATURES:
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


def test_slope():
    for name in SLOPES:
        kernel, expected = SLOPES[name]
        assert slope_at_zero(kernel) == pytest.approx(expected, rel=5e-3)


def test_draws_that_are_independent():
    assert independent_draws(RandomBinning(n_grids=5)) == (5, 1.0)
    assert independent_draws(RandomFourier(n_components=10, sampling="iid")) == (5, 2.0)
    assert independent_draws(RandomFourier(n_components=3, sampling="iid")) == (2, 8 / 3)
    assert independent_draws(RandomFourier(n_components=10, map="shifted", sampling="iid")) == (
        10,
        4.0,
    )
    assert independent_draws(RandomFourier(n_components=10, sampling="orthogonal")) is None
    assert independent_draws(RandomFourier(n_components=10)) is None


def bounds(feature_map, rows, bandwidth, categorical=False):
    mask = np.full(rows.shape[1], categorical)
    return error_bounds(feature_map, 10, rows, np.asarray(bandwidth, float), mask, 0.05)


def test_rows_are_measured_in_bandwidths_and_ignored_inputs_do_not_count():
    rows, bandwidth = np.array([[0.0, 0.0, 0.0], [3.0, 8.0, 100.0]]), [1.0, 2.0, np.inf]
    pair, every, claim = bounds(RandomFourier(n_components=2000, sampling="iid"), rows, bandwidth)
    assert pair == hoeffding_error(1000, 0.05)
    assert every == hoeffding_error(1000, 0.05, n_pairs=10)
    assert claim == pytest.approx(claim_1_error(0.05, 1000, 2, math.sqrt(2.0), 5.0))
    assert bounds(RandomFourier(map="shifted", sampling="iid"), rows, bandwidth)[2] is None
    assert bounds(RandomFourier(sampling="qmc"), rows, bandwidth) == (None, None, None)


def test_claim_2_for_grids_and_none_with_categories():
    rows, grids = np.array([[0.0, 0.0], [3.0, 4.0]]), RandomBinning(n_grids=64)
    claim = claim_2_error(0.05, 64, 2, 1.0, 5.0)
    assert bounds(grids, rows, [1.0, 1.0])[2] == pytest.approx(claim, rel=1e-4)
    pair, _, claim = bounds(grids, rows, [1.0, 1.0], categorical=True)
    assert pair == hoeffding_error(64, 0.05, spread=1.0)
    assert claim is None
