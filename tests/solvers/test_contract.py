"""What every solver by iterations promises of starts, callbacks, histories and its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.losses import Logistic, Squared
from gramless.penalties import L1, L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.gmres import Gmres
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem
from gramless.solvers.preconditioners import Identity
from gramless.solvers.random_descent import ParallelRandomDescent, RandomDescent

from .diagonal import Diagonal
from .references import Array, case_over, never_rises, random_codes

MATRIX = random_codes(5, 8, 120)
RIDGE = case_over(MATRIX, Squared(), L2(1e-2), n_outputs=3, weighted=True, intercept=True).problem
LOGISTIC = replace(RIDGE, loss=Logistic(), targets=np.sign(RIDGE.targets))
LASSO = replace(RIDGE, penalty=L1(0.01, n_free=1))
CASES: dict[str, tuple[Any, Problem]] = {
    "cg": (ConjugateGradient(Diagonal(), tol=1e-8, max_iter=3000), RIDGE),
    "newton": (NewtonCG(tol=1e-8), LOGISTIC),
    "newton, plain": (NewtonCG(Identity(), tol=1e-8), LOGISTIC),
    "grid": (
        GridDescent(tol=1e-6, max_iter=1000),
        replace(LASSO, loss=Logistic(), targets=LOGISTIC.targets),
    ),
    "grid, squared": (GridDescent(tol=1e-6, max_iter=1000), LASSO),
    "random": (RandomDescent(tol=1e-6, max_iter=5000), LASSO),
    "random, five at once": (RandomDescent(5, tol=1e-6, max_iter=5000), LASSO),
    "parallel": (ParallelRandomDescent(n_jobs=1, tol=1e-6, max_iter=5000), LASSO),
}
every_case = pytest.mark.parametrize(("solver", "problem"), CASES.values(), ids=CASES.keys())


def shape_of(problem: Problem) -> tuple[int, ...]:
    return problem.matrix.shape[1], *problem.targets.shape[1:]


@every_case
def test_history_is_the_objective_at_every_iteration(solver: Any, problem: Problem) -> None:
    start = np.random.default_rng(5).normal(size=shape_of(problem))
    before, values = start.copy(), [problem.value(start)]
    solution = replace(solver, max_iter=30).solve(
        problem, start, lambda iteration, w: values.append(problem.value(w))
    )
    np.testing.assert_array_equal(start, before)
    objectives = [entry["objective"] for entry in solution.history]
    assert len(objectives) == solution.n_iter + 1 == len(values)
    np.testing.assert_allclose(objectives, values, rtol=1e-9)
    assert objectives[-1] == pytest.approx(problem.value(solution.weights), rel=1e-9)
    # One set of random coordinates may raise it: only the mean over all of them falls.
    assert never_rises(solution) or isinstance(solver, RandomDescent)


@every_case
def test_callback_gets_every_iteration_and_stops(solver: Any, problem: Problem) -> None:
    calls: list[tuple[int, Array]] = []

    def stop_at_two(iteration: int, w: Array) -> bool:
        calls.append((iteration, w.copy()))
        return iteration == 2

    solution = solver.solve(problem, callback=stop_at_two)
    assert [iteration for iteration, _ in calls] == [1, 2]
    assert (solution.status, solution.n_iter, len(solution.history)) == ("stopped", 2, 3)
    assert (calls[0][1] != calls[1][1]).any()
    np.testing.assert_array_equal(calls[-1][1], solution.weights)


@every_case
def test_status_is_max_iter_when_iterations_run_out(solver: Any, problem: Problem) -> None:
    for max_iter in (0, 2):
        solution = replace(solver, tol=0.0, max_iter=max_iter).solve(problem)
        assert (solution.status, solution.n_iter) == ("max_iter", max_iter)
        assert len(solution.history) == max_iter + 1
        assert solution.weights.any() == (max_iter > 0)
    needed = solver.solve(problem).n_iter
    assert replace(solver, max_iter=needed).solve(problem).status == "converged"
    assert replace(solver, max_iter=needed - 1).solve(problem).status == "max_iter"


@every_case
def test_start_at_the_solution_needs_no_iteration(solver: Any, problem: Problem) -> None:
    solution = solver.solve(problem)
    before = solution.weights.copy()
    again = replace(solver, tol=1.01 * solver.tol).solve(problem, solution.weights)
    assert (again.status, again.n_iter) == ("converged", 0)
    np.testing.assert_array_equal(again.weights, before)
    np.testing.assert_array_equal(solution.weights, before)


@every_case
def test_other_starts_reach_the_same_solution(solver: Any, problem: Problem) -> None:
    cold = solver.solve(problem)
    far = 100.0 * np.random.default_rng(6).normal(size=shape_of(problem))
    for start in (cold.weights * 1.1, far):
        warm = solver.solve(problem, start)
        assert warm.status == "converged"
        ends = [solution.history[-1]["objective"] for solution in (cold, warm)]
        assert ends[0] == pytest.approx(ends[1], rel=1e-7)


@every_case
def test_zero_start_equals_no_start(solver: Any, problem: Problem) -> None:
    # With absolute values, descent over grids finds a start of its own.
    problem = replace(problem, penalty=L2(0.01, n_free=1))
    cold = solver.solve(problem)
    zeros = solver.solve(problem, np.zeros(shape_of(problem), np.int64))
    np.testing.assert_array_equal(cold.weights, zeros.weights)
    assert cold.n_iter == zeros.n_iter


@pytest.mark.parametrize(("solver", "problem"), [*CASES.values(), (Gmres(), RIDGE)])
def test_starts_of_another_shape_are_rejected(solver: Any, problem: Problem) -> None:
    n = problem.matrix.shape[1]
    for shape in ((5,), (7, 3), (n + 1,), (n + 1, 3), (n, 2), (n,)):
        with pytest.raises(InputError, match=f"start must have {n} rows, and 3 columns"):
            solver.solve(problem, np.zeros(shape))


@pytest.mark.parametrize("solver", [*(solver for solver, _ in CASES.values()), Gmres()])
def test_zero_targets_take_no_iteration(solver: Any) -> None:
    for targets in (np.zeros(120), np.zeros((120, 1)), np.zeros((120, 3))):
        solution = solver.solve(Problem(MATRIX, targets, L2(0.1)))
        assert (solution.status, solution.history[0]["objective"]) == ("converged", 0.0)
        assert solution.weights.shape == (MATRIX.shape[1], *targets.shape[1:])
        assert not solution.weights.any()
