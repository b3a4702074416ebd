"""Recommendations are honest: a linear truth, a smooth one, steps, noise, tables of any kind."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gramless.base.errors import InputError
from gramless.datasets import Table
from gramless.inspection import recommend, recommendation
from gramless.inspection.recommendation import Trial

LOCAL = ("linear model", "boosted trees", "gramless, effort=1")
TREES = {"boosted trees", "gramless", "gramless, effort=1"}
SMOOTH = {"RBF support vectors", "gramless, Nyström", "gramless"}


def errors(found) -> dict[str, float]:
    return {one.method: one.error for one in found.trials}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def few_rows(monkeypatch) -> None:
    """Let samples be small, where they need not be larger."""
    monkeypatch.setattr(recommendation, "MOST_ROWS", 375)
    monkeypatch.setattr(recommendation, "MOST_TEST_ROWS", 200)
    monkeypatch.setattr(recommendation, "_SPLITS", 1)


def test_a_linear_truth_takes_a_linear_model(few_rows, rng) -> None:
    X = rng.normal(size=(600, 5))
    y = X @ [1.0, -2.0, 0.5, 0.0, 3.0] + rng.normal(size=600)
    found = recommend(X, y, methods=(*LOCAL, "RBF support vectors"))
    assert (found.method, found.task) == ("linear model", "regression")
    assert "linear" in " ".join(found.reasons)
    assert found.gramless_code.startswith("KernelRegressor(")
    assert found.estimator.fit(X, y).score(X, y) > 0.9


def test_huge_numbers_are_judged(few_rows, rng) -> None:
    X = 1e200 * rng.normal(size=(200, 2))
    found = recommend(X, X[:, 0] / 1e200 + rng.normal(size=200), methods=("linear model",))
    assert 0.0 < found.trials[0].error < 0.9


@pytest.mark.slow
def test_a_smooth_truth_of_500_rows_takes_a_smooth_method(few_rows, rng) -> None:
    X = rng.uniform(-1, 1, size=(500, 4))
    y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + X[:, 2] * X[:, 3]
    y += 0.02 * rng.normal(size=500)
    found = recommend(X, y)
    assert found.method in SMOOTH
    of = errors(found)
    assert max(of[name] for name in SMOOTH) < 0.5 * min(of["linear model"], of["boosted trees"])


@pytest.mark.slow
def test_steps_with_interactions_take_trees_or_grids(rng) -> None:
    X = rng.uniform(size=(5000, 6))
    z = 3 * ((X[:, 0] > 0.5) & (X[:, 1] > 0.3)) + 2 * ((X[:, 2] > 0.7) ^ (X[:, 3] > 0.4))
    y = z + 0.3 * rng.normal(size=5000)
    found = recommend(X, y)
    assert found.method in TREES
    assert "steps" in " ".join(found.reasons)
    of = errors(found)
    assert max(of[name] for name in TREES) < min(of["linear model"], of["RBF support vectors"])
    assert all(one.all_rows_seconds > one.fit_seconds for one in found.trials)


def test_noise_is_said_to_be_noise(few_rows, rng) -> None:
    X = rng.normal(size=(300, 3))
    found = recommend(X, rng.normal(size=300), methods=LOCAL)
    assert found.trials[0].error > 0.9
    assert "Hardly anything" in " ".join(found.reasons)


def test_tables_with_text_and_gaps_and_rare_classes(few_rows, rng) -> None:
    colour = np.array(["red", "green", "blue"], object)[rng.integers(0, 3, 240)]
    size = rng.normal(size=240)
    size[::9] = np.nan
    kind = np.where(colour == "red", "stop", "go")
    kind[7] = "once"
    found = recommend(Table({"colour": colour, "size": size}), kind, methods=LOCAL)
    assert found.task == "classification"
    assert found.trials[0].error < 0.02
    assert str(found).startswith(found.code)
    assert all(one.method in str(found) for one in found.trials)


@pytest.mark.slow
def test_sparse_rows_leave_out_what_makes_them_dense(few_rows, rng) -> None:
    # More columns than grids are grown over: the rows stay sparse although the table is small.
    X = sp.csr_array(sp.random(160, 5000, density=0.002, random_state=rng))
    sums = X.sum(axis=1)
    found = recommend(X, sums > np.median(sums))
    tried = {"linear model", "gramless", "gramless, effort=1"}
    assert {one.method for one in found.trials} == tried
    assert "sparse" in " ".join(found.reasons)


def test_of_those_that_cannot_be_told_apart_the_quickest_is_taken() -> None:
    def trial(name: str, error: float, behind: float, seconds: float) -> Trial:
        return Trial(name, name, 10, error, behind, seconds, 0.1, seconds)

    best, near = trial("a", 0.10, 0.0, 9.0), trial("b", 0.11, 0.9, 2.0)
    far = trial("c", 0.2, 5.0, 0.1)
    assert recommendation._choose([best, near, far]) is near
    assert recommendation._choose([best, far]) is best


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"y": np.zeros((50, 2))}, "one target a row"),
        ({"y": np.zeros(49)}, "one target a row"),
        ({"X": np.zeros((9, 2)), "y": np.zeros(9)}, "9 rows are too few"),
        ({"y": np.full(50, np.nan)}, "missing or infinite"),
        ({"y": np.zeros(50)}, "one class"),
        ({"y": np.zeros(50), "task": "regression"}, "not all equal"),
        ({"y": np.array(["a", "b"] * 25), "task": "regression"}, "needs numbers"),
        ({"y": np.zeros(50), "task": "ranking"}, "task must be"),
        ({"y": np.zeros(50), "methods": ["forest"]}, "methods must be some of"),
        ({"y": np.zeros(50), "methods": []}, "methods must be some of"),
    ],
)
def test_what_cannot_be_judged_is_refused(given, said) -> None:
    with pytest.raises(InputError, match=said):
        recommend(**{"X": np.zeros((50, 2)), **given})
