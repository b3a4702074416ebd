"""Weights of the inputs: their order, their size, and what they are good for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import KernelRegressor, RandomBinning, RandomFourier
from gramless.datasets.generators import friedman1
from gramless.penalties import L2
from gramless.selection.relevance import learned_relevance
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.objective import Problem

STEPS = np.full(4, 0.3)


@pytest.fixture(scope="module")
def X() -> NDArray[np.float64]:
    return np.random.default_rng(0).uniform(-1, 1, size=(1500, 4))


def relevance_of(X: NDArray, targets: NDArray, steps: NDArray = STEPS) -> NDArray[np.float64]:
    binning = RandomBinning(bandwidth=3.0, n_grids=64, random_state=0)
    problem = Problem(binning.fit_matrix(X), targets, L2(1e-4))
    weights = ConjugateGradient().solve(problem).weights
    return learned_relevance(binning, weights, X[:300], steps)


def test_relevance_orders_inputs_by_their_effect(X: NDArray) -> None:
    relevance = relevance_of(X, 4 * X[:, 2] + 2 * X[:, 0] + X[:, 3])
    assert np.argsort(-relevance).tolist() == [2, 0, 3, 1]
    assert (relevance > 0).all()


def test_relevance_of_a_wave_is_high_although_its_mean_slope_is_zero(X: NDArray) -> None:
    relevance = relevance_of(X, np.cos(6 * X[:, 1]))
    assert relevance.argmax() == 1
    assert relevance[1] > 2 * np.delete(relevance, 1).max()


def test_relevance_combines_outputs(X: NDArray) -> None:
    relevance = relevance_of(X, np.column_stack([3 * X[:, 0], 2 * X[:, 3]]))
    assert set(np.argsort(-relevance)[:2].tolist()) == {0, 3}


def test_relevance_does_not_depend_on_the_scale_of_predictions(X: NDArray) -> None:
    targets = 4 * X[:, 2] + X[:, 0]
    large, small = relevance_of(X, targets * 2.0**60), relevance_of(X, targets * 2.0**-60)
    np.testing.assert_allclose(large, small, rtol=1e-12)


def test_relevance_of_unused_inputs_is_positive(X: NDArray) -> None:
    relevance = relevance_of(X, 10 * X[:, 0])
    assert relevance.min() > 0.01 * relevance.max()


def test_constant_predictions_give_equal_relevance(X: NDArray) -> None:
    binning = RandomBinning(bandwidth=3.0, n_grids=8, random_state=0).fit(X)
    weights = np.zeros(int(binning.offsets_[-1]))
    assert learned_relevance(binning, weights, X[:50], STEPS).tolist() == [1.0] * 4


def test_relevance_of_categories_does_not_depend_on_steps(X: NDArray) -> None:
    effects = np.array([3.0, -1.0, 0.0, 2.0, -3.0])
    rows, codes = X.copy(), np.random.default_rng(2).integers(0, 5, size=(2, 1500))
    rows[:, 1:3] = codes.T
    mask = np.array([False, True, True, False])
    binning = RandomBinning(bandwidth=3.0, categorical=mask, n_grids=64, random_state=0)
    problem = Problem(binning.fit_matrix(rows), effects[codes[0]] + X[:, 0], L2(1e-4))
    weights = ConjugateGradient().solve(problem).weights
    relevance = learned_relevance(binning, weights, rows[:300], np.full(4, 0.3), mask)
    assert np.argsort(-relevance)[:2].tolist() == [1, 0]
    assert relevance[1] > 3 * relevance[2]
    # Steps say nothing about categories, nor do their numbers.
    steps = np.array([0.3, 1e6, 1e-6, 0.3])
    again = learned_relevance(binning, weights, rows[:300], steps, mask)
    np.testing.assert_array_equal(again, relevance)


def by_waves(X: NDArray, targets: NDArray, **options: Any) -> tuple[RandomFourier, NDArray]:
    waves = RandomFourier(bandwidth=1.0, n_components=256, random_state=0, **options)
    Z = waves.fit_transform(X)
    return waves, np.linalg.solve(Z.T @ Z + 0.1 * np.eye(256), Z.T @ targets)


def test_derivatives_agree_with_small_steps(X: NDArray) -> None:
    """Of a smooth function small steps say the same, and gradients take none."""
    waves, weights = by_waves(X, np.sin(3 * X[:, 2]) + 0.5 * X[:, 0] ** 2)
    result = learned_relevance(waves, weights, X[:300], np.full(4, 1e-3))
    hidden = SimpleNamespace(rows_matrix=waves.rows_matrix)
    expected = learned_relevance(hidden, weights, X[:300], np.full(4, 1e-3))
    np.testing.assert_allclose(result, expected, rtol=1e-2)
    assert np.argsort(-result)[:2].tolist() == [2, 0]
    np.testing.assert_allclose(
        learned_relevance(waves, weights[:, None], X[:300], np.full(4, 0.5)), result, rtol=1e-9
    )


def test_derivatives_are_scaled_by_the_steps(X: NDArray) -> None:
    waves, weights = by_waves(X, X[:, 0] + X[:, 1])
    steps = np.array([1.0, 3.0, 1.0, 1.0])
    equal = learned_relevance(waves, weights, X[:300], np.ones(4))
    result = learned_relevance(waves, weights, X[:300], steps)
    ratio = result[1] / result[0] / (equal[1] / equal[0])
    assert ratio == pytest.approx(3.0**0.75)


def test_relevance_of_smooth_features_includes_categories(X: NDArray) -> None:
    rows = X.copy()
    rows[:, 1] = np.random.default_rng(2).integers(0, 5, 1500)
    mask = np.array([False, True, False, False])
    waves, weights = by_waves(rows, (rows[:, 1] > 2) * 2.0, categorical=mask)
    assert learned_relevance(waves, weights, rows[:300], np.full(4, 0.3), mask).argmax() == 1


def test_learned_relevance_reduces_the_error_on_noisy_inputs() -> None:
    X, y = friedman1(3500, seed=1)
    options = {"scaling": "standard", "random_state": 0}
    models = {
        kind: KernelRegressor(RandomBinning(n_grids=64), relevance=kind, **options)
        for kind in ("auto", "equal")
    }
    for model in models.values():
        model.fit(X[:1500], y[:1500])
    learned = models["auto"].relevance_
    assert learned[:5].min() > learned[5:].max()
    assert (models["equal"].relevance_ == 1).all()
    errors = {kind: 1 - model.score(X[1500:], y[1500:]) for kind, model in models.items()}
    assert errors["auto"] < 0.9 * errors["equal"]


@pytest.mark.slow
def test_learned_relevance_takes_linear_work_on_wide_tables() -> None:
    """Count the cells that the search bins, as a clock would depend on the machine."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 600))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    cells = {}
    for kind in ("auto", "equal"):
        CountingBinning.cells = 0
        KernelRegressor(CountingBinning(n_grids=8), relevance=kind, random_state=0).fit(X, y)
        cells[kind] = CountingBinning.cells
    assert cells["auto"] < 8 * cells["equal"]


class CountingBinning(RandomBinning):
    """A feature map that counts the cells it bins."""

    cells = 0

    def fit_rows(self, X):  # type: ignore[no-untyped-def]
        CountingBinning.cells += X.shape[0] * X.shape[1] * self.n_grids
        return super().fit_rows(X)

    def rows_matrix(self, X):  # type: ignore[no-untyped-def]
        CountingBinning.cells += X.shape[0] * X.shape[1] * self.n_grids
        return super().rows_matrix(X)
