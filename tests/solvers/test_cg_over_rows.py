"""Conjugate gradients in the space of rows: the iterates of those in the space of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.stacked import with_ones
from gramless.penalties import L2
from gramless.solvers import cg
from gramless.solvers.cg import (
    ConjugateRuns,
    RowCurvature,
    RowRuns,
    RowSystem,
    SoftmaxCurvature,
    System,
    has_short_row_vectors,
)
from gramless.solvers.objective import Problem
from gramless.solvers.preconditioners import Identity, SampledInverse, SampledRows

from .pairwise import each_value, pairs

N_ROWS, ALPHA = 400, 1e-3


def matrix(has_unseen: bool = False) -> BinnedMatrix:
    codes = np.random.default_rng(0).integers(1 - has_unseen, 61, size=(20, N_ROWS))
    return BinnedMatrix((codes**1.3 / 60**0.3).round().astype(np.uint8), 60 * np.arange(21))


def system_of(kind: str, Z: BinnedMatrix) -> System:
    rng = np.random.default_rng(1)
    n_outputs = 1 if kind == "one output" else 3
    curvature: Any = RowCurvature(rng.random((N_ROWS, n_outputs)) / N_ROWS)
    if kind == "coupled":
        p = rng.dirichlet(np.ones(3), size=N_ROWS)
        curvature = SoftmaxCurvature(np.full(N_ROWS, 1 / N_ROWS), p)
    right = rng.normal(size=(Z.shape[1], n_outputs)) * 10.0 ** np.arange(n_outputs)
    return System(Z, curvature, np.full(Z.shape[1], ALPHA), right)


def sampled(Z: BinnedMatrix, n_rows: int = 50) -> SampledInverse:
    return SampledRows(n_rows).inverse(Problem(Z, np.zeros(N_ROWS), L2(ALPHA)))


def shorter(system: System) -> RowSystem:
    ones = np.ones(system.right.shape[1])
    return RowSystem.of_multiples(system.matrix, system.curvature, L2(ALPHA), system.right, ones)


@pytest.mark.parametrize(
    ("kind", "has_unseen"), each_value(["one output", "three outputs", "coupled"], [False, True])
)
def test_iterates_match_those_over_columns(kind: str, has_unseen: bool) -> None:
    Z = matrix(has_unseen)
    system, inverse = system_of(kind, Z), sampled(Z)
    rows, columns = (
        RowRuns(shorter(system), inverse, 0.0, None),
        ConjugateRuns(system, inverse, 0.0, None),
    )
    for _ in range(12):
        np.testing.assert_allclose(rows.relative, columns.relative, rtol=1e-8)
        rows.step()
        columns.step()
        expected = columns.weights
        scale = np.abs(expected).max()
        np.testing.assert_allclose(rows.weights, expected, rtol=1e-8, atol=1e-10 * scale)


@pytest.mark.parametrize(
    ("n_outputs", "n_free", "has_start"), pairs([1, 3], [0, 1, 2], [False, True])
)
def test_ridge_with_start_and_free_columns_matches_columns(
    n_outputs: int, n_free: int, has_start: bool
) -> None:
    Z: Any = matrix()
    if n_free == 1:
        Z = with_ones(Z)
    rng = np.random.default_rng(2)
    weight, y = rng.random(N_ROWS), rng.normal(size=(N_ROWS, n_outputs)) + 1.0
    problem = Problem(Z, y, L2(ALPHA, n_free), sample_weight=weight)
    start = rng.normal(size=(Z.shape[1], n_outputs)) if has_start else None
    row_weights, ridge = problem.row_weights[:, None], np.full(Z.shape[1], ALPHA)
    ridge[Z.shape[1] - n_free :] = 0.0
    right = Z.rmatvec(row_weights * y)
    inverse = SampledRows(50).inverse(problem)
    rows = RowRuns(RowSystem.from_problem(problem, start), inverse, 0.0, None)
    whole = System(Z, RowCurvature(row_weights), ridge, right)
    columns = ConjugateRuns(whole, inverse, 0.0, None, start)
    at_zero = problem.value(np.zeros_like(right))
    for _ in range(8):
        np.testing.assert_allclose(rows.relative, columns.relative, rtol=1e-7)
        expected = columns.weights
        np.testing.assert_allclose(
            rows.weights, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max()
        )
        assert at_zero - rows.decrease == pytest.approx(problem.value(expected), rel=1e-9)
        rows.step()
        columns.step()


def test_ridge_is_solved_over_rows_without_a_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[RowRuns] = []

    class Watched(RowRuns):
        def __init__(self, *given: Any) -> None:
            made.append(self)
            super().__init__(*given)

    monkeypatch.setattr(cg, "RowRuns", Watched)
    problem = Problem(matrix(), np.random.default_rng(3).normal(size=N_ROWS), L2(ALPHA))
    solver = cg.ConjugateGradient(SampledRows(50), tol=1e-9)
    over_rows = solver.solve(problem)
    assert len(made) == 1
    iterations: list[int] = []
    over_columns = solver.solve(problem, callback=lambda k, w: iterations.append(k))
    assert len(made) == 1
    assert len(iterations) == over_columns.n_iter
    np.testing.assert_allclose(over_rows.weights, over_columns.weights, rtol=1e-6, atol=1e-9)
    assert problem.kkt_residual(over_rows.weights) < 1e-9


def test_outputs_that_need_no_step_stay_zero() -> None:
    Z = matrix()
    whole = system_of("three outputs", Z)
    right = whole.right * [0.0, 1.0, 0.0]
    runs = RowRuns(shorter(System(Z, whole.curvature, whole.ridge, right)), sampled(Z), 1e-6, None)
    while not runs.converged():
        runs.step()
    assert runs.active.size == 0
    assert not runs.weights[:, [0, 2]].any()
    assert runs.weights[:, 1].any()


def test_row_vectors_are_used_only_if_shorter() -> None:
    Z = matrix()
    assert has_short_row_vectors(sampled(Z), Z)
    assert not has_short_row_vectors(sampled(Z, N_ROWS), Z), (
        "a complete sample cancels too many digits"
    )
    assert not has_short_row_vectors(Identity().inverse(Problem(Z, np.zeros(N_ROWS), L2(ALPHA))), Z)
    narrow = BinnedMatrix(np.ones((2, N_ROWS), np.uint8), np.arange(3))
    assert not has_short_row_vectors(sampled(narrow), narrow)
