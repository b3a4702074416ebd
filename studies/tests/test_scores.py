"""Scores against slow twins, written out row by row."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gramless.base.errors import InputError
from studies.scores import LOSSES, SCORES, Judge, Rows
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


def judge_of(task, y, names, loss=None, y_test=None) -> Judge:
    X = np.arange(float(len(y)))[:, None]
    classes = np.array([]) if task == "regression" else np.unique(y)
    test = Rows(X, y if y_test is None else y_test)
    return Judge(task, classes, Rows(X, y), test, names, loss)


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "hinge"])
def test_objective_of_two_classes(loss):
    y = np.array(["no", "yes"])[RNG.integers(2, size=N)]
    z = RNG.normal(size=N)
    signs = [1.0 if label == "yes" else -1.0 for label in y]
    mean = sum(loss_of(loss, z[i], signs[i]) for i in range(N)) / N
    found = judge_of("binary", y, ["objective", "train_loss"], loss).scores(
        Snapshot(lambda X: y, lambda X: z, penalty=0.125)
    )
    np.testing.assert_allclose(found["objective"], mean + 0.125, rtol=1e-12)
    np.testing.assert_allclose(found["train_loss"], mean, rtol=1e-12)


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
    found = judge_of("multiclass", y, ["test_loss"], loss).scores(
        Snapshot(lambda X: y, lambda X: z)
    )
    np.testing.assert_allclose(found["test_loss"], total / N, rtol=1e-12)


def test_scores_of_numbers():
    y, predicted = RNG.normal(5.0, 2.0, N), RNG.normal(5.0, 2.0, N)
    names = ["test_error", "relative_error", "train_mse", "objective"]
    judge = judge_of("regression", y, names, "squared", y_test=3 * y)
    found = judge.scores(Snapshot(lambda X: predicted, lambda X: predicted, penalty=1.0))
    rmse = math.sqrt(sum((3 * y[i] - predicted[i]) ** 2 for i in range(N)) / N)
    spread = math.sqrt(sum((3 * one - 3 * y.mean()) ** 2 for one in y) / N)
    np.testing.assert_allclose(found["test_error"], rmse / spread, rtol=1e-12)
    lengths = math.sqrt(sum((3 * one) ** 2 for one in y))
    np.testing.assert_allclose(found["relative_error"], rmse * math.sqrt(N) / lengths, rtol=1e-12)
    square = sum((y[i] - predicted[i]) ** 2 for i in range(N)) / N
    np.testing.assert_allclose(found["train_mse"], square, rtol=1e-12)
    np.testing.assert_allclose(found["objective"], square / 2 + 1.0, rtol=1e-12)


def test_shares_of_wrong_labels():
    y, y_test = np.array([0, 1, 1, 1]), np.array([0, 0, 0, 1])
    names = ["test_error", "train_error", "relative_error", "train_relative_error"]
    found = judge_of("binary", y, names, y_test=y_test).scores(Snapshot(lambda X: np.ones(4)))
    assert found == {
        "test_error": 0.75,
        "train_error": 0.25,
        "relative_error": 0.75,
        "train_relative_error": 0.25,
    }


def test_what_is_known_is_not_asked_again():
    y = np.array([0, 1, 1, 1])
    asked = []

    def predict(X):
        asked.append(len(X))
        return y

    judge = judge_of("binary", y, ["test_error", "relative_error"])
    judge.scores(Snapshot(predict))
    assert asked == [4]
    assert judge.scores(Snapshot(predict), np.zeros(4))["test_error"] == 0.75
    assert asked == [4]


def test_faults_are_named():
    for names, loss, snapshot, said in [
        (["accuracy"], None, None, "'accuracy' is no score"),
        (["objective"], "cubic", None, "'cubic' is no loss"),
        (["objective"], None, Snapshot(len, lambda X: np.zeros(4)), 'option "loss"'),
        (["objective"], "squared", Snapshot(len), "no responses"),
        (["objective"], "squared", Snapshot(len, lambda X: np.zeros((4, 3))), r"\(4, 2\)"),
        (["test_error"], None, Snapshot(lambda X: np.zeros((4, 1))), r"\(4, 1\)"),
        (["test_error"], None, Snapshot(lambda X: np.zeros(1)), r"\(1,\)"),
        (["test_mse"], None, Snapshot(lambda X: np.zeros(4)), "labels"),
    ]:
        with pytest.raises(InputError, match=said):
            judge_of("binary", np.array([0, 1, 1, 1]), names, loss).scores(snapshot)


def test_every_score_of_the_contract_is_there():
    assert set(SCORES) == {
        f"{part}_{what}" for part in ("test", "train") for what in ("error", "loss", "mse")
    } | {"relative_error", "train_relative_error", "objective"}
    assert {"squared", "logistic", "squared_hinge"} <= set(LOSSES)
