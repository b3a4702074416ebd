"""Atomic numbers: the same as plain ones in one thread, and none lost between threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

from gramless.loops import atomics
from gramless.loops.compile import loop
from tests.solvers.pairwise import each_value

N_THREADS, N_CALLS = 4, 50_000


@loop
def add_many(array, index, value, n_calls):
    for _ in range(n_calls):
        atomics.add(array, index, value)


@loop
def fetch_many(counter, index, n_calls, fetched):
    for k in range(n_calls):
        fetched[k] = atomics.fetch_add(counter, index, 1)


@loop
def fetch_once(counter, index, value):
    return atomics.fetch_add(counter, index, value)


@loop
def load_once(array, index):
    return atomics.load(array, index)


@loop
def store_once(array, index, value):
    atomics.store(array, index, value)


@loop
def send(flag, box, n_messages):
    for message in range(1, n_messages + 1):
        while atomics.load(flag, 0) != 0:
            atomics.pause()
        box[0] = message
        box[1] = -message
        atomics.store(flag, 0, 1)


@loop
def receive(flag, box, n_messages, got):
    for k in range(n_messages):
        while atomics.load(flag, 0) != 1:
            atomics.pause()
        got[k, 0] = box[0]
        got[k, 1] = box[1]
        atomics.store(flag, 0, 0)


@loop
def meet(arrived, n_threads, n_rounds, rounds, thread, behind):
    for k in range(1, n_rounds + 1):
        rounds[thread] = k
        if atomics.fetch_add(arrived, 0, 1) + 1 < k * n_threads:
            while atomics.load(arrived, 0) < k * n_threads:
                atomics.pause()
        for other in range(n_threads):
            behind[thread] += rounds[other] < k


def in_threads(*calls):
    with ThreadPoolExecutor(len(calls)) as pool:
        ready = threading.Barrier(len(calls))
        started = [pool.submit(lambda f, a: (ready.wait(), f(*a)), f, a) for f, *a in calls]
        for each in started:
            each.result()


@pytest.mark.parametrize(
    ("value", "index"),
    each_value([1, np.int8(1), np.float32(1.0), 1.0], [2, np.uint8(2), np.int32(2), np.uint64(2)]),
)
def test_additions_accept_other_value_and_index_types(value, index):
    array = np.zeros(4)
    add_many(array, index, value, 3)
    np.testing.assert_array_equal(array, [0.0, 0.0, 3.0, 0.0])


def test_no_addition_is_lost():
    array = np.zeros(3)
    in_threads(*[(add_many, array, 1, k + 1.0, N_CALLS) for k in range(N_THREADS)])
    np.testing.assert_array_equal(array, [0.0, N_CALLS * N_THREADS * (N_THREADS + 1) / 2, 0.0])


def test_fetch_add_returns_the_old_value():
    counter = np.array([7, 40], np.int64)
    assert fetch_once(counter, 1, 2) == 40
    assert fetch_once(counter, 1, -5) == 42
    np.testing.assert_array_equal(counter, [7, 37])


def test_fetch_add_gives_each_number_once():
    counter = np.zeros(1, np.int64)
    fetched = np.empty((N_THREADS, N_CALLS), np.int64)
    in_threads(*[(fetch_many, counter, 0, N_CALLS, thread) for thread in fetched])
    np.testing.assert_array_equal(np.sort(fetched.ravel()), np.arange(fetched.size))
    assert counter[0] == fetched.size
    assert (np.diff(fetched) > 0).all()


@pytest.mark.parametrize("array", [np.arange(3), np.arange(3.0)])
def test_load_and_store_access_one_number(array):
    assert load_once(array, 2) == 2
    store_once(array, 1, -9)
    np.testing.assert_array_equal(array, [0, -9, 2])
    array.flags.writeable = False
    assert load_once(array, 1) == -9


def test_writes_before_a_release_are_visible_after_an_acquire():
    n_messages = 500
    flag, box = np.zeros(1, np.int64), np.zeros(2, np.int64)
    got = np.empty((n_messages, 2), np.int64)
    in_threads((send, flag, box, n_messages), (receive, flag, box, n_messages, got))
    sent = np.arange(1, n_messages + 1)
    np.testing.assert_array_equal(got, np.column_stack([sent, -sent]))


def test_threads_meet_at_a_barrier():
    n_threads, n_rounds = 2, 500
    arrived, rounds = np.zeros(1, np.int64), np.zeros(n_threads, np.int64)
    behind = np.zeros(n_threads, np.int64)
    calls = [(meet, arrived, n_threads, n_rounds, rounds, k, behind) for k in range(n_threads)]
    in_threads(*calls)
    assert arrived[0] == n_threads * n_rounds
    assert not behind.any()


def test_other_arrays_and_indices_are_rejected():
    for array, problem in (
        (np.zeros(3, np.float32), "float64"),
        (np.zeros(3, np.int64), "float64"),
        (np.zeros((3, 3)), "flat"),
        (np.zeros(6)[::2], "flat"),
        (np.frombuffer(bytes(24)), "written"),
    ):
        with pytest.raises(TypingError, match=problem):
            add_many(array, 0, 1.0, 1)
    with pytest.raises(TypingError, match="whole"):
        add_many(np.zeros(3), 1.0, 1.0, 1)


SCRIPT = """
import numpy as np
from gramless.loops import atomics
from gramless.loops.compile import loop

@loop
def total(counter, sums):
    before = atomics.fetch_add(counter, 0, 2)
    atomics.store(counter, 0, before + 5)
    atomics.pause()
    atomics.add(sums, 1, 0.5)
    return atomics.load(counter, 0) + atomics.load(sums, 1)

print(total(np.zeros(1, np.int64), np.zeros(2)), sum(total.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_loops_are_cached(tmp_path: Path):
    script = tmp_path / "cached.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(script)]
    printed = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert [line.split() for line in printed] == [["5.5", "0"], ["5.5", "1"]]
