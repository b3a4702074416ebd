"""Losses with bounded slopes: how far outliers are changes no prediction of the other rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gramless import DoublyStochasticRegressor, KernelRegressor
from gramless.base.types import FloatArray
from gramless.estimators.targets import NumberEncoder
from gramless.losses import Huber, SmoothPinball

NOISE = 0.3
LOSSES: dict[str, dict[str, Any]] = {
    "absolute_error": {"loss": "absolute_error"},
    "huber": {"loss": "huber"},
    "quantiles": {"loss": "quantile", "quantile": [0.25, 0.5, 0.75]},
}


def table(n_rows: int = 120, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + NOISE * random.normal(size=n_rows)


def spoilt(y: FloatArray, share: float, pattern: str, factor: float) -> FloatArray:
    """Return targets of which the last ones are outliers, and their size times a factor."""
    wrong, n = y.copy(), int(share * len(y))
    signs = {"above": np.ones(n), "both sides": np.resize([1.0, -1.0], n)}
    wrong[-n:] = 50.0 * factor * signs[pattern]
    return wrong


def change(
    model: KernelRegressor, rows: FloatArray, targets: list[FloatArray], **fit: Any
) -> float:
    """Return by how much predictions of the rows without outliers differ, beside the noise."""
    first, second = (np.asarray(model.fit(rows, y, **fit).predict(rows)) for y in targets)
    n = int(0.9 * len(rows))
    return float(np.sqrt(np.mean((first[:n] - second[:n]) ** 2))) / NOISE


@pytest.mark.parametrize(
    ("loss", "share", "pattern"),
    [
        ("absolute_error", 0.02, "above"),
        ("absolute_error", 0.1, "both sides"),
        ("huber", 0.1, "above"),
        ("quantiles", 0.1, "both sides"),
    ],
)
def test_size_of_outliers_is_irrelevant(loss: str, share: float, pattern: str) -> None:
    X, y = table()
    targets = [spoilt(y, share, pattern, factor) for factor in (1.0, 1e3)]
    model = KernelRegressor(effort=1, n_grids=24, random_state=0, **LOSSES[loss])
    assert change(model, X, targets) < 0.05


@pytest.mark.parametrize(
    "options",
    [{"features": "fourier"}, {"grids": "random"}, {"effort": 2}],
    ids=lambda options: next(iter(options.values())),
)
def test_size_of_outliers_is_irrelevant_to_other_features(options: dict[str, Any]) -> None:
    X, y = table(60)
    targets = [spoilt(y, 0.05, "above", factor) for factor in (1.0, 1e3)]
    model = KernelRegressor(loss="absolute_error", random_state=0, **{"effort": 1, **options})
    assert change(model, X, targets) < 0.05


def test_size_of_outliers_is_irrelevant_with_weights_and_eval_set() -> None:
    X, y = table()
    targets = [spoilt(y, 0.05, "both sides", factor) for factor in (1.0, 1e3)]
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=len(y))
    model = KernelRegressor(loss="absolute_error", effort=1, random_state=0)
    assert change(model, X, targets, sample_weight=weights, eval_set=(X[:60], y[:60])) < 0.05


def test_outliers_of_one_output_do_not_affect_another() -> None:
    X, y = table()
    targets = [
        np.column_stack([spoilt(y, 0.05, "above", factor), 1e-3 * y]) for factor in (1.0, 1e3)
    ]
    model = KernelRegressor(loss="huber", effort=1, random_state=0)
    assert change(model, X, targets) < 0.05
    error = np.abs(model.predict(X)[:, 1] - targets[0][:, 1])
    assert np.median(error) < 1e-3 * NOISE


def test_error_codes_do_not_widen_intervals() -> None:
    X, y = table(300)
    wrong = y.copy()
    wrong[:3] = 1e6
    model = KernelRegressor(loss="absolute_error", effort=1, random_state=0).fit(X, wrong)
    assert np.median(np.abs(model.predict(X) - y)) < NOISE
    rows, targets = table(1000, seed=1)
    lower, upper = model.predict_interval(rows, coverage=0.8)
    assert np.median(upper - lower) < 6 * NOISE
    assert 0.7 < np.mean((lower <= targets) & (targets <= upper)) < 0.95


def test_distant_group_that_inputs_explain_is_predicted() -> None:
    X, y = table(300)
    far = X[:, 2] > 1.3
    model = KernelRegressor(loss="absolute_error", effort=1, n_grids=80, random_state=0)
    predicted = model.fit(X, np.where(far, 200.0 + y, y)).predict(X)
    assert np.median(predicted[far]) == pytest.approx(200.0, abs=10.0)


def test_size_of_outliers_does_not_change_streamed_fits() -> None:
    X, y = table(400)
    results = []
    for factor in (1.0, 1e3):
        model = DoublyStochasticRegressor(loss="huber", max_steps=10, block_size=32, random_state=0)
        results.append(model.fit(X, spoilt(y, 0.05, "above", factor)).predict(X[:360]))
    assert np.sqrt(np.mean((results[0] - results[1]) ** 2)) < 0.05 * NOISE
    assert np.median(np.abs(results[1] - y[:360])) < 2 * NOISE


def test_targets_are_encoded_by_median_and_interquartile_range() -> None:
    for loss in [Huber(0.5), SmoothPinball(0.3)]:
        y = np.random.default_rng(0).normal(7.0, 3.0, size=20_000)
        y[:100] = 1e300
        codes = NumberEncoder.fit(y, None, loss).encode(y)
        assert np.median(codes) == pytest.approx(0.0, abs=1e-3)
        assert codes[100:].std() == pytest.approx(1.0, rel=0.05)
        assert codes.max() == 1e8
