"""Budgets of time and memory, and where grids are grown."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gramless.base.deadline import Deadline
from gramless.base.memory import VARIABLE
from gramless.base.reporting import Progress, Reporter
from gramless.features.grids import bytes_of_grid
from gramless.model_selection.budget import (
    LEAST_ROWS,
    MOST_COLUMNS,
    Budget,
    affordable_grids,
    can_grow,
    most_drawn,
    sampled_rows,
    worth_growing,
)
from gramless.model_selection.data import Data


def budget_of(seconds: float | None = None) -> tuple[Budget, list[Progress]]:
    told: list[Progress] = []
    reporter = Reporter(callback=told.append)
    return Budget((1000, 10), Deadline(seconds), reporter), told


def test_time_that_is_left_limits_nothing() -> None:
    for seconds in (None, 1e9):
        budget, told = budget_of(seconds)
        assert budget.has_time(0.0001, "growth")
        assert budget.limits == []
        assert told == []


def test_what_time_cut_short_is_remembered_and_reported_once() -> None:
    budget, told = budget_of(1e-9)
    assert not budget.has_time(0.5, "growth")
    assert not budget.has_time(0.5, "growth")
    assert not budget.has_time(0.5, "the trial of smooth kernels")
    expected = ["time: growth was cut short", "time: the trial of smooth kernels was cut short"]
    assert budget.limits == expected
    assert [(progress.stage, progress.message) for progress in told] == [
        ("limit", line) for line in expected
    ]


def test_memory_limits_the_number_of_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    each = 2 * 1000 + bytes_of_grid(1000, 10)
    monkeypatch.setenv(VARIABLE, str(12 * each + 5))
    budget, told = budget_of()
    assert budget.affordable(12) == 12
    assert told == []
    assert budget.affordable(48) == 12
    assert budget.limits == ["memory: 12 grids instead of 48"]
    assert len(told) == 1
    monkeypatch.setenv(VARIABLE, "1")
    assert budget.affordable(48) == 1


@pytest.mark.parametrize("n_rows", [1, 1000, 10**6])
def test_affordable_grids_fit(n_rows: int) -> None:
    each = 2 * n_rows + bytes_of_grid(n_rows, 7)
    assert affordable_grids(n_rows, 7, 5 * each) == 5
    assert affordable_grids(n_rows, 7, 5 * each - 1) == 4
    assert affordable_grids(n_rows, 7, 0) == 1


@pytest.mark.parametrize(
    ("n_rows", "n_inputs", "n_outputs", "grows"),
    [
        (LEAST_ROWS, 1, 1, True),
        (LEAST_ROWS - 1, 1, 1, False),
        (LEAST_ROWS, MOST_COLUMNS, 5, True),
        (LEAST_ROWS, MOST_COLUMNS + 1, 1, False),
        (LEAST_ROWS, 1, 11, False),
        (330, 1, 11, True),
    ],
)
def test_where_grids_are_grown(n_rows: int, n_inputs: int, n_outputs: int, grows: bool) -> None:
    rows, targets = np.zeros((n_rows, n_inputs)), np.zeros((n_rows, n_outputs))
    assert can_grow(Data(rows, targets, None, lambda z, y, weight: 0.0, True)) == grows
    sparse = Data(sp.csr_array(rows), targets, None, lambda z, y, weight: 0.0, True)
    assert not can_grow(sparse)


def test_many_rows_and_outputs_are_worth_fewer_grids() -> None:
    assert worth_growing(1000, 1, 50) == 50
    found = [worth_growing(n, k, 640) for n in (10**4, 10**6, 10**8) for k in (1, 10)]
    assert found == sorted(found, reverse=True)
    assert found[0] == 640
    assert found[-1] == 192
    assert worth_growing(10**8, 10, 100) == 100


def test_wide_tables_and_many_outputs_take_less() -> None:
    assert most_drawn(10) > most_drawn(10_000) > most_drawn(10**9) == 16
    assert [sampled_rows(8000, k) for k in (1, 100, 10**9)] == [8000, 8000, 500]
