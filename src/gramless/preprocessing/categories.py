"""Inputs that are categories: which they are, and the whole numbers that they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.preprocessing.rows import Rows, dense_columns

Mask = NDArray[np.bool_]

CATEGORY_LIMIT = 2.0**52
"""From here on neighbouring whole numbers would share a cell of width 1."""


def category_mask(
    chosen: Any, n_inputs: int, names: Sequence[str] = (), parameter: str = "categorical"
) -> Mask:
    """Return which inputs are categories.

    Parameters
    ----------
    chosen : None, list of int or str, or array (n_inputs,) of bool
        Positions from 0, names, or a mask. None means no input.
    n_inputs : int
    names : sequence of str, default=()
        Of the inputs, where they have some.
    parameter : str, default="categorical"
        For messages.

    Returns
    -------
    array (n_inputs,) of bool

    Raises
    ------
    InputError
        If ``chosen`` is none of these, or a position or name does not exist.

    Examples
    --------
    >>> category_mask([2, "a"], 3, names=["a", "b", "c"])
    array([ True, False,  True])
    """
    mask = np.zeros(n_inputs, bool)
    if chosen is None:
        return mask
    if isinstance(chosen, (str, bytes)) or not hasattr(chosen, "__len__"):
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


def _position(item: Any, n_inputs: int, places: dict[str, int], parameter: str) -> int:
    if isinstance(item, str):
        if item in places:
            return places[item]
        known = (
            f"known are {', '.join(map(repr, list(places)[:5]))}" if places else "none has a name"
        )
        raise InputError(f"{parameter}: no input is called {item!r}; {known}.")
    if not isinstance(item, (int, np.integer)) or isinstance(item, bool):
        raise InputError(f"{parameter} must list positions or names of inputs, got {item!r}.")
    if not 0 <= item < n_inputs:
        raise InputError(
            f"{parameter}: there is no input {item}; positions are 0 to {n_inputs - 1}."
        )
    return int(item)


def check_categories(X: Rows, categorical: Mask) -> None:
    """Check that inputs of categories hold whole numbers that float64 tells apart.

    Parameters
    ----------
    X : array (n_samples, n_features) or CSR
        NaN is allowed.
    categorical : array (n_features,) of bool

    Raises
    ------
    InputError
        With the input and the number.

    Examples
    --------
    >>> check_categories(np.array([[0.5, 3.0]]), np.array([False, True]))
    """
    for j, column in dense_columns(X, categorical):
        odd = (column != np.floor(column)) | (np.abs(column) >= CATEGORY_LIMIT)
        odd &= ~np.isnan(column)
        if odd.any():
            raise InputError(
                f"input {j} is a category and holds {column[odd][0]}; categories in arrays are "
                "whole numbers below 2**52. Number them from 0, or pass a data frame."
            )
