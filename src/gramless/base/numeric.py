"""Checks of numbers that users give, and their range."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from gramless.base.errors import InputError
from gramless.base.types import FloatArray

_MOST = 2**63 - 1
_LARGEST = np.finfo(np.float64).max


def is_whole(value: object, least: int) -> bool:
    """Tell whether a value is an integer from ``least`` to ``2**63 - 1``, and not a truth value."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        return False
    return least <= int(value) <= _MOST


def too_large(value: object) -> str:
    """Return the end of a message on an integer beyond 2**63 - 1; empty for all other values."""
    return " and below 2**63" if isinstance(value, Integral) and int(value) > _MOST else ""


def as_float(value: object) -> float:
    """Return a number as a float: infinity beyond all floats, NaN for what is no number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def in_range(numbers: FloatArray) -> FloatArray:
    """Return infinities as the largest and the least number, NaN as it is.

    Examples
    --------
    >>> import numpy as np
    >>> in_range(np.array([2.0, -np.inf]))
    array([ 2.00000000e+000, -1.79769313e+308])
    """
    return np.clip(numbers, -_LARGEST, _LARGEST)


def check_numbers(name: str, values: ArrayLike) -> FloatArray:
    """Return finite numbers as float64, (n,) or (n, K); refuse others."""
    found = np.asarray(values, np.float64)
    if found.ndim not in (1, 2) or not np.isfinite(found).all():
        raise InputError(f"{name} must be finite, (n,) or (n, K), got shape {found.shape}.")
    return found


def check_shape(name: str, values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return numbers of the shape given; refuse other shapes."""
    found = np.asarray(values, np.float64)
    if found.shape != shape:
        raise InputError(f"{name} must have shape {shape}, got {found.shape}.")
    return found


def check_counts(name: str, sample_weight: ArrayLike | None, n_rows: int) -> FloatArray:
    """Return the weights of rows, ones for None; refuse negative or infinite ones, or zeros."""
    weights = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weights.shape != (n_rows,) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise InputError(
            f"{name}: needs held-back rows, and sample_weight of shape ({n_rows},), finite, not "
            f"negative and somewhere above 0; got shape {weights.shape}."
        )
    return weights
