"""GMRES: the same minimiser as conjugate gradients."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.losses import Logistic
from gramless.penalties import L2
from gramless.solvers.gmres import Gmres
from gramless.solvers.objective import Problem


def test_solution_is_that_of_a_direct_solve(case) -> None:  # type: ignore[no-untyped-def]
    solution = Gmres(tol=1e-11, max_iter=2000, restart=100).solve(case.problem)
    matrix = case.problem.matrix
    np.testing.assert_allclose(
        matrix.matvec(solution.weights), matrix.matvec(case.exact), atol=1e-6
    )
    assert solution.weights.shape == (matrix.shape[1], *case.problem.targets.shape[1:])
    assert solution.history[-1]["objective"] == pytest.approx(case.problem.value(solution.weights))


def test_gradient_vanishes_at_the_solution(case) -> None:  # type: ignore[no-untyped-def]
    solution = Gmres(tol=1e-9, max_iter=2000, restart=100).solve(case.problem)
    assert solution.status == "converged"
    at_zero = np.abs(case.problem.gradient(np.zeros_like(solution.weights))).max()
    assert np.abs(case.problem.gradient(solution.weights)).max() <= 1e-8 * at_zero


def test_too_few_iterations_are_told(case) -> None:  # type: ignore[no-untyped-def]
    solution = Gmres(tol=1e-12, max_iter=1).solve(case.problem)
    assert solution.status == "max_iter"
    assert solution.n_iter == 1


def test_a_start_at_the_solution_needs_no_iteration(case) -> None:  # type: ignore[no-untyped-def]
    solver = Gmres(tol=1e-6, max_iter=2000, restart=100)
    start = Gmres(tol=1e-9, max_iter=2000, restart=100).solve(case.problem).weights
    assert solver.solve(case.problem, start).n_iter == 0


def test_zero_targets_give_zero_weights(case) -> None:  # type: ignore[no-untyped-def]
    nothing = Problem(case.problem.matrix, np.zeros_like(case.problem.targets), L2(0.1))
    solution = Gmres().solve(nothing)
    assert solution.status == "converged"
    assert not solution.weights.any()


def test_the_callback_comes_once(case) -> None:  # type: ignore[no-untyped-def]
    calls: list[int] = []

    def stop(iteration: int, weights) -> bool:  # type: ignore[no-untyped-def]
        calls.append(iteration)
        return True

    assert Gmres().solve(case.problem, callback=stop).status == "stopped"
    assert len(calls) == 1


def test_another_loss_is_refused(case) -> None:  # type: ignore[no-untyped-def]
    problem = Problem(case.problem.matrix, case.problem.targets, L2(0.1), Logistic())
    with pytest.raises(InputError, match="squared loss only"):
        Gmres().solve(problem)
