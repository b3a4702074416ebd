"""Working sets: their columns, the minimum they reach, and threads."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from gramless.base import threads
from gramless.base.random import stream
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.codes import TaskSizes
from gramless.matrices.stacked import HStack, with_ones
from gramless.penalties import L1, L2, ElasticNet, Penalty
from gramless.solvers import working_set
from gramless.solvers.working_set import BinDescent, Move, Task

from .pairwise import each_value, pairs

Array = NDArray[np.float64]

N_ROWS, N_COLUMNS = 60, 21
PENALTIES: dict[str, Penalty] = {
    "l2": L2(0.02, n_free=1),
    "l1": L1(0.01, n_free=1),
    "net": ElasticNet(0.02, 0.5, n_free=1),
}
CHOSEN = {
    "all columns": tuple(range(N_COLUMNS)),
    "some columns": (1, 3, 8, 13, 14, 20),
    "one grid": (6, 7, 9),
    "the ones": (20,),
}

equal_curvatures = pytest.mark.parametrize("equal_curvatures", [True, False])


@pytest.fixture(autouse=True)
def many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let several parts take three threads on any machine."""
    monkeypatch.setattr(threads, "available_cpus", lambda: 4)


@dataclass(frozen=True)
class Case:
    """A task over a matrix, and its dense reference."""

    matrix: HStack
    dense: Array
    task: Task

    def value(self, weights: Array) -> float:
        """Return the model and its penalty."""
        change = self.dense[:, self.task.columns] @ (weights - self.task.weights)
        whole = np.zeros(N_COLUMNS)
        whole[self.task.columns] = weights
        quadratic = self.task.slopes @ change + 0.5 * self.task.curvatures @ change**2
        return float(quadratic) + self.task.penalty.value(whole)

    def distance(self, weights: Array) -> float:
        """Return how far a chosen weight is from optimal."""
        change = self.dense[:, self.task.columns] @ (weights - self.task.weights)
        whole = np.zeros(N_COLUMNS)
        whole[self.task.columns] = weights
        gradient = self.dense.T @ (self.task.slopes + self.task.curvatures * change)
        return float(self.task.penalty.distance(whole, gradient)[self.task.columns].max())


def make_case(penalty: Penalty, chosen: tuple[int, ...], *, equal_curvatures: bool) -> Case:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, (4, N_ROWS)).astype(np.uint8)
    binned = BinnedMatrix(codes, 5 * np.arange(5), tasks=TaskSizes(part_rows=20))
    dense = np.column_stack([binned.toarray(), np.ones(N_ROWS)])
    curvatures = (
        np.full(N_ROWS, 1 / N_ROWS) if equal_curvatures else rng.gamma(1.0, size=N_ROWS) / N_ROWS
    )
    slopes = rng.normal(size=N_ROWS) / N_ROWS
    before = np.where(rng.random(len(chosen)) < 0.5, rng.normal(size=len(chosen)), 0.0)
    task = Task(
        output=0,
        columns=np.array(chosen),
        weights=before,
        slopes=slopes,
        curvatures=curvatures,
        gradient=dense.T @ slopes,
        penalty=penalty,
        n_penalised=N_COLUMNS - 1,
        tols=(1e-10, 1e-10),
        max_sweeps=5000,
        orders=stream(0, "orders of a test", 0),
    )
    return Case(with_ones(binned), dense, task)


def descended(case: Case, n_jobs: int | None = 1, worth: int = 0, **changes: Any) -> Move:
    task = replace(case.task, orders=stream(0, "orders of a test", 0), **changes)
    return BinDescent(case.matrix.row_lists, n_jobs).descend(task, worth_threads=worth)


def test_columns_are_grouped_by_their_grids() -> None:
    case = make_case(L1(0.1, n_free=1), (0, 4, 10, 11, 19, 20), equal_curvatures=True)
    grid, grids, starts = BinDescent(case.matrix.row_lists, 1).group_by_grid(case.task.columns)
    assert grid.tolist() == [0, 0, 2, 2, 3, 4]
    assert grids.tolist() == [0, 2, 3, 4]
    assert starts.tolist() == [0, 2, 4, 5, 6]


@pytest.mark.parametrize(
    ("penalty", "chosen", "equal_curvatures"),
    pairs(PENALTIES.values(), CHOSEN.values(), [True, False]),
)
def test_descent_reaches_the_minimum_of_the_model(
    penalty: Penalty, chosen: tuple[int, ...], equal_curvatures: bool
) -> None:
    case = make_case(penalty, chosen, equal_curvatures=equal_curvatures)
    slopes, before = case.task.slopes.copy(), case.task.weights.copy()
    result = descended(case)
    assert case.distance(result.after) < 1e-8
    assert case.value(result.after) <= case.value(before)
    np.testing.assert_array_equal(case.task.slopes, slopes)
    np.testing.assert_array_equal(result.before, before)
    np.testing.assert_array_equal(result.step, result.after - before)
    assert 1 <= result.sweeps < 5000
    if penalty.l1 == 0.0:
        best = minimize(case.value, before, method="BFGS", tol=1e-9)
        assert case.value(result.after) <= best.fun + 1e-9


@pytest.mark.parametrize(("chosen", "equal_curvatures"), each_value(CHOSEN.values(), [True, False]))
def test_responses_follow_the_weights(chosen: tuple[int, ...], equal_curvatures: bool) -> None:
    case = make_case(PENALTIES["net"], chosen, equal_curvatures=equal_curvatures)
    result = descended(case)
    for n_jobs in (1, 3):
        out = np.ones((1, N_ROWS))
        BinDescent(case.matrix.row_lists, n_jobs).add_responses([result], out)
        expected = 1.0 + case.dense[:, chosen] @ result.step
        np.testing.assert_allclose(out[0], expected, rtol=1e-12, atol=1e-13)


@equal_curvatures
def test_sweeps_stop_at_tolerance_or_limit(equal_curvatures: bool) -> None:
    case = make_case(PENALTIES["l1"], CHOSEN["all columns"], equal_curvatures=equal_curvatures)
    assert descended(case, tols=(np.inf, np.inf)).sweeps == 1
    assert descended(case, tols=(0.0, 0.0), max_sweeps=3).sweeps == 3
    loose, tight = (descended(case, tols=(t, t)) for t in (1e-3, 1e-8))
    assert 1 <= loose.sweeps < tight.sweeps
    assert case.value(tight.after) < case.value(loose.after)
    nothing = descended(case, max_sweeps=0)
    assert nothing.sweeps == 0
    np.testing.assert_array_equal(nothing.after, case.task.weights)


def test_small_sets_take_more_sweeps() -> None:
    """Until they have cost as much as a gradient of all columns: of 5 grids, there and back."""
    case = make_case(PENALTIES["l1"], (7,), equal_curvatures=True)
    n_rows = int((case.dense[:, 7] != 0.0).sum())
    least = 5 * N_ROWS // (2 * n_rows)
    assert descended(case, tols=(np.inf, -1.0)).sweeps in (least, least + 1)
    assert descended(case, tols=(-1.0, np.inf)).sweeps == 1


def test_zero_weight_rows_do_not_change_the_result() -> None:
    """All rows of some bins may weigh nothing: without a penalty such weights are anything."""
    case = make_case(L2(0.0, n_free=1), CHOSEN["all columns"], equal_curvatures=False)
    weightless = case.dense[:, 2] != 0.0
    slopes, curvatures = case.task.slopes.copy(), case.task.curvatures.copy()
    slopes[weightless] = curvatures[weightless] = 0.0
    case = replace(case, task=replace(case.task, slopes=slopes, curvatures=curvatures))
    result = descended(case)
    assert np.isfinite(result.after).all()
    assert case.distance(result.after) < 1e-8


@pytest.mark.parametrize(
    ("penalty", "equal_curvatures"), each_value(PENALTIES.values(), [True, False])
)
def test_number_of_threads_does_not_change_the_result(
    penalty: Penalty, equal_curvatures: bool
) -> None:
    case = make_case(penalty, CHOSEN["all columns"], equal_curvatures=equal_curvatures)
    expected = descended(case, n_jobs=1)
    for n_jobs in (2, 3, 2, 3, None):
        result = descended(case, n_jobs=n_jobs)
        assert result.after.tobytes() == expected.after.tobytes()
        assert result.sweeps == expected.sweeps


@pytest.mark.parametrize("n_jobs", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_descent_does_not_wait_for_a_busy_pool(n_jobs: int) -> None:
    """Nobody waits for threads that never start."""
    case = make_case(PENALTIES["net"], CHOSEN["all columns"], equal_curvatures=False)
    expected = descended(case, n_jobs=1)
    pool = threads._pool(n_jobs - 1)
    sleeping = [pool.submit(time.sleep, 0.5) for _ in range(n_jobs - 1)]
    result = descended(case, n_jobs=n_jobs)
    assert not any(each.done() for each in sleeping)
    assert result.after.tobytes() == expected.after.tobytes()
    for each in sleeping:
        each.result(timeout=20)


@pytest.mark.parametrize(
    ("n_jobs", "worth", "expected"), [(1, 0, 1), (2, 0, 2), (9, 0, 4), (9, 10**6, 1)]
)
def test_small_sets_and_few_parts_use_few_threads(
    n_jobs: int, worth: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []

    def alone(function: Any, n_threads: int) -> None:
        used.append(n_threads)
        function(0, 1)

    monkeypatch.setattr(working_set, "run_together", alone)
    case = make_case(PENALTIES["net"], CHOSEN["all columns"], equal_curvatures=True)
    descended(case, n_jobs=n_jobs, worth=worth)
    assert used == [expected]
