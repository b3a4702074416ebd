"""Cox's proportional hazards: the maximum of the partial likelihood, and what is said of times."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.optimize import approx_fprime

from gramless import KernelSurvival, RandomBinning, load, save
from gramless.base.errors import InputError
from gramless.datasets import Table
from gramless.estimators.survival import BaselineHazard, concordance_index, event_times

GIVEN = {"bandwidth": 2.0, "alpha": 1e-2, "scaling": "standard", "random_state": 0}


def lifetimes(n_rows: int, *, ties: bool = False):
    """Return rows, true log risks, and structured targets."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n_rows, 4))
    risk = 1.5 * X[:, 0] + np.sin(4 * X[:, 1])
    times, ends = rng.exponential(np.exp(-risk)), rng.exponential(1.5, n_rows)
    y = np.empty(n_rows, [("died", bool), ("days", float)])
    y["died"], y["days"] = times <= ends, np.minimum(times, ends)
    if ties:
        y["days"] = np.ceil(8 * y["days"])
    return X, risk, y


def partial_likelihood(z, y, weight) -> float:
    """Return the logarithm of Cox's partial likelihood, with Breslow's way of ties."""
    total = 0.0
    for i in np.flatnonzero(y["died"]):
        at_risk = y["days"] >= y["days"][i]
        total += weight[i] * (z[i] - np.log(np.sum(weight[at_risk] * np.exp(z[at_risk]))))
    return total


@pytest.mark.parametrize(("ties", "weighted"), [(False, True), (True, False), (True, True)])
def test_fit_maximizes_the_penalized_partial_likelihood(ties, weighted):
    X, _, y = lifetimes(60, ties=ties)
    weight = np.random.default_rng(1).integers(1, 4, 60).astype(float)
    weight = weight if weighted else np.ones(60)
    model = KernelSurvival(RandomBinning(n_grids=4), **GIVEN, tol=1e-9)
    model.fit(X, y, weight if weighted else None)
    Z = model.features_.rows_matrix(model.scaler_.rows(X, None)).toarray()

    def objective(w):
        n_events = weight[y["died"]].sum()
        return -partial_likelihood(Z @ w, y, weight) / n_events + 0.5 * model.alpha_ * w @ w

    slope = approx_fprime(model.weights_, objective, 1e-7)
    at_zero = approx_fprime(np.zeros_like(model.weights_), objective, 1e-7)
    assert np.abs(slope).max() < 1e-5 < 1e-2 < np.abs(at_zero).max()
    np.testing.assert_allclose(np.average(model.predict(X), weights=weight), 0.0, atol=1e-8)


def test_baseline_hazard_is_breslows():
    _, risk, y = lifetimes(50, ties=True)
    weight = np.random.default_rng(1).gamma(1.0, size=50)
    times = event_times(y, "test")
    hazard = BaselineHazard.breslow(times, risk, weight)
    reference = 0.0
    for time in np.unique(y["days"][y["died"]]):
        now, at_risk = y["died"] & (y["days"] == time), y["days"] >= time
        reference += weight[now].sum() / np.sum(weight[at_risk] * np.exp(risk[at_risk]))
        assert hazard.at(np.array([time]))[0] == pytest.approx(reference, rel=1e-12)
    assert hazard.at(np.array([0.0]))[0] == 0.0


def test_grown_grids_predict_risks_and_survival(tmp_path):
    X, risk, y = lifetimes(2500)
    model = KernelSurvival(random_state=0).fit(X[:1500], y[:1500])
    assert model.settings_.grids == "grown"
    X, risk, y = X[1500:], risk[1500:], y[1500:]
    assert model.score(X, y) > concordance_index(y["died"], y["days"], risk) - 0.015
    times = np.quantile(y["days"], [0.1, 0.5, 0.8])
    alive = model.predict_survival_function(X, times)
    assert (np.diff(alive, axis=1) <= 0).all()
    truth = np.exp(-np.multiply.outer(np.exp(risk), times))
    of_all = np.abs(truth.mean(axis=0) - truth).mean()
    assert np.abs(alive - truth).mean() < 0.5 * of_all
    assert model.predict_survival_function(X[:3]).shape == (3, len(model.event_times_))
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    few = X[:9]
    np.testing.assert_array_equal(
        loaded.predict_survival_function(few, times), model.predict_survival_function(few, times)
    )


def small() -> KernelSurvival:
    return KernelSurvival(RandomBinning(n_grids=16), **GIVEN)


def test_targets_may_be_structured_frames_or_times():
    X, _, y = lifetimes(100)
    frame = pd.DataFrame({"days": y["days"], "died": y["died"]})
    swapped = np.array([(b, a) for a, b in y], [("t", float), ("e", bool)])
    models = [small().fit(X, targets) for targets in (y, frame, swapped)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.weights_, models[0].weights_)
    uncensored = small().fit(X, y["days"])
    all_events = y.copy()
    all_events["died"] = True
    np.testing.assert_array_equal(uncensored.weights_, small().fit(X, all_events).weights_)


FRAME = pd.DataFrame({"days": [3.0, 5.0, 4.0], "died": [True, False, True]})
FORMS = {
    "nullable": pd.DataFrame.convert_dtypes,
    "arrow in pandas": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "objects": lambda frame: frame.astype(object),
    "durations": lambda frame: frame.assign(days=pd.to_timedelta(frame["days"], unit="s")),
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
    "table": lambda frame: Table({name: frame[name].to_numpy() for name in frame}),
}


def test_event_times_reads_frames_of_every_library():
    for form in FORMS:
        y = event_times(FORMS[form](FRAME), "KernelSurvival")
        assert y["time"].tolist() == [3, 5, 4]
        assert y["event"].tolist() == [True, False, True]


def test_event_times_rejects_frames_without_times():
    for column, message in [
        ({"days": pd.to_datetime(FRAME["days"], unit="D")}, "column 'days' of y holds datetimes"),
        ({"died": [True, None, False]}, "value of 'died' in y of row 1 is missing"),
        ({"died": ["yes", "no", "yes"]}, r"two fields or columns.*== 1"),
        ({"days": ["3", "5", "4"]}, "two fields or columns"),
    ]:
        with pytest.raises(InputError, match=message):
            event_times(FRAME.assign(**column), "KernelSurvival")


def test_times_may_be_zero_but_not_negative():
    assert event_times([0.0, 5.0], "KernelSurvival")["time"].tolist() == [0, 5]
    with pytest.raises(InputError, match="1 negative times, the lowest -5"):
        event_times([3.0, -5.0], "KernelSurvival")


def test_invalid_targets_are_rejected():
    X, _, y = lifetimes(30)
    none = y.copy()
    none["died"] = False
    endless = y.copy()
    endless["days"][3] = np.inf
    columns = np.array([(1.0, 2.0)] * 30, [("a", float), ("b", float)])
    for targets, message in [
        (none, "no event"),
        (endless, "NaN or infinite"),
        (columns, "two fields or columns"),
        (np.ones((30, 2)), "shape .*structured array of two columns"),
    ]:
        with pytest.raises(InputError, match=message):
            KernelSurvival(**GIVEN).fit(X, targets)
    with pytest.raises(InputError, match="no event in a row with a weight"):
        KernelSurvival(**GIVEN).fit(X, y, np.where(y["died"], 0.0, 1.0))
    with pytest.raises(InputError, match="loss must be one of 'cox'"):
        KernelSurvival(loss="squared", **GIVEN).fit(X, y)
    with pytest.raises(InputError, match="no event comes before"):
        concordance_index(np.array([True]), [1.0], [1.0])


# The search is that of the other machines, which are asked the same.
