"""Coordinate descent on a Gram matrix against a slow twin, and against the model's minimum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.loops import coordinate_descent as loops

Array = NDArray[np.float64]

PENALTIES = {"none": (0.0, 0.0), "l1": (0.2, 0.0), "l2": (0.0, 0.3), "net": (0.1, 0.5)}
every_penalty = pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())


@dataclass
class Model:
    """A quadratic model; the last weight is free, one column may be empty."""

    gram: Array
    gradient: Array
    weights: Array
    l1: Array
    l2: Array

    @classmethod
    def make(cls, penalty: tuple[float, float], n: int = 7, seed: int = 0) -> Model:
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(2 * n, n))
        rows[:, n // 2] = 0.0
        weights = np.where(rng.random(n) < 0.5, rng.normal(size=n), 0.0)
        penalised = np.arange(n) < n - 1
        l1, l2 = (np.where(penalised, one, 0.0) for one in penalty)
        gradient = rng.normal(size=n)
        gradient[n // 2] = 0.0
        return cls(rows.T @ rows / n, gradient, weights, l1, l2)

    def value(self, weights: Array) -> float:
        change = weights - self.weights
        smooth = self.gradient @ change + 0.5 * change @ self.gram @ change
        return float(smooth + self.l1 @ np.abs(weights) + 0.5 * self.l2 @ weights**2)

    def sweep(self, orders: Array, tol: float) -> tuple[Array, Array, int]:
        gradient, weights = self.gradient.copy(), self.weights.copy()
        n_sweeps = loops.sweep(self.gram, gradient, weights, self.l1, self.l2, orders, tol)
        return gradient, weights, n_sweeps

    def slow_sweep(self, orders: Array, tol: float) -> tuple[Array, Array, int]:
        """Minimise over one weight after the other, the gradient from scratch each time."""
        weights = self.weights.copy()
        n_sweeps = 0
        for order in orders:
            n_sweeps, worst = n_sweeps + 1, 0.0
            for j in order:
                slope = self.gradient[j] + self.gram[j] @ (weights - self.weights)
                curvature = self.gram[j, j]
                if curvature == 0.0:
                    new = 0.0 if self.l1[j] + self.l2[j] > 0.0 else weights[j]
                else:
                    target = curvature * weights[j] - slope
                    slack = max(abs(target) - self.l1[j], 0.0)
                    new = np.sign(target) * slack / (curvature + self.l2[j])
                worst = max(worst, abs(new - weights[j]) * (curvature + self.l2[j]))
                weights[j] = new
            if worst <= tol:
                break
        return self.gradient + self.gram @ (weights - self.weights), weights, n_sweeps


def orders_of(n: int, n_sweeps: int, seed: int = 1) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    return rng.permuted(np.tile(np.arange(n), (n_sweeps, 1)), axis=1)


@every_penalty
@pytest.mark.parametrize("tol", [-1.0, 0.05, 10.0])
def test_loop_does_as_its_slow_twin(penalty: tuple[float, float], tol: float) -> None:
    model, orders = Model.make(penalty), orders_of(7, 6)
    found, expected = model.sweep(orders, tol), model.slow_sweep(orders, tol)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@given(seed=st.integers(0, 1000), penalty=st.sampled_from(sorted(PENALTIES)))
def test_no_sweep_raises_the_model(seed: int, penalty: str) -> None:
    model = Model.make(PENALTIES[penalty], 5, seed)
    values = [model.value(model.weights)]
    values += [model.value(model.sweep(orders_of(5, k, seed), -1.0)[1]) for k in (1, 2, 3)]
    assert (np.diff(values) <= 1e-12).all()


@every_penalty
def test_many_sweeps_reach_the_minimum(penalty: tuple[float, float]) -> None:
    model = Model.make(penalty)
    gradient, weights, n_sweeps = model.sweep(orders_of(7, 5000), 1e-12)
    assert n_sweeps < 5000
    slope = gradient + model.l2 * weights
    zero = weights == 0.0
    assert (np.abs(slope[zero]) <= model.l1[zero] + 1e-10).all()
    inside = slope + model.l1 * np.sign(weights)
    np.testing.assert_allclose(inside[~zero], 0.0, atol=1e-10)


def test_weights_left_out_of_the_order_stay() -> None:
    model = Model.make(PENALTIES["net"])
    order = np.array([[0, 2, 5]])
    _, weights, _ = model.sweep(order, -1.0)
    others = [1, 3, 4, 6]
    np.testing.assert_array_equal(weights[others], model.weights[others])
    assert (weights[order[0]] != model.weights[order[0]]).any()


def test_no_sweeps() -> None:
    model = Model.make(PENALTIES["l1"])
    gradient, weights, n_sweeps = model.sweep(np.empty((0, 7), np.int64), 0.0)
    assert n_sweeps == 0
    np.testing.assert_array_equal(weights, model.weights)
    np.testing.assert_array_equal(gradient, model.gradient)
