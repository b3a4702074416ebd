"""Newton's method in the space of few rows takes the steps that it takes over the columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.losses import Logistic, Loss, Multinomial
from gramless.matrices.base import Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.row_products import SingleRowProducts, single_row_gram
from gramless.matrices.stacked import HStack
from gramless.penalties import L2
from gramless.solvers import newton_cg
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem, Solution

N_ROWS, N_CLASSES = 700, 4


@pytest.fixture(autouse=True)
def few_weights_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small problems are solved like large ones."""
    monkeypatch.setattr(newton_cg, "_MANY_WEIGHTS", 1)


def problem_of(loss: Loss, several: bool, alpha: float = 1e-3) -> Problem:
    """Return a problem over bins and values, with classes that some bins tell apart."""
    rng = np.random.default_rng(0)
    x = rng.random((N_ROWS, 60))
    codes = (1 + np.floor(20 * x)).astype(np.uint8).T
    binned = BinnedMatrix(np.ascontiguousarray(codes), 20 * np.arange(61))
    Z = HStack([binned, DenseMatrix(rng.normal(size=(N_ROWS, 30)) / 30**0.5)], [1.0, 0.5])
    classes = np.digitize(x[:, 0] + 0.2 * rng.normal(size=N_ROWS), [0.25, 0.5, 0.75])
    y: NDArray[np.float64] = np.where(classes[:, None] == np.arange(N_CLASSES), 1.0, -1.0)
    weight = rng.uniform(0.5, 2.0, N_ROWS)
    return Problem(Z, y if several else y[:, 0], L2(alpha), loss, weight)


def with_rows(problem: Problem) -> Problem:
    Z = problem.matrix
    assert isinstance(Z, HStack)
    parts = zip(Z.scales, Z.parts, strict=True)
    gram = np.sum([np.float32(c**2) * single_row_gram(part) for c, part in parts], axis=0)
    return replace(problem, matrix=SingleRowProducts(Z, gram))


CASES = [(Multinomial(), True, True), (Logistic(), True, False), (Logistic(), False, True)]


def over_columns(solver: NewtonCG, problem: Problem, start: Vector | None = None) -> Solution:
    """Solve where somebody looks at the weights after each step."""
    return solver.solve(problem, start, callback=lambda k, w: False)


def check_same_steps(actual: Solution, expected: Solution, error: float) -> None:
    """Both have gone the same way, up to the rounding of products."""
    assert (actual.n_iter, actual.status) == (expected.n_iter, "converged")
    assert actual.history[-1]["products"] == expected.history[-1]["products"]
    size = np.abs(expected.weights).max()
    np.testing.assert_allclose(actual.weights, expected.weights, atol=error * size, rtol=0)
    for step, other in zip(actual.history, expected.history, strict=True):
        assert step["objective"] == pytest.approx(other["objective"], rel=error)


@pytest.mark.parametrize(("loss", "several", "warm"), CASES)
def test_steps_match_those_over_columns(loss: Loss, several: bool, warm: bool) -> None:
    problem = problem_of(loss, several)
    start = None
    if warm:
        start = NewtonCG(tol=1e-1).solve(problem).weights
        # Weights that no combination of the rows gives.
        start += 0.01 * np.random.default_rng(1).normal(size=start.shape)
    for tol in (1e-2, 2e-4):
        solver = NewtonCG(tol=tol)
        expected = over_columns(solver, problem, start)
        check_same_steps(solver.solve(with_rows(problem), start), expected, 1e-4)
        check_same_steps(solver.solve(problem, start), expected, 1e-9)


@pytest.mark.parametrize("warm", [False, True])
def test_sampled_steps_match_those_over_columns(warm: bool) -> None:
    # Most rows are sure of their class after the first steps.
    problem = problem_of(Multinomial(), several=True)
    solver = NewtonCG(tol=1e-2, all_rows_below=100)
    start = None
    if warm:
        start = NewtonCG(tol=1e-1).solve(problem).weights
        state = solver.begin(problem, start, has_callback=False)
        assert state.step()
        assert not state.states[0].uses_all_rows
    expected = over_columns(solver, problem, start)
    check_same_steps(solver.solve(problem, start), expected, 1e-9)
    single = replace(problem, matrix=SingleRowProducts(problem.matrix))
    check_same_steps(solver.solve(single, start), expected, 1e-4)
