"""The thread pool: order, errors, nesting, several callers and forks."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - its BLAS is there before any is counted
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from gramless.base import threads
from gramless.base.errors import InputError
from gramless.base.threads import (
    available_cpus,
    map_blocks,
    one_blas_thread,
    one_openmp_thread,
    row_blocks,
    run_serially,
    run_together,
    thread_count,
)

CHILD_SECONDS = 30

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def square(value: int) -> int:
    return value * value


def squares(n: int, n_jobs: int | None = 3) -> list[int]:
    return map_blocks(square, [(i,) for i in range(n)], n_jobs)


def exit_status_of_child(work: Callable[[], bool], seconds: int = CHILD_SECONDS) -> int:
    """Fork, run ``work`` in the child, and return how the child ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            status = 0 if work() else 2
        finally:
            # Never return into pytest: the parent goes on with the session.
            os._exit(status)
    return os.waitpid(child, 0)[1]


def test_results_come_in_order() -> None:
    for n_jobs in (None, 1, 2, 5, -1, -2):
        for n_blocks in (0, 1, 2, 100):
            assert squares(n_blocks, n_jobs) == [i * i for i in range(n_blocks)]
    assert map_blocks(pow, ((2, i) for i in range(5)), 2) == [1, 2, 4, 8, 16]


def test_blocks_run_at_the_same_time() -> None:
    barrier = threading.Barrier(3, timeout=20)
    assert sorted(map_blocks(barrier.wait, [(), (), ()], 3)) == [0, 1, 2]


@pytest.mark.parametrize(("n_jobs", "bad"), [(1, 7), (2, 0), (4, 19)])
def test_error_reaches_the_caller(n_jobs: int, bad: int) -> None:
    def fail_at(i: int) -> int:
        if i == bad:
            raise ZeroDivisionError(f"block {i}")
        return i

    with pytest.raises(ZeroDivisionError, match=f"block {bad}"):
        map_blocks(fail_at, [(i,) for i in range(20)], n_jobs)


def test_nested_calls_finish() -> None:
    def total(n: int) -> int:
        return sum(squares(n))

    expected = [sum(i * i for i in range(n)) for n in range(30)]
    assert map_blocks(total, [(n,) for n in range(30)], 3) == expected


def test_concurrent_calls_return_their_results() -> None:
    with ThreadPoolExecutor(4) as callers:
        futures = [callers.submit(squares, 50, n_jobs) for n_jobs in (2, 2, 3, 3) * 10]
        results = [future.result(timeout=30) for future in futures]
    assert all(result == [i * i for i in range(50)] for result in results)


@pytest.fixture
def busy_pool() -> Iterator[None]:
    """Keep the only helper of calls in two threads busy."""
    begun, leave = threading.Event(), threading.Event()

    def stay() -> None:
        begun.set()
        leave.wait(timeout=CHILD_SECONDS)

    sleeping = threads._pool(1).submit(stay)
    assert begun.wait(timeout=20)
    yield
    leave.set()
    sleeping.result(timeout=20)


@pytest.mark.usefixtures("busy_pool")
def test_blocks_do_not_wait_for_a_busy_pool() -> None:
    assert squares(10, 2) == [i * i for i in range(10)]


@pytest.mark.usefixtures("busy_pool")
def test_queue_of_a_busy_pool_keeps_no_arrays() -> None:
    def call() -> weakref.ref[np.ndarray]:
        array = np.zeros(1000)
        map_blocks(lambda k: array[k], [(0,), (1,)], 2)
        return weakref.ref(array)

    kept = call()
    gc.collect()
    assert kept() is None


def ends(*works: Callable[[], object], seconds: float) -> bool:
    """Run each in a thread of its own, and tell whether all of them end in time."""
    running = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(timeout=seconds)
    return not any(thread.is_alive() for thread in running)


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_helpers_waiting_for_blas_do_not_deadlock() -> None:
    """One caller is inside and wants the pool, whose thread works for another and wants inside.

    In a child, whose threads may stay stuck.
    """

    def work() -> bool:
        inside, helped = threading.Event(), threading.Event()
        caller = threading.get_ident

        def wants_blas(owner: int) -> None:
            if caller() == owner:
                helped.wait(timeout=5)
                return
            helped.set()
            inside.wait(timeout=5)
            with one_blas_thread():
                pass

        def first() -> None:
            owner = caller()
            map_blocks(wants_blas, [(owner,), (owner,)], 2)

        def second() -> None:
            helped.wait(timeout=5)
            with one_blas_thread():
                inside.set()
                time.sleep(0.05)
                squares(10, 2)

        return ends(first, second, seconds=5)

    assert exit_status_of_child(work) == 0


def test_in_place_uses_the_calling_thread() -> None:
    callers: set[int] = set()
    with run_serially():
        map_blocks(lambda _: callers.add(threading.get_ident()), [(i,) for i in range(50)], 3)
    assert callers == {threading.get_ident()}
    test_blocks_run_at_the_same_time()


def test_blocks_are_done_while_the_interpreter_shuts_down() -> None:
    """A thread that outlives the main one gets no helpers, and does its work alone."""
    script = (
        "import threading, time\n"
        "from gramless.base.threads import map_blocks\n"
        "def work():\n"
        "    time.sleep(0.3)\n"
        "    print(map_blocks(abs, [(-1,), (-2,)], 2))\n"
        "threading.Thread(target=work).start()\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[1, 2]\n", "")


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_makes_its_own_pool() -> None:
    squares(10)
    assert exit_status_of_child(lambda: squares(10) == [i * i for i in range(10)]) == 0
    assert squares(10) == [i * i for i in range(10)]


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_during_a_call_in_another_thread_works() -> None:
    entered, leave = threading.Event(), threading.Event()

    def wait_inside(_: int) -> bool:
        entered.set()
        return leave.wait(timeout=CHILD_SECONDS)

    with ThreadPoolExecutor(1) as caller:
        future = caller.submit(map_blocks, wait_inside, [(0,), (1,)], 2)
        try:
            assert entered.wait(timeout=20)
            status = exit_status_of_child(lambda: squares(10, 2) == [i * i for i in range(10)])
        finally:
            leave.set()
        assert future.result(timeout=20) == [True, True]
    assert status == 0


class Shared:
    """Work that threads take from each other; keeps who was there."""

    def __init__(self, n_items: int) -> None:
        self.items = list(range(n_items))
        self.done: list[int] = []
        self.calls: list[tuple[int, int]] = []

    def __call__(self, thread: int, n_threads: int) -> None:
        self.calls.append((thread, n_threads))
        while self.items:
            try:
                item = self.items.pop()
            except IndexError:
                return
            self.done.append(item)

    def alone(self, n_threads: int = 1) -> bool:
        """Tell whether thread 0 did everything."""
        return self.calls == [(0, n_threads)] and len(self.done) == 100


@pytest.fixture
def four_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "available_cpus", lambda: 4)


@pytest.mark.usefixtures("four_cpus")
@pytest.mark.parametrize("n_threads", [2, 4])
def test_threads_run_together(n_threads: int) -> None:
    barrier, calls = threading.Barrier(n_threads, timeout=20), []
    caller = threading.get_ident()

    def meet(thread: int, n_together: int) -> None:
        barrier.wait()
        calls.append((thread, n_together, threading.get_ident() == caller))

    run_together(meet, n_threads)
    expected = [(thread, n_threads, thread == 0) for thread in range(n_threads)]
    assert sorted(calls) == expected


@pytest.mark.usefixtures("four_cpus")
@pytest.mark.parametrize("n_threads", [1, 0])
def test_single_thread_is_the_caller(n_threads: int) -> None:
    work = Shared(100)
    run_together(work, n_threads)
    assert work.alone()


@pytest.mark.usefixtures("four_cpus")
def test_run_together_is_limited_to_the_processors() -> None:
    work = Shared(100)
    run_together(work, 50)
    assert {n_threads for _, n_threads in work.calls} == {4}
    assert len(work.done) == 100


@pytest.mark.usefixtures("four_cpus")
def test_run_together_does_not_wait_for_a_busy_pool() -> None:
    leave = threading.Event()
    sleeping = [threads._pool(2).submit(leave.wait, 20) for _ in range(4)]
    try:
        for _ in range(3):
            work = Shared(100)
            run_together(work, 3)
            assert work.alone(3)
    finally:
        leave.set()
    assert all(each.result(timeout=20) for each in sleeping)
    test_threads_run_together(3)


@pytest.mark.usefixtures("four_cpus")
def test_run_together_inside_a_pool_uses_one_thread() -> None:
    works = [Shared(100) for _ in range(6)]
    map_blocks(run_together, [(work, 3) for work in works], 2)
    assert all(work.alone() for work in works)


@pytest.mark.usefixtures("four_cpus")
@pytest.mark.parametrize("bad", [0, 1])
def test_error_of_any_thread_reaches_the_caller(bad: int) -> None:
    barrier = threading.Barrier(2, timeout=20)

    def fail(thread: int, _: int) -> None:
        barrier.wait()
        if thread == bad:
            raise ZeroDivisionError(f"thread {thread}")

    with pytest.raises(ZeroDivisionError, match=f"thread {bad}"):
        run_together(fail, 2)
    test_threads_run_together(2)


@pytest.mark.usefixtures("four_cpus")
def test_error_waits_for_other_threads() -> None:
    """What the threads share may be gone once the caller has its error."""
    started, ended = threading.Event(), threading.Event()

    def fail(thread: int, _: int) -> None:
        if thread > 0:
            started.set()
            time.sleep(0.2)
            ended.set()
            return
        assert started.wait(timeout=20)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_together(fail, 2)
    assert ended.is_set()


@needs_fork
@pytest.mark.usefixtures("four_cpus")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_nested_blocks_inside_run_together_finish() -> None:
    """A thread of the pool must not wait for the pool; in a child, for it would wait for ever."""

    def work() -> bool:
        barrier, results = threading.Barrier(2, timeout=20), []

        def nested(thread: int, _: int) -> None:
            barrier.wait()
            results.append(squares(10, 2))

        run_together(nested, 2)
        return results == [[i * i for i in range(10)]] * 2

    assert exit_status_of_child(work, seconds=3) == 0


@needs_fork
@pytest.mark.usefixtures("four_cpus")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_threads_of_a_forked_child_run_together() -> None:
    def meet() -> bool:
        barrier = threading.Barrier(3, timeout=20)
        run_together(lambda thread, n_threads: barrier.wait() and None, 3)
        return True

    assert meet()
    assert exit_status_of_child(meet) == 0


def test_thread_count_follows_n_jobs() -> None:
    cpus = available_cpus()
    assert cpus >= 1
    assert thread_count(None) == thread_count(-1) == cpus
    assert thread_count(-2) == max(1, cpus - 1)
    assert thread_count(-10_000) == 1
    assert thread_count(5) == 5


def test_invalid_n_jobs_are_rejected() -> None:
    for bad in (0, 1.5, "2", True, False):
        with pytest.raises(InputError, match="n_jobs"):
            thread_count(bad)  # type: ignore[arg-type]
    for n_blocks in (0, 1, 4):
        with pytest.raises(InputError, match="n_jobs"):
            squares(n_blocks, 0)


@given(st.integers(0, 2000), st.integers(1, 300))
def test_row_blocks_cut_every_row_once(n_rows: int, block_rows: int) -> None:
    cut = row_blocks(n_rows, block_rows)
    assert [row for start, stop in cut for row in range(start, stop)] == list(range(n_rows))
    assert all(0 < stop - start <= block_rows for start, stop in cut)


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_one_blas_thread_limits_and_restores() -> None:
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        with one_blas_thread():
            assert set(blas_threads()) == {1}
            with one_blas_thread():
                assert set(blas_threads()) == {1}
            assert set(blas_threads()) == {1}
        assert blas_threads() == before
        with pytest.raises(ZeroDivisionError), one_blas_thread():
            raise ZeroDivisionError
        assert blas_threads() == before


def openmp_threads() -> set[int]:
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "openmp"}


def test_one_openmp_thread_limits_and_restores() -> None:
    # Libraries that other tests have loaded since the first use count as well.
    threads._openmp.cache_clear()
    with one_openmp_thread(), threadpool_limits(2, "openmp"):
        assert openmp_threads() == {2}
        with one_openmp_thread():
            assert openmp_threads() == {1}
        assert openmp_threads() == {2}


def test_blas_limit_holds_after_the_first_caller_leaves() -> None:
    """Whoever sets a limit through threadpoolctl owns it, in its own thread."""
    first_inside, second_inside = threading.Event(), threading.Event()
    before = blas_threads()

    def first() -> None:
        with one_blas_thread():
            first_inside.set()
            assert second_inside.wait(timeout=20)

    def second() -> list[list[int]]:
        assert first_inside.wait(timeout=20)
        with one_blas_thread():
            second_inside.set()
            leaving.result(timeout=20)
            result = [blas_threads()]
        with one_blas_thread():
            return [*result, blas_threads()]

    with ThreadPoolExecutor(2) as callers, threadpool_limits(2, "blas"):
        leaving = callers.submit(first)
        result = callers.submit(second).result(timeout=20)
        assert blas_threads() == [2] * len(before)
    assert all(set(threads) == {1} for threads in result)
    assert blas_threads() == before


def test_libraries_loaded_later_are_limited() -> None:
    """SciPy's is loaded late, by what uses it."""
    script = (
        "from gramless.base.threads import one_blas_thread\n"
        "with one_blas_thread():\n"
        "    pass\n"
        "import scipy.linalg, threadpoolctl\n"
        "with one_blas_thread():\n"
        "    found = threadpoolctl.threadpool_info()\n"
        "print({pool['num_threads'] for pool in found if pool['user_api'] == 'blas'})\n"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert (done.stdout, done.stderr) == ("{1}\n", "")


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_while_another_thread_limits_blas_works() -> None:
    def enter() -> bool:
        with one_blas_thread():
            return set(blas_threads()) == {1}

    entered, leave = threading.Event(), threading.Event()

    def stay() -> bool:
        with one_blas_thread():
            entered.set()
            return leave.wait(timeout=CHILD_SECONDS)

    with ThreadPoolExecutor(1) as caller:
        future = caller.submit(stay)
        try:
            assert entered.wait(timeout=20)
            status = exit_status_of_child(enter)
        finally:
            leave.set()
        assert future.result(timeout=20)
    assert status == 0
