"""A randomised Nyström approximation of the Hessian, inverted (Frangella, Tropp & Udell 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramless.base.random import stream
from gramless.base.state import Stateful
from gramless.base.threads import one_blas_thread, row_blocks
from gramless.matrices.abilities import SupportsOnePass
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.solvers.conjugate import pull_back
from gramless.solvers.objective import Problem
from gramless.solvers.options import check_options
from gramless.solvers.preconditioners import NothingShared

_FIRST_RANK = 64
_MOST_RANK = 1024
_OF_COLUMNS = 2
_MOST_RESPONSES = 1 << 24
_ENOUGH = 10.0
"""Of alpha: eigenvalues below it need little care."""

_LEAST_SHIFT = 1e-15
_LEAST_VALUE = 1e-12
"""Of the largest eigenvalue; what is smaller is rounding."""


@dataclass(frozen=True)
class LowRankInverse:
    """``diagonal I - U diag(shares) U'`` with orthonormal columns ``U`` (n_columns, rank)."""

    diagonal: Vector
    vectors: NDArray[np.float64]
    shares: NDArray[np.float64]

    def coefficients(self, residual: Vector) -> Vector:
        """Return ``U' residual``."""
        with one_blas_thread():
            return self.vectors.T @ residual

    def energy(self, coefficients: Vector) -> Vector:
        """Return ``residual' U diag(shares) U' residual``."""
        return np.einsum("r,rk,rk->k", self.shares, coefficients, coefficients)

    def subtract(self, coefficients: Vector, direction: Vector) -> None:
        """Subtract ``U diag(shares)`` times the coefficients."""
        with one_blas_thread():
            direction -= self.vectors @ (self.shares[:, None] * coefficients)


@dataclass(frozen=True)
class RandomisedNystrom(NothingShared, Stateful):
    """The Hessian's large eigenvalues, from its products with random directions, inverted.

    With ``A = Z' S Z`` and orthonormal random directions ``O``, ``A O (O' A O)^-1 O' A``
    has the large eigenvalues of ``A`` and, nearly, their vectors ``U``. The inverse is
    exact on these, and elsewhere that of the smallest eigenvalue found:
    ``U (L + alpha)^-1 U' + (I - U U') / (l_r + alpha)`` (Frangella, Tropp & Udell 2021,
    equation 1.3 up to a factor).

    Parameters
    ----------
    rank : int, optional
        How many directions. Not given: doubled from 64 on until the smallest
        eigenvalue found is at most 10 alpha, up to half of the columns and 1,024.

    Notes
    -----
    One pass over the matrix a doubling, with ``rank`` columns at once; 4 n_rows *
    n_columns * rank operations in all, and 2 n_columns * rank**2 more. An iteration
    takes 4 n_columns * rank. 24 n_columns * rank bytes.
    """

    rank: int | None = None

    def __post_init__(self) -> None:
        check_options(self)

    def inverse(self, problem: Problem) -> LowRankInverse:
        """Draw directions, multiply them, and invert the approximation."""
        return self.draw(problem.matrix, problem.row_weights).inverse(problem)

    def draw(self, matrix: FeatureMatrix, row_weights: NDArray[np.float64]) -> NystromSketch:
        """Return the preconditioner of all problems with these rows and weights."""
        return NystromSketch(matrix, row_weights / row_weights.sum(), self.rank)


class NystromSketch(NothingShared):
    """Directions and their products, for a path of penalties: see :class:`RandomisedNystrom`.

    Grows when a penalty needs more of them.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
    row_weights : array (n_rows,)
        Summing to 1.
    rank : int, optional
        As in :class:`RandomisedNystrom`.
    """

    def __init__(
        self, matrix: FeatureMatrix, row_weights: NDArray[np.float64], rank: int | None
    ) -> None:
        self.matrix, self.row_weights = matrix, row_weights
        n_rows, n_columns = matrix.shape
        by_default = min(_MOST_RANK, max(_FIRST_RANK, n_columns // _OF_COLUMNS))
        in_one_pass = isinstance(matrix, SupportsOnePass)
        self._at_once = n_columns if in_one_pass else max(1, _MOST_RESPONSES // n_rows)
        self.most = min(n_rows, n_columns, by_default if rank is None else rank)
        self.directions = np.empty((n_columns, 0))
        self.products = np.empty((n_columns, 0))
        self._grow(min(self.most, _FIRST_RANK) if rank is None else self.most)

    @property
    def rank(self) -> int:
        """How many directions there are."""
        return self.directions.shape[1]

    def inverse(self, problem: Problem) -> LowRankInverse:
        """Return the operator for a problem, after as many doublings as it needs."""
        alpha = problem.penalty.l2
        while self.rank < self.most and self.values[0] > _ENOUGH * alpha:
            self._grow(min(2 * self.rank, self.most))
        smallest = max(self.values[0] + alpha, _LEAST_VALUE * self.values[-1]) or 1.0
        diagonal = np.full(problem.matrix.shape[1], 1.0 / smallest)
        shares = 1.0 / smallest - 1.0 / np.maximum(self.values + alpha, smallest)
        return LowRankInverse(diagonal, self.vectors, shares)

    def _grow(self, rank: int) -> None:
        """Add random directions, orthogonal to those there are, and decompose anew."""
        n_columns, before = self.directions.shape
        drawn = stream(0, "sketch", before).normal(size=(n_columns, rank - before))
        with one_blas_thread():
            # Once more for what rounding left.
            for _ in range(2):
                drawn -= self.directions @ (self.directions.T @ drawn)
                drawn, _ = scipy.linalg.qr(drawn, mode="economic", check_finite=False)
        products = [
            self._times(drawn[:, a:b]) for a, b in row_blocks(drawn.shape[1], self._at_once)
        ]
        self.directions = np.hstack([self.directions, drawn])
        self.products = np.hstack([self.products, *products])
        self.values, self.vectors = _decomposed(self.directions, self.products)

    def _times(self, directions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``Z' S Z`` times some directions."""

        def weigh(rows: slice, responses: Vector) -> Vector:
            responses *= self.row_weights[rows, None]
            return responses

        return pull_back(self.matrix, np.ascontiguousarray(directions), weigh)


def _decomposed(
    directions: NDArray[np.float64], products: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the eigenvalues of the approximation, ascending, and its vectors.

    Of the matrix with a small shift, so that the small factor exists (Frangella,
    Tropp & Udell 2021, algorithm 2.1).
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
