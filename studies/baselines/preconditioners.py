"""Preconditioners to compare with the sample of rows: diagonals, and large eigenvalues."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.base.threads import one_blas_thread, row_blocks
from gramless.base.types import FloatArray
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.solvers.objective import Problem
from gramless.solvers.preconditioners import DiagonalInverse, Preconditioner
from gramless.solvers.vectors import pull_back

_ENOUGH = 10.0
"""Directions suffice once the smallest eigenvalue is below this multiple of alpha."""

_LEAST_SHIFT = 1e-15
_LEAST_VALUE = 1e-12
"""Eigenvalues below this fraction of the largest are rounding."""


@dataclass(frozen=True)
class Jacobi(Preconditioner):
    """The exact diagonal of the Hessian.

    For binned matrices these are the weighted bin counts, which are the whole diagonal blocks of
    the grids. Progress is fast at first and slow at the end, because the diagonal also spreads
    the eigenvalue ``alpha`` that most columns share.

    Examples
    --------
    >>> from gramless.solvers import ConjugateGradient
    >>> ConjugateGradient(preconditioner=Jacobi()).preconditioner
    Jacobi()
    """

    def inverse(self, problem: Problem) -> DiagonalInverse:
        """Return ``1 / (diag(Z' S Z) + alpha)``; 1 where that is empty."""
        diagonal = problem.matrix.gram_diagonal(problem.row_weights)
        diagonal = diagonal + problem.penalty.diagonal(diagonal)
        return DiagonalInverse(1.0 / np.where(diagonal > 0, diagonal, 1.0))


@dataclass(frozen=True)
class RootJacobi(Preconditioner):
    """The square root of the exact diagonal, halfway between plain and Jacobi.

    It damps full bins and keeps the cluster of eigenvalues at ``alpha`` together: fewer
    iterations than both to 0.1 and 0.01 % of the objective, as few as the diagonal to 1 %.

    Examples
    --------
    >>> from gramless.solvers import ConjugateGradient
    >>> ConjugateGradient(preconditioner=RootJacobi()).preconditioner
    RootJacobi()
    """

    def inverse(self, problem: Problem) -> DiagonalInverse:
        """Return ``(diag(Z' S Z) + alpha) ** -0.5``; 1 where that is empty."""
        return DiagonalInverse(np.sqrt(Jacobi().inverse(problem).diagonal))


@dataclass(frozen=True)
class LowRankInverse:
    """``diagonal I - U diag(shares) U'`` with orthonormal columns ``U`` (n_columns, rank)."""

    diagonal: Vector
    vectors: FloatArray
    shares: FloatArray

    def coefficients(self, residual: Vector) -> Vector:
        with one_blas_thread():
            return self.vectors.T @ residual

    def energy(self, coefficients: Vector) -> Vector:
        return np.einsum("r,rk,rk->k", self.shares, coefficients, coefficients)

    def subtract(self, coefficients: Vector, direction: Vector) -> None:
        with one_blas_thread():
            direction -= self.vectors @ (self.shares[:, None] * coefficients)


@dataclass(frozen=True)
class RandomisedNystrom(Preconditioner):
    """The large eigenvalues of the Hessian, found by products with random directions.

    With ``A = Z' S Z`` and orthonormal random directions ``O``, ``A O (O' A O)^-1 O' A``
    approximates the large eigenvalues ``L`` of ``A`` and their vectors ``U``. These are
    inverted, and all other directions are divided by the smallest eigenvalue found:
    ``U (L + alpha)^-1 U' + (I - U U') / (l_r + alpha)`` (Frangella, Tropp & Udell 2021,
    equation 1.3 up to a factor).

    Parameters
    ----------
    rank : int, optional
        Number of directions. By default it is doubled from ``first_rank`` on until the
        smallest eigenvalue found is at most 10 alpha, up to ``max_share`` of the columns and
        ``max_rank``.
    first_rank, max_rank : int, default=64, 1024
        Rank to begin with, and the largest to go on to.
    max_share : float, default=0.5
        Rank at most, as a share of the columns.
    max_responses : int, default=2**24
        Responses of all rows that are held at once, for matrices that need two passes.

    Notes
    -----
    One pass over the matrix for each doubling, with ``rank`` columns at once; in all 4
    n_rows * n_columns * rank + 2 n_columns * rank**2 operations, and 4 n_columns * rank an
    iteration. 24 n_columns * rank bytes.

    Examples
    --------
    >>> from gramless.solvers import ConjugateGradient
    >>> ConjugateGradient(preconditioner=RandomisedNystrom(rank=32)).preconditioner.rank
    32
    """

    rank: int | None = None
    first_rank: int = 64
    max_rank: int = 1024
    max_share: float = 0.5
    max_responses: int = 1 << 24

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank == 0:
            raise InputError("RandomisedNystrom: rank must be a whole number of at least 1, got 0.")

    def inverse(self, problem: Problem) -> LowRankInverse:
        return self.draw(problem.matrix, problem.row_weights).inverse(problem)

    def draw(self, matrix: FeatureMatrix, row_weights: FloatArray) -> NystromSketch:
        """Return the preconditioner of all problems with these rows and weights."""
        return NystromSketch(matrix, row_weights / row_weights.sum(), self)


class NystromSketch(Preconditioner):
    """Directions and their products for a path of penalties, see :class:`RandomisedNystrom`.

    More are added when a penalty needs them. The row weights sum to 1.
    """

    def __init__(
        self, matrix: FeatureMatrix, row_weights: FloatArray, options: RandomisedNystrom
    ) -> None:
        self.matrix, self.row_weights = matrix, row_weights
        n_rows, n_columns = matrix.shape
        rank, first = options.rank, options.first_rank
        by_default = min(options.max_rank, max(first, int(options.max_share * n_columns)))
        in_one_pass = matrix.has_one_pass
        self._at_once = n_columns if in_one_pass else max(1, options.max_responses // n_rows)
        self.most = min(n_rows, n_columns, by_default if rank is None else rank)
        self.directions = np.empty((n_columns, 0))
        self.products = np.empty((n_columns, 0))
        self._grow(min(self.most, first) if rank is None else self.most)

    @property
    def rank(self) -> int:
        return self.directions.shape[1]

    def inverse(self, problem: Problem) -> LowRankInverse:
        """Return the approximate inverse, after as many doublings as the penalty needs."""
        alpha = problem.penalty.l2
        while self.rank < self.most and self.values[0] > _ENOUGH * alpha:
            self._grow(min(2 * self.rank, self.most))
        smallest = max(self.values[0] + alpha, _LEAST_VALUE * self.values[-1]) or 1.0
        diagonal = np.full(problem.matrix.shape[1], 1.0 / smallest)
        shares = 1.0 / smallest - 1.0 / np.maximum(self.values + alpha, smallest)
        return LowRankInverse(diagonal, self.vectors, shares)

    def _grow(self, rank: int) -> None:
        """Add random directions, orthogonal to the present ones, and decompose again."""
        n_columns, before = self.directions.shape
        drawn = stream(0, "sketch", before).normal(size=(n_columns, rank - before))
        with one_blas_thread():
            # The second pass removes what rounding left.
            for _ in range(2):
                drawn -= self.directions @ (self.directions.T @ drawn)
                drawn, _ = scipy.linalg.qr(drawn, mode="economic", check_finite=False)

        def weigh(rows: slice, responses: Vector) -> Vector:
            responses *= self.row_weights[rows, None]
            return responses

        parts = [drawn[:, a:b] for a, b in row_blocks(drawn.shape[1], self._at_once)]
        products = [pull_back(self.matrix, np.ascontiguousarray(own), weigh) for own in parts]
        self.directions = np.hstack([self.directions, drawn])
        self.products = np.hstack([self.products, *products])
        self.values, self.vectors = _decomposed(self.directions, self.products)


def _decomposed(directions: FloatArray, products: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ascending eigenvalues of the approximation and their vectors.

    A small shift makes the Cholesky factor exist (Frangella, Tropp & Udell 2021, algorithm 2.1).
    """
    size = float(np.sqrt(np.einsum("dr,dr->", products, products)))
    shift = _LEAST_SHIFT * size
    with one_blas_thread():
        core = directions.T @ products
        core = 0.5 * (core + core.T)
        failed = 1
        while failed and size > 0.0:
            shift *= 10.0
            shifted = core + shift * np.eye(len(core))
            lower, failed = scipy.linalg.lapack.dpotrf(shifted, lower=1, clean=1)
        if size == 0.0:
            return np.zeros(len(core)), directions
        half = scipy.linalg.solve_triangular(
            lower, (products + shift * directions).T, lower=True, check_finite=False
        )
        values, rotation = scipy.linalg.eigh(half @ half.T, check_finite=False)
        known = values > _LEAST_VALUE * values[-1]
        vectors = half.T @ (rotation[:, known] / np.sqrt(values[known]))
    return np.maximum(values[known] - shift, 0.0), vectors
