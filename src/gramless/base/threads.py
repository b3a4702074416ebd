"""One thread pool for the whole package; every loop is serial and releases the GIL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from itertools import count
from numbers import Integral
from typing import TypeVar

from threadpoolctl import LibController, OpenBLASController, ThreadpoolController

from gramless.base.errors import InputError

T = TypeVar("T")

_MOST_THREADS = 4096
_FEW_ROWS, _FEW_ENTRIES = 1500, 100_000
"""Tables that are fitted in less time by one thread than by two: most of their work takes less than
to wake the other one."""

_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}
_inside = threading.local()


def available_cpus() -> int:
    """Return the number of processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count(n_jobs: int | None) -> int:
    """Turn ``n_jobs`` into a number of threads: None and -1 mean every processor, -2 all but one.

    Raises ``InputError`` if it is 0, not an integer, or above 4,096.
    """
    if n_jobs is None:
        return available_cpus()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise InputError(f"n_jobs must be None or a non-zero integer, got {n_jobs!r}.")
    if n_jobs > _MOST_THREADS:
        raise InputError(f"n_jobs must be at most {_MOST_THREADS:,} threads, got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max(1, available_cpus() + 1 + int(n_jobs))


def map_blocks(function: Callable[..., T], blocks: Iterable[tuple], n_jobs: int | None) -> list[T]:
    """Call ``function(*block)`` for every block on the shared pool; return results in order.

    The function should release the GIL for most of its time. It runs in the calling thread if there
    is one block or one thread, or if the caller is a pool thread itself, as a nested wait might
    never end.
    """
    calls = list(blocks)
    alone = len(calls) <= 1 or _runs_in_place()
    # To ask the system for the number of processors takes microseconds.
    n_threads = 1 if alone and n_jobs is None else thread_count(n_jobs)
    if alone or n_threads == 1:
        return [function(*call) for call in calls]
    results: list[T | None] = [None] * len(calls)
    numbers = count()

    def work(thread: int) -> None:
        # Counting is one step of the interpreter: no two threads get the same number.
        while (k := next(numbers)) < len(calls):
            results[k] = function(*calls[k])

    _share(work, min(n_threads, len(calls)) - 1)
    return results  # type: ignore[return-value]


def run_together(function: Callable[[int, int], None], n_threads: int) -> None:
    """Call ``function(thread, n_threads)`` in several threads that share the work among them.

    Thread 0 is the caller. The others may start late, or never if the pool is busy: the function
    must end once all work is done, whoever did it. It should release the GIL for most of its time.
    There are never more threads than processors.
    """
    n_threads = min(n_threads, available_cpus())
    if n_threads <= 1 or _runs_in_place():
        function(0, 1)
        return
    _share(lambda thread: function(thread, n_threads), n_threads - 1)


@contextmanager
def in_place() -> Iterator[None]:
    """Let :func:`map_blocks` and :func:`run_together` run in the calling thread alone.

    A thread that holds a lock must not wait for the pool, whose threads may be
    waiting for that lock: whoever works while holding one works inside.
    """
    before = _runs_in_place()
    _inside.active = True
    try:
        yield
    finally:
        _inside.active = before


def one_thread_if_small(shape: tuple[int, ...], n_jobs: int | None) -> AbstractContextManager[None]:
    """Fit a small table in the calling thread, unless a number of threads was asked for."""
    small = shape[0] <= _FEW_ROWS and shape[0] * shape[1] <= _FEW_ENTRIES
    return in_place() if small and n_jobs is None else nullcontext()


def row_blocks(n_rows: int, block_rows: int) -> list[tuple[int, int]]:
    """Cut ``n_rows`` into ``(start, stop)`` pairs of at most ``block_rows`` rows."""
    return [(i, min(i + block_rows, n_rows)) for i in range(0, n_rows, block_rows)]


def one_blas_thread() -> _BlasLimit:
    """Keep BLAS to one thread: its results must not depend on the number of threads.

    The limit is the process's. Threads that are inside at the same time share it:
    the first sets it, the last restores what was before, and nobody waits.
    """
    return _blas_limit


class _BlasLimit:
    """One thread for BLAS, for as long as anybody is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._before = [library.num_threads for library in _blas()]
                if set(self._before) != {1}:
                    _set_blas_threads([1] * len(self._before))
            self._n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0 and set(self._before) != {1}:
                _set_blas_threads(self._before)


_blas_limit = _BlasLimit()


def _set_blas_threads(numbers: list[int]) -> None:
    """Give each BLAS library a number of threads."""
    # The thread that sets a limit owns it until it says otherwise, and what others set is
    # ignored without a word. Here one thread enters, and another may leave last.
    OpenBLASController.clear_controlling_thread(force=True)
    for library, number in zip(_blas(), numbers, strict=True):
        library.set_num_threads(number)
    OpenBLASController.clear_controlling_thread(force=True)


def one_openmp_thread() -> AbstractContextManager[object]:
    """Keep OpenMP to one thread where the calling thread uses it; k-means sums in any order."""
    return _openmp().limit(limits=1)


@cache
def _openmp() -> ThreadpoolController:
    # Only libraries that are loaded are found, and to look for them takes a millisecond.
    import sklearn.cluster  # noqa: F401

    found: ThreadpoolController = ThreadpoolController().select(user_api="openmp")
    return found


@cache
def _blas() -> list[LibController]:
    # Only libraries that are loaded are found, and SciPy has a BLAS of its own.
    import scipy.linalg  # noqa: F401

    found: list[LibController] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found


def _share(work: Callable[[int], None], n_helpers: int) -> None:
    """Call ``work(0)`` here, and ``work(1)`` to ``work(n_helpers)`` in threads of the pool.

    The caller never waits for a thread that has not begun: the pool may be busy with
    work that waits for something of the caller's.
    """
    # Emptied at the end, so that nobody joins any more, and the pool's queue keeps no arrays.
    offered = [work]
    errors: list[BaseException] = []
    changed, n_running = threading.Condition(), 0

    def join(thread: int) -> None:
        nonlocal n_running
        with changed:
            if not offered:
                return
            own = offered[0]
            n_running += 1
        try:
            with in_place():
                own(thread)
        except BaseException as error:
            errors.append(error)
        finally:
            with changed:
                n_running -= 1
                changed.notify_all()

    # No thread can be had while the interpreter shuts down, or beyond the system's limit.
    with suppress(RuntimeError):
        pool = _pool(n_helpers)
        for thread in range(1, n_helpers + 1):
            pool.submit(join, thread)
    try:
        with in_place():
            work(0)
    finally:
        with changed:
            offered.clear()
            while n_running:
                changed.wait()
    if errors:
        raise errors[-1]


def _runs_in_place() -> bool:
    return getattr(_inside, "active", False)


def _pool(n_helpers: int) -> ThreadPoolExecutor:
    with _lock:
        if n_helpers not in _pools:
            _pools[n_helpers] = ThreadPoolExecutor(n_helpers, thread_name_prefix="gramless")
        return _pools[n_helpers]


def _forget_pools() -> None:
    """Drop the pools in a forked child, where their threads do not exist."""
    global _lock, _blas_limit
    _lock = threading.Lock()
    _blas_limit = _BlasLimit()
    _pools.clear()
    _inside.active = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)
