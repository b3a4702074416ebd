"""Symmetric systems factorised once and solved for many right-hand sides."""

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
"""Of the largest entry on the diagonal: what is smaller can be rounding, without a ridge."""

_MARGIN = 4.0
"""Over the most negative eigenvalue: from there on eigenvalues are believed."""

_NARROW = 2
"""Right-hand sides that are solved one by one."""

_FIRST_SHIFT, _MORE = 1e-10, 10.0
"""Of the largest entry on the diagonal, far above rounding; and from one shift to the next."""


class Factor(Protocol):
    """A symmetric matrix, ready to be divided by; calls BLAS without keeping it to one thread."""

    def solve(self, right: Vector) -> Vector:
        """Return the solution for right-hand sides (n, K)."""


@dataclass(frozen=True)
class CholeskyFactor:
    """``L L'`` with ``L`` in the lower triangle of ``factor``."""

    factor: NDArray[np.float64]

    def solve(self, right: Vector) -> Vector:
        """Return ``(L L')^-1 right``: 2 n^2 operations a side."""
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
    # Many sides share the factor's way into the cache; for a few, LAPACK's copies of it cost more.
    solution, solve = np.empty_like(right), scipy.linalg.blas.dtrsv
    for k in range(right.shape[1]):
        half = solve(factor, right[:, k], lower=1)
        solution[:, k] = solve(factor, half, lower=1, trans=1, overwrite_x=1)
    return solution


@dataclass(frozen=True)
class SpectralFactor:
    """``V diag(values) V'``, divided by as far as rounding lets it be known.

    Where double precision cannot tell an eigenvalue from zero its direction is left out,
    which gives the solution of least norm. The most negative eigenvalue tells the matrix's
    own rounding: none is taken to be smaller than that.
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
    """Return ``gram + diag(ridge)``, or what is next to it and can be factorised.

    Parameters
    ----------
    gram : array (n, n)
        Symmetric, without negative eigenvalues but for rounding; not changed.
    ridge : array (n,)
        One number, or 0 for columns that are left alone.

    Returns
    -------
    Factor
        By Cholesky. Where the ridge is too small for the rounding of the Gram matrix, of
        a matrix with more on its diagonal, the first that works. Without any ridge, where
        the Gram matrix is singular or nearly, by its eigenvalues.

    Raises
    ------
    InputError
        If the Gram matrix is not finite.

    Notes
    -----
    n^3 / 3 operations and 8 n^2 bytes for each that is tried; for eigenvalues some 10 n^3
    operations and 16 n^2 bytes.
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
    """Tell whether :func:`factorised` without a ridge goes by eigenvalues.

    Raises
    ------
    InputError
        If the Gram matrix is not finite.

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
    """Return ``gram + diag(ridge)`` factorised, or None where a pivot is too small."""
    factor = np.array(gram.T, order="F")
    factor[np.diag_indices_from(factor)] += ridge
    factor, failed = scipy.linalg.lapack.dpotrf(factor, lower=1, clean=0, overwrite_a=1)
    least = np.square(factor.diagonal()).min(initial=np.inf)
    return None if failed or least <= least_pivot else CholeskyFactor(factor)


@dataclass(frozen=True)
class BorderedFactor:
    """``[[H, B], [B', C]]`` with a block-diagonal ``H`` and a narrow border ``B``.

    Solved for the right-hand sides and for the border at once; what is left is a
    small system for the border's own unknowns, the last ones.
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
        """Factorise the blocks ``gram + diag(ridge)`` of ``H`` and eliminate it.

        Parameters
        ----------
        blocks : list of (slice, array)
            Which unknowns, and their Gram matrix.
        ridge : array (n,)
        border : array (n, b)
        corner : array (b, b)
        n_jobs : int or None
            Threads over the blocks.
        """
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
    """A factorised matrix as the preconditioner of systems that it is close to."""

    factor: BorderedFactor
    diagonal: Vector

    @classmethod
    def of(cls, factor: BorderedFactor, n_columns: int) -> FactorInverse:
        """Return it for residuals (n_columns, K)."""
        return cls(factor, np.zeros(n_columns))

    def coefficients(self, residual: Vector) -> Vector:
        """Return the residual and the solution for it."""
        return np.stack([residual, self.factor.solve(residual)])

    def energy(self, coefficients: Vector) -> Vector:
        """Return less than nothing: all of the operator is what is subtracted."""
        residual, solution = coefficients
        return -np.einsum("dk,dk->k", residual, solution)

    def subtract(self, coefficients: Vector, direction: Vector) -> None:
        """Add the solution."""
        direction += coefficients[1]
