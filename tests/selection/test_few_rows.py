"""Tables of a few dozen to a few hundred rows: the fitted models and their validation."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import RidgeCV
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from gramless import KernelClassifier, KernelRegressor, load, save
from gramless.datasets import friedman1
from gramless.features.expansion import KernelExpansion
from gramless.features.hybrid import parts_of
from gramless.features.nystrom import Nystrom
from gramless.features.polynomial_trend import PolynomialTrend
from gramless.inspection import shapley_values
from gramless.portable import PortableModel

Array = NDArray[np.float64]

RNG = np.random.default_rng(0)
X, SMOOTH = friedman1(2000, seed=0)
STEPPED = np.sign(X[:, 0] - 0.5) + 2.0 * (X[:, 1] > 0.3) * (X[:, 2] > 0.6)
LINEAR = X @ np.arange(10.0) + 0.05 * RNG.normal(size=2000)
EFFECTS = RNG.normal(size=25)
TOWN = RNG.integers(0, 25, 2000)
TOWNS = pd.DataFrame({"size": X[:, 0], "town": pd.Categorical([f"town {k}" for k in TOWN])})
PRICES = X[:, 0] + EFFECTS[TOWN] + 0.1 * RNG.normal(size=2000)


def linear_model() -> Any:
    columns = make_column_transformer(
        (StandardScaler(), ["size"]), (OneHotEncoder(handle_unknown="ignore"), ["town"])
    )
    return make_pipeline(columns, RidgeCV(np.logspace(-4, 4, 20)))


@pytest.mark.parametrize("n_rows", [20, 250])
def test_linear_targets_select_a_linear_trend(n_rows: int) -> None:
    model = KernelRegressor(random_state=0).fit(X[:n_rows], LINEAR[:n_rows])
    assert isinstance(model.features_, PolynomialTrend)
    assert model.score(X[1000:], LINEAR[1000:]) > 0.995


def test_trend_replaces_a_gaussian_kernel() -> None:
    model = KernelRegressor(random_state=0).fit(X[:500], LINEAR[:500])
    assert isinstance(model.features_, PolynomialTrend)
    noise = RidgeCV().fit(X[:500], LINEAR[:500]).predict(X[1000:]) - X[1000:] @ np.arange(10.0)
    errors = model.predict(X[1000:]) - X[1000:] @ np.arange(10.0)
    assert np.std(errors) < 1.1 * np.std(noise)


def test_smooth_targets_select_smooth_kernels() -> None:
    model = KernelRegressor(random_state=0).fit(X[:120], SMOOTH[:120])
    assert any(isinstance(part, (KernelExpansion, Nystrom)) for part in parts_of(model.features_))
    assert model.score(X[1000:], SMOOTH[1000:]) > 0.75


def test_stepped_targets_select_grids() -> None:
    model = KernelRegressor(random_state=0).fit(X[:250], STEPPED[:250])
    assert model.settings_.grids == "grown"
    assert model.score(X[1000:], STEPPED[1000:]) > 0.7


@pytest.mark.parametrize("targets", [LINEAR, STEPPED], ids=["trend", "grids"])
def test_intervals_from_cross_validation_cover(targets: Array) -> None:
    model = KernelRegressor(random_state=0).fit(X[:120], targets[:120])
    below, above = model.predict_interval(X[1000:], coverage=0.9)
    inside = (below <= targets[1000:]) & (targets[1000:] <= above)
    assert 0.85 < inside.mean() < 0.985


def test_additive_effects_of_categories_select_a_trend(tmp_path: Path) -> None:
    model = KernelRegressor(random_state=0).fit(TOWNS[:600], PRICES[:600])
    peer = linear_model().fit(TOWNS[:600], PRICES[:600])
    assert isinstance(model.features_, PolynomialTrend)
    result, expected = (each.score(TOWNS[1000:], PRICES[1000:]) for each in (model, peer))
    assert 1.0 - result < 1.05 * (1.0 - expected)
    predicted = model.predict(TOWNS[1000:])
    save(model, tmp_path / "model")
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(TOWNS[1000:]), predicted)
    attributions = shapley_values(model, TOWNS[1000:1009], TOWNS[:30])
    sums = attributions.base_values + attributions.values.sum(axis=1)
    np.testing.assert_allclose(sums, predicted[:9], atol=1e-9)
    elsewhere = TOWNS[1000:1003].assign(town="nowhere")
    assert np.isfinite(model.predict(elsewhere)).all()


def test_portable_models_predict_effects_of_categories(tmp_path: Path) -> None:
    rows = np.column_stack([X[:, 0], TOWN])
    model = KernelRegressor(categorical_features=[1], random_state=0).fit(rows[:600], PRICES[:600])
    assert isinstance(model.features_, PolynomialTrend)
    save(model, tmp_path / "model")
    result = PortableModel(tmp_path / "model").predict(rows[1000:])
    np.testing.assert_allclose(result, model.predict(rows[1000:]), atol=1e-9)


def test_probabilities_of_few_rows_are_calibrated() -> None:
    labels = SMOOTH > 14.0
    model = KernelClassifier(random_state=0).fit(X[:60], labels[:60])
    assert model.score(X[1000:], labels[1000:]) > 0.7
    shown = model.predict_proba(X[1000:])[:, 1]
    assert abs(shown.mean() - labels[1000:].mean()) < 0.12


def test_cross_validation_selects_kernel_ridge_over_grids() -> None:
    rows, labels = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(labels))
    known, new = order[:80], order[80:]
    model = KernelClassifier(random_state=0).fit(rows[known], labels[known])
    # The first 16 rows held back say that grids are better.
    assert isinstance(model.features_, KernelExpansion)
    assert log_loss(labels[new], model.predict_proba(rows[new])) < 0.12


def test_given_alpha_is_kept_and_short_budgets_predict() -> None:
    model = KernelRegressor(alpha=0.5, grids="grown", random_state=0).fit(X[:60], LINEAR[:60])
    assert model.alpha_ == 0.5
    ended = KernelRegressor(time_budget=1e-3, random_state=0).fit(X[:60], LINEAR[:60])
    assert np.isfinite(ended.predict(X)).all()
