"""Rows that are added batch by batch."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gramless import KernelClassifier, KernelRegressor
from gramless.base.errors import InputError
from gramless.features.expansion import KernelExpansion
from gramless.features.hybrid import JoinedMaps

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6000, 3))
TRUTH = np.sin(2 * X[:, 0]) * X[:, 1] + np.arctan(3 * X[:, 2])
Y = TRUTH + 0.5 * RNG.normal(size=6000)
FIRST, TEST = 1000, slice(4000, None)
GROWN: dict[str, Any] = {"grids": "grown", "n_grids": 80, "effort": 1, "random_state": 0}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "grown": (KernelRegressor, GROWN),
    "joined": (KernelRegressor, {**GROWN, "effort": 2}),
    "ridge": (KernelRegressor, {"random_state": 0}),
    "nystrom": (KernelRegressor, {"features": "nystrom", "bandwidth": 1.0, "random_state": 0}),
    "two outputs": (KernelRegressor, GROWN),
    "two classes": (KernelClassifier, GROWN),
    "three classes": (KernelClassifier, GROWN),
    "squares": (KernelClassifier, {**GROWN, "loss": "squared_hinge"}),
}


def targets(name: str) -> Any:
    if name in ("joined", "ridge"):
        # Smooth kernels help where there is little noise.
        return np.sin(X[:, 0]) * X[:, 1] + 0.1 * np.random.default_rng(1).normal(size=6000)
    if name == "two outputs":
        return np.column_stack([Y, 10.0 - Y])
    if name in ("two classes", "squares"):
        return (Y > 0).astype(int)
    return np.digitize(Y, [-1, 1]) if name == "three classes" else Y


def error(model: Any, y: Any) -> float:
    if isinstance(model, KernelClassifier):
        chances = model.predict_proba(X[TEST])[np.arange(2000), y[TEST]]
        return float(-np.log(chances).mean())
    return float(np.mean((model.predict(X[TEST]) - y[TEST]) ** 2))


SLOW = "nystrom", "two outputs", "three classes", "squares"


@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=[pytest.mark.slow] * (k in SLOW)) for k in KINDS]
)
def test_batches_reach_nearly_the_error_of_one_fit(name: str) -> None:
    kind, options = KINDS[name]
    y = targets(name)
    model = kind(**options, warm_start=True).partial_fit(X[:FIRST], y[:FIRST])
    assert isinstance(model.features_, JoinedMaps) == (name == "joined")
    assert isinstance(model.features_, KernelExpansion) == (name == "ridge")
    # Of few rows smooth kernels see too little: batches of 600 end a tenth above all rows.
    n_rows, size = (4000, 1500) if name == "joined" else (1600, 600)
    first, whole = copy.deepcopy(model), copy.deepcopy(model).fit(X[:n_rows], y[:n_rows])
    for at in range(FIRST, n_rows, size):
        model.partial_fit(X[at : at + size], y[at : at + size])
    assert model.n_samples_fit_ == n_rows
    results = [error(estimator, y) for estimator in (model, whole, first)]
    assert results[0] < 1.05 * results[1]
    assert results[0] < results[2]
    assert np.shape(model.intercept_) == np.shape(first.intercept_)


def test_partial_fit_adds_bins_and_keeps_old_ones() -> None:
    model = KernelRegressor(**GROWN).fit(X[:FIRST], Y[:FIRST])
    before = copy.deepcopy(model)
    model.partial_fit(X[FIRST:1200], Y[FIRST:1200])
    old, new = before.features_, model.features_
    assert new.n_features_out > old.n_features_out
    moved = old.weights_in(new, np.arange(1.0, old.n_features_out + 1))
    assert (np.sort(moved[moved > 0]) == np.arange(1.0, old.n_features_out + 1)).all()
    assert model.alpha_ * 1200 == pytest.approx(before.alpha_ * 1000)


def test_partial_fit_on_its_own_predictions_changes_nothing() -> None:
    model = KernelRegressor(**GROWN).fit(X[:FIRST], Y[:FIRST])
    before = model.predict(X)
    model.partial_fit(X[:50], before[:50])
    np.testing.assert_allclose(model.predict(X), before, rtol=0, atol=1e-6)
    model.partial_fit(X[5000:5001], Y[5000:5001])
    assert np.abs(model.predict(X[TEST]) - before[TEST]).mean() < 0.01


def test_partial_fit_takes_frames_and_weights_and_rejects_unknown_labels() -> None:
    frame, labels = pd.DataFrame(X, columns=list("abc")), np.where(Y > 0, "yes", "no")
    model = KernelClassifier(**GROWN, class_weight="balanced")
    model.partial_fit(frame[:FIRST], labels[:FIRST], classes=["no", "yes"])
    weight = np.where(np.arange(500) < 250, 1.0, 0.0)
    other = copy.deepcopy(model)
    model.partial_fit(frame[1000:1500], labels[1000:1500], sample_weight=weight)
    other.partial_fit(frame[1000:1250], labels[1000:1250])
    np.testing.assert_array_equal(model.weights_, other.weights_)
    assert model.score(frame[TEST], labels[TEST]) > 0.8
    with pytest.raises(InputError, match="the label 'maybe' is none of the classes"):
        model.partial_fit(frame[:2], ["yes", "maybe"])


@pytest.mark.parametrize(("n_classes", "n_first"), [(2, 400), (3, 40)])
def test_class_may_first_appear_in_a_later_batch(n_classes: int, n_first: int) -> None:
    names = np.array(["a", "b", "c"])[:n_classes]
    other = np.where((X[:, 0] > 0) & (n_classes > 2), names[-1], "b")
    y = np.where(np.abs(X[:, 0]) < 0.5, "a", other)
    model = KernelClassifier(effort=1, random_state=0, class_weight={"a": 2.0})
    first = np.flatnonzero(y != "a")[:n_first]
    model.partial_fit(X[first], y[first], classes=names)
    assert model.classes_.tolist() == names.tolist()
    assert model.predict_proba(X[TEST]).shape == (2000, n_classes)
    assert "a" not in model.predict(X[TEST])
    for start in range(1000, 4000, 1000):
        model.partial_fit(X[start : start + 1000], y[start : start + 1000])
    assert model.score(X[TEST], y[TEST]) > 0.85


def test_first_batch_rejects_labels_outside_classes() -> None:
    with pytest.raises(InputError, match="the label 'no' was not among"):
        KernelClassifier(effort=1).partial_fit(X[:99], ["no", "yes", "a"] * 33, classes=["a", "b"])


def test_models_that_cannot_continue_have_no_partial_fit() -> None:
    for options in [
        {"loss": "huber"},
        {"l1_ratio": 0.5},
        {"intervals": "quantiles"},
        {"n_posterior": 2},
    ]:
        given = {**GROWN, "n_grids": 8, **options}
        assert not hasattr(KernelRegressor(**given), "partial_fit")
        model = KernelRegressor(**given).fit(X[:300], Y[:300])
        with pytest.raises(AttributeError, match="partial_fit"):
            model.partial_fit(X[:300], Y[:300])
