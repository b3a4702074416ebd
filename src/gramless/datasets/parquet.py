"""Parquet, through pyarrow or polars, whichever is installed."""

from __future__ import annotations

import importlib
import io
from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import DataFileError, MissingDependencyError
from gramless.datasets.files import open_bytes, plain_path
from gramless.datasets.table import Table


def read_parquet(path: str | Path) -> Table:
    """Read a Parquet file.

    Parameters
    ----------
    path : str or Path
        Plain or wrapped in ``.gz``, ``.bz2`` or ``.xz``.

    Returns
    -------
    Table
        Numbers as float32 or float64 with NaN for missing values; dates,
        times and durations as float64 seconds (since 1970 or midnight);
        booleans, text and categories as object arrays of str with ``""``.

    Raises
    ------
    DataFileError
        If the file is damaged, has no rows, or has nested or binary columns.
    MissingDependencyError
        If neither polars nor pyarrow is installed.

    Notes
    -----
    Holds the compressed file and the decoded columns.
    """
    where = plain_path(path)
    with open_bytes(where) as file:
        content = file.read()
    raw = _decode(where, content)
    columns = {name: _plain(where, name, values) for name, values in raw.items()}
    if not columns or not len(next(iter(columns.values()))):
        raise DataFileError(f"{where} has no rows or no columns; copy or make it again.")
    return Table(columns, source=str(where))


def _decode(path: Path, content: bytes) -> dict[str, NDArray[Any]]:
    # pyarrow first: a damaged file can make polars end the whole process.
    for package, decoder in (("pyarrow", _with_pyarrow), ("polars", _with_polars)):
        try:
            module = importlib.import_module(package)
        except ImportError:
            continue
        return decoder(path, content, module)
    raise MissingDependencyError(
        f"Reading {path} needs polars or pyarrow: pip install gramless[tables]."
    )


def _with_polars(path: Path, content: bytes, polars: Any) -> dict[str, NDArray[Any]]:
    errors = polars.exceptions
    try:
        frame = polars.read_parquet(io.BytesIO(content))
        return {column.name: column.to_numpy() for column in frame.iter_columns()}
    # Damaged pages end in a panic, which is no Exception.
    except (errors.PolarsError, errors.PanicException, OSError, ValueError) as fault:
        raise _damaged(path, fault) from fault


def _with_pyarrow(path: Path, content: bytes, pyarrow: Any) -> dict[str, NDArray[Any]]:
    parquet = importlib.import_module("pyarrow.parquet")
    try:
        table = parquet.read_table(io.BytesIO(content))
        return {
            name: _from_arrow(column)
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    except (pyarrow.ArrowException, OSError, ValueError, RuntimeError) as fault:
        raise _damaged(path, fault) from fault


def _from_arrow(column: Any) -> NDArray[Any]:
    # Missing values of dictionary columns do not survive to_numpy.
    if str(column.type).startswith("dictionary"):
        return _objects(column.to_pylist())
    return np.asarray(column.to_numpy())


def _damaged(path: Path, fault: BaseException) -> DataFileError:
    what = str(fault).splitlines()[0][:200] if str(fault) else type(fault).__name__
    return DataFileError(
        f"{path} is damaged or not a Parquet file ({what}); copy or download it again."
    )


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


def _objects(values: list[Any]) -> NDArray[Any]:
    return np.array(values, dtype=object)
