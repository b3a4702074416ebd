"""Conjugate gradients over the rows: the same minimum as over the columns."""

from __future__ import annotations

import numpy as np
import pytest

from gramless import RandomBinning
from gramless.base.errors import InputError
from gramless.losses import Logistic
from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L1, L2
from gramless.solvers.objective import Problem
from gramless.solvers.row_conjugate import RowConjugateGradient


def problem_of(n_outputs: int | None, weighted: bool = False) -> Problem:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    matrix = RandomBinning(bandwidth=1.0, n_grids=12, random_state=0).fit_matrix(X)
    targets = rng.normal(size=120 if n_outputs is None else (120, n_outputs))
    weights = rng.uniform(0.1, 2.0, 120) if weighted else None
    return Problem(matrix, targets, L2(0.01), sample_weight=weights)


def by_hand(problem: Problem) -> np.ndarray:
    Z, s = problem.matrix.tocsr().toarray(), problem.row_weights
    hessian = Z.T @ (s[:, None] * Z) + problem.penalty.l2 * np.eye(Z.shape[1])
    return np.linalg.solve(hessian, Z.T @ (s * problem.targets.T).T)


@pytest.mark.parametrize("n_outputs", [None, 1, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_are_those_of_the_normal_equations(n_outputs: int | None, weighted: bool) -> None:
    problem = problem_of(n_outputs, weighted)
    found = RowConjugateGradient(tol=1e-10).solve(problem)
    assert found.status == "converged"
    assert found.weights.shape == by_hand(problem).shape
    np.testing.assert_allclose(found.weights, by_hand(problem), atol=1e-8)


def test_history_holds_the_objective_at_zero_and_at_the_end() -> None:
    problem = problem_of(2)
    found = RowConjugateGradient(tol=1e-6).solve(problem)
    ends = [record["objective"] for record in found.history]
    zero = np.zeros_like(found.weights)
    np.testing.assert_allclose(ends, [problem.value(zero), problem.value(found.weights)])
    assert found.history[-1]["residual"] <= 1e-6


def test_iterations_end_where_they_are_told_to() -> None:
    problem = problem_of(None)
    assert RowConjugateGradient(tol=0.0, max_iter=3).solve(problem).status == "max_iter"
    stopped = RowConjugateGradient(tol=0.0).solve(problem, callback=lambda k, w: k == 2)
    assert (stopped.status, stopped.n_iter) == ("stopped", 2)


def test_results_do_not_depend_on_threads() -> None:
    problem = problem_of(3)
    one, two = (RowConjugateGradient(n_jobs=n).solve(problem).weights for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_what_it_cannot_solve_is_refused() -> None:
    Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    y = np.array([1.0, 2.0, 6.0])
    for problem in (
        Problem(Z, np.sign(y), L2(1.0), Logistic()),
        Problem(Z, y, L1(1.0)),
        Problem(Z, y, L2(1.0, n_free=1)),
    ):
        with pytest.raises(InputError, match="RowConjugateGradient"):
            RowConjugateGradient().solve(problem)
