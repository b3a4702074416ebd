"""Arrays between guards, which loops must leave alone, and numbers whose sums are exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GUARD = 40


def whole_numbers(shape, seed: int = 1) -> NDArray[np.float64]:
    """Return whole numbers: their sums are exact in any order."""
    return np.random.default_rng(seed).integers(-1000, 1000, shape).astype(np.float64)


def guarded(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Copy an array, flat, between two guards of NaN; return it and the whole."""
    whole = np.full(values.size + 2 * GUARD, np.nan)
    inner = whole[GUARD : GUARD + values.size]
    inner[:] = values.reshape(-1)
    return inner, whole


def guards_hold(whole: NDArray[np.float64]) -> bool:
    return bool(np.isnan(whole[:GUARD]).all() and np.isnan(whole[-GUARD:]).all())
