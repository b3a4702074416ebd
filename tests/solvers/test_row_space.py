"""Newton's method in the space of few rows takes the steps that it takes over the columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.losses import Logistic, Loss, Multinomial
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.row_products import MatrixWithRowProducts, single_row_gram
from gramless.matrices.stacked import HStack
from gramless.penalties import L2
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem

N_ROWS, N_CLASSES = 700, 4


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
    return replace(problem, matrix=MatrixWithRowProducts(Z, gram))


CASES = [(Multinomial(), True), (Logistic(), True), (Logistic(), False)]


@pytest.mark.parametrize(("loss", "several"), CASES)
@pytest.mark.parametrize("warm", [False, True])
def test_steps_are_those_over_the_columns(loss: Loss, several: bool, warm: bool) -> None:
    problem = problem_of(loss, several)
    start = None
    if warm:
        start = NewtonCG(tol=1e-1).solve(problem).weights
        # Weights that no combination of the rows gives.
        start += 0.01 * np.random.default_rng(1).normal(size=start.shape)
    for tol in (1e-2, 2e-4):
        solver = NewtonCG(tol=tol)
        expected = solver.solve(problem, start)
        found = solver.solve(with_rows(problem), start)
        assert (found.n_iter, found.status) == (expected.n_iter, "converged")
        assert found.history[-1]["products"] == expected.history[-1]["products"]
        # Both have gone the same way, up to products in single precision.
        size = np.abs(expected.weights).max()
        np.testing.assert_allclose(found.weights, expected.weights, atol=1e-4 * size, rtol=0)
        for own, other in zip(found.history, expected.history, strict=True):
            assert own["objective"] == pytest.approx(other["objective"], rel=1e-5)


def test_where_single_precision_would_show_columns_are_taken() -> None:
    problem = problem_of(Multinomial(), several=True)
    exact = NewtonCG(tol=1e-7).solve(with_rows(problem))
    same = NewtonCG(tol=1e-7).solve(problem)
    # Only the rows that precondition have products in single precision.
    np.testing.assert_allclose(exact.weights, same.weights, atol=1e-9, rtol=0)


def test_a_callback_sees_weights_on_the_way() -> None:
    seen: list[float] = []
    problem = with_rows(problem_of(Multinomial(), several=True))
    NewtonCG(tol=1e-2).solve(problem, callback=lambda k, w: seen.append(problem.value(w)))
    assert (np.diff(seen) < 0).all()


def test_a_start_of_another_shape_is_refused() -> None:
    problem = with_rows(problem_of(Multinomial(), several=True))
    with pytest.raises(InputError, match="start must have"):
        NewtonCG().solve(problem, np.ones((3, N_CLASSES)))
