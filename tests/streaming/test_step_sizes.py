"""Step sizes, and the curvature and variance that bound them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.kernels import Gaussian, Laplacian, Matern, SpectralKernel
from gramless.losses import Hinge, Huber, Logistic, Multinomial, Squared, SquaredHinge
from gramless.streaming.feature_blocks import CpuProducts, FrequencyBlocks
from gramless.streaming.step_sizes import (
    InverseTime,
    block_variance,
    first_step,
    largest_curvature,
    loss_curvature,
)

Array = NDArray[np.float64]


def some_rows(n_rows: int, n_inputs: int = 3, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n_rows, n_inputs))


def features(kernel: SpectralKernel, X: Array, size: int, block: int) -> Array:
    """Return the features of a block (n, 2 size)."""
    blocks = FrequencyBlocks(kernel, 0, size, X.shape[1])
    products = CpuProducts(blocks, np.zeros(X.shape[1]), np.ones(X.shape[1]), 0)
    return products.gradient(products.prepare(X), block, np.eye(len(X))).T


# Curvature.


def test_largest_curvature_matches_the_features() -> None:
    for kernel in [Gaussian(), Laplacian()]:
        X = some_rows(60)
        Z = np.concatenate([features(kernel, X, 500, k) for k in range(20)], axis=1) / np.sqrt(20)
        for centered in (False, True):
            features_used = Z - centered * Z.mean(axis=0)
            expected = np.linalg.norm(features_used, 2) ** 2 / len(X)
            assert largest_curvature(kernel, X, centered) == pytest.approx(expected, rel=0.03)


def test_constant_rows_have_all_curvature_in_the_mean() -> None:
    X = np.ones((30, 2))
    assert largest_curvature(Gaussian(), X, centered=False) == pytest.approx(1.0)
    assert largest_curvature(Gaussian(), X, centered=True) == pytest.approx(0.0, abs=1e-12)


def test_loss_curvature_matches_known_values() -> None:
    for loss, n_outputs, expected in [
        (Squared(), 3, 1.0),
        (Logistic(), 1, 0.25),
        (Multinomial(), 10, 0.09),
        (SquaredHinge(), 2, 1.0),
        (Huber(), 1, 1.0),
        (Hinge(), 1, 1.0),
    ]:
        assert loss_curvature(loss, n_outputs) == pytest.approx(expected)


def growth(X: Array, step: float, size: int, batch_rows: int) -> tuple[float, float]:
    """Return what a step makes of squared errors, on average over blocks and batches.

    Of errors along the direction of the largest curvature, and of those that fare worst.
    """
    rng, n_rows, n_draws = np.random.default_rng(0), len(X), 80
    total = np.zeros((n_rows, n_rows))
    for block in range(n_draws):
        Z = features(Gaussian(), X, size, block)
        counts = np.bincount(rng.integers(n_rows, size=batch_rows), minlength=n_rows)
        taken = np.eye(n_rows) - step * (Z @ Z.T) * (counts / batch_rows)
        total += taken.T @ taken / n_draws
    direction = np.linalg.eigh(Gaussian().gram(X))[1][:, -1]
    return float(direction @ total @ direction), float(np.linalg.eigvalsh(total)[-1])


@pytest.mark.parametrize(
    ("width", "size", "batch_rows"),
    [(0.3, 1, 64), (1.0, 1, 1), (0.3, 8, 1), (1.0, 8, 8), (0.3, 200, 8), (1.0, 200, 64)],
)
def test_first_steps_are_nearly_as_long_as_possible(
    width: float, size: int, batch_rows: int
) -> None:
    X = width * some_rows(30)
    curvature = largest_curvature(Gaussian(), X, centered=False)
    step = first_step(Squared(), 1, curvature, size, batch_rows)
    along, worst = growth(X, step, size, batch_rows)
    assert along < 1.0
    assert worst < 1.7
    assert growth(X, 3.0 * step, size, batch_rows)[1] > 1.05


def test_first_step_depends_on_loss_and_outputs() -> None:
    assert first_step(Logistic(), 1, 0.2, 4, 10) == pytest.approx(1.0 / (0.25 * 0.425))
    assert first_step(Multinomial(), 10, 0.2, 4, 10) == pytest.approx(1.0 / (0.09 * 0.425))


# Variance.


def expected_variance(kernel: SpectralKernel, X: Array) -> float:
    """Return the expectation exactly: ``2 cos a cos b = cos(a - b) + cos(a + b)``."""
    half, results = len(X) // 2, []
    others = X[half:]
    between = kernel.gram(others)
    for x in X[:half]:
        kernel_values = kernel.gram(x[None], others)[0]
        covariances = 0.5 * (between + kernel.gram(2.0 * x - others, others)) - np.outer(
            kernel_values, kernel_values
        )
        results.append(np.diag(covariances).mean() - covariances.mean())
    return float(np.mean(results))


@pytest.mark.parametrize(("kernel", "width"), [(Gaussian(), 0.2), (Matern(0.5), 1.0)])
def test_variance_of_one_frequency_matches_its_expectation(
    kernel: SpectralKernel, width: float
) -> None:
    X = width * some_rows(40)
    results = [block_variance(kernel, X, 1, seed) for seed in range(100)]
    assert np.std(results) > 0.0
    assert np.mean(results) == pytest.approx(expected_variance(kernel, X), rel=0.03)


def test_variance_of_a_block_matches_its_expectation() -> None:
    X, size = some_rows(60), 16
    exact = Gaussian().gram(X[:30], X[30:])
    results = []
    for block in range(300):
        Z = features(Gaussian(), X, size, block)
        results.append(np.mean(np.var(Z[:30] @ Z[30:].T - exact, axis=1)))
    assert np.mean(results) == pytest.approx(expected_variance(Gaussian(), X) / size, rel=0.04)


def test_variance_is_inverse_to_the_block_size() -> None:
    X = some_rows(50)
    one = block_variance(Gaussian(), X, 1, 0)
    assert block_variance(Gaussian(), X, 10, 0) == pytest.approx(one / 10)
    assert block_variance(Gaussian(), np.ones((20, 2)), 1, 0) == pytest.approx(0.0, abs=1e-30)


# The schedule.


@given(st.floats(1e-6, 1e6), st.floats(0.0, 1e6), st.integers(1, 10**9))
def test_steps_are_theta_over_time_and_delay(theta: float, delay: float, t: int) -> None:
    schedule = InverseTime(theta, delay)
    assert schedule.step(t) * (t + delay) == pytest.approx(theta)
    assert schedule.step(t + 1) < schedule.step(t) or t + delay > 1e15


def test_theta_must_be_positive_and_delay_not_negative() -> None:
    for theta, delay in [
        (0.0, 0.0),
        (-1.0, 0.0),
        (np.inf, 0.0),
        (np.nan, 0.0),
        (1.0, -1e-9),
        (1.0, np.inf),
    ]:
        with pytest.raises(InputError, match="theta must be positive and delay not negative"):
            InverseTime(theta, delay)
