"""The path of alphas with the loss and the penalty that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.base.reporting import Reporter
from gramless.losses import Huber, Logistic, Loss, Squared
from gramless.matrices.base import Vector
from gramless.model_selection import alpha as tuning
from gramless.model_selection import random_features
from gramless.model_selection.alpha import Goal, mean_loss, search_alpha
from gramless.model_selection.data import Data
from gramless.model_selection.search import ALPHAS, Search
from gramless.model_selection.search_space import Hyperparameters, SearchSpace
from gramless.penalties import L2, ElasticNet
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.newton_cg import NewtonCG

X = np.random.default_rng(0).normal(size=(200, 3))
NUMBERS = np.sin(2 * X[:, 0]) + X[:, 1]
SIGNS = np.where(NUMBERS > 0, 1.0, -1.0)
SETTINGS = Hyperparameters("standard", None, 7.0)


def score(z: Vector, y: Vector, weight: NDArray[np.float64] | None) -> float:
    return float(np.average((z - y) ** 2, weights=weight))


def made_search(
    targets: Vector = NUMBERS, n_grids: int = 24, intercept: bool = True, **more: Any
) -> Search:
    data = Data(X, targets, more.pop("weight", None), score, intercept)
    choices = SearchSpace(("standard",), np.asarray(2.0), None, "equal")
    return Search(data, RandomBinning(n_grids=n_grids, random_state=0), choices, 0, 1, **more)


def problem_of(goal: Goal, alpha: float, targets: Vector = NUMBERS, intercept: bool = False) -> Any:
    search = made_search(targets, intercept=intercept)
    features = RandomBinning(n_grids=24, bandwidth=2.0, random_state=0)
    rows = np.arange(0, 200, 2)
    matrix = search.data.matrix(features.fit_matrix(X[rows]))
    return goal.problem(search.data, matrix, alpha, rows)


# What a goal asks for.


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [Squared(), Huber(0.5)])
def test_the_problem_is_that_of_the_goal(loss: Loss, intercept: bool) -> None:
    found = problem_of(Goal(loss, 0.3, score), 0.25, intercept=intercept)
    assert found.penalty == ElasticNet(0.25, 0.3, int(intercept))
    assert found.loss is loss
    np.testing.assert_array_equal(found.targets, NUMBERS[::2])
    assert problem_of(Goal(loss, 0.0, score), 0.25).penalty == L2(0.25)


def test_solvers_and_sparsity() -> None:
    sparse, smooth = Goal(Squared(), 0.1, score), Goal(Logistic(), 0.0, score)
    assert isinstance(sparse.solver(problem_of(sparse, 0.1), 2), GridDescent)
    assert isinstance(smooth.solver(problem_of(smooth, 0.1), 2), NewtonCG)
    assert Goal(Squared(), 1e-9, score).sparse
    assert not Goal(Squared(), 0.0, score).sparse


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("l1_ratio", [0.2, 1.0])
@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (Squared(), NUMBERS),
        (Squared(), np.column_stack([NUMBERS, 0.1 * SIGNS])),
        (Logistic(), SIGNS),
    ],
)
def test_alphas_are_relative_to_the_largest_useful_one(
    loss: Loss, targets: Vector, l1_ratio: float, intercept: bool
) -> None:
    goal = Goal(loss, l1_ratio, score)
    alphas = goal.alphas(problem_of(goal, 3.0, targets, intercept))
    assert list(alphas) == list(goal.alphas(problem_of(goal, 0.0, targets, intercept)))
    steps = np.diff(np.log10(alphas))
    np.testing.assert_allclose(steps, -0.25, rtol=1e-9)
    # All weights are zero just from ten to the half times the first, and not below.
    most = alphas[0] * 10**0.5
    zeros = np.zeros((problem_of(goal, 0.0, targets).matrix.shape[1], *targets.shape[1:]))
    zeros = np.concatenate([zeros, zeros[:1]]) if intercept else zeros
    bins = slice(0, len(zeros) - intercept)
    for share, optimal in ((1 + 1e-9, True), (1 - 1e-9, False)):
        problem = problem_of(goal, most * share, targets, intercept)
        distance = problem.penalty.distance(zeros, problem.loss_gradient(zeros))
        assert (distance[bins].max() == 0) == optimal


def test_smooth_paths_are_the_usual_ones() -> None:
    goal = Goal(Logistic(), 0.0, score)
    assert goal.alphas(problem_of(goal, 1.0, SIGNS)) == ALPHAS


def test_targets_of_zeros_have_a_path_all_the_same() -> None:
    goal = Goal(Squared(), 1.0, score)
    alphas = goal.alphas(problem_of(goal, 0.0, np.zeros(200)))
    assert len(alphas) > 5
    assert min(alphas) > 0
    found = search_alpha(made_search(np.zeros(200)), SETTINGS, goal)
    assert 0 < found.alpha < np.inf


# Which of them wins.

Path = list[tuple[float, float, int, float]]


def with_scores(
    monkeypatch: pytest.MonkeyPatch, goal: Goal, *scores: Sequence[float], **options: Any
) -> tuple[Hyperparameters, Search]:
    """Search with these scores, a list for each split, of alphas 1, 1/2, 1/4, ..."""

    def path(search: Search, sample: Any, settings: Hyperparameters, goal: Goal, k: int) -> Path:
        found = scores[k % len(scores)]
        return [(2.0**-i * (1 + k), value, 3, 0.5) for i, value in enumerate(found)]

    monkeypatch.setattr(tuning, "_path", path)
    search = made_search(**options)
    return search_alpha(search, SETTINGS, goal), search


def unscaled(found: Hyperparameters, search: Search, root: bool) -> float:
    """Return the alpha before it was scaled to all rows and grids."""
    trial = search.trials[0]
    ratio = len(X) / trial.n_rows
    return found.alpha * float(
        np.sqrt(ratio * search.feature_map.size / trial.size) if root else ratio
    )


SPARSE, SMOOTH = Goal(Squared(), 0.5, score), Goal(Logistic(), 0.0, score)


@pytest.mark.parametrize(
    ("scores", "sparse_at", "smooth_at"),
    [
        ([3.0, 2.0, 1.0, 2.0], 2, 2),
        ([3.0, 1.005, 1.0, 2.0], 1, 2),
        ([3.0, 1.011, 1.0, 2.0], 2, 2),
        ([1.009, 1.005, 1.0, 2.0], 0, 2),
        ([1.009, 1.02, 1.0, 1.001], 0, 2),
        ([1.0, 1.0, 1.0], 0, 0),
        ([5.0, 4.0, 3.0], 2, 2),
    ],
)
def test_the_strongest_of_those_within_one_percent_wins(
    monkeypatch: pytest.MonkeyPatch, scores: list[float], sparse_at: int, smooth_at: int
) -> None:
    for goal, at in ((SPARSE, sparse_at), (SMOOTH, smooth_at)):
        found, search = with_scores(monkeypatch, goal, scores)
        assert [trial.score for trial in search.trials] == scores
        expected = search.trials[at].settings.alpha
        assert unscaled(found, search, goal.sparse) == pytest.approx(expected, rel=1e-12)


def test_splits_are_averaged_as_far_as_all_went(monkeypatch: pytest.MonkeyPatch) -> None:
    n_splits = len(tuning.Sample(made_search(), 20_000, 8, 0.0).splits)
    scores = [[3.0, 2.0, 1.0, 0.1], *([[1.0, 4.0, 1.0]] * (n_splits - 1))]
    _, search = with_scores(monkeypatch, SPARSE, *scores)
    assert len(search.trials) == (3 if n_splits > 1 else 4)
    for i, trial in enumerate(search.trials):
        assert trial.score == pytest.approx(np.mean([s[i] for s in scores]))
        assert trial.settings.alpha == pytest.approx(2.0**-i * (1 + n_splits) / 2)
        assert trial.seconds == pytest.approx(0.5 * n_splits)


@pytest.mark.parametrize(("n_grids", "most", "goal"), [(600, 256, SPARSE), (600, 96, SMOOTH)])
def test_alpha_is_scaled_to_all_rows_and_grids(
    monkeypatch: pytest.MonkeyPatch, n_grids: int, most: int, goal: Goal
) -> None:
    lines: list[str] = []
    report = Reporter(callbacks=lambda progress: lines.append(progress.message))
    options = {"n_grids": n_grids, "report": report}
    found, search = with_scores(monkeypatch, goal, [2.0, 1.0, 2.0], **options)
    trial = search.trials[1]
    assert trial.size == most
    assert trial.n_rows < len(X)
    rows, grids = len(X) / trial.n_rows, n_grids / most
    scale = np.sqrt(rows * grids) if goal.sparse else rows
    assert found.alpha == pytest.approx(trial.settings.alpha / scale, rel=1e-12)
    assert (found.scaling, found.bandwidth) == (SETTINGS.scaling, SETTINGS.bandwidth)
    assert len(lines) == 3
    assert all(f"{most} grids: {goal.loss.name} loss" in line for line in lines)


def test_paths_end_when_two_in_a_row_are_worse() -> None:
    search = made_search(np.random.default_rng(1).normal(size=200))
    search_alpha(search, SETTINGS, Goal(Squared(), 1.0, score))
    assert 3 <= len(search.trials) < 15
    alphas = [trial.settings.alpha for trial in search.trials]
    assert sorted(alphas, reverse=True) == alphas


def test_weights_judge_the_rows_held_back() -> None:
    """Rows that weigh next to nothing leave the choice to the others."""
    wild = np.arange(200) % 2 == 1
    targets = np.where(wild, 100 * np.random.default_rng(2).normal(size=200), NUMBERS)
    search = made_search(targets, weight=np.where(wild, 1e-12, 1.0))
    search_alpha(search, SETTINGS, Goal(Squared(), 1.0, score))
    assert min(trial.score for trial in search.trials) < 0.6 * NUMBERS.var()


# In the estimators.

MODELS = [
    pytest.param(KernelRegressor, "squared", 1.0, marks=pytest.mark.slow),
    pytest.param(KernelRegressor, "huber", 0.5, marks=pytest.mark.slow),
    (KernelClassifier, "squared", 0.5),
    (KernelClassifier, "logistic", 1.0),
    pytest.param(KernelClassifier, "squared_hinge", 1.0, marks=pytest.mark.slow),
    (KernelClassifier, "logistic", 0.0),
]


@pytest.mark.parametrize(("made", "loss", "l1_ratio"), MODELS)
def test_trials_of_a_fit(
    monkeypatch: pytest.MonkeyPatch, made: Any, loss: str, l1_ratio: float
) -> None:
    calls = []

    def recorded(search: Search, settings: Hyperparameters, goal: Goal) -> Hyperparameters:
        before = len(search.trials)
        found = search_alpha(search, settings, goal)
        calls.append((goal, search.trials[before:], settings, found))
        return found

    monkeypatch.setattr(random_features, "search_alpha", recorded)
    options = {"bandwidth": 2.0, "scaling": "standard", "relevance": "equal", "random_state": 0}
    n_grids = 300 if l1_ratio == 1.0 else 24
    model = made(RandomBinning(n_grids=n_grids), loss=loss, l1_ratio=l1_ratio, **options)
    model.fit(X, SIGNS if made is KernelClassifier else NUMBERS)
    ((goal, trials, settings, found),) = calls
    assert (goal.loss, goal.l1_ratio) == (model.loss_, l1_ratio)
    assert model.search_[-len(trials) :] == [trial.as_dict() for trial in trials]
    assert len(model.search_) > len(trials)
    assert model.settings_ is found
    assert model.alpha_ == found.alpha
    least = min(trial.score for trial in trials)
    near = least * (1.01 if l1_ratio > 0 else 1.0)
    best = max((t for t in trials if t.score <= near), key=lambda t: t.settings.alpha)
    rows, grids = len(X) / best.n_rows, n_grids / best.size
    assert grids == (300 / 256 if l1_ratio == 1.0 else 1)
    scale = np.sqrt(rows * grids) if l1_ratio > 0 else rows
    assert model.alpha_ == pytest.approx(best.settings.alpha / scale, rel=1e-12)
    assert (found.bandwidth, found.scaling) == (settings.bandwidth, settings.scaling)


def test_no_path_where_alpha_is_given_or_squares_are_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*arguments: Any) -> Hyperparameters:
        raise AssertionError("searched")

    monkeypatch.setattr(random_features, "search_alpha", never)
    features = RandomBinning(n_grids=8)
    KernelRegressor(features, l1_ratio=1.0, alpha=1e-3, random_state=0).fit(X, NUMBERS)
    KernelRegressor(features, bandwidth=1.0, random_state=0).fit(X, NUMBERS)
    KernelRegressor(features, l1_ratio=1.0, random_state=0).fit(X[:30], NUMBERS[:30])
    with pytest.raises(AssertionError, match="searched"):
        KernelRegressor(features, bandwidth=1.0, l1_ratio=0.1).fit(X, NUMBERS)


def test_the_mean_of_a_loss() -> None:
    z, y = np.array([[1.0, 0.0], [3.0, 1.0]]), np.zeros((2, 2))
    assert mean_loss(Squared())(z[:, 0], y[:, 0], None) == pytest.approx(2.5)
    assert mean_loss(Squared())(z, y, None) == pytest.approx(2.75)
    weighted = mean_loss(Squared())(z, y, np.array([3.0, 1.0]))
    assert weighted == pytest.approx((3 * 0.5 + 5.0) / 4)
