"""Draws of a ridge fit's posterior against dense covariances and scikit-learn's process."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.linalg
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

from gramless import RandomBinning
from gramless.base.errors import InputError
from gramless.losses import Logistic
from gramless.matrices.stacked import with_ones
from gramless.penalties import L1, L2
from gramless.solvers.objective import Problem
from gramless.uncertainty.posterior import Posterior, unseen_squares

MANY = 4000
OPTIONS = [
    {},
    {"weighted": True},
    {"intercept": True, "weighted": True},
    {"intercept": True, "alpha": 1e-5},
    {"intercept": True, "n_outputs": 3},
]


def make_problem(*, intercept=False, weighted=False, n_outputs=None, alpha=1e-2, n_rows=50):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 2))
    shape = (n_rows,) if n_outputs is None else (n_rows, n_outputs)
    y = (X[:, 0] + 0.3 * rng.normal(size=shape[::-1])).T + 5.0
    weights = rng.uniform(0.1, 3.0, n_rows) if weighted else None
    if weighted:
        weights[::10] = 0.0
    Z = binning().fit_matrix(X)
    matrix = with_ones(Z) if intercept else Z
    return X, Problem(matrix, y, L2(alpha, n_free=int(intercept)), sample_weight=weights)


def binning():
    return RandomBinning(bandwidth=3.0, n_grids=16, random_state=0)


def counts(problem):
    """Return the rows' weights with a mean of 1 over those that have any."""
    return problem.row_weights * np.count_nonzero(problem.row_weights)


def hessian(problem):
    Z = problem.matrix.tocsr().toarray()
    ridge = problem.penalty.diagonal(np.zeros(Z.shape[1]))
    return Z, (Z.T * problem.row_weights) @ Z + np.diag(ridge)


def covariance(problem, F):
    """Return the covariance of the function at rows of features, for noise of variance 1."""
    solved = np.linalg.lstsq(hessian(problem)[1], F.T, rcond=1e-12)[0]
    return F @ solved / np.count_nonzero(problem.row_weights)


def degrees_left(problem):
    """Return the number of rows less the effective dimension."""
    Z, H = hessian(problem)
    solved = np.linalg.lstsq(H, Z.T * problem.row_weights, rcond=1e-12)[0]
    return np.count_nonzero(problem.row_weights) - np.trace(Z @ solved)


@cache
def sampled(**options):
    """Return the rows, their problem and its posterior."""
    X, problem = make_problem(**options)
    return X, problem, Posterior.sample(problem, MANY)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_draws_have_the_posterior_covariance(options):
    X, problem, result = sampled(**options)
    new = binning().fit(X).feature_matrix(np.random.default_rng(1).normal(size=(30, 2)))
    F = (with_ones(new) if options.get("intercept") else new).tocsr().toarray()
    truth = covariance(problem, F)
    drawn = F @ result.draws
    error = np.sqrt((np.outer(truth.diagonal(), truth.diagonal()) + truth**2) / MANY)
    assert (np.abs(drawn @ drawn.T / MANY - truth) < 5 * error).all()
    # Whitened, they are independent numbers of variance 1: this catches a scale wrong by 1 %.
    values, vectors = scipy.linalg.eigh(truth)
    kept = values > 1e-6 * values[-1]
    white = vectors[:, kept].T @ drawn / np.sqrt(values[kept, None])
    error = np.sqrt(2.0 / white.size)
    assert abs((white**2).mean() - 1.0) < 4 * error < 0.02
    assert (np.abs(white.mean(axis=1)) < 5 / np.sqrt(MANY)).all()


@pytest.mark.parametrize("options", OPTIONS[1:3], ids=str)
def test_deviations_match_gaussian_process_regression(options):
    intercept = "intercept" in options
    X, problem, result = sampled(**options)
    new = np.random.default_rng(1).normal(scale=3.0, size=(40, 2))
    Z = binning().fit(X).feature_matrix(new)
    assert unseen_squares(Z).max() > 0.9
    assert unseen_squares(Z).min() < 0.1
    matrix = with_ones(Z) if intercept else Z
    # Together, all rows know all bins. A constant of huge variance is as good as free.
    features = binning().fit_transform(np.vstack([X, new])).toarray()
    known, weights = counts(problem) > 0, counts(problem)
    kernel = ConstantKernel(result.prior * result.noise**2, "fixed") * DotProduct(
        1e3 if intercept else 0.0, "fixed"
    )
    process = GaussianProcessRegressor(
        kernel, alpha=result.noise**2 / weights[known], optimizer=None
    ).fit(features[: len(X)][known], problem.targets[known])
    _, truth = process.predict(features[len(X) :], return_std=True)
    ratio = result.deviations(matrix, unseen_squares(Z)) / truth
    assert np.abs(ratio - 1.0).max() < 5 / np.sqrt(2 * MANY)
    assert abs(ratio.mean() - 1.0) < 0.01


def test_unseen_bins_have_the_prior_deviation():
    X, problem = make_problem()
    result = Posterior.sample(problem, 2)
    Z = binning().fit(X).feature_matrix(np.full((1, 2), 1e6))
    np.testing.assert_allclose(
        result.deviations(Z, unseen_squares(Z)), result.noise / np.sqrt(50 * 1e-2)
    )


@pytest.mark.parametrize("options", OPTIONS[2:], ids=str)
def test_noise_matches_residuals_and_effective_dimension(options):
    _, problem, result = sampled(**options)
    Z, H = hessian(problem)
    right = (Z.T * problem.row_weights) @ problem.targets
    residuals = problem.targets - Z @ np.linalg.lstsq(H, right, rcond=1e-12)[0]
    truth = np.sqrt(counts(problem) @ residuals**2 / degrees_left(problem))
    np.testing.assert_allclose(result.noise, truth, rtol=0.02)


@pytest.mark.parametrize("alpha", [1e-5, 1e-1])
def test_noise_is_unbiased_under_the_model(alpha):
    rng = np.random.default_rng(0)
    _, problem = make_problem(intercept=True, weighted=True, alpha=alpha)
    n_outputs, known = 2000, counts(problem) > 0
    prior = np.full(problem.matrix.shape[1], 1.0 / np.sqrt(known.sum() * alpha))
    weights = 0.7 * prior[:, None] * rng.normal(size=(len(prior), n_outputs))
    weights[-1] = 100.0
    noise = 0.7 * rng.normal(size=(len(known), n_outputs))
    noise[known] /= np.sqrt(counts(problem)[known])[:, None]
    targets = problem.matrix.matvec(weights) + noise
    result = Posterior.sample(replace(problem, targets=targets), 500).noise
    error = np.sqrt(2.0 / (degrees_left(problem) * n_outputs))
    assert abs((result**2).mean() / 0.49 - 1.0) < 4 * error + 0.01


def test_outputs_share_draws_and_have_separate_noise():
    X, problem = make_problem(n_outputs=3)
    problem = replace(problem, targets=problem.targets * [1.0, 10.0, 0.0])
    all_three = Posterior.sample(problem, 40)
    Z = binning().fit(X).feature_matrix(X)
    result = all_three.deviations(Z, unseen_squares(Z))
    for k in range(3):
        alone = Posterior.sample(replace(problem, targets=problem.targets[:, k]), 40)
        np.testing.assert_array_equal(alone.draws, all_three.draws)
        deviations = alone.deviations(Z, unseen_squares(Z))
        np.testing.assert_allclose(result[:, k], deviations, rtol=1e-5)
    assert (result[:, 2] == 0.0).all()


def test_number_of_threads_does_not_change_draws():
    _, problem = make_problem(intercept=True, weighted=True, n_outputs=2, n_rows=3000)
    one, many = (Posterior.sample(problem, 40, seed=1, n_jobs=n) for n in (1, 3))
    np.testing.assert_array_equal(many.draws, one.draws)
    np.testing.assert_array_equal(many.noise, one.noise)


def test_draw_depends_on_seed_and_index():
    _, problem = make_problem()
    few, many = (Posterior.sample(problem, n, seed=3).draws for n in (5, 70))
    np.testing.assert_allclose(many[:, :5], few, atol=1e-3 * few.std())
    other = Posterior.sample(problem, 5, seed=4).draws
    assert np.abs(other - few).min(axis=0).max() > 0.0
    assert abs(np.corrcoef(many[:, 0], many[:, 1])[0, 1]) < 0.3


def test_one_row_has_no_noise():
    _, problem = make_problem(intercept=True)
    one = replace(problem, matrix=problem.matrix.take_rows(slice(0, 1)), targets=np.zeros(1))
    assert Posterior.sample(one, 10).noise == 0.0


def test_posterior_needs_squared_loss_and_positive_l2_penalty():
    _, problem = make_problem()
    for changes, n_draws, message in [
        ({"loss": Logistic()}, 5, "squared loss"),
        ({"penalty": L1(1e-3)}, 5, "smooth penalty"),
        ({"penalty": L2(0.0)}, 5, "alpha above 0"),
        ({}, 0, "one draw"),
    ]:
        with pytest.raises(InputError, match=message):
            Posterior.sample(replace(problem, **changes), n_draws)
