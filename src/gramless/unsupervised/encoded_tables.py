"""Tables as tests take them: rows of numbers, which are categories, and how inputs are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from gramless.base.columns import PlainColumn, Table, is_frame, labels, named_columns
from gramless.base.errors import InputError
from gramless.base.lazy_rows import LazyRows
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, NamedColumns, TableLike
from gramless.estimators.inputs import RowInputs, row_options
from gramless.estimators.parameters import is_auto, scalings_of
from gramless.features.base import SizedMap
from gramless.kernels import bandwidth_vector
from gramless.preprocessing.median import median_distance, scaled_sample
from gramless.preprocessing.rows import Rows, normalise_rows, validated
from gramless.preprocessing.scaling import Scaler


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
    """The columns of two tables, one below the other."""

    def __init__(self, first: Table, second: Any, owner: str) -> None:
        self._parts = named_columns(first), named_columns(second)
        self._n_rows = len(first) + len(second)
        _check_names(tuple(self._parts[0]), tuple(self._parts[1]), owner)
        self.names = tuple(self._parts[0])
        self._columns = {
            name: _below(*(part[name]() for part in self._parts)) for name in self.names
        }
        self.declared = {
            name
            for name, column in self._columns.items()
            if column.is_category and not column.is_text
        }

    def __len__(self) -> int:
        return self._n_rows

    def column(self, name: str) -> AnyArray:
        """Return one column."""
        return self._columns[name].values


def _below(first: PlainColumn, second: PlainColumn) -> PlainColumn:
    """Return two columns as one: of categories if one of them has these, of text alone if both."""
    is_category = first.is_category or second.is_category
    if not is_category:
        return PlainColumn(np.concatenate([first.values, second.values]), False)
    is_text = all(part.is_text or not part.is_category for part in (first, second))
    parts = (
        # Numbers that are declared categories would be taken for numbers again.
        part.values.astype(object)
        if is_text
        else np.array([*labels(part.values), None], object)[:-1]
        for part in (first, second)
    )
    return PlainColumn(np.concatenate([*parts]), True, is_text)


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
