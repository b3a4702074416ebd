"""Factorisations of symmetric systems, each for many right-hand sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.threads import map_blocks, one_blas_thread
from gramless.matrices.base import Vector

_LEAST_PIVOT = 1e-6
"""Without a ridge, smaller pivots, relative to the largest diagonal entry, may be rounding."""

_MARGIN = 4.0
"""Eigenvalues count as real above this multiple of the most negative one's size."""

_NARROW = 2
"""At most so many right-hand sides are solved one by one."""

_FIRST_SHIFT, _MORE = 1e-10, 10.0
"""The first shift of the diagonal, relative to its largest entry, and the factor to the next."""


class Factor(Protocol):
    """A factorised symmetric matrix. It calls BLAS without limiting its threads."""

    def solve(self, right: Vector) -> Vector:
        """Return the solution for right-hand sides (n, K)."""


@dataclass(frozen=True)
class CholeskyFactor:
    """``L L'`` with ``L`` in the lower triangle of ``factor``."""

    factor: NDArray[np.float64]

    def solve(self, right: Vector) -> Vector:
        """Return ``(L L')^-1 right`` in 2 n^2 operations for each side."""
        return np.ascontiguousarray(divided(self.factor, right))


def divided(factor: NDArray[np.float64], right: Vector) -> Vector:
    """Return ``(L L')^-1 right`` for right-hand sides (n, K), ``L`` the lower triangle.

    Examples
    --------
    >>> divided(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([[2.0], [3.0]]))
    array([[-0.5],
           [ 2. ]])
    """
    if right.shape[1] > _NARROW or right.size == 0:
        solution, _ = scipy.linalg.lapack.dpotrs(factor, right, lower=1)
        return solution
    # dpotrs copies the factor, which is only worth it for many sides.
    solution, solve = np.empty_like(right), scipy.linalg.blas.dtrsv
    for k in range(right.shape[1]):
        half = solve(factor, right[:, k], lower=1)
        solution[:, k] = solve(factor, half, lower=1, trans=1, overwrite_x=1)
    return solution


@dataclass(frozen=True)
class SpectralFactor:
    """The pseudo-inverse of ``V diag(values) V'``, robust to rounding.

    Eigenvalues that double precision cannot tell from zero are left out, which gives solutions of
    least norm. The most negative eigenvalue measures the rounding of the matrix itself: smaller
    ones are raised to that size.
    """

    vectors: NDArray[np.float64]
    inverse: NDArray[np.float64]

    @classmethod
    def of(cls, gram: NDArray[np.float64]) -> SpectralFactor:
        """Decompose a Gram matrix."""
        values, vectors = scipy.linalg.eigh(gram, check_finite=False)
        rounding = len(values) * np.finfo(float).eps * values.max(initial=0.0)
        believed = max(rounding, -_MARGIN * values.min(initial=0.0))
        inverse = np.zeros_like(values)
        np.divide(1.0, np.maximum(values, believed), out=inverse, where=values > rounding)
        return cls(vectors, inverse)

    def solve(self, right: Vector) -> Vector:
        """Return the solution, of least norm where there are several."""
        return self.vectors @ (self.inverse[:, None] * (self.vectors.T @ right))


def factorised(gram: NDArray[np.float64], ridge: NDArray[np.float64]) -> Factor:
    """Factorise ``gram + diag(ridge)``, or a matrix close to it; ``gram`` is not changed.

    By Cholesky, in n^3 / 3 operations and 8 n^2 bytes. If the ridge is too small for the rounding
    of the Gram matrix, the diagonal is raised until this works. A Gram matrix that is singular, or
    nearly, and has no ridge is decomposed by its eigenvectors: some 10 n^3 operations and 16 n^2
    bytes. Raises ``InputError`` if the Gram matrix is not finite.
    """
    rounding = len(ridge) * np.finfo(float).eps
    largest = _largest(gram)
    if not ridge.any():
        found = _cholesky(gram, ridge, _LEAST_PIVOT * largest)
        return SpectralFactor.of(gram) if found is None else found
    found, shift = None, 0.0
    while found is None:
        found = _cholesky(gram, ridge + shift, rounding * largest)
        shift = max(_MORE * shift, _FIRST_SHIFT * (largest or ridge.max()))
    return found


def is_singular(gram: NDArray[np.float64]) -> bool:
    """Tell whether :func:`factorised` without a ridge needs eigenvectors.

    Examples
    --------
    >>> is_singular(np.ones((2, 2))), is_singular(np.eye(2))
    (True, False)
    """
    return _cholesky(gram, np.zeros(len(gram)), _LEAST_PIVOT * _largest(gram)) is None


def _largest(gram: NDArray[np.float64]) -> float:
    largest = float(gram.diagonal().max(initial=0.0))
    if not np.isfinite(largest):
        raise InputError(
            "a Gram matrix has numbers that are not finite: there are features that are not, or "
            "whose squares are not; rescale the rows, or look at the kernel."
        )
    return largest


def _cholesky(
    gram: NDArray[np.float64], ridge: NDArray[np.float64], least_pivot: float
) -> CholeskyFactor | None:
    """Factorise ``gram + diag(ridge)``; None where a pivot is too small."""
    factor = np.array(gram.T, order="F")
    factor[np.diag_indices_from(factor)] += ridge
    factor, failed = scipy.linalg.lapack.dpotrf(factor, lower=1, clean=0, overwrite_a=1)
    least = np.square(factor.diagonal()).min(initial=np.inf)
    return None if failed or least <= least_pivot else CholeskyFactor(factor)


@dataclass(frozen=True)
class BorderedFactor:
    """``[[H, B], [B', C]]`` with a block-diagonal ``H`` and a narrow border ``B``.

    ``H`` is eliminated; its Schur complement is a small system for the last unknowns.
    """

    factors: list[tuple[slice, Factor]]
    border: NDArray[np.float64]
    solved_border: NDArray[np.float64]
    schur_inverse: NDArray[np.float64]
    n_jobs: int | None

    @classmethod
    def of(
        cls,
        blocks: list[tuple[slice, NDArray[np.float64]]],
        ridge: NDArray[np.float64],
        border: NDArray[np.float64],
        corner: NDArray[np.float64],
        n_jobs: int | None,
    ) -> BorderedFactor:
        """Factorise the blocks ``gram + diag(ridge)`` of ``H`` in parallel and eliminate it."""
        with one_blas_thread():
            made = map_blocks(lambda own, gram: factorised(gram, ridge[own]), blocks, n_jobs)
        factors = [(own, factor) for (own, _), factor in zip(blocks, made, strict=True)]
        solved = _solve_blocks(factors, border, n_jobs)
        with one_blas_thread():
            schur = np.asarray(corner - border.T @ solved, np.float64)
            schur_inverse = np.asarray(np.linalg.pinv(schur, hermitian=True), np.float64)
        return cls(factors, border, solved, schur_inverse, n_jobs)

    def solve(self, right: Vector) -> Vector:
        """Return the solution for right-hand sides (n + b, K)."""
        n = len(self.border)
        solution = np.empty_like(right)
        solution[:n] = _solve_blocks(self.factors, right[:n], self.n_jobs)
        if n < len(right):
            with one_blas_thread():
                left = right[n:] - self.border.T @ solution[:n]
                solution[n:] = self.schur_inverse @ left
                solution[:n] -= self.solved_border @ solution[n:]
        return solution


def _solve_blocks(factors: list[tuple[slice, Factor]], right: Vector, n_jobs: int | None) -> Vector:
    solution = np.empty_like(right)
    if right.size == 0:
        return solution

    def solve(own: slice, factor: Factor) -> None:
        solution[own] = factor.solve(right[own])

    with one_blas_thread():
        map_blocks(solve, factors, n_jobs)
    return solution


@dataclass(frozen=True)
class FactorInverse:
    """A factorised matrix as the preconditioner of systems close to it."""

    factor: BorderedFactor
    diagonal: Vector

    @classmethod
    def of(cls, factor: BorderedFactor, n_columns: int) -> FactorInverse:
        """Wrap a factor of n_columns unknowns."""
        return cls(factor, np.zeros(n_columns))

    def coefficients(self, residual: Vector) -> Vector:
        """Return the residual and its solution."""
        return np.stack([residual, self.factor.solve(residual)])

    def energy(self, coefficients: Vector) -> Vector:
        """Return the negative energy: the whole operator is in the subtracted part."""
        residual, solution = coefficients
        return -np.einsum("dk,dk->k", residual, solution)

    def subtract(self, coefficients: Vector, direction: Vector) -> None:
        """Add the solution."""
        direction += coefficients[1]
