"""Use the model for TabArena as AutoGluon does, and with AutoGluon itself if it is installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.benchmarks import abstract_model

N_ROWS, N_TRAINING = 700, 500


@pytest.fixture(scope="module")
def model_class() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        if importlib.util.find_spec("autogluon") is None:
            for name in ("autogluon", "autogluon.core"):
                patch.setitem(sys.modules, name, ModuleType(name))
            patch.setitem(sys.modules, "autogluon.core.models", abstract_model)
        module = importlib.import_module("benchmarks.tabarena")
        yield module.GramlessModel
        del sys.modules["benchmarks.tabarena"]


@pytest.fixture(scope="module")
def X() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_ROWS, 2))
    frame = pd.DataFrame(
        {
            "number": x[:, 0],
            "gaps": np.where(rng.random(N_ROWS) < 0.1, np.nan, x[:, 1]),
            "count": rng.integers(0, 9, N_ROWS),
            "flag": rng.integers(0, 2, N_ROWS).astype(bool),
            "kind": pd.Categorical(rng.choice(["a", "b", "c"], N_ROWS)),
            "constant": np.ones(N_ROWS),
            "when": pd.date_range("2020-01-01", periods=N_ROWS),
        }
    )
    # Bagged folds keep the row labels of the whole table.
    return frame.set_index(np.arange(N_ROWS)[::-1])


def targets(X: pd.DataFrame, problem_type: str) -> pd.Series:
    z = np.sin(2 * X["number"]) + X["flag"] + (X["kind"] == "a") + 0.2 * X["gaps"].fillna(0.0)
    cuts = {"binary": [1.0], "multiclass": [0.5, 1.5]}.get(problem_type)
    return z if cuts is None else pd.Series(np.digitize(z, cuts), index=X.index)


def fitted(model_class: Any, X: pd.DataFrame, problem_type: str, folder: Path, **given: Any) -> Any:
    y = targets(X, problem_type)
    n_classes = None if problem_type == "regression" else y.nunique()
    metric = {"binary": "roc_auc", "multiclass": "log_loss"}.get(problem_type, "rmse")
    hyperparameters = {"effort": 1, **given.pop("hyperparameters", {})}
    model = model_class(
        path=str(folder),
        name="gramless",
        problem_type=problem_type,
        eval_metric=metric,
        hyperparameters=hyperparameters,
    )
    parts = {"X": X[:N_TRAINING], "y": y[:N_TRAINING]}
    parts |= {"X_val": X[N_TRAINING:], "y_val": y[N_TRAINING:]}
    return model.fit(**parts, num_classes=n_classes, num_cpus=1, num_gpus=0, **given)


@pytest.mark.parametrize("problem_type", ["binary", "multiclass", "regression"])
def test_fits_predicts_and_is_saved(
    model_class: Any, X: pd.DataFrame, problem_type: str, tmp_path: Path
) -> None:
    model = fitted(model_class, X, problem_type, tmp_path, time_limit=600.0)
    rows, y = X[N_TRAINING:], targets(X, problem_type)[N_TRAINING:]
    result = model.predict_proba(rows)
    shape = (len(rows), 3) if problem_type == "multiclass" else (len(rows),)
    assert result.shape == shape
    assert result.dtype == np.float32
    if problem_type == "regression":
        assert np.mean((result - y) ** 2) < 0.2 * np.var(y)
    else:
        assert np.mean(model.predict(rows) == y) > 0.85
    estimator = model.model
    assert (estimator.n_jobs, estimator.random_state, estimator.effort) == (1, 0, 1)
    assert 590.0 < estimator.time_budget < 600.0
    assert list(estimator.feature_names_in_) == ["number", "gaps", "count", "flag", "kind"]
    loaded = model_class.load(model.save())
    np.testing.assert_array_equal(loaded.predict_proba(rows), result)


def test_hyperparameters_weights_and_seed_reach_the_estimator(
    model_class: Any, X: pd.DataFrame, tmp_path: Path
) -> None:
    weights = pd.Series(np.where(X["flag"], 1.0, 0.0), index=X.index)[:N_TRAINING]
    given = {"n_grids": 24, "time_budget": 100.0}
    model = fitted(
        model_class,
        X,
        "regression",
        tmp_path,
        hyperparameters=given,
        sample_weight=weights,
        random_seed=7,
        time_limit=600.0,
    )
    estimator = model.model
    assert (estimator.n_grids, estimator.random_state, estimator.time_budget) == (24, 7, 100.0)
    without = fitted(
        model_class, X, "regression", tmp_path / "plain", hyperparameters=given, random_seed=7
    )
    assert (without.predict_proba(X) != model.predict_proba(X)).any()


def test_memory_grows_with_the_table_and_the_effort(model_class: Any) -> None:
    def estimate(n_rows: int, effort: int, num_classes: int | None = None) -> int:
        return model_class.estimate_memory_usage_static(
            X=pd.DataFrame(np.zeros((n_rows, 4))),
            hyperparameters={"effort": effort},
            problem_type="multiclass" if num_classes else "regression",
            num_classes=num_classes,
        )

    assert estimate(1000, 3) < estimate(100_000, 3) < estimate(100_000, 5)
    assert estimate(1000, 3) < estimate(1000, 3, num_classes=50) < 1e9


def test_says_what_it_is(model_class: Any) -> None:
    assert (model_class.ag_key, model_class.ag_name) == ("GRAMLESS", "gramless")
    assert set(model_class.supported_problem_types()) == {"binary", "multiclass", "regression"}


def test_warmup_compiles_the_loops(model_class: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr("benchmarks.tabarena.warmup", lambda: calls.append("compiled"))
    model_class.warmup()
    assert calls == ["compiled"]
