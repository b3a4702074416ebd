"""One thread pool for the whole package; every loop is serial and releases the GIL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from numbers import Integral
from typing import TypeVar

from threadpoolctl import ThreadpoolController

from gramless.base.errors import InputError

T = TypeVar("T")

_MOST_THREADS = 4096

_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}
_inside = threading.local()
_blas_turn = threading.RLock()


def available_cpus() -> int:
    """Return the number of processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count(n_jobs: int | None) -> int:
    """Turn ``n_jobs`` into a number of threads.

    Parameters
    ----------
    n_jobs : int or None
        ``None`` and ``-1`` mean every processor; ``-2`` all but one.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    InputError
        If ``n_jobs`` is 0, not an integer, or above 4,096.

    Examples
    --------
    >>> thread_count(3)
    3
    """
    if n_jobs is None:
        return available_cpus()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise InputError(f"n_jobs must be None or a non-zero integer, got {n_jobs!r}.")
    if n_jobs > _MOST_THREADS:
        raise InputError(f"n_jobs must be at most {_MOST_THREADS:,} threads, got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max(1, available_cpus() + 1 + int(n_jobs))


def map_blocks(function: Callable[..., T], blocks: Iterable[tuple], n_jobs: int | None) -> list[T]:
    """Call ``function(*block)`` for every block on the shared pool, results in order.

    Runs in the calling thread when there is one block, one thread, or when the
    caller already is a pool thread (a nested wait could otherwise never end).

    Parameters
    ----------
    function : callable
        Releases the GIL for most of its time.
    blocks : iterable of tuple
        The arguments of each call.
    n_jobs : int or None
        Number of threads, see :func:`thread_count`.

    Returns
    -------
    list
        One result a block, in the order of ``blocks``.

    Examples
    --------
    >>> map_blocks(lambda a, b: a + b, [(1, 2), (3, 4)], n_jobs=2)
    [3, 7]
    """
    calls = list(blocks)
    n_threads = min(thread_count(n_jobs), len(calls))
    if n_threads <= 1 or getattr(_inside, "active", False):
        return [function(*call) for call in calls]
    shared: Iterator[tuple[int, tuple]] = iter(enumerate(calls))
    results: list[T | None] = [None] * len(calls)
    turn = threading.Lock()

    def work() -> None:
        _inside.active = True
        try:
            while True:
                with turn:
                    item = next(shared, None)
                if item is None:
                    return
                results[item[0]] = function(*item[1])
        finally:
            _inside.active = False

    pool = _pool(n_threads - 1)
    helpers = [pool.submit(work) for _ in range(n_threads - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            helper.result()
    return results  # type: ignore[return-value]


def run_together(function: Callable[[int, int], None], n_threads: int) -> None:
    """Call ``function(thread, n_threads)`` in several threads that share the work among them.

    Thread 0 is the caller. The others may start late, or never when the pool is
    busy: the function must end once all work is done, whoever did it.

    Parameters
    ----------
    function : callable
        Releases the GIL for most of its time.
    n_threads : int
        More than there are processors are never started.

    Examples
    --------
    >>> run_together(lambda thread, n_threads: print(thread, n_threads), 1)
    0 1
    """
    n_threads = min(n_threads, available_cpus())
    if n_threads <= 1 or getattr(_inside, "active", False):
        function(0, 1)
        return

    def join(thread: int) -> None:
        _inside.active = True
        try:
            function(thread, n_threads)
        finally:
            _inside.active = False

    pool = _pool(n_threads - 1)
    others = [pool.submit(join, k) for k in range(1, n_threads)]
    try:
        join(0)
    finally:
        for other in others:
            if not other.cancel():
                other.result()


def row_blocks(n_rows: int, block_rows: int) -> list[tuple[int, int]]:
    """Cut ``n_rows`` into ``(start, stop)`` pairs of at most ``block_rows`` rows.

    Examples
    --------
    >>> row_blocks(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(i, min(i + block_rows, n_rows)) for i in range(0, n_rows, block_rows)]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: its results must not depend on the number of threads.

    The limit is the process's, so callers take turns: only call BLAS inside.
    """
    with _blas_turn, _blas().limit(limits=1, user_api="blas"):
        yield


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _pool(n_helpers: int) -> ThreadPoolExecutor:
    with _lock:
        if n_helpers not in _pools:
            _pools[n_helpers] = ThreadPoolExecutor(n_helpers, thread_name_prefix="gramless")
        return _pools[n_helpers]


def _forget_pools() -> None:
    """Drop the pools in a forked child, where their threads do not exist."""
    global _lock, _blas_turn
    _lock = threading.Lock()
    _blas_turn = threading.RLock()
    _pools.clear()
    _inside.active = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)
