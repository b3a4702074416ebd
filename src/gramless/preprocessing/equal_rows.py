"""Groups of equal rows, by 64-bit hashes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray, IntArray
from gramless.preprocessing.rows import Rows

Hashes = NDArray[np.uint64]

_ROWS_PER_BLOCK = 1 << 16
# The increment and the finaliser of SplitMix64 (Steele, Lea & Flood 2014).
_INCREMENT = 0x9E3779B97F4A7C15
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))


def equal_rows(X: Rows) -> tuple[IntArray, IntArray]:
    """Return the first row of each group of equal rows, and the group of each row.

    The numbers of the groups depend on the rows, but not on their order.

    Examples
    --------
    >>> first, group = equal_rows(np.array([[1.0, 2.0], [0.0, 5.0], [1.0, 2.0]]))
    >>> sorted(first.tolist()), bool(group[0] == group[2] != group[1])
    ([0, 1], True)
    """
    _, first, group = np.unique(row_hashes(X), return_index=True, return_inverse=True)
    return first, group


def row_hashes(X: Rows, first_column: int = 0) -> Hashes:
    """Return a hash of each row, the same for sparse and dense rows.

    It is the sum of the hashes of the row's entries; zeros have the hash 0. The hash of an entry
    depends on its value and on the index of its column, counted from ``first_column``.
    """
    n_rows, n_columns = X.shape
    sums: Hashes = np.zeros(n_rows, np.uint64)
    if sp.issparse(X):
        # Differences of cumulative sums are exact, because sums of unsigned integers wrap around.
        stored = _hashes(X.data, X.indices.astype(np.uint64) + np.uint64(first_column))
        ends = np.concatenate([np.zeros(1, np.uint64), np.cumsum(stored, dtype=np.uint64)])
        return ends[X.indptr[1:]] - ends[X.indptr[:-1]]
    for a, b in row_blocks(n_rows, _ROWS_PER_BLOCK):
        block = X[a:b]
        for j in range(n_columns):
            sums[a:b] += _hashes(block[:, j], np.full(1, first_column + j, np.uint64))
    return sums


def _hashes(values: AnyArray, columns: Hashes) -> Hashes:
    """Return the hashes of entries with these column indices, 0 for zeros of either sign."""
    numbers = np.ascontiguousarray(values, np.float64)
    hashes: Hashes = numbers.view(np.uint64) + (columns + np.uint64(1)) * np.uint64(_INCREMENT)
    for shift, factor in _STEPS:
        hashes ^= hashes >> np.uint64(shift)
        hashes *= np.uint64(factor)
    hashes[numbers == 0.0] = 0
    return hashes
