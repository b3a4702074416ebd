"""Fits that go on from the last one."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gramless import KernelClassifier, KernelRegressor, KernelSurvival, load, save
from gramless.base.errors import InputError
from gramless.features.hybrid import JoinedMaps
from gramless.selection.candidates import earlier_model

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(900, 3))
Y = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=900)
FIRST, LAST = slice(0, 500), slice(300, 900)
GROWN: dict[str, Any] = {"grids": "grown", "n_grids": 24, "effort": 1, "random_state": 0}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "grown": (KernelRegressor, GROWN),
    "joined": (KernelRegressor, {**GROWN, "effort": 2, "n_grids": 40}),
    "random": (KernelRegressor, {"grids": "random", "n_grids": 8, "random_state": 0}),
    "nystrom": (KernelRegressor, {"features": "nystrom", "random_state": 0}),
    "poisson": (KernelRegressor, {**GROWN, "loss": "poisson"}),
    "classes": (KernelClassifier, GROWN),
    "ordered": (KernelClassifier, {**GROWN, "loss": "cumulative"}),
}


def targets(name: str) -> Any:
    if name == "poisson":
        return RNG.poisson(np.exp(Y)).astype(float)
    return Y if KINDS[name][0] is KernelRegressor else np.digitize(Y, [-0.5, 0.5])


def raw(model: Any) -> Any:
    return model._responses(X)


SLOW = "nystrom", "ordered", "classes"


@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=[pytest.mark.slow] * (k in SLOW)) for k in KINDS]
)
def test_warm_start_finds_the_cold_optimum(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From zero weights, with the same features, another fit ends at the same predictions."""
    # Weights near the middle between two multiples may be rounded either way.
    monkeypatch.setattr(earlier_model, "coarsest_step", lambda *of_a_fit: 0.0)
    kind, options = KINDS[name]
    y = targets(name)
    model = kind(**options, tol=1e-6, warm_start=True).fit(X[FIRST], y[FIRST])
    assert isinstance(model.features_, JoinedMaps) == (name == "joined")
    cold = copy.deepcopy(model)
    cold.weights_, cold.intercept_ = np.zeros_like(cold.weights_), 0.0 * np.asarray(cold.intercept_)
    features, growth, alpha = model.features_, model.growth_, model.alpha_
    n_first = model.n_samples_fit_
    for estimator in (model, cold):
        estimator.fit(X[LAST], y[LAST])
    spread = np.std(raw(cold))
    np.testing.assert_allclose(raw(model), raw(cold), rtol=0, atol=2e-3 * spread)
    assert model.growth_ == growth
    assert type(model.features_) is type(features)
    assert model.n_samples_fit_ == 600
    assert model.alpha_ * 600 == pytest.approx(alpha * n_first)


def test_warm_start_on_the_same_rows_takes_few_iterations() -> None:
    model = KernelRegressor(**GROWN, warm_start=True).fit(X, Y)
    before, scores = model.predict(X), model.errors_.scores
    cold = model.n_iter_
    model.fit(X, Y)
    assert model.n_iter_ <= cold
    assert np.std(model.predict(X) - before) < 0.03 * np.std(Y)
    assert len(model.errors_.scores) == len(scores)
    assert [trial["stage"] for trial in model.search_] == ["validation"]


def test_warm_start_adds_bins_of_new_rows() -> None:
    model = KernelRegressor(**GROWN, alpha=1e-4, warm_start=True).fit(X[:300], Y[:300])
    n_bins = model.features_.n_features_out
    model.fit(X, Y)
    assert model.features_.n_features_out > n_bins
    assert model.alpha_ == 1e-4
    model.set_params(alpha=1e-2).fit(X, Y)
    assert model.alpha_ == 1e-2
    assert len(model.growth_) > 0


def test_changed_parameters_discard_the_warm_start() -> None:
    for change in [
        {"n_grids": 8},
        {"random_state": 1},
        {"scaling": "standard"},
        {"warm_start": False},
    ]:
        model = KernelRegressor(**GROWN, warm_start=True).fit(X[:300], Y[:300])
        first = model.growth_
        model.set_params(**change).fit(X[:300], Y[:300])
        assert model.growth_ is not first
        assert [stage["seconds"] for stage in model.growth_] != [
            stage["seconds"] for stage in first
        ]


def test_auto_alpha_discards_a_warm_start_with_given_alpha() -> None:
    model = KernelRegressor(**GROWN, alpha=0.5, warm_start=True).fit(X[:300], Y[:300])
    first = model.growth_
    assert model.set_params(alpha="auto").fit(X[:300], Y[:300]).growth_ is not first


def test_warm_start_of_kernel_ridge_regression_uses_all_rows() -> None:
    model = KernelRegressor(random_state=0, warm_start=True).fit(X[:400], Y[:400])
    bandwidth = model.bandwidth_
    assert len(model.features_.landmarks_) == 400
    model.fit(X, Y)
    assert len(model.features_.landmarks_) == 900
    assert model.bandwidth_ == pytest.approx(bandwidth, rel=1e-12)
    assert model.score(X, Y) > 0.95


def test_pickled_and_saved_models_can_be_warm_started(tmp_path: Path) -> None:
    model = KernelRegressor(**GROWN, warm_start=True).fit(X[FIRST], Y[FIRST])
    save(model, tmp_path / "model")
    again = [pickle.loads(pickle.dumps(model)), load(tmp_path / "model")]
    expected = model.fit(X, Y).predict(X)
    for other in again:
        np.testing.assert_array_equal(other.fit(X, Y).predict(X), expected)


@pytest.mark.slow
def test_warm_start_continues_the_quantile_model() -> None:
    model = KernelRegressor(**GROWN | {"n_grids": 8}, intervals="quantiles", warm_start=True)
    model.fit(X[:300], Y[:300])
    growth = model.quantile_model_.growth_
    model.set_params(alpha=1e-3).fit(X[:300], Y[:300])
    assert model.quantile_model_.growth_ == growth
    assert model.quantile_model_.alpha_ == 1e-3


def test_warm_start_continues_survival_models() -> None:
    y = np.empty(900, [("event", bool), ("time", float)])
    y["event"], y["time"] = RNG.uniform(size=900) < 0.7, RNG.exponential(np.exp(-Y))
    model = KernelSurvival(**GROWN, tol=1e-4, warm_start=True).fit(X, y)
    before, growth = model.predict(X), model.growth_
    model.fit(X, y)
    assert model.growth_ == growth
    np.testing.assert_allclose(model.predict(X), before, atol=0.02)


def test_warm_start_rejects_other_targets() -> None:
    model = KernelRegressor(**GROWN, warm_start=True).fit(X, Y)
    with pytest.raises(InputError, match="2 outputs, but those of the previous fit had 1"):
        model.fit(X, np.column_stack([Y, Y]))
    with pytest.raises(InputError, match="give one target per row"):
        model.fit(X[:10], Y)
    labels = KernelClassifier(**GROWN, warm_start=True).fit(X, Y > 0)
    assert labels.fit(X[Y > 0], Y[Y > 0] > 0).classes_.tolist() == [False, True]
    with pytest.raises(InputError, match="the label 7 is none of the classes"):
        labels.fit(X, np.where(Y > 0, 7, 0))
