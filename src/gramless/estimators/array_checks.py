"""Checks of single values that were read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def require(condition: bool, complaint: str) -> None:
    """Raise ``ValueError(complaint)`` unless the condition holds.

    Examples
    --------
    >>> require(True, "never said")
    """
    if not condition:
        raise ValueError(complaint)


def checked_array(
    state: Mapping[str, Any], name: str, dtype: Any, shape: tuple[int, ...] | None
) -> Any:
    """Return an array of a state, after a check of its type and shape.

    Parameters
    ----------
    state : mapping
        Values by name.
    name : str
    dtype : dtype
    shape : tuple of int or None
        None allows any.

    Raises
    ------
    ValueError
        If it is absent, no array, or another one.
    """
    array: Any = state.get(name)
    fits = isinstance(array, np.ndarray) and array.dtype == dtype
    require(fits, f"{name} is no array of {np.dtype(dtype)}")
    require(shape is None or array.shape == shape, f"{name} has a wrong shape")
    return array


def finite_array(
    state: Mapping[str, Any], name: str, dtype: Any, shape: tuple[int, ...] | None
) -> Any:
    """Do as :func:`checked_array`, and refuse NaN and infinity."""
    array = checked_array(state, name, dtype, shape)
    require(bool(np.isfinite(array).all()), f"{name} is not finite")
    return array


def check_number(value: Any, name: str, kind: type) -> None:
    """Check that a value is a number: an integer, or for ``kind=float`` any, but no truth value."""
    kinds = (int, float) if kind is float else (int,)
    require(isinstance(value, kinds) and not isinstance(value, bool), f"{name} is no number")


def check_names(names: Any, n_features: int) -> None:
    """Check names of columns, of which there may be none."""
    if names is None:
        return
    fits = isinstance(names, np.ndarray) and names.dtype == object and names.shape == (n_features,)
    require(fits, "feature_names_in_ does not fit")
