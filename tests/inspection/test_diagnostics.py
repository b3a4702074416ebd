"""nu, kappa, the law of speed-up and Theorem 1's estimate against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from gramless import RandomBinning
from gramless.base.errors import InputError
from gramless.inspection.diagnostics import (
    Diagnostics,
    diagnose,
    law_of_speedup,
    summarise,
)
from gramless.kernels import Laplacian
from gramless.losses import Logistic, Multinomial, SmoothPinball, Squared
from gramless.matrices.binned import BinnedMatrix, fullest_shares


def test_diagnostics_are_means_over_grids():
    codes = np.array([[1, 2, 1, 1], [0, 1, 0, 2], [3, 1, 2, 1]], np.uint8)
    result = diagnose(BinnedMatrix(codes, np.array([0, 2, 4, 7])))
    shares = [0.75, 0.25, 0.5]
    assert (result.n_grids, result.n_columns) == (3, 7)
    assert result.nu == pytest.approx(np.mean(shares), rel=1e-14)
    assert result.kappa == pytest.approx(np.mean([1 / share for share in shares]), rel=1e-14)
    assert result.kappa_bar == 7 / 3
    with pytest.raises(InputError, match="at least one row"):
        diagnose(BinnedMatrix(codes[:, :0], np.array([0, 2, 4, 7])))
    with pytest.raises(InputError, match="rows in a bin of each grid"):
        diagnose(BinnedMatrix(np.zeros((1, 4), np.uint8), np.array([0, 2])))


def test_diagnostics_match_attributes_of_the_feature_map():
    X = np.random.default_rng(0).normal(size=(300, 3))
    binning = RandomBinning(bandwidth=2.0, n_grids=21, random_state=0)
    matrix = binning.fit_matrix(X)
    np.testing.assert_allclose(fullest_shares(matrix), binning.nu_, rtol=1e-12)
    result = diagnose(matrix)
    assert result.nu == pytest.approx(binning.nu_.mean(), rel=1e-12)
    assert result.kappa == pytest.approx(binning.kappa_, rel=1e-12)
    assert result.kappa_bar == pytest.approx(binning.kappa_bar_, rel=1e-12)
    assert 1.0 / result.nu <= result.kappa <= result.kappa_bar
    assert summarise(binning.nu_, matrix.shape[1]).kappa == pytest.approx(result.kappa, rel=1e-12)


def test_summarise_rejects_invalid_shares():
    for shares in [[], [0.5, 0.0], [0.5, np.nan], [1.5]]:
        with pytest.raises(InputError, match="at least one grid"):
            summarise(np.array(shares), 5)


SIZES = [(1, 7), (2, 3), (8, 8), (8, 11), (64, 5000), (512, 10**6)]


def sized(n_grids, n_columns):
    return Diagnostics(n_grids, n_columns, nu=0.5, kappa=2.0)


def test_speedup_matches_the_paper():
    for n_grids, n_columns in SIZES:
        result = sized(n_grids, n_columns)
        for tau in (1, 2, 3.5, 8, 64, 10_000):
            expected = tau / (1 + (n_grids - 1) * (tau - 1) / (n_columns - 1))
            assert result.speedup(tau) == pytest.approx(expected, rel=1e-13)


def test_speedup_increases_up_to_its_limit():
    for n_grids, n_columns in SIZES:
        result = sized(n_grids, n_columns)
        values = np.array([result.speedup(tau) for tau in np.geomspace(1, 1e12, 200)])
        assert values[0] == 1.0
        assert (np.diff(values) >= -1e-12 * values[1:]).all()
        assert (values <= result.speedup_limit * (1 + 1e-12)).all()
        if n_grids > 1:
            assert values[-1] == pytest.approx(result.speedup_limit, rel=1e-5)
        else:
            assert result.speedup_limit == np.inf


def test_speedup_of_diagnostics_equals_law_of_speedup():
    assert sized(8, 40).speedup(7.5) == law_of_speedup(7.5, n_nonzeros=8, n_columns=40)


def test_dense_features_have_no_speedup():
    assert sized(50, 50).speedup(64) == pytest.approx(1.0)
    assert sized(1, 1).speedup(64) == pytest.approx(1.0)


def test_speedup_of_many_grids_approaches_equation_30():
    result = sized(2000, 2000 * 300)
    for a in (0.1, 1.0, 30.0):
        expected = (a * result.kappa_bar + 1) / (1 + a)
        assert result.speedup(a * result.kappa_bar + 1) == pytest.approx(expected, rel=1e-3)
    assert result.speedup_limit == pytest.approx(result.kappa_bar, rel=1e-3)


def test_speedup_needs_at_least_one_thread():
    for threads in [0, 0.5, -3, np.nan]:
        with pytest.raises(InputError, match="at least 1"):
            sized(4, 40).speedup(threads)


def test_error_estimate_matches_its_formula():
    for loss in [Squared(), Logistic(), Multinomial(), SmoothPinball(0.9, 0.1)]:
        for shape in [(40,), (40, 3)]:
            weights = np.random.default_rng(0).normal(size=shape)
            squares = sum(float(w) ** 2 for w in weights.ravel())
            expected = loss.smoothness * squares / (2.0 * 4)
            assert sized(4, 40).error_estimate(loss, weights) == pytest.approx(expected, rel=1e-12)


def test_error_estimate_rejects_weights_of_another_length():
    with pytest.raises(InputError, match="one row per column, got 41"):
        sized(4, 40).error_estimate(Squared(), np.zeros(41))


def ridge(features, y, alpha):
    """Return the least objective of RB16's equation 1 and the weights that reach it."""
    n = len(y)
    weights = np.linalg.solve(
        features.T @ features + n * alpha * np.eye(features.shape[1]), features.T @ y
    )
    errors = features @ weights - y
    return 0.5 * np.mean(errors**2) + 0.5 * alpha * weights @ weights, weights


def test_error_estimate_is_near_the_bound_of_theorem_1():
    rng, alpha = np.random.default_rng(1), 1e-2
    X = rng.uniform(-2, 2, size=(60, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    # A root of the exact Gram matrix is what infinitely many grids would give.
    values, vectors = np.linalg.eigh(Laplacian().gram(X, bandwidth=2.0))
    best, reference = ridge(vectors * np.sqrt(np.maximum(values, 0.0)), y, alpha)
    gaps, estimates = [], []
    for seed in range(20):
        matrix = RandomBinning(bandwidth=2.0, n_grids=64, random_state=seed).fit_matrix(X)
        reached, weights = ridge(matrix.toarray(), y, alpha)
        gaps.append(reached - best)
        estimates.append(diagnose(matrix).error_estimate(Squared(), weights))
    kappa, square = diagnose(matrix).kappa, float(reference @ reference)
    c = np.ceil(2 * kappa * (0.5 * np.mean(y**2) - best) / square)
    assert 0 < np.mean(gaps) <= square / (kappa * (64 - c))
    assert np.mean(estimates) == pytest.approx(square / (kappa * 64), rel=0.2)
