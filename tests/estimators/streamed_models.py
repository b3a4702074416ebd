"""Rows and small models that tests of the doubly stochastic estimators share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless import DoublyStochasticClassifier, DoublyStochasticRegressor

Array = NDArray[Any]

FAST: dict[str, Any] = {"random_state": 0, "max_steps": 25, "block_size": 32, "batch_size": 128}
GIVEN: dict[str, Any] = {**FAST, "bandwidth": 2.0, "alpha": 1e-3}
N = 240
_RNG = np.random.default_rng(0)
X: Array = _RNG.normal(size=(N, 3))
y: Array = np.sin(2.0 * X[:, 0]) + X[:, 1]
TWO, THREE = (y > 0).astype(int), X.argmax(axis=1)
NEW: Array = _RNG.normal(size=(150, 3))


def regressor(**options: Any) -> DoublyStochasticRegressor:
    return DoublyStochasticRegressor(**{**GIVEN, **options})


def classifier(**options: Any) -> DoublyStochasticClassifier:
    return DoublyStochasticClassifier(**{**GIVEN, **options})


def same_run(actual: Any, expected: Any) -> None:
    """Compare all but times bit for bit."""
    np.testing.assert_array_equal(actual.weights_, expected.weights_)
    np.testing.assert_array_equal(actual.constant_, expected.constant_)
    assert actual.n_iter_ == expected.n_iter_
    for name in ("history_", "evaluations_"):
        mine, other = getattr(actual, name), getattr(expected, name)
        assert mine.keys() == other.keys()
        for column in mine.keys() - {"seconds"}:
            np.testing.assert_array_equal(mine[column], other[column], err_msg=column)
