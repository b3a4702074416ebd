"""Coordinate descent, by sweeps over a Gram matrix and by random steps, against slow references."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.loops import coordinate_descent as loops
from gramless.loops.coordinate_descent import proximal
from gramless.losses import Huber, Logistic, Loss, SmoothPinball, Squared, SquaredHinge
from gramless.penalties import ElasticNet
from tests.solvers.pairwise import each_value

Array = NDArray[np.float64]
PENALTIES = {"none": (0.0, 0.0), "l1": (0.2, 0.0), "l2": (0.0, 0.3), "net": (0.1, 0.5)}


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


@pytest.mark.parametrize(("penalty", "tol"), each_value(PENALTIES.values(), [-1.0, 0.05, 10.0]))
def test_loop_matches_the_slow_implementation(penalty: tuple[float, float], tol: float) -> None:
    model, orders = Model.make(penalty), orders_of(7, 6)
    result, expected = model.sweep(orders, tol), model.slow_sweep(orders, tol)
    for one, other in zip(result, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


# Random steps.

LOSSES: dict[str, tuple[Loss, tuple[int, float, float]]] = {
    "squared": (Squared(), (loops.SQUARED, 0.0, 0.0)),
    "squared hinge": (SquaredHinge(), (loops.SQUARED_HINGE, 0.0, 0.0)),
    "logistic": (Logistic(), (loops.LOGISTIC, 0.0, 0.0)),
    "huber": (Huber(0.7), (loops.HUBER, 0.7, 0.0)),
    "quantile": (SmoothPinball(0.8, 0.3), (loops.PINBALL, 0.8, 0.3)),
}
every_loss = pytest.mark.parametrize(("loss", "coded"), LOSSES.values(), ids=LOSSES.keys())
numbers = st.floats(-5.0, 5.0)


@every_loss
def test_loss_gradient_matches_the_loss(loss: Loss, coded: tuple[int, float, float]) -> None:
    z = np.concatenate([np.linspace(-4.0, 4.0, 81), [-1e3, -0.7, 0.0, 0.7, 1e3, 1e300, -1e300]])
    for y in (-1.0, 1.0):
        measured = [loops.loss_gradient(*coded, each, y) for each in z]
        np.testing.assert_allclose(measured, loss.gradient(z, np.full_like(z, y)), rtol=1e-14)


@given(numbers, numbers, st.floats(0.01, 10.0), st.floats(0.0, 3.0), st.floats(0.0, 3.0))
def test_proximal_matches_the_penalty(w, gradient, curvature, l1, l2):
    net = ElasticNet(l1 + l2, l1 / (l1 + l2) if l1 + l2 > 0.0 else 0.5)
    expected = net.prox(np.array([w - gradient / curvature]), 1.0 / curvature)[0]
    measured = proximal(w, gradient, curvature, l1, l2)
    np.testing.assert_allclose(measured, expected, rtol=1e-9, atol=1e-12)


def test_proximal_of_zero_columns_is_zero_and_of_nan_nan():
    assert proximal(3.0, 0.0, 0.0, 0.1, 0.0) == 0.0
    assert proximal(3.0, 0.0, 0.0, 0.0, 0.1) == 0.0
    assert proximal(3.0, 0.0, 0.0, 0.0, 0.0) == 3.0
    assert np.isnan(proximal(1.0, np.nan, 1.0, 0.5, 0.5))


class Reference:
    """The same state for the loops and for the slow way."""

    def __init__(self, loss: Loss, n_rows: int = 30, n_columns: int = 12) -> None:
        rng = np.random.default_rng(n_columns)
        shape = (n_rows, n_columns)
        self.dense = np.where(rng.random(shape) < 0.4, rng.normal(size=shape), 0.0)
        self.dense[:, 3] = 0.0
        self.loss, self.net = loss, ElasticNet(0.05, 0.6, n_free=2)
        self.targets = np.sign(rng.normal(size=n_rows))
        weights = rng.gamma(1.0, size=n_rows)
        self.row_weights = weights / weights.sum()
        self.curvatures = 1.7 * loss.smoothness * (self.row_weights @ self.dense**2)
        self.weights = rng.normal(size=n_columns)
        self.responses = self.dense @ self.weights

    def arguments(self, coded: tuple[int, float, float]) -> tuple:
        """Return copies for the loops, to be changed, and what does not change."""
        stored = sp.csc_array(self.dense)
        penalty = (self.net.l1, self.net.l2, len(self.weights) - self.net.n_free)
        return (
            (stored.indptr, stored.indices, stored.data),
            self.row_weights,
            self.targets,
            self.responses.copy(),
            self.curvatures,
            coded,
            penalty,
            self.weights.copy(),
        )

    def take(self, drawn: list[int]) -> None:
        """Take the steps along the drawn coordinates, all from the same point."""
        steps = {}
        for j in drawn:
            slopes = self.loss.gradient(self.dense @ self.weights, self.targets)
            gradient = sum(self.row_weights * slopes * self.dense[:, j])
            moved = self.weights.copy()
            if self.curvatures[j] > 0.0:
                moved[j] -= gradient / self.curvatures[j]
                steps[j] = self.net.prox(moved, 1.0 / self.curvatures[j])[j]
            else:
                steps[j] = 0.0
        for j, value in steps.items():
            self.weights[j] = value
        self.responses = self.dense @ self.weights


def drawn_by(uniforms: Array, n_columns: int) -> list[list[int]]:
    """Draw cards from the top of a deck: the k-th of a step is one of those not yet drawn."""
    deck, sets = list(range(n_columns)), []
    for row in uniforms:
        for k, u in enumerate(row):
            other = k + int(u * (n_columns - k))
            deck[k], deck[other] = deck[other], deck[k]
        sets.append(deck[: len(row)])
    return sets


@pytest.mark.parametrize(("name", "n_simultaneous"), each_value(LOSSES, [1, 5, 12]))
def test_simultaneous_steps_match_the_slow_implementation(name: str, n_simultaneous: int) -> None:
    loss, coded = LOSSES[name]
    reference = Reference(loss)
    n_columns = len(reference.weights)
    uniforms = np.random.default_rng(0).random((7, n_simultaneous))
    arguments, order = reference.arguments(coded), np.arange(n_columns)
    loops.simultaneous_steps(uniforms, order, *arguments)
    for drawn in drawn_by(uniforms, n_columns):
        reference.take(drawn)
    np.testing.assert_allclose(arguments[-1], reference.weights, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(arguments[3], reference.responses, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(np.sort(order), np.arange(n_columns))


@every_loss
def test_shared_steps_match_the_slow_implementation(
    loss: Loss, coded: tuple[int, float, float]
) -> None:
    reference = Reference(loss)
    arguments = reference.arguments(coded)
    drawn = np.random.default_rng(0).integers(len(reference.weights), size=40)
    loops.shared_steps(drawn, *arguments)
    for j in drawn:
        reference.take([j])
    np.testing.assert_allclose(arguments[-1], reference.weights, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(arguments[3], reference.responses, rtol=1e-10, atol=1e-12)


def test_sets_of_coordinates_are_equally_likely():
    n_columns, n_simultaneous, n_draws = 5, 2, 6000
    arguments = Reference(Squared(), n_columns=n_columns).arguments((loops.SQUARED, 0.0, 0.0))
    uniforms = np.random.default_rng(1).random((n_draws, 1, n_simultaneous))
    order, counts = np.arange(n_columns), Counter()
    for row in uniforms:
        loops.simultaneous_steps(row, order, *arguments)
        counts[tuple(sorted(order[:n_simultaneous]))] += 1
    pairs = list(combinations(range(n_columns), n_simultaneous))
    expected = n_draws / len(pairs)
    chi_squared = sum((counts[pair] - expected) ** 2 / expected for pair in pairs)
    # The 99.99 % quantile with 9 degrees of freedom.
    assert chi_squared < 33.7
    assert sum(counts[pair] for pair in pairs) == n_draws


def test_the_largest_uniform_number_draws_the_last_coordinate():
    reference = Reference(Squared(), n_columns=7)
    order, arguments = np.arange(7), reference.arguments((loops.SQUARED, 0.0, 0.0))
    loops.simultaneous_steps(np.full((1, 7), np.nextafter(1.0, 0.0)), order, *arguments)
    np.testing.assert_array_equal(order, [6, 0, 1, 2, 3, 4, 5])
