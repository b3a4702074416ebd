"""Two generated tables of 20 float32 inputs, half of them with heavy tails."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gramless.base.random import stream

COLUMNS = 20
NOISE = {"waves": 1.0, "jumps": 0.5}

Floats = NDArray[np.floating]


def waves(uniform: Floats) -> Floats:
    """Return Friedman's first function: smooth, of five inputs."""
    x = uniform.T
    return 10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4]


def jumps(uniform: Floats) -> Floats:
    """Return a function of nine inputs: a wave, a kink, a jump, a logarithm, a square."""
    x = 4.0 * uniform.T - 2.0
    wave = np.sin(2.0 * x[0]) * x[1]
    return (
        wave + np.abs(x[2]) - x[3] * (x[4] > 0) + 0.5 * x[5] * x[6] + 0.3 * x[7] ** 2 * (x[8] > 1)
    )


TABLES = {"waves": waves, "jumps": jumps}


def table(name: str, seed: int, n_rows: int, purpose: str) -> tuple[Floats, Floats, Floats]:
    """Return inputs, noisy targets and noise-free targets."""
    random = stream(seed, purpose)
    uniform = random.random((n_rows, COLUMNS), np.float32)
    truth = TABLES[name](uniform)
    y = truth + NOISE[name] * random.normal(size=n_rows)
    X = uniform.copy()
    np.exp(4.0 * X[:, ::2], out=X[:, ::2])
    return X, y, truth
