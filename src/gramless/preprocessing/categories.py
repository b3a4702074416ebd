"""Categorical inputs: their mask, checks of their values, and their codes."""

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
from gramless.preprocessing.column_codes import MAX_UNKNOWN, warn_of_unknown
from gramless.preprocessing.rows import Rows, dense_columns

Mask: TypeAlias = BoolArray

MISSING_CODE = -1.0
_MAX_SINGLE_INTEGER = 2**24  # float32 holds every integer up to here

CATEGORY_LIMIT = 2.0**52  # from here on, neighbouring integers could share a grid cell of width 1


def category_mask(
    selection: ArrayLike | None,
    n_inputs: int,
    names: Sequence[str] = (),
    parameter: str = "categorical",
) -> Mask:
    """Return the mask (n_inputs,) of categorical inputs.

    Parameters
    ----------
    selection : list of positions or names, or mask, optional
    n_inputs : int
    names : sequence of str, default=()
        Names of the inputs.
    parameter : str, default="categorical"
        The name of ``selection`` in messages.
    """
    mask = np.zeros(n_inputs, bool)
    if selection is None:
        return mask
    if isinstance(selection, (str, bytes)) or not isinstance(selection, Sized):
        raise InputError(
            f"{parameter} must be a list of positions or names, or one truth value per input; "
            f"got {selection!r}."
        )
    items = list(selection)
    if items and all(isinstance(item, (bool, np.bool_)) for item in items):
        if len(items) != n_inputs:
            raise InputError(
                f"{parameter} holds {len(items)} truth values for {n_inputs} inputs; give one each."
            )
        return np.array(items, bool)
    position_of = {name: j for j, name in enumerate(names)}
    mask[[_position(item, n_inputs, position_of, parameter) for item in items]] = True
    return mask


def _position(item: object, n_inputs: int, position_of: dict[str, int], parameter: str) -> int:
    if isinstance(item, str):
        if item in position_of:
            return position_of[item]
        first = ", ".join(map(repr, list(position_of)[:5]))
        known = f"known are {first}" if position_of else "none has a name"
        raise InputError(f"{parameter}: no input is called {item!r}; {known}.")
    if not isinstance(item, (int, np.integer)) or isinstance(item, bool):
        raise InputError(f"{parameter} must list positions or names of inputs, got {item!r}.")
    if not 0 <= item < n_inputs:
        raise InputError(
            f"{parameter}: there is no input {item}; positions are 0 to {n_inputs - 1}."
        )
    return int(item)


def check_categories(X: Rows, categorical: Mask) -> None:
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
    """Codes of the categories in some columns.

    The codes are 0, 1, ... for known categories, -1 for NaN, and one more than the last for other
    values. They are needed because the keys of bins keep 40 bits of a cell's index, so that large
    values could share a bin.

    Attributes
    ----------
    columns : array (n_categorical,)
        The columns that hold categories.
    starts : array (n_categorical + 1,)
        The start of each column's categories in ``values``, and the total number of categories.
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
        columns = array_in(vars(self), "columns", np.int64, (None,))
        starts = array_in(vars(self), "starts", np.int64, (len(columns) + 1,))
        values = array_in(vars(self), "values", np.float64, (None,), finite=True)
        are_valid = (columns >= 0).all() and (columns[1:] > columns[:-1]).all()
        are_valid = are_valid and (starts[1:] >= starts[:-1]).all()
        are_valid = are_valid and starts[0] == 0 and starts[-1] == len(values)
        require(bool(are_valid), "the codes of categories are inconsistent")

    @classmethod
    def fit(cls, X: Rows, categorical: Mask) -> CategoryCodes:
        """Learn the categories of checked rows in ascending order; sparse rows have 0 first."""
        categories = []
        for _, column in dense_columns(X, categorical):
            values = np.unique(column).astype(np.float64)
            values = values[~np.isnan(values)]
            if sp.issparse(X):
                # The code of 0 must be 0, because zeros are not stored.
                values = np.append(0.0, values[values != 0.0])
            categories.append(values)
        return cls._from_categories(np.flatnonzero(categorical).astype(np.int64), categories)

    @classmethod
    def _from_categories(cls, columns: IntArray, categories: list[FloatArray]) -> CategoryCodes:
        starts = np.cumsum([0, *map(len, categories)]).astype(np.int64)
        return cls(columns, starts, np.concatenate([np.empty(0), *categories]))

    def extend(self, X: Rows) -> CategoryCodes:
        """Return codes that also include the categories of ``X``; new ones get the next codes."""
        new_codes = CategoryCodes.fit(X, self._mask(X))
        pairs = zip(self._categories(), new_codes._categories(), strict=True)
        joined = [np.append(known, new[~np.isin(new, known)]) for known, new in pairs]
        return self._from_categories(self.columns, joined)

    def transform(self, X: Rows) -> Rows:
        """Return rows with codes in place of categories.

        The result is ``X`` itself if it is dense and nothing changes, else a copy.
        """
        if sp.issparse(X):
            return self._transform_sparse(X)
        out = X
        for j, categories in zip(self.columns.tolist(), self._categories(), strict=True):
            column = X[:, j]
            codes = _codes(column, categories)
            if (codes == column).all():
                continue
            if out is X:
                is_large = int(np.diff(self.starts).max()) >= _MAX_SINGLE_INTEGER
                dtype = np.float64 if is_large else np.float32
                out = X.astype(np.result_type(X.dtype, dtype), copy=True)
            out[:, j] = codes
        return out

    def warn_of_unknown(self, X: Rows) -> None:
        """Warn if most values of a column are not among its categories."""
        columns = dense_columns(X, self._mask(X))
        for (j, column), categories in zip(columns, self._categories(), strict=True):
            is_unknown = _codes(column, categories) == len(categories)
            n_present = len(column) - int(np.isnan(column).sum())
            if is_unknown.sum() > MAX_UNKNOWN * n_present:
                cells = (f"{value:g}" for value in column[is_unknown].tolist())
                warn_of_unknown(f"input {j}", cells, is_unknown.sum() / n_present)

    def _transform_sparse(self, X: sp.csr_array) -> sp.csr_array:
        mask = self._mask(X)
        others = sp.csr_array(X, dtype=np.result_type(X.dtype, np.float32), copy=True)
        others.data[mask[others.indices]] = 0.0
        others.eliminate_zeros()
        rows, columns, codes = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
        for (j, column), categories in zip(dense_columns(X, mask), self._categories(), strict=True):
            column_codes = _codes(column, categories)
            rows.append(np.flatnonzero(column_codes))
            columns.append(np.full(len(rows[-1]), j))
            codes.append(column_codes[rows[-1]])
        positions = np.concatenate(rows), np.concatenate(columns)
        data = np.concatenate(codes).astype(others.dtype)
        return others + sp.csr_array((data, positions), shape=X.shape)

    def _mask(self, X: Rows) -> Mask:
        mask = np.zeros(X.shape[1], bool)
        mask[self.columns] = True
        return mask

    def _categories(self) -> Iterator[FloatArray]:
        return (self.values[a:b] for a, b in pairwise(self.starts.tolist()))


def _codes(column: AnyArray, categories: FloatArray) -> FloatArray:
    column = np.rint(column)
    codes = np.full(len(column), float(len(categories)))
    if len(categories) > 0:
        order = np.argsort(categories)
        positions = np.searchsorted(categories, column, sorter=order)
        positions = order[np.minimum(positions, len(categories) - 1)]
        codes = np.where(categories[positions] == column, positions, codes)
    codes[np.isnan(column)] = MISSING_CODE
    return codes
