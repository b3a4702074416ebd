"""Convert tables to inputs: data frames, missing values, categories, monotone columns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from gramless.base.columns import is_frame
from gramless.base.errors import InputError
from gramless.base.lazy_rows import LazyRows, MappedRows, OrderedRows
from gramless.base.memory import fit_memory_limit, large_array_budget
from gramless.base.state import Stateful, StatefulEstimator, array_in, require
from gramless.base.types import AnyArray, IntArray, NamedColumns, RowTable, TableLike
from gramless.preprocessing.categories import (
    CategoryCodes,
    Mask,
    category_mask,
    check_categories,
)
from gramless.preprocessing.encoder import TableEncoder
from gramless.preprocessing.imputer import Imputer
from gramless.preprocessing.rows import (
    ROW_OPTIONS,
    Rows,
    check_integers,
    check_structure,
    normalise_rows,
    validate_rows,
)
from gramless.selection.budget import MAX_COLUMNS

# Empty columns of sparse rows are dropped beyond this number; fewer cost little.
_MAX_COLUMNS_KEPT = 1000
# Sparse rows become dense if they then take at most this fraction of the large-array budget; the
# fit needs the remaining memory.
_DENSE_SHARE = 0.25


@dataclass(frozen=True, repr=False)
class RowInputs(Stateful):
    """The conversion of the rows of a table to the inputs of a feature map.

    Data frames are encoded, and missing values of arrays are filled in. Sparse rows become an
    array if it is small, see :func:`dense_if_small`; other sparse rows are not changed, and must
    not have missing values.

    Attributes
    ----------
    encoder : TableEncoder or None
        The encoder of data frames.
    gaps : Imputer or None
        The imputer of arrays.
    categorical : array (n_inputs,) of bool, or None
        Which inputs are categories; None if there are none.
    kept : array of int, or None
        The columns of sparse rows that are not empty in the training rows, if there are more than
        1,000 columns. None if all columns are inputs.
    categories : CategoryCodes or None
        The codes of the categories of arrays and sparse rows, before missing values are filled in.
        None if there are no categories, and in files up to version 0.2.
    empty : array of int, or None
        The columns of arrays that have no value in the training rows; None if there are none.
    """

    encoder: TableEncoder | None
    gaps: Imputer | None
    categorical: Mask | None
    kept: NDArray[np.int64] | None = None
    categories: CategoryCodes | None = None
    empty: NDArray[np.int64] | None = None

    def check(self) -> None:
        """Check that the parts of inputs from a file fit each other."""
        encoder, gaps, kept = self.encoder, self.gaps, self.kept
        n_ways = sum(part is not None for part in (encoder, gaps, kept))
        require(n_ways <= 1, "inputs_ are made in more than one way")
        for name, part, kind in (
            ("encoder", encoder, TableEncoder),
            ("gaps", gaps, Imputer),
            ("categories", self.categories, CategoryCodes),
        ):
            require(part is None or isinstance(part, kind), f"{name} is none that gramless writes")
        if kept is not None:
            array_in(vars(self), "kept", np.int64, (None,))
            is_sorted = kept.size > 0 and kept[0] >= 0 and (np.diff(kept) > 0).all()
            require(is_sorted, "inputs_ keeps no columns")
        if self.categorical is not None:
            array_in(vars(self), "categorical", np.bool_, (None,))
        if self.empty is not None:
            array_in(vars(self), "empty", np.int64, (None,))
            require(
                gaps is not None and bool((self.empty >= 0).all()),
                "inputs_ has wrong empty columns",
            )

    def check_sizes(self, n_inputs: int, n_features: int) -> None:
        """Check that tables of ``n_features`` columns become rows of ``n_inputs`` inputs."""
        fits = self.categorical is None or len(self.categorical) == n_inputs
        if self.categories is not None and len(self.categories.columns) > 0:
            fits = fits and self.encoder is None and self.categories.columns[-1] < n_inputs
        if self.kept is not None:
            fits = fits and len(self.kept) == n_inputs and self.kept[-1] < n_features
        elif self.encoder is not None:
            sizes = len(self.encoder.output_names), len(self.encoder.names)
            fits = fits and sizes == (n_inputs, n_features)
        else:
            n_indicators = 0 if self.gaps is None else len(self.gaps.marked)
            fits = fits and n_features + n_indicators == n_inputs
            fits = fits and (self.gaps is None or len(self.gaps.fill) == n_features)
            fits = fits and (self.empty is None or bool((self.empty < n_features).all()))
        require(fits, "inputs_ does not fit the grids or the table")

    @classmethod
    def fit(
        cls,
        estimator: BaseEstimator,
        X: TableLike,
        y: ArrayLike,
        categorical: str | ArrayLike,
        target_options: Mapping[str, object],
    ) -> tuple[RowInputs, Rows, AnyArray]:
        """Return the conversion fitted to training rows, their inputs and the checked targets.

        This sets ``n_features_in_`` and ``feature_names_in_`` of the estimator. Text, booleans and
        categories of data frames are always categorical, as are the columns that ``categorical``
        names unless it is "auto". ``target_options`` are passed to ``validate_data``.
        """
        chosen = None if isinstance(categorical, str) and categorical == "auto" else categorical
        if fit_memory_limit() is not None and MappedRows.can_map(X):
            X = MappedRows(X)
        if isinstance(X, (RowTable, LazyRows)):
            return cls._fit_on_disk(estimator, X, y, chosen, target_options)
        X = dense_if_small(X)
        if is_frame(X):
            encoder = TableEncoder().fit(X, chosen)
            rows, targets = validate_rows(
                estimator, encoder.transform(X), y, **ROW_OPTIONS, **target_options
            )
            estimator.feature_names_in_ = np.asarray(encoder.names, dtype=object)
            estimator.n_features_in_ = len(encoder.names)
            return cls(encoder, None, _none_if_empty(encoder.categorical_outputs)), rows, targets
        rows, targets = validate_rows(estimator, X, y, **row_options(X), **target_options)
        check_integers(rows, "X")
        rows = normalise_rows(rows)
        mask = category_mask(chosen, rows.shape[1], parameter="categorical_features")
        check_categories(rows, mask)
        kept = _filled_columns(rows) if sp.issparse(rows) else None
        if kept is not None:
            rows, mask = rows[:, kept], mask[kept]
        categories = CategoryCodes.fit(rows, mask) if mask.any() else None
        empty = None if sp.issparse(rows) else _empty_columns(rows)
        if categories is not None:
            rows = categories.transform(rows)
        if sp.issparse(rows):
            return cls(None, None, _none_if_empty(mask), kept, categories), rows, targets
        gaps = Imputer.fit(rows)
        mask = np.append(mask, np.ones(len(gaps.marked), bool))
        learned = cls(None, gaps, _none_if_empty(mask), None, categories, empty)
        return learned, gaps.transform(rows), targets

    @classmethod
    def _fit_on_disk(
        cls,
        estimator: BaseEstimator,
        X: RowTable | LazyRows,
        y: ArrayLike,
        chosen: ArrayLike | None,
        target_options: Mapping[str, object],
    ) -> tuple[RowInputs, LazyRows, AnyArray]:
        """Return the result of :meth:`fit` for rows that are read when they are needed."""
        targets = validate_rows(estimator, "no_validation", y, **target_options)
        if len(targets) != len(X):
            raise InputError(f"X has {len(X)} rows and y {len(targets)}; give one target per row.")
        if isinstance(X, RowTable):
            encoder = TableEncoder().fit(X, chosen)
            estimator.feature_names_in_ = np.asarray(encoder.names, dtype=object)
            estimator.n_features_in_ = len(encoder.names)
            return (
                cls(encoder, None, _none_if_empty(encoder.categorical_outputs)),
                encoder.encode_lazily(X),
                targets,
            )
        if X.dtype not in (np.float32, np.float64):
            floats = np.result_type(X.dtype, np.float32)
            X = OrderedRows(X, transform=lambda rows: rows.astype(floats), dtype=floats)
        estimator.n_features_in_ = X.shape[1]
        for a, b in X.row_blocks():
            if np.isinf(X[a:b]).any():
                raise InputError(f"X contains infinity in rows {a} to {b - 1}; replace it.")
        mask = category_mask(chosen, X.shape[1], parameter="categorical_features")
        check_categories(X, mask)
        categories = None
        if mask.any():
            categories = CategoryCodes.fit(X, mask)
            X = OrderedRows(X, transform=categories.transform)
        gaps = Imputer.fit(X)
        mask = np.append(mask, np.ones(len(gaps.marked), bool))
        rows = OrderedRows(X, transform=gaps.transform, width=len(mask))
        return cls(None, gaps, _none_if_empty(mask), None, categories), rows, targets

    def transform(self, estimator: BaseEstimator, X: TableLike) -> Rows:
        """Return the inputs of new rows after checks; columns of data frames are found by name.

        If :meth:`fit` had a data frame, an array must have its columns in the same order, and
        scikit-learn warns.
        """
        if self.encoder is not None:
            if is_frame(X):
                return self.encoder.transform(X)
            rows = validate_rows(estimator, X, reset=False, dtype=None, ensure_all_finite=False)
            return self.encoder.transform(_NamedArray(self.encoder.names, rows))
        rows = self._checked(estimator, X)
        if self.gaps is None or not sp.issparse(rows):
            return self._encode_and_fill(rows)
        if _bytes_if_dense(rows) <= _DENSE_SHARE * large_array_budget():
            return self._encode_and_fill(rows.toarray())

        def fill_block(part: Rows) -> AnyArray:
            return np.asarray(self._encode_and_fill(part.toarray()))

        width, dtype = rows.shape[1] + len(self.gaps.marked), np.result_type(rows.dtype, np.float32)
        return OrderedRows(rows, np.arange(rows.shape[0]), fill_block, width, dtype)

    def _encode_and_fill(self, rows: Rows) -> Rows:
        if self.empty is not None:
            rows = _clear_columns(rows, self.empty)
        if self.categories is not None:
            self.categories.warn_of_unknown(rows)
            rows = self.categories.transform(rows)
        return rows if self.gaps is None else self.gaps.transform(rows)

    def with_categories_of(self, estimator: BaseEstimator, X: TableLike) -> RowInputs:
        """Return the conversion with codes for the new categories of further training rows."""
        if self.categories is None:
            return self
        return replace(self, categories=self.categories.extend(self._checked(estimator, X)))

    def _checked(self, estimator: BaseEstimator, X: TableLike) -> Rows:
        """Return the kept columns of new rows of an array or sparse matrix after checks."""
        finite = True if self.gaps is None else "allow-nan"
        options = ROW_OPTIONS | {"ensure_all_finite": finite}
        rows = normalise_rows(validate_rows(estimator, X, reset=False, **options))
        rows = rows if self.kept is None else rows[:, self.kept]
        if self.categorical is not None:
            check_categories(rows, self.categorical[: rows.shape[1]])
        return rows

    def of_inputs(self, values: AnyArray) -> AnyArray:
        """Return values per input from values per column; a scalar is returned unchanged."""
        return values if self.kept is None or values.ndim == 0 else values[self.kept]

    def sources(self, n_features: int) -> NDArray[np.intp]:
        """Return the column of the table that each input comes from."""
        if self.encoder is not None:
            return np.repeat(
                np.arange(n_features), [len(c.outputs()) for c in self.encoder.columns]
            )
        if self.kept is not None:
            return self.kept
        return np.arange(n_features) if self.gaps is None else self.gaps.sources()


@dataclass(frozen=True)
class _NamedArray(NamedColumns):
    """An array with the column names of the data frame in fit."""

    names: tuple[str, ...]
    rows: AnyArray

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> AnyArray:
        """Return one column."""
        column: AnyArray = self.rows[:, self.names.index(name)]
        return column


def _empty_columns(rows: AnyArray) -> NDArray[np.int64] | None:
    """Return the columns of an array that hold only NaN, or None if there are none."""
    empty = np.flatnonzero(np.isnan(rows[0]))
    empty = empty[[bool(np.isnan(rows[:, j]).all()) for j in empty]]
    return empty.astype(np.int64) if len(empty) > 0 else None


def _clear_columns(rows: AnyArray, empty: NDArray[np.int64]) -> AnyArray:
    """Return rows with NaN in the columns that were empty in fit; warn if they have values."""
    has_values = ~np.isnan(rows[:, empty]).all(axis=0)
    if not has_values.any():
        return rows
    warnings.warn(
        f"input {empty[has_values][0]} held no values in fit but holds numbers now, which are "
        f"treated as missing; fit again with these values, or drop the input.",
        stacklevel=2,
    )
    rows = rows.astype(np.result_type(rows.dtype, np.float32), copy=True)
    rows[:, empty] = np.nan
    return rows


def dense_if_small(X: Any) -> Any:
    """Return sparse rows as an array if that takes at most a quarter of the memory budget.

    Rows with too many columns for growing grids stay sparse. Other tables are returned unchanged.
    """
    if not sp.issparse(X) or X.ndim != 2 or X.shape[1] > MAX_COLUMNS:
        return X
    if _bytes_if_dense(X) > _DENSE_SHARE * large_array_budget():
        return X
    if X.format in ("csr", "csc"):
        check_structure(X)
    return X.toarray()


def _bytes_if_dense(rows: Rows) -> float:
    return float(rows.shape[0]) * rows.shape[1] * rows.dtype.itemsize


def _filled_columns(rows: Rows) -> NDArray[np.int64] | None:
    """Return the columns of sparse rows with non-zeros, or None if all columns are kept."""
    if rows.shape[1] <= _MAX_COLUMNS_KEPT:
        return None
    kept = np.unique(rows.indices[rows.data != 0]).astype(np.int64)
    # A model needs at least one input, even if all rows are zero.
    kept = kept if len(kept) > 0 else np.zeros(1, np.int64)
    return kept if len(kept) < rows.shape[1] else None


def row_options(X: TableLike) -> dict[str, object]:
    """Return the options of ``validate_data``, which allow NaN unless rows are sparse."""
    return ROW_OPTIONS | {"ensure_all_finite": True if sp.issparse(X) else "allow-nan"}


def _none_if_empty(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def monotone_inputs(model: StatefulEstimator, inputs: RowInputs, n_outputs: int) -> IntArray | None:
    """Return the constraint of each input, 1, -1 or 0, or None if all are 0."""
    if model.monotonic_cst is None:
        return None
    owner, columns = type(model).__name__, _column_constraints(model)
    if not columns.any():
        return None
    if n_outputs > 1:
        raise InputError(
            f"{owner}: monotonic_cst needs one output: numbers of one column, or two classes."
        )
    sources = np.asarray(inputs.sources(model.n_features_in_))
    constraints = columns[sources].copy()
    if inputs.categorical is not None:
        constraints[inputs.categorical] = 0
    categorical_columns = np.setdiff1d(np.flatnonzero(columns), sources[constraints != 0])
    if len(categorical_columns) > 0:
        raise InputError(
            f"{owner}: monotonic_cst names column {categorical_columns[0]}, which holds "
            f"categories: they have no order."
        )
    return constraints


def _column_constraints(model: StatefulEstimator) -> IntArray:
    given, owner, n_columns = model.monotonic_cst, type(model).__name__, model.n_features_in_
    if isinstance(given, Mapping):
        names = [str(name) for name in vars(model).get("feature_names_in_", ())]
        unknown = [name for name in given if name not in names]
        if unknown:
            raise InputError(
                f"{owner}: monotonic_cst names the column {unknown[0]!r}, which the table does not "
                f"have."
            )
        given = [given.get(name, 0) for name in names]
    constraints = np.asarray(given)
    if constraints.shape != (n_columns,) or not np.isin(constraints, (-1, 0, 1)).all():
        raise InputError(
            f"{owner}: monotonic_cst must hold -1, 0 or 1 for each of {n_columns} columns, or be a "
            f"dict with column names as keys; got {model.monotonic_cst!r}."
        )
    return constraints.astype(np.int64)
