"""Validation of rows and targets, and conversion of rows with as few copies as possible."""

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

# A dense array or a CSR array of SciPy; their operations have no common annotation.
Rows: TypeAlias = Any

# Options of scikit-learn's validate_data for rows.
ROW_OPTIONS: dict[str, object] = {
    "accept_sparse": "csr",
    "accept_large_sparse": True,
    "dtype": "numeric",
    "order": None,
}

_MAX_EXACT_INTEGER = 2.0**53  # float64 holds every integer up to here
# Integers beyond 2**53 are rejected if their range contains fewer float64 values than this.
_MIN_DISTINCT_FLOATS = 4096
# Sample weights up to this fraction of the largest count as zero. The inverses of the others are
# then below 2**900, and products with them do not overflow.
_MIN_RELATIVE_WEIGHT = 2.0**-900
_NATIVE = frozenset(np.dtype(t) for t in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4"))


def check_rows(estimator: BaseEstimator, X: TableLike, *, reset: bool, min_rows: int = 1) -> Rows:
    """Validate ``X`` by scikit-learn, keeping its precision, memory order and sparsity.

    Returns ``X`` itself if its type and layout allow it, else a converted copy. With ``reset`` (in
    ``fit``), ``n_features_in_`` and ``feature_names_in_`` of the estimator are set. Raises
    ``InputError`` for NaN, infinity, complex numbers, text that is not a number, datetimes or a
    wrong number of columns, and in ``fit`` also for integers that float64 would round.
    """
    X = validate_rows(estimator, X, reset=reset, **ROW_OPTIONS, ensure_min_samples=min_rows)
    if reset:
        check_integers(X, "X")
    return normalise_rows(X)


def validate_rows(estimator: BaseEstimator, X: TableLike, *y: object, **options: object) -> Any:
    """Call scikit-learn's ``validate_data``; raise its errors as ``InputError``."""
    if isinstance(X, (sp.spmatrix, sp.sparray)) and X.format in ("csr", "csc"):
        check_structure(X)
    if isinstance(X, np.ma.MaskedArray):
        # scikit-learn would use the values below the mask.
        X = np.ma.filled(X.astype(np.result_type(X.dtype, np.float32)), np.nan)
    owner = type(estimator).__name__
    # scikit-learn would treat dicts and lazy frames as scalars and print them whole in its error
    # message.
    if isinstance(X, dict) and not sp.issparse(X):
        raise InputError(
            f"{owner}: X is a dict of columns; make it a table, such as "
            f"pandas.DataFrame(X) or polars.DataFrame(X)."
        )
    if issubclass(type(X), _Lazy):
        raise InputError(
            f"{owner}: X is a {type(X).__name__}, whose rows are not read yet; pass X.collect()."
        )
    if options.get("dtype", "numeric") is not None:
        _check_types(owner, X, in_fit=options.get("reset") is not False)
    try:
        return validate_data(estimator, X, *y, **options)
    except GramlessError:
        raise
    except (TypeError, ValueError) as error:
        message = str(error)
        error_class = InputTypeError if isinstance(error, TypeError) else InputError
        raise error_class(message if owner in message else f"{owner}: {message}") from error


def validate_targets(estimator: BaseEstimator, y: object, **options: object) -> Any:
    """Check targets by scikit-learn; raise its errors as ``InputError``."""
    try:
        return _check_y(y, estimator=estimator, **options)
    except ValueError as error:
        raise InputError(str(error)) from error


def checked_weights(given: ArrayLike | None, n_rows: int, owner: str) -> FloatArray:
    """Return sample weights, or ones for None.

    Raises ``InputError`` if there is not one per row, or unless they are finite, not negative and
    not all zero. ``owner`` is the name of the estimator in the message.
    """
    if given is None:
        return np.ones(n_rows)
    if np.count_nonzero(np.asarray(given)) == 0:
        raise InputError(f"{owner}: every sample weight is zero.")
    try:
        # scikit-learn uses only the number of rows of its second argument.
        weights: FloatArray = _check_sample_weight(
            given, np.empty((n_rows, 0)), dtype=np.float64, ensure_non_negative=True
        )
    except ValueError as error:
        raise InputError(f"{owner}: {error}") from error
    return weights


def relative_weights(weight: FloatArray, largest: float) -> FloatArray:
    """Return sample weights divided by ``largest``; those up to 2**-900 times it become 0."""
    return np.where(weight > _MIN_RELATIVE_WEIGHT * largest, weight / largest, 0.0)


@runtime_checkable
class _Lazy(Protocol):  # such as a LazyFrame of polars
    def collect(self) -> object: ...


def _check_types(owner: str, X: object, in_fit: bool) -> None:
    """Raise InputError if rows hold datetimes, durations or text that is not a number."""
    # scikit-learn would convert datetimes and durations to numbers in the unit of their type.
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
        # Columns with the same name cannot be looked up by name. scikit-learn, which checks these
        # tables next, uses the positions of columns.
        return
    for name, read in named_columns(X).items():
        column = read()
        if not in_fit:
            # Raises InputError for a cell that is not a number. A column of new rows may have
            # another type than in fit, such as text if it is read from a file.
            ColumnCode(name, fill=0.0, type="number").numbers(column)
        elif not column.is_category and column.type != "number":
            raise InputError(
                f"{owner}: column {name!r} holds {COLUMN_TYPES[column.type]}, and {owner} takes "
                f"numbers; convert it."
            )


def check_width(owner: str, X: Rows, n_inputs: int) -> None:
    """Raise InputError if the number of columns differs from the fit.

    The compiled loops do not check the sizes of arrays.
    """
    shape = X.shape
    if len(shape) != 2 or shape[1] != n_inputs:
        size = f"{shape[1]} inputs" if len(shape) == 2 else f"the shape {shape}"
        raise InputError(
            f"{owner}: rows have {size}, not {n_inputs} as in the fit; give the same inputs, in "
            f"the same order."
        )


def check_structure(X: Rows) -> None:
    """Raise InputError if the indices of a sparse array are invalid.

    SciPy does not check arrays that users replaced in an existing object.
    """
    n_minor = X.shape[1] if X.format == "csr" else X.shape[0]
    ends, n_stored = X.indptr, min(len(X.indices), len(X.data))
    is_valid = len(ends) == X.shape[0] + X.shape[1] - n_minor + 1
    is_valid = is_valid and ends[0] == 0 and ends[-1] <= n_stored
    is_valid = is_valid and bool((ends[1:] >= ends[:-1]).all())
    if is_valid and len(X.indices):
        is_valid = X.indices.min() >= 0 and X.indices.max() < n_minor
    if not is_valid:
        raise InputError(
            f"X is a sparse matrix whose indptr or indices lie outside of its shape {X.shape}; "
            f"build it again from the original data. X.check_format() says what is wrong."
        )


def check_integers(X: Rows, name: str) -> None:
    """Raise InputError if integers are so large and close that float64 would round them."""
    if X.dtype.kind not in "iu" or X.dtype.itemsize < 8 or sp.issparse(X) or not len(X):
        return
    columns = X.reshape(len(X), -1)
    lowest, highest = columns.min(axis=0), columns.max(axis=0)
    size = np.maximum(np.abs(lowest.astype(float)), np.abs(highest.astype(float)))
    # A range too large for the integer type overflows to a negative number and is not rejected.
    spans = (highest - lowest).astype(float)
    spacing = size / _MAX_EXACT_INTEGER
    is_lost = (size > _MAX_EXACT_INTEGER) & (spans > 0) & (spans < _MIN_DISTINCT_FLOATS * spacing)
    if is_lost.any():
        j = np.flatnonzero(is_lost)[0]
        where = "" if X.ndim == 1 else f" of column {j}"
        raise InputError(
            f"{name}: the integers{where} are around {size[j]:.3g} and differ by {spans[j]:.3g} at "
            f"most, which double precision cannot tell apart; subtract the smallest from all."
        )


def dense_columns(X: Rows, mask: BoolArray) -> Iterator[tuple[int, AnyArray]]:
    """Yield the position and the values of each column in a mask, dense also for sparse rows."""
    columns = X.tocsc() if sp.issparse(X) else X
    for j in np.flatnonzero(mask).tolist():
        yield j, columns[:, [j]].toarray()[:, 0] if sp.issparse(X) else columns[:, j]


def normalise_rows(X: Rows) -> Rows:
    """Convert validated rows to a type for which loops are compiled.

    Raises ``InputError`` for numbers that are too large for float64.
    """
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
