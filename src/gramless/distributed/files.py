"""Files that workers read, and clusters by their address: what the command line needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client

from gramless.base.errors import ClusterError, InputError
from gramless.base.types import AnyArray
from gramless.distributed.estimators import DaskKernelClassifier, DaskKernelRegressor
from gramless.distributed.partitions import Collection
from gramless.estimators.base import KernelMachine
from gramless.estimators.classifier import KernelClassifier

_CONNECTING = 5
_HEAD_ROWS = 10_000


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Connect to the scheduler at an address such as ``tcp://10.0.0.1:8786``."""
    try:
        client = Client(address, timeout=_CONNECTING)
    except (OSError, ValueError) as fault:
        raise ClusterError(
            f"there is no scheduler at {address}: {fault}; start one with 'dask scheduler', and "
            f"workers with 'dask worker {address}'."
        ) from fault
    with client:
        yield client


def read_frame(path: Path) -> Collection:
    """Return a Dask data frame of a CSV, TSV or Parquet file, which workers read in parts.

    Each worker must find the file at the same path.
    """
    import dask.dataframe as dd

    endings = {".csv": ",", ".tsv": "\t"}
    where, ending = str(path.resolve()), path.suffix.lower()
    if ending in (".parquet", ".pq"):
        return dd.read_parquet(where)
    if ending in endings:
        return dd.read_csv(where, sep=endings[ending])
    raise InputError(
        f"{path}: workers read .csv, .tsv and .parquet files; convert it, or fit without --cluster."
    )


def head_of(frame: Collection) -> dict[str, AnyArray]:
    """Return the columns of the first rows of a frame as arrays, to see what they hold."""
    head = frame.head(_HEAD_ROWS)
    return {str(name): head[name].to_numpy() for name in head.columns}


def on_cluster(
    machine: KernelMachine, client: Client
) -> DaskKernelRegressor | DaskKernelClassifier:
    """Return an unfitted machine with the same parameters, which is fitted on a cluster."""
    classifies = isinstance(machine, KernelClassifier)
    kind = DaskKernelClassifier if classifies else DaskKernelRegressor
    return kind(**machine.get_params(deep=False), client=client)
