"""Conjugate gradients over the rows: the same minimum as over the columns."""

from __future__ import annotations

import numpy as np
import pytest

from gramless import RandomBinning
from gramless.base.errors import InputError
from gramless.losses import Logistic
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import HStack
from gramless.penalties import L1, L2
from gramless.solvers.objective import Problem
from studies.baselines.row_conjugate import RowConjugateGradient


def problem_of(n_outputs: int | None, weighted: bool = False, n_free: int = 0) -> Problem:
    """Return a problem over bins, with free columns: of ones, of an input, and of their sum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    matrix: FeatureMatrix = RandomBinning(bandwidth=1.0, n_grids=12, random_state=0).fit_matrix(X)
    targets = 3.0 + rng.normal(size=120 if n_outputs is None else (120, n_outputs))
    weights = rng.uniform(0.1, 2.0, 120) if weighted else None
    shared = np.column_stack([np.ones(120), X[:, 0], 1.0 + X[:, 0]])[:, :n_free]
    if n_free:
        matrix = HStack([matrix, DenseMatrix(shared)])
    return Problem(matrix, targets, L2(0.01, n_free), sample_weight=weights)


def by_hand(problem: Problem) -> np.ndarray:
    Z, s = problem.matrix.tocsr().toarray(), problem.row_weights
    hessian = Z.T @ (s[:, None] * Z) + np.diag(problem.penalty.diagonal(np.empty(Z.shape[1])))
    # Of least norm where free columns express each other.
    return np.linalg.pinv(hessian, hermitian=True) @ (Z.T @ (s * problem.targets.T).T)


@pytest.mark.parametrize(
    ("n_free", "n_outputs", "weighted"),
    [(0, None, False), (1, 1, True), (2, 5, True), (3, 5, False)],
)
def test_weights_are_those_of_the_normal_equations(
    n_free: int, n_outputs: int | None, weighted: bool
) -> None:
    problem = problem_of(n_outputs, weighted, n_free)
    solution, expected = RowConjugateGradient(tol=1e-10).solve(problem), by_hand(problem)
    assert solution.status == "converged"
    assert solution.weights.shape == expected.shape
    np.testing.assert_allclose(solution.weights, expected, atol=1e-8)


def test_free_weights_fit_what_the_others_leave_whatever_the_iteration() -> None:
    problem = problem_of(2, weighted=True, n_free=2)
    seen: list[np.ndarray] = []
    RowConjugateGradient(tol=0.0, max_iter=3).solve(problem, callback=lambda k, w: seen.append(w))
    assert len(seen) == 3
    for weights in seen:
        np.testing.assert_allclose(problem.gradient(weights)[-2:], 0.0, atol=1e-12)


def test_history_holds_the_objective_at_zero_and_at_the_end() -> None:
    problem = problem_of(2)
    solution = RowConjugateGradient(tol=1e-6).solve(problem)
    ends = [record["objective"] for record in solution.history]
    zero = np.zeros_like(solution.weights)
    np.testing.assert_allclose(ends, [problem.value(zero), problem.value(solution.weights)])
    assert solution.history[-1]["residual"] <= 1e-6


def test_iterations_end_where_they_are_told_to() -> None:
    problem = problem_of(None)
    assert RowConjugateGradient(tol=0.0, max_iter=3).solve(problem).status == "max_iter"
    stopped = RowConjugateGradient(tol=0.0).solve(problem, callback=lambda k, w: k == 2)
    assert (stopped.status, stopped.n_iter) == ("stopped", 2)


def test_results_do_not_depend_on_threads() -> None:
    problem = problem_of(3, n_free=2)
    one, two = (RowConjugateGradient(n_jobs=n).solve(problem).weights for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_what_it_cannot_solve_is_refused() -> None:
    Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    y = np.array([1.0, 2.0, 6.0])
    for problem, message in (
        (Problem(Z, np.sign(y), L2(1.0), Logistic()), "squared loss only"),
        (Problem(Z, y, L1(1.0)), "use GridDescent"),
        (Problem(Z, y, L2(0.0)), "alpha above 0.*use ConjugateGradient"),
    ):
        with pytest.raises(InputError, match=f"RowConjugateGradient.*{message}"):
            RowConjugateGradient().solve(problem)
