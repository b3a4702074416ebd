"""Encode two pooled tables for a two-sample test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from gramless.base.columns import PlainColumn, Table, is_frame, named_columns
from gramless.base.errors import InputError
from gramless.base.types import AnyArray, BoolArray, IntArray, NamedColumns, TableLike
from gramless.estimators.inputs import RowInputs, row_options
from gramless.preprocessing.column_codes import ColumnCode
from gramless.preprocessing.rows import Rows, normalise_rows, validate_rows

OWNER = "two_sample_test"  # the name of the caller in messages
_TIMES = "datetime", "zoned", "timedelta", "time"
# If two columns have different types, both are read as the type that comes first here.
_PRECEDENCE = "category", "boolean", "text", *_TIMES, "number"


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """The rows of a table as numbers, with missing values filled.

    ``categorical`` is a mask of the inputs that are categories, None if none is; ``names`` are the
    names of the inputs. ``markers`` (n_inputs,) has, for each input with missing numbers, the index
    of the input that is 1 in the rows where they were filled, and -1 for other inputs.
    """

    rows: Rows
    categorical: BoolArray | None
    names: Sequence[str]
    markers: IntArray

    @classmethod
    def of(cls, X: TableLike, n_rows: int, categorical: str | ArrayLike) -> EncodedTable:
        """Encode the result of :func:`pool_tables` like the estimators."""
        estimator = _named_estimator()
        # Rows are validated together with targets, even if there are none.
        inputs, rows, _ = RowInputs.fit(estimator, X, np.zeros(n_rows), categorical, {})
        sources = inputs.sources(estimator.n_features_in_)
        markers = np.full(len(sources), -1)
        for k in range(len(sources)):
            # The marker of a column comes after its numbers.
            markers[:k][sources[:k] == sources[k]] = k
        if inputs.encoder is not None:
            names: Sequence[str] = inputs.encoder.output_names
        else:
            suffixes = np.where(np.isin(np.arange(len(sources)), markers), " (missing)", "")
            names = [f"x{j + 1}{end}" for j, end in zip(sources.tolist(), suffixes, strict=True)]
        return cls(rows, inputs.categorical, names, markers)

    @property
    def categorical_mask(self) -> BoolArray:
        if self.categorical is None:
            return np.zeros(self.rows.shape[1], bool)
        return self.categorical


def pool_tables(X: TableLike, Y: TableLike) -> tuple[TableLike, tuple[int, int]]:
    """Return the concatenation of two tables with the same columns, and the rows of each.

    Columns of data frames are matched by name. A column that is a category in one of two frames is
    a category in the result.

    Examples
    --------
    >>> pool_tables([[1.0], [2.0]], [[3.0]])
    (array([[1.],
           [2.],
           [3.]]), (2, 1))
    """
    if is_frame(X) != is_frame(Y):
        raise InputError(
            f"{OWNER}: one table has column names and the other has none; give two data frames "
            f"or two arrays."
        )
    if is_frame(X):
        columns = _PooledColumns(X, Y)
        return columns, (len(X), len(columns) - len(X))
    first, second = (
        normalise_rows(validate_rows(_named_estimator(), part, **row_options(part)))
        for part in (X, Y)
    )
    if first.shape[1] != second.shape[1]:
        raise InputError(
            f"{OWNER}: the tables have {first.shape[1]} and {second.shape[1]} columns; give the "
            f"same columns, in the same order."
        )
    n_rows = first.shape[0], second.shape[0]
    if sp.issparse(first) or sp.issparse(second):
        return sp.csr_array(sp.vstack([first, second], format="csr")), n_rows
    return np.concatenate([first, second]), n_rows


class _PooledColumns(NamedColumns):
    def __init__(self, first: Table, second: Any) -> None:
        self._parts = named_columns(first), named_columns(second)
        self._n_rows = len(first) + len(second)
        self.names = tuple(self._parts[0])
        for k, other in enumerate(("second", "first")):
            if absent := [name for name in self._parts[k] if name not in self._parts[1 - k]]:
                names = ", ".join(map(repr, absent[:5])) + (", ..." if len(absent) > 5 else "")
                raise InputError(
                    f"{OWNER}: the {other} table has no column {names}; give the same columns."
                )
        self._columns = {
            name: _concatenate(name, *(part[name]() for part in self._parts)) for name in self.names
        }
        types = {name: column.type for name, column in self._columns.items()}
        self.declared = {name for name, kind in types.items() if kind == "category"}
        self.types = {name: kind for name, kind in types.items() if kind in _TIMES}

    def __len__(self) -> int:
        return self._n_rows

    def column(self, name: str) -> AnyArray:
        return self._columns[name].values


def _concatenate(name: str, first: PlainColumn, second: PlainColumn) -> PlainColumn:
    """Return the concatenation of two columns, which is a category if one of them is.

    Raises InputError if the types of their values are incompatible.
    """
    parts = [first, second]
    if first.type != second.type:
        parts = [_parse_text(name, part) for part in parts]
        leading, other = sorted(parts, key=lambda part: _PRECEDENCE.index(part.type))
        code = ColumnCode.fit(name, leading, False, len(leading.values) or 1)
        if leading.type == "boolean":
            codes = [code.codes(part, is_complete=False) for part in parts]
            return PlainColumn(np.concatenate(codes).astype(object), "category")
        if code.fill is not None and code.type != "empty":
            numbers = [code.numbers(part) for part in parts]
            return PlainColumn(np.concatenate(numbers), leading.type)
        if code.fill is None:
            code.codes(other, is_complete=False)
    types = {part.type for part in parts}
    if not any(part.is_category for part in parts):
        return PlainColumn(np.concatenate([part.values for part in parts]), min(types))
    if types <= {"text", "number"}:
        return PlainColumn(np.concatenate([p.values.astype(object) for p in parts]), min(types))
    # Labels, because numbers that are declared categories would be read as numbers again.
    cells = [cell for part in parts for cell in part.category_labels()]
    return PlainColumn(np.array([*cells, None], object)[:-1], "category")


def _parse_text(name: str, column: PlainColumn) -> PlainColumn:
    """Return a column of text as numbers or dates if all of it can be read as such."""
    if not column.is_text:
        return column
    code = ColumnCode.fit(name, column, False, len(column.values) or 1)
    if code.fill is None or code.type in (None, "empty"):
        return column
    return PlainColumn(code.numbers(column), code.type)


def _named_estimator() -> BaseEstimator:
    # scikit-learn's messages name the class of the estimator.
    return type(OWNER, (BaseEstimator,), {})()
