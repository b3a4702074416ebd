"""Conjugate gradients in the space of rows: the iterates of those in the space of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L2
from gramless.solvers.conjugate import ConjugateRuns, RowCurvature, SoftmaxCurvature, System
from gramless.solvers.objective import Problem
from gramless.solvers.preconditioners import Identity, SampledInverse, SampledRows
from gramless.solvers.row_runs import RowRuns, fit_for_rows

N_ROWS, ALPHA = 400, 1e-3
Array = NDArray[np.float64]


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


every_kind = pytest.mark.parametrize("kind", ["one output", "three outputs", "coupled"])


@every_kind
@pytest.mark.parametrize("has_unseen", [False, True])
def test_iterates_are_those_over_the_columns(kind: str, has_unseen: bool) -> None:
    Z = matrix(has_unseen)
    system, inverse = system_of(kind, Z), sampled(Z)
    rows, columns = (
        RowRuns(system, inverse, 0.0, None),
        ConjugateRuns(system, inverse, 0.0, None),
    )
    for _ in range(12):
        np.testing.assert_allclose(rows.relative, columns.relative, rtol=1e-8)
        rows.step()
        columns.step()
        expected = columns.result()
        scale = np.abs(expected).max()
        np.testing.assert_allclose(rows.result(), expected, rtol=1e-8, atol=1e-10 * scale)


@every_kind
def test_the_end_solves_the_system(kind: str) -> None:
    Z = matrix()
    system = system_of(kind, Z)
    runs = RowRuns(system, sampled(Z), 1e-9, None)
    steps = 0
    while not runs.drop_converged():
        runs.step()
        steps += 1
        assert steps < 200
    found = runs.result()
    left = system.times(found, np.arange(found.shape[1])) + ALPHA * found - system.right
    assert (np.abs(left).max(axis=0) < 1e-6 * np.abs(system.right).max(axis=0)).all()


def test_outputs_that_need_no_step_stay_zero() -> None:
    Z = matrix()
    whole = system_of("three outputs", Z)
    right = whole.right * [0.0, 1.0, 0.0]
    runs = RowRuns(System(Z, whole.curvature, whole.ridge, right), sampled(Z), 1e-6, None)
    while not runs.drop_converged():
        runs.step()
    assert runs.active.size == 0
    assert not runs.result()[:, [0, 2]].any()
    assert runs.result()[:, 1].any()


def test_where_it_pays() -> None:
    Z = matrix()
    assert fit_for_rows(sampled(Z), Z)
    assert not fit_for_rows(sampled(Z, N_ROWS), Z), "a complete sample cancels too many digits"
    assert not fit_for_rows(Identity().inverse(Problem(Z, np.zeros(N_ROWS), L2(ALPHA))), Z)
    narrow = BinnedMatrix(np.ones((2, N_ROWS), np.uint8), np.arange(3))
    assert not fit_for_rows(sampled(narrow), narrow)
