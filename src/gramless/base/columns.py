"""The columns of data frames and tables, as numbers or as labels of categories."""

from __future__ import annotations

import datetime
import numbers
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np

from gramless.base.arrays import as_floats
from gramless.base.errors import InputError
from gramless.base.notation import MISSING_WORDS, NOTATIONS, PLAIN
from gramless.base.types import AnyArray, ArrowTable, DataFrame, NamedColumns

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


@runtime_checkable
class _ArrowArray(Protocol):
    """Columns of pyarrow's tables, whose types are attributes that differ from those of series."""

    type: object

    def to_pylist(self) -> list[object]: ...
    def to_numpy(self, zero_copy_only: bool = True) -> AnyArray: ...


class PlainColumn(NamedTuple):
    """The values of a column, and whether they are categories: declared ones, or only text."""

    values: AnyArray
    is_category: bool
    is_text: bool = False


Table: TypeAlias = DataFrame | NamedColumns | ArrowTable
Reader: TypeAlias = Callable[[], PlainColumn]

_CATEGORIES = "category", "Categorical", "Enum", "dictionary"
"""How the names of types of categories begin in pandas, polars and pyarrow."""
_WIDE_INTEGERS = "Int128", "UInt128"
"""Types of polars that NumPy lacks."""


def is_frame(X: object) -> TypeGuard[Table]:
    """Tell whether ``X`` is a table of named columns: of pandas, polars, pyarrow or our own."""
    # The type is asked: a pandas frame shows a column called "join" as an attribute.
    kinds = _FrameMethods, ArrowTable
    return isinstance(X, NamedColumns) or any(issubclass(type(X), kind) for kind in kinds)


def named_columns(X: object) -> dict[str, Reader]:
    """Return, by name, functions that each read one column as :func:`plain_column` does.

    Raises ``InputError`` if ``X`` is no table, two columns have one name, or none has a name.
    """
    if not is_frame(X):
        raise InputError(f"a data frame or a Table is needed, got {type(X).__name__}.")
    get: Callable[[str], object]
    declared: Collection[str] = ()
    if isinstance(X, NamedColumns):
        keys, get, declared = X.names, X.column, X.declared
    elif isinstance(X, ArrowTable):
        keys, get = list(X.schema.names), X.column
    else:
        keys, get = list(X.columns), X.__getitem__
    if keys is None:
        raise InputError("this table has no column names; pass its matrix instead.")
    repeated = [name for name, count in Counter(map(str, keys)).items() if count > 1]
    if repeated:
        raise InputError(f"two columns are called {repeated[0]!r}; rename one of them.")

    def read(key: str) -> PlainColumn:
        found = plain_column(str(key), get(key))
        return found._replace(is_text=False) if key in declared else found

    return {str(key): partial(read, key) for key in keys}


def plain_column(name: str, column: object) -> PlainColumn:
    """Read a column of any kind.

    Numbers become float32 or float64 with NaN where missing, dates and durations seconds, periods
    their first second. Categories stay booleans or objects. Raises ``InputError`` for anything
    else.
    """
    if is_declared(column):
        return PlainColumn(_objects(column), True)
    values = _values(name, column)
    if values.ndim != 1:
        raise InputError(f"column {name!r} holds more than one value a row.")
    kind = values.dtype.kind
    if kind in "Mm":
        start = np.datetime64(0, "s") if kind == "M" else np.timedelta64(0, "s")
        return PlainColumn((values - start) / np.timedelta64(1, "s"), False)
    if kind == "b":
        return PlainColumn(values, True)
    if kind in "iuf":
        return PlainColumn(as_floats(values), False)
    if kind not in "OUST":
        raise InputError(
            f"column {name!r} holds {values.dtype}, neither numbers, dates nor "
            "categories; drop or convert it."
        )
    return _plain_objects(name, values.astype(object))


def is_declared(column: object) -> bool:
    """Tell whether the type of a column says that it holds categories."""
    if isinstance(column, Series):
        return str(column.dtype).startswith(_CATEGORIES)
    return isinstance(column, _ArrowArray) and str(column.type).startswith(_CATEGORIES)


def _objects(column: object) -> AnyArray:
    # Missing values of dictionary columns do not survive pyarrow's to_numpy.
    values = column.to_pylist() if isinstance(column, _ArrowArray) else np.asarray(column, object)
    return np.fromiter(values, object, len(values))


def _values(name: str, column: object) -> AnyArray:
    """Return the values of a column as an array of whatever type suits them."""
    if isinstance(column, _ArrowArray):
        try:
            return np.asarray(column.to_numpy(zero_copy_only=False))
        except NotImplementedError as fault:
            raise InputError(
                f"column {name!r} holds {column.type}, neither numbers, dates nor categories; drop "
                "or convert it."
            ) from fault
    if not isinstance(column, Series):
        return np.asarray(column)
    dtype = str(column.dtype)
    if dtype in _WIDE_INTEGERS:
        integers: Any = column
        return np.array([*integers.to_list(), None], dtype=object)[:-1]
    if dtype.startswith("period"):
        periods: Any = column
        try:
            return np.asarray(periods.astype("datetime64[ns]"))
        except ValueError as fault:
            raise InputError(
                f"column {name!r} holds periods before 1678 or after 2261; convert it to numbers, "
                "such as years."
            ) from fault
    # With a time zone, pandas gives objects unless asked for UTC.
    dated = dtype.startswith(("datetime64", "timestamp"))
    return column.to_numpy(dtype="datetime64[us]") if dated else column.to_numpy()


def _plain_objects(name: str, values: AnyArray) -> PlainColumn:
    kinds = {type(value) for value in values} - {type(None)}
    unnamed = [kind.__name__ for kind in kinds if not _has_names(kind)]
    if unnamed:
        raise InputError(
            f"column {name!r} holds values of type {unnamed[0]}, which are no "
            "categories; drop or convert it."
        )
    if any(issubclass(kind, str) for kind in kinds):
        return PlainColumn(values, True, is_text=True)
    present = [value for value in values if not is_missing(value)]
    booleans = all(isinstance(value, (bool, np.bool_)) for value in present)
    if (booleans and present) or not all(isinstance(value, _MEASURED) for value in present):
        return PlainColumn(values, True)
    floats = (np.nan if is_missing(value) else _number(value) for value in values)
    return PlainColumn(np.fromiter(floats, np.float64, len(values)), False)


def _has_names(kind: type) -> bool:
    """Tell whether values of a type are told apart by what they print, and do not change."""
    plain = vars(object)
    prints = any(getattr(kind, name) is not plain[name] for name in ("__str__", "__repr__"))
    return prints and issubclass(kind, Hashable)


def is_missing(value: object) -> bool:
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
        elif is_missing(value):
            yield MISSING
        elif isinstance(value, (float, np.floating)) and value.is_integer():
            yield str(int(value))
        else:
            yield str(value)


def finite_numbers(name: str, values: AnyArray, notation: str = PLAIN) -> AnyArray:
    """Return what :func:`plain_column` read as floats, NaN where missing.

    Text, in a notation, and booleans are read as numbers. Raises ``InputError`` for infinity or
    other text.
    """
    if values.dtype == object:
        values = np.array([_parsed(name, value, notation) for value in values], np.float64)
    elif values.dtype == bool:
        values = values.astype(np.float32)
    if np.isinf(values).any():
        raise InputError(f"column {name!r} holds infinity; replace it.")
    return values


def _parsed(name: str, value: object, notation: str) -> float:
    (cell,) = labels([value])
    text = cell.strip()
    if text in MISSING_WORDS:
        return np.nan
    if text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    try:
        own = isinstance(value, str) and notation != PLAIN
        return NOTATIONS[notation].read(text) if own else float(text)
    except ValueError:
        raise InputError(
            f"column {name!r} held numbers in fit and holds {cell[:40]!r} now; "
            "give numbers, or fit again with the column as text."
        ) from None
