"""Products of matrices with vectors (n, K) of K outputs, and vector arithmetic in blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import readonly
from gramless.base.threads import map_blocks, row_blocks
from gramless.loops import conjugate as loops
from gramless.matrices.base import FeatureMatrix, RowFunction, Vector

_NUMBERS_PER_BLOCK = 1 << 16
_SERIAL_BLOCKS = 8  # starting threads is not worth it for fewer blocks

T = TypeVar("T")


def add_times(
    target: Vector, factors: NDArray[np.float64], other: Vector, n_jobs: int | None
) -> None:
    """Add ``factors * other`` to ``target``, both (n, K), with factors (K,) or one for all."""
    factors = readonly(np.ascontiguousarray(np.broadcast_to(factors, target.shape[1:])))
    other = readonly(np.ascontiguousarray(other))

    def add(first: int, last: int) -> None:
        loops.add_multiple(factors, other[first:last], target[first:last])

    over_blocks(add, target, n_jobs)


def add_times_by_row(
    target: Vector, factors: NDArray[np.float64], other: Vector, n_jobs: int | None
) -> None:
    """Add ``factors[:, None] * other`` to ``target``, both (n, K), with a factor for each row."""

    def add(first: int, last: int) -> None:
        target[first:last] += factors[first:last, None] * other[first:last]

    over_blocks(add, target, n_jobs)


def weighted_inner(
    weights: NDArray[np.float64] | None, a: Vector, b: Vector, n_jobs: int | None
) -> NDArray[np.float64]:
    """Return ``sum_d weights[d] a[d, k] b[d, k]``, (K,); weights are 1 by default."""

    def multiply(first: int, last: int) -> NDArray[np.float64]:
        weighted = a[first:last] if weights is None else weights[first:last, None] * a[first:last]
        return np.asarray(np.einsum("dk,dk->k", weighted, b[first:last]))

    return np.sum(over_blocks(multiply, a, n_jobs), axis=0)


def over_blocks(function: Callable[[int, int], T], like: Vector, n_jobs: int | None) -> list[T]:
    """Call ``function(first, last)`` on blocks of rows in parallel; return the results in order."""
    parts = row_blocks(len(like), max(1, _NUMBERS_PER_BLOCK // max(1, like.shape[1])))
    return map_blocks(function, parts, n_jobs if len(parts) > _SERIAL_BLOCKS else 1)


def matvec(matrix: FeatureMatrix, w: Vector, out: Vector | None = None) -> Vector:
    # The loops over one-dimensional vectors are faster.
    if w.shape[1] == 1:
        return matrix.matvec(w[:, 0], None if out is None else out[:, 0])[:, None]
    return matrix.matvec(w, out)


def rmatvec(matrix: FeatureMatrix, v: Vector, out: Vector | None = None) -> Vector:
    if v.shape[1] == 1:
        return matrix.rmatvec(v[:, 0], None if out is None else out[:, 0])[:, None]
    return matrix.rmatvec(v, out)


def add_rmatvec(matrix: FeatureMatrix, v: Vector, out: Vector) -> None:
    """Add ``Z.T @ v`` to ``out`` (n_columns, K), for ``v`` (n_rows, K)."""
    if v.shape[1] == 1:
        matrix.add_rmatvec(v[:, 0], out[:, 0])
    else:
        matrix.add_rmatvec(v, out)


def pull_back(
    matrix: FeatureMatrix, w: Vector, function: RowFunction, out: Vector | None = None
) -> Vector:
    """Return ``Z.T @ function(rows, Z @ w)`` for ``w`` (n_columns, K).

    For example, if ``function`` multiplies responses by curvatures, the result is the product of
    the Hessian with ``w``. ``function`` takes a slice of the rows and their responses (m, K), which
    it may overwrite. If features are computed on the fly, both products take one pass over them,
    which halves the cost.
    """
    if w.shape[1] > 1:
        return matrix.pull_back(w, function, out)
    flat = None if out is None else out[:, 0]
    product = matrix.pull_back(w[:, 0], lambda rows, v: function(rows, v[:, None])[:, 0], flat)
    return product[:, None]
