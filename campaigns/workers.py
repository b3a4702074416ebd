"""Fits on a Dask cluster whose workers are killed at random moments."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from functools import cache
from time import perf_counter
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from gramless.distributed import DaskKernelClassifier, DaskKernelRegressor
from gramless.distributed.partitions import Sizes

PROMISE = (
    "A fit on a cluster ends, with the bits of one that nobody disturbed, whichever workers are "
    "killed and whenever, as long as one lives."
)
FULL, SHORT = 25, 2
SECONDS, MEMORY = 300.0, 2 << 30
ENVIRONMENTS: dict[str, dict[str, str]] = {"plain": {}}

N_WORKERS, KILLS = 3, 2
N_ROWS, N_BLOCKS, N_INPUTS = 120_000, 24, 5
GIVEN: dict[str, Any] = {
    "bandwidth": 4.0,
    "alpha": 1e-6,
    "n_grids": 48,
    "scaling": "none",
    "tol": 1e-4,
    "random_state": 0,
}
SIZES = Sizes(sample_rows=20_000, min_block_rows=N_ROWS // N_BLOCKS)


class Regressor(DaskKernelRegressor):
    sizes = SIZES


class Classifier(DaskKernelClassifier):
    sizes = SIZES


KINDS = ("squares", "logistic", "grown")


def check(number: int, seed: int) -> str:
    generator = np.random.default_rng([seed, number])
    kind = KINDS[number % len(KINDS)]
    expected, seconds = undisturbed(kind)
    moments = np.sort(generator.uniform(0.0, seconds, KILLS))
    # A nanny whose worker is killed while it starts may start no other.
    with cluster() as client:
        n_killed = disturbed(kind, client, moments, generator, expected)
    return f"{kind}, {n_killed} killed"


def disturbed(
    kind: str, client: Client, moments: Any, generator: np.random.Generator, expected: bytes
) -> int:
    """Fit while workers are killed at some moments; return how many were."""
    killed: list[float] = []
    done = threading.Event()

    def kill() -> None:
        before = 0.0
        for moment in moments:
            if done.wait(moment - before):
                return
            before = moment
            while not done.is_set():
                if killed_one(client, generator):
                    killed.append(moment)
                    break
                # The last one must live until another is there.
                done.wait(0.05)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        found = fitted(kind, client)
    finally:
        done.set()
        thread.join()
    assert found == expected, f"other bits after {len(killed)} kills at {killed}"
    return len(killed)


def killed_one(client: Client, generator: np.random.Generator) -> bool:
    """Kill the process of a worker if that is not the last one."""
    if len(client.nthreads()) < 2:
        return False
    with contextlib.suppress(Exception):
        pids = sorted(client.run(os.getpid, on_error="ignore").values())
        if len(pids) > 1:
            os.kill(int(generator.choice(pids)), signal.SIGKILL)
            return True
    return False


@contextlib.contextmanager
def cluster() -> Iterator[Client]:
    """Start workers whose nannies start others in the place of the dead."""
    with (
        LocalCluster(
            n_workers=N_WORKERS,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        ) as workers,
        Client(workers) as client,
    ):
        # Loops are loaded before anybody is killed.
        fitted("squares", client)
        yield client


@cache
def undisturbed(kind: str) -> tuple[bytes, float]:
    """Return the bits of a fit, and how long it takes once loops are loaded."""
    with cluster() as client:
        fitted(kind, client)
        begun = perf_counter()
        found = fitted(kind, client)
        return found, perf_counter() - begun


def fitted(kind: str, client: Client) -> bytes:
    """Return the bits of a fit."""
    X, y = table()
    if kind == "squares":
        return bytes(Regressor(**GIVEN, client=client).fit(X, y).weights_)
    if kind == "logistic":
        model = Classifier(**GIVEN, loss="logistic", client=client)
        return bytes(model.fit(X, y > 0).weights_)
    grown = Regressor(effort=1, n_grids=48, tol=1e-4, random_state=0, client=client)
    return bytes(grown.fit(X, y).weights_)


def made(number: int) -> np.ndarray:
    """Return the rows of a partition, and targets in the last column."""
    generator = np.random.default_rng(number)
    X = generator.normal(size=(N_ROWS // N_BLOCKS, N_INPUTS))
    noise = 0.2 * generator.normal(size=len(X))
    return np.column_stack([X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + noise])


def table() -> tuple[da.Array, da.Array]:
    shape = N_ROWS // N_BLOCKS, N_INPUTS + 1
    whole = da.concatenate(
        [da.from_delayed(dask.delayed(made)(k), shape, float) for k in range(N_BLOCKS)]
    )
    return whole[:, :-1], whole[:, -1]
