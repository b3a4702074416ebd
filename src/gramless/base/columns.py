"""The columns of data frames and tables, as numbers or as labels of categories."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np

from gramless.base.arrays import as_floats
from gramless.base.errors import InputError
from gramless.base.notation import NOTATIONS, NOTATIONS_OF_TIMES, PLAIN
from gramless.base.types import AnyArray, ArrowTable, DataFrame, NamedColumns
from gramless.portable import (
    LABEL_WRITERS,
    MISSING_WORDS,
    category_label,
    is_missing,
    label,
    seconds_or_number,
    type_of,
)

MISSING = ""
"""The label of a missing category."""

COLUMN_TYPES = {
    "number": "numbers",
    "text": "text",
    "category": "categories",
    "boolean": "booleans",
    "datetime": "datetimes",
    "zoned": "datetimes with a time zone",
    "timedelta": "timedeltas",
    "time": "times of day",
    "empty": "no values",
}
"""Types of columns, which files keep, and what messages call their values."""

_BOOLEANS = {"true": 1.0, "false": 0.0}
_NOT_A_TIME = "NaT"
_EXACT = 2**53
"""The largest integer up to which float64 holds every integer exactly."""
_INTEGERS_OR_BOOLEANS = re.compile(r"u?int\d+|bool")
# The time zone in the names of types of pyarrow, polars and pandas.
_WITH_ZONE = re.compile(r"tz=|time_zone='|datetime64\[\w+, ")


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
class _Named(Protocol):
    name: object


@runtime_checkable
class _ArrowArray(Protocol):
    """Columns of pyarrow's tables, whose types are attributes that differ from those of series."""

    type: object

    def to_pylist(self) -> list[object]: ...
    def to_numpy(self, zero_copy_only: bool = True) -> AnyArray: ...


class PlainColumn(NamedTuple):
    """The values of a column and their type, one of ``COLUMN_TYPES``.

    Numbers, datetimes and the like are floats, the others objects or booleans. ``integers`` holds
    the exact values if float64 would round some: categories need every digit.
    """

    values: AnyArray
    type: str
    integers: AnyArray | None = None

    @property
    def is_category(self) -> bool:
        """Return whether the values are categories, unless their text is numbers or dates."""
        return self.type in ("text", "category", "boolean")

    @property
    def is_text(self) -> bool:
        """Return whether the values are text, and not declared to be categories."""
        return self.type == "text"

    def category_labels(self) -> Iterator[str]:
        """Return the label of each value as a category; see :func:`category_labels`."""
        write = LABEL_WRITERS.get(self.type)
        if write is not None:
            return (MISSING if np.isnan(value) else write(value) for value in self.values.tolist())
        return category_labels(self.values if self.integers is None else self.integers)


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


def target_name(y: object) -> str | None:
    """Return the name of a series of pandas or polars, None for other targets."""
    if isinstance(y, Series) and isinstance(y, _Named) and isinstance(y.name, str):
        return y.name or None
    return None


def named_columns(X: object) -> dict[str, Reader]:
    """Return, by name, functions that each read one column as :func:`plain_column` does.

    Raises ``InputError`` if ``X`` is no table, two columns have one name, or none has a name.
    """
    if not is_frame(X):
        raise InputError(f"a data frame or a Table is needed, got {type(X).__name__}.")
    get: Callable[[str], object]
    declared: Collection[str] = ()
    types: Mapping[str, str] = {}
    if isinstance(X, NamedColumns):
        keys, get, declared, types = X.names, X.column, X.declared, X.types
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
        column = plain_column(str(key), get(key))
        if key in declared and column.is_text:
            return column._replace(type="category")
        return column._replace(type=types.get(key, column.type))

    return {str(key): partial(read, key) for key in keys}


def plain_column(name: str, column: object) -> PlainColumn:
    """Read a column of any kind.

    Numbers become float32 or float64 with NaN where missing, dates and durations seconds, periods
    their first second. Categories stay booleans or objects. Raises ``InputError`` for anything
    else.
    """
    if is_declared(column):
        return PlainColumn(_objects(column), "category")
    values = _values(name, column)
    if values.ndim != 1:
        raise InputError(f"column {name!r} holds more than one value a row.")
    kind = values.dtype.kind
    if kind == "M":
        seconds = (values - np.datetime64(0, "s")) / np.timedelta64(1, "s")
        return PlainColumn(seconds, "zoned" if _has_time_zone(column) else "datetime")
    if kind == "m":
        return PlainColumn(values / np.timedelta64(1, "s"), "timedelta")
    if kind == "b":
        return PlainColumn(values, "boolean")
    if kind in "iuf":
        floats = as_floats(values)
        return PlainColumn(floats, "number", _large_integers(column, values, floats))
    if kind not in "OUST":
        raise InputError(
            f"column {name!r} holds {values.dtype}, neither numbers, dates nor "
            "categories; drop or convert it."
        )
    return _plain_objects(name, values.astype(object))


def _large_integers(column: object, values: AnyArray, floats: AnyArray) -> AnyArray | None:
    """Return the integers of a column if some are too large for float64, else None."""
    is_large = floats.dtype == np.float64 and bool((np.abs(floats) >= _EXACT).any())
    if not is_large or values.dtype.kind in "iu":
        return values if is_large else None
    # Integers with gaps come as floats.
    integers = None
    if isinstance(column, _ArrowArray):
        integers = column.to_pylist() if "int" in str(column.type) else None
    elif isinstance(column, Series) and "int" in str(column.dtype).lower():
        integers = list(column)  # type: ignore[call-overload]
    return None if integers is None else np.array([*integers, None], dtype=object)[:-1]


def exact_labels(column: object) -> AnyArray | None:
    """Return the integers or booleans of a nullable or Arrow column as an array, else None.

    NumPy would convert them to floats. They stay objects if some are missing.
    """
    if isinstance(column, _ArrowArray):
        dtype, values = str(column.type), column.to_pylist
    elif isinstance(column, Series) and not isinstance(column.dtype, np.dtype):
        dtype, values = str(column.dtype), column.__iter__  # type: ignore[attr-defined]
    else:
        return None
    if _INTEGERS_OR_BOOLEANS.match(dtype.lower()) is None:
        return None
    cells = [*values()]
    if any(map(is_missing, cells)):
        return np.array([*cells, None], dtype=object)[:-1]
    return np.array([*map(_as_python, cells)])


def _as_python(value: Any) -> object:
    """Return a number of NumPy as that of Python, of which any size goes into one array."""
    return value.item() if isinstance(value, np.generic) else value


def _has_time_zone(column: object) -> bool:
    if isinstance(column, _ArrowArray):
        return _WITH_ZONE.search(str(column.type)) is not None
    return isinstance(column, Series) and _WITH_ZONE.search(str(column.dtype)) is not None


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
        return PlainColumn(values, "text")
    present = [value for value in values if not is_missing(value)]
    types = {type_of(value) for value in present}
    if "datetime" in types and "zoned" in types:
        types.remove("datetime")
    if "category" in types:
        return PlainColumn(values, "category")
    if types == {"boolean"}:
        return PlainColumn(values, "boolean")
    types -= {"boolean"} if "number" in types else set()
    if len(types) > 1:
        held = " and ".join(sorted(COLUMN_TYPES[kind] for kind in types))
        raise InputError(f"column {name!r} holds {held}; give values of one type.")
    floats = (np.nan if is_missing(value) else seconds_or_number(value) for value in values)
    numbers_read = np.fromiter(floats, np.float64, len(values))
    type_ = types.pop() if types else "number"
    is_large = type_ == "number" and bool((np.abs(numbers_read) >= _EXACT).any())
    return PlainColumn(numbers_read, type_, values if is_large else None)


def _has_names(kind: type) -> bool:
    """Tell whether values of a type are told apart by what they print, and do not change."""
    plain = vars(object)
    prints = any(getattr(kind, name) is not plain[name] for name in ("__str__", "__repr__"))
    return prints and issubclass(kind, Hashable)


def labels(values: Iterable[object]) -> Iterator[str]:
    """Return values as text, whole numbers without ".0"; a missing one is ``""``."""
    return map(label, values)


def category_labels(values: Iterable[object]) -> Iterator[str]:
    """Return the labels of categories; a missing one is ``""``.

    Equal values have one label, whatever their type: 1, 1.0, "1" and "1.0" are "1", but "01" stays.
    Datetimes, also as text, are as in "2024-01-31 12:30:00", in UTC, without the time at midnight.

    Examples
    --------
    >>> [*category_labels([1, 1.0, "1.0", "01", None, np.datetime64("2024-01-31")])]
    ['1', '1', '1', '01', '', '2024-01-31']
    """
    return map(category_label, values)


def finite_numbers(name: str, values: AnyArray, notation: str = PLAIN) -> AnyArray:
    """Return what :func:`plain_column` read as floats, NaN where missing.

    Text, in a notation, and booleans are read as numbers. Raises ``InputError`` for infinity, and
    ``ValueError`` with the first cell that is not written so.
    """
    if values.dtype == object:
        values = np.array([_parsed(value, notation) for value in values], np.float64)
    elif values.dtype == bool:
        values = values.astype(np.float32)
    if np.isinf(values).any():
        raise InputError(f"column {name!r} holds infinity; replace it.")
    return values


def _parsed(value: object, notation: str) -> float:
    (cell,) = labels([value])
    text = cell.strip()
    if text in MISSING_WORDS:
        return np.nan
    if notation not in NOTATIONS_OF_TIMES and text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    try:
        if notation in NOTATIONS_OF_TIMES or (isinstance(value, str) and notation != PLAIN):
            return np.nan if text == _NOT_A_TIME else NOTATIONS[notation].read(text)
        # Python reads 1_000 as a number; in a table it is a name.
        return float(text.replace("_", "?"))
    except (ValueError, OverflowError):
        raise ValueError(cell) from None
