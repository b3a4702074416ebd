"""Convergence rate of doubly stochastic training to exact kernel ridge regression.

DSG16's Theorems 3 and 4 state ``E |f_t(x) - f*(x)|^2 <= C / t`` for ``gamma_t = theta / t`` with
``theta alpha`` between 1 and 2. The generated rows are few enough to compute f* from the whole Gram
matrix. Blocks of few features and small batches make both kinds of noise large. The squared
distance is averaged over all rows and several seeds; the slope is that of its logarithm over the
logarithm of t, over two decades: -1 in the theorems. ``slope of averages`` is the same for the
averaged weights.

Steps are ``theta / (t + delay)``; the first is the longest that is stable. CDSG's inequality (9) is
used with B^2, as printed, and with B, as derived; its steps are at most gamma, at most twice gamma,
or as long as (9) allows, as in the paper. Steps longer than gamma depend on the batch's gradient,
so that their expectation is not along the expected gradient: with smaller batches they end farther
from f*. A run has diverged if the distance exceeds a thousand times the mean square of f*.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Report, Row, log_slope, options, parse, print_progress
from benchmarks.doubly_runs import responses
from gramless.kernels import Gaussian
from gramless.losses import Squared
from gramless.streaming.doubly_stochastic import DoublyStochastic, NoIntercept
from gramless.streaming.feature_blocks import CpuProducts, FrequencyBlocks
from gramless.streaming.feature_expansion import FeatureExpansion
from gramless.streaming.step_sizes import InverseTime, block_variance, first_step, largest_curvature
from gramless.streaming.strategies import Checking, Grow, Strategy, Uniform

Array = NDArray[np.float64]

N_ROWS, N_INPUTS, NOISE = 50, 2, 0.3
ALPHA, THETA_ALPHA = 0.1, 1.5
SIZE, BATCHES = 4, (1, 4, 16)
STEPS, QUICK_STEPS, N_TIMES = 3000, 200, 15
DIVERGED = 1000.0
CLAIMED = (-1.2, -0.8)

STRATEGIES: dict[str, Strategy] = {
    "DSG": Grow(),
    "UDSG": Uniform(),
    "CDSG, B^2, gamma": Checking(2, 1.0),
    "CDSG, B, gamma": Checking(1, 1.0),
    "CDSG, B^2, twice gamma": Checking(2, 2.0),
    "CDSG, B, twice gamma": Checking(1, 2.0),
    "CDSG, B^2, no limit": Checking(2, np.inf),
    "CDSG, B, no limit": Checking(1, np.inf),
}


@dataclass(frozen=True)
class Ridge:
    """Rows, targets and the exact function at the rows."""

    X: Array
    y: Array
    exact: Array

    @classmethod
    def made_up(cls) -> Ridge:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(N_ROWS, N_INPUTS)).astype(np.float32).astype(float)
        y = np.sin(2.0 * X[:, :1]) + NOISE * rng.normal(size=(N_ROWS, 1))
        gram = Gaussian().gram(X)
        return cls(X, y, gram @ np.linalg.solve(gram + N_ROWS * ALPHA * np.eye(N_ROWS), y))

    def distance(self, responses: Array) -> float:
        return float(np.mean((responses - self.exact) ** 2))

    def training(self, strategy: Strategy, batch_rows: int, seed: int) -> DoublyStochastic:
        theta = THETA_ALPHA / ALPHA
        curvature = largest_curvature(Gaussian(), self.X, centered=False)
        delay = theta / first_step(Squared(), 1, curvature, SIZE, batch_rows)
        blocks = FrequencyBlocks(Gaussian(), seed, SIZE, N_INPUTS)
        units = np.zeros(N_INPUTS), np.ones(N_INPUTS)
        return DoublyStochastic(
            CpuProducts(blocks, *units, budget=1 << 24, n_jobs=1),
            FeatureExpansion(2 * SIZE, blocks.group_blocks, 1),
            *(Squared(), ALPHA, InverseTime(theta, delay), strategy, NoIntercept(), seed),
            variance=block_variance(Gaussian(), self.X, SIZE, seed),
        )


def follow(
    ridge: Ridge, strategy: Strategy, batch_rows: int, seed: int, times: list[int]
) -> tuple[list[tuple[float, float]], int]:
    """Return distances of the last and the averaged weights at ``times``, and the number of blocks.

    The distances end when the run diverges.
    """
    training = ridge.training(strategy, batch_rows, seed)
    rng, distances = np.random.default_rng(seed), []
    for t in range(1, times[-1] + 1):
        batch = rng.integers(N_ROWS, size=batch_rows)
        training.step(ridge.X[batch], ridge.y[batch])
        if t in times:
            f = training.expansion
            last = ridge.distance(responses(training, f.weights(), ridge.X))
            if not last < DIVERGED * np.mean(ridge.exact**2):
                break
            mean = ridge.distance(responses(training, f.averaged_weights(), ridge.X))
            distances.append((last, mean))
    return distances, training.expansion.n_blocks


def measure(ridge: Ridge, name: str, batch_rows: int, args: argparse.Namespace) -> Row:
    print_progress(f"{name}, batches of {batch_rows}")
    steps = QUICK_STEPS if args.quick else STEPS
    times = sorted({round(t) for t in np.geomspace(steps / 100, steps, N_TIMES)})
    runs = [follow(ridge, STRATEGIES[name], batch_rows, s, times) for s in range(args.repeats)]
    converged = [distances for distances, _ in runs if len(distances) == len(times)]
    means = np.mean(converged, axis=0) if len(converged) == len(runs) else None
    slopes = [None, None] if means is None else [log_slope(times, m) for m in means.T]
    return {
        "strategy": name,
        "batch": batch_rows,
        "diverged": len(runs) - len(converged),
        "blocks": round(np.mean([n_blocks for _, n_blocks in runs])),
        "first distance": None if means is None else float(means[0, 0]),
        "last distance": None if means is None else float(means[-1, 0]),
        "slope": slopes[0],
        "slope of averages": slopes[1],
        "claim met": bool(slopes[0] is not None and CLAIMED[0] < slopes[0] < CLAIMED[1]),
    }


def main() -> None:
    args = parse(options(__doc__, repeats=6, quick_repeats=2))
    report, ridge = Report(args), Ridge.made_up()
    with np.errstate(all="ignore"):
        rows = [measure(ridge, name, b, args) for name in STRATEGIES for b in BATCHES]
    report.add(f"Slopes over {QUICK_STEPS if args.quick else STEPS} steps; the claim: -1", rows)
    report.close()


if __name__ == "__main__":
    main()
