"""Parquet, through pyarrow or polars, whichever is installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import DataFileError, MissingDependencyError
from gramless.datasets.files import faults, plain_path, read_unpacked
from gramless.datasets.limits import ReadLimits
from gramless.datasets.table import Table


def read_parquet(path: str | Path, *, limits: ReadLimits | None = None) -> Table:
    """Read a Parquet file.

    Parameters
    ----------
    path : str or Path
        Plain or wrapped in ``.gz``, ``.bz2`` or ``.xz``.
    limits : ReadLimits, default=None
        What reading may take; by default ``ReadLimits()``.

    Returns
    -------
    Table
        Numbers as float32 or float64 with NaN for missing values; dates,
        times and durations as float64 seconds (since 1970 or midnight);
        booleans, text and categories as object arrays of str with ``""``.

    Raises
    ------
    DataFileError
        If the file is damaged, has no rows, has nested or binary columns, or is
        beyond the limits.
    MissingDependencyError
        If neither polars nor pyarrow is installed.

    Notes
    -----
    Holds the compressed file and the decoded columns.
    """
    where = plain_path(path)
    limits = limits or ReadLimits()
    content = read_unpacked(where, limits)
    n_rows, n_columns = _size(where, content)
    what = f"a table of {n_rows:,} rows and {n_columns:,} columns"
    limits.check_memory(where, what, 8 * n_rows * n_columns, "Read it by open_chunks.")
    with faults(where):
        raw = _decode(where, content)
    columns = {name: _plain(where, name, values) for name, values in raw.items()}
    if not columns or not len(next(iter(columns.values()))):
        raise _no_rows(where)
    return Table(columns, source=str(where))


def parquet_batches(path: Path, most_rows: int) -> tuple[int, Iterator[Table]]:
    """Open a plain Parquet file to be read some rows at a time.

    Parameters
    ----------
    path : Path
    most_rows : int
        Of one table, at least 1.

    Returns
    -------
    n_rows : int
    tables : iterator of Table
        As :func:`read_parquet` reads them, in the order of the file. A column that misses all
        its values in one table is float64 there, whatever it is elsewhere.

    Raises
    ------
    DataFileError, MissingDependencyError
        As :func:`read_parquet`.

    Notes
    -----
    pyarrow holds one compressed row group and one table; polars decodes every row group anew
    for each table cut from it.
    """
    package, module = _engine(path)
    opened = _batches_with_pyarrow if package == "pyarrow" else _batches_with_polars
    with _faults(path, package, module):
        n_rows, batches = opened(path, most_rows, module)
    if n_rows == 0:
        raise _no_rows(path)
    return n_rows, _tables(path, batches, package, module)


def _tables(
    path: Path, batches: Iterator[dict[str, NDArray[Any]]], package: str, module: Any
) -> Iterator[Table]:
    while True:
        with _faults(path, package, module):
            raw = next(batches, None)
        if raw is None:
            return
        columns = {name: _plain(path, name, values) for name, values in raw.items()}
        yield Table(columns, source=str(path))


def _batches_with_pyarrow(
    path: Path, most_rows: int, pyarrow: Any
) -> tuple[int, Iterator[dict[str, NDArray[Any]]]]:
    file = importlib.import_module("pyarrow.parquet").ParquetFile(path)

    def read() -> Iterator[dict[str, NDArray[Any]]]:
        with file:
            for batch in file.iter_batches(batch_size=most_rows):
                yield _arrow_columns(pyarrow.Table.from_batches([batch]))

    return int(file.metadata.num_rows), read()


def _batches_with_polars(
    path: Path, most_rows: int, polars: Any
) -> tuple[int, Iterator[dict[str, NDArray[Any]]]]:
    frame = polars.scan_parquet(path)
    n_rows = int(frame.select(polars.len()).collect().item())

    def read() -> Iterator[dict[str, NDArray[Any]]]:
        for start in range(0, n_rows, most_rows):
            yield _polars_columns(frame.slice(start, most_rows).collect())

    return n_rows, read()


def _size(path: Path, content: IO[bytes]) -> tuple[int, int]:
    """Return the numbers of rows and columns that a file says it has."""
    package, module = _engine(path)
    with _faults(path, package, module):
        if package == "polars":
            frame = module.scan_parquet(content)
            n_rows = int(frame.select(module.len()).collect().item())
            return n_rows, len(frame.collect_schema())
        metadata = importlib.import_module("pyarrow.parquet").ParquetFile(content).metadata
        return int(metadata.num_rows), int(metadata.num_columns)


def _decode(path: Path, content: IO[bytes]) -> dict[str, NDArray[Any]]:
    package, module = _engine(path)
    content.seek(0)
    with _faults(path, package, module):
        if package == "polars":
            return _polars_columns(module.read_parquet(content))
        return _arrow_columns(importlib.import_module("pyarrow.parquet").read_table(content))


def _engine(path: Path) -> tuple[str, Any]:
    """Return the name and the module of what is installed to read Parquet."""
    # pyarrow first: a damaged file can make polars end the whole process.
    for package in ("pyarrow", "polars"):
        try:
            return package, importlib.import_module(package)
        except ImportError:
            continue
    raise MissingDependencyError(
        f"Reading {path} needs polars or pyarrow: pip install gramless[cli]."
    )


@contextmanager
def _faults(path: Path, package: str, module: Any) -> Iterator[None]:
    """Turn what the reader of Parquet raises for a damaged file into DataFileError."""
    kinds: tuple[type[BaseException], ...]
    if package == "polars":
        # Damaged pages end in a panic, which is no Exception.
        kinds = (module.exceptions.PolarsError, module.exceptions.PanicException)
    else:
        kinds = (module.ArrowException, RuntimeError)
    try:
        yield
    except (*kinds, OSError, ValueError) as fault:
        what = str(fault).splitlines()[0][:200] if str(fault) else type(fault).__name__
        raise DataFileError(
            f"{path} is damaged or not a Parquet file ({what}); copy or download it again."
        ) from fault


def _polars_columns(frame: Any) -> dict[str, NDArray[Any]]:
    return {column.name: column.to_numpy() for column in frame.iter_columns()}


def _arrow_columns(table: Any) -> dict[str, NDArray[Any]]:
    pairs = zip(table.column_names, table.columns, strict=True)
    return {name: _from_arrow(column) for name, column in pairs}


def _from_arrow(column: Any) -> NDArray[Any]:
    # Missing values of dictionary columns do not survive to_numpy.
    if str(column.type).startswith("dictionary"):
        return _objects(column.to_pylist())
    return np.asarray(column.to_numpy())


def _plain(path: Path, name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return a column as numbers, booleans or an object array of str."""
    kind = values.dtype.kind
    if kind == "M":
        return (values - np.datetime64(0, "D")) / np.timedelta64(1, "s")
    if kind == "m":
        return values / np.timedelta64(1, "s")
    if kind in "biuf":
        return values
    present = [value for value in values if value is not None]
    if kind in "OUS" and all(isinstance(value, (str, bool, np.bool_)) for value in present):
        if not present:
            return np.full(len(values), np.nan)
        return _objects(["" if value is None else str(value) for value in values])
    if all(isinstance(value, (Decimal, time)) for value in present):
        return np.array([np.nan if value is None else _number(value) for value in values])
    raise DataFileError(
        f"{path}, column {name!r}: values of {type(present[0]).__name__} have no use as numbers "
        "or categories; drop the column or convert it."
    )


def _number(value: Decimal | time) -> float:
    if isinstance(value, Decimal):
        return float(value)
    return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6


def _no_rows(path: Path) -> DataFileError:
    return DataFileError(f"{path} has no rows or no columns; copy or make it again.")


def _objects(values: list[Any]) -> NDArray[Any]:
    return np.array(values, dtype=object)
