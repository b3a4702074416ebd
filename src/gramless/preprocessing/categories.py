"""Which inputs are categories, and the whole numbers that these may hold."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gramless.base.errors import InputError
from gramless.base.types import BoolArray
from gramless.preprocessing.rows import Rows, dense_columns

Mask: TypeAlias = BoolArray

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
