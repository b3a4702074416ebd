"""One cluster of two worker processes for all tests that need processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dask
import pytest
from distributed import Client, LocalCluster

OPTIONS = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
HERE = {"processes": True, "host": "127.0.0.1"}
"""Processes that nobody reaches from another machine."""


LOST_WORKERS = {"distributed.deploy.lost-worker-timeout": "10 minutes"}
"""How long a cluster waits for a killed worker to come back: on a slow machine that takes longer
than Dask's 15 seconds, after which the worker is gone for good."""


@contextmanager
def cluster_of(n_workers: int, *, processes: bool) -> Iterator[Client]:
    with (
        dask.config.set(LOST_WORKERS),
        LocalCluster(
            n_workers=n_workers, **OPTIONS, **(HERE if processes else {"processes": False})
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    """Two workers of one thread, inside of this process: that takes no time to start."""
    with cluster_of(2, processes=False) as client:
        yield client
