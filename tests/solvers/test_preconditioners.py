"""The preconditioner from a sample of the rows against dense references by its definition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gramless.base.memory import limit_fit_memory
from gramless.features.binning import RandomBinning
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import with_ones
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.objective import Problem
from gramless.solvers.preconditioners import (
    DiagonalInverse,
    Inverse,
    Preconditioner,
    SampledInverse,
    SampledRows,
)

from .diagonal import Diagonal
from .pairwise import each_value, pairs

N_ROWS, N_GRIDS, N_BINS = 300, 6, 9
WEIGHTS = {
    "equal": None,
    "uneven": np.random.default_rng(2).gamma(1.0, size=N_ROWS),
    "zeros": np.random.default_rng(3).integers(0, 4, N_ROWS).astype(float),
}
SIZES = (None, 1, 7, 100, N_ROWS, 10**6)


class Noting(BinnedMatrix):
    """A binned matrix that notes which rows were taken of it."""

    def take_rows(self, rows: Any) -> BinnedMatrix:
        self.taken = np.asarray(rows)
        return super().take_rows(rows)


@dataclass(frozen=True)
class Case:
    problem: Problem
    binned: Noting
    dense: NDArray[np.float64]

    def operator(self, n_rows: int | None) -> tuple[SampledInverse, NDArray[np.float64]]:
        """Return the inverse, and ``Z_m' S_m Z_m + mu I`` of the rows that it took."""
        inverse = SampledRows(n_rows).inverse(self.problem)
        Z = self.dense[self.binned.taken]
        weights = self.problem.row_weights[self.binned.taken]
        weights = weights / weights.sum()
        complete = len(weights) == np.count_nonzero(self.problem.row_weights)
        resolution = 1e-9 if complete else 0.4 / len(weights)
        mu = max(self.problem.penalty.alpha, resolution * float(weights @ (Z**2).sum(axis=1)))
        return inverse, Z.T @ (weights[:, None] * Z) + mu * np.eye(Z.shape[1])


def make_case(weights: str = "equal", alpha: float = 1e-3, *, intercept: bool = False) -> Case:
    rng = np.random.default_rng(1)
    codes = np.minimum(rng.geometric(0.3, (N_GRIDS, N_ROWS)), N_BINS).astype(np.uint8)
    binned = Noting(codes, N_BINS * np.arange(N_GRIDS + 1))
    dense, matrix = binned.toarray(), binned
    if intercept:
        matrix, dense = with_ones(binned), np.hstack([dense, np.ones((N_ROWS, 1))])
    penalty = L2(alpha, n_free=int(intercept))
    targets = rng.normal(1.0, 1.0, N_ROWS)
    return Case(Problem(matrix, targets, penalty, sample_weight=WEIGHTS[weights]), binned, dense)


def times(inverse: Inverse, residual: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the operator times a residual (n_columns, K)."""
    result = inverse.diagonal[:, None] * residual
    inverse.subtract(inverse.coefficients(residual), result)
    return result


def energies(inverse: Inverse, residual: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = inverse.diagonal @ residual**2
    return whole - inverse.energy(inverse.coefficients(residual))


def draw(*shape: int) -> NDArray[np.float64]:
    return np.random.default_rng(5).normal(size=shape)


def close(measured: NDArray[np.float64], expected: NDArray[np.float64]) -> None:
    size = np.abs(expected).max()
    np.testing.assert_allclose(measured, expected, rtol=1e-9, atol=1e-10 * size)


# The operator.


@pytest.mark.parametrize(
    ("weights", "intercept", "n_rows", "n_outputs"), pairs(WEIGHTS, (False, True), SIZES, (1, 3))
)
def test_sampled_rows_inverts_the_sampled_hessian(
    weights: str, intercept: bool, n_rows: int | None, n_outputs: int
) -> None:
    inverse, M = make_case(weights, intercept=intercept).operator(n_rows)
    residual = draw(len(M), n_outputs)
    before = residual.copy()
    exact = np.linalg.solve(M, residual)
    close(times(inverse, residual), exact)
    close(energies(inverse, residual), (residual * exact).sum(axis=0))
    np.testing.assert_array_equal(residual, before)


@pytest.mark.parametrize(
    ("n_rows", "weights", "intercept"), each_value(SIZES, WEIGHTS, (False, True))
)
def test_inverse_is_symmetric_and_positive(
    n_rows: int | None, weights: str, intercept: bool
) -> None:
    inverse, M = make_case(weights, intercept=intercept).operator(n_rows)
    written_out = times(inverse, np.eye(len(M)))
    close(written_out, written_out.T)
    values = np.linalg.eigvalsh((written_out + written_out.T) / 2)
    assert (values > 0).all()
    np.testing.assert_allclose(values[::-1], 1 / np.linalg.eigvalsh(M), rtol=1e-8)


@pytest.mark.parametrize(
    ("weights", "intercept", "n_outputs"), pairs(WEIGHTS, (False, True), (1, 3))
)
def test_subtract_subtracts_the_low_rank_part(
    weights: str, intercept: bool, n_outputs: int
) -> None:
    inverse, M = make_case(weights, intercept=intercept).operator(50)
    residual, direction = draw(len(M), n_outputs), draw(len(M), n_outputs)[::-1].copy()
    low_rank = np.diag(inverse.diagonal) - np.linalg.inv(M)
    expected = direction - low_rank @ residual
    coefficients = inverse.coefficients(residual)
    close(inverse.energy(coefficients), np.einsum("dk,dk->k", residual, low_rank @ residual))
    inverse.subtract(coefficients, direction)
    close(direction, expected)


def test_diagonal_has_no_low_rank_part() -> None:
    inverse = DiagonalInverse(np.array([1.0, 2.0]))
    for n_outputs in (1, 3):
        residual, direction = draw(2, n_outputs), draw(2, n_outputs)
        coefficients = inverse.coefficients(residual)
        inverse.subtract(coefficients, direction)
        np.testing.assert_array_equal(direction, draw(2, n_outputs))
        assert inverse.energy(coefficients).tolist() == [0.0] * n_outputs


def test_outputs_are_preconditioned_as_if_separately() -> None:
    inverse, M = make_case("uneven").operator(50)
    residual = draw(len(M), 4)
    together = times(inverse, residual)
    for k in range(4):
        close(together[:, k : k + 1], times(inverse, residual[:, k : k + 1]))


# All rows.


@pytest.mark.parametrize(
    ("weights", "alpha", "intercept"), pairs(WEIGHTS, (1e-2, 1e-5), (False, True))
)
def test_sample_of_all_rows_inverts_the_hessian(
    weights: str, alpha: float, intercept: bool
) -> None:
    """A free intercept is penalised in M alone: one more eigenvalue, one more iteration."""
    case = make_case(weights, alpha, intercept=intercept)
    inverse, M = case.operator(N_ROWS)
    Z, S = case.dense, case.problem.row_weights
    hessian = Z.T @ (S[:, None] * Z) + alpha * np.eye(Z.shape[1])
    close(M, hessian)
    np.testing.assert_allclose(times(inverse, hessian), np.eye(len(M)), atol=1e-8)
    solver = ConjugateGradient(SampledRows(N_ROWS), tol=1e-8, max_iter=20)
    solution = solver.solve(case.problem)
    assert solution.status == "converged"
    assert solution.n_iter <= 2 + intercept


def test_small_tables_use_all_rows() -> None:
    case = make_case()
    small = replace(
        case.problem,
        matrix=case.binned.take_rows(slice(0, 256)),
        targets=case.problem.targets[:256],
    )
    assert len(SampledRows().inverse(small).roots) == 256


# The sample.


@pytest.mark.parametrize("weights", WEIGHTS)
def test_only_rows_of_positive_weight_are_drawn(weights: str) -> None:
    case = make_case(weights)
    S = case.problem.row_weights
    for n_rows in SIZES:
        inverse = SampledRows(n_rows).inverse(case.problem)
        taken = case.binned.taken
        expected = 256 if n_rows is None else n_rows
        assert len(taken) == min(expected, np.count_nonzero(S))
        assert (np.diff(taken) > 0).all()
        assert (S[taken] > 0).all()
        np.testing.assert_allclose(inverse.roots**2, S[taken] / S[taken].sum(), rtol=1e-12)


def test_default_sample_size_depends_on_the_table() -> None:
    expected = {100: 100, 2000: 256, 10_000: 500, 169_472: 2048, 10**6: 2048}
    for n_rows, drawn in expected.items():
        matrix = BinnedMatrix(np.ones((1, n_rows), np.uint8), np.array([0, 1]))
        sample = SampledRows().draw(matrix, np.full(n_rows, 1 / n_rows))
        assert sample.rows.shape == (drawn, 1)
        assert sample.complete == (drawn == n_rows)


def test_sample_is_reproducible() -> None:
    case = make_case("uneven")
    first = SampledRows(40).inverse(case.problem)
    taken = case.binned.taken
    second = SampledRows(40).inverse(case.problem)
    np.testing.assert_array_equal(case.binned.taken, taken)
    assert first.factor.tobytes() == second.factor.tobytes()


def test_rows_are_drawn_from_the_whole_table() -> None:
    """Not the first ones: tables are sorted. The mean of 40 of 300 has a deviation of 13."""
    case = make_case()
    SampledRows(40).inverse(case.problem)
    assert abs(case.binned.taken.mean() - 149.5) < 4 * 13


# A path of penalties.


@pytest.mark.parametrize("n_rows", [None, 40, N_ROWS])
def test_sample_serves_every_alpha(n_rows: int | None) -> None:
    case = make_case("uneven")
    sample = SampledRows(n_rows).draw(case.problem.matrix, case.problem.row_weights)
    for alpha in (1.0, 1e-2, 1e-4, 1e-8, 0.0, 1e-2):
        problem = replace(case.problem, penalty=L2(alpha))
        mine, fresh = sample.inverse(problem), SampledRows(n_rows).inverse(problem)
        assert mine.mu == fresh.mu
        for name in ("diagonal", "roots", "factor"):
            assert getattr(mine, name).tobytes() == getattr(fresh, name).tobytes(), name
        residual = draw(case.dense.shape[1], 2)
        assert times(mine, residual).tobytes() == times(fresh, residual).tobytes()


def test_equal_mu_share_a_factor() -> None:
    case = make_case()
    sample = SampledRows(40).draw(case.problem.matrix, case.problem.row_weights)

    def factor(alpha: float) -> NDArray[np.float64]:
        return sample.inverse(replace(case.problem, penalty=L2(alpha))).factor

    weak = factor(1e-4)
    assert factor(1e-5) is weak
    assert factor(0.0) is weak
    assert factor(1.0) is not weak
    assert len(sample._last) == 1


def test_sample_can_be_used_as_preconditioner() -> None:
    case = make_case("uneven", intercept=True)
    sample = SampledRows(40).draw(case.problem.matrix, case.problem.row_weights)
    once = ConjugateGradient(sample, tol=1e-6).solve(case.problem)
    other = ConjugateGradient(SampledRows(40), tol=1e-6).solve(case.problem)
    assert once.weights.tobytes() == other.weights.tobytes()
    assert once.history == other.history


# Penalties at the edge.


@pytest.mark.parametrize(
    ("alpha", "n_rows", "intercept"), pairs((0.0, 1e-320), (None, 7, N_ROWS), (False, True))
)
def test_tiny_penalties_converge(alpha: float, n_rows: int | None, intercept: bool) -> None:
    case = make_case("zeros", alpha, intercept=intercept)
    solver = ConjugateGradient(SampledRows(n_rows), tol=1e-9, max_iter=1000)
    solution = solver.solve(case.problem)
    assert solution.status == "converged"
    root = np.sqrt(case.problem.row_weights)
    exact = np.linalg.lstsq(root[:, None] * case.dense, root * case.problem.targets, rcond=None)[0]
    responses = case.dense @ solution.weights
    np.testing.assert_allclose(root * responses, root * (case.dense @ exact), atol=1e-8)


def test_zero_matrix_is_preconditioned() -> None:
    matrix = BinnedMatrix(np.zeros((2, 5), np.uint8), np.array([0, 0, 3]))
    for n_rows, alpha in product((None, 2), (0.0, 1.0)):
        problem = Problem(matrix, np.ones(5), L2(alpha))
        solution = ConjugateGradient(SampledRows(n_rows)).solve(problem)
        assert (solution.status, solution.weights.tolist()) == ("converged", [0.0, 0.0, 0.0])


# Real bins: threads and iterations.


def random_binning(n_jobs: int | None = None) -> tuple[FeatureMatrix, NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=3000)
    features = RandomBinning(bandwidth=1.5, n_grids=64, random_state=0, n_jobs=n_jobs)
    return features.fit_matrix(X), y


@pytest.mark.parametrize("n_outputs", [None, 3])
def test_number_of_threads_does_not_change_the_inverse(n_outputs: int | None) -> None:
    results = []
    for n_jobs in (1, 2, 3):
        matrix, y = random_binning(n_jobs)
        targets = y if n_outputs is None else np.outer(y, 1 + np.arange(n_outputs)) ** 2
        problem = Problem(with_ones(matrix), targets, L2(1e-5, n_free=1))
        # The threads of BLAS are of no matter either.
        with threadpool_limits(n_jobs, "blas"):
            factor = SampledRows().inverse(problem).factor
            solution = ConjugateGradient(SampledRows(), tol=1e-3, n_jobs=n_jobs).solve(problem)
        results.append((factor.tobytes(), solution.weights.tobytes(), solution.history))
    assert results[1] == results[0]
    assert results[2] == results[0]


@cache
def nearly_solved(alpha: float) -> tuple[Problem, float]:
    """Return a problem, and an objective slightly above its least."""
    matrix, y = random_binning()
    problem = Problem(matrix, y, L2(alpha))
    least = ConjugateGradient(SampledRows(3000), tol=1e-10).solve(problem).weights
    return problem, problem.value(least) * (1 + 1e-4)


def iterations_to(problem: Problem, preconditioner: Preconditioner, enough: float) -> int:
    """Return the iterations to an objective: each measures its gradient in another norm."""
    solution = ConjugateGradient(preconditioner, tol=0.0, max_iter=2000).solve(
        problem, callback=lambda _, w: problem.value(w) <= enough
    )
    assert solution.status == "stopped"
    return solution.n_iter


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "times_fewer"), [(1e-5, 1.5), (1e-6, 2.5)])
def test_sampled_rows_need_far_fewer_iterations_than_the_diagonal(
    alpha: float, times_fewer: float
) -> None:
    problem, enough = nearly_solved(alpha)
    sampled = iterations_to(problem, SampledRows(), enough)
    assert times_fewer * sampled < iterations_to(problem, Diagonal(), enough)


@pytest.mark.slow
def test_more_rows_need_fewer_iterations() -> None:
    problem, enough = nearly_solved(1e-5)
    counts = [iterations_to(problem, SampledRows(m), enough) for m in (100, 400, 1600, 3000)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] <= 2


def test_gap_is_of_the_order_of_squared_tol() -> None:
    """The norm of the gradient is close to the distance: the gap is of the order of tol^2."""
    matrix, y = random_binning()
    problem = Problem(matrix, y, L2(1e-5))
    least = problem.value(ConjugateGradient(SampledRows(3000), tol=1e-10).solve(problem).weights)
    start = problem.value(np.zeros(matrix.shape[1]))
    for tol in (1e-1, 1e-2, 1e-3):
        result = problem.value(ConjugateGradient(tol=tol).solve(problem).weights)
        relative = (result - least) / (start - least)
        assert tol**2 / 30 < relative < 30 * tol**2


def test_fewer_rows_are_drawn_if_memory_is_limited() -> None:
    matrix = DenseMatrix(np.random.default_rng(0).normal(size=(20_000, 50)).astype(np.float32))
    reference = SampledRows().with_shared_sample(matrix)
    with limit_fit_memory(8_000_000):
        fewer = SampledRows().with_shared_sample(matrix)
        given = SampledRows(400).with_shared_sample(matrix)
    n_rows = len(fewer.chosen)
    assert n_rows < len(reference.chosen)
    assert 1.9e6 < n_rows * (16 * n_rows + 12 * 50) <= 2e6
    assert len(given.chosen) == 400
