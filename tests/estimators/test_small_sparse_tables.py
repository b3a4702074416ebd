"""Sparse tables that are small as arrays: the same models, bit for bit, and validation rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor, KernelSurvival
from gramless.base.memory import limit_fit_memory

RNG = np.random.default_rng(0)
X: NDArray[np.float64] = RNG.normal(size=(300, 6)) * (RNG.random((300, 6)) < 0.5)
X[:, 5] = RNG.integers(0, 4, 300)
Y: NDArray[np.float64] = X[:, 0] - 2 * X[:, 1] + X[:, 2] * X[:, 3] + (X[:, 5] == 2)
OPTIONS: dict[str, Any] = {"effort": 1, "random_state": 0, "categorical_features": [5]}
MODELS: dict[str, tuple[Any, NDArray]] = {
    "numbers": (KernelRegressor(**OPTIONS), Y),
    "classes": (KernelClassifier(**OPTIONS), Y > 0),
    "times": (KernelSurvival(**OPTIONS), np.exp(Y)),
}


@pytest.mark.parametrize("name", MODELS)
def test_sparse_rows_give_the_same_model_as_dense_ones(name: str) -> None:
    model, targets = MODELS[name]
    expected = model.fit(X, targets)
    responses, weights = expected.predict(X), expected.weights_
    fitted = model.fit(sp.csr_array(X), targets)
    np.testing.assert_array_equal(fitted.weights_, weights)
    np.testing.assert_array_equal(fitted.predict(X), responses)
    np.testing.assert_array_equal(fitted.predict(sp.csc_array(X)), responses)
    with limit_fit_memory(2000):
        np.testing.assert_array_equal(fitted.predict(sp.csr_array(X)), responses)


def test_missing_values_of_sparse_rows_equal_those_of_dense_ones() -> None:
    rows = X.copy()
    rows[::7, 1] = np.nan
    expected = KernelRegressor(**OPTIONS).fit(rows, Y).predict(rows)
    result = KernelRegressor(**OPTIONS).fit(sp.csr_array(rows), Y).predict(sp.csr_array(rows))
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("n_empty", [0, 5000], ids=["small", "wide"])
def test_validation_rows_may_be_dense_or_sparse(n_empty: int) -> None:
    rows, results = np.hstack([X, np.zeros((300, n_empty))]), []
    for form in (np.asarray, sp.csr_array):
        model = KernelRegressor(n_grids=16, **OPTIONS)
        model.fit(sp.csr_array(rows[:200]), Y[:200], X_val=form(rows[200:]), y_val=Y[200:])
        assert (model.inputs_.gaps is None) == (n_empty > 0)
        results.append(model.predict(rows))
    np.testing.assert_array_equal(*results)


def test_dense_training_rows_accept_sparse_validation_rows() -> None:
    results = []
    for form in (np.asarray, sp.csr_array):
        model = KernelRegressor(**OPTIONS)
        model.fit(X[:200], Y[:200], X_val=form(X[200:]), y_val=Y[200:])
        results.append(model.predict(X))
    np.testing.assert_array_equal(*results)


def test_later_batches_may_be_dense_or_sparse() -> None:
    results = []
    for form in (np.asarray, sp.csr_array):
        model = KernelRegressor(grids="random", n_grids=32, **OPTIONS).fit(X[:200], Y[:200])
        results.append(model.partial_fit(form(X[200:]), Y[200:]).predict(X))
    np.testing.assert_array_equal(*results)
