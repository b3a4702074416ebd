"""What a goal minimises, and the penalties that its path tries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gramless import RandomBinning
from gramless.losses import Huber, Logistic, Loss, Squared
from gramless.matrices.base import Vector
from gramless.penalties import L2, ElasticNet
from gramless.selection.goal import ALPHAS, Goal, mean_loss
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.newton_cg import NewtonCG

from .tasks import make_task

X = np.random.default_rng(0).normal(size=(200, 3))
NUMBERS = np.sin(2 * X[:, 0]) + X[:, 1]
SIGNS = np.where(NUMBERS > 0, 1.0, -1.0)


def goal_of(loss: Loss, l1_ratio: float) -> Goal:
    return Goal(loss, l1_ratio, mean_loss(loss))


def problem_of(goal: Goal, alpha: float, targets: Vector = NUMBERS, intercept: bool = False) -> Any:
    data = make_task(X, targets, intercept=intercept).data
    features = RandomBinning(n_grids=24, bandwidth=2.0, random_state=0)
    rows = np.arange(0, 200, 2)
    matrix = data.matrix(features.fit_matrix(X[rows]))
    return goal.problem(data, matrix, alpha, rows)


@pytest.mark.parametrize(("loss", "intercept"), [(Squared(), False), (Huber(0.5), True)])
def test_problem_has_the_loss_and_penalty_of_the_goal(loss: Loss, intercept: bool) -> None:
    result = problem_of(goal_of(loss, 0.3), 0.25, intercept=intercept)
    assert result.penalty == ElasticNet(0.25, 0.3, int(intercept))
    assert result.loss is loss
    np.testing.assert_array_equal(result.targets, NUMBERS[::2])
    assert problem_of(goal_of(loss, 0.0), 0.25).penalty == L2(0.25)


def test_goal_chooses_grid_descent_or_newton() -> None:
    sparse, smooth = goal_of(Squared(), 0.1), goal_of(Logistic(), 0.0)
    assert isinstance(sparse.solver(problem_of(sparse, 0.1), 2), GridDescent)
    assert isinstance(smooth.solver(problem_of(smooth, 0.1), 2), NewtonCG)


@pytest.mark.parametrize(
    ("loss", "targets", "l1_ratio", "intercept"),
    [
        (Squared(), NUMBERS, 0.2, True),
        (Squared(), np.column_stack([NUMBERS, 0.1 * SIGNS]), 1.0, True),
        (Logistic(), SIGNS, 0.2, False),
    ],
)
def test_sparse_paths_start_near_the_penalty_of_zero_weights(
    loss: Loss, targets: Vector, l1_ratio: float, intercept: bool
) -> None:
    goal = goal_of(loss, l1_ratio)
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


def test_smooth_paths_have_fixed_penalties() -> None:
    goal = goal_of(Logistic(), 0.0)
    assert goal.alphas(problem_of(goal, 1.0, SIGNS)) == ALPHAS


def test_zero_targets_have_a_sparse_path() -> None:
    goal = goal_of(Squared(), 1.0)
    alphas = goal.alphas(problem_of(goal, 0.0, np.zeros(200)))
    assert len(alphas) > 5
    assert min(alphas) > 0


def test_mean_loss_is_a_weighted_mean() -> None:
    z, y = np.array([[1.0, 0.0], [3.0, 1.0]]), np.zeros((2, 2))
    assert mean_loss(Squared())(z[:, 0], y[:, 0], None) == pytest.approx(2.5)
    assert mean_loss(Squared())(z, y, None) == pytest.approx(2.75)
    weighted = mean_loss(Squared())(z, y, np.array([3.0, 1.0]))
    assert weighted == pytest.approx((3 * 0.5 + 5.0) / 4)
