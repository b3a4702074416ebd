"""Validation rows passed to ``fit``: in pipelines, with weights, unlike the training rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from gramless import KernelClassifier, KernelRegressor, KernelSurvival
from gramless.base.errors import InputError
from gramless.estimators.validation_warnings import _fewest_outside

RNG = np.random.default_rng(0)
X = 100 * RNG.uniform(size=(700, 4)) + 500
Y = np.sin((X[:, 0] - 500) / 20) + (X[:, 1] - 500) / 50
FIT, LATER = slice(0, 500), slice(500, 700)
SMALL: dict[str, Any] = {"n_grids": 16, "effort": 1, "random_state": 0}
# With nothing left to choose.
FIXED: dict[str, Any] = {
    "n_grids": 16,
    "bandwidth": 50.0,
    "alpha": 1e-3,
    "scaling": "none",
    "random_state": 0,
}


def times() -> Any:
    y = np.empty(700, [("event", bool), ("time", float)])
    y["event"], y["time"] = RNG.uniform(size=700) < 0.7, RNG.exponential(np.exp(-Y))
    return y


CASES = [
    pytest.param(KernelRegressor, Y, id="regressor"),
    pytest.param(KernelClassifier, np.where(Y > 1, "high", "low"), id="classifier"),
    pytest.param(KernelSurvival, times(), id="survival"),
]


def pipeline(model: Any, **options: Any) -> Pipeline:
    return Pipeline([("scale", StandardScaler()), ("model", model)], **options)


@pytest.mark.parametrize(("kind", "y"), CASES)
def test_pipeline_transforms_x_val(kind: Any, y: Any) -> None:
    scaler = StandardScaler().fit(X[FIT])
    by_hand = kind(**SMALL).fit(
        scaler.transform(X[FIT]), y[FIT], eval_set=(scaler.transform(X[LATER]), y[LATER])
    )
    with sklearn.config_context(enable_metadata_routing=True):
        model = kind(**SMALL).set_fit_request(X_val=True, y_val=True, sample_weight_val=True)
        pipe = pipeline(model, transform_input=["X_val"])
        pipe.fit(X[FIT], y[FIT], X_val=X[LATER], y_val=y[LATER], sample_weight_val=np.ones(200))
    np.testing.assert_allclose(
        pipe.predict(X[LATER]) == by_hand.predict(scaler.transform(X[LATER])), 1
    )


@pytest.mark.parametrize(("kind", "y"), CASES)
def test_untransformed_eval_set_of_a_pipeline_warns(kind: Any, y: Any) -> None:
    pipe = pipeline(kind(**SMALL))
    with pytest.warns(UserWarning, match=r"outside the range.*columns? 0, 1, 2 and 1 more.*X_val"):
        pipe.fit(X[FIT], y[FIT], model__eval_set=(X[LATER], y[LATER]))


def test_warning_names_a_column_outside_the_training_range() -> None:
    frame = pd.DataFrame(RNG.normal(size=(700, 3)), columns=["age", "income", "size"])
    later = frame[LATER].assign(income=50_000.0)
    with pytest.warns(UserWarning, match="'income'"):
        KernelRegressor(**SMALL).fit(frame[FIT], Y[FIT], X_val=later, y_val=Y[LATER])


def test_later_times_give_no_warning() -> None:
    rows = np.column_stack([np.arange(700), X])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelRegressor(**SMALL).fit(rows[FIT], Y[FIT], X_val=rows[LATER], y_val=Y[LATER])


def test_predictions_worse_than_a_constant_warn() -> None:
    for kind, y, wrong in [
        (KernelRegressor, Y, -Y),
        (KernelClassifier, np.where(Y > 1, 1, 0), np.where(Y > 1, 0, 1)),
    ]:
        model = kind(**FIXED)
        with pytest.warns(UserWarning, match="worse than by a constant"):
            model.fit(X[FIT], y[FIT], X_val=X[LATER], y_val=wrong[LATER])


def test_noise_gives_no_warning() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, m, d = int(rng.choice([20, 60, 200])), int(rng.choice([1, 2, 8, 40])), 1 + 9 * (seed % 2)
        rows = rng.standard_t(1.5, size=(n + m, d))
        y = rng.integers(0, 2, n + m) if seed % 3 == 0 else rng.standard_t(1.5, n + m)
        kind = KernelClassifier if seed % 3 == 0 else KernelRegressor
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kind(**SMALL).fit(rows[:n], y[:n], X_val=rows[n:], y_val=y[n:])


@given(st.integers(1, 30), st.integers(1, 12), st.sampled_from([0.3, 0.05, 1e-2]))
@settings(max_examples=30, deadline=None)
def test_similar_rows_rarely_exceed_the_threshold(n: int, m: int, probability: float) -> None:
    """Simulated tables have so many validation rows outside at most as often as promised."""
    least = _fewest_outside(n, m, probability)
    draws = np.random.default_rng(0).uniform(size=(4000, n + m))
    training, later = draws[:, :n], draws[:, n:]
    outside = (later < training.min(axis=1)[:, None]) | (later > training.max(axis=1)[:, None])
    share = (outside.sum(axis=1) >= least).mean()
    assert share <= probability + 4 * np.sqrt(probability / 4000)


@pytest.mark.parametrize(("kind", "y"), CASES)
def test_integer_validation_weights_equal_repeated_rows(kind: Any, y: Any) -> None:
    weight = RNG.integers(0, 3, 200)
    repeated = np.repeat(np.arange(500, 700), weight)
    by_weight, by_rows = kind(**FIXED), kind(**FIXED)
    by_weight.fit(X[FIT], y[FIT], X_val=X[LATER], y_val=y[LATER], sample_weight_val=weight)
    by_rows.fit(X[FIT], y[FIT], X_val=X[repeated], y_val=y[repeated])
    scores, others = (model.evals_result_["valid_0"] for model in (by_weight, by_rows))
    for name, values in scores.items():
        # The mean weight of all rows, which survival's exposures change, scales the penalty.
        np.testing.assert_allclose(values[-1], others[name][-1], rtol=1e-3)


def test_zero_validation_weights_equal_removed_rows() -> None:
    later, targets = X[LATER].copy(), Y[LATER].copy()
    weight = np.ones(200)
    weight[:50], later[:50], targets[:50] = 0.0, 1e9, -1e9
    with_zeros, without = KernelRegressor(**SMALL), KernelRegressor(**SMALL)
    with_zeros.fit(X[FIT], Y[FIT], X_val=later, y_val=targets, sample_weight_val=weight)
    without.fit(X[FIT], Y[FIT], X_val=X[550:700], y_val=Y[550:700], sample_weight_val=np.ones(150))
    np.testing.assert_array_equal(with_zeros.predict(X), without.predict(X))


def test_scorer_receives_validation_weights() -> None:
    weight = np.where(np.arange(200) < 100, 1.0, 1e-6)
    model = KernelRegressor(**FIXED, scoring="neg_mean_squared_error")
    model.fit(X[FIT], Y[FIT], X_val=X[LATER], y_val=Y[LATER], sample_weight_val=weight)
    error = np.mean((model.predict(X[500:600]) - Y[500:600]) ** 2)
    (scores,) = model.evals_result_["valid_0"].values()
    assert scores[-1] == pytest.approx(error, rel=0.05)


def test_inconsistent_validation_arguments_are_rejected() -> None:
    for arguments, message in [
        ({"X_val": X}, "X_val is given and y_val is not"),
        ({"y_val": Y}, "y_val is given and X_val is not"),
        ({"sample_weight_val": np.ones(700)}, "sample_weight_val needs X_val"),
        ({"X_val": X, "y_val": Y, "eval_set": (X, Y)}, "eval_set and X_val, y_val both"),
        ({"X_val": X, "y_val": Y[:3]}, "X_val has 700 rows and 3 targets"),
        ({"X_val": X, "y_val": Y, "sample_weight_val": np.zeros(700)}, "sample_weight_val"),
        ({"X_val": X, "y_val": Y, "sample_weight_val": [1.0]}, "sample_weight_val"),
    ]:
        with pytest.raises(InputError, match=message):
            KernelRegressor(**SMALL).fit(X, Y, **arguments)
