"""Products and factors of tall arrays (n, K), a few thousand rows at a time in threads.

Blocks have a fixed number of rows and their sums a fixed order: results have the same bits for any
number of threads. BLAS is to run in one thread meanwhile.
"""

from __future__ import annotations

import numpy as np

from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import FloatArray

_ROWS = 4096
"""Rows of a block, which then stays in the cache of a core."""


def inner(a: FloatArray, b: FloatArray, n_jobs: int | None) -> FloatArray:
    """Return ``a.T @ b``, (K, L), of arrays (n, K) and (n, L)."""
    parts = map_blocks(lambda i, j: a[i:j].T @ b[i:j], row_blocks(len(a), _ROWS), n_jobs)
    return np.sum(parts, axis=0) if parts else np.zeros((a.shape[1], b.shape[1]))


def times(a: FloatArray, factors: FloatArray, n_jobs: int | None) -> FloatArray:
    """Return ``a @ factors``, (n, L), of an array (n, K) and factors (K, L)."""
    out = np.empty((len(a), factors.shape[1]))

    def multiply(i: int, j: int) -> None:
        np.matmul(a[i:j], factors, out=out[i:j])

    map_blocks(multiply, row_blocks(len(a), _ROWS), n_jobs)
    return out


def subtract_times(
    target: FloatArray, a: FloatArray, factors: FloatArray, n_jobs: int | None
) -> None:
    """Subtract ``a @ factors`` from ``target`` in place."""

    def subtract(i: int, j: int) -> None:
        target[i:j] -= a[i:j] @ factors

    map_blocks(subtract, row_blocks(len(a), _ROWS), n_jobs)


def qr(a: FloatArray, n_jobs: int | None) -> tuple[FloatArray, FloatArray]:
    """Return Q (n, m) with orthonormal columns and R (m, K) such that ``a = Q @ R``.

    Blocks of rows are factored on their own, then their R together (TSQR: Demmel et al. 2012,
    "Communication-optimal parallel and sequential QR and LU factorizations", section 4).
    """
    bounds = row_blocks(len(a), max(_ROWS, a.shape[1])) or [(0, 0)]
    parts = map_blocks(lambda i, j: np.linalg.qr(a[i:j]), bounds, n_jobs)
    if len(parts) == 1:
        return parts[0]
    top, factor = np.linalg.qr(np.concatenate([r for _, r in parts]))
    ends = np.cumsum([len(r) for _, r in parts])
    out = np.empty((len(a), top.shape[1]))

    def rotate(k: int) -> None:
        (i, j), (own, r) = bounds[k], parts[k]
        np.matmul(own, top[ends[k] - len(r) : ends[k]], out=out[i:j])

    map_blocks(rotate, [(k,) for k in range(len(parts))], n_jobs)
    return out, factor
