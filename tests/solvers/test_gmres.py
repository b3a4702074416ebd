"""GMRES: the same minimiser as conjugate gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.losses import Logistic
from gramless.solvers.gmres import Gmres

from .references import RIDGE_CASES

PROBLEM = RIDGE_CASES["all"].problem


@pytest.mark.parametrize("name", RIDGE_CASES)
def test_solution_matches_a_direct_solve_and_its_gradient_vanishes(name: str) -> None:
    case = RIDGE_CASES[name]
    solution = Gmres(tol=1e-11, max_iter=2000, restart=100).solve(case.problem)
    assert solution.status == "converged"
    assert solution.weights.shape == case.exact.shape
    responses = case.dense @ solution.weights
    np.testing.assert_allclose(responses, case.dense @ case.exact, atol=1e-6)
    assert solution.history[-1]["objective"] == pytest.approx(case.problem.value(solution.weights))
    at_zero = np.abs(case.problem.gradient(np.zeros_like(solution.weights))).max()
    assert np.abs(case.problem.gradient(solution.weights)).max() <= 1e-8 * at_zero


def test_too_few_iterations_are_not_converged() -> None:
    solution = Gmres(tol=1e-12, max_iter=1).solve(PROBLEM)
    assert (solution.status, solution.n_iter) == ("max_iter", 1)


def test_no_iterations_return_the_start() -> None:
    start = np.arange(float(np.prod(PROBLEM.weights_shape))).reshape(PROBLEM.weights_shape)
    for first in (None, start):
        solution = Gmres(max_iter=0).solve(PROBLEM, first)
        assert (solution.status, solution.n_iter) == ("max_iter", 0)
        np.testing.assert_array_equal(solution.weights, 0.0 if first is None else first)


def test_start_at_the_solution_needs_no_iteration() -> None:
    solver = Gmres(tol=1e-6, max_iter=2000, restart=100)
    start = replace(solver, tol=1e-9).solve(PROBLEM).weights
    assert solver.solve(PROBLEM, start).n_iter == 0


def test_callback_is_called_once() -> None:
    calls: list[int] = []

    def stop(iteration: int, weights: np.ndarray) -> bool:
        calls.append(iteration)
        return True

    assert Gmres().solve(PROBLEM, callback=stop).status == "stopped"
    assert len(calls) == 1


def test_other_losses_are_rejected() -> None:
    with pytest.raises(InputError, match="squared loss only"):
        Gmres().solve(replace(PROBLEM, loss=Logistic()))
