"""Approximate inverses of the Hessian ``Z' S Z + alpha I``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramless.base.cached import cached_property
from gramless.base.random import stream
from gramless.base.state import Stateful
from gramless.base.threads import one_blas_thread, row_blocks
from gramless.matrices.abilities import SupportsOnePass
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.solvers.base import check_options
from gramless.solvers.factor import divided
from gramless.solvers.objective import Problem
from gramless.solvers.vectors import pull_back, weighted_inner

_RESOLUTION = 0.4
_ALL_ROWS_RESOLUTION = 1e-9
_ROWS_A_ROOT = 5.0
_FEWEST_ROWS = 256
_MOST_ROWS = 2048


class Inverse(Protocol):
    """A symmetric positive operator, ``diagonal`` less a part of low rank.

    Solvers do the work on the diagonal, which is most of it, in their own loops.
    """

    @property
    def diagonal(self) -> Vector:
        """The diagonal part, (n_columns,)."""

    def coefficients(self, residual: Vector) -> Vector:
        """Return what :meth:`subtract` needs for ``residual``, (n_columns, K)."""

    def energy(self, coefficients: Vector) -> Vector:
        """Return the low-rank part's share of ``residual' inverse residual``, (K,)."""

    def subtract(self, coefficients: Vector, direction: Vector) -> None:
        """Subtract the low-rank part of ``inverse residual`` from ``direction``."""


class Preconditioner(Protocol):
    """Builds the operator by which a solver multiplies gradients."""

    def inverse(self, problem: Problem) -> Inverse:
        """Return the operator for a problem."""

    def drawn(self, matrix: FeatureMatrix) -> Preconditioner:
        """Return the same for problems over one matrix, what they share done once."""


def energy(
    inverse: Inverse,
    residual: Vector,
    coefficients: Vector | None = None,
    n_jobs: int | None = None,
) -> Vector:
    """Return ``residual' inverse residual`` of each column, (K,)."""
    if coefficients is None:
        coefficients = inverse.coefficients(residual)
    whole = weighted_inner(inverse.diagonal, residual, residual, n_jobs)
    return np.maximum(whole - inverse.energy(coefficients), 0.0)


@dataclass(frozen=True)
class DiagonalInverse:
    """A diagonal and nothing else."""

    diagonal: Vector

    def coefficients(self, residual: Vector) -> Vector:
        """Return none."""
        return np.empty((0, residual.shape[1]))

    def energy(self, coefficients: Vector) -> Vector:
        """Return zeros."""
        return np.zeros(coefficients.shape[1])

    def subtract(self, coefficients: Vector, direction: Vector) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class SampledInverse:
    """``(I - V' (mu I + V V')^-1 V) / mu`` with ``V = diag(roots) Z_m`` of m rows.

    ``factor`` is the lower Cholesky factor of ``mu I + V V'``.
    """

    mu: float
    rows: FeatureMatrix
    chosen: NDArray[np.intp]
    """Which rows of the problem's matrix they are."""
    roots: NDArray[np.float64]
    factor: NDArray[np.float64]

    @cached_property
    def diagonal(self) -> Vector:
        """``1 / mu`` for every column."""
        return np.full(self.rows.shape[1], 1.0 / self.mu)

    def coefficients(self, residual: Vector) -> Vector:
        """Return ``(mu I + V V')^-1 V residual`` of the m rows, and ``V residual``."""
        narrow = residual[:, 0] if residual.shape[1] == 1 else residual
        return self.solved(self.rows.matvec(narrow).reshape(len(self.roots), -1))

    def solved(self, responses: Vector) -> Vector:
        """Return the coefficients, given the rows' responses to the residual, (m, K)."""
        responses = responses * self.roots[:, None]
        with one_blas_thread():
            shares = divided(self.factor, responses)
        return np.stack([shares, responses])

    def energy(self, coefficients: Vector) -> Vector:
        """Return ``residual' V' (mu I + V V')^-1 V residual / mu``."""
        shares, responses = coefficients
        return np.einsum("mk,mk->k", shares, responses) / self.mu

    def subtract(self, coefficients: Vector, direction: Vector) -> None:
        """Subtract the rows times their shares."""
        shares = -self.subtracted(coefficients)
        if shares.shape[1] == 1:
            self.rows.add_rmatvec(shares[:, 0], direction[:, 0])
        else:
            self.rows.add_rmatvec(shares, direction)

    def subtracted(self, coefficients: Vector) -> Vector:
        """Return how much of each row :meth:`subtract` takes away, (m, K)."""
        return np.asarray(coefficients[0] * (self.roots[:, None] / self.mu))


class NothingShared:
    """Preconditioners whose problems share nothing more."""

    def drawn(self, matrix: FeatureMatrix) -> Self:
        """Return itself."""
        return self


@dataclass(frozen=True)
class Identity(NothingShared, Stateful):
    """No preconditioning: plain conjugate gradients, as in RB16."""

    def inverse(self, problem: Problem) -> DiagonalInverse:
        """Return ones."""
        return DiagonalInverse(np.ones(problem.matrix.shape[1]))


@dataclass(frozen=True)
class Jacobi(NothingShared, Stateful):
    """The exact diagonal of the Hessian.

    Within a grid the columns of a binned matrix are disjoint, so the weighted
    bin counts are the whole diagonal block of each grid: one rmatvec. Fast at
    first, slow at the end: it also spreads the eigenvalue ``alpha``, which most
    columns share.
    """

    def inverse(self, problem: Problem) -> DiagonalInverse:
        """Return ``1 / (diag(Z' S Z) + alpha)``; 1 where that is empty."""
        diagonal = problem.matrix.gram_diagonal(problem.row_weights)
        diagonal = diagonal + problem.penalty.diagonal(diagonal)
        return DiagonalInverse(1.0 / np.where(diagonal > 0, diagonal, 1.0))


@dataclass(frozen=True)
class RootJacobi(NothingShared, Stateful):
    """The square root of the exact diagonal, halfway between plain and Jacobi.

    Full bins are slowed down as far as they must be, and the cluster of
    eigenvalues at ``alpha`` stays together: fewer iterations than both to 0.1
    and 0.01 % of the objective, as few as the diagonal to 1 %.
    """

    def inverse(self, problem: Problem) -> DiagonalInverse:
        """Return ``(diag(Z' S Z) + alpha) ** -0.5``; 1 where that is empty."""
        return DiagonalInverse(np.sqrt(Jacobi().inverse(problem).diagonal))


@dataclass(frozen=True)
class SampledRows(Stateful):
    """The Hessian of a random part of the rows, inverted exactly.

    With m of the rows, ``M = Z_m' S_m Z_m + mu I`` has the Hessian's large
    eigenvalues; m rows cannot tell eigenvalues below about 1/m from zero, so
    ``mu`` is 0.4/m of the mean squared norm of a row, or alpha if that is more.
    By the Woodbury identity ``M^-1 = (I - Z_m' C Z_m) / mu`` with an m x m
    matrix. Where all rows are taken, M is the Hessian.

    Parameters
    ----------
    n_rows : int, optional
        How many rows. Not given: 5 times the root of their number, at least 256
        and at most 2,048.

    Notes
    -----
    m^2 * (n_grids / 16 + m / 3) operations once, m^2 + m * n_grids an
    iteration; 16 m^2 bytes, at most 67 MB by default.
    """

    n_rows: int | None = None

    def __post_init__(self) -> None:
        check_options(self)

    def inverse(self, problem: Problem) -> SampledInverse:
        """Draw the rows, weigh them as the problem does, and factorise."""
        return self.draw(problem.matrix, problem.row_weights).inverse(problem)

    def drawn(self, matrix: FeatureMatrix) -> DrawnRows:
        """Return the preconditioner that weighs the same rows anew for each problem."""
        return DrawnRows(self, self.draw(matrix, np.ones(matrix.shape[0])))

    def draw(self, matrix: FeatureMatrix, row_weights: NDArray[np.float64]) -> RowSample:
        """Return the preconditioner of all problems with these rows and weights."""
        candidates = np.flatnonzero(row_weights)
        wanted = default_rows(len(candidates)) if self.n_rows is None else self.n_rows
        chosen = candidates
        if wanted < len(candidates):
            generator = stream(0, "sampled rows")
            chosen = np.sort(generator.choice(candidates, wanted, replace=False, shuffle=False))
        rows, weights = matrix.take_rows(chosen), row_weights[chosen]
        complete = len(chosen) == len(candidates)
        return RowSample.weighed(chosen, rows, rows.row_gram(), weights, complete)


@dataclass(frozen=True)
class RowSample(NothingShared):
    """Rows drawn once, for a path of penalties: see :class:`SampledRows`."""

    chosen: NDArray[np.intp] = field(repr=False)
    rows: FeatureMatrix
    products: NDArray[np.float64] = field(repr=False)
    """Of the rows with each other, not weighted."""
    roots: NDArray[np.float64]
    complete: bool
    """Whether the sample is all rows."""
    _factors: dict[float, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    @classmethod
    def weighed(
        cls,
        chosen: NDArray[np.intp],
        rows: FeatureMatrix,
        products: NDArray[np.float64],
        weights: NDArray[np.float64],
        complete: bool,
    ) -> RowSample:
        """Weigh rows, whose products are known."""
        return cls(chosen, rows, products, np.sqrt(weights / weights.sum()), complete)

    def with_weights(self, row_weights: NDArray[np.float64]) -> RowSample:
        """Return the same rows with other weights, given those of all rows."""
        weights = row_weights[self.chosen]
        return self.weighed(self.chosen, self.rows, self.products, weights, self.complete)

    def inverse(self, problem: Problem) -> SampledInverse:
        """Return the operator for a problem; the last factorisation is kept for the next."""
        alpha = problem.penalty.l2
        share = _ALL_ROWS_RESOLUTION if self.complete else resolution(len(self.roots))
        mu = max(alpha, share * float(self.products.diagonal() @ self.roots**2)) or 1.0
        factor = self._factors.get(mu)
        if factor is None:
            gram = self.products * self.roots
            gram *= self.roots[:, None]
            factor = _factorised(mu, gram)
            self._factors.clear()
            self._factors[mu] = factor
        return SampledInverse(mu, self.rows, self.chosen, self.roots, factor)


@dataclass(frozen=True)
class DrawnRows(NothingShared):
    """Rows drawn once, for problems of any row weights: see :meth:`SampledRows.drawn`.

    Their products with each other, half of the work, are kept. Where some rows of
    the matrix have no weight, others are drawn from the rest.
    """

    otherwise: SampledRows
    sample: RowSample

    def inverse(self, problem: Problem) -> SampledInverse:
        """Weigh the rows as the problem does, and factorise."""
        if not problem.row_weights.all():
            return self.otherwise.inverse(problem)
        return self.sample.with_weights(problem.row_weights).inverse(problem)


def resolution(n_rows: int) -> float:
    """Return the least eigenvalue that so many rows can tell from zero, in units of their trace."""
    return _RESOLUTION / n_rows


def default_rows(n_rows: int) -> int:
    """Return how many rows of so many :class:`SampledRows` takes where nothing is said."""
    return int(np.clip(_ROWS_A_ROOT * np.sqrt(n_rows), _FEWEST_ROWS, _MOST_ROWS))


def _factorised(mu: float, gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the lower Cholesky factor of ``mu I + gram``, overwriting ``gram``."""
    gram[np.diag_indices_from(gram)] += mu
    with one_blas_thread():
        factor, _ = scipy.linalg.lapack.dpotrf(gram.T, lower=1, overwrite_a=1)
    return factor


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
