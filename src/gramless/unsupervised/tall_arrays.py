"""Products and factors of tall arrays (n, K), a few thousand rows at a time in threads.

Blocks have a fixed number of rows and their sums a fixed order: results have the same bits for any
number of threads. BLAS is to run in one thread meanwhile.
"""

from __future__ import annotations

import numpy as np

from gramless.base.decompositions import svd
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray, FloatArray

_ROWS, _FACTORED_ROWS = 1024, 4096
"""Rows of a block of products, which then stays in the cache of a core, and of factors."""


def inner(a: AnyArray, b: AnyArray, n_jobs: int | None) -> FloatArray:
    """Return ``a.T @ b``, (K, L), of arrays (n, K) and (n, L); sums of blocks are float64."""
    if a.shape[1] > b.shape[1]:
        # BLAS takes half of the time for few rows and many columns.
        return inner(b, a, n_jobs).T
    parts = map_blocks(lambda i, j: a[i:j].T @ b[i:j], row_blocks(len(a), _ROWS), n_jobs)
    found: FloatArray = np.zeros((a.shape[1], b.shape[1]))
    for part in parts:
        found += part
    return found


def times(a: AnyArray, factors: FloatArray, n_jobs: int | None) -> AnyArray:
    """Return ``a @ factors``, (n, L) of the type of ``a`` (n, K), of factors (K, L)."""
    out, own = np.empty((len(a), factors.shape[1]), a.dtype), factors.astype(a.dtype)

    def multiply(i: int, j: int) -> None:
        np.matmul(a[i:j], own, out=out[i:j])

    map_blocks(multiply, row_blocks(len(a), _ROWS), n_jobs)
    return out


def subtract_times(target: AnyArray, a: AnyArray, factors: FloatArray, n_jobs: int | None) -> None:
    """Subtract ``a @ factors`` from ``target``, of the type of ``a``, in place."""
    own = factors.astype(a.dtype)

    def subtract(i: int, j: int) -> None:
        target[i:j] -= a[i:j] @ own

    map_blocks(subtract, row_blocks(len(a), _ROWS), n_jobs)


def qr(a: FloatArray, n_jobs: int | None) -> tuple[FloatArray, FloatArray]:
    """Return Q (n, m) with orthonormal columns and R (m, K) such that ``a = Q @ R``.

    Blocks of rows are factored on their own, then their R together (TSQR: Demmel et al. 2012,
    "Communication-optimal parallel and sequential QR and LU factorizations", section 4).
    """
    bounds = row_blocks(len(a), max(_FACTORED_ROWS, a.shape[1])) or [(0, 0)]
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


def directions(a: FloatArray, least: float, n_jobs: int | None) -> tuple[FloatArray, FloatArray]:
    """Return P (n, m), orthonormal, and ``link`` (m, K) such that ``a = P @ link``.

    Rows of the link are orthogonal; those up to ``least`` long are left out.
    """
    q, r = qr(a, n_jobs)
    u, values, vt = svd(r)
    kept = values > least
    return times(q, u[:, kept], n_jobs), values[kept, None] * vt[kept]


def directions_by_gram(
    a: AnyArray, least: float, n_jobs: int | None
) -> tuple[AnyArray, FloatArray]:
    """Return what :func:`directions` does, faster, from the eigenvectors of ``a.T @ a``.

    P is the less orthonormal the shorter its directions are in ``a``: relative to the longest, to
    rounding errors over the square of that. A second time, applied to P, mends that.
    """
    squares, v = np.linalg.eigh(inner(a, a, n_jobs))
    values = np.sqrt(np.maximum(squares[::-1], 0.0))
    kept = values > least
    values, vectors = values[kept], v[:, ::-1][:, kept]
    return times(a, vectors / values, n_jobs), values[:, None] * vectors.T
