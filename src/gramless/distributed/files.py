"""Connect to a cluster and read files on its workers, for the command line."""

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

_CONNECT_TIMEOUT = 5  # seconds
# Rows that decide the task and the types of columns. There are fewer if the first partition is
# shorter, because Dask's head() reads only that one.
_HEAD_ROWS = 10_000


@contextmanager
def connect_client(address: str) -> Iterator[Client]:
    """Connect to the scheduler at an address such as ``tcp://10.0.0.1:8786``.

    Raise ClusterError if none answers.
    """
    try:
        client = Client(address, timeout=_CONNECT_TIMEOUT)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"there is no scheduler at {address}: {error}; start one with 'dask scheduler', and "
            f"workers with 'dask worker {address}'."
        ) from error
    with client:
        yield client


def read_frame(path: Path) -> Collection:
    """Return a Dask data frame of a CSV, TSV or Parquet file, which workers read in parts.

    Each worker must find the file at the same path. Raise InputError for other formats.
    """
    import dask.dataframe as dd

    separators = {".csv": ",", ".tsv": "\t"}
    location, suffix = str(path.resolve()), path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return dd.read_parquet(location)
    if suffix in separators:
        return dd.read_csv(location, sep=separators[suffix])
    raise InputError(
        f"{path}: workers read .csv, .tsv and .parquet files; convert it, or fit without --cluster."
    )


def read_head(frame: Collection) -> dict[str, AnyArray]:
    head = frame.head(_HEAD_ROWS)
    return {str(name): head[name].to_numpy() for name in head.columns}


def as_dask_estimator(
    machine: KernelMachine, client: Client
) -> DaskKernelRegressor | DaskKernelClassifier:
    # The command line makes no other estimators than these two.
    is_classifier = isinstance(machine, KernelClassifier)
    dask_class = DaskKernelClassifier if is_classifier else DaskKernelRegressor
    return dask_class(**machine.get_params(deep=False), client=client)
