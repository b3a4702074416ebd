"""Products of a few rows at a time: sums in float64, whatever the precision of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import readonly
from gramless.base.threads import row_blocks
from gramless.loops import dense as loops
from gramless.matrices.base import Vector

_NUMBERS = 1 << 18
_SMALL_PRODUCT = 1_000_000
_FEW_OUTPUTS = 15
"""OpenBLAS packs the factors of larger products, which does not pay with so few outputs."""


def pieces(slab: NDArray[Any], n_outputs: int) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """Cut consecutive rows, as many at a time as a cache holds.

    Parameters
    ----------
    slab : array (n_rows, n_columns) of float32 or float64
    n_outputs : int
        Columns of what they will be multiplied with.

    Yields
    ------
    start, stop : int
        No fewer rows than outputs: what is done once a piece takes no longer than what is done
        once a row.
    piece : array (stop - start, n_columns)
        For :func:`responses` and :func:`pulled_back`: of float64, or of float32 where
        one output needs no wider rows.
    """
    n_rows, n_columns = slab.shape
    numbers = _NUMBERS
    if 1 <= n_outputs <= _FEW_OUTPUTS:
        numbers = min(numbers, _SMALL_PRODUCT // n_outputs)
    as_it_is = n_outputs == 1 and slab.flags.c_contiguous
    for a, b in row_blocks(n_rows, max(numbers // max(1, n_columns), n_outputs, 1)):
        yield a, b, slab[a:b] if as_it_is else np.asarray(slab[a:b], np.float64)


def responses(piece: NDArray[Any], w: Vector) -> Vector:
    """Return ``piece @ w``.

    Examples
    --------
    >>> responses(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), np.array([1.0, 10.0]))
    array([21., 43.])
    """
    if piece.dtype == np.float64:
        return np.asarray(piece @ w)
    found = np.empty((len(piece), *w.shape[1:]))
    loops.responses(readonly(piece), readonly(w.reshape(-1)), found.reshape(-1))
    return found


def pulled_back(piece: NDArray[Any], v: Vector) -> Vector:
    """Return ``piece.T @ v``.

    Examples
    --------
    >>> pulled_back(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), np.array([1.0, 10.0]))
    array([31., 42.])
    """
    if piece.dtype == np.float64:
        return np.asarray(piece.T @ v)
    found = np.zeros((piece.shape[1], *v.shape[1:]))
    loops.add_rows(
        readonly(piece), readonly(np.ascontiguousarray(v).reshape(-1)), found.reshape(-1)
    )
    return found
