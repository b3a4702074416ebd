"""The distance to exact kernel ridge regression falls as 1/t: DSG16's Theorems 3 and 4."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.kernels import Gaussian
from gramless.losses import Squared
from gramless.streaming.doubly_stochastic import DoublyStochastic, NoIntercept
from gramless.streaming.feature_blocks import CpuProducts, FrequencyBlocks
from gramless.streaming.feature_expansion import FeatureExpansion
from gramless.streaming.step_sizes import InverseTime, block_variance, first_step, largest_curvature
from gramless.streaming.strategies import Checking, Grow, Strategy, Uniform

from .twins import responses

Array = NDArray[np.float64]

pytestmark = pytest.mark.slow

ALPHA, THETA = 0.1, 1.5 / 0.1
SIZE, BATCH_ROWS, N_SEEDS = 4, 8, 6
TIMES = np.unique(np.geomspace(20, 2000, 13).round().astype(int))


@pytest.fixture(scope="module")
def rows() -> tuple[Array, Array, Array]:
    """Return rows, targets, and the exact minimiser of the same objective at the rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2)).astype(np.float32).astype(float)
    y = np.sin(2.0 * X[:, :1]) + 0.3 * rng.normal(size=(50, 1))
    gram = Gaussian().gram(X)
    return X, y, gram @ np.linalg.solve(gram + 50 * ALPHA * np.eye(50), y)


def distances(strategy: Strategy, seed: int, rows: tuple[Array, Array, Array]) -> Array:
    """Return the mean squared distance from the exact function after some times."""
    X, y, exact = rows
    curvature = largest_curvature(Gaussian(), X, centered=False)
    delay = THETA / first_step(Squared(), 1, curvature, SIZE, BATCH_ROWS)
    blocks = FrequencyBlocks(Gaussian(), seed, SIZE, 2)
    training = DoublyStochastic(
        CpuProducts(blocks, np.zeros(2), np.ones(2), 1 << 24, n_jobs=1),
        FeatureExpansion(2 * SIZE, blocks.group_blocks, 1),
        *(Squared(), ALPHA, InverseTime(THETA, delay), strategy, NoIntercept(), seed),
        variance=block_variance(Gaussian(), X, SIZE, seed),
    )
    rng, found = np.random.default_rng(seed), []
    for t in range(1, TIMES[-1] + 1):
        batch = rng.integers(50, size=BATCH_ROWS)
        training.step(X[batch], y[batch])
        if t in TIMES:
            found.append(np.mean((responses(training, X) - exact) ** 2))
    return np.array(found)


@pytest.mark.parametrize(
    ("strategy", "slowest"),
    [
        (Grow(), -0.8),
        (Uniform(), -0.8),
        (Uniform(1, 3), -0.8),
        (Checking(2), -0.8),
        (Checking(1), -0.8),
        # Longer steps where the batch's gradient happens to be small: not unbiased, so slower.
        (Checking(2, 2.0), -0.6),
        (Checking(1, 2.0), -0.6),
    ],
    ids=str,
)
def test_the_rate(strategy: Strategy, slowest: float, rows: tuple[Array, Array, Array]) -> None:
    means = np.mean([distances(strategy, seed, rows) for seed in range(N_SEEDS)], axis=0)
    slope = np.polyfit(np.log(TIMES), np.log(means), 1)[0]
    assert -1.2 < slope < slowest
    assert means[-1] < 0.01 * np.mean(rows[2] ** 2)
