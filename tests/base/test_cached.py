"""Cached properties: computed once, by several threads without waiting for each other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from gramless.base.threads import cached_property


class Meeting:
    """Its value is known once two threads are computing one each."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self.barrier = barrier
        self.n_computed = 0

    @cached_property
    def value(self) -> int:
        """Wait for the other."""
        self.n_computed += 1
        return self.barrier.wait()


def test_instances_compute_concurrently() -> None:
    barrier = threading.Barrier(2, timeout=20)
    with ThreadPoolExecutor(2) as pool:
        result = list(pool.map(lambda each: each.value, [Meeting(barrier), Meeting(barrier)]))
    assert sorted(result) == [0, 1]


def test_value_is_computed_once() -> None:
    meeting = Meeting(threading.Barrier(1))
    assert meeting.value == meeting.value == 0
    assert meeting.n_computed == 1


def test_concurrent_readers_get_one_value() -> None:
    meeting = Meeting(threading.Barrier(2, timeout=20))
    with ThreadPoolExecutor(2) as pool:
        result = list(pool.map(lambda _: meeting.value, range(2)))
    assert result[0] == result[1] == meeting.value


def test_class_shows_the_property() -> None:
    assert isinstance(Meeting.value, cached_property)
    assert Meeting.value.__doc__ == "Wait for the other."
