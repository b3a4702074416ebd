"""Predictions that never fall, or never rise, along a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor, KernelSurvival, load, save
from gramless.base.errors import InputError

RNG = np.random.default_rng(0)
X = np.column_stack(
    [RNG.standard_t(2, 800), RNG.uniform(-2, 2, 800), RNG.poisson(2.0, 800), RNG.normal(size=800)]
)
TRUTH = np.arctan(X[:, 0]) - 0.3 * X[:, 2] + np.sin(2.0 * X[:, 1]) * X[:, 3]
Y = TRUTH + 0.5 * RNG.normal(size=800)
CST = [1, 0, -1, 0]
SMALL: dict[str, Any] = {"effort": 1, "n_grids": 60, "random_state": 0}


def falls(predict: Any, column: int, n_lines: int = 30) -> float:
    """Return by how much predictions fall at most from one place on a line to the next.

    Lines lead through bins without rows and beyond all rows, and through every edge of ranks.
    """
    ends = np.concatenate([np.linspace(-1e3, 1e3, 97), np.linspace(-9, 9, 301), X[:, column]])
    line = np.sort(np.concatenate([ends, np.nextafter(ends, np.inf), np.nextafter(ends, -np.inf)]))
    worst = -np.inf
    for row in X[RNG.integers(len(X), size=n_lines)] + RNG.normal(size=(n_lines, X.shape[1])):
        rows = np.repeat(row[None, :], len(line), axis=0)
        rows[:, column] = line
        worst = max(worst, float(-np.diff(predict(rows)).min()))
    return worst


def check(model: Any) -> None:
    predict = model.decision_function if isinstance(model, KernelClassifier) else model.predict
    assert falls(predict, 0) <= 0.0
    assert falls(lambda rows: -predict(rows), 2) <= 0.0


KINDS: dict[str, tuple[Any, dict[str, Any], NDArray[Any]]] = {
    "numbers": (KernelRegressor, {}, Y),
    "counts": (KernelRegressor, {"loss": "poisson"}, RNG.poisson(np.exp(TRUTH / 2))),
    "medians": (KernelRegressor, {"loss": "absolute_error"}, Y),
    "classes": (KernelClassifier, {}, Y > 0),
    "ordered": (KernelClassifier, {"loss": "cumulative"}, np.digitize(Y, [-1, 1])),
}


SLOW = ("ordered",)


@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=[pytest.mark.slow] * (k in SLOW)) for k in KINDS]
)
def test_predictions_are_monotone_everywhere(name: str) -> None:
    kind, options, y = KINDS[name]
    model = kind(**SMALL, **options, monotonic_cst=CST).fit(X, y)
    check(model)
    divided = np.isfinite(model.features_.grids.widths)
    constrained = divided[:, [0, 2, 4, 6]].any(axis=1)
    assert constrained.any()
    assert (divided[constrained].sum(axis=1) == 1).all()
    if name == "classes":
        assert falls(lambda rows: model.predict_proba(rows)[:, 1], 0, 3) <= 0.0


def test_true_constraints_reduce_the_error() -> None:
    few, rest = slice(0, 300), slice(300, None)
    free = KernelRegressor(**SMALL, grids="grown").fit(X[few], Y[few])
    model = KernelRegressor(**SMALL, monotonic_cst=CST).fit(X[few], Y[few])
    assert falls(free.predict, 0) > 0.0
    errors = [
        np.mean((estimator.predict(X[rest]) - TRUTH[rest]) ** 2) for estimator in (model, free)
    ]
    assert errors[0] < errors[1]


def test_wrong_direction_leaves_nearly_constant_predictions() -> None:
    y = X[:, 1] + 0.1 * RNG.normal(size=800)
    model = KernelRegressor(**SMALL, monotonic_cst=[0, -1, 0, 0]).fit(X, y)
    assert falls(lambda rows: -model.predict(rows), 1) <= 0.0
    assert np.std(model.predict(X)) < 0.4


def test_frames_with_gaps_stay_monotone_after_warm_start_and_saving(tmp_path: Any) -> None:
    frame = pd.DataFrame(X.copy(), columns=list("abcd"))
    frame.loc[::7, "a"] = np.nan
    model = KernelRegressor(**SMALL, monotonic_cst={"a": 1, "c": -1}, warm_start=True)
    model.fit(frame[:600], Y[:600])
    for _ in range(2):
        check_named = lambda rows: model.predict(pd.DataFrame(rows, columns=list("abcd")))  # noqa: E731
        assert falls(check_named, 0, 5) <= 0.0
        growth = model.growth_
        model.fit(frame, Y)
        assert model.growth_ == growth
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(frame), model.predict(frame))


def test_binary_and_constant_columns_may_be_monotone() -> None:
    rows = np.column_stack([X[:, 0] > 0, np.ones(800), X[:, 1]]).astype(float)
    model = KernelRegressor(**SMALL, monotonic_cst=[1, 1, 0]).fit(rows, Y)
    line = np.column_stack([np.linspace(-3, 3, 200), np.full(200, 1.0), np.zeros(200)])
    result = model.predict(line)
    assert np.diff(result).min() >= 0.0
    assert result[-1] > result[0] + 0.5


@pytest.mark.slow
def test_survival_predictions_are_monotone() -> None:
    y = np.empty(800, [("event", bool), ("time", float)])
    y["event"], y["time"] = RNG.uniform(size=800) < 0.7, RNG.exponential(np.exp(-TRUTH))
    model = KernelSurvival(**SMALL, monotonic_cst=CST).fit(X, y)
    check(model)


def test_unsupported_constraints_are_rejected() -> None:
    for options, message in [
        ({"monotonic_cst": [1, 0, 0]}, "-1, 0 or 1 for each of 4 columns"),
        ({"monotonic_cst": [2, 0, 0, 0]}, "-1, 0 or 1"),
        ({"monotonic_cst": {"a": 1}}, "the column 'a'"),
        ({"monotonic_cst": CST, "grids": "random"}, "for grown grids"),
        ({"monotonic_cst": CST, "bandwidth": 1.0}, "for grown grids"),
        ({"monotonic_cst": CST, "features": "fourier"}, "for grown grids"),
        ({"monotonic_cst": CST, "l1_ratio": 0.5}, "for grown grids"),
        ({"monotonic_cst": CST, "n_posterior": 3}, "n_posterior=0"),
        ({"monotonic_cst": CST, "categorical_features": [2]}, "column 2, which holds categories"),
    ]:
        with pytest.raises(InputError, match=message):
            KernelRegressor(**options).fit(X, Y)


def test_constraints_reject_several_outputs_sparse_rows_and_classes() -> None:
    model = KernelRegressor(monotonic_cst=CST)
    with pytest.raises(InputError, match="one output"):
        model.fit(X, np.column_stack([Y, Y]))
    with pytest.raises(InputError, match="for grown grids"):
        model.set_params(memory_budget=100.0 * len(X)).fit(sp.csr_array(X), Y)
    with pytest.raises(InputError, match="two classes"):
        KernelClassifier(monotonic_cst=CST).fit(X, np.digitize(Y, [-1, 1]))
