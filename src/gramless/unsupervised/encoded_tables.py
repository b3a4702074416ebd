"""Tables as tests take them: rows of numbers, which are categories, and how inputs are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from gramless.base.columns import PlainColumn, Table, is_frame, named_columns
from gramless.base.errors import InputError
from gramless.base.lazy_rows import LazyRows
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, NamedColumns, TableLike
from gramless.estimators.inputs import RowInputs, row_options
from gramless.estimators.parameters import is_auto, scalings_of
from gramless.features.base import SizedMap
from gramless.kernels import bandwidth_vector
from gramless.preprocessing.column_codes import ColumnCode
from gramless.preprocessing.median import median_distance, scaled_sample
from gramless.preprocessing.rows import Rows, normalise_rows, validated
from gramless.preprocessing.scaling import Scaler

_TIMES = "datetime", "zoned", "timedelta", "time"
# The values of two columns are read as the type that comes first here.
_LEADING = "category", "boolean", "text", *_TIMES, "number"


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """The rows of a table as numbers without gaps.

    ``categorical`` tells which inputs hold categories, None if none does; ``names`` are those of
    the inputs. ``markers`` (n_inputs,) are the inputs that are 1 where a number was missing and has
    been filled, -1 for inputs without gaps.
    """

    rows: Rows
    categorical: BoolArray | None
    names: Sequence[str]
    markers: IntArray

    @classmethod
    def of(cls, X: TableLike, categorical: str | ArrayLike, owner: str) -> EncodedTable:
        """Encode a table as the estimators do; ``owner`` names the caller in messages."""
        if isinstance(X, LazyRows):
            raise InputError(f"{owner}: takes rows in memory, not {type(X).__name__}.")
        asking = _asking(owner)
        # Rows are checked together with targets, and there are none.
        no_targets = np.zeros(_length(X, owner))
        inputs, rows, _ = RowInputs.fit(asking, X, no_targets, categorical, {})
        sources = inputs.sources(asking.n_features_in_)
        markers = np.full(len(sources), -1)
        for k in range(len(sources)):
            # What marks the gaps of a column comes after its numbers.
            markers[:k][sources[:k] == sources[k]] = k
        return cls(rows, inputs.categorical, _names(inputs, sources, markers), markers)

    @property
    def categorical_mask(self) -> BoolArray:
        """Which inputs are categories, as a mask even if none is."""
        none = np.zeros(self.rows.shape[1], bool)
        return none if self.categorical is None else self.categorical


def pooled(X: TableLike, Y: TableLike, owner: str) -> tuple[TableLike, int]:
    """Return two tables of the same columns, one below the other, and the rows of the first.

    Columns of data frames are matched by name. What is a category in one of two frames is one in
    both.

    Examples
    --------
    >>> pooled([[1.0], [2.0]], [[3.0]], "an example")
    (array([[1.],
           [2.],
           [3.]]), 2)
    """
    if is_frame(X) != is_frame(Y):
        raise InputError(
            f"{owner}: one table has names of columns and the other has none; give two data "
            f"frames, or two arrays."
        )
    if is_frame(X):
        return _PooledColumns(X, Y, owner), len(X)
    first, second = (
        normalise_rows(validated(_asking(owner), part, **row_options(part))) for part in (X, Y)
    )
    if first.shape[1] != second.shape[1]:
        raise InputError(
            f"{owner}: the tables have {first.shape[1]} and {second.shape[1]} columns; give the "
            f"same columns, in the same order."
        )
    if sp.issparse(first) or sp.issparse(second):
        return sp.csr_array(sp.vstack([first, second], format="csr")), first.shape[0]
    return np.concatenate([first, second]), first.shape[0]


def scaler_of(scaling: str, table: EncodedTable) -> Scaler:
    """Return the units of the inputs; "auto" takes ranks, but of sparse rows deviations."""
    is_sparse = sp.issparse(table.rows)
    kind = scalings_of(scaling, is_sparse)[0 if is_sparse else -1]
    return Scaler.fit(kind, table.rows, categorical=table.categorical)


def maps_of(
    given: float | ArrayLike | str,
    factors: Sequence[float],
    rows: Rows,
    scaler: Scaler,
    feature_map: SizedMap,
    seed: int,
    owner: str,
) -> tuple[list[float | FloatArray], list[SizedMap]]:
    """Return bandwidths of a test in units of the scaled inputs, and an unfitted map of each.

    Bandwidths are as given, or follow a rule: "median" is the median distance between two rows,
    "auto" the bandwidth of the feature map if that is a number, else the multiples ``factors`` of
    the median distance.
    """
    if is_auto(given) and not isinstance(feature_map.bandwidth, str):
        given = feature_map.bandwidth
    widths: list[float | FloatArray]
    if not isinstance(given, str):
        bandwidth_vector(given, rows.shape[1])
        widths = [np.asarray(given, np.float64)]
    elif given in ("auto", "median"):
        sample = scaled_sample(rows, scaler.unit, seed)
        median = median_distance(sample, seed, scaler.categorical_mask, feature_map.metric)
        widths = [factor * median for factor in (factors if given == "auto" else (1.0,))]
    else:
        raise InputError(
            f"{owner}: bandwidth must be a number, one number an input, 'auto' or 'median'; "
            f"got {given!r}."
        )
    maps: list[SizedMap] = [
        clone(feature_map).set_params(
            bandwidth=scaler.unscaled(width), categorical=scaler.categorical
        )
        for width in widths
    ]
    return widths, maps


class _PooledColumns(NamedColumns):
    def __init__(self, first: Table, second: Any, owner: str) -> None:
        self._parts = named_columns(first), named_columns(second)
        self._n_rows = len(first) + len(second)
        _check_names(tuple(self._parts[0]), tuple(self._parts[1]), owner)
        self.names = tuple(self._parts[0])
        self._columns = {
            name: _below(name, *(part[name]() for part in self._parts)) for name in self.names
        }
        types = {name: column.type for name, column in self._columns.items()}
        self.declared = {name for name, kind in types.items() if kind == "category"}
        self.types = {name: kind for name, kind in types.items() if kind in _TIMES}

    def __len__(self) -> int:
        return self._n_rows

    def column(self, name: str) -> AnyArray:
        """Return one column."""
        return self._columns[name].values


def _below(name: str, first: PlainColumn, second: PlainColumn) -> PlainColumn:
    """Return two columns as one: of categories if one of them has these, of text if both are text.

    Raises InputError if the values of one cannot stand for those of the other.
    """
    parts = [first, second]
    if first.type != second.type:
        parts = [_read_if_text(name, part) for part in parts]
        lead, other = sorted(parts, key=lambda part: _LEADING.index(part.type))
        code = ColumnCode.fit(name, lead, False, len(lead.values) or 1)
        if lead.type == "boolean":
            codes = [code.codes(part, is_complete=False) for part in parts]
            return PlainColumn(np.concatenate(codes).astype(object), "category")
        if code.fill is not None and code.type != "empty":
            return PlainColumn(np.concatenate([code.numbers(part) for part in parts]), lead.type)
        if code.fill is None:
            code.codes(other, is_complete=False)
    types = {part.type for part in parts}
    if not any(part.is_category for part in parts):
        return PlainColumn(np.concatenate([part.values for part in parts]), min(types))
    if types <= {"text", "number"}:
        return PlainColumn(np.concatenate([p.values.astype(object) for p in parts]), min(types))
    # Numbers that are declared categories would be taken for numbers again.
    cells = [cell for part in parts for cell in part.category_labels()]
    return PlainColumn(np.array([*cells, None], object)[:-1], "category")


def _read_if_text(name: str, column: PlainColumn) -> PlainColumn:
    """Return a column of text that certainly is numbers or dates as these."""
    if not column.is_text:
        return column
    code = ColumnCode.fit(name, column, False, len(column.values) or 1)
    if code.fill is None or code.type in (None, "empty"):
        return column
    return PlainColumn(code.numbers(column), code.type)


def _check_names(first: Sequence[str], second: Sequence[str], owner: str) -> None:
    for own, other, which in ((first, second, "second"), (second, first, "first")):
        absent = [name for name in own if name not in set(other)]
        if absent:
            more = ", ..." if len(absent) > 5 else ""
            shown = ", ".join(map(repr, absent[:5])) + more
            raise InputError(
                f"{owner}: the {which} table has no column {shown}; give the same columns."
            )


def _names(inputs: RowInputs, sources: IntArray, markers: IntArray) -> Sequence[str]:
    if inputs.encoder is not None:
        return inputs.encoder.output_names
    ends = np.where(np.isin(np.arange(len(sources)), markers), " (missing)", "")
    return [f"x{j + 1}{end}" for j, end in zip(sources.tolist(), ends.tolist(), strict=True)]


def _length(X: TableLike, owner: str) -> int:
    if is_frame(X):
        return len(X)
    shape = np.shape(X)  # type: ignore[arg-type]
    if not shape:
        raise InputError(f"{owner}: takes a table of rows and columns, got {X!r}.")
    return int(shape[0])


def _asking(owner: str) -> BaseEstimator:
    """Return an estimator whose class has the name that messages of scikit-learn give."""
    return type(owner, (BaseEstimator,), {})()
