"""The shared thread pool, thread limits for BLAS and OpenMP, and a cached property without a lock.

Every compiled loop is serial and releases the GIL. Parallelism comes only from calling loops in
several threads of the pool.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from itertools import count
from numbers import Integral
from typing import Any, Generic, Self, TypeVar, overload

from threadpoolctl import LibController, OpenBLASController, ThreadpoolController

from gramless.base.errors import InputError

T = TypeVar("T")

_MAX_THREADS = 4096
# Up to this size one thread fits a table faster than two: waking the second thread takes longer
# than most of the steps that it would share.
_SMALL_TABLE_ROWS, _SMALL_TABLE_ENTRIES = 1500, 100_000

_pools_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}  # by number of threads
_thread_state = threading.local()


def available_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads for ``n_jobs``.

    Unlike in scikit-learn, None means all processors, as -1 does; -2 means all but one. Raises
    ``InputError`` if ``n_jobs`` is 0, not an integer, or above 4,096.
    """
    if n_jobs is None:
        return available_cpus()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise InputError(f"n_jobs must be None or a non-zero integer, got {n_jobs!r}.")
    if n_jobs > _MAX_THREADS:
        raise InputError(f"n_jobs must be at most {_MAX_THREADS:,} threads, got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max(1, available_cpus() + 1 + int(n_jobs))


def map_blocks(function: Callable[..., T], blocks: Iterable[tuple], n_jobs: int | None) -> list[T]:
    """Call ``function(*block)`` for every block on the shared pool; return results in order.

    The function should release the GIL for most of its time. Calls run serially in the calling
    thread if there is only one block or one thread, and inside :func:`run_serially`. Calls from a
    pool thread run serially too, because waiting for the pool from inside it can deadlock.
    """
    calls = list(blocks)
    is_serial = len(calls) <= 1 or _runs_serially()
    # Counting processors takes microseconds, so it is skipped if the count does not matter. An
    # invalid n_jobs raises in any case.
    n_threads = 1 if is_serial and n_jobs is None else thread_count(n_jobs)
    if is_serial or n_threads == 1:
        return [function(*call) for call in calls]
    results: list[T | None] = [None] * len(calls)
    positions = count()

    def work(thread: int) -> None:
        # next() on a count is atomic under the GIL: no two threads get the same position.
        while (k := next(positions)) < len(calls):
            results[k] = function(*calls[k])

    _run_on_pool(work, min(n_threads, len(calls)) - 1)
    return results  # type: ignore[return-value]


def run_together(function: Callable[[int, int], None], n_threads: int) -> None:
    """Call ``function(thread, n_threads)`` in several threads that share the work.

    Thread 0 is the caller. The others may start late, or never if the pool is busy, so the function
    must return once all work is done, whichever threads did it. It should release the GIL for most
    of its time. ``n_threads`` is reduced to the number of processors. Inside :func:`run_serially`
    and in threads of the pool, the function is called once, as ``function(0, 1)``.
    """
    n_threads = min(n_threads, available_cpus())
    if n_threads <= 1 or _runs_serially():
        function(0, 1)
        return
    _run_on_pool(lambda thread: function(thread, n_threads), n_threads - 1)


@contextmanager
def run_serially() -> Iterator[None]:
    """Run :func:`map_blocks` and :func:`run_together` in the calling thread only.

    A thread that holds a lock must not wait for the pool, because threads of the pool may be
    waiting for that lock. Code that works while it holds a lock therefore enters this context.
    """
    before = _runs_serially()
    _thread_state.runs_serially = True
    try:
        yield
    finally:
        _thread_state.runs_serially = before


def run_serially_if_small(
    shape: tuple[int, ...], n_jobs: int | None
) -> AbstractContextManager[None]:
    """Return :func:`run_serially` for a small table if ``n_jobs`` is None, else a null context."""
    n_rows, n_columns = shape
    is_small = n_rows <= _SMALL_TABLE_ROWS and n_rows * n_columns <= _SMALL_TABLE_ENTRIES
    return run_serially() if is_small and n_jobs is None else nullcontext()


def row_blocks(n_rows: int, block_rows: int) -> list[tuple[int, int]]:
    """Return ``(start, stop)`` of consecutive blocks of at most ``block_rows`` rows."""
    return [(i, min(i + block_rows, n_rows)) for i in range(0, n_rows, block_rows)]


class cached_property(Generic[T]):
    """A property that is computed when it is first read, and then kept in the instance.

    In Python 3.11, ``functools.cached_property`` holds one lock for all instances of a class while
    it computes. A computation that waits for the thread pool could then wait for ever. Here, two
    threads that read at the same time may both compute; both get the value that was stored first.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        # Without __set__, the stored value in the instance takes precedence over this method.
        if instance is None:
            return self
        value = self.function(instance)
        return instance.__dict__.setdefault(self.name, value)


def one_blas_thread() -> _BlasLimit:
    """Limit BLAS to one thread, because results must not depend on the number of threads.

    The limit applies to the whole process. Threads that are in the context at the same time share
    it: the first one sets the limit, and the last one restores the previous numbers of threads.
    """
    return _blas_limit


class _BlasLimit:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_entered = 0
        self._previous: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._n_entered == 0:
                self._previous = [library.num_threads for library in _blas_libraries()]
                if set(self._previous) != {1}:
                    _set_blas_threads([1] * len(self._previous))
            self._n_entered += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_entered -= 1
            if self._n_entered == 0 and set(self._previous) != {1}:
                _set_blas_threads(self._previous)


_blas_limit = _BlasLimit()


def _set_blas_threads(numbers: list[int]) -> None:
    # Once a thread has set a limit, threadpoolctl ignores other threads until that thread is
    # cleared. Here the thread that leaves last need not be the one that entered first.
    OpenBLASController.clear_controlling_thread(force=True)
    for library, number in zip(_blas_libraries(), numbers, strict=True):
        library.set_num_threads(number)
    OpenBLASController.clear_controlling_thread(force=True)


def one_openmp_thread() -> AbstractContextManager[object]:
    """Limit OpenMP to one thread.

    The threads of scikit-learn's k-means add their sums in an order that varies between runs.
    """
    return _openmp().limit(limits=1)


@cache
def _openmp() -> ThreadpoolController:
    # threadpoolctl sees only libraries that are loaded. The result is cached because the search
    # takes a millisecond.
    import sklearn.cluster  # noqa: F401

    controller: ThreadpoolController = ThreadpoolController().select(user_api="openmp")
    return controller


@cache
def _blas_libraries() -> list[LibController]:
    # threadpoolctl sees only loaded libraries, and SciPy ships a BLAS other than NumPy's.
    import scipy.linalg  # noqa: F401

    libraries: list[LibController] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


def _run_on_pool(work: Callable[[int], None], n_helpers: int) -> None:
    """Call ``work(0)`` here, and ``work(1)`` to ``work(n_helpers)`` in threads of the pool.

    When ``work(0)`` returns, calls that have not started are dropped, and the caller waits for the
    others only: the pool may be busy with work that itself waits for the caller, for example for a
    lock. An error in a pool thread is raised here.
    """
    # Emptied at the end: later threads then return at once, and the queue of the pool keeps no
    # reference to the arrays of the work.
    pending = [work]
    errors: list[BaseException] = []
    changed, n_running = threading.Condition(), 0

    def help_out(thread: int) -> None:
        nonlocal n_running
        with changed:
            if not pending:
                return
            shared_work = pending[0]
            n_running += 1
        try:
            with run_serially():
                shared_work(thread)
        except BaseException as error:
            errors.append(error)
        finally:
            with changed:
                n_running -= 1
                changed.notify_all()

    # Starting a thread fails while the interpreter shuts down, and beyond the system's limit; the
    # caller then does all the work.
    with suppress(RuntimeError):
        pool = _pool(n_helpers)
        for thread in range(1, n_helpers + 1):
            pool.submit(help_out, thread)
    try:
        with run_serially():
            work(0)
    finally:
        with changed:
            pending.clear()
            while n_running:
                changed.wait()
    if errors:
        raise errors[-1]


def _runs_serially() -> bool:
    return getattr(_thread_state, "runs_serially", False)


def _pool(n_helpers: int) -> ThreadPoolExecutor:
    with _pools_lock:
        if n_helpers not in _pools:
            _pools[n_helpers] = ThreadPoolExecutor(n_helpers, thread_name_prefix="gramless")
        return _pools[n_helpers]


def _reset_after_fork() -> None:
    # The threads of the parent do not exist in the child, and its locks may be held for ever.
    global _pools_lock, _blas_limit
    _pools_lock = threading.Lock()
    _blas_limit = _BlasLimit()
    _pools.clear()
    _thread_state.runs_serially = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
