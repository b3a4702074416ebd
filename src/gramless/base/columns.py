"""The columns of data frames and tables, as numbers or as labels of categories."""

from __future__ import annotations

import datetime
import numbers
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from decimal import Decimal
from functools import partial
from typing import Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np

from gramless.base.arrays import as_floats
from gramless.base.errors import InputError
from gramless.base.types import AnyArray, DataFrame, NamedColumns

MISSING = ""
"""The label of a missing category."""

_EPOCH = datetime.datetime(1970, 1, 1)
_BOOLEANS = {"true": 1.0, "false": 0.0}
_MEASURED = (numbers.Real, Decimal, np.bool_, datetime.date, datetime.time, datetime.timedelta)


@runtime_checkable
class _FrameMethods(Protocol):
    """Methods of the data frames of pandas and polars; lazy frames have no length."""

    def __len__(self) -> int: ...
    def __getitem__(self, name: str, /) -> object: ...
    def head(self, n: int = 5) -> object: ...
    def join(self, other: object, /) -> object: ...


@runtime_checkable
class Series(Protocol):
    """What the columns of data frames share."""

    dtype: object

    def to_numpy(self, dtype: str | None = None) -> AnyArray:
        """Return the values as an array."""


Table: TypeAlias = DataFrame | NamedColumns
Reader: TypeAlias = Callable[[], tuple[AnyArray, bool]]


def is_frame(X: object) -> TypeGuard[Table]:
    """Tell whether ``X`` is a table of named columns, such as a data frame of pandas or polars."""
    # The type is asked: a pandas frame shows a column called "join" as an attribute.
    return isinstance(X, NamedColumns) or issubclass(type(X), _FrameMethods)


def named_columns(X: object) -> dict[str, Reader]:
    """Return, by name, functions that each read one column as :func:`plain_column` does.

    Raises ``InputError`` if ``X`` is no table, two columns have one name, or none has a name.
    """
    if not is_frame(X):
        raise InputError(f"a data frame or a Table is needed, got {type(X).__name__}.")
    get: Callable[[str], object]
    if isinstance(X, NamedColumns):
        keys, get = X.names, X.column
    else:
        keys, get = list(X.columns), X.__getitem__
    if keys is None:
        raise InputError("this table has no column names; pass its matrix instead.")
    repeated = [name for name, count in Counter(map(str, keys)).items() if count > 1]
    if repeated:
        raise InputError(f"two columns are called {repeated[0]!r}; rename one of them.")
    return {str(key): partial(lambda key: plain_column(str(key), get(key)), key) for key in keys}


def plain_column(name: str, column: object) -> tuple[AnyArray, bool]:
    """Read a column of any kind: its values, and whether they are categories.

    Numbers become float32 or float64 with NaN where missing, dates and durations seconds.
    Categories stay booleans or objects. Raises ``InputError`` for anything else.
    """
    if isinstance(column, Series):
        dtype = str(column.dtype)
        if dtype == "category":
            return np.asarray(column, dtype=object), True
        # With a time zone, pandas gives objects unless asked for UTC.
        dated = dtype.startswith(("datetime64", "timestamp"))
        values = column.to_numpy(dtype="datetime64[us]") if dated else column.to_numpy()
    else:
        values = np.asarray(column)
    if values.ndim != 1:
        raise InputError(f"column {name!r} holds more than one value a row.")
    kind = values.dtype.kind
    if kind in "Mm":
        start = np.datetime64(0, "s") if kind == "M" else np.timedelta64(0, "s")
        return (values - start) / np.timedelta64(1, "s"), False
    if kind == "b":
        return values, True
    if kind in "iuf":
        return as_floats(values), False
    if kind not in "OUST":
        raise InputError(
            f"column {name!r} holds {values.dtype}, neither numbers, dates nor "
            "categories; drop or convert it."
        )
    return _plain_objects(name, values.astype(object))


def _plain_objects(name: str, values: AnyArray) -> tuple[AnyArray, bool]:
    kinds = {type(value) for value in values} - {type(None)}
    unhashable = [kind.__name__ for kind in kinds if not issubclass(kind, Hashable)]
    if unhashable:
        raise InputError(
            f"column {name!r} holds values of type {unhashable[0]}, which are no "
            "categories; drop or convert it."
        )
    if any(issubclass(kind, str) for kind in kinds):
        return values, True
    present = [value for value in values if not _is_missing(value)]
    booleans = all(isinstance(value, (bool, np.bool_)) for value in present)
    if (booleans and present) or not all(isinstance(value, _MEASURED) for value in present):
        return values, True
    floats = (np.nan if _is_missing(value) else _number(value) for value in values)
    return np.fromiter(floats, np.float64, len(values)), False


def _is_missing(value: object) -> bool:
    """Recognise None, NaN, NaT and pandas' NA, whose comparison is no truth value."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return True


def _number(value: object) -> float:
    if isinstance(value, datetime.datetime):
        local = value.replace(tzinfo=None) - _EPOCH
        return (local - (value.utcoffset() or datetime.timedelta(0))).total_seconds()
    if isinstance(value, datetime.date):
        return (value - _EPOCH.date()).total_seconds()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.time):
        return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    return float(value)  # type: ignore[arg-type]


def labels(values: Iterable[object]) -> Iterator[str]:
    """Name categories alike, whether they came as text or as numbers; a missing one is ``""``."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif _is_missing(value):
            yield MISSING
        elif isinstance(value, (float, np.floating)) and value.is_integer():
            yield str(int(value))
        else:
            yield str(value)


def finite_numbers(name: str, values: AnyArray) -> AnyArray:
    """Return what :func:`plain_column` read as floats, NaN where missing.

    Text and booleans are read as numbers. Raises ``InputError`` for infinity or other text.
    """
    if values.dtype == object:
        values = np.array([_parsed(name, cell) for cell in labels(values)])
    elif values.dtype == bool:
        values = values.astype(np.float32)
    if np.isinf(values).any():
        raise InputError(f"column {name!r} holds infinity; replace it.")
    return values


def _parsed(name: str, cell: str) -> float:
    text = cell.strip().lower()
    if text == MISSING:
        return np.nan
    try:
        return _BOOLEANS[text] if text in _BOOLEANS else float(text)
    except ValueError:
        raise InputError(
            f"column {name!r} held numbers in fit and holds {cell[:40]!r} now; "
            "give numbers, or fit again with the column as text."
        ) from None
