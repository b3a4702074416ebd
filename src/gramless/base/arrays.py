"""Views of arrays for compiled loops, and sums without BLAS.

Numba compiles a loop again for every array type, and a read-only array and a part of a matrix are
types of their own. Callers therefore pass read-only views of input arrays and flat views of
matrices, so that each loop is compiled once.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray

Number = TypeVar("Number", bound=np.generic)

_LINE_BYTES = 64
_SHORT_ROW = 256  # shorter rows (in numbers) are not padded to whole cache lines


def readonly(array: NDArray[Number]) -> NDArray[Number]:
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
    """Return the matrix itself if :func:`flat_rows` can index its rows, else a contiguous copy."""
    size = array.itemsize
    between_rows, within_row = array.strides
    # A flat index is row * stride + column, so the stride must be a whole number of items and must
    # not be negative, as it is in a reversed matrix.
    is_contiguous = within_row == size and between_rows >= 0 and between_rows % size == 0
    return array if is_contiguous else np.ascontiguousarray(array)


def padded_rows(shape: tuple[int, int], dtype: DTypeLike) -> AnyArray:
    """Return an uninitialised matrix whose rows start an odd number of cache lines apart.

    Vector loads then touch one line each, and rows that are read together do not compete for the
    same sets of the cache. This takes up to 128 bytes more per row. Rows of fewer than 256 numbers
    are only padded by one number.
    """
    n, m = shape
    size = np.dtype(dtype).itemsize
    n_lines = m * size // _LINE_BYTES + 1 | 1
    stride = m + 1 if m < _SHORT_ROW else n_lines * _LINE_BYTES // size
    return np.empty((n, stride), dtype)[:, :m]


def empty_on_cache_line(n: int, dtype: DTypeLike) -> AnyArray:
    """Return an uninitialised flat array of ``n`` numbers that starts on a cache line."""
    size = np.dtype(dtype).itemsize
    buffer = np.empty(n + _LINE_BYTES // size, dtype)
    first = -buffer.ctypes.data % _LINE_BYTES // size
    return buffer[first : first + n]


def flat_rows(array: NDArray[Number]) -> tuple[NDArray[Number], int]:
    """Return a flat read-only view of a matrix with contiguous rows, and its row stride.

    ``array[i, j]`` is ``flat[i * stride + j]``.
    """
    flat, stride = writable_flat_rows(array)
    return readonly(flat), stride


def writable_flat_rows(array: NDArray[Number]) -> tuple[NDArray[Number], int]:
    """Return the same as :func:`flat_rows`, but writable if the matrix is."""
    if array.size == 0:
        return array.reshape(-1), 0
    n, m = array.shape
    stride = array.strides[0] // array.itemsize if n > 1 else m
    return as_strided(array, ((n - 1) * stride + m,), (array.itemsize,)), stride


def positions_of(selection: NDArray[np.integer] | BoolArray) -> IntArray:
    """Return the positions of selected rows, given as positions or as a mask."""
    is_mask = selection.dtype == bool
    return np.flatnonzero(selection) if is_mask else np.asarray(selection, np.int64)


def inner(a: FloatArray, b: FloatArray) -> float:
    """Return the inner product of two arrays of the same shape.

    BLAS is avoided because its threads would spin on cores that the thread pool needs.
    """
    return float(np.einsum("i,i->", a.ravel(), b.ravel()))


def softmax(scores: FloatArray) -> FloatArray:
    """Return the softmax of each row of scores (n, K).

    For few classes this is up to four times as fast as SciPy's softmax, because it works on a copy
    that is contiguous by class.

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
