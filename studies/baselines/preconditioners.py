"""Preconditioners to compare with gramless's own: diagonals, and randomised Nyström."""

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

# The rank suffices if the smallest eigenvalue is at most this multiple of alpha.
_MAX_EIGENVALUE_RATIO = 10.0
_MIN_SHIFT = 1e-15
_ROUNDING = 1e-12  # Eigenvalues below this fraction of the largest are rounding errors.


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
        """Return ``1 / (diag(Z' S Z) + alpha)``, and 1 for empty columns without a penalty."""
        diagonal = problem.matrix.gram_diagonal(problem.row_weights)
        diagonal = diagonal + problem.penalty.diagonal(diagonal)
        return DiagonalInverse(1.0 / np.where(diagonal > 0, diagonal, 1.0))


@dataclass(frozen=True)
class RootJacobi(Preconditioner):
    """The square root of the exact diagonal, a compromise between no preconditioner and Jacobi.

    It damps full bins and keeps the cluster of eigenvalues at ``alpha`` together. It needs fewer
    iterations than both to come within 0.1 % or 0.01 % of the minimal objective, and as few as
    Jacobi to come within 1 %.

    Examples
    --------
    >>> from gramless.solvers import ConjugateGradient
    >>> ConjugateGradient(preconditioner=RootJacobi()).preconditioner
    RootJacobi()
    """

    def inverse(self, problem: Problem) -> DiagonalInverse:
        """Return ``(diag(Z' S Z) + alpha) ** -0.5``, and 1 for empty columns without a penalty."""
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
    """Randomised Nyström approximation of the large eigenvalues of the Hessian.

    With ``A = Z' S Z`` and orthonormal random directions ``O``, ``A O (O' A O)^-1 O' A``
    approximates the large eigenvalues ``L`` of ``A`` and their vectors ``U``. The
    preconditioner inverts these, and divides all other directions by the smallest of these
    eigenvalues: ``U (L + alpha)^-1 U' + (I - U U') / (l_r + alpha)`` (Frangella, Tropp &
    Udell 2021, equation 1.3 up to a factor).

    Parameters
    ----------
    rank : int, optional
        Number of directions. By default it starts at ``first_rank`` and is doubled until the
        smallest eigenvalue is at most 10 alpha, or the rank reaches ``max_rank`` or ``max_share``
        of the columns.
    first_rank, max_rank : int, default=64, 1024
        First and largest rank.
    max_share : float, default=0.5
        Maximum rank, as a fraction of the number of columns.
    max_responses : int, default=2**24
        Maximum number of responses stored at once, for matrices that need two passes.

    Notes
    -----
    Each doubling takes one pass over the matrix, with ``rank`` columns at once. The total cost is
    4 n_rows * n_columns * rank + 2 n_columns * rank**2 operations, and 4 n_columns * rank
    operations per iteration. Memory is 24 n_columns * rank bytes.

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
        """Return a preconditioner for all problems with these rows and weights."""
        return NystromSketch(matrix, row_weights / row_weights.sum(), self)


class NystromSketch(Preconditioner):
    """Random directions and their products with a Hessian, see :class:`RandomisedNystrom`.

    It serves a path of penalties; directions are added when a penalty needs a larger rank. The row
    weights sum to 1.
    """

    def __init__(
        self, matrix: FeatureMatrix, row_weights: FloatArray, options: RandomisedNystrom
    ) -> None:
        self.matrix, self.row_weights = matrix, row_weights
        n_rows, n_columns = matrix.shape
        rank, first = options.rank, options.first_rank
        default_rank = min(options.max_rank, max(first, int(options.max_share * n_columns)))
        max_columns = max(1, options.max_responses // n_rows)
        self._block_columns = n_columns if matrix.has_one_pass else max_columns
        self.max_rank = min(n_rows, n_columns, default_rank if rank is None else rank)
        self.directions = np.empty((n_columns, 0))
        self.products = np.empty((n_columns, 0))
        self._grow(min(self.max_rank, first) if rank is None else self.max_rank)

    @property
    def rank(self) -> int:
        return self.directions.shape[1]

    def inverse(self, problem: Problem) -> LowRankInverse:
        """Return the approximate inverse, with the rank doubled as often as the penalty needs."""
        alpha = problem.penalty.l2
        while self.rank < self.max_rank and self.values[0] > _MAX_EIGENVALUE_RATIO * alpha:
            self._grow(min(2 * self.rank, self.max_rank))
        smallest = max(self.values[0] + alpha, _ROUNDING * self.values[-1]) or 1.0
        diagonal = np.full(problem.matrix.shape[1], 1.0 / smallest)
        shares = 1.0 / smallest - 1.0 / np.maximum(self.values + alpha, smallest)
        return LowRankInverse(diagonal, self.vectors, shares)

    def _grow(self, rank: int) -> None:
        """Add random directions orthogonal to the existing ones, and update the eigenvalues."""
        n_columns, old_rank = self.directions.shape
        added = stream(0, "sketch", old_rank).normal(size=(n_columns, rank - old_rank))
        with one_blas_thread():
            # Rounding leaves the first pass not quite orthogonal.
            for _ in range(2):
                added -= self.directions @ (self.directions.T @ added)
                added, _ = scipy.linalg.qr(added, mode="economic", check_finite=False)

        def weigh(rows: slice, responses: Vector) -> Vector:
            responses *= self.row_weights[rows, None]
            return responses

        parts = [added[:, a:b] for a, b in row_blocks(added.shape[1], self._block_columns)]
        products = [pull_back(self.matrix, np.ascontiguousarray(part), weigh) for part in parts]
        self.directions = np.hstack([self.directions, added])
        self.products = np.hstack([self.products, *products])
        self.values, self.vectors = _decompose(self.directions, self.products)


def _decompose(directions: FloatArray, products: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ascending eigenvalues of the approximation and their vectors.

    A small shift makes the matrix positive definite for the Cholesky factorisation (Frangella,
    Tropp & Udell 2021, algorithm 2.1).
    """
    norm = float(np.sqrt(np.einsum("dr,dr->", products, products)))
    shift = _MIN_SHIFT * norm
    with one_blas_thread():
        core = directions.T @ products
        core = 0.5 * (core + core.T)
        failed = 1
        while failed and norm > 0.0:
            shift *= 10.0
            shifted = core + shift * np.eye(len(core))
            lower, failed = scipy.linalg.lapack.dpotrf(shifted, lower=1, clean=1)
        if norm == 0.0:
            return np.zeros(len(core)), directions
        half = scipy.linalg.solve_triangular(
            lower, (products + shift * directions).T, lower=True, check_finite=False
        )
        values, rotation = scipy.linalg.eigh(half @ half.T, check_finite=False)
        kept = values > _ROUNDING * values[-1]
        vectors = half.T @ (rotation[:, kept] / np.sqrt(values[kept]))
    return np.maximum(values[kept] - shift, 0.0), vectors
