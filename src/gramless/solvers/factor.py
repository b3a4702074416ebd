"""Factorisations of symmetric matrices, to solve systems for many right-hand sides."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.linalg

from gramless.base.errors import InputError
from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray
from gramless.matrices.base import Vector

# Minimum pivot, relative to the largest diagonal entry. Without a ridge, smaller pivots may be
# rounding errors.
_MIN_PIVOT = 1e-6
# Eigenvalues below this multiple of the most negative one's size may be rounding.
_ROUNDING_MARGIN = 4.0
_MAX_SEPARATE_SIDES = 2
# The first shift is relative to the largest diagonal entry.
_FIRST_SHIFT, _SHIFT_FACTOR = 1e-10, 10.0


# Solves a factorised system for right-hand sides (n, K). The caller limits the threads of BLAS.
Solve = Callable[[Vector], Vector]


def cholesky_solve(factor: FloatArray, right: Vector) -> Vector:
    """Return ``(L L')^-1 right`` for right-hand sides (n, K), ``L`` the lower triangle."""
    if right.shape[1] > _MAX_SEPARATE_SIDES or right.size == 0:
        solution, _ = scipy.linalg.lapack.dpotrs(factor, right, lower=1)
        return solution
    # dpotrs copies the factor, which is only worth it for many right-hand sides.
    solution, solve = np.empty_like(right), scipy.linalg.blas.dtrsv
    for k in range(right.shape[1]):
        half = solve(factor, right[:, k], lower=1)
        solution[:, k] = solve(factor, half, lower=1, trans=1, overwrite_x=1)
    return solution


def pseudo_inverse(gram: FloatArray) -> Solve:
    """Return a solver for a Gram matrix by its eigendecomposition, robust to rounding.

    Eigenvalues that are zero up to double precision are left out, which gives solutions of least
    norm. The most negative eigenvalue measures the rounding of the matrix itself: smaller positive
    ones are raised to four times its size.
    """
    values, vectors = scipy.linalg.eigh(gram, check_finite=False)
    rounding = len(values) * np.finfo(float).eps * values.max(initial=0.0)
    floor = max(rounding, -_ROUNDING_MARGIN * values.min(initial=0.0))
    inverse = np.zeros_like(values)
    np.divide(1.0, np.maximum(values, floor), out=inverse, where=values > rounding)
    return lambda right: vectors @ (inverse[:, None] * (vectors.T @ right))


def factorise(gram: FloatArray, ridge: FloatArray) -> Solve:
    """Return a solver for ``gram + diag(ridge)``, or a matrix close to it.

    A Cholesky factorisation takes n^3 / 3 operations and 8 n^2 bytes. If the ridge is too small for
    the rounding of the Gram matrix, the diagonal is raised until the factorisation succeeds. A
    singular or nearly singular Gram matrix without a ridge is decomposed by its eigenvectors, in
    some 10 n^3 operations and 16 n^2 bytes. Raises InputError if the Gram matrix is not finite.
    ``gram`` is not changed.
    """
    rounding = len(ridge) * np.finfo(float).eps
    largest = _largest(gram)
    if not ridge.any():
        lower = _cholesky(gram, ridge, _MIN_PIVOT * largest)
        return pseudo_inverse(gram) if lower is None else partial(cholesky_solve, lower)
    lower, shift = None, 0.0
    while lower is None:
        lower = _cholesky(gram, ridge + shift, rounding * largest)
        shift = max(_SHIFT_FACTOR * shift, _FIRST_SHIFT * (largest or ridge.max()))
    return partial(cholesky_solve, lower)


def is_singular(gram: FloatArray) -> bool:
    """Return whether :func:`factorise` without a ridge uses eigenvectors."""
    return _cholesky(gram, np.zeros(len(gram)), _MIN_PIVOT * _largest(gram)) is None


def _largest(gram: FloatArray) -> float:
    largest = float(gram.diagonal().max(initial=0.0))
    if not np.isfinite(largest):
        raise InputError(
            "a Gram matrix has numbers that are not finite, because features or their squares are "
            "not finite; rescale the rows, or check the kernel."
        )
    return largest


def _cholesky(gram: FloatArray, ridge: FloatArray, min_pivot: float) -> FloatArray | None:
    """Return the lower factor of ``gram + diag(ridge)``, or None if a pivot is too small."""
    # LAPACK works in place on Fortran order, which the transpose of a C array has already.
    factor = np.array(gram.T, order="F")
    factor[np.diag_indices_from(factor)] += ridge
    factor, failed = scipy.linalg.lapack.dpotrf(factor, lower=1, clean=0, overwrite_a=1)
    pivot = np.square(factor.diagonal()).min(initial=np.inf)
    return None if failed or pivot <= min_pivot else factor


class BorderedFactor:
    """A factorisation of ``[[H, B], [B', C]]`` with ``H = gram + diag(ridge)``.

    The border ``B`` is narrow: ``H`` is factorised, and the Schur complement is a small system for
    the last unknowns.
    """

    def __init__(
        self, gram: FloatArray, ridge: FloatArray, border: FloatArray, corner: FloatArray
    ) -> None:
        self.border = border
        with one_blas_thread():
            self._solve_first = factorise(gram, ridge)
            self.solved_border = self._solve_first(border) if border.size else border
            schur = np.asarray(corner - border.T @ self.solved_border, np.float64)
            self.schur_inverse = np.asarray(np.linalg.pinv(schur, hermitian=True), np.float64)

    @property
    def size(self) -> int:
        return len(self.border) + len(self.schur_inverse)

    def solve(self, right: Vector) -> Vector:
        """Return the solution for right-hand sides (n + b, K), with b columns in the border."""
        n = len(self.border)
        solution = np.empty_like(right)
        if right.size:
            with one_blas_thread():
                solution[:n] = self._solve_first(right[:n])
                if n < len(right):
                    remainder = right[n:] - self.border.T @ solution[:n]
                    solution[n:] = self.schur_inverse @ remainder
                    solution[:n] -= self.solved_border @ solution[n:]
        return solution
