"""Descent over columns without zeros: optimality, the jump, and how many Gram matrices it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramless.base.errors import InputError
from gramless.base.memory import limit_fit_memory
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.dense import ComputedMatrix, DenseMatrix
from gramless.matrices.stacked import HStack, with_ones
from gramless.penalties import L1, L2, Penalty
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.objective import Solution
from gramless.solvers.working_set import Quadratic

from .pairwise import each_value
from .references import LOSSES, PENALTIES, Array, Case, case_over, never_rises

TALL, WIDE = (150, 30), (40, 70)


class Counting(DenseMatrix):
    """A matrix that notes the columns of its Gram matrices."""

    def __init__(self, array: Array) -> None:
        super().__init__(array)
        self.asked: list[int] = []

    def column_gram(self, weights: Any = None, columns: Any = None, out: Any = None) -> Array:
        self.asked.append(len(columns))
        return super().column_gram(weights, columns, out)


def make_case(
    loss: str = "squared",
    penalty: str | Penalty = "l1",
    shape: tuple[int, int] = TALL,
    **options: Any,
) -> Case:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(shape[0], 3))
    dense = np.cos(X @ rng.normal(size=(3, shape[1])) + rng.uniform(0, 6, shape[1]))
    chosen = PENALTIES[penalty] if isinstance(penalty, str) else penalty
    return case_over(Counting(dense), LOSSES[loss], chosen, **options)


def precise(**options: Any) -> GridDescent:
    return GridDescent(**{"tol": 1e-5, "max_iter": 1000, **options})


# The solution.


@pytest.mark.parametrize(
    ("loss", "penalty", "intercept", "n_outputs"),
    each_value(LOSSES, PENALTIES, [False, True], [None, 3]),
)
def test_solution_is_optimal(
    loss: str, penalty: str, intercept: bool, n_outputs: int | None
) -> None:
    if loss == "multinomial" and n_outputs is not None:
        n_outputs = 2
    options = {"n_outputs": n_outputs, "intercept": intercept, "weighted": intercept}
    case = make_case(loss, penalty, **options)  # type: ignore[arg-type]
    tol = 1e-2 if loss == "multinomial" else 1e-5
    solution = precise(tol=tol).solve(case.problem)
    assert solution.status == "converged"
    assert case.residual(solution.weights) <= tol
    assert never_rises(solution)
    assert solution.history[-1]["objective"] == pytest.approx(
        case.problem.value(solution.weights), rel=1e-9
    )


@pytest.mark.parametrize(("penalty", "loss"), each_value(PENALTIES, ["squared", "logistic"]))
def test_more_columns_than_rows_are_solved(penalty: str, loss: str) -> None:
    case = make_case(loss, penalty, WIDE, intercept=True)
    solution = precise().solve(case.problem)
    assert solution.status == "converged"
    assert case.residual(solution.weights) <= 1e-5


@pytest.mark.parametrize("kind", ["single", "computed", "side by side"])
def test_every_matrix_with_a_gram_matrix_is_solved(kind: str) -> None:
    case = make_case("logistic", intercept=True)
    values = case.dense[:, :-1]

    def copy(rows: Array, out: Array) -> None:
        out[:] = rows

    inner: dict[str, FeatureMatrix] = {
        "single": DenseMatrix(values.astype(np.float32)),
        "computed": ComputedMatrix(values, copy, values.shape[1], budget=0),
        "side by side": HStack([DenseMatrix(values[:, :9]), DenseMatrix(values[:, 9:])]),
    }
    problem = replace(case.problem, matrix=with_ones(inner[kind]))
    solution = precise().solve(problem)
    assert solution.status == "converged"
    assert case.residual(solution.weights) <= 2e-5


def test_equal_columns_without_a_penalty_converge() -> None:
    case = make_case(penalty=L2(0.0))
    dense = case.dense.copy()
    dense[:, 4], dense[:, 5] = dense[:, 3], 0.0
    problem = replace(case.problem, matrix=DenseMatrix(dense))
    solution = precise().solve(problem)
    assert solution.status == "converged"
    assert problem.kkt_residual(solution.weights) < 1e-4


def test_start_reaches_the_solution_and_callback_stops() -> None:
    case = make_case("logistic", "net", n_outputs=2, intercept=True)
    end = precise().solve(case.problem)
    again = precise().solve(case.problem, start=end.weights)
    assert again.n_iter == 0
    np.testing.assert_array_equal(again.weights, end.weights)
    near = precise().solve(case.problem, start=end.weights * 1.1)
    np.testing.assert_allclose(near.weights, end.weights, atol=1e-4)
    assert precise().solve(case.problem, callback=lambda k, w: k == 1).status == "stopped"


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_number_of_threads_does_not_change_the_solution(loss: str) -> None:
    case = make_case(loss, "net", (5000, 40), n_outputs=3)
    results = []
    for n_jobs in (1, 2, 3):
        case.problem.matrix.n_jobs = n_jobs  # type: ignore[attr-defined]
        results.append(GridDescent(n_jobs=n_jobs).solve(case.problem).weights)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


# Gram matrices.


def counted(loss: str, shape: tuple[int, int], **options: Any) -> tuple[list[int], Solution]:
    case = make_case(loss, L1(0.01), shape, **options)
    solution = precise(tol=1e-3).solve(case.problem)
    assert isinstance(case.problem.matrix, Counting)
    return case.problem.matrix.asked, solution


@pytest.mark.parametrize("n_outputs", [None, 3])
def test_squared_loss_computes_one_gram_matrix(n_outputs: int | None) -> None:
    """All rounds, outputs and penalties on the way use it; it grows when it must."""
    asked, solution = counted("squared", (200, 700), n_outputs=n_outputs)
    assert solution.n_iter > 1
    assert asked == sorted(set(asked))
    assert (np.diff(asked) >= 0.49 * np.array(asked[:-1])).all()


def test_other_losses_compute_gram_matrices_of_working_sets() -> None:
    asked, solution = counted("logistic", (200, 700))
    assert max(asked) < 700
    assert len(asked) >= solution.n_iter


def test_memory_limits_the_gram_matrix() -> None:
    """Columns are not asked for in advance where they do not fit."""
    needed = max(counted("squared", (200, 700))[0])
    with limit_fit_memory(2 * 16 * (needed - 30) ** 2):
        assert max(counted("squared", (200, 700))[0]) <= needed - 30
    raises = pytest.raises(InputError, match=r"GridDescent: the Gram matrix of .* RandomDescent")
    with limit_fit_memory(2 * 16 * 100**2), raises:
        counted("squared", (200, 700))


# The model.


def quadratic_of(penalty: Penalty, n: int = 12, seed: int = 0, rank: int = 40) -> Quadratic:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(rank, n))
    weights = np.where(rng.random(n) < 0.6, rng.normal(size=n), 0.0)
    l1, l2 = (
        np.where(np.arange(n) < n - 1, strength, 0.0) for strength in (penalty.l1, penalty.l2)
    )
    return Quadratic(rows.T @ rows / n, rng.normal(size=n), weights, l1, l2)


def value(quadratic: Quadratic, before: Quadratic) -> float:
    """Return the model, written in the change since ``before``."""
    change, w = quadratic.weights - before.weights, quadratic.weights
    smooth = before.gradient @ change + 0.5 * change @ before.gram @ change
    return float(smooth + before.l1 @ np.abs(w) + 0.5 * before.l2 @ w**2)


every_penalty = pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())


@every_penalty
def test_jump_reaches_the_minimum_of_a_smooth_piece(penalty: Penalty) -> None:
    """Near the minimum no sign changes, so that one jump is enough."""
    quadratic = quadratic_of(penalty)
    orders = np.tile(np.arange(12), (3000, 1))
    quadratic.sweep(orders, 1e-13)
    minimum, support = quadratic.weights.copy(), quadratic.support()
    shift = np.zeros(12)
    shift[support] = 1e-3 * np.random.default_rng(1).normal(size=len(support))
    shift[np.abs(minimum) < 1e-2] = 0.0
    quadratic.weights += shift
    quadratic.gradient += quadratic.gram @ shift
    assert quadratic.distance() > 1e-4
    quadratic.jump()
    np.testing.assert_allclose(quadratic.weights, minimum, atol=1e-10)
    assert quadratic.distance() < 1e-10


@settings(max_examples=50)
@given(
    seed=st.integers(0, 1000), penalty=st.sampled_from(sorted(PENALTIES)), rank=st.integers(1, 40)
)
def test_jump_never_increases_the_model(seed: int, penalty: str, rank: int) -> None:
    before, quadratic = (quadratic_of(PENALTIES[penalty], seed=seed, rank=rank) for _ in range(2))
    quadratic.jump()
    assert value(quadratic, before) <= value(before, before) + 1e-12
    change = quadratic.weights - before.weights
    np.testing.assert_allclose(
        quadratic.gradient, before.gradient + before.gram @ change, atol=1e-6
    )
    crossed = quadratic.weights * before.weights < 0.0
    assert not (crossed & (before.l1 > 0.0)).any()
