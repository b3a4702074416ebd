"""Budgets of time, on a clock that the tests turn."""

from __future__ import annotations

import time

import numpy as np
import pytest

from gramless.base import progress as clocks
from gramless.base.progress import Deadline, Watch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time, one entry that may be set."""
    now = [100.0]
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: now[0])
    return now


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_shares_count_from_the_start(clock: list[float], share: float) -> None:
    deadline = Deadline(8.0, started=clock[0])
    assert not deadline.is_past(share)
    clock[0] = 100.0 + 8.0 * share
    assert not deadline.is_past(share)
    clock[0] += 0.001
    assert deadline.is_past(share)
    assert not Deadline(8.0, started=clock[0]).is_past(share)


def test_left_returns_the_rest_of_a_share(clock: list[float]) -> None:
    deadline = Deadline(8.0, started=clock[0])
    clock[0] += 1.0
    assert deadline.seconds_left(0.5) == 3.0
    assert deadline.seconds_left(0.0) == -1.0
    assert Deadline().seconds_left(0.5) == np.inf


def test_deadline_starts_when_created() -> None:
    before = time.perf_counter()
    started = Deadline(1.0).started
    assert before <= started <= time.perf_counter()


def test_watch_checks_few_iterations() -> None:
    check = Watch(lambda iteration: iteration == 9, lambda weights: weights > 5, first=4)
    assert [i for i in range(1, 40) if check.needs_weights(i)] == [4, 8, 16, 32]
    assert [i for i in range(1, 12) if check(i, 6)] == [4, 8, 9]
    assert not check(8, 5)
