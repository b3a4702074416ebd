"""Run tasks on a Dask cluster whose workers may come and go."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, TypeAlias

import dask
import distributed
from dask.delayed import Delayed
from distributed import Client, Future
from distributed.comm.core import CommClosedError, connect
from distributed.scheduler import KilledWorker

from gramless.base.errors import ClusterError, InputError

_POLL_SECONDS = 0.5  # seconds between checks that workers are still there
# A fit fails after this many seconds without a worker, unless ``gramless.patience`` in Dask's
# configuration has another number.
_PATIENCE = 60
_MAX_ATTEMPTS = 50  # attempts to read results from workers that are lost
# The scheduler gives a task up when the fourth worker dies with it. The task is then started again,
# at most this many times.
_MAX_RESTARTS = 5
# Errors of a task whose worker or data was lost.
LOST = CancelledError, CommClosedError, KilledWorker, TimeoutError, OSError
# Copies of a vector that the client sends. Other workers get it from the workers that have these.
_MAX_COPIES = 8
_CONNECT_TIMEOUT = 3.0  # seconds

Result: TypeAlias = Any
Task: TypeAlias = Callable[..., Result]
Arguments: TypeAlias = tuple[object, ...]


class Cluster:
    """A Dask client, with methods that survive the loss of workers.

    Tasks are plain futures, each on the worker that has its data.
    """

    def __init__(self, client: Client | None, owner: str) -> None:
        self.owner = owner
        self.client = _current_client(owner) if client is None else client
        self.patience = float(dask.config.get("gramless.patience", _PATIENCE))
        self._without_workers_since: float | None = None
        self._last_tasks: list[Future] = []
        self._vectors: list[Future] = []
        self._last_vectors: list[Future] = []
        self.n_tasks = self.n_rounds = self.n_bytes = 0
        self.direct = self._reaches_workers()

    def traffic(self) -> tuple[int, int, int]:
        """Return the numbers of round trips, tasks and bytes of vectors so far."""
        return self.n_rounds, self.n_tasks, self.n_bytes

    def workers(self) -> dict[str, int]:
        self._check_connected()
        threads: dict[str, int] = self.client.nthreads()
        return threads

    def compute(self, tasks: Sequence[Delayed]) -> list[Result]:
        """Return the results of delayed tasks on any workers."""
        futures = self.start(tasks)
        try:
            self.wait(futures)
            return self.gather(futures)
        finally:
            release(futures)

    def start(self, tasks: Sequence[Delayed]) -> list[Future]:
        """Return the futures of delayed tasks, whose results stay with the workers."""
        self._check_connected()
        futures: list[Future] = self.client.compute(list(tasks), sync=False)
        return futures

    def wait(self, futures: Sequence[Future]) -> None:
        """Wait until tasks are done.

        Raises the error of a task that failed, or ClusterError if tasks cannot be done because
        workers or data are lost.
        """
        n_killed, self._without_workers_since = 0, None
        while True:
            with suppress(TimeoutError, CancelledError):
                distributed.wait(futures, timeout=_POLL_SECONDS)
            self._check_connected()
            statuses = {future.status for future in futures}
            if "error" in statuses:
                n_killed += 1
                self._retry([future for future in futures if future.status == "error"], n_killed)
            elif "cancelled" in statuses:
                raise ClusterError(
                    f"{self.owner}: a worker was lost with rows that cannot be computed again, "
                    f"such as scattered ones. Make collections from files or functions, which any "
                    f"worker can read again."
                )
            elif statuses <= {"finished"}:
                return
            self._check_patience(self.workers())

    def gather(self, futures: Sequence[Future]) -> list[Result]:
        """Return the results of finished tasks; lost results are computed again."""
        for _ in range(_MAX_ATTEMPTS):
            self._without_workers_since = None
            with suppress(*LOST):
                results = self._fetch(futures, self._check_patience)
                if results is not None:
                    return results
            self.wait(futures)
        raise self._too_many_losses()

    def locate(self, futures: Sequence[Future]) -> dict[str, list[int]]:
        """Return the indices of the results on each worker, with each result on one worker.

        Results that were lost with a worker are computed again first.
        """
        for _ in range(_MAX_ATTEMPTS):
            self.wait(futures)
            known = self.client.who_has(list(futures))
            holders = [known.get(future.key, ()) for future in futures]
            if all(holders):
                break
            time.sleep(0.1)
        else:
            raise self._too_many_losses()
        places: dict[str, list[int]] = {}
        for number, workers in enumerate(holders):
            least_loaded = min(workers, key=lambda worker: (len(places.get(worker, ())), worker))
            places.setdefault(least_loaded, []).append(number)
        return places

    def scatter(self, data: object, workers: Sequence[str]) -> list[Future]:
        """Send data to at most eight workers; the others get copies from these."""
        client = self.client

        async def send() -> list[Future]:
            return await asyncio.gather(
                *(
                    client.scatter(
                        data,
                        workers=[worker],
                        direct=self.direct,
                        hash=False,
                        timeout=_CONNECT_TIMEOUT,
                        asynchronous=True,
                    )
                    for worker in workers[:_MAX_COPIES]
                )
            )

        sent: list[Future] = client.sync(send)
        self._vectors += sent
        return [sent[i % len(sent)] for i in range(len(workers))]

    def submit(
        self,
        task: Task,
        calls: Sequence[Arguments],
        workers: Iterable[str] | None = None,
        *,
        allow_other_workers: bool = False,
    ) -> list[Future]:
        """Run a task with each tuple of arguments, on the corresponding worker if there are any.

        If that worker is lost, another one runs the task if ``allow_other_workers`` is True. All
        tasks are sent in one message, because the client's loop waits 10 ms between messages.
        """
        self._check_connected()
        self.n_tasks += len(calls)
        places: Iterable[dict[str, Any]] = [{}] * len(calls)
        if workers is not None:
            places = [
                {"workers": [name], "allow_other_workers": allow_other_workers} for name in workers
            ]

        async def send() -> list[Future]:
            pairs = zip(calls, places, strict=True)
            return [self.client.submit(task, *call, pure=False, **place) for call, place in pairs]

        futures: list[Future] = self.client.sync(send)
        return futures

    def gather_unless_lost(self, tasks: dict[str, Future]) -> list[Result] | None:
        """Return the results of one task per worker, or None if a worker or a result is lost."""
        futures = list(tasks.values())
        # The client waits milliseconds between messages. The tasks of this round are sent first,
        # and only then the release of old results.
        self.release_last_round()
        self._last_tasks = futures
        with suppress(*LOST):
            return self._fetch(futures, lambda workers: tasks.keys() <= workers.keys())
        return None

    def release_last_round(self) -> None:
        """Release the results of the last round, and vectors without references."""
        release(self._last_tasks)
        self._last_tasks, self._last_vectors = [], self._vectors
        self._vectors = []

    def _fetch(
        self, futures: Sequence[Future], can_continue: Callable[[dict[str, int]], bool]
    ) -> list[Result] | None:
        """Return results, or None if ``can_continue`` is False for the current workers.

        Without this check, the client could wait forever for a task that has no worker any more.
        """
        client, scheduler = self.client, self.client.scheduler
        if scheduler is None:
            return None

        async def fetch() -> list[Result] | None:
            task = asyncio.ensure_future(
                client.gather(list(futures), direct=self.direct, asynchronous=True)
            )
            try:
                while not (await asyncio.wait({task}, timeout=_POLL_SECONDS))[0]:
                    if not can_continue(await scheduler.ncores()):
                        return None
                gathered: list[Result] = task.result()
                return gathered
            finally:
                task.cancel()

        results: list[Result] | None = client.sync(fetch)
        return results

    def _retry(self, failed: list[Future], n_killed: int) -> None:
        """Restart tasks whose workers died; raise the errors of other tasks."""
        for future in failed:
            error = future.exception()
            if error is None or isinstance(error, LOST):
                continue
            raise error
        if n_killed > _MAX_RESTARTS:
            raise ClusterError(
                f"{self.owner}: {4 * n_killed} workers died with the same rows, which may need "
                f"more memory than a worker has. Split the collection into smaller partitions, or "
                f"give workers more memory."
            )
        self.client.retry(failed)

    def _check_patience(self, workers: dict[str, int]) -> bool:
        """Return True; raise ClusterError if there has been no worker for too long."""
        now = time.monotonic()
        since = self._without_workers_since = (
            None if workers else self._without_workers_since or now
        )
        if since is not None and now - since > self.patience:
            raise ClusterError(
                f"{self.owner}: there has been no worker for {self.patience:g} seconds. Start "
                f"workers and fit again; with checkpoint= a fit resumes where it stopped. "
                f"dask.config.set({{'gramless.patience': seconds}}) sets how long to wait."
            )
        return True

    def _check_connected(self) -> None:
        if self.client.status != "running":
            raise ClusterError(
                f"{self.owner}: the client is {self.client.status}: the scheduler is gone, or the "
                f"client was closed. Connect a new client and fit again; with checkpoint= a fit "
                f"resumes where it stopped."
            )

    def _too_many_losses(self) -> ClusterError:
        return ClusterError(
            f"{self.owner}: {_MAX_ATTEMPTS} times in a row a worker was lost before its result "
            f"was read; use workers that live longer."
        )

    def _reaches_workers(self) -> bool:
        """Return whether the client can connect to workers without the scheduler."""
        addresses = list(self.workers())
        if not addresses:
            return False

        async def connects() -> bool:
            try:
                comm = await connect(
                    addresses[0], timeout=_CONNECT_TIMEOUT, **self.client.connection_args
                )
            except (OSError, TimeoutError):
                return False
            await comm.close()
            return True

        return bool(self.client.sync(connects))


def _current_client(owner: str) -> Client:
    try:
        return distributed.get_client()
    except ValueError as error:
        raise InputError(
            f"{owner}: there is no Dask client; make one with distributed.Client(), or "
            f"Client('tcp://...') for a running cluster, or pass client=."
        ) from error


def assign_blocks(places: dict[str, list[int]], threads: dict[str, int]) -> list[str]:
    """Return a worker for each block, with at most as many blocks as its share of the threads.

    Blocks stay on the worker where they are, ``places``, unless it has more than its share.

    Examples
    --------
    >>> assign_blocks({"a": [0, 1, 4, 5], "b": [2, 3]}, {"a": 1, "b": 1})
    ['a', 'a', 'b', 'b', 'a', 'b']
    """
    holders = {i: worker for worker, indices in places.items() for i in indices}
    total = max(1, sum(threads.values()))
    room = {worker: -(-len(holders) * n // total) for worker, n in threads.items()}
    kept = {i: worker for worker, indices in places.items() for i in indices[: room.get(worker, 0)]}
    n_kept = Counter(kept.values())
    free = (worker for worker, n in room.items() for _ in range(n - n_kept[worker]))
    return [kept[i] if i in kept else next(free, holders[i]) for i in sorted(holders)]


def release(futures: Sequence[Future]) -> None:
    """Release results explicitly, because waiting leaves reference cycles that keep futures."""
    for future in futures:
        future.release()


def worker_threads() -> int:
    return int(distributed.get_worker().state.nthreads)
