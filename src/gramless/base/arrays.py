"""Views of arrays for compiled loops, and sums without BLAS.

Loops are compiled anew for every type of array: a read-only array is another type than a writable
one, and part of a matrix another type than the whole. Callers therefore hand over read-only views
of what loops only read, and flat views of matrices: one compilation then serves all.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from gramless.base.types import AnyArray, FloatArray

Number = TypeVar("Number", bound=np.generic)

_LINE_BYTES = 64
_SHORT_ROW = 256
"""Rows of fewer numbers are not worth cache lines of their own."""


def readonly(array: NDArray[Number]) -> NDArray[Number]:
    """Return a read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


def as_floats(values: AnyArray) -> AnyArray:
    """Convert a real array to float32 if that holds its type exactly, else to float64.

    Arrays that already have that type are not copied.
    """
    narrow = 4 if values.dtype.kind == "f" else 2
    return values.astype(np.float32 if values.dtype.itemsize <= narrow else np.float64, copy=False)


def contiguous_rows(array: NDArray[Number]) -> NDArray[Number]:
    """Return a matrix each of whose rows is contiguous: the given one, or else a copy."""
    size = array.itemsize
    between, within = array.strides
    fits = within == size and between >= 0 and between % size == 0
    return array if fits else np.ascontiguousarray(array)


def padded_rows(shape: tuple[int, int], dtype: DTypeLike) -> AnyArray:
    """Return an uninitialised matrix whose rows start on cache lines, an odd number of lines apart.

    Vector loads then touch one line each, and rows that are read together do not compete for the
    same sets of the cache. This takes up to 127 bytes more per row; a short row has one number
    more.
    """
    n, m = shape
    size = np.dtype(dtype).itemsize
    n_lines = m * size // _LINE_BYTES + 1 | 1
    stride = m + 1 if m < _SHORT_ROW else n_lines * _LINE_BYTES // size
    return np.empty((n, stride), dtype)[:, :m]


def on_cache_line(n: int, dtype: DTypeLike) -> AnyArray:
    """Return an uninitialised flat array of ``n`` numbers that starts on a cache line."""
    size = np.dtype(dtype).itemsize
    room = np.empty(n + _LINE_BYTES // size, dtype)
    first = -room.ctypes.data % _LINE_BYTES // size
    return room[first : first + n]


def flat_rows(array: NDArray[Number]) -> tuple[NDArray[Number], int]:
    """Return a flat read-only view of a matrix with contiguous rows, and its row stride.

    ``array[i, j]`` is ``flat[i * stride + j]``.
    """
    flat, stride = writable_flat_rows(array)
    return readonly(flat), stride


def writable_flat_rows(array: NDArray[Number]) -> tuple[NDArray[Number], int]:
    """Return what :func:`flat_rows` returns, but writable if the matrix is."""
    if array.size == 0:
        return array.reshape(-1), 0
    n, m = array.shape
    stride = array.strides[0] // array.itemsize if n > 1 else m
    return as_strided(array, ((n - 1) * stride + m,), (array.itemsize,)), stride


def inner(a: FloatArray, b: FloatArray) -> float:
    """Return the sum of all products of two arrays of one shape.

    BLAS is avoided: its threads would wait, spinning, on cores that our own threads need.
    """
    return float(np.einsum("i,i->", a.ravel(), b.ravel()))


def softmax(scores: FloatArray) -> FloatArray:
    """Return the softmax of each row of scores (n, K).

    The copy in which the rows of a class are contiguous makes it up to four times as fast as
    SciPy's for few classes.

    Examples
    --------
    >>> softmax(np.log([[1.0, 3.0]]))
    array([[0.25, 0.75]])
    """
    by_class = np.array(scores.T, order="C")
    by_class -= by_class.max(axis=0)
    np.exp(by_class, out=by_class)
    by_class /= by_class.sum(axis=0)
    return np.ascontiguousarray(by_class.T)


def weighted_sums(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Return ``weights @ values``, (1,) or (K,), for values (n,) or (n, K), without BLAS."""
    return np.atleast_1d(np.einsum("n,n...->...", weights, values))
