"""Encoding of data frames and tables as one matrix of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class TableEncoder(Stateful, tag="encoder"):
    """Converts a table of mixed columns to a matrix of numbers.

    Numbers are kept, and dates and durations become seconds. A missing number becomes the median,
    and if any was missing in ``fit``, a 0/1 column marks the missing ones. Text, booleans,
    categories and other objects become category codes, with one code for missing values. All
    categories that ``fit`` did not see or keep share one more code.

    Text is read as numbers, dates, times or booleans if this is the only possible reading, also
    with decimal commas or separators of thousands. If text only looks like it, a warning names the
    column.

    New rows may come in another form, such as dates as ISO text. ``transform`` raises
    ``InputError`` if a column holds another type than in ``fit`` that it cannot read with
    certainty, and warns if more than half of its values are unknown categories.

    Parameters
    ----------
    max_categories : int, default=50_000
        The number of categories kept in each column, the most frequent ones.

    Attributes
    ----------
    columns : tuple of ColumnCode
        The codes of the columns, in the order of ``fit``.
    dtype : dtype
        float32 if the type of every column of numbers fits into it, else float64. Numbers that are
        read from text are float64.

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
        return f"TableEncoder({len(self.columns)} columns: {_name_list(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name, _ in column.outputs())

    @property
    def categorical_outputs(self) -> BoolArray:
        """Mask of the columns that ``transform`` returns as categories, 0/1 columns included."""
        outputs = (output for column in self.columns for output in column.outputs())
        return np.array([is_category for _, is_category in outputs])

    @property
    def categorical(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.fill is None)

    def fit(self, X: Table, categorical: ArrayLike | None = None) -> TableEncoder:
        """Learn the medians and the categories of a table.

        Parameters
        ----------
        X : data frame or table
            From pandas, polars, pyarrow or :class:`gramless.datasets.Table`.
        categorical : list of names or positions, or mask, optional
            Columns to encode as categories even if they hold numbers or dates.
        """
        columns = named_columns(X)
        if not columns:
            raise InputError("the table has no columns; give at least 1.")
        mask = category_mask(categorical, len(columns), list(columns), "categorical_features")
        codes: list[ColumnCode] = []
        dtypes: list[np.dtype[np.generic]] = [np.dtype(np.float32)]
        for (name, read), is_declared in zip(columns.items(), mask, strict=True):
            column = read()
            if not len(column.values):
                raise InputError(f"column {name!r} has no rows; give at least 1.")
            code = ColumnCode.fit(name, column, bool(is_declared), self.max_categories)
            codes.append(code)
            if code.fill is not None:
                dtypes.append(np.dtype(np.float64) if column.is_text else column.values.dtype)
        self.columns = tuple(codes)
        self.dtype = np.result_type(*dtypes)
        return self

    def transform(self, X: Table) -> AnyArray:
        """Return the encoded rows (n_samples, n_outputs), in Fortran order.

        Columns are matched by name, and columns that ``fit`` did not see are ignored.
        """
        columns = named_columns(X)
        missing = [name for name in self.names if name not in columns]
        if missing:
            raise InputError(
                f"the columns must be those of fit, in any order, and others are ignored; missing "
                f"now: {_name_list(missing)}. Select or name the same columns."
            )
        out = np.empty((len(X), len(self.output_names)), self.dtype, order="F")
        start = 0
        for column in self.columns:
            stop = start + len(column.outputs())
            is_complete = len(column.categories) < self.max_categories
            column.write(columns[column.name](), out[:, start:stop], is_complete)
            start = stop
        return out

    def encode_lazily(self, X: RowTable) -> LazyRows:
        """Return the rows of a table on disk, which are encoded when they are read."""
        return _EncodedRows(X, self)

    def state(self) -> State:
        columns = [{**asdict(c), "categories": list(c.categories)} for c in self.columns]
        return {"dtype": self.dtype.name, "columns": columns}

    @classmethod
    def from_state(cls, state: Mapping[str, Json]) -> Self:
        """Build an encoder from the result of :meth:`state`; raise ``InputError`` if invalid."""
        encoder = cls()
        try:
            encoder.columns = tuple(map(ColumnCode.from_state, state["columns"]))
            encoder.dtype = _DTYPES[state["dtype"]]
            are_unique = 0 < len(set(encoder.names)) == len(encoder.columns)
            require(are_unique, "names are missing or repeated")
        except (TypeError, KeyError, ValueError) as error:
            raise InputError(
                f"These data describe no TableEncoder of this version ({error!r}); fit the model "
                "again."
            ) from error
        return encoder


class _EncodedRows(LazyRows):
    def __init__(self, table: RowTable, encoder: TableEncoder) -> None:
        self._table, self._encoder = table, encoder
        self.shape, self.dtype = (len(table), len(encoder.output_names)), encoder.dtype

    def read(self, rows: slice | IntArray) -> AnyArray:
        return self._encoder.transform(self._table.take_rows(rows))


def _name_list(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
