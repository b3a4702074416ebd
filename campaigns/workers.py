"""Fits on a Dask cluster whose workers are killed at random times."""

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
    "A fit on a cluster ends with the same bits as an undisturbed fit, whichever workers are "
    "killed at any time, as long as one is alive."
)
FULL, SHORT = 25, 2
SECONDS, MEMORY = 300.0, 2 << 30
ENVIRONMENTS: dict[str, dict[str, str]] = {"plain": {}}

N_WORKERS, KILLS = 3, 2
N_ROWS, N_BLOCKS, N_INPUTS = 120_000, 24, 5
FIXED: dict[str, Any] = {
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
    expected, seconds = fit_without_kills(kind)
    moments = np.sort(generator.uniform(0.0, seconds, KILLS))
    # A nanny whose worker is killed during its start may not start another.
    with cluster() as client:
        n_killed = fit_with_kills(kind, client, moments, generator, expected)
    return f"{kind}, {n_killed} killed"


def fit_with_kills(
    kind: str, client: Client, moments: Any, generator: np.random.Generator, expected: bytes
) -> int:
    """Fit while workers are killed at given times, and return the number of killed workers."""
    killed: list[float] = []
    done = threading.Event()

    def kill() -> None:
        before = 0.0
        for moment in moments:
            if done.wait(moment - before):
                return
            before = moment
            while not done.is_set():
                if kill_worker(client, generator):
                    killed.append(moment)
                    break
                # Do not kill the last worker before another has started.
                done.wait(0.05)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        weights = fit(kind, client)
    finally:
        done.set()
        thread.join()
    assert weights == expected, f"other bits after {len(killed)} kills at {killed}"
    return len(killed)


def kill_worker(client: Client, generator: np.random.Generator) -> bool:
    """Kill a worker process unless it is the last one, and return whether one was killed."""
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
    """Start workers whose nannies replace killed workers."""
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
        # Load the compiled loops before a worker is killed.
        fit("squares", client)
        yield client


@cache
def fit_without_kills(kind: str) -> tuple[bytes, float]:
    """Return the bits of a fit's weights, and its seconds once loops are loaded."""
    with cluster() as client:
        fit(kind, client)
        start = perf_counter()
        weights = fit(kind, client)
        return weights, perf_counter() - start


def fit(kind: str, client: Client) -> bytes:
    """Return the bits of a fit's weights."""
    X, y = table()
    if kind == "squares":
        return bytes(Regressor(**FIXED, client=client).fit(X, y).weights_)
    if kind == "logistic":
        model = Classifier(**FIXED, loss="logistic", client=client)
        return bytes(model.fit(X, y > 0).weights_)
    grown = Regressor(effort=1, n_grids=48, tol=1e-4, random_state=0, client=client)
    return bytes(grown.fit(X, y).weights_)


def make_partition(number: int) -> np.ndarray:
    """Return the rows of a partition, with targets in the last column."""
    generator = np.random.default_rng(number)
    X = generator.normal(size=(N_ROWS // N_BLOCKS, N_INPUTS))
    noise = 0.2 * generator.normal(size=len(X))
    return np.column_stack([X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + noise])


def table() -> tuple[da.Array, da.Array]:
    shape = N_ROWS // N_BLOCKS, N_INPUTS + 1
    rows = da.concatenate(
        [da.from_delayed(dask.delayed(make_partition)(k), shape, float) for k in range(N_BLOCKS)]
    )
    return rows[:, :-1], rows[:, -1]
