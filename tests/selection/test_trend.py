"""A polynomial trend, alone or with grids, where it predicts held-out rows better."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from gramless import KernelClassifier, KernelRegressor, load, save
from gramless.features.hybrid import JoinedMaps, parts_of
from gramless.features.polynomial_trend import PolynomialTrend
from gramless.inspection import shapley_values
from gramless.portable import PortableModel

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)
N = 3000
X = RNG.normal(size=(N + 2000, 6))
LINEAR = X @ [1.0, -0.5, 0.5, 0.0, 0.3, 0.2]
QUADRATIC = LINEAR + 0.5 * X[:, 0] * X[:, 1] - 0.3 * X[:, 2] ** 2
NOISY = QUADRATIC + 0.3 * RNG.normal(size=len(X))
STEPPED = np.sign(X[:, 0]) * np.floor(2.0 * X[:, 1]) + 0.1 * RNG.normal(size=len(X))
BOTH = 3.0 * LINEAR + 0.1 * np.sign(np.sin(4.0 * X[:, 3])) + 0.01 * RNG.normal(size=len(X))
LABELS = (RNG.uniform(size=len(X)) < 1.0 / (1.0 + np.exp(-3.0 * QUADRATIC))).astype(int)
QUADRATIC_MODEL = PolynomialFeatures(2, include_bias=False)


def has_trend(model: Any) -> bool:
    return any(isinstance(part, PolynomialTrend) for part in parts_of(model.features_))


def error(model: Any, truth: Array) -> float:
    return float(np.sqrt(np.mean((model.predict(X[N:]) - truth[N:]) ** 2)) / truth.std())


def test_quadratic_targets_select_a_trend() -> None:
    result = KernelRegressor(random_state=0).fit(X[:N], NOISY[:N])
    peer = make_pipeline(QUADRATIC_MODEL, Ridge()).fit(X[:N], NOISY[:N])
    assert isinstance(result.features_, PolynomialTrend)
    assert error(result, QUADRATIC) < 1.1 * error(peer, QUADRATIC)


def test_linear_targets_select_linear_features() -> None:
    result = KernelRegressor(random_state=0).fit(X[:N], LINEAR[:N])
    assert result.features_.factors_[:, 1].max() == -1
    assert error(result, LINEAR) < 1e-3


@pytest.mark.slow
def test_quadratic_log_odds_select_a_trend() -> None:
    result = KernelClassifier(random_state=0).fit(X[:N], LABELS[:N])
    peer = make_pipeline(QUADRATIC_MODEL, LogisticRegression()).fit(X[:N], LABELS[:N])
    losses = [log_loss(LABELS[N:], each.predict_proba(X[N:])) for each in (result, peer)]
    assert has_trend(result)
    assert losses[0] < losses[1] + 0.005
    three = np.digitize(NOISY, [-0.5, 0.5])
    many = KernelClassifier(random_state=0, effort=2).fit(X[:N], three[:N])
    assert many.score(X[N:], three[N:]) > 0.8


@pytest.mark.parametrize(
    ("target", "given"),
    [(STEPPED, {}), (NOISY, {"effort": 1}), (LINEAR, {"monotonic_cst": [1, 0, 0, 0, 0, 0]})],
)
def test_trend_without_gain_is_omitted(target: Array, given: Any) -> None:
    assert not has_trend(KernelRegressor(random_state=0, **given).fit(X[:N], target[:N]))


def test_trend_with_grids_is_saved_explained_and_continued(tmp_path: Path) -> None:
    """A steep linear function and small steps: the methods of such a model agree."""
    model = KernelRegressor(random_state=0).fit(X[:N], BOTH[:N])
    assert isinstance(model.features_, JoinedMaps)
    assert has_trend(model)
    assert error(model, BOTH) < 0.05
    expected = model.predict(X[N:])
    save(model, tmp_path / "model")
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(X[N:]), expected)
    portable = PortableModel(tmp_path / "model").predict(X[N:])
    np.testing.assert_allclose(portable, expected, atol=1e-4)
    result = shapley_values(model, X[N : N + 5], X[:20])
    sums = result.base_values + result.values.sum(axis=1)
    np.testing.assert_allclose(sums, expected[:5], atol=1e-5)
    model.partial_fit(X[:50], BOTH[:50])
    model.set_params(warm_start=True).fit(X[50:N], BOTH[50:N])
    assert has_trend(model)
    assert error(model, BOTH) < 0.05


def test_equal_inputs_are_fitted_without_a_penalty() -> None:
    rows = np.tile(X[:N, :2], 2)
    result = KernelRegressor(random_state=0, grids="grown", alpha=0.0).fit(rows, NOISY[:N])
    assert np.isfinite(result.predict(rows)).all()
    ones_and_zeros = np.tile(rows > 0.0, 2).astype(float)
    target = ones_and_zeros @ [1.0, 2.0, *np.zeros(6)]
    result = KernelRegressor(random_state=0, grids="grown", alpha=0.0).fit(ones_and_zeros, target)
    assert result.score(ones_and_zeros, target) > 0.99


def test_trend_alone_is_saved_and_continued(tmp_path: Path) -> None:
    model = KernelRegressor(random_state=0).fit(X[:N], NOISY[:N])
    save(model, tmp_path / "model")
    expected = model.predict(X[N:])
    portable = PortableModel(tmp_path / "model").predict(X[N:])
    np.testing.assert_allclose(portable, expected, atol=1e-9)
    before = error(model, QUADRATIC)
    model.partial_fit(X[:500], NOISY[:500])
    model.set_params(warm_start=True).fit(X[500:N], NOISY[500:N])
    assert has_trend(model)
    assert error(model, QUADRATIC) < 1.5 * before
