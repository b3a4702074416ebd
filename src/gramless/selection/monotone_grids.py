"""Grids along whose input predictions are to rise or fall."""

from __future__ import annotations

import numpy as np

from gramless.base.types import IntArray
from gramless.features.grids import Grids


def signs_of_grids(grids: Grids, rising: IntArray) -> IntArray:
    """Return which way weights of grids over one input go along it, 0 for other grids."""
    divided = np.isfinite(grids.widths)
    signs: IntArray = np.tile(rising, 2)[divided.argmax(axis=1)]
    return np.where(divided.sum(axis=1) == 1, signs, 0)


def signed_columns(grids: Grids, rising: IntArray) -> IntArray:
    """Return the column that each grid with a sign divides, -1 for others."""
    columns = np.isfinite(grids.widths).argmax(axis=1)
    return np.where(signs_of_grids(grids, rising) != 0, columns, -1)
