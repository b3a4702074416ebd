"""Which rows feature maps accept, and how they are normalised without needless copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, _check_y, validate_data

from gramless.base.columns import COLUMN_TYPES, is_frame, named_columns, plain_column
from gramless.base.errors import GramlessError, InputError, InputTypeError
from gramless.base.types import (
    AnyArray,
    ArrowTable,
    BoolArray,
    FloatArray,
    NamedColumns,
    TableLike,
)
from gramless.preprocessing.column_codes import ColumnCode

Rows: TypeAlias = Any
"""A dense array, or SciPy CSR: two types whose operations no common annotation describes."""

ROW_OPTIONS: dict[str, object] = {
    "accept_sparse": "csr",
    "accept_large_sparse": True,
    "dtype": "numeric",
    "order": None,
}
"""Options of scikit-learn's ``validate_data`` for rows."""

_EXACT = 2.0**53
"""The largest integer up to which float64 holds every integer exactly."""
_ENOUGH_STEPS = 4096
"""Integers beyond ``_EXACT`` are accepted when their range spans this many distinct floats."""
_LEAST_WEIGHT = 2.0**-900
"""Sample weights below this fraction of the largest count as zero: the inverse square of
others is finite."""
_NATIVE = frozenset(np.dtype(t) for t in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4"))


def check_rows(estimator: BaseEstimator, X: TableLike, *, reset: bool, min_rows: int = 1) -> Rows:
    """Validate ``X`` as scikit-learn does, keeping its precision, order and sparsity.

    Returns ``X`` itself wherever its type and layout allow, else a converted copy. With
    ``reset`` (in ``fit``), the estimator gets ``n_features_in_`` and ``feature_names_in_``.
    Raises ``InputError`` for NaN, infinity, complex numbers, text or a wrong number of columns.
    """
    X = validated(estimator, X, reset=reset, **ROW_OPTIONS, ensure_min_samples=min_rows)
    if reset:
        check_integers(X, "X")
    return normalise_rows(X)


def validated(estimator: BaseEstimator, X: TableLike, *y: object, **options: object) -> Any:
    """Call scikit-learn's ``validate_data``, raising ``InputError`` with its messages."""
    if isinstance(X, (sp.spmatrix, sp.sparray)) and X.format in ("csr", "csc"):
        check_structure(X)
    if isinstance(X, np.ma.MaskedArray):
        # scikit-learn would use the values below the mask.
        X = np.ma.filled(X.astype(np.result_type(X.dtype, np.float32)), np.nan)
    owner = type(estimator).__name__
    _refuse_unread(owner, X)
    if options.get("dtype", "numeric") is not None:
        _refuse_other_types(owner, X, in_fit=options.get("reset") is not False)
    try:
        return validate_data(estimator, X, *y, **options)
    except GramlessError:
        raise
    except (TypeError, ValueError) as error:
        message = str(error)
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        raise kind(message if owner in message else f"{owner}: {message}") from error


def validated_targets(estimator: BaseEstimator, y: object, **options: object) -> Any:
    """Check targets alone as :func:`validated` does, and leave the estimator as it is."""
    try:
        return _check_y(y, estimator=estimator, **options)
    except ValueError as error:
        raise InputError(str(error)) from error


def checked_weights(given: ArrayLike | None, n_rows: int, owner: str) -> FloatArray:
    """Return the weights of rows, which are not all zero; ``owner`` names the caller."""
    if given is None:
        return np.ones(n_rows)
    if np.count_nonzero(np.asarray(given)) == 0:
        raise InputError(f"{owner}: every sample weight is zero.")
    try:
        # Only the number of rows counts.
        weights: FloatArray = _check_sample_weight(
            given, np.empty((n_rows, 0)), dtype=np.float64, ensure_non_negative=True
        )
    except ValueError as error:
        raise InputError(f"{owner}: {error}") from error
    return weights


def relative_weights(weight: FloatArray, largest: float) -> FloatArray:
    """Return sample weights relative to the largest, with negligible ones as zeros."""
    return np.where(weight > _LEAST_WEIGHT * largest, weight / largest, 0.0)


@runtime_checkable
class _Lazy(Protocol):
    """A query whose rows are not there yet, such as a LazyFrame of polars."""

    def collect(self) -> object: ...


def _refuse_unread(owner: str, X: object) -> None:
    """Refuse what scikit-learn would take for a single number and print."""
    if isinstance(X, dict) and not sp.issparse(X):
        raise InputError(
            f"{owner}: X is a dict of columns; make it a table, such as "
            f"pandas.DataFrame(X) or polars.DataFrame(X)."
        )
    if issubclass(type(X), _Lazy):
        raise InputError(
            f"{owner}: X is a {type(X).__name__}, whose rows are not read yet; pass X.collect()."
        )


def _refuse_other_types(owner: str, X: object, in_fit: bool) -> None:
    """Raise InputError if rows of numbers hold datetimes, durations or text that is no number.

    NumPy would count datetimes and durations in whatever unit they are stored.
    """
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        held = COLUMN_TYPES[plain_column("X", X.reshape(-1)).type]
        raise InputError(
            f"{owner}: the array holds {held}, and arrays must hold numbers; convert it, "
            f"or give a data frame in fit and predict."
        )
    if not is_frame(X) or isinstance(X, NamedColumns):
        return
    names = X.schema.names if isinstance(X, ArrowTable) else X.columns
    if len(set(map(str, names))) < len(names):
        # scikit-learn goes by the positions.
        return
    for name, read in named_columns(X).items():
        column = read()
        if not in_fit:
            ColumnCode(name, fill=0.0, type="number").numbers(column)
        elif not column.is_category and column.type != "number":
            raise InputError(
                f"{owner}: column {name!r} holds {COLUMN_TYPES[column.type]}, and {owner} takes "
                f"numbers; convert it."
            )


def check_width(owner: str, X: Rows, n_inputs: int) -> None:
    """Refuse rows whose number of columns differs from that of the fit.

    The compiled loops trust the sizes of the arrays they are given.
    """
    shape = X.shape
    if len(shape) != 2 or shape[1] != n_inputs:
        found = f"{shape[1]} inputs" if len(shape) == 2 else f"the shape {shape}"
        raise InputError(
            f"{owner}: rows have {found}, not {n_inputs} as in the fit; give the same inputs, in "
            f"the same order."
        )


def check_structure(X: Rows) -> None:
    """Check the positions of non-zeros, which SciPy does not check in arrays set by hand."""
    n_minor = X.shape[1] if X.format == "csr" else X.shape[0]
    ends, n_stored = X.indptr, min(len(X.indices), len(X.data))
    fits = len(ends) == X.shape[0] + X.shape[1] - n_minor + 1
    fits = fits and ends[0] == 0 and ends[-1] <= n_stored and bool((ends[1:] >= ends[:-1]).all())
    if fits and len(X.indices):
        fits = X.indices.min() >= 0 and X.indices.max() < n_minor
    if not fits:
        raise InputError(
            f"X is a sparse matrix whose indptr or indices lie outside of its shape {X.shape}; "
            f"build it anew, such as by scipy.sparse.csr_array(X.toarray())."
        )


def check_integers(X: Rows, name: str) -> None:
    """Refuse integers too large, and too close together, to be told apart in float64."""
    if X.dtype.kind not in "iu" or X.dtype.itemsize < 8 or sp.issparse(X) or not len(X):
        return
    columns = X.reshape(len(X), -1)
    least, most = columns.min(axis=0), columns.max(axis=0)
    size = np.maximum(np.abs(least.astype(float)), np.abs(most.astype(float)))
    # The range overflows to a negative number where it is too large for integers.
    steps = (most - least).astype(float)
    lost = np.flatnonzero((size > _EXACT) & (steps > 0) & (steps < _ENOUGH_STEPS * size / _EXACT))
    if len(lost):
        where = "" if X.ndim == 1 else f" of column {lost[0]}"
        raise InputError(
            f"{name}: the integers{where} are around {size[lost[0]]:.3g} and differ by "
            f"{steps[lost[0]]:.3g} at most, which double precision cannot tell apart; "
            f"subtract the smallest from all."
        )


def dense_columns(X: Rows, chosen: BoolArray) -> Iterator[tuple[int, AnyArray]]:
    """Yield the position and all values of some columns, zeros of sparse rows included."""
    columns = X.tocsc() if sp.issparse(X) else X
    for j in np.flatnonzero(chosen).tolist():
        yield j, columns[:, [j]].toarray()[:, 0] if sp.issparse(X) else columns[:, j]


def normalise_rows(X: Rows) -> Rows:
    """Convert validated rows to a type for which the loops are compiled."""
    if sp.issparse(X):
        X = sp.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return X
    if X.dtype == bool:
        return X.view(np.uint8)
    if X.dtype == np.float16:
        return X.astype(np.float32)
    if X.dtype in _NATIVE and X.dtype.isnative:
        return X
    try:
        with np.errstate(over="raise"):
            return X.astype(np.float64)
    except FloatingPointError as error:
        raise InputError(
            "X holds values too large for double precision, or infinity; rescale it."
        ) from error
