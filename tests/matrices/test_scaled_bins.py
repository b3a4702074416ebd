"""Weights of scaled bins as weights of the bins themselves, and back."""

from __future__ import annotations

import numpy as np

from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import HStack, with_ones, without_ones
from gramless.matrices.weighted import (
    ScaledBins,
    remove_factors,
    round_factors,
    scale_bins,
    scale_weights,
    unscale_weights,
)
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.objective import Problem

RNG = np.random.default_rng(0)
BINS = BinnedMatrix(RNG.integers(1, 6, (7, 80)).astype(np.uint8), 5 * np.arange(8), scale=1.0)
DENSE = DenseMatrix(RNG.normal(size=(80, 3)))
FACTORS = round_factors(RNG.uniform(0.2, 2.0, 35))


def wholes() -> list[FeatureMatrix]:
    return [BINS, HStack([BINS, DENSE], [1.0, 0.5])]


def test_unscaled_weights_give_the_same_responses() -> None:
    for plain in wholes():
        scaled = scale_bins(plain, FACTORS)
        for tail in [(), (2,)]:
            # The last one is that of an intercept.
            w = RNG.normal(size=(plain.shape[1] + 1, *tail))
            of_scaled = scale_weights(scaled, w)
            np.testing.assert_allclose(scaled.matvec(of_scaled[:-1]), plain.matvec(w[:-1]))
            np.testing.assert_allclose(unscale_weights(scaled, of_scaled), w)
            assert unscale_weights(plain, w) is w
            assert scale_weights(plain, w) is w


def test_plain_matrix_returns_the_bins() -> None:
    for plain in wholes():
        assert remove_factors(plain) is plain
        np.testing.assert_array_equal(
            remove_factors(scale_bins(plain, FACTORS)).toarray(), plain.toarray()
        )


def test_intercept_is_not_scaled() -> None:
    scaled = scale_bins(with_ones(BINS), FACTORS)
    assert without_ones(scaled)[1] == 1
    np.testing.assert_array_equal(scaled.toarray()[:, -1], 1.0)


def test_penalty_is_divided_by_squared_factors() -> None:
    scaled, y, alpha = ScaledBins(BINS, FACTORS), RNG.normal(size=80), 0.1
    result = ConjugateGradient(tol=1e-12).solve(Problem(scaled, y, L2(alpha))).weights
    Z, penalties = BINS.toarray(), alpha / scaled.factors**2
    expected = np.linalg.solve(Z.T @ Z / 80 + np.diag(penalties), Z.T @ y / 80)
    np.testing.assert_allclose(unscale_weights(scaled, result), expected, atol=1e-8)


def test_single_precision_holds_squares_of_rounded_factors() -> None:
    given = np.concatenate([RNG.uniform(1e-6, 1e6, 1000), [0.0]])
    result = round_factors(given)
    np.testing.assert_allclose(result, given, rtol=1.0 / 4096)
    np.testing.assert_array_equal((result**2).astype(np.float32), result**2)
