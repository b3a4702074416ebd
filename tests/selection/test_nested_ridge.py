"""Kernel ridge regression of nested sets of rows equals separate fits in double precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.kernels import Gaussian
from gramless.preprocessing.scaling import Scaler
from gramless.selection import kernel_ridge
from gramless.selection.data import Data
from gramless.selection.kernel_ridge import GaussianRidge, NestedRidge, nested_solutions

from .tasks import make_task

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(400, 3)), RNG.integers(0, 3, 400)])
Y = np.where(np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] > 0.0, 1.0, -1.0)
WEIGHTS = RNG.uniform(0.2, 3.0, 400)
KERNEL = GaussianRidge(Scaler.fit("standard", X), 0.7, 2.0, 0.05, 0.0)
ROWS = RNG.permutation(400)
PARTS = [ROWS[:250], ROWS[250:390]]


def data_of(targets: Array, weight: Array | None, categorical: bool = False) -> Data:
    mask = np.arange(4) == 3 if categorical else None
    return make_task(X, targets, weight=weight, intercept=False, categorical=mask).data


def kernel_values(kernel: GaussianRidge, rows: Array, landmarks: Array) -> Array:
    scaled = (kernel.scaler.rows(part) for part in (rows, landmarks))
    source = kernel.source
    return Gaussian().gram(*scaled, bandwidth=source.bandwidth, categorical=source.categorical)


@pytest.mark.parametrize("weight", [None, WEIGHTS])
@pytest.mark.parametrize("targets", [Y, np.column_stack([Y, X[:, 0]])])
def test_exact_fits_solve_the_systems_of_their_rows(weight: Array | None, targets: Array) -> None:
    fits = NestedRidge.exact(KERNEL, data_of(targets, weight), PARTS, 1)
    np.testing.assert_array_equal(fits.landmarks, ROWS[:390])
    relative = np.ones(400) if weight is None else weight / weight[ROWS[:390]].mean()
    for n, weights in zip((250, 390), fits.weights, strict=True):
        rows = ROWS[:n]
        system = kernel_values(KERNEL, X[rows], X[rows]) + np.diag(0.05 / relative[rows])
        residual = system @ weights - targets[rows]
        assert weights.shape == targets[rows].shape
        assert np.abs(residual).max() < 1e-6


@pytest.mark.parametrize("weight", [None, WEIGHTS])
def test_fits_with_landmarks_solve_the_normal_equations(weight: Array | None) -> None:
    targets = np.column_stack([Y, X[:, 0]])
    fits = NestedRidge.with_landmarks(KERNEL, data_of(targets, weight), PARTS, 40, 1)
    np.testing.assert_array_equal(fits.landmarks, ROWS[:40])
    relative = np.ones(400) if weight is None else weight / weight[ROWS[:390]].mean()
    between = kernel_values(KERNEL, X[ROWS[:40]], X[ROWS[:40]])
    for n, weights in zip((250, 390), fits.weights, strict=True):
        rows = ROWS[:n]
        values = kernel_values(KERNEL, X[rows], X[ROWS[:40]])
        scaled = values.T * relative[rows]
        residual = scaled @ (values @ weights - targets[rows]) + 0.05 * between @ weights
        assert np.abs(residual).max() < 1e-6 * np.abs(scaled @ targets[rows]).max()


def test_predictions_are_those_of_the_first_fit() -> None:
    data, new = data_of(Y, None), ROWS[390:]
    for fits in (
        NestedRidge.exact(KERNEL, data, PARTS, 1),
        NestedRidge.with_landmarks(KERNEL, data, PARTS, 40, 1),
    ):
        weights = fits.weights[0]
        expected = kernel_values(KERNEL, X[new], X[fits.landmarks[: len(weights)]]) @ weights
        np.testing.assert_allclose(fits.predicted(data, new, 1), expected, atol=1e-9)


def test_landmarks_in_all_rows_give_the_exact_fit() -> None:
    data, parts = data_of(Y, None), [ROWS[:250]]
    exact = NestedRidge.exact(KERNEL, data, parts, 1).predicted(data, ROWS[250:], 1)
    same = NestedRidge.with_landmarks(KERNEL, data, parts, 250, 1).predicted(data, ROWS[250:], 1)
    np.testing.assert_allclose(same, exact, atol=1e-3)


def test_categories_are_compared_exactly() -> None:
    data = data_of(Y, None, categorical=True)
    kernel = replace(KERNEL, scaler=data.scaler("standard"))
    fits = NestedRidge.exact(kernel, data, PARTS, 1)
    rows = ROWS[:390]
    system = kernel_values(kernel, X[rows], X[rows]) + 0.05 * np.eye(390)
    residual = system @ fits.weights[1] - Y[rows]
    assert np.abs(residual).max() < 1e-6


@pytest.mark.parametrize("fails", ["factorisation", "refinement"])
def test_double_precision_replaces_single_where_that_fails(
    monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    if fails == "refinement":
        monkeypatch.setattr(kernel_ridge, "_MAX_REFINEMENTS", 1)
        monkeypatch.setattr(kernel_ridge, "_TOLERANCE", 1e-12)
    values = RNG.normal(size=(60, 3))
    # Without the diagonal, this matrix has rank 3, which rounding makes indefinite.
    gram, size = values @ values.T, 1e-7 if fails == "factorisation" else 0.1
    right, diagonal = values @ RNG.normal(size=(3, 2)), np.full(60, size)
    solutions = nested_solutions(gram.copy(), diagonal, right, [20, 60])
    for n, solution in zip((20, 60), solutions, strict=True):
        residual = gram[:n, :n] @ solution + diagonal[:n, None] * solution
        assert np.abs(residual - right[:n]).max() < 1e-3


@pytest.mark.parametrize("n_landmarks", [0, 60])
def test_threads_do_not_change_a_bit(n_landmarks: int) -> None:
    data = data_of(Y, WEIGHTS)

    def fit(n_jobs: int) -> list[Array]:
        if n_landmarks:
            return NestedRidge.with_landmarks(KERNEL, data, PARTS, n_landmarks, n_jobs).weights
        return NestedRidge.exact(KERNEL, data, PARTS, n_jobs).weights

    for one, two in zip(fit(1), fit(2), strict=True):
        np.testing.assert_array_equal(one, two)
