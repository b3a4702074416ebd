"""What a feature map accepts as rows, and how it is normalised without needless copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from gramless.base.errors import GramlessError, InputError

Rows: TypeAlias = NDArray[Any] | Any
"""A dense array, or SciPy CSR."""

ROW_OPTIONS: dict[str, Any] = {
    "accept_sparse": "csr",
    "accept_large_sparse": True,
    "dtype": "numeric",
    "order": None,
}
"""How scikit-learn's ``validate_data`` is asked to treat rows."""

_EXACT = 2.0**53
"""Integers up to here are floats of 64 bits."""
_STEPS_TOLD = 4096
"""As many different floats between the least and the largest integer tell enough."""
_NATIVE = frozenset(np.dtype(t) for t in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4"))


def check_rows(estimator: Any, X: Any, *, reset: bool, min_rows: int = 1) -> Rows:
    """Validate ``X`` as scikit-learn does, keeping its precision, order and sparsity.

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_`` and ``feature_names_in_`` when ``reset``.
    X : array-like, data frame or sparse matrix (n_samples, n_features)
        Numbers; float32 stays float32, integers stay integers.
    reset : bool
        True in ``fit``.
    min_rows : int, default=1

    Returns
    -------
    ndarray or csr_array
        The given array itself whenever its type and layout allow.

    Raises
    ------
    InputError
        On NaN, infinity, complex numbers, text, or the wrong number of columns.
    """
    options = ROW_OPTIONS | {"ensure_min_samples": min_rows}
    X = validated(estimator, X, reset=reset, **options)
    if reset:
        check_integers(X, "X")
    return normalise_rows(X)


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Do as scikit-learn's ``validate_data``, but refuse values by an ``InputError``.

    Parameters
    ----------
    estimator : estimator
    X : array-like, data frame or sparse matrix (n_samples, n_features)
    *y : array-like
        Targets, if there are any.
    **options
        Of ``validate_data``.

    Returns
    -------
    ndarray or sparse array, or a tuple with that of the targets

    Raises
    ------
    InputError
        If values or shapes cannot be used, with the message of scikit-learn.
    """
    if sp.issparse(X) and X.format in ("csr", "csc"):
        _check_structure(X)
    try:
        return validate_data(estimator, X, *y, **options)
    except GramlessError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error


def check_width(owner: str, X: Rows, n_inputs: int) -> None:
    """Check that rows have as many columns as the arrays that loops meet them with.

    Parameters
    ----------
    owner : str
        What was fitted, for the message.
    X : array (n_samples, n_columns) or CSR
    n_inputs : int

    Raises
    ------
    InputError
        If they have more or fewer, or are no table.

    Examples
    --------
    >>> check_width("Scaler", np.ones((2, 3)), 3)
    """
    shape = X.shape
    if len(shape) != 2 or shape[1] != n_inputs:
        found = f"{shape[1]} inputs" if len(shape) == 2 else f"the shape {shape}"
        raise InputError(
            f"{owner}: rows have {found}, not {n_inputs} as in the fit; give the same inputs, in "
            f"the same order."
        )


def _check_structure(X: Any) -> None:
    """Check the positions of non-zeros, which nothing checks where arrays were set by hand."""
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


def check_integers(X: Any, name: str) -> None:
    """Refuse integers so large and so near to each other that floats of 64 bits lose them.

    Parameters
    ----------
    X : array (n,) or (n, n_features), or sparse
    name : str
        What they are, for the message.

    Raises
    ------
    InputError

    Examples
    --------
    >>> check_integers(np.array([[1, 2**60], [2, -(2**60)]]), "X")
    """
    if X.dtype.kind not in "iu" or X.dtype.itemsize < 8 or sp.issparse(X) or not len(X):
        return
    columns = X.reshape(len(X), -1)
    least, most = columns.min(axis=0), columns.max(axis=0)
    size = np.maximum(np.abs(least.astype(float)), np.abs(most.astype(float)))
    # Negative where it is too large for integers.
    steps = (most - least).astype(float)
    lost = np.flatnonzero((size > _EXACT) & (steps > 0) & (steps < _STEPS_TOLD * size / _EXACT))
    if len(lost):
        where = "" if X.ndim == 1 else f" of column {lost[0]}"
        raise InputError(
            f"{name}: the integers{where} are around {size[lost[0]]:.3g} and differ by "
            f"{steps[lost[0]]:.3g} at most, which double precision cannot tell apart; "
            f"subtract the smallest from all."
        )


def dense_columns(X: Any, chosen: NDArray[np.bool_]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the position and all values of some columns, zeros of sparse rows included."""
    columns: Any = X.tocsc() if sp.issparse(X) else X
    for j in np.flatnonzero(chosen).tolist():
        yield j, columns[:, [j]].toarray()[:, 0] if sp.issparse(X) else columns[:, j]


def normalise_rows(X: Any) -> Rows:
    """Give validated rows a type that the loops are compiled for."""
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
