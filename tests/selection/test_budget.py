"""Budgets of time and memory, and where grids are grown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from gramless.base.errors import InputError
from gramless.base.memory import VARIABLE, limit_fit_memory
from gramless.base.progress import Deadline, Progress, Reporter
from gramless.matrices.codes import bytes_of_grid
from gramless.selection.budget import (
    MAX_COLUMNS,
    MIN_ROWS,
    MIN_ROWS_OF_CLASSES,
    Budget,
    Cost,
    can_grow,
    check_table,
    rows_in_time,
    sampled_rows,
)
from gramless.selection.config import SearchConfig
from gramless.solvers.objective import BYTES_PER_WEIGHT

from .tasks import make_task


def budget_of(
    seconds: float | None = None, n_rows: int = 1000, **more: int
) -> tuple[Budget, list[Progress]]:
    reports: list[Progress] = []
    reporter = Reporter(callbacks=reports.append)
    return Budget((n_rows, 10), Deadline(seconds), reporter, **more), reports


def test_time_limits_are_recorded_and_reported_once() -> None:
    budget, reports = budget_of(1e-9)
    assert not budget.has_time(0.5, "growth")
    assert not budget.has_time(0.5, "growth")
    assert not budget.has_time(0.5, "the trial of smooth kernels")
    expected = ["time: growth was cut short", "time: the trial of smooth kernels was cut short"]
    assert budget.limits == expected
    assert [(progress.stage, progress.message) for progress in reports] == [
        ("limit", line) for line in expected
    ]


def test_steps_longer_than_their_share_are_skipped() -> None:
    budget, _ = budget_of(1e9)
    assert budget.has_time(0.5, "growth", 1e8)
    assert not budget.has_time(0.5, "growth", 6e8)
    assert budget.limits == ["time: growth was cut short"]
    assert budget_of()[0].has_time(0.0, "growth", 1e300)


def test_time_limits_the_number_of_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1e16")
    results = []
    for n_rows, n_outputs, cost in [
        (10**4, 1, 1.0),
        (10**5, 1, 1.0),
        (10**5, 10, 1.0),
        (10**5, 10, 4.0),
        (10**9, 1000, 1.0),
    ]:
        budget, _ = budget_of(2.0, n_rows, n_outputs=n_outputs)
        results.append(budget.affordable(640, cost))
        assert budget.limits == [f"time: at most {results[-1]} grids"] * (results[-1] < 640)
    assert results == sorted(results, reverse=True)
    assert (results[0], results[-1]) == (640, 16)
    assert budget_of(None, 10**6, n_outputs=10**4)[0].affordable(640) == 640


def test_omitted_rows_are_reported() -> None:
    budget, reports = budget_of(2.0, n_given=5000)
    assert budget.limits == ["time: 1000 of 5000 rows"]
    assert len(reports) == 1
    assert budget_of(2.0, n_given=1000)[0].limits == []


def test_growth_uses_fewer_rows_for_many_outputs() -> None:
    plain = SearchConfig()
    assert budget_of(None, n_outputs=200)[0].within(plain) is plain
    assert budget_of(2.0)[0].within(plain) == plain
    many = budget_of(2.0, n_outputs=200)[0].within(plain)
    more = budget_of(4.0, n_outputs=200)[0].within(plain)
    assert many.growth_rows < more.growth_rows < plain.growth_rows
    assert many.validation_rows < many.growth_rows
    assert budget_of(1e-3, n_outputs=10**4)[0].within(plain).growth_rows == 500


def test_calibration_uses_fewer_rows_for_many_outputs() -> None:
    rows = np.arange(20_000)
    assert len(rows[budget_of(None, n_outputs=200)[0].calibration_rows(len(rows))]) == len(rows)
    assert len(rows[budget_of(2.0)[0].calibration_rows(len(rows))]) == len(rows)
    chosen = rows[budget_of(2.0, n_outputs=100)[0].calibration_rows(len(rows))]
    assert 500 <= len(chosen) <= 1000
    assert len(set(np.diff(chosen))) == 1


def test_time_limits_the_number_of_rows() -> None:
    rows = np.zeros((50_000, 4))
    results = [rows_in_time(rows, k, 2.0) for k in (1, 10, 100, 10**6)]
    assert results == sorted(results, reverse=True)
    assert (results[0], results[-1]) == (50_000, 500)
    assert rows_in_time(rows, 100, 1.0) == results[2] // 2
    assert rows_in_time(rows, 10**6, None) == 50_000
    # Zeros of sparse rows take no time.
    wide = sp.csr_array(sp.random(600, 100_000, density=1e-5, random_state=0))
    assert rows_in_time(wide, 1, 1.0) == 600
    assert rows_in_time(np.broadcast_to(0.0, wide.shape), 1, 1e-2) == 500


def test_memory_limits_the_number_of_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    each = 2 * 1000 + bytes_of_grid(1000, 10)
    monkeypatch.setenv(VARIABLE, str(12 * each + 5))
    budget, reports = budget_of()
    assert budget.affordable(12) == 12
    assert reports == []
    assert budget.affordable(48) == 12
    assert budget.limits == ["memory: 12 grids instead of 48"]
    assert len(reports) == 1
    monkeypatch.setenv(VARIABLE, "1")
    assert budget.affordable(48) == 1


def test_tables_beyond_the_memory_limit_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    check_table(np.zeros((30_000, 2)))
    with limit_fit_memory(2 * 10**6):
        check_table(np.zeros((20_000, 2)))
        with pytest.raises(InputError, match="A fit of 30,000 rows would need 1.44 MB"):
            check_table(np.zeros((30_000, 2)))
    monkeypatch.setenv(VARIABLE, "2e6")
    with limit_fit_memory(None):
        check_table(np.zeros((20_000, 2)))
        with pytest.raises(InputError, match=f"1.44 MB .* half of {VARIABLE}.* at least 2.89 MB"):
            check_table(np.zeros((30_000, 2)))


def test_only_a_memory_limit_reduces_the_rows_of_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    budget, reports = budget_of(n_rows=10**6)
    assert budget.rows_to_search(96) == 10**6
    with limit_fit_memory(30 * 10**6):
        assert budget.rows_to_search(96) == budget.most_columns() // 96
        assert budget_of(n_rows=800)[0].rows_to_search(96) == 800
    assert len(reports) == 1
    assert budget.limits == ["memory: settings searched on at most 1662 rows"]
    with limit_fit_memory(2000):
        assert budget.rows_to_search(96) == 500


def test_memory_limits_columns_times_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1e8")
    budget, reports = budget_of(n_outputs=100)
    most = budget.most_columns()
    assert most == (10**8 - 80 * 1000 * 100) // (BYTES_PER_WEIGHT * 100 + 48)
    assert budget.fits(most)
    assert reports == []
    assert not budget.fits(most + 1)
    assert not budget.fits(most + 2)
    assert budget.limits == ["memory: fewer grids, so that the weights of 100 outputs fit"]
    assert budget_of(n_outputs=1)[0].most_columns() > 50 * most
    with pytest.raises(InputError, match="10,000 outputs of 1,000 rows .* fit fewer rows"):
        budget_of(n_outputs=10_000)[0].most_columns()


def test_codes_on_disk_do_not_limit_grids() -> None:
    with limit_fit_memory(60_000_000):
        budget, _ = budget_of(n_rows=10**6)
        assert budget.affordable(640) == 640
        assert budget.has_memory(10**6, "a trial")
        assert not budget.has_memory(10**8, "a trial")
    assert budget.limits == ["memory: a trial was left out"]


def test_grids_are_grown_for_enough_dense_rows_and_few_columns() -> None:
    for n_rows, n_inputs, n_outputs, of_classes, grows in [
        (MIN_ROWS, 1, 1, False, True),
        (MIN_ROWS - 1, 1, 1, False, False),
        (MIN_ROWS, MAX_COLUMNS, 2, False, True),
        (MIN_ROWS, MAX_COLUMNS + 1, 1, False, False),
        (MIN_ROWS, 1, 3, False, False),
        (MIN_ROWS_OF_CLASSES, 1, 1, True, True),
        (MIN_ROWS_OF_CLASSES - 1, 1, 1, True, False),
        (MIN_ROWS_OF_CLASSES, 1, 13, True, False),
        (65, 1, 13, True, True),
    ]:
        data = make_task(np.zeros((n_rows, n_inputs)), np.zeros((n_rows, n_outputs))).data
        assert can_grow(data, of_classes) == grows
        assert not can_grow(replace(data, rows=sp.csr_array(data.rows)), of_classes)


def test_time_budget_limits_the_rows_of_a_search() -> None:
    assert sampled_rows(8000, 1, 2.0) == 8000
    assert 500 == sampled_rows(8000, 200, 2.0) < sampled_rows(8000, 200, 20.0) < 8000


def test_memory_limits_the_rows_of_growth() -> None:
    plain = SearchConfig()
    with limit_fit_memory(60_000_000):
        budget, _ = budget_of(n_rows=50_000, n_outputs=5)
        config = budget.within(plain)
    of_row = 10 * 48 + 2 * plain.most_grids + 5 * 48
    assert 0.9 * 30e6 < (config.growth_rows + config.validation_rows) * of_row <= 30e6
    assert budget.limits == [f"memory: grids grown on {config.growth_rows} rows"]


def test_dense_trials_need_memory_for_copied_rows() -> None:
    with limit_fit_memory(60_000_000):
        budget, _ = budget_of(n_rows=50_000)
        small, large = (budget.cost_of_dense_features(10**6, width) for width in (20, 40))
        assert budget.allows("the first trial", small, np.inf)
        assert not budget.allows("the second trial", large, np.inf)
    assert budget.limits == ["memory: the second trial was left out"]


def test_trials_must_fit_their_share_of_the_time() -> None:
    budget, _ = budget_of(1e9)
    cost = Cost(seconds=6e8)
    assert budget.allows("a trial", cost, 0.7)
    assert not budget.allows("a trial", cost, 0.5)
    assert budget.limits == ["time: a trial was cut short"]
