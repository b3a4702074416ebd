"""Rows as users give them into numbers without gaps: data frames, NaN, categories, order."""

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
from gramless.base.lazy_rows import LazyRows, OrderedRows
from gramless.base.mapped import MappedRows
from gramless.base.memory import given_memory, memory_budget
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
    validated,
)
from gramless.selection.budget import MOST_COLUMNS

_MANY_COLUMNS = 1000
"""Sparse rows of at most so many columns keep them all: empty ones cost little."""
_DENSE_SHARE = 0.25  # of the memory budget; fits take most of the rest


@dataclass(frozen=True, repr=False)
class RowInputs(Stateful):
    """How the rows of a table become inputs of a feature map.

    Data frames are encoded, gaps in arrays are filled. Sparse rows become an array if that takes
    little memory, see :func:`dense_if_small`; others pass as they are, and have no gaps.
    ``categorical`` is the mask of inputs that are categories, None if none is. ``kept`` are the
    columns that are not empty in the training rows, if sparse rows have more than 1,000 columns;
    None where all columns are inputs. ``categories`` numbers the categories of arrays and sparse
    rows, before gaps are filled; None if there are none, and in files up to version 0.2. ``empty``
    are the columns of arrays without any value in the training rows, None if all have one.
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
        given = sum(part is not None for part in (encoder, gaps, kept))
        require(given <= 1, "inputs_ are made in more than one way")
        for name, part, kind in (
            ("encoder", encoder, TableEncoder),
            ("gaps", gaps, Imputer),
            ("categories", self.categories, CategoryCodes),
        ):
            require(part is None or isinstance(part, kind), f"{name} is none that gramless writes")
        if kept is not None:
            array_in(vars(self), "kept", np.int64, (None,))
            rising = kept.size > 0 and kept[0] >= 0 and (np.diff(kept) > 0).all()
            require(rising, "inputs_ keeps no columns")
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
            found = len(self.encoder.output_names), len(self.encoder.names)
            fits = fits and found == (n_inputs, n_features)
        else:
            marked = 0 if self.gaps is None else len(self.gaps.marked)
            fits = fits and n_features + marked == n_inputs
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
        target_options: dict[str, object],
    ) -> tuple[RowInputs, Rows, AnyArray]:
        """Learn from training rows; return what was learned, the inputs and the checked targets.

        The estimator gets ``n_features_in_`` and ``feature_names_in_``. Text, truth values and
        categories of data frames are always categories, and the columns that ``categorical``
        names, if it is not "auto". ``target_options`` say how ``validate_data`` treats targets.
        """
        chosen = None if isinstance(categorical, str) and categorical == "auto" else categorical
        if given_memory() is not None and MappedRows.can_map(X):
            X = MappedRows(X)
        if isinstance(X, (RowTable, LazyRows)):
            return cls._fit_on_disk(estimator, X, y, chosen, target_options)
        X = dense_if_small(X)
        if is_frame(X):
            encoder = TableEncoder().fit(X, chosen)
            options = ROW_OPTIONS | target_options
            rows, targets = validated(estimator, encoder.transform(X), y, **options)
            estimator.feature_names_in_ = np.asarray(encoder.names, dtype=object)
            estimator.n_features_in_ = len(encoder.names)
            return cls(encoder, None, _some(encoder.categorical_outputs)), rows, targets
        rows, targets = validated(estimator, X, y, **row_options(X), **target_options)
        check_integers(rows, "X")
        rows = normalise_rows(rows)
        mask = category_mask(chosen, rows.shape[1], parameter="categorical_features")
        check_categories(rows, mask)
        kept = _not_empty(rows) if sp.issparse(rows) else None
        if kept is not None:
            rows, mask = rows[:, kept], mask[kept]
        categories = CategoryCodes.fit(rows, mask) if mask.any() else None
        empty = None if sp.issparse(rows) else _without_values(rows)
        if categories is not None:
            rows = categories.transform(rows)
        if sp.issparse(rows):
            return cls(None, None, _some(mask), kept, categories), rows, targets
        gaps = Imputer.fit(rows)
        mask = np.append(mask, np.ones(len(gaps.marked), bool))
        learned = cls(None, gaps, _some(mask), None, categories, empty)
        return learned, gaps.transform(rows), targets

    @classmethod
    def _fit_on_disk(
        cls,
        estimator: BaseEstimator,
        X: RowTable | LazyRows,
        y: ArrayLike,
        chosen: ArrayLike | None,
        target_options: dict[str, object],
    ) -> tuple[RowInputs, LazyRows, AnyArray]:
        """Do as :meth:`fit`, with rows that are read when they are needed."""
        targets = validated(estimator, "no_validation", y, **target_options)
        if len(targets) != len(X):
            raise InputError(f"X has {len(X)} rows and y {len(targets)}; give one target a row.")
        if isinstance(X, RowTable):
            encoder = TableEncoder().fit(X, chosen)
            estimator.feature_names_in_ = np.asarray(encoder.names, dtype=object)
            estimator.n_features_in_ = len(encoder.names)
            return (
                cls(encoder, None, _some(encoder.categorical_outputs)),
                encoder.lazily(X),
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
        return cls(None, gaps, _some(mask), None, categories), rows, targets

    def transform(self, estimator: BaseEstimator, X: TableLike) -> Rows:
        """Check new rows and return their inputs; those of a data frame are found by name.

        Where :meth:`fit` had a data frame, columns of an array are taken in its order, with the
        warning that scikit-learn gives.
        """
        if self.encoder is not None:
            if is_frame(X):
                return self.encoder.transform(X)
            rows = validated(estimator, X, reset=False, dtype=None, ensure_all_finite=False)
            return self.encoder.transform(_Unnamed(self.encoder.names, rows))
        rows = self._checked(estimator, X)
        if self.gaps is None or not sp.issparse(rows):
            return self._numbered_and_filled(rows)
        if _bytes_if_dense(rows) <= _DENSE_SHARE * memory_budget():
            return self._numbered_and_filled(rows.toarray())

        def filled(part: Rows) -> AnyArray:
            return np.asarray(self._numbered_and_filled(part.toarray()))

        width, dtype = rows.shape[1] + len(self.gaps.marked), np.result_type(rows.dtype, np.float32)
        return OrderedRows(rows, np.arange(rows.shape[0]), filled, width, dtype)

    def _numbered_and_filled(self, rows: Rows) -> Rows:
        if self.empty is not None:
            rows = _as_missing(rows, self.empty)
        if self.categories is not None:
            self.categories.warn_of_unknown(rows)
            rows = self.categories.transform(rows)
        return rows if self.gaps is None else self.gaps.transform(rows)

    def with_categories_of(self, estimator: BaseEstimator, X: TableLike) -> RowInputs:
        """Return the same inputs, with codes for the categories that more rows of a fit add."""
        if self.categories is None:
            return self
        return replace(self, categories=self.categories.extended(self._checked(estimator, X)))

    def _checked(self, estimator: BaseEstimator, X: TableLike) -> Rows:
        """Return checked new rows of an array, or sparse ones, with the columns that are kept."""
        finite = True if self.gaps is None else "allow-nan"
        options = ROW_OPTIONS | {"ensure_all_finite": finite}
        rows = normalise_rows(validated(estimator, X, reset=False, **options))
        rows = rows if self.kept is None else rows[:, self.kept]
        if self.categorical is not None:
            check_categories(rows, self.categorical[: rows.shape[1]])
        return rows

    def of_inputs(self, values: AnyArray) -> AnyArray:
        """Return the values of the inputs from those of the columns; a single value stays."""
        return values if self.kept is None or values.ndim == 0 else values[self.kept]

    def sources(self, n_features: int) -> NDArray[np.intp]:
        """Return which column of the table each input comes from."""
        if self.encoder is not None:
            return np.repeat(
                np.arange(n_features), [len(c.outputs()) for c in self.encoder.columns]
            )
        if self.kept is not None:
            return self.kept
        return np.arange(n_features) if self.gaps is None else self.gaps.sources()


@dataclass(frozen=True)
class _Unnamed(NamedColumns):
    """An array whose columns are those of a table, in the same order."""

    names: tuple[str, ...]
    rows: AnyArray

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> AnyArray:
        """Return one column."""
        column: AnyArray = self.rows[:, self.names.index(name)]
        return column


def _without_values(rows: AnyArray) -> NDArray[np.int64] | None:
    """Return the columns of an array that hold NaN alone, None if there are none."""
    empty = np.flatnonzero(np.isnan(rows[0]))
    empty = empty[[bool(np.isnan(rows[:, j]).all()) for j in empty]]
    return empty.astype(np.int64) if len(empty) > 0 else None


def _as_missing(rows: AnyArray, empty: NDArray[np.int64]) -> AnyArray:
    """Return rows without the values of columns that held none in fit, with a warning."""
    filled = ~np.isnan(rows[:, empty]).all(axis=0)
    if not filled.any():
        return rows
    warnings.warn(
        f"input {empty[filled][0]} held no values in fit and holds numbers now, which are treated "
        f"as missing; fit again with these values, or drop the input.",
        stacklevel=2,
    )
    rows = rows.astype(np.result_type(rows.dtype, np.float32), copy=True)
    rows[:, empty] = np.nan
    return rows


def dense_if_small(X: Any) -> Any:
    """Return sparse rows as an array if that takes at most a quarter of the memory budget.

    Rows of more columns than grids are grown over stay sparse; other tables are returned as given.
    """
    if not sp.issparse(X) or X.ndim != 2 or X.shape[1] > MOST_COLUMNS:
        return X
    if _bytes_if_dense(X) > _DENSE_SHARE * memory_budget():
        return X
    if X.format in ("csr", "csc"):
        check_structure(X)
    return X.toarray()


def _bytes_if_dense(rows: Rows) -> float:
    return float(rows.shape[0]) * rows.shape[1] * rows.dtype.itemsize


def _not_empty(rows: Rows) -> NDArray[np.int64] | None:
    """Return the columns that have non-zeros, if they are many; None where all are kept."""
    if rows.shape[1] <= _MANY_COLUMNS:
        return None
    kept = np.unique(rows.indices[rows.data != 0]).astype(np.int64)
    # A model needs an input, even where none tells anything.
    kept = kept if len(kept) > 0 else np.zeros(1, np.int64)
    return kept if len(kept) < rows.shape[1] else None


def row_options(X: TableLike) -> dict[str, object]:
    """Return how ``validate_data`` treats rows: NaN is a gap, but in sparse rows a mistake."""
    return ROW_OPTIONS | {"ensure_all_finite": True if sp.issparse(X) else "allow-nan"}


def _some(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def monotone_inputs(model: StatefulEstimator, n_outputs: int) -> IntArray | None:
    """Return for each input 1, -1 or 0, as the columns of the table say; None if all are 0."""
    if model.monotonic_cst is None:
        return None
    owner, columns = type(model).__name__, _of_columns(model)
    if not columns.any():
        return None
    if n_outputs > 1:
        raise InputError(
            f"{owner}: monotonic_cst is for one output: numbers of one column, or two classes."
        )
    inputs = model.inputs_
    sources = np.asarray(inputs.sources(model.n_features_in_))
    rising = columns[sources].copy()
    if inputs.categorical is not None:
        rising[inputs.categorical] = 0
    lost = np.setdiff1d(np.flatnonzero(columns), sources[rising != 0])
    if len(lost) > 0:
        raise InputError(
            f"{owner}: monotonic_cst names column {lost[0]}, which holds categories: they have no "
            f"order."
        )
    return rising


def _of_columns(model: StatefulEstimator) -> IntArray:
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
    found = np.asarray(given)
    if found.shape != (n_columns,) or not np.isin(found, (-1, 0, 1)).all():
        raise InputError(
            f"{owner}: monotonic_cst must hold -1, 0 or 1 for each of {n_columns} columns, or be a "
            f"dict by their names; got {model.monotonic_cst!r}."
        )
    return found.astype(np.int64)
