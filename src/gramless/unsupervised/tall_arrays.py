"""Products and factorisations of tall arrays (n, K) by blocks of rows in threads.

Blocks have a fixed number of rows and are summed in a fixed order, so that results have the same
bits for any number of threads. Callers must limit BLAS to one thread.
"""

from __future__ import annotations

import numpy as np

from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray, FloatArray

# Rows per block. The blocks of products fit into a core's cache.
_PRODUCT_ROWS, _QR_ROWS = 1024, 4096


def inner(a: AnyArray, b: AnyArray, n_jobs: int | None) -> FloatArray:
    """Return ``a.T @ b`` (K, L) for arrays (n, K) and (n, L); the sum over blocks is float64."""
    if a.shape[1] > b.shape[1]:
        # BLAS takes half the time if the result has fewer rows than columns.
        return inner(b, a, n_jobs).T
    parts = map_blocks(lambda i, j: a[i:j].T @ b[i:j], row_blocks(len(a), _PRODUCT_ROWS), n_jobs)
    result: FloatArray = np.zeros((a.shape[1], b.shape[1]))
    for part in parts:
        result += part
    return result


def times(a: AnyArray, factors: FloatArray, n_jobs: int | None) -> AnyArray:
    """Return ``a @ factors`` (n, L) in the type of ``a``."""
    out, factors = np.empty((len(a), factors.shape[1]), a.dtype), factors.astype(a.dtype)

    def multiply(i: int, j: int) -> None:
        np.matmul(a[i:j], factors, out=out[i:j])

    map_blocks(multiply, row_blocks(len(a), _PRODUCT_ROWS), n_jobs)
    return out


def subtract_times(target: AnyArray, a: AnyArray, factors: FloatArray, n_jobs: int | None) -> None:
    """Subtract ``a @ factors`` from ``target`` in place, in the type of ``a``."""
    factors = factors.astype(a.dtype)

    def subtract(i: int, j: int) -> None:
        target[i:j] -= a[i:j] @ factors

    map_blocks(subtract, row_blocks(len(a), _PRODUCT_ROWS), n_jobs)


def qr(a: FloatArray, n_jobs: int | None) -> tuple[FloatArray, FloatArray]:
    """Return Q (n, m) with orthonormal columns and R (m, K) such that ``a = Q @ R``.

    Each block of rows is factorised, then their stacked R (TSQR: Demmel et al. 2012,
    "Communication-optimal parallel and sequential QR and LU factorizations", section 4).
    """
    bounds = row_blocks(len(a), max(_QR_ROWS, a.shape[1])) or [(0, 0)]
    parts = map_blocks(lambda i, j: np.linalg.qr(a[i:j]), bounds, n_jobs)
    if len(parts) == 1:
        return parts[0]
    top, factor = np.linalg.qr(np.concatenate([r for _, r in parts]))
    ends = np.cumsum([len(r) for _, r in parts])
    out = np.empty((len(a), top.shape[1]))

    def rotate(k: int) -> None:
        (i, j), (q, r) = bounds[k], parts[k]
        np.matmul(q, top[ends[k] - len(r) : ends[k]], out=out[i:j])

    map_blocks(rotate, [(k,) for k in range(len(parts))], n_jobs)
    return out, factor


def directions(
    a: FloatArray, min_value: float, n_jobs: int | None
) -> tuple[FloatArray, FloatArray]:
    """Return an orthonormal P (n, m) and ``link`` (m, K) such that ``a = P @ link``.

    The rows of ``link`` are orthogonal; rows of length up to ``min_value`` are dropped.
    """
    q, r = qr(a, n_jobs)
    u, values, vt = svd(r)
    kept = values > min_value
    return times(q, u[:, kept], n_jobs), values[kept, None] * vt[kept]


def directions_by_gram(
    a: AnyArray, min_value: float, n_jobs: int | None
) -> tuple[AnyArray, FloatArray]:
    """Return the same as :func:`directions` from the eigenvectors of ``a.T @ a``, which is faster.

    P is less orthonormal: a direction with a fraction of the largest value has errors of the
    machine precision divided by the square of that fraction. Applying the function to P again
    corrects this.
    """
    squares, v = np.linalg.eigh(inner(a, a, n_jobs))
    values = np.sqrt(np.maximum(squares[::-1], 0.0))
    kept = values > min_value
    values, vectors = values[kept], v[:, ::-1][:, kept]
    return times(a, vectors / values, n_jobs), values[:, None] * vectors.T


def svd(matrix: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the reduced singular value decomposition of a finite matrix.

    LAPACK's divide and conquer, which NumPy uses, does not converge for a few finite matrices. QR
    iterations, which are several times slower, do.
    """
    try:
        return np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        import scipy.linalg

        result: tuple[FloatArray, FloatArray, FloatArray] = scipy.linalg.svd(
            matrix, full_matrices=False, lapack_driver="gesvd"
        )
        return result
