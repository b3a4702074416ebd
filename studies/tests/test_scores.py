"""Test scores against reference implementations with a loop over rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gramless.base.errors import InputError
from studies.scores import LOSSES, SCORES, Rows, Scorer
from studies.study import Snapshot

RNG = np.random.default_rng(0)
N = 57


def loss_of(name: str, z: float, y: float) -> float:
    margin = y * z
    return {
        "squared": (z - y) ** 2 / 2,
        "logistic": math.log(1 + math.exp(-margin)),
        "squared_hinge": max(0.0, 1 - margin) ** 2 / 2,
        "hinge": max(0.0, 1 - margin),
    }[name]


def scorer_for(task, y, names, loss=None, y_test=None) -> Scorer:
    X = np.arange(float(len(y)))[:, None]
    classes = np.array([]) if task == "regression" else np.unique(y)
    test = Rows(X, y if y_test is None else y_test)
    return Scorer(task, classes, Rows(X, y), test, names, loss)


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "hinge"])
def test_objective_of_two_classes(loss):
    y = np.array(["no", "yes"])[RNG.integers(2, size=N)]
    z = RNG.normal(size=N)
    signs = [1.0 if label == "yes" else -1.0 for label in y]
    mean = sum(loss_of(loss, z[i], signs[i]) for i in range(N)) / N
    scores = scorer_for("binary", y, ["objective", "train_loss"], loss).scores(
        Snapshot(lambda X: y, lambda X: z, penalty=0.125)
    )
    np.testing.assert_allclose(scores["objective"], mean + 0.125, rtol=1e-12)
    np.testing.assert_allclose(scores["train_loss"], mean, rtol=1e-12)


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial"])
def test_loss_of_many_classes(loss):
    y, z = RNG.choice([3, 5, 9], size=N), RNG.normal(size=(N, 3))
    total = 0.0
    for i in range(N):
        column = [3, 5, 9].index(y[i])
        if loss == "multinomial":
            total += math.log(sum(math.exp(value) for value in z[i])) - z[i, column]
        else:
            total += sum(loss_of(loss, z[i, k], 1.0 if k == column else -1.0) for k in range(3))
    scores = scorer_for("multiclass", y, ["test_loss"], loss).scores(
        Snapshot(lambda X: y, lambda X: z)
    )
    np.testing.assert_allclose(scores["test_loss"], total / N, rtol=1e-12)


def test_scores_of_numbers():
    y, predicted = RNG.normal(5.0, 2.0, N), RNG.normal(5.0, 2.0, N)
    names = ["test_error", "relative_error", "train_mse", "objective"]
    scorer = scorer_for("regression", y, names, "squared", y_test=3 * y)
    scores = scorer.scores(Snapshot(lambda X: predicted, lambda X: predicted, penalty=1.0))
    rmse = math.sqrt(sum((3 * y[i] - predicted[i]) ** 2 for i in range(N)) / N)
    spread = math.sqrt(sum((3 * one - 3 * y.mean()) ** 2 for one in y) / N)
    np.testing.assert_allclose(scores["test_error"], rmse / spread, rtol=1e-12)
    norm = math.sqrt(sum((3 * one) ** 2 for one in y))
    np.testing.assert_allclose(scores["relative_error"], rmse * math.sqrt(N) / norm, rtol=1e-12)
    mse = sum((y[i] - predicted[i]) ** 2 for i in range(N)) / N
    np.testing.assert_allclose(scores["train_mse"], mse, rtol=1e-12)
    np.testing.assert_allclose(scores["objective"], mse / 2 + 1.0, rtol=1e-12)


def test_misclassification_rates():
    y, y_test = np.array([0, 1, 1, 1]), np.array([0, 0, 0, 1])
    names = ["test_error", "train_error", "relative_error", "train_relative_error"]
    scorer = scorer_for("binary", y, names, y_test=y_test)
    assert scorer.scores(Snapshot(lambda X: np.ones(4))) == {
        "test_error": 0.75,
        "train_error": 0.25,
        "relative_error": 0.75,
        "train_relative_error": 0.25,
    }


def test_predictions_are_computed_once():
    y = np.array([0, 1, 1, 1])
    n_predicted = []

    def predict(X):
        n_predicted.append(len(X))
        return y

    scorer = scorer_for("binary", y, ["test_error", "relative_error"])
    scorer.scores(Snapshot(predict))
    assert n_predicted == [4]
    assert scorer.scores(Snapshot(predict), np.zeros(4))["test_error"] == 0.75
    assert n_predicted == [4]


def test_invalid_names_and_shapes_raise():
    for names, loss, snapshot, message in [
        (["accuracy"], None, None, "'accuracy' is not a score"),
        (["objective"], "cubic", None, "'cubic' is not a loss"),
        (["objective"], None, Snapshot(len, lambda X: np.zeros(4)), 'option "loss"'),
        (["objective"], "squared", Snapshot(len), "no responses"),
        (["objective"], "squared", Snapshot(len, lambda X: np.zeros((4, 3))), r"\(4, 2\)"),
        (["test_error"], None, Snapshot(lambda X: np.zeros((4, 1))), r"\(4, 1\)"),
        (["test_error"], None, Snapshot(lambda X: np.zeros(1)), r"\(1,\)"),
        (["test_mse"], None, Snapshot(lambda X: np.zeros(4)), "labels"),
    ]:
        with pytest.raises(InputError, match=message):
            scorer_for("binary", np.array([0, 1, 1, 1]), names, loss).scores(snapshot)


def test_names_of_scores_and_losses():
    assert set(SCORES) == {
        f"{part}_{what}" for part in ("test", "train") for what in ("error", "loss", "mse")
    } | {"relative_error", "train_relative_error", "objective"}
    assert {"squared", "logistic", "squared_hinge"} <= set(LOSSES)
