"""What users write, for a type checker: it is never run, and ``make lint`` reads it.

``make test-wheel`` reads it strictly too, where types are those of the wheel.
"""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import gramless
from gramless import KernelClassifier, KernelRegressor, RandomBinning, RandomFourier, load, save
from gramless.datasets import friedman1, read_table
from gramless.inspection import Attributions, shapley_values


def fit_numbers(X: NDArray[np.floating[Any]], y: NDArray[np.floating[Any]]) -> None:
    regressor = KernelRegressor(effort=1, random_state=0, verbose=1)
    assert_type(regressor.fit(X, y, sample_weight=np.ones(500)), KernelRegressor)
    assert_type(regressor.alpha_, float)
    features = RandomFourier("matern", n_components=256, random_state=0)
    KernelRegressor(features, alpha=1e-3).fit(X, y)
    KernelRegressor("nystrom", bandwidth=[1.0] * 10, scaling="standard").fit(X, y)
    attributions = shapley_values(regressor, X)
    assert_type(attributions, Attributions)
    save(regressor, "model.gramless")
    print(load("model.gramless").predict(X))


def fit_classes(X: NDArray[np.float64], y: NDArray[np.bool_]) -> NDArray[np.bool_]:
    classifier = KernelClassifier(loss="logistic", class_weight="balanced", n_jobs=2)
    assert_type(classifier.fit(X, y), KernelClassifier)
    sure: NDArray[np.bool_] = classifier.predict_proba(X).max(axis=1) > 0.9
    return sure


def transform(X: NDArray[np.float64]) -> int:
    bins = RandomBinning(n_grids=64, random_state=0).fit(X)
    n_columns: int = bins.transform(X).shape[1]
    return n_columns


def read() -> None:
    assert_type(gramless.__version__, str)
    table = read_table("table.csv")
    print(table.names)
    X, y = friedman1(500, seed=0)
    fit_numbers(X, y)


def mistakes() -> None:
    KernelRegressor(effort="high")  # type: ignore[arg-type]
    KernelClassifier(n_grids=[64])  # type: ignore[arg-type]
