"""The path of penalties for other losses than squares, and for sparse fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.base.progress import Reporter
from gramless.losses import Logistic, Squared
from gramless.selection import penalty_path
from gramless.selection.candidates import random_features
from gramless.selection.goal import Goal, mean_loss
from gramless.selection.penalty_path import search_alpha
from gramless.selection.task import Hyperparameters, SelectionTask

from .tasks import make_task

X = np.random.default_rng(0).normal(size=(200, 3))
NUMBERS = np.sin(2 * X[:, 0]) + X[:, 1]
SIGNS = np.where(NUMBERS > 0, 1.0, -1.0)
SETTINGS = Hyperparameters("standard", None, 7.0)
GIVEN = {"bandwidth": np.asarray(2.0)}
SPARSE = Goal(Squared(), 0.5, mean_loss(Squared()))
SMOOTH = Goal(Logistic(), 0.0, mean_loss(Logistic()))

Path = list[tuple[float, float, int, float]]


def with_scores(
    monkeypatch: pytest.MonkeyPatch, goal: Goal, *scores: Sequence[float], **options: Any
) -> tuple[Hyperparameters, SelectionTask]:
    """Search with these scores, a list for each split, of alphas 1, 1/2, 1/4, ..."""

    def path(task: Any, sample: Any, settings: Hyperparameters, goal: Goal, k: int) -> Path:
        result = scores[k % len(scores)]
        return [(2.0**-i * (1 + k), value, 3, 0.5) for i, value in enumerate(result)]

    monkeypatch.setattr(penalty_path, "_path", path)
    task = make_task(X, NUMBERS, **GIVEN, **options)
    return search_alpha(task, SETTINGS, goal), task


@pytest.mark.parametrize(
    ("scores", "sparse_at", "smooth_at"),
    [
        ([3.0, 1.005, 1.0, 2.0], 1, 2),
        ([3.0, 1.011, 1.0, 2.0], 2, 2),
        ([1.009, 1.02, 1.0, 1.001], 0, 2),
        ([1.0, 1.0, 1.0], 0, 0),
    ],
)
def test_sparsest_fit_within_one_percent_is_chosen(
    monkeypatch: pytest.MonkeyPatch, scores: list[float], sparse_at: int, smooth_at: int
) -> None:
    for goal, at in ((SPARSE, sparse_at), (SMOOTH, smooth_at)):
        result, task = with_scores(monkeypatch, goal, scores)
        assert [trial.score for trial in task.trials] == scores
        trial = task.trials[0]
        ratio = len(X) / trial.n_rows
        scale = np.sqrt(ratio * task.feature_map.size / trial.size) if goal.sparse else ratio
        expected = task.trials[at].settings.alpha
        assert result.alpha * scale == pytest.approx(expected, rel=1e-12)


def test_scores_are_averaged_up_to_the_shortest_path(monkeypatch: pytest.MonkeyPatch) -> None:
    n_splits = 4
    scores = [[3.0, 2.0, 1.0, 0.1], *([[1.0, 4.0, 1.0]] * (n_splits - 1))]
    _, task = with_scores(monkeypatch, SPARSE, *scores)
    assert len(task.trials) == 3
    for i, trial in enumerate(task.trials):
        assert trial.score == pytest.approx(np.mean([s[i] for s in scores]))
        assert trial.settings.alpha == pytest.approx(2.0**-i * (1 + n_splits) / 2)
        assert trial.seconds == pytest.approx(0.5 * n_splits)


@pytest.mark.parametrize(("most", "goal"), [(256, SPARSE), (96, SMOOTH)])
def test_penalty_is_scaled_to_all_rows_and_grids(
    monkeypatch: pytest.MonkeyPatch, most: int, goal: Goal
) -> None:
    lines: list[str] = []
    report = Reporter(callbacks=lambda progress: lines.append(progress.message))
    options = {"feature_map": RandomBinning(n_grids=600, random_state=0), "report": report}
    result, task = with_scores(monkeypatch, goal, [2.0, 1.0, 2.0], **options)
    trial = task.trials[1]
    assert trial.size == most
    assert trial.n_rows < len(X)
    rows, grids = len(X) / trial.n_rows, 600 / most
    scale = np.sqrt(rows * grids) if goal.sparse else rows
    assert result.alpha == pytest.approx(trial.settings.alpha / scale, rel=1e-12)
    assert (result.scaling, result.bandwidth) == (SETTINGS.scaling, SETTINGS.bandwidth)
    assert len(lines) == 3
    assert all(f"{most} grids: {goal.loss.name} loss" in line for line in lines)


@pytest.mark.parametrize("targets", [np.random.default_rng(1).normal(size=200), np.zeros(200)])
def test_paths_stop_after_two_worse_scores(targets: Any) -> None:
    task = make_task(X, targets, **GIVEN)
    result = search_alpha(task, SETTINGS, Goal(Squared(), 1.0, mean_loss(Squared())))
    assert 0 < result.alpha < np.inf
    alphas = [trial.settings.alpha for trial in task.trials]
    assert sorted(alphas, reverse=True) == alphas
    if targets.any():
        assert 3 <= len(task.trials) < 15


def test_rows_of_tiny_weight_do_not_affect_the_choice() -> None:
    wild = np.arange(200) % 2 == 1
    targets = np.where(wild, 100 * np.random.default_rng(2).normal(size=200), NUMBERS)
    task = make_task(X, targets, weight=np.where(wild, 1e-12, 1.0), **GIVEN)
    search_alpha(task, SETTINGS, Goal(Squared(), 1.0, task.goal.score))
    # Half of the squares are the loss.
    assert min(trial.score for trial in task.trials) < 0.3 * NUMBERS.var()


# In the estimators.


@pytest.mark.parametrize(
    ("made", "loss", "l1_ratio"),
    [
        pytest.param(KernelRegressor, "huber", 0.5, marks=pytest.mark.slow),
        (KernelClassifier, "logistic", 1.0),
        (KernelClassifier, "logistic", 0.0),
    ],
)
def test_estimators_use_the_penalty_of_the_path(
    monkeypatch: pytest.MonkeyPatch, made: Any, loss: str, l1_ratio: float
) -> None:
    calls = []

    def recorded(task: SelectionTask, settings: Hyperparameters, goal: Goal) -> Hyperparameters:
        before = len(task.trials)
        result = search_alpha(task, settings, goal)
        calls.append((goal, task.trials[before:], settings, result))
        return result

    monkeypatch.setattr(random_features, "search_alpha", recorded)
    options = {"bandwidth": 2.0, "scaling": "standard", "relevance": "equal", "random_state": 0}
    n_grids = 300 if l1_ratio == 1.0 else 24
    model = made(RandomBinning(n_grids=n_grids), loss=loss, l1_ratio=l1_ratio, **options)
    model.fit(X, SIGNS if made is KernelClassifier else NUMBERS)
    ((goal, trials, settings, result),) = calls
    assert (goal.loss, goal.l1_ratio) == (model.loss_, l1_ratio)
    assert all(trial.as_dict() in model.search_ for trial in trials)
    assert len(model.search_) > len(trials)
    assert model.settings_ is result
    assert model.alpha_ == result.alpha
    least = min(trial.score for trial in trials)
    near = least * (1.01 if l1_ratio > 0 else 1.0)
    best = max((t for t in trials if t.score <= near), key=lambda t: t.settings.alpha)
    rows, grids = len(X) / best.n_rows, n_grids / best.size
    assert grids == (300 / 256 if l1_ratio == 1.0 else 1)
    scale = np.sqrt(rows * grids) if l1_ratio > 0 else rows
    assert model.alpha_ == pytest.approx(best.settings.alpha / scale, rel=1e-12)
    assert (result.bandwidth, result.scaling) == (settings.bandwidth, settings.scaling)


def test_given_penalties_and_few_rows_need_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any) -> Hyperparameters:
        raise AssertionError("searched")

    monkeypatch.setattr(random_features, "search_alpha", never)
    features = RandomBinning(n_grids=8)
    KernelRegressor(features, l1_ratio=1.0, alpha=1e-3, random_state=0).fit(X, NUMBERS)
    KernelRegressor(features, bandwidth=1.0, random_state=0).fit(X, NUMBERS)
    KernelRegressor(features, l1_ratio=1.0, random_state=0).fit(X[:30], NUMBERS[:30])
    with pytest.raises(AssertionError, match="searched"):
        KernelRegressor(features, bandwidth=1.0, l1_ratio=0.1).fit(X, NUMBERS)
