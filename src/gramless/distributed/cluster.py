"""Work on a Dask cluster whose workers may come and go."""

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

_POLL = 0.5
"""Seconds after which a wait looks whether its workers are still there."""
_PATIENCE = 60
"""Seconds without a worker after which a fit gives up; ``gramless.patience`` in Dask's
configuration is another number."""
_MOST_ATTEMPTS, _MOST_KILLED = 50, 5
LOST = CancelledError, CommClosedError, KilledWorker, TimeoutError, OSError
"""What a task fails with whose worker or data went away."""
_MOST_SENT = 8
"""Copies of a vector that the client sends; more workers have it from those."""
_CONNECTING = 3.0

Result: TypeAlias = Any
"""What a task returns, which the caller knows."""
Task: TypeAlias = Callable[..., Result]
"""What a worker runs."""
Arguments: TypeAlias = tuple[object, ...]
"""What a task is called with."""


class Cluster:
    """A client, and how a fit uses it: plain futures, each on the worker that has its data."""

    def __init__(self, client: Client | None, owner: str) -> None:
        self.owner = owner
        self.client = _current(owner) if client is None else client
        self.patience = float(dask.config.get("gramless.patience", _PATIENCE))
        self._alone_since: float | None = None
        self._last_tasks: list[Future] = []
        self._vectors: list[Future] = []
        self._last_vectors: list[Future] = []
        self.n_tasks = self.n_rounds = self.n_bytes = 0
        self.direct = self._reaches_workers()

    def traffic(self) -> tuple[int, int, int]:
        """Return the round trips, the tasks and the bytes of vectors so far."""
        return self.n_rounds, self.n_tasks, self.n_bytes

    def workers(self) -> dict[str, int]:
        """Return the threads of each worker that is there now."""
        self._check_connected()
        found: dict[str, int] = self.client.nthreads()
        return found

    def compute(self, tasks: Sequence[Delayed]) -> list[Result]:
        """Return the results of delayed tasks, wherever they run."""
        futures = self.started(tasks)
        try:
            self.wait(futures)
            return self.gather(futures)
        finally:
            release(futures)

    def started(self, tasks: Sequence[Delayed]) -> list[Future]:
        """Return the futures of delayed tasks, whose results stay with the workers."""
        self._check_connected()
        futures: list[Future] = self.client.compute(list(tasks), sync=False)
        return futures

    def wait(self, futures: Sequence[Future]) -> None:
        """Wait until tasks are done, for as long as there are workers."""
        n_killed, self._alone_since = 0, None
        while True:
            with suppress(TimeoutError, CancelledError):
                distributed.wait(futures, timeout=_POLL)
            self._check_connected()
            statuses = {future.status for future in futures}
            if "error" in statuses:
                n_killed += 1
                self._retry([own for own in futures if own.status == "error"], n_killed)
            elif "cancelled" in statuses:
                raise ClusterError(
                    f"{self.owner}: a worker had rows that cannot be computed again, and is gone. "
                    f"Rows that were scattered are such; make collections of files or functions, "
                    f"which any worker can read again."
                )
            elif statuses <= {"finished"}:
                return
            self._check_company(self.workers())

    def gather(self, futures: Sequence[Future]) -> list[Result]:
        """Return results of tasks that are done; what was lost meanwhile is computed again."""
        for _ in range(_MOST_ATTEMPTS):
            self._alone_since = None
            with suppress(*LOST):
                found = self._fetched(futures, self._check_company)
                if found is not None:
                    return found
            self.wait(futures)
        raise self._gives_up()

    def places(self, futures: Sequence[Future]) -> dict[str, list[int]]:
        """Return which worker has which of the results, each of them once.

        What died with a worker is computed again before that.
        """
        for _ in range(_MOST_ATTEMPTS):
            self.wait(futures)
            known = self.client.who_has(list(futures))
            holders = [known.get(future.key, ()) for future in futures]
            if all(holders):
                break
            time.sleep(0.1)
        else:
            raise self._gives_up()
        found: dict[str, list[int]] = {}
        for number, having in enumerate(holders):
            least = min(having, key=lambda worker: (len(found.get(worker, ())), worker))
            found.setdefault(least, []).append(number)
        return found

    def scatter(self, data: object, workers: Sequence[str]) -> list[Future]:
        """Send data to each of a few workers; of many, to a few from which the others have them."""
        client = self.client

        async def send() -> list[Future]:
            return await asyncio.gather(
                *(
                    client.scatter(
                        data,
                        workers=[worker],
                        direct=self.direct,
                        hash=False,
                        timeout=_CONNECTING,
                        asynchronous=True,
                    )
                    for worker in workers[:_MOST_SENT]
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
        elsewhere: bool = False,
    ) -> list[Future]:
        """Run a task for each of some lists of arguments: each on one of the workers named.

        Once that is gone, another may run it if it may be ``elsewhere``. All is sent in one
        message: the client's loop sends what it finds, and then waits 10 ms.
        """
        self._check_connected()
        self.n_tasks += len(calls)
        places: Iterable[dict[str, Any]] = [{}] * len(calls)
        if workers is not None:
            places = [{"workers": [own], "allow_other_workers": elsewhere} for own in workers]

        async def send() -> list[Future]:
            both = zip(calls, places, strict=True)
            return [self.client.submit(task, *own, pure=False, **place) for own, place in both]

        futures: list[Future] = self.client.sync(send)
        return futures

    def finished(self, tasks: dict[str, Future]) -> list[Result] | None:
        """Return the results of tasks on workers; None once one of the workers is gone."""
        futures = list(tasks.values())
        # The client sends again some milliseconds after it has sent: this round's tasks come first.
        self.forget()
        self._last_tasks = futures
        with suppress(*LOST):
            return self._fetched(futures, lambda workers: tasks.keys() <= workers.keys())
        return None

    def forget(self) -> None:
        """Let workers forget the results of the last round, and vectors that nobody refers to."""
        release(self._last_tasks)
        self._last_tasks, self._last_vectors = [], self._vectors
        self._vectors = []

    def _fetched(
        self, futures: Sequence[Future], goes_on: Callable[[dict[str, int]], bool]
    ) -> list[Result] | None:
        """Return results, None once the workers that are there say that they will not come.

        A client that waits for a lost result waits for a task that may have no worker any more.
        """
        client, scheduler = self.client, self.client.scheduler
        if scheduler is None:
            return None

        async def fetch() -> list[Result] | None:
            task = asyncio.ensure_future(
                client.gather(list(futures), direct=self.direct, asynchronous=True)
            )
            try:
                while not (await asyncio.wait({task}, timeout=_POLL))[0]:
                    if not goes_on(await scheduler.ncores()):
                        return None
                found: list[Result] = task.result()
                return found
            finally:
                task.cancel()

        answer: list[Result] | None = client.sync(fetch)
        return answer

    def _retry(self, failed: list[Future], n_killed: int) -> None:
        """Start tasks again whose workers died; raise what failed by itself."""
        for own in failed:
            fault = own.exception()
            if fault is None or isinstance(fault, LOST):
                continue
            raise fault
        if n_killed > _MOST_KILLED:
            raise ClusterError(
                f"{self.owner}: the same rows were on {4 * n_killed} workers that died: they may "
                f"need more memory than a worker has. Cut the collection into smaller partitions, "
                f"or give workers more memory."
            )
        self.client.retry(failed)

    def _check_company(self, workers: dict[str, int]) -> bool:
        """Raise once there has been no worker for too long; else return True."""
        now = time.monotonic()
        since = self._alone_since = None if workers else self._alone_since or now
        if since is not None and now - since > self.patience:
            raise ClusterError(
                f"{self.owner}: there has been no worker for {self.patience:g} seconds. Start "
                f"workers and fit again; with checkpoint= a fit goes on where it was. "
                f"dask.config.set({{'gramless.patience': seconds}}) says how long to wait."
            )
        return True

    def _check_connected(self) -> None:
        if self.client.status != "running":
            raise ClusterError(
                f"{self.owner}: the client is {self.client.status}: the scheduler is gone, or "
                f"somebody closed it. Connect a new client and fit again; with checkpoint= a fit "
                f"goes on where it was."
            )

    def _gives_up(self) -> ClusterError:
        return ClusterError(
            f"{self.owner}: {_MOST_ATTEMPTS} times in a row a worker went away with a result "
            f"before that was read; use workers that stay longer."
        )

    def _reaches_workers(self) -> bool:
        """Tell whether the client can talk to workers itself, not only to the scheduler."""
        addresses = list(self.workers())
        if not addresses:
            return False

        async def connects() -> bool:
            try:
                comm = await connect(
                    addresses[0], timeout=_CONNECTING, **self.client.connection_args
                )
            except (OSError, TimeoutError):
                return False
            await comm.close()
            return True

        return bool(self.client.sync(connects))


def _current(owner: str) -> Client:
    """Return the client that the program made last."""
    try:
        return distributed.get_client()
    except ValueError as fault:
        raise InputError(
            f"{owner}: there is no Dask client; make one with distributed.Client(), or "
            f"Client('tcp://...') for a cluster that runs, or pass client=."
        ) from fault


def shared_out(places: dict[str, list[int]], threads: dict[str, int]) -> list[str]:
    """Return a worker for each block, such that none has more than the share of its threads.

    Blocks stay where they are, at ``places``, but for what exceeds the share.

    Examples
    --------
    >>> shared_out({"a": [0, 1, 4, 5], "b": [2, 3]}, {"a": 1, "b": 1})
    ['a', 'a', 'b', 'b', 'a', 'b']
    """
    holders = {i: worker for worker, own in places.items() for i in own}
    total = max(1, sum(threads.values()))
    room = {worker: -(-len(holders) * n // total) for worker, n in threads.items()}
    kept = {i: worker for worker, own in places.items() for i in own[: room.get(worker, 0)]}
    held = Counter(kept.values())
    free = (worker for worker, most in room.items() for _ in range(most - held[worker]))
    return [kept[i] if i in kept else next(free, holders[i]) for i in sorted(holders)]


def release(futures: Sequence[Future]) -> None:
    """Let workers forget results: waits leave cycles of references that would hold them here."""
    for own in futures:
        own.release()


def worker_threads() -> int:
    """Return how many threads the worker has that runs this task."""
    return int(distributed.get_worker().state.nthreads)
