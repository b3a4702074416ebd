"""Random coordinate descent: optimality for every loss and penalty, repetition, hard cases."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.losses import Huber, Logistic, Loss, Multinomial, SmoothPinball, Squared, SquaredHinge
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.penalties import L1, L2, ElasticNet, Penalty
from gramless.solvers.objective import Problem, columns
from gramless.solvers.random_descent import (
    ParallelRandomDescent,
    RandomDescent,
    SimultaneousSteps,
    StoredColumns,
)

from .pairwise import each_value
from .references import Array, Case, case_over

pytestmark = pytest.mark.usefixtures("no_warning_goes_unseen")

Descent = RandomDescent | ParallelRandomDescent

LOSSES: dict[str, Loss] = {
    "squared": Squared(),
    "squared hinge": SquaredHinge(),
    "logistic": Logistic(),
    "huber": Huber(0.7),
    "quantile": SmoothPinball(0.8, 0.3),
}
PENALTIES: dict[str, Penalty] = {"l2": L2(0.05), "l1": L1(0.01), "net": ElasticNet(0.03, 0.4)}
MATRICES = ("binned", "intercept", "dense")
SOLVERS: dict[str, Descent] = {
    "one by one": RandomDescent(),
    "five at once": RandomDescent(n_simultaneous=5),
    "one thread": ParallelRandomDescent(n_jobs=1),
    "two threads": ParallelRandomDescent(n_jobs=2),
}
REPEATABLE = [name for name in SOLVERS if name != "two threads"]

every_solver = pytest.mark.parametrize("solver", SOLVERS.keys())


def residual(case: Case, w: Array) -> float:
    """Return the distance from optimal, over dense arrays, relative to what ``tol`` is."""
    distance = columns(case.problem.penalty.distance(w, case.gradient(w))).max(axis=0)
    at_zero = columns(np.abs(case.gradient(np.zeros_like(w)))).max(axis=0)
    return float((distance / np.minimum(case.problem.penalty.l1 or np.inf, at_zero)).max())


def binned(n_rows: int, n_grids: int = 4, n_bins: int = 5, *, unseen: bool = False) -> BinnedMatrix:
    rng = np.random.default_rng(n_rows)
    codes = rng.integers(0 if unseen else 1, n_bins + 1, (n_grids, n_rows)).astype(np.uint8)
    codes.flags.writeable = False
    return BinnedMatrix(codes, np.arange(n_grids + 1) * n_bins)


def make_case(
    loss: Loss,
    penalty: Penalty,
    matrix: str = "binned",
    *,
    unseen: bool = False,
    n_rows: int = 50,
    **options: Any,
) -> Case:
    features: FeatureMatrix = binned(n_rows, unseen=unseen)
    if matrix == "dense":
        features = DenseMatrix(np.random.default_rng(1).normal(size=(n_rows, 12)) / np.sqrt(12.0))
    return case_over(features, loss, penalty, intercept=matrix == "intercept", **options)


@cache
def case_of(loss: str = "squared", penalty: str = "l1", matrix: str = "binned") -> Case:
    return make_case(LOSSES[loss], PENALTIES[penalty], matrix)


def precise(solver: Descent, **options: Any) -> Descent:
    return replace(solver, **{"tol": 1e-6, "max_iter": 5000, **options})


# The solution.


@pytest.mark.parametrize(
    ("loss", "penalty", "matrix", "solver"), each_value(LOSSES, PENALTIES, MATRICES, SOLVERS)
)
def test_solution_is_optimal(loss: str, penalty: str, matrix: str, solver: str) -> None:
    options = {"weighted": solver != "two threads", "unseen": matrix != "dense"}
    case = make_case(LOSSES[loss], PENALTIES[penalty], matrix, **options)
    solution = precise(SOLVERS[solver]).solve(case.problem)
    assert solution.status == "converged"
    assert solution.weights.shape == case.dense.shape[1:]
    assert residual(case, solution.weights) < 1.01e-6
    np.testing.assert_allclose(
        solution.history[-1]["residual"], residual(case, solution.weights), rtol=1e-3, atol=1e-12
    )
    np.testing.assert_allclose(
        solution.history[-1]["objective"], case.problem.value(solution.weights), rtol=1e-12
    )


@every_solver
def test_zero_penalty_is_solved(solver: str) -> None:
    case = make_case(Squared(), L2(0.0), "dense")
    result = precise(SOLVERS[solver], tol=1e-9).solve(case.problem).weights
    expected = np.linalg.lstsq(case.dense, case.problem.targets, rcond=None)[0]
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-7)


@every_solver
def test_strong_penalty_keeps_the_intercept(solver: str) -> None:
    case = make_case(Squared(), L1(1e3), "intercept")
    result = precise(SOLVERS[solver]).solve(case.problem).weights
    assert not result[:-1].any()
    np.testing.assert_allclose(result[-1], case.problem.targets.mean(), rtol=1e-5)


# Several outputs.


@pytest.mark.parametrize("solver", REPEATABLE)
def test_outputs_are_solved_as_if_separately(solver: str) -> None:
    problem = make_case(Squared(), L1(0.01), "intercept", n_outputs=3).problem
    together = precise(SOLVERS[solver]).solve(problem)
    assert together.weights.shape == (21, 3)
    alone = [precise(SOLVERS[solver]).solve(replace(problem, targets=t)) for t in problem.targets.T]
    for k, solution in enumerate(alone):
        np.testing.assert_array_equal(together.weights[:, k], solution.weights)
    ends = sum(solution.history[-1]["objective"] for solution in alone)
    np.testing.assert_allclose(together.history[-1]["objective"], ends)
    assert together.n_iter == max(solution.n_iter for solution in alone)


# The way there.


@pytest.mark.parametrize(("loss", "n_simultaneous"), each_value(LOSSES, [1, 5, 20]))
def test_one_step_matches_a_slow_implementation(loss: str, n_simultaneous: int) -> None:
    """Shortened as Theorem 19 says, from the same point, written out."""
    case = case_of(loss, "net", "intercept")
    problem, dense, s = case.problem, case.dense, case.problem.row_weights
    n_columns, start = dense.shape[1], np.random.default_rng(3).normal(size=dense.shape[1])
    run = SimultaneousSteps(problem, StoredColumns.of(problem), n_simultaneous, 0, start)
    run.step(1)
    omega = np.count_nonzero(dense, axis=1).max()
    assert omega == 5
    shortening = 1 + (omega - 1) * (n_simultaneous - 1) / (n_columns - 1)
    expected = start.copy()
    slopes = problem.loss.gradient(dense @ start, problem.targets)
    for j in run.order[:n_simultaneous]:
        v = shortening * problem.loss.smoothness * sum(s * dense[:, j] ** 2)
        moved = start.copy()
        moved[j] -= sum(s * slopes * dense[:, j]) / v
        expected[j] = problem.penalty.prox(moved, 1.0 / v)[j]
    np.testing.assert_allclose(run.weights, expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(run.responses, dense @ expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(run.value(), problem.value(expected), rtol=1e-12)


@pytest.mark.parametrize(
    ("loss", "matrix", "n_simultaneous"), each_value(LOSSES, MATRICES, [4, 12, 1])
)
def test_objective_decreases(loss: str, matrix: str, n_simultaneous: int) -> None:
    solver = RandomDescent(n_simultaneous, tol=0.0, max_iter=30)
    history = solver.solve(case_of(loss, "net", matrix).problem).history
    objective = np.array([entry["objective"] for entry in history])
    # One set of coordinates may raise it: only the mean over all of them falls.
    assert np.diff(objective).max() <= 1e-3 * (objective[0] - objective[-1])
    assert objective[-1] < objective[0]


@pytest.mark.parametrize("solver", REPEATABLE)
def test_repeated_solves_are_identical(solver: str) -> None:
    problem = make_case(Logistic(), L1(0.01), n_outputs=2).problem
    short = precise(SOLVERS[solver], tol=0.0, max_iter=3)
    first, again = short.solve(problem), short.solve(problem)
    assert first.weights.tobytes() == again.weights.tobytes()
    assert first.history == again.history
    other = replace(short, seed=1).solve(problem)
    assert first.weights.tobytes() != other.weights.tobytes()


def test_number_of_threads_does_not_change_the_solution() -> None:
    problem = make_case(Squared(), L1(0.01), n_outputs=5).problem
    one, two = (RandomDescent(3, n_jobs=n).solve(problem).weights for n in (1, 2))
    assert one.tobytes() == two.tobytes()


# Hard cases.


@every_solver
def test_zero_columns_have_zero_weight(solver: str) -> None:
    array = np.random.default_rng(0).normal(size=(20, 4))
    array[:, [1, 3]] = 0.0
    start = np.full(4, 2.0)
    for penalty in (L1(0.01), L2(0.01)):
        problem = Problem(DenseMatrix(array), array[:, 0] + 1.0, replace(penalty, n_free=1))
        solution = precise(SOLVERS[solver]).solve(problem, start)
        assert solution.status == "converged"
        np.testing.assert_array_equal(solution.weights[[1, 3]], [0.0, 2.0])


@every_solver
def test_unknown_losses_are_rejected(solver: str) -> None:
    targets = np.where(np.eye(3)[np.arange(50) % 3] > 0, 1.0, -1.0)
    problem = replace(case_of().problem, targets=targets, loss=Multinomial())
    with pytest.raises(InputError, match=r"'squared', 'squared_hinge'.*not 'multinomial'"):
        SOLVERS[solver].solve(problem)


def test_invalid_options_are_rejected() -> None:
    for name, bad in (("tol", -1e-3), ("tol", np.nan), ("max_iter", -1), ("seed", None)):
        for solver in (RandomDescent, ParallelRandomDescent):
            with pytest.raises(InputError, match=f"{solver.__name__}: {name}"):
                solver(**{name: bad})
    for n_steps in (0, -3, 1.5, True, None):
        with pytest.raises(InputError, match="n_simultaneous must be a whole number of at least 1"):
            RandomDescent(n_simultaneous=n_steps)
    with pytest.raises(InputError, match="n_jobs"):
        ParallelRandomDescent(n_jobs=0).solve(case_of().problem)
