"""Data frames and tables of mixed columns into one matrix of numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from gramless.base.columns import Table, named_columns
from gramless.base.errors import InputError
from gramless.base.lazy_rows import LazyRows
from gramless.base.state import Json, State, Stateful, require
from gramless.base.types import AnyArray, BoolArray, IntArray, RowTable
from gramless.preprocessing.categories import category_mask
from gramless.preprocessing.column_codes import ColumnCode

_NAMES_SHOWN = 10
_DTYPES: dict[str, np.dtype[np.floating]] = {"float32": np.dtype("f4"), "float64": np.dtype("f8")}


class TableEncoder(Stateful, mark="encoder"):
    """Turns a table of mixed columns into a matrix of numbers.

    Numbers pass as they are, dates and durations as seconds. A missing number becomes the median;
    if any was missing in ``fit``, a 0/1 column says where. Text, truth values, categories and other
    objects become whole numbers, one a category, with the missing value as a category of its own.
    Of more than ``max_categories`` the most frequent are kept. All others, those never seen
    included, share one number, which is that of no training row unless some were left out. Text
    that certainly is numbers, dates, times or truth values is read as such, with decimal commas or
    thousands parted; where text only looks so, a warning names the column.

    New rows may come in another form, such as dates as ISO text. ``transform`` raises
    ``InputError`` if a column holds another type than in ``fit`` whose meaning is not certain, and
    warns if more than half of its categories are unknown.

    ``columns`` are in the order of ``fit``; ``dtype`` is float32 if that holds every column of
    numbers exactly, else float64.

    Examples
    --------
    >>> from gramless.datasets import Table
    >>> age, pet = np.array([3.0, np.nan, 5.0, 4.0]), np.array(["cat", "", "dog", "dog"], object)
    >>> table = Table({"age": age, "pet": pet})
    >>> TableEncoder().fit(table).transform(table)
    array([[3., 0., 2.],
           [4., 1., 0.],
           [5., 0., 1.],
           [4., 0., 1.]])
    """

    columns: tuple[ColumnCode, ...] = ()
    dtype: np.dtype[np.floating] = np.dtype(np.float64)

    def __init__(self, max_categories: int = 50_000) -> None:
        self.max_categories = max_categories

    def __repr__(self) -> str:
        return f"TableEncoder({len(self.columns)} columns: {_listing(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that ``transform`` asks for."""
        return tuple(column.name for column in self.columns)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the columns that ``transform`` returns."""
        return tuple(name for column in self.columns for name, _ in column.outputs())

    @property
    def categorical_outputs(self) -> BoolArray:
        """Which of the columns that ``transform`` returns are categories: a 0/1 column too."""
        return np.array([own for column in self.columns for _, own in column.outputs()])

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of the columns that are taken as categories."""
        return tuple(column.name for column in self.columns if column.fill is None)

    def fit(self, X: Table, categorical: ArrayLike | None = None) -> TableEncoder:
        """Learn the medians and the categories of a table: of pandas, polars, pyarrow or our own.

        ``categorical`` names columns to take as categories although they hold numbers or dates:
        a list of names or positions, or a mask.
        """
        columns = named_columns(X)
        if not columns:
            raise InputError("the table has no columns; give at least 1.")
        chosen = category_mask(categorical, len(columns), list(columns), "categorical_features")
        codes: list[ColumnCode] = []
        dtypes: list[np.dtype[np.generic]] = [np.dtype(np.float32)]
        for (name, read), named in zip(columns.items(), chosen, strict=True):
            column = read()
            if not len(column.values):
                raise InputError(f"column {name!r} has no rows; give at least 1.")
            code = ColumnCode.fit(name, column, bool(named), self.max_categories)
            codes.append(code)
            if code.fill is not None:
                dtypes.append(np.dtype(np.float64) if column.is_text else column.values.dtype)
        self.columns = tuple(codes)
        self.dtype = np.result_type(*dtypes)
        return self

    def transform(self, X: Table) -> AnyArray:
        """Encode rows, the columns of ``fit`` matched by name, as (n_samples, n_outputs).

        Further columns are ignored. The result is in Fortran order: each input is contiguous.
        """
        columns = named_columns(X)
        self._check_names(columns)
        out = np.empty((len(X), len(self.output_names)), self.dtype, order="F")
        start = 0
        for column in self.columns:
            stop = start + len(column.outputs())
            is_complete = len(column.categories) < self.max_categories
            column.write(columns[column.name](), out[:, start:stop], is_complete)
            start = stop
        return out

    def lazily(self, X: RowTable) -> LazyRows:
        """Return the encoded rows of a table on a disk, which are encoded when they are read."""
        return _EncodedRows(X, self)

    def state(self) -> State:
        """Describe the encoder in plain data, ready for JSON; :meth:`from_state` undoes it."""
        plain = [{**asdict(c), "categories": list(c.categories)} for c in self.columns]
        return {"dtype": self.dtype.name, "columns": plain}

    @classmethod
    def from_state(cls, state: Mapping[str, Json]) -> Self:
        """Build an encoder from what :meth:`state` returned; ``InputError`` for other data."""
        encoder = cls()
        try:
            encoder.columns = tuple(map(ColumnCode.from_state, state["columns"]))
            encoder.dtype = _DTYPES[state["dtype"]]
            differ = 0 < len(set(encoder.names)) == len(encoder.columns)
            require(differ, "names are missing or repeated")
        except (TypeError, KeyError, ValueError) as fault:
            raise InputError(
                f"These data describe no TableEncoder of this version ({fault!r}); fit the model "
                "again."
            ) from fault
        return encoder

    def _check_names(self, found: Collection[str]) -> None:
        missing = [name for name in self.names if name not in found]
        if missing:
            raise InputError(
                f"the columns must be those of fit, in any order, and others are ignored; missing "
                f"now: {_listing(missing)}. Select or name the same columns."
            )


class _EncodedRows(LazyRows):
    def __init__(self, table: RowTable, encoder: TableEncoder) -> None:
        self._table, self._encoder = table, encoder
        self.shape, self.dtype = (len(table), len(encoder.output_names)), encoder.dtype

    def read(self, rows: slice | IntArray) -> AnyArray:
        return self._encoder.transform(self._table.take_rows(rows))


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
