"""The columns of data frames and tables, as numbers or as labels of categories."""

from __future__ import annotations

import datetime
import numbers
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError

MISSING = ""

_EPOCH = datetime.datetime(1970, 1, 1)
_TRUTH = {"true": 1.0, "false": 0.0}
_MEASURED = (
    numbers.Real,
    Decimal,
    np.bool_,
    datetime.date,
    datetime.time,
    datetime.timedelta,
)

Values = NDArray[Any]
Reader = Callable[[], tuple[Values, bool]]


def is_frame(X: Any) -> bool:
    """Tell whether ``X`` is a table of named columns, which needs a ``TableEncoder``.

    Parameters
    ----------
    X : object

    Returns
    -------
    bool
        True for pandas and polars data frames and for objects with ``names``
        and ``column(name)``; a polars LazyFrame must be collected first.

    Examples
    --------
    >>> from gramless.datasets import Table
    >>> is_frame(Table({"a": np.array([1.0])})), is_frame(np.eye(2))
    (True, False)
    """
    kind = type(X)
    asked = ("columns", "dtypes", "shape", "__getitem__")
    return _is_table(X) or all(hasattr(kind, name) for name in asked)


def _is_table(X: Any) -> bool:
    # Asked of the type: a pandas frame shows a column called "names" as an attribute.
    return callable(getattr(type(X), "column", None)) and hasattr(X, "names")


def named_columns(X: Any) -> dict[str, Reader]:
    """Return, by name, functions that read one column of a frame each.

    Parameters
    ----------
    X : data frame or Table

    Returns
    -------
    dict of str to callable
        Each returns what :func:`plain_column` does.

    Raises
    ------
    InputError
        If ``X`` is no table, two columns have one name, or none has a name.
    """
    if not is_frame(X):
        raise InputError(f"TableEncoder needs a data frame or a Table, got {type(X).__name__}.")
    keys = X.names if _is_table(X) else list(X.columns)
    if keys is None:
        raise InputError("TableEncoder: this table has no column names; pass its matrix instead.")
    repeated = [name for name, count in Counter(map(str, keys)).items() if count > 1]
    if repeated:
        raise InputError(
            f"TableEncoder: two columns are called {repeated[0]!r}; rename one of them."
        )
    get = X.column if _is_table(X) else X.__getitem__

    def reader(key: Any) -> Reader:
        return lambda: plain_column(str(key), get(key))

    return {str(key): reader(key) for key in keys}


def plain_column(name: str, column: Any) -> tuple[Values, bool]:
    """Read a column of any kind.

    Parameters
    ----------
    name : str
        For messages.
    column : ndarray, pandas or polars Series

    Returns
    -------
    values : ndarray (n,)
        float32 or float64 (seconds for dates and durations), NaN where missing;
        booleans or objects.
    categorical : bool
        Whether these are booleans or objects, which stand for categories.

    Raises
    ------
    InputError
        If the values are neither numbers nor dates nor categories.
    """
    dtype = getattr(column, "dtype", None)
    if getattr(dtype, "name", None) == "category":
        return np.asarray(column, dtype=object), True
    if getattr(dtype, "kind", None) == "M" and not isinstance(column, np.ndarray):
        # With a time zone, pandas gives objects unless asked for UTC.
        values = column.to_numpy(dtype="datetime64[us]")
    else:
        values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if values.ndim != 1:
        raise InputError(f"TableEncoder: column {name!r} holds more than one value a row.")
    kind = values.dtype.kind
    if kind in "Mm":
        start = np.datetime64(0, "s") if kind == "M" else np.timedelta64(0, "s")
        return (values - start) / np.timedelta64(1, "s"), False
    if kind == "b":
        return values, True
    if kind in "iuf":
        narrow = np.result_type(np.float32, values.dtype) == np.float32
        return values.astype(np.float32 if narrow else np.float64, copy=False), False
    if kind not in "OUST":
        raise InputError(
            f"TableEncoder: column {name!r} holds {values.dtype}, neither numbers, dates nor "
            "categories; drop or convert it."
        )
    return _plain_objects(name, values.astype(object))


def _plain_objects(name: str, values: Values) -> tuple[Values, bool]:
    kinds = {type(value) for value in values} - {type(None)}
    strays = [kind.__name__ for kind in kinds if not issubclass(kind, Hashable)]
    if strays:
        raise InputError(
            f"TableEncoder: column {name!r} holds values of type {strays[0]}, which are no "
            "categories; drop or convert it."
        )
    if any(issubclass(kind, str) for kind in kinds):
        return values, True
    present = [value for value in values if not _is_missing(value)]
    truths = all(isinstance(value, (bool, np.bool_)) for value in present)
    if (truths and present) or not all(isinstance(value, _MEASURED) for value in present):
        return values, True
    floats = (np.nan if _is_missing(value) else _number(value) for value in values)
    return np.fromiter(floats, np.float64, len(values)), False


def _is_missing(value: Any) -> bool:
    """Tell None, NaN, NaT and pandas' NA, whose comparison is no truth value."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return True


def _number(value: Any) -> float:
    if isinstance(value, datetime.datetime):
        local = value.replace(tzinfo=None) - _EPOCH
        return (local - (value.utcoffset() or datetime.timedelta(0))).total_seconds()
    if isinstance(value, datetime.date):
        return (value - _EPOCH.date()).total_seconds()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.time):
        return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    return float(value)


def labels(values: Iterable[Any]) -> Iterator[str]:
    """Name categories alike, whether they came as text or as numbers; a missing one is ``""``.

    Examples
    --------
    >>> list(labels(["red", 2.0, None, np.True_]))
    ['red', '2', '', 'True']
    """
    for value in values:
        if isinstance(value, str):
            yield value
        elif _is_missing(value):
            yield MISSING
        elif isinstance(value, (float, np.floating)) and value.is_integer():
            yield str(int(value))
        else:
            yield str(value)


def finite_numbers(name: str, values: Values) -> Values:
    """Return a column of numbers, NaN where missing.

    Parameters
    ----------
    name : str
        For messages.
    values : ndarray (n,)
        As :func:`plain_column` returns it; text and booleans are read as numbers.

    Returns
    -------
    ndarray (n,) of float

    Raises
    ------
    InputError
        If a cell holds infinity or text that is no number.
    """
    if values.dtype == object:
        values = np.array([_parsed(name, cell) for cell in labels(values)])
    elif values.dtype == bool:
        values = values.astype(np.float32)
    if np.isinf(values).any():
        raise InputError(f"TableEncoder: column {name!r} holds infinity; replace it.")
    return values


def _parsed(name: str, cell: str) -> float:
    text = cell.strip().lower()
    if text == MISSING:
        return np.nan
    try:
        return _TRUTH[text] if text in _TRUTH else float(text)
    except ValueError:
        raise InputError(
            f"TableEncoder: column {name!r} held numbers in fit and holds {cell[:40]!r} now; "
            "give numbers, or fit again with the column as text."
        ) from None
