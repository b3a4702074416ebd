"""Conjugate gradients against direct solves: optimality, many outputs, restarts, threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.losses import Logistic, Loss, Multinomial, Squared
from gramless.matrices.base import FeatureMatrix, WrappedMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import with_ones
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem, columns
from gramless.solvers.preconditioners import (
    Identity,
    Inverse,
    Preconditioner,
    SampledRows,
)

from .diagonal import Diagonal
from .pairwise import each_value
from .references import RIDGE_CASES

ALL: dict[str, Preconditioner] = {
    "pcg": SampledRows(),
    "seven rows": SampledRows(n_rows=7),
    "diagonal": Diagonal(),
    "cg": Identity(),
}
every_case = pytest.mark.parametrize(("name", "preconditioner"), each_value(RIDGE_CASES, ALL))


def precise(preconditioner: str = "diagonal", **options: Any) -> ConjugateGradient:
    return ConjugateGradient(ALL[preconditioner], **{"tol": 1e-11, "max_iter": 3000, **options})


def skewed(n_outputs: int | None = None, n_rows: int = 400, alpha: float = 1e-4) -> Problem:
    """Return a problem whose bins hold from one row to most rows."""
    rng = np.random.default_rng(3)
    codes = np.minimum(rng.geometric(0.4, size=(8, n_rows)), 12).astype(np.uint8)
    offsets = np.concatenate([[0], np.cumsum(codes.max(axis=1, keepdims=True).ravel())])
    targets = rng.normal(size=n_rows if n_outputs is None else (n_rows, n_outputs))
    return Problem(BinnedMatrix(codes, offsets), targets, L2(alpha))


def times(inverse: Inverse, residual: NDArray) -> NDArray:
    """Return the whole operator times a residual (n_columns, K)."""
    product = inverse.diagonal[:, None] * residual
    inverse.subtract(inverse.coefficients(residual), product)
    return product


# The solution.


@every_case
def test_solution_matches_a_direct_solve_and_its_gradient_vanishes(
    name: str, preconditioner: str
) -> None:
    case = RIDGE_CASES[name]
    solution = precise(preconditioner).solve(case.problem)
    assert solution.status == "converged"
    assert solution.weights.shape == case.exact.shape
    # Without a penalty many weights predict alike.
    np.testing.assert_allclose(
        case.dense @ solution.weights, case.dense @ case.exact, rtol=1e-7, atol=1e-8
    )
    if case.problem.penalty.alpha > 0:
        np.testing.assert_allclose(solution.weights, case.exact, rtol=1e-6, atol=1e-8)
    start = case.problem.gradient(np.zeros_like(solution.weights))
    gradient = case.problem.gradient(solution.weights)
    assert np.abs(gradient).max() < 1e-8 * np.abs(start).max()


@every_case
def test_tolerance_bounds_the_preconditioned_gradient(name: str, preconditioner: str) -> None:
    case = RIDGE_CASES[name]
    inverse = ALL[preconditioner].inverse(case.problem)

    def norms(w: NDArray) -> NDArray:
        gradient = columns(case.problem.gradient(w))
        return np.sqrt((gradient * times(inverse, gradient)).sum(axis=0))

    for tol in (1e-1, 1e-3, 1e-6):
        solution = precise(preconditioner, tol=tol).solve(case.problem)
        assert solution.status == "converged"
        bound = tol * norms(np.zeros_like(solution.weights))
        assert (norms(solution.weights) <= bound * (1 + 1e-6) + 1e-14).all()


# Many outputs.


@dataclass(frozen=True)
class Spy(FeatureMatrix):
    """A matrix that notes how many columns each product serves."""

    matrix: FeatureMatrix
    widths: list[int]

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    def _matvec(self, w: NDArray, out: NDArray) -> None:
        self.widths.append(1 if w.ndim == 1 else w.shape[1])
        self.matrix.matvec(w, out)

    def _rmatvec(self, v: NDArray, out: NDArray) -> None:
        self.matrix.rmatvec(v, out)

    def gram_diagonal(self, weights: NDArray | None = None) -> NDArray:
        return self.matrix.gram_diagonal(weights)

    def take_rows(self, rows: Any) -> FeatureMatrix:
        return self.matrix.take_rows(rows)


@cache
def uneven_problem() -> Problem:
    """Return outputs that take no, one, a few and many iterations."""
    problem = skewed()
    inverse = Diagonal().inverse(problem).diagonal
    dense = problem.matrix.toarray()  # type: ignore[attr-defined]
    root = np.sqrt(inverse)
    hessian = dense.T @ dense / len(dense) + 1e-4 * np.eye(dense.shape[1])
    vectors = np.linalg.eigh(root[:, None] * hessian * root)[1]

    def target(right: NDArray) -> NDArray:
        return len(dense) * np.linalg.lstsq(dense.T, right, rcond=None)[0]

    easy = target(vectors[:, -1] / root)
    few = target((vectors[:, -1] + vectors[:, -2] - vectors[:, -3]) / root)
    zero = np.zeros(len(dense))
    return replace(problem, targets=np.column_stack([problem.targets, easy, zero, few]))


def test_converged_outputs_are_dropped() -> None:
    problem = uneven_problem()
    widths: list[int] = []
    spied = replace(problem, matrix=Spy(problem.matrix, widths))
    solution = precise(tol=1e-6).solve(spied)
    assert solution.status == "converged"
    assert widths == sorted(widths, reverse=True)
    assert set(widths) == {3, 2, 1}
    assert len(widths) == solution.n_iter


def test_n_iter_is_that_of_the_hardest_output() -> None:
    problem, solver = uneven_problem(), precise(tol=1e-6)
    alone = [solver.solve(replace(problem, targets=t)).n_iter for t in problem.targets.T]
    assert solver.solve(problem).n_iter == max(alone)
    assert alone[2] == 0
    assert alone[1] < alone[3] < alone[0]


# The account of the work.


@pytest.mark.parametrize(
    ("name", "preconditioner", "warm"), each_value(RIDGE_CASES, ALL, [False, True])
)
def test_history_is_the_objective_at_every_iteration(
    name: str, preconditioner: str, warm: bool
) -> None:
    case = RIDGE_CASES[name]
    start = np.random.default_rng(5).normal(size=case.exact.shape) if warm else None
    first = np.zeros_like(case.exact) if start is None else start
    values = [case.problem.value(first)]
    solution = precise(preconditioner, tol=1e-6).solve(
        case.problem, start, lambda iteration, w: values.append(case.problem.value(w))
    )
    objectives = [entry["objective"] for entry in solution.history]
    assert len(objectives) == solution.n_iter + 1 == len(values)
    # A sampled inverse is a difference: it loses as many digits as the Hessian's largest
    # eigenvalue is larger than the smallest that the inverse assumes.
    ratio = ALL[preconditioner].inverse(case.problem).diagonal.max() * np.trace(case.hessian)
    rounding = max(1e-13, 10 * np.finfo(float).eps * ratio) * abs(values[0])
    np.testing.assert_allclose(objectives, values, rtol=1e-8, atol=rounding)
    assert (np.diff(objectives) <= 0).all()
    end = case.problem.value(solution.weights)
    assert objectives[-1] == pytest.approx(end, rel=1e-8, abs=rounding)


# Starting points.


@pytest.mark.parametrize(("preconditioner", "n_outputs"), each_value(ALL, [None, 3]))
def test_warm_start_needs_fewer_iterations(preconditioner: str, n_outputs: int | None) -> None:
    problem, solver = skewed(n_outputs), precise(preconditioner, tol=1e-8)
    neighbour = solver.solve(replace(problem, penalty=L2(1.05e-4))).weights
    before = neighbour.copy()
    cold, warm = solver.solve(problem), solver.solve(problem, neighbour)
    assert warm.n_iter < cold.n_iter
    np.testing.assert_allclose(warm.weights, cold.weights, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(neighbour, before)


@every_case
def test_starting_at_the_solution_takes_no_iteration(name: str, preconditioner: str) -> None:
    case = RIDGE_CASES[name]
    solution = precise(preconditioner, tol=1e-8).solve(case.problem, case.exact)
    assert (solution.status, solution.n_iter) == ("converged", 0)
    np.testing.assert_array_equal(solution.weights, case.exact)


@pytest.mark.parametrize(("preconditioner", "exponent"), each_value(ALL, [-400, 400]))
def test_scale_of_targets_does_not_change_the_iterations(
    preconditioner: str, exponent: int
) -> None:
    problem, solver = skewed(n_outputs=2), precise(preconditioner, tol=1e-6)
    plain = solver.solve(problem)
    scaled = solver.solve(replace(problem, targets=problem.targets * 2.0**exponent))
    assert scaled.n_iter == plain.n_iter
    np.testing.assert_allclose(scaled.weights / 2.0**exponent, plain.weights, rtol=1e-9)


# Threads, and what it refuses.


@pytest.mark.parametrize(("preconditioner", "n_outputs"), each_value(ALL, [None, 3]))
def test_number_of_threads_does_not_change_the_solution(
    preconditioner: str, n_outputs: int | None
) -> None:
    rng = np.random.default_rng(6)
    codes = rng.integers(1, 601, size=(80, 3000)).astype(np.uint16)
    targets = rng.normal(size=3000 if n_outputs is None else (3000, n_outputs))
    results = []
    for n_jobs in (1, 2, 3):
        matrix = BinnedMatrix(codes, 600 * np.arange(81), n_jobs=n_jobs)
        problem = Problem(with_ones(matrix), targets, L2(1e-3, n_free=1))
        solver = precise(preconditioner, tol=1e-3, n_jobs=n_jobs)
        results.append(solver.solve(problem))
    for other in results[1:]:
        assert other.history == results[0].history
        np.testing.assert_array_equal(other.weights, results[0].weights)


class Quartic(Squared):
    name: ClassVar[str] = "quartic"


def test_other_losses_are_rejected() -> None:
    with pytest.raises(InputError, match=r"ConjugateGradient solves the squared loss.*'quartic'"):
        ConjugateGradient().solve(replace(skewed(), loss=Quartic()))


# One pass over the matrix an iteration, where it can be.


class Passes(DenseMatrix):
    """A matrix that notes its products."""

    def __init__(self, array: NDArray) -> None:
        super().__init__(array)
        self.made: list[str] = []

    def matvec(self, *args: Any) -> NDArray:
        self.made.append("matvec")
        return super().matvec(*args)

    def rmatvec(self, *args: Any) -> NDArray:
        self.made.append("rmatvec")
        return super().rmatvec(*args)

    def pull_back(self, *args: Any) -> NDArray:
        self.made.append("pull_back")
        return super().pull_back(*args)


@pytest.mark.parametrize(
    ("loss", "n_outputs"), each_value([Squared(), Logistic(), Multinomial()], [None, 3])
)
def test_iteration_takes_one_pass_over_the_rows(loss: Loss, n_outputs: int | None) -> None:
    """And gives what two passes give."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(90, 6))
    scores = Z[:, :3] if n_outputs or loss.coupled else Z[:, 0]
    y = np.where(scores > 0.2, 1.0, -1.0)
    if loss.coupled:
        y = np.where(scores.argmax(axis=1)[:, None] == np.arange(3), 1.0, -1.0)
    problem = Problem(with_ones(Passes(Z)), y, L2(0.1, n_free=1), loss)
    make = ConjugateGradient if loss.name == "squared" else NewtonCG
    solver = make(Diagonal(), tol=1e-8)
    solution = solver.solve(problem)
    made = problem.matrix.parts[0].made  # type: ignore[attr-defined]
    products = solution.history[-1].get("products", solution.n_iter)
    assert made.count("pull_back") == products
    steps = solution.n_iter if loss.name != "squared" else 0
    assert made.count("matvec") == steps
    assert made.count("rmatvec") == 1 + steps
    csc = Problem(Plain(problem.matrix), y, problem.penalty, loss)
    np.testing.assert_allclose(solver.solve(csc).weights, solution.weights, rtol=1e-6, atol=1e-9)


class Plain(WrappedMatrix):
    """What every matrix has, of another matrix."""

    def take_rows(self, rows: Any) -> FeatureMatrix:
        raise AssertionError("nobody needs some of the rows")
