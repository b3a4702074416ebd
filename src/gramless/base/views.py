"""Views of arrays for compiled loops, which are compiled anew for every type of array.

A read-only array is another type than one that may be written to, and part of a matrix another
one than the whole. What loops only read is given to them read-only, and matrices flat: then one
compilation serves all.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

Number = TypeVar("Number", bound=np.generic)

_LINE = 64
"""Bytes of a cache line."""
_SHORT = 256
"""Numbers that a row must have to be worth lines of its own."""


def frozen(array: NDArray[Number]) -> NDArray[Number]:
    """Return a read-only view of an array.

    Examples
    --------
    >>> array = np.zeros(3)
    >>> frozen(array).flags.writeable, array.flags.writeable
    (False, True)
    """
    view = array.view()
    view.flags.writeable = False
    return view


def side_by_side(array: NDArray[Number]) -> NDArray[Number]:
    """Return a matrix whose rows each follow in memory: the given one, or else a copy.

    Examples
    --------
    >>> array = np.arange(12.0).reshape(3, 4)
    >>> part = array[:, 1:3]
    >>> side_by_side(part) is part, side_by_side(array[:, ::2]).strides
    (True, (16, 8))
    """
    size = array.itemsize
    between, within = array.strides
    fits = within == size and between >= 0 and between % size == 0
    return array if fits else np.ascontiguousarray(array)


def spaced_rows(shape: tuple[int, int], dtype: DTypeLike) -> NDArray[Any]:
    """Return room for a matrix whose rows begin on cache lines of their own, an odd number apart.

    Words of several numbers then lie in one line, and rows that are read together do not compete
    for the same places of the cache. Up to 127 bytes a row more; short rows have one number more.

    Examples
    --------
    >>> spaced_rows((2, 1000), np.uint16).strides, spaced_rows((2, 3), np.uint16).strides
    ((2112, 2), (8, 2))
    """
    n, m = shape
    size = np.dtype(dtype).itemsize
    n_lines = m * size // _LINE + 1 | 1
    apart = m + 1 if m < _SHORT else n_lines * _LINE // size
    return np.empty((n, apart), dtype)[:, :m]


def flat_rows(array: NDArray[Number]) -> tuple[NDArray[Number], int]:
    """Return a matrix as a flat read-only view, and how many numbers apart its rows begin.

    Parameters
    ----------
    array : array (n, m)
        From :func:`side_by_side`.

    Returns
    -------
    flat : array
        ``array[i, j]`` is ``flat[i * apart + j]``.
    apart : int

    Examples
    --------
    >>> flat, apart = flat_rows(np.arange(12).reshape(3, 4)[:, 1:3])
    >>> flat, apart
    (array([ 1,  2,  3,  4,  5,  6,  7,  8,  9, 10]), 4)
    """
    if array.size == 0:
        return frozen(array.reshape(-1)), 0
    n, m = array.shape
    apart = array.strides[0] // array.itemsize if n > 1 else m
    flat = as_strided(array, ((n - 1) * apart + m,), (array.itemsize,), writeable=False)
    return flat, apart
