"""Trainers by other packages: what they are given, what they answer, when they are not there."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC, SVR

from gramless import KernelRegressor
from harness.timing import StopWatch
from studies.peers import TRAINERS
from studies.study import Training

FEW = {"n_trees": 30}
SVM = {"units": "range", "bandwidth": 0.5, "C": 10.0}


def table(task: str, n: int = 600) -> Training:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 3)) * [1.0, 10.0, 100.0]
    y = X[:, 0] + X[:, 1] / 10.0
    if task == "binary":
        y = np.where(y > 1.0, "yes", "no")
    elif task == "multiclass":
        y = np.digitize(y, [0.7, 1.3])
    return Training(X, y, task, seed=0)


def trained(method: str, training: Training, options=None):
    watch = StopWatch()
    (snapshot,) = TRAINERS[method](training, options or {}, watch)
    assert watch.seconds()["fit"] > 0.0
    return snapshot


def error(snapshot, training: Training) -> float:
    predicted = snapshot.predict(training.X)
    if training.task == "regression":
        return float(np.std(predicted - training.y) / np.std(training.y))
    return float(np.mean(predicted != training.y))


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("method", ["LightGBM", "HistGradientBoosting"])
def test_trees_of_either_package(method, task):
    if method == "LightGBM":
        pytest.importorskip("lightgbm")
    training = table(task)
    snapshot = trained(method, training, FEW)
    assert error(snapshot, training) < 0.2
    assert 1 <= snapshot.facts["trees"] <= 30


def test_trees_stop_when_held_back_rows_do_not_gain():
    training = table("binary", 400)
    noise = np.random.default_rng(1).integers(2, size=400)
    snapshot = trained("HistGradientBoosting", Training(training.X, noise, "binary", 0))
    assert snapshot.facts["trees"] < 200


@pytest.mark.parametrize("method", ["LightGBM", "HistGradientBoosting"])
def test_trees_take_sparse_rows(method):
    if method == "LightGBM":
        pytest.importorskip("lightgbm")
    training = table("binary")
    rows = Training(sp.csr_array(training.X), training.y, "binary", 0)
    assert error(trained(method, rows, FEW), rows) < 0.2


def test_a_label_that_is_there_once_is_no_fault_of_lightgbm():
    pytest.importorskip("lightgbm")
    training = table("binary")
    training.y[0] = "one"
    assert error(trained("LightGBM", training, FEW), training) < 0.2


def test_lightgbm_is_asked_for_when_it_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    monkeypatch.delitem(sys.modules, "harness.peers.lightgbm", raising=False)
    with pytest.raises(ModuleNotFoundError, match="lightgbm"):
        trained("LightGBM", table("binary"))


def test_support_vectors_are_those_of_scaled_inputs():
    training = table("binary")
    snapshot = trained("LIBSVM", training, SVM)
    width = np.ptp(training.X, axis=0)
    model = SVC(C=10.0, gamma=0.5 / 0.5**2).fit(training.X / width, training.y)
    new = table("binary", 50).X * 0.9
    np.testing.assert_array_equal(snapshot.predict(new), model.predict(new / width))
    assert snapshot.facts["support vectors"] == len(model.support_)


def test_support_vectors_of_numbers_are_of_targets_in_units_of_their_deviation():
    training = table("regression")
    snapshot = trained("LIBSVM", training, {**SVM, "epsilon": 0.1})
    width, mean, deviation = np.ptp(training.X, axis=0), training.y.mean(), training.y.std()
    model = SVR(C=10.0, gamma=2.0, epsilon=0.1)
    model.fit(training.X / width, (training.y - mean) / deviation)
    expected = mean + deviation * model.predict(training.X / width)
    np.testing.assert_allclose(snapshot.predict(training.X), expected, atol=1e-9)


def test_a_median_bandwidth_suits_the_rows():
    training = table("multiclass")
    snapshot = trained("LIBSVM", training, {**SVM, "bandwidth": "median"})
    assert error(snapshot, training) < 0.1
    # The median distance of points in the unit cube.
    assert snapshot.facts["bandwidth"] == pytest.approx(0.66, abs=0.03)


def test_defaults_are_those_of_the_estimator():
    training = table("regression", 300)
    given = {"grids": "random", "n_grids": 16, "bandwidth": 1.0, "alpha": 1e-3}
    snapshot = trained("gramless defaults", training, given)
    model = KernelRegressor(random_state=0, **given)
    model.fit(training.X, training.y)
    np.testing.assert_array_equal(snapshot.predict(training.X), model.predict(training.X))
    assert snapshot.facts["columns"] == len(model.weights_)


def test_defaults_of_some_inputs():
    training = table("regression", 300)
    given = {"grids": "random", "n_grids": 16, "bandwidth": 1.0, "alpha": 1e-3}
    snapshot = trained("gramless defaults", training, {**given, "inputs": "0 2"})
    model = KernelRegressor(random_state=0, **given)
    model.fit(training.X[:, [0, 2]], training.y)
    expected = model.predict(training.X[:, [0, 2]])
    np.testing.assert_array_equal(snapshot.predict(training.X), expected)
