"""Direct solutions against dense normal equations, by every route and with every complication."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.base.memory import limit_fit_memory
from gramless.losses import Logistic
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import ComputedMatrix, DenseMatrix
from gramless.matrices.stacked import HStack, with_ones
from gramless.penalties import L1, L2
from gramless.solvers.direct import Cholesky
from gramless.solvers.factor import factorise
from gramless.solvers.objective import Problem

from .pairwise import each_value, pairs
from .references import Array, Case

TALL, WIDE = (200, 23), (40, 90)
SHAPES = {"tall": TALL, "wide": WIDE, "square": (50, 50), "one row": (1, 5), "one column": (30, 1)}
KINDS = ("dense", "single", "computed", "side by side")

both_shapes = pytest.mark.parametrize("shape", [TALL, WIDE], ids=["tall", "wide"])


def make_case(
    shape: tuple[int, int] = TALL,
    *,
    kind: str = "dense",
    alpha: float = 1e-2,
    intercept: bool = False,
    n_outputs: int | None = None,
    weighted: bool = False,
    repeated: bool = False,
) -> Case:
    rng = np.random.default_rng(1)
    values = 0.5 + rng.normal(size=shape)
    if repeated:
        values[:, -1] = values[:, 0]
        values[:, -2] = 0.0
    features, dense = matrix_of(values, kind)
    if intercept:
        features, dense = with_ones(features), np.column_stack([dense, np.ones(len(dense))])
    targets = rng.normal(3.0, 1.0, size=len(dense) if n_outputs is None else (len(dense), 3))
    weights = np.where(np.arange(len(dense)) % 4, rng.gamma(1.0, size=len(dense)), 0.0)
    penalty = L2(alpha, n_free=int(intercept))
    return Case(
        Problem(features, targets, penalty, sample_weight=weights if weighted else None), dense
    )


def matrix_of(values: Array, kind: str) -> tuple[FeatureMatrix, Array]:
    """Return a matrix of these values, and what it holds."""
    single = values.astype(np.float32)
    if kind == "single":
        return DenseMatrix(single), single.astype(float)
    if kind == "computed":

        def copy(rows: Array, out: Array) -> None:
            out[:] = rows

        return ComputedMatrix(values, copy, values.shape[1], budget=0), single.astype(float)
    if kind == "side by side":
        cut = values.shape[1] // 2
        parts = [DenseMatrix(values[:, :cut]), DenseMatrix(values[:, cut:])]
        return HStack(parts, [2.0, 0.5]), np.hstack([2.0 * values[:, :cut], 0.5 * values[:, cut:]])
    return DenseMatrix(values), values


def solved(case: Case, **options: Any) -> Array:
    solution = Cholesky(**options).solve(case.problem)
    assert (solution.status, solution.n_iter) == ("converged", 1)
    return solution.weights


def close(actual: Array, exact: Array, rtol: float = 1e-8) -> None:
    assert actual.shape == exact.shape
    np.testing.assert_allclose(actual, exact, rtol=0.0, atol=rtol * np.abs(exact).max())


# The solution.


@pytest.mark.parametrize(
    ("shape", "intercept", "n_outputs", "alpha"),
    pairs(SHAPES.values(), [False, True], [None, 3], [10.0, 1e-3]),
)
def test_solution_matches_the_normal_equations(
    shape: tuple[int, int], intercept: bool, n_outputs: int | None, alpha: float
) -> None:
    case = make_case(shape, alpha=alpha, intercept=intercept, n_outputs=n_outputs)
    close(solved(case), case.exact)


@pytest.mark.parametrize(("kind", "shape", "intercept"), pairs(KINDS, [TALL, WIDE], [False, True]))
def test_every_matrix_and_zero_weights_are_solved(
    kind: str, shape: tuple[int, int], intercept: bool
) -> None:
    case = make_case(shape, kind=kind, intercept=intercept, n_outputs=3, weighted=True)
    close(solved(case), case.exact)


@pytest.mark.parametrize(
    ("shape", "kind", "intercept"), pairs([TALL, WIDE], ["dense", "single"], [False, True])
)
def test_zero_penalty_gives_the_minimum_norm_solution(
    shape: tuple[int, int], kind: str, intercept: bool
) -> None:
    """Two columns are alike and one is empty; the intercept counts like the others."""
    case = make_case(shape, kind=kind, alpha=0.0, intercept=intercept, n_outputs=3, repeated=True)
    roots = np.sqrt(case.problem.row_weights)[:, None]
    exact = np.linalg.lstsq(roots * case.dense, roots * case.problem.targets, rcond=None)[0]
    close(solved(case), exact, 1e-7)


def test_columns_equal_up_to_rounding_share_their_weight() -> None:
    """As in single precision on a processor whose BLAS sums the last columns in another order."""
    case = make_case(TALL, alpha=0.0, repeated=True)
    prepared = Cholesky().prepare(case.problem.matrix, case.problem.row_weights)
    rounded = prepared.gram.gram.copy()
    rounded[-1, -1] *= 1 + 1e-7
    prepared = replace(prepared, gram=replace(prepared.gram, gram=rounded))
    roots = np.sqrt(case.problem.row_weights)
    left, right = roots[:, None] * case.dense, roots * case.problem.targets
    exact = np.linalg.lstsq(left, right, rcond=None)[0]
    close(prepared.solve(case.problem).weights, exact)


@pytest.mark.parametrize(("shape", "intercept"), each_value([TALL, WIDE], [False, True]))
def test_singular_matrices_are_solved_with_tiny_penalties(
    shape: tuple[int, int], intercept: bool
) -> None:
    """Rounding makes it singular: the answer is the limit of small penalties."""
    case = make_case(shape, alpha=1e-19, intercept=intercept, repeated=True)
    roots, n_free = np.sqrt(case.problem.row_weights), int(intercept)
    ridge = 1e-5 * np.eye(shape[1], shape[1] + n_free)
    limit = np.linalg.lstsq(
        np.vstack([roots[:, None] * case.dense, ridge]),
        np.append(roots * case.problem.targets, np.zeros(shape[1])),
        rcond=None,
    )[0]
    close(solved(case), limit, 1e-4)


# Steps by products.


class Inexact(DenseMatrix):
    """A matrix whose Gram matrix is off, symmetrically."""

    noise = 1e-6

    def column_gram(self, *args: Any, **options: Any) -> Array:
        exact = super().column_gram(*args, **options)
        noise = np.random.default_rng(2).normal(size=exact.shape)
        return exact + self.noise * np.abs(exact).max() * (noise + noise.T)


def test_refinement_corrects_an_inexact_gram_matrix() -> None:
    case = make_case(TALL, alpha=1e-2, intercept=False)
    problem = replace(case.problem, matrix=Inexact(case.dense))
    solution = Cholesky().solve(problem)
    once = np.linalg.solve(
        problem.matrix.column_gram(problem.row_weights) + 0.01 * np.eye(TALL[1]),  # type: ignore[attr-defined]
        case.dense.T @ (problem.row_weights * problem.targets),
    )
    error = np.abs(case.exact - once).max()
    assert error > 1e-7 * np.abs(case.exact).max()
    assert np.abs(case.exact - solution.weights).max() < 1e-3 * error
    assert solution.history[-1]["residual"] < 1e-9


def test_refinement_corrects_a_wrong_gram_matrix() -> None:
    """It has negative eigenvalues: what is solved with it is still positive."""
    case = make_case(TALL, alpha=1e-3)
    matrix = Inexact(case.dense)
    matrix.noise = 0.3
    problem = replace(case.problem, matrix=matrix)
    assert np.linalg.eigvalsh(matrix.column_gram(problem.row_weights))[0] < 0.0
    solution = Cholesky().solve(problem)
    assert solution.status == "converged"
    close(solution.weights, case.exact, 1e-7)


@pytest.mark.parametrize("alpha", [1e-6, 1e-9])
def test_penalties_below_single_precision_are_solved(alpha: float) -> None:
    """The Gram matrix in single precision has eigenvalues of -1e-9."""
    rng = np.random.default_rng(0)
    values = np.cos(rng.normal(size=(3000, 3)) @ rng.normal(size=(3, 100))).astype(np.float32) / 10
    y = values.sum(axis=1) + rng.normal(size=3000)
    result, exact = (
        Cholesky().solve(Problem(DenseMatrix(array), y, L2(alpha)))
        for array in (values, values.astype(float))
    )
    assert result.status == exact.status == "converged"
    best = exact.history[-1]["objective"]
    assert result.history[-1]["objective"] == pytest.approx(best, rel=1e-9)


# What is told.


@both_shapes
def test_history_holds_the_start_and_the_end(shape: tuple[int, int]) -> None:
    case = make_case(shape, intercept=True, n_outputs=3, weighted=True)
    solution = Cholesky().solve(case.problem)
    first, last = solution.history
    zeros = np.zeros_like(solution.weights)
    assert first["objective"] == pytest.approx(case.problem.value(zeros), rel=1e-12)
    assert first["residual"] == 1.0
    assert last["objective"] == pytest.approx(case.problem.value(solution.weights), rel=1e-12)
    gradients = [case.problem.gradient(w) for w in (solution.weights, zeros)]
    last_norms, first_norms = (np.linalg.norm(gradient, axis=0) for gradient in gradients)
    assert last["residual"] == pytest.approx((last_norms / first_norms).max(), abs=1e-14)
    assert last["residual"] < 1e-11


def test_callback_sees_the_weights_and_may_stop() -> None:
    case = make_case()
    calls: list[Any] = []
    solution = Cholesky().solve(case.problem, callback=lambda k, w: calls.append((k, w)))
    assert solution.status == "converged"
    ((iteration, weights),) = calls
    assert iteration == 1
    np.testing.assert_array_equal(weights, solution.weights)
    assert Cholesky().solve(case.problem, callback=lambda k, w: True).status == "stopped"


@pytest.mark.parametrize(
    ("kind", "shape"), each_value(["dense", "single", "computed"], [(5000, 40), (60, 3000)])
)
def test_number_of_threads_does_not_change_the_solution(kind: str, shape: tuple[int, int]) -> None:
    results = []
    for n_jobs in (1, 2, 3):
        case = make_case(shape, kind=kind, intercept=True, n_outputs=3)
        case.problem.matrix.parts[0].n_jobs = n_jobs  # type: ignore[attr-defined]
        results.append(solved(case, n_jobs=n_jobs))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


# A path of alphas.


class Counting(DenseMatrix):
    """A matrix that counts its Gram matrices."""

    grams = 0

    def column_gram(self, *args: Any, **options: Any) -> Array:
        self.grams += 1
        return super().column_gram(*args, **options)

    def row_gram(self) -> Array:
        self.grams += 1
        return super().row_gram()


@pytest.mark.parametrize(("shape", "intercept"), each_value([TALL, WIDE], [False, True]))
def test_path_computes_one_gram_matrix(shape: tuple[int, int], intercept: bool) -> None:
    case = make_case(shape, intercept=intercept, n_outputs=3, weighted=True)
    counting = Counting(case.dense[:, : shape[1]])
    matrix = with_ones(counting) if intercept else counting
    prepared = Cholesky().prepare(matrix, case.problem.row_weights)
    for alpha in (1.0, 1e-2, 0.0, 1e-4):
        problem = replace(case.problem, matrix=matrix, penalty=L2(alpha, n_free=int(intercept)))
        result = prepared.solve(problem)
        np.testing.assert_array_equal(result.weights, Cholesky().solve(problem).weights)
        assert counting.grams == 2
        counting.grams = 1
    other = replace(problem, targets=problem.targets[:, 0] ** 2)
    close(prepared.solve(other).weights, Cholesky().solve(other).weights, 1e-6)


def test_prepared_solver_rejects_another_problem() -> None:
    case = make_case()
    problem = case.problem
    prepared = Cholesky().prepare(problem.matrix, np.ones(TALL[0]))
    close(prepared.solve(problem).weights, case.exact)
    others = (
        replace(problem, sample_weight=np.arange(1.0, 1.0 + TALL[0])),
        replace(problem, matrix=DenseMatrix(case.dense)),
        Problem(DenseMatrix(case.dense[:9]), problem.targets[:9], problem.penalty),
    )
    for other in others:
        with pytest.raises(InputError, match="prepared"):
            prepared.solve(other)


# What it refuses.


def test_other_losses_and_penalties_are_rejected() -> None:
    problem = make_case().problem
    prepared = Cholesky().prepare(problem.matrix, problem.row_weights)
    for solver in (Cholesky(), prepared):
        with pytest.raises(InputError, match="Cholesky solves the squared loss only"):
            solver.solve(replace(problem, loss=Logistic()))
        with pytest.raises(InputError, match="smooth penalty; use GridDescent"):
            solver.solve(replace(problem, penalty=L1(0.1)))


def test_bins_are_solved_over_rows() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(1, 9, size=(12, 20)).astype(np.uint8)
    matrix = BinnedMatrix(codes, np.arange(13) * 8)
    case = Case(Problem(matrix, rng.normal(size=20), L2(0.01)), matrix.toarray())
    close(solved(case), case.exact)
    tall = BinnedMatrix(codes[:1], np.array([0, 8]))
    with pytest.raises(InputError, match=r"column_gram.*BinnedMatrix.*ConjugateGradient"):
        Cholesky().solve(Problem(tall, rng.normal(size=20), L2(0.01)))


@both_shapes
def test_gram_matrix_beyond_memory_is_rejected(shape: tuple[int, int]) -> None:
    raises = pytest.raises(InputError, match="Gram matrix of .* need .* MB.*ConjugateGradient")
    with limit_fit_memory(2 * 16 * 22**2), raises:
        solved(make_case(shape))


# Factors.


def test_factor_uses_cholesky_if_stable() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 8))
    rows[:, 7] = rows[:, 6]
    singular, right = rows.T @ rows, rng.normal(size=(8, 2))
    before = singular.copy()
    ridged = factorise(singular, np.full(8, 1e-3))
    close(ridged(right), np.linalg.solve(singular + 1e-3 * np.eye(8), right))
    least = factorise(singular, np.zeros(8))
    close(least(right), np.linalg.pinv(singular, rcond=1e-10) @ right)
    full = rows[:, :7].T @ rows[:, :7]
    by_pivots = factorise(full, np.zeros(7))
    close(by_pivots(right[:7]), np.linalg.solve(full, right[:7]))
    np.testing.assert_array_equal(singular, before)


@pytest.mark.parametrize("negative", [-1e-9, -1e-5])
def test_factor_of_an_indefinite_matrix_is_positive(negative: float) -> None:
    """What is added is no more than ten times what is needed; free columns may need it too."""
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 9)))[0]
    values = np.array([negative, *np.linspace(0.1, 1.0, 8)])
    ridge = np.array([1e-12] * 8 + [0.0])
    factor = factorise((vectors * values) @ vectors.T, ridge)
    result = np.linalg.eigvalsh(factor(np.eye(9)))
    assert result[0] > 0.0
    assert result[-1] > 0.1 / abs(negative)
    np.testing.assert_allclose(1.0 / result[:8], values[:0:-1], atol=11 * abs(negative))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_non_finite_gram_matrix_is_rejected(wrong: float) -> None:
    for ridge in (0.0, 1.0):
        with pytest.raises(InputError, match="not finite"):
            factorise(np.full((3, 3), wrong), np.full(3, ridge))
