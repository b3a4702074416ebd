"""Inputs that are categories: their mask, the whole numbers that they may hold, their codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gramless.base.errors import InputError
from gramless.base.state import Stateful, array_in, require
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.preprocessing.column_codes import MOST_UNKNOWN, warn_of_unknown
from gramless.preprocessing.rows import Rows, dense_columns

Mask: TypeAlias = BoolArray

MISSING_CODE = -1.0
_MOST_SINGLE = 2**24  # float32 holds every integer up to here

CATEGORY_LIMIT = 2.0**52
"""Bound above which neighbouring whole numbers would share a grid cell of width 1."""


def category_mask(
    chosen: ArrayLike | None,
    n_inputs: int,
    names: Sequence[str] = (),
    parameter: str = "categorical",
) -> Mask:
    """Return which inputs are categories, as a mask of shape (n_inputs,).

    ``chosen`` lists positions or names, or is a mask. Messages call it ``parameter``.
    """
    mask = np.zeros(n_inputs, bool)
    if chosen is None:
        return mask
    if isinstance(chosen, (str, bytes)) or not isinstance(chosen, Sized):
        raise InputError(
            f"{parameter} must be a list of positions or names, or one truth value an input; "
            f"got {chosen!r}."
        )
    items = list(chosen)
    if items and all(isinstance(item, (bool, np.bool_)) for item in items):
        if len(items) != n_inputs:
            raise InputError(
                f"{parameter} holds {len(items)} truth values for {n_inputs} inputs; give one each."
            )
        return np.array(items, bool)
    places = {name: j for j, name in enumerate(names)}
    mask[[_position(item, n_inputs, places, parameter) for item in items]] = True
    return mask


def _position(item: object, n_inputs: int, places: dict[str, int], parameter: str) -> int:
    if isinstance(item, str):
        if item in places:
            return places[item]
        first = ", ".join(map(repr, list(places)[:5]))
        known = f"known are {first}" if places else "none has a name"
        raise InputError(f"{parameter}: no input is called {item!r}; {known}.")
    if not isinstance(item, (int, np.integer)) or isinstance(item, bool):
        raise InputError(f"{parameter} must list positions or names of inputs, got {item!r}.")
    if not 0 <= item < n_inputs:
        raise InputError(
            f"{parameter}: there is no input {item}; positions are 0 to {n_inputs - 1}."
        )
    return int(item)


def check_categories(X: Rows, categorical: Mask) -> None:
    """Check that categorical inputs hold whole numbers that float64 tells apart, or NaN."""
    for j, column in dense_columns(X, categorical):
        odd = (column != np.floor(column)) | (np.abs(column) >= CATEGORY_LIMIT)
        odd &= ~np.isnan(column)
        if odd.any():
            raise InputError(
                f"input {j} is a category and holds {column[odd][0]}; categories in arrays are "
                "whole numbers below 2**52. Number them from 0, or pass a data frame."
            )


@dataclass(frozen=True)
class CategoryCodes(Stateful):
    """Codes 0, 1, ... of the categories in some columns, -1 for NaN, one more for other values.

    Keys of bins keep 40 bits of a cell's number, so that large numbers could share a bin; small
    ones that follow each other do not.

    Attributes
    ----------
    columns : array (n_categorical,)
        The columns that hold categories.
    starts : array (n_categorical + 1,)
        Where the categories of each of these columns begin in ``values``.
    values : array
        The categories in the order of their codes.

    Examples
    --------
    >>> codes = CategoryCodes.fit(np.array([[7.0], [np.nan], [2.0]]), np.array([True]))
    >>> codes.transform(np.array([[2.0], [7.0], [np.nan], [3.0]])).ravel()
    array([ 0.,  1., -1.,  2.])
    """

    columns: IntArray
    starts: IntArray
    values: FloatArray

    def check(self) -> None:
        """Check that the parts of codes from a file fit each other."""
        columns = array_in(vars(self), "columns", np.int64, (None,))
        starts = array_in(vars(self), "starts", np.int64, (len(columns) + 1,))
        values = array_in(vars(self), "values", np.float64, (None,), finite=True)
        fits = (columns >= 0).all() and (columns[1:] > columns[:-1]).all()
        fits = fits and (starts[1:] >= starts[:-1]).all()
        fits = fits and starts[0] == 0 and starts[-1] == len(values)
        require(bool(fits), "codes of categories do not fit each other")

    @classmethod
    def fit(cls, X: Rows, categorical: Mask) -> CategoryCodes:
        """Learn the categories of checked rows, in ascending order; 0 comes first if sparse."""
        known = []
        for _, column in dense_columns(X, categorical):
            values = np.unique(column).astype(np.float64)
            values = values[~np.isnan(values)]
            # The zeros of sparse rows, which are not stored, remain zeros.
            known.append(np.append(0.0, values[values != 0.0]) if sp.issparse(X) else values)
        return cls._of(np.flatnonzero(categorical).astype(np.int64), known)

    @classmethod
    def _of(cls, columns: IntArray, known: list[FloatArray]) -> CategoryCodes:
        starts = np.cumsum([0, *map(len, known)]).astype(np.int64)
        return cls(columns, starts, np.concatenate([np.empty(0), *known]))

    def extended(self, X: Rows) -> CategoryCodes:
        """Return these codes, followed by codes for the categories that only other rows have."""
        mask = np.zeros(X.shape[1], bool)
        mask[self.columns] = True
        both = zip(self._known(), CategoryCodes.fit(X, mask)._known(), strict=True)
        joined = [np.append(known, new[~np.isin(new, known)]) for known, new in both]
        return self._of(self.columns, joined)

    def transform(self, X: Rows) -> Rows:
        """Return rows with codes in place of categories: ``X`` itself if they are the same."""
        if sp.issparse(X):
            return self._transform_sparse(X)
        out = X
        for j, known in zip(self.columns.tolist(), self._known(), strict=True):
            column = X[:, j]
            codes = _codes(column, known)
            if (codes == column).all():
                continue
            if out is X:
                is_large = int(np.diff(self.starts).max()) >= _MOST_SINGLE
                least = np.float64 if is_large else np.float32
                out = X.astype(np.result_type(X.dtype, least), copy=True)
            out[:, j] = codes
        return out

    def warn_of_unknown(self, X: Rows) -> None:
        """Warn if most values of a column are none of its categories."""
        mask = np.zeros(X.shape[1], bool)
        mask[self.columns] = True
        for (j, column), known in zip(dense_columns(X, mask), self._known(), strict=True):
            unknown = _codes(column, known) == len(known)
            n_present = len(column) - int(np.isnan(column).sum())
            if unknown.sum() > MOST_UNKNOWN * n_present:
                cells = (f"{value:g}" for value in column[unknown].tolist())
                warn_of_unknown(f"input {j}", cells, unknown.sum() / n_present)

    def _transform_sparse(self, X: sp.csr_array) -> sp.csr_array:
        mask = np.zeros(X.shape[1], bool)
        mask[self.columns] = True
        others = sp.csr_array(X, dtype=np.result_type(X.dtype, np.float32), copy=True)
        others.data[mask[others.indices]] = 0.0
        others.eliminate_zeros()
        rows, columns, codes = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
        for (j, column), known in zip(dense_columns(X, mask), self._known(), strict=True):
            column_codes = _codes(column, known)
            rows.append(np.flatnonzero(column_codes))
            columns.append(np.full(len(rows[-1]), j))
            codes.append(column_codes[rows[-1]])
        places = np.concatenate(rows), np.concatenate(columns)
        numbers = np.concatenate(codes).astype(others.dtype)
        return others + sp.csr_array((numbers, places), shape=X.shape)

    def _known(self) -> Iterator[FloatArray]:
        return (self.values[a:b] for a, b in pairwise(self.starts.tolist()))


def _codes(column: AnyArray, known: FloatArray) -> FloatArray:
    """Return the places of values among the known ones, their number for all others."""
    column = np.rint(column)
    codes = np.full(len(column), float(len(known)))
    if len(known) > 0:
        order = np.argsort(known)
        places = np.searchsorted(known, column, sorter=order)
        places = order[np.minimum(places, len(known) - 1)]
        codes = np.where(known[places] == column, places, codes)
    codes[np.isnan(column)] = MISSING_CODE
    return codes
