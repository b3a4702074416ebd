"""Checks of the numbers that calibration is given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError


def check_numbers(name: str, values: Any) -> NDArray[np.float64]:
    """Return finite numbers as float64, (n,) or (n, K); refuse others."""
    found = np.asarray(values, np.float64)
    if found.ndim not in (1, 2) or not np.isfinite(found).all():
        raise InputError(f"{name} must be finite, (n,) or (n, K), got shape {found.shape}.")
    return found


def check_shape(name: str, values: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return numbers of the shape given; refuse other shapes."""
    found = np.asarray(values, np.float64)
    if found.shape != shape:
        raise InputError(f"{name} must have shape {shape}, got {found.shape}.")
    return found


def check_counts(name: str, sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    """Return the weights of rows, ones for None; refuse negative or infinite ones, or zeros."""
    weights = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weights.shape != (n_rows,) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise InputError(
            f"{name}: needs held-back rows, and sample_weight of shape ({n_rows},), finite, not "
            f"negative and somewhere above 0; got shape {weights.shape}."
        )
    return weights
