"""Rows that judge every choice and are never fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import mean_squared_error

from gramless import KernelClassifier, KernelRegressor, KernelSurvival
from gramless.base.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(500, 3))
Y = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=500)
FIT, LATER = slice(0, 400), slice(400, 500)
SMALL: dict[str, Any] = {"grids": "grown", "n_grids": 24, "effort": 1, "random_state": 0}


def fitted(model: Any, y: Any = Y, change: float = 0.0) -> Any:
    """Return the model, with targets of the set that may be changed."""
    return model.fit(X[FIT], y[FIT], eval_set=(X[LATER], y[LATER] + change))


@pytest.mark.parametrize(
    "options",
    [
        SMALL | {"alpha": 1e-3},
        {"grids": "random", "n_grids": 8, "bandwidth": 1.0, "alpha": 1e-2, "scaling": "standard"},
        {"features": "nystrom", "bandwidth": 1.0, "alpha": 1e-2, "scaling": "quantile"},
    ],
    ids=["grown", "random", "nystrom"],
)
def test_eval_set_does_not_change_the_weights(options: dict[str, Any]) -> None:
    """With every choice given, targets of the set change what judges and nothing else."""
    model, other = (
        fitted(KernelRegressor(**{"random_state": 0, "tol": 1e-10, **options}), change=change)
        for change in (0.0, 1e-9)
    )
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=0, atol=1e-5)
    scale = np.var(Y[FIT])
    scores = model.evals_result_["valid_0"]["squared error"]
    expected = mean_squared_error(Y[LATER], model.predict(X[LATER])) / scale
    assert scores[-1] == pytest.approx(expected, rel=0.05)
    assert model.cv_ == "eval_set"
    assert len(model.errors_.scores) == 100


def test_final_fit_excludes_the_eval_set() -> None:
    """Far off targets of the set would pull a fit that knew them."""
    model = fitted(KernelRegressor(**SMALL, alpha=1e-3), change=1e3)
    assert np.abs(model.predict(X[LATER]) - Y[LATER]).max() < 5.0
    grown = model.evals_result_["valid_0"]["squared loss"]
    assert grown == [stage["score"] for stage in model.growth_]
    assert min(grown) > 1e4


def test_kernel_ridge_regression_excludes_the_eval_set() -> None:
    model = fitted(KernelRegressor(random_state=0))
    assert model.settings_.grids == "random"
    assert len(model.features_.landmarks_) == 400
    assert model.score(X[LATER], Y[LATER]) > 0.9


def test_eval_set_may_be_a_frame_a_list_or_sparse() -> None:
    names = ["a", "b", "c"]
    frame = pd.DataFrame(X, columns=names)
    by_array = KernelRegressor(**SMALL).fit(X[FIT], Y[FIT], eval_set=[(X[LATER], Y[LATER])])
    by_frame = KernelRegressor(**SMALL).fit(
        frame[FIT], Y[FIT], eval_set=(frame[LATER][names[::-1]], Y[LATER])
    )
    np.testing.assert_array_equal(by_array.predict(X), by_frame.predict(frame))
    assert by_array.evals_result_ == by_frame.evals_result_
    rows = sp.csr_array(X)
    options: dict[str, Any] = {"bandwidth": 1.0, "alpha": 0.1, "n_grids": 8, "random_state": 0}
    model = KernelRegressor(**options).fit(rows[:400], Y[FIT], eval_set=(rows[400:], Y[LATER]))
    assert len(model.evals_result_["valid_0"]["squared error"]) >= 1


def test_eval_set_is_scored_by_the_given_scorer() -> None:
    labels = np.where(Y > 0, "yes", "no")
    model = KernelClassifier(**SMALL, scoring="roc_auc", class_weight="balanced")
    weight, groups = RNG.uniform(0, 1, 400).round(1), np.arange(400) // 4
    pair = X[LATER], labels[LATER]
    model.fit(X[FIT], labels[FIT], weight, groups, eval_set=pair)
    assert model.score(*pair) > 0.8
    assert set(model.evals_result_["valid_0"]) == {"'roc_auc'"}
    model = KernelRegressor(
        **SMALL, scoring=lambda model, X, y: -np.abs(model.predict(X) - y).max()
    )
    assert fitted(model).scorer_.endswith("<lambda>")


def test_survival_takes_an_eval_set() -> None:
    y = np.empty(500, [("event", bool), ("time", float)])
    y["event"], y["time"] = RNG.uniform(size=500) < 0.7, RNG.exponential(np.exp(-Y))
    model = KernelSurvival(**SMALL).fit(X[FIT], y[FIT], eval_set=(X[LATER], y[LATER]))
    assert model.score(X[LATER], y[LATER]) > 0.55


def test_invalid_eval_sets_are_rejected() -> None:
    model, labels = KernelRegressor(**SMALL), np.where(Y > 0, 1, 0)
    for wrong in (X, [], [(X, Y), (X, Y)], (X, Y, Y)):
        with pytest.raises(InputError, match="eval_set must be a pair"):
            model.fit(X, Y, eval_set=wrong)
    with pytest.raises(InputError, match="eval_set has 3 rows and 2 targets"):
        model.fit(X, Y, eval_set=(X[:3], Y[:2]))
    with pytest.raises(InputError, match="2 features"):
        model.fit(X, Y, eval_set=(X[:3, :2], Y[:3]))
    with pytest.raises(InputError, match="cv=3 and eval_set"):
        KernelRegressor(cv=3).fit(X, Y, eval_set=(X, Y))
    with pytest.raises(InputError, match="label 7, which no training row has"):
        KernelClassifier().fit(X, labels, eval_set=(X, np.where(Y > 0, 7, 0)))
    with pytest.raises(InputError, match="not negative"):
        KernelRegressor(loss="poisson").fit(X, labels, eval_set=(X, -labels))
