"""Diagonals and the randomised Nyström preconditioner against dense twins, and what it saves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import with_ones
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.objective import Problem
from gramless.solvers.preconditioners import Identity
from studies.baselines.preconditioners import (
    Jacobi,
    LowRankInverse,
    NystromSketch,
    RandomisedNystrom,
    RootJacobi,
)

Array = NDArray[np.float64]

N_ROWS, N_COLUMNS = 400, 150


@dataclass(frozen=True)
class Case:
    """A problem and ``Z' S Z`` of its matrix."""

    problem: Problem
    gram: Array

    def twin(self, sketch: NystromSketch) -> Array:
        """Return the approximate Hessian that the inverse inverts, from its definition."""
        directions = sketch.directions
        core = directions.T @ self.gram @ directions
        half = self.gram @ directions
        values, vectors = np.linalg.eigh(half @ np.linalg.pinv(core, rcond=1e-12) @ half.T)
        values, vectors = values[-sketch.rank :], vectors[:, -sketch.rank :]
        alpha = self.problem.penalty.l2
        rest = np.eye(len(self.gram)) - vectors @ vectors.T
        return vectors @ np.diag(values + alpha) @ vectors.T + (values[0] + alpha) * rest


def gaussian(n_rows: int, n_columns: int, spread: float = 0.5) -> Array:
    """Return Fourier features of a Gaussian kernel of rows in four dimensions."""
    rng = np.random.default_rng(0)
    angles = rng.normal(size=(n_rows, 4)) @ (spread * rng.normal(size=(4, n_columns // 2)))
    return np.hstack([np.cos(angles), np.sin(angles)]) * np.sqrt(2 / n_columns)


def make_case(kind: str = "dense", alpha: float = 1e-6, weighted: bool = True) -> Case:
    rng = np.random.default_rng(1)
    matrix: FeatureMatrix
    if kind == "bins":
        codes = np.minimum(rng.geometric(0.2, (6, N_ROWS)), 25).astype(np.uint8)
        matrix = BinnedMatrix(codes, 25 * np.arange(7))
        dense = matrix.toarray()
    else:
        dense = gaussian(N_ROWS, N_COLUMNS)
        matrix = DenseMatrix(dense)
    if kind == "intercept":
        matrix, dense = with_ones(matrix), np.column_stack([dense, np.ones(N_ROWS)])
    weights = np.where(np.arange(N_ROWS) % 4, rng.gamma(1.0, size=N_ROWS), 0.0)
    penalty = L2(alpha, n_free=int(kind == "intercept"))
    sample_weight = weights if weighted else None
    problem = Problem(matrix, rng.normal(size=N_ROWS), penalty, sample_weight=sample_weight)
    return Case(problem, dense.T @ (problem.row_weights[:, None] * dense))


def times(inverse: LowRankInverse, residual: Array) -> Array:
    product = inverse.diagonal[:, None] * residual
    inverse.subtract(inverse.coefficients(residual), product)
    return product


def sketch_of(case: Case, rank: int | None, **options: Any) -> NystromSketch:
    made = RandomisedNystrom(rank, **options)
    return made.draw(case.problem.matrix, case.problem.row_weights)


# Diagonals.


def test_diagonals_are_that_of_the_hessian_and_its_root() -> None:
    case = make_case("bins", alpha=1e-3)
    diagonal = np.diag(case.gram) + 1e-3
    np.testing.assert_allclose(Jacobi().inverse(case.problem).diagonal * diagonal, 1.0)
    np.testing.assert_allclose(RootJacobi().inverse(case.problem).diagonal ** 2 * diagonal, 1.0)


def test_empty_columns_are_left_alone() -> None:
    matrix = BinnedMatrix(np.array([[1, 3]], np.uint8), np.array([0, 3]))
    problem = Problem(matrix, np.ones(2), L2(0.0))
    np.testing.assert_allclose(Jacobi().inverse(problem).diagonal, [2.0, 1.0, 2.0])
    np.testing.assert_allclose(RootJacobi().inverse(problem).diagonal ** 2, [2.0, 1.0, 2.0])


# The operator.


@pytest.mark.parametrize(
    ("kind", "rank", "n_outputs"), [("dense", 1, 3), ("intercept", 7, 1), ("bins", 40, 3)]
)
def test_it_inverts_the_approximation(kind: str, rank: int, n_outputs: int) -> None:
    case = make_case(kind, alpha=1e-3)
    sketch = sketch_of(case, rank)
    inverse, residual = (
        sketch.inverse(case.problem),
        np.random.default_rng(2).normal(size=(len(case.gram), n_outputs)),
    )
    before = residual.copy()
    exact = np.linalg.solve(case.twin(sketch), residual)
    size = np.abs(exact).max()
    np.testing.assert_allclose(times(inverse, residual), exact, rtol=0, atol=1e-8 * size)
    whole = np.einsum("d,dk,dk->k", inverse.diagonal, residual, residual)
    energy = whole - inverse.energy(inverse.coefficients(residual))
    np.testing.assert_allclose(energy, (residual * exact).sum(axis=0), rtol=1e-8)
    np.testing.assert_array_equal(residual, before)


@pytest.mark.parametrize(
    ("kind", "rank"), [("dense", 1), ("intercept", 90), ("bins", N_COLUMNS), ("dense", 10**6)]
)
def test_it_is_symmetric_and_positive(kind: str, rank: int) -> None:
    case = make_case(kind, alpha=1e-9)
    written_out = times(sketch_of(case, rank).inverse(case.problem), np.eye(len(case.gram)))
    np.testing.assert_allclose(written_out, written_out.T, atol=1e-9 * np.abs(written_out).max())
    assert np.linalg.eigvalsh(0.5 * (written_out + written_out.T))[0] > 0.0


def test_with_all_directions_it_is_the_inverse_of_the_hessian() -> None:
    case, rank = make_case(alpha=1e-2), 10**6
    inverse = times(sketch_of(case, rank).inverse(case.problem), np.eye(N_COLUMNS))
    exact = np.linalg.inv(case.gram + 1e-2 * np.eye(N_COLUMNS))
    np.testing.assert_allclose(inverse, exact, rtol=0, atol=1e-7 * np.abs(exact).max())
    assert ConjugateGradient(RandomisedNystrom(rank), tol=1e-6).solve(case.problem).n_iter <= 2


# Its rank.


def test_rank_grows_until_the_smallest_eigenvalue_is_near_alpha() -> None:
    case = make_case()
    ranks = []
    for alpha in (1e-2, 1e-4, 1e-6):
        sketch = sketch_of(case, None, first_rank=4, max_share=1.0)
        sketch.inverse(replace(case.problem, penalty=L2(alpha)))
        assert sketch.values[0] <= 10 * alpha
        half = sketch_of(case, sketch.rank // 2)
        assert sketch.rank == 4 or half.values[0] > 5 * alpha
        ranks.append(sketch.rank)
    assert ranks == sorted(set(ranks))


@pytest.mark.parametrize(("n_columns", "most"), [(100, 64), (400, 200), (30, 30), (2400, 400)])
def test_rank_has_a_limit(n_columns: int, most: int) -> None:
    """Half of the columns, and no more than there are rows; 64 where that is less."""
    rng = np.random.default_rng(0)
    problem = Problem(DenseMatrix(rng.normal(size=(400, n_columns))), np.ones(400), L2(0.0))
    sketch = RandomisedNystrom().draw(problem.matrix, problem.row_weights)
    sketch.inverse(problem)
    assert sketch.rank == most


def test_a_path_takes_one_sketch() -> None:
    """Growing gives the directions that a fresh sketch has; nothing is multiplied twice."""
    case = make_case("dense")
    multiplied = []

    class Counting(DenseMatrix):
        def pull_back(self, w: Array, *args: Any) -> Array:
            multiplied.append(w.shape[1])
            return super().pull_back(w, *args)

    matrix = Counting(gaussian(N_ROWS, 300))
    problem = replace(case.problem, matrix=matrix)
    path = RandomisedNystrom().draw(matrix, problem.row_weights)
    for alpha in (1e-1, 1e-3, 0.0):
        own = replace(problem, penalty=L2(alpha))
        inverse = path.inverse(own)
    assert multiplied == [64, 64, 22]
    assert path.rank == 150
    fresh = RandomisedNystrom().inverse(own)
    np.testing.assert_array_equal(inverse.vectors, fresh.vectors)
    np.testing.assert_array_equal(inverse.shares, fresh.shares)
    assert path.with_shared_sample(matrix) is path


def test_a_rank_of_zero_is_refused() -> None:
    with pytest.raises(InputError, match="rank must be a whole number of at least 1"):
        RandomisedNystrom(0)


# Products.


@pytest.mark.parametrize("kind", ["bins", "dense"])
def test_many_directions_are_multiplied_in_parts(kind: str) -> None:
    case = make_case(kind)
    whole = sketch_of(case, 20)
    parts = sketch_of(case, 20, max_responses=3 * N_ROWS)
    np.testing.assert_allclose(parts.products, whole.products, atol=1e-14)
    np.testing.assert_allclose(whole.products, case.gram @ whole.directions, atol=1e-13)


def test_threads_change_no_bit() -> None:
    solutions = []
    for n_jobs in (1, 2, 3):
        matrix = DenseMatrix(gaussian(5000, 60).astype(np.float32), n_jobs=n_jobs)
        problem = Problem(matrix, np.arange(5000.0), L2(1e-6))
        solutions.append(
            ConjugateGradient(RandomisedNystrom(), n_jobs=n_jobs).solve(problem).weights
        )
    np.testing.assert_array_equal(solutions[0], solutions[1])
    np.testing.assert_array_equal(solutions[0], solutions[2])


# What it saves.


def iterations(preconditioner: Any, problem: Problem, best: float) -> int:
    """Return the iterations to a gap of 1e-4."""
    solver = ConjugateGradient(preconditioner, tol=0.0, max_iter=2000)
    solution = solver.solve(problem)
    gaps = [entry["objective"] / best - 1.0 for entry in solution.history]
    return next(k for k, gap in enumerate(gaps) if gap <= 1e-4)


def test_a_fifth_of_the_iterations_of_plain_conjugate_gradients() -> None:
    alpha = 1e-7
    rng = np.random.default_rng(3)
    Z = gaussian(600, 200, spread=0.5)
    y = np.sin(4 * Z[:, 0] / Z.std()) + 0.1 * rng.normal(size=600)
    problem = Problem(DenseMatrix(Z), y, L2(alpha))
    exact = np.linalg.solve(Z.T @ Z / 600 + alpha * np.eye(200), Z.T @ y / 600)
    best = problem.value(exact)
    plain = iterations(Identity(), problem, best)
    assert plain > 50
    assert iterations(RandomisedNystrom(), problem, best) <= plain / 5


# Hard cases.


@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_matrix_of_zeros(alpha: float) -> None:
    problem = Problem(DenseMatrix(np.zeros((30, 5))), np.ones(30), L2(alpha))
    solution = ConjugateGradient(RandomisedNystrom()).solve(problem)
    assert solution.status == "converged"
    assert not solution.weights.any()
