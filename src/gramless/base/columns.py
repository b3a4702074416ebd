"""Columns of data frames and tables as numbers or as labels of categories."""

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

MISSING = ""  # label of a missing category

# Types of columns, as model files name them, and the names of their values in messages.
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
_BOOLEANS = {"true": 1.0, "false": 0.0}
_NOT_A_TIME = "NaT"
_MAX_EXACT_INTEGER = 2**53  # float64 holds every integer up to here
_INTEGERS_OR_BOOLEANS = re.compile(r"u?int\d+|bool")
# The time zone in the names of types of pyarrow, polars and pandas.
_WITH_ZONE = re.compile(r"tz=|time_zone='|datetime64\[\w+, ")
# Beginnings of the names of categorical types in pandas, polars and pyarrow.
_CATEGORICAL_TYPES = "category", "Categorical", "Enum", "dictionary"
_WIDE_INTEGERS = "Int128", "UInt128"  # types of polars that NumPy lacks


@runtime_checkable
class _FrameMethods(Protocol):
    """Methods of the data frames of pandas and polars; lazy frames have no length."""

    def __len__(self) -> int: ...
    def __getitem__(self, name: str, /) -> object: ...
    def head(self, n: int = 5) -> object: ...
    def join(self, other: object, /) -> object: ...


@runtime_checkable
class Series(Protocol):
    """Interface shared by the columns of pandas and polars data frames."""

    dtype: object

    def to_numpy(self, dtype: str | None = None) -> AnyArray: ...


@runtime_checkable
class _Named(Protocol):
    name: object


@runtime_checkable
class _ArrowArray(Protocol):
    """Columns of pyarrow's tables."""

    type: object

    def to_pylist(self) -> list[object]: ...
    def to_numpy(self, zero_copy_only: bool = True) -> AnyArray: ...


class PlainColumn(NamedTuple):
    """The values of a column and their type, one of ``COLUMN_TYPES``.

    Numbers, dates and times are floats; other values are objects or booleans. ``integers`` holds
    the exact values if float64 would round some, because categories need every digit.
    """

    values: AnyArray
    type: str
    integers: AnyArray | None = None

    @property
    def is_category(self) -> bool:
        """Return whether the values are categories, booleans or text.

        Text may later be read as numbers or dates, and booleans as numbers.
        """
        return self.type in ("text", "category", "boolean")

    @property
    def is_text(self) -> bool:
        """Return whether the values are text that was not declared to be categories."""
        return self.type == "text"

    def category_labels(self) -> Iterator[str]:
        """Return the label of each value as a category; see :func:`category_labels`."""
        label_of = LABEL_WRITERS.get(self.type)
        if label_of is not None:
            numbers = self.values.tolist()
            return (MISSING if np.isnan(value) else label_of(value) for value in numbers)
        return category_labels(self.values if self.integers is None else self.integers)


Table: TypeAlias = DataFrame | NamedColumns | ArrowTable
Reader: TypeAlias = Callable[[], PlainColumn]


def is_frame(X: object) -> TypeGuard[Table]:
    """Return whether ``X`` is a table of pandas, polars, pyarrow or this package."""
    # The type is checked, not the object: the columns of a pandas frame are attributes too, and a
    # column may be called "join".
    protocols = _FrameMethods, ArrowTable
    return isinstance(X, NamedColumns) or any(issubclass(type(X), part) for part in protocols)


def target_name(y: object) -> str | None:
    """Return the name of a series of pandas or polars, or None for other targets."""
    if isinstance(y, Series) and isinstance(y, _Named) and isinstance(y.name, str):
        return y.name or None
    return None


def named_columns(X: object) -> dict[str, Reader]:
    """Return a dict from names to functions that each read one column by :func:`plain_column`.

    Raises ``InputError`` if ``X`` is not a table, if two columns have the same name, or if the
    columns have no names.
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
    """Read a column of a table.

    Numbers become float32 or float64, with NaN if missing. Dates and durations become seconds, and
    periods become the second of their start. Booleans without missing values stay booleans; other
    booleans, text and categories become objects. Raises ``InputError`` for other values.
    """
    if has_categorical_type(column):
        # Missing values of dictionary columns do not survive pyarrow's to_numpy.
        if isinstance(column, _ArrowArray):
            objects: Any = column.to_pylist()
        else:
            objects = np.asarray(column, object)
        return PlainColumn(np.fromiter(objects, object, len(objects)), "category")
    values = _native_array(name, column)
    if values.ndim != 1:
        raise InputError(f"column {name!r} holds more than one value per row.")
    kind = values.dtype.kind
    if kind == "M":
        seconds = (values - np.datetime64(0, "s")) / np.timedelta64(1, "s")
        type_ = column.type if isinstance(column, _ArrowArray) else getattr(column, "dtype", None)
        has_zone = _WITH_ZONE.search(str(type_)) is not None
        return PlainColumn(seconds, "zoned" if has_zone else "datetime")
    if kind == "m":
        return PlainColumn(values / np.timedelta64(1, "s"), "timedelta")
    if kind == "b":
        return PlainColumn(values, "boolean")
    if kind in "iuf":
        floats = as_floats(values)
        return PlainColumn(floats, "number", _inexact_integers(column, values, floats))
    if kind not in "OUST":
        raise InputError(
            f"column {name!r} holds {values.dtype}, neither numbers, dates nor "
            "categories; drop or convert it."
        )
    return _object_column(name, values.astype(object))


def _inexact_integers(column: object, values: AnyArray, floats: AnyArray) -> AnyArray | None:
    """Return the exact integers of a column if float64 would round some of them, else None."""
    is_large = floats.dtype == np.float64 and bool((np.abs(floats) >= _MAX_EXACT_INTEGER).any())
    if not is_large or values.dtype.kind in "iu":
        return values if is_large else None
    # NumPy has converted integers with missing values to floats, so the column is read again.
    integers = None
    if isinstance(column, _ArrowArray):
        integers = column.to_pylist() if "int" in str(column.type) else None
    elif isinstance(column, Series) and "int" in str(column.dtype).lower():
        integers = list(column)  # type: ignore[call-overload]
    return None if integers is None else _object_array(integers)


def _object_array(values: Iterable[object]) -> AnyArray:
    # NumPy would make a matrix of sequences of one length. The None at the end prevents it.
    return np.array([*values, None], dtype=object)[:-1]


def exact_labels(column: object) -> AnyArray | None:
    """Return the exact values of a nullable or Arrow column of integers or booleans, else None.

    NumPy would convert them to floats. They are objects if some are missing.
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
        return _object_array(cells)
    # NumPy makes floats of a mixture of its own signed and unsigned integers.
    return np.array([cell.item() if isinstance(cell, np.generic) else cell for cell in cells])


def has_categorical_type(column: object) -> bool:
    if isinstance(column, Series):
        return str(column.dtype).startswith(_CATEGORICAL_TYPES)
    return isinstance(column, _ArrowArray) and str(column.type).startswith(_CATEGORICAL_TYPES)


def _native_array(name: str, column: object) -> AnyArray:
    if isinstance(column, _ArrowArray):
        try:
            return np.asarray(column.to_numpy(zero_copy_only=False))
        except NotImplementedError as error:
            raise InputError(
                f"column {name!r} holds {column.type}, neither numbers, dates nor categories; drop "
                "or convert it."
            ) from error
    if not isinstance(column, Series):
        return np.asarray(column)
    dtype = str(column.dtype)
    if dtype in _WIDE_INTEGERS:
        integers: Any = column
        return _object_array(integers.to_list())
    if dtype.startswith("period"):
        periods: Any = column
        try:
            return np.asarray(periods.astype("datetime64[ns]"))
        except ValueError as error:
            raise InputError(
                f"column {name!r} holds periods before 1678 or after 2261; convert it to numbers, "
                "such as years."
            ) from error
    # Without a dtype, pandas returns objects for datetimes with a time zone.
    is_datetime = dtype.startswith(("datetime64", "timestamp"))
    return column.to_numpy(dtype="datetime64[us]") if is_datetime else column.to_numpy()


def _object_column(name: str, values: AnyArray) -> PlainColumn:
    python_types = {type(value) for value in values} - {type(None)}
    for cls in python_types:
        # Categories are identified by their text, so a class must define it, and be immutable.
        defines_text = any(
            getattr(cls, name) is not getattr(object, name) for name in ("__str__", "__repr__")
        )
        if not defines_text or not issubclass(cls, Hashable):
            raise InputError(
                f"column {name!r} holds values of type {cls.__name__}, which are no "
                "categories; drop or convert it."
            )
    if any(issubclass(cls, str) for cls in python_types):
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
        held = " and ".join(sorted(COLUMN_TYPES[type_] for type_ in types))
        raise InputError(f"column {name!r} holds {held}; give values of one type.")
    floats = (np.nan if is_missing(value) else seconds_or_number(value) for value in values)
    numbers = np.fromiter(floats, np.float64, len(values))
    type_ = types.pop() if types else "number"
    is_large = type_ == "number" and bool((np.abs(numbers) >= _MAX_EXACT_INTEGER).any())
    return PlainColumn(numbers, type_, values if is_large else None)


def labels(values: Iterable[object]) -> Iterator[str]:
    """Return values as text, with whole numbers without ".0" and missing values as ``""``."""
    return map(label, values)


def category_labels(values: Iterable[object]) -> Iterator[str]:
    """Return the labels of categories, with missing values as ``""``.

    Equal values have the same label, whatever their type: 1, 1.0, "1" and "1.0" are "1", but "01"
    stays. Datetimes, also as text, become UTC as in "2024-01-31 12:30:00", without the time if it
    is midnight.

    Examples
    --------
    >>> [*category_labels([1, 1.0, "1.0", "01", None, np.datetime64("2024-01-31")])]
    ['1', '1', '1', '01', '', '2024-01-31']
    """
    return map(category_label, values)


def finite_numbers(name: str, values: AnyArray, notation: str = PLAIN) -> AnyArray:
    """Return the values of a :class:`PlainColumn` as floats, with NaN if missing.

    Text in the given notation and booleans are read as numbers. Raises ``InputError`` for infinity,
    and ``ValueError`` with the first cell that is not in this notation.
    """
    if values.dtype == object:
        values = np.array([_parse_number(value, notation) for value in values], np.float64)
    elif values.dtype == bool:
        values = values.astype(np.float32)
    if np.isinf(values).any():
        raise InputError(f"column {name!r} holds infinity; replace it.")
    return values


def _parse_number(value: object, notation: str) -> float:
    cell = label(value)
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
