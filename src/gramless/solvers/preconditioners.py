"""Preconditioners: approximate inverses of the Hessian ``Z' S Z + alpha I``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramless.base.memory import large_array_budget, user_memory_limit
from gramless.base.random import stream
from gramless.base.state import Stateful
from gramless.base.threads import cached_property, one_blas_thread
from gramless.base.types import FloatArray
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.solvers.base import check_options
from gramless.solvers.factor import BorderedFactor, cholesky_solve
from gramless.solvers.objective import Problem
from gramless.solvers.vectors import add_rmatvec, matvec, weighted_inner

# m sampled rows resolve eigenvalues down to _RESOLUTION / m of the trace. If all rows are sampled,
# only rounding limits the resolution.
_RESOLUTION = 0.4
_ALL_ROWS_RESOLUTION = 1e-9
_ROWS_PER_ROOT = 5.0  # a sample has this many times the square root of the number of rows
_MIN_ROWS, _MAX_ROWS = 256, 2048
# Bytes of a sample: dense rows are held in float32 and float64 (4 + 8 per number), and the Gram
# matrix unweighted and weighted (8 + 8 per pair of rows).
_BYTES_PER_NUMBER, _BYTES_PER_PAIR = 12, 16
_MIN_ROWS_IN_LITTLE_MEMORY = 64


class Inverse(Protocol):
    """A symmetric positive operator: a diagonal minus a correction (usually low-rank).

    Solvers apply the diagonal, which is most of the work, in their loops.
    """

    @property
    def diagonal(self) -> Vector:
        """The diagonal part, (n_columns,)."""

    def coefficients(self, residual: Vector) -> Vector:
        """Return the input of :meth:`subtract` for a residual (n_columns, K)."""

    def energy(self, coefficients: Vector) -> Vector:
        """Return the correction of ``residual' inverse residual``, (K,)."""

    def subtract(self, coefficients: Vector, direction: Vector) -> None:
        """Subtract the correction of ``inverse residual`` from ``direction``."""


class Preconditioner(ABC):
    """Base class of the approximations of a problem's inverse Hessian."""

    def __post_init__(self) -> None:
        check_options(self)

    @abstractmethod
    def inverse(self, problem: Problem) -> Inverse:
        """Return the approximate inverse for a problem."""

    def with_shared_sample(self, matrix: FeatureMatrix) -> Preconditioner:
        """Return a preconditioner that uses one sample for all problems on the matrix."""
        return self


def energy(
    inverse: Inverse,
    residual: Vector,
    coefficients: Vector | None = None,
    n_jobs: int | None = None,
) -> Vector:
    """Return ``residual' inverse residual`` of each output, (K,), at least 0.

    ``coefficients`` are those of the residual, which are computed if they are not given.
    """
    if coefficients is None:
        coefficients = inverse.coefficients(residual)
    if isinstance(inverse, SampledInverse):
        # The diagonal is the same number for all columns.
        diagonal_part = weighted_inner(None, residual, residual, n_jobs) / inverse.mu
    else:
        diagonal_part = weighted_inner(inverse.diagonal, residual, residual, n_jobs)
    return np.maximum(diagonal_part - inverse.energy(coefficients), 0.0)


@dataclass(frozen=True)
class DiagonalInverse:
    diagonal: Vector

    def coefficients(self, residual: Vector) -> Vector:
        return np.empty((0, residual.shape[1]))

    def energy(self, coefficients: Vector) -> Vector:
        return np.zeros(coefficients.shape[1])

    def subtract(self, coefficients: Vector, direction: Vector) -> None:
        pass


@dataclass(frozen=True)
class SampledInverse:
    """The inverse of ``mu I + V' V`` with ``V = diag(roots) Z_m`` of m sampled rows.

    It is ``(I - V' (mu I + V V')^-1 V) / mu``. ``factor`` is the lower Cholesky factor of
    ``mu I + V V'``, and ``chosen`` holds the indices of the m rows.
    """

    mu: float
    rows: FeatureMatrix
    chosen: NDArray[np.intp]
    roots: FloatArray
    factor: FloatArray

    @cached_property
    def diagonal(self) -> Vector:
        return np.full(self.rows.shape[1], 1.0 / self.mu)

    def coefficients(self, residual: Vector) -> Vector:
        """Return ``(mu I + V V')^-1 V residual`` and ``V residual``."""
        return self.coefficients_of(matvec(self.rows, residual))

    def coefficients_of(self, responses: Vector) -> Vector:
        """Return the coefficients, given the responses of the rows to the residual, (m, K)."""
        responses = responses * self.roots[:, None]
        with one_blas_thread():
            shares = cholesky_solve(self.factor, responses)
        return np.stack([shares, responses])

    def energy(self, coefficients: Vector) -> Vector:
        """Return ``residual' V' (mu I + V V')^-1 V residual / mu``."""
        shares, responses = coefficients
        return np.einsum("mk,mk->k", shares, responses) / self.mu

    def subtract(self, coefficients: Vector, direction: Vector) -> None:
        add_rmatvec(self.rows, -self.row_coefficients(coefficients), direction)

    def row_coefficients(self, coefficients: Vector) -> Vector:
        return np.asarray(coefficients[0] * (self.roots[:, None] / self.mu))


@dataclass(frozen=True)
class FactorInverse:
    factor: BorderedFactor

    @cached_property
    def diagonal(self) -> Vector:
        # The whole operator is in the subtracted part.
        return np.zeros(self.factor.size)

    def coefficients(self, residual: Vector) -> Vector:
        return np.stack([residual, self.factor.solve(residual)])

    def energy(self, coefficients: Vector) -> Vector:
        residual, solution = coefficients
        return -np.einsum("dk,dk->k", residual, solution)

    def subtract(self, coefficients: Vector, direction: Vector) -> None:
        direction += coefficients[1]


@dataclass(frozen=True)
class Identity(Preconditioner, Stateful):
    """The identity matrix, for plain conjugate gradients.

    These are the conjugate gradients of RB16: Wu, Yen, Chen and Yan, *Revisiting random binning
    features*, KDD 2016.

    Examples
    --------
    >>> from gramless.solvers import ConjugateGradient
    >>> ConjugateGradient(preconditioner=Identity()).preconditioner
    Identity()
    """

    def inverse(self, problem: Problem) -> DiagonalInverse:
        return DiagonalInverse(np.ones(problem.matrix.shape[1]))


@dataclass(frozen=True)
class SampledRows(Preconditioner, Stateful):
    """The inverse of the Hessian of a random sample of m rows.

    ``M = Z_m' S_m Z_m + mu I`` shares the large eigenvalues of the Hessian. Because m rows
    cannot distinguish eigenvalues below about 1/m from zero, ``mu`` is 0.4/m times the mean
    squared norm of a row, or alpha if that is larger. By the Woodbury identity,
    ``M^-1 = (I - Z_m' C Z_m) / mu`` with an m x m matrix C. If all rows are sampled, 0.4/m is
    replaced by 1e-9, and M is the Hessian itself unless alpha is smaller.

    Parameters
    ----------
    n_rows : int, optional
        Size of the sample. By default, 5 times the square root of the number of rows, at
        least 256 and at most 2,048; less, down to 64, if the user's memory budget is too small.

    Notes
    -----
    The factorisation takes m^2 * (n_grids / 16 + m / 3) operations, an iteration
    m^2 + m * n_grids. The memory is 16 m^2 bytes, at most 67 MB by default.

    Examples
    --------
    >>> from gramless.solvers import ConjugateGradient
    >>> ConjugateGradient(preconditioner=SampledRows()).preconditioner
    SampledRows(n_rows=None)
    """

    n_rows: int | None = None

    def inverse(self, problem: Problem) -> SampledInverse:
        return self.draw(problem.matrix, problem.row_weights).inverse(problem)

    def with_shared_sample(self, matrix: FeatureMatrix) -> RowSample:
        return self.draw(matrix, np.ones(matrix.shape[0]))

    def draw(self, matrix: FeatureMatrix, row_weights: FloatArray) -> RowSample:
        """Return the preconditioner with a sample of the rows of non-zero weight."""
        candidates = np.flatnonzero(row_weights)
        n_wanted = self.n_rows
        if n_wanted is None:
            n_wanted = default_sample_size(len(candidates))
            if user_memory_limit() is not None:
                # A sample takes at most half of the user's budget: the maximum number m of rows is
                # the positive root of 16 m^2 + per_row m = budget / 2.
                per_row = _BYTES_PER_NUMBER * matrix.shape[1] if matrix.has_column_gram else 0
                half = per_row / (2 * _BYTES_PER_PAIR)
                max_rows = np.sqrt(half**2 + 0.5 * large_array_budget() / _BYTES_PER_PAIR) - half
                n_wanted = min(n_wanted, max(_MIN_ROWS_IN_LITTLE_MEMORY, int(max_rows)))
        chosen = candidates[sampled_row_indices(len(candidates), n_wanted)]
        is_complete = len(chosen) == len(candidates)
        # With many rows, these arrays take more memory than the products.
        del candidates, row_weights
        rows = matrix.take_rows(chosen)
        return RowSample(self, chosen, rows, rows.row_gram(), is_complete)


@dataclass(frozen=True)
class RowSample(Preconditioner):
    """A sample of rows for several problems over one matrix, see :class:`SampledRows`.

    It keeps the ``products`` of the rows with each other, which are half of the work. A
    ``complete`` sample holds all rows. A problem in which a sampled row has weight 0 gets a new
    sample.
    """

    options: SampledRows
    chosen: NDArray[np.intp] = field(repr=False)
    rows: FeatureMatrix
    products: FloatArray = field(repr=False)
    complete: bool
    _last: dict[float, SampledInverse] = field(default_factory=dict, repr=False)

    def inverse(self, problem: Problem) -> SampledInverse:
        """Return the inverse for the row weights of a problem; the last one is cached."""
        weights = problem.row_weights[self.chosen]
        if not weights.all():
            return self.options.inverse(problem)
        roots = np.sqrt(weights / weights.sum())
        share = _ALL_ROWS_RESOLUTION if self.complete else resolution(len(roots))
        trace = float(self.products.diagonal() @ roots**2)
        # If all sampled rows and the penalty are 0, any positive number does.
        mu = max(problem.penalty.l2, share * trace) or 1.0
        last = self._last.get(mu)
        if last is None or not np.array_equal(last.roots, roots):
            gram = self.products * roots
            gram *= roots[:, None]
            gram[np.diag_indices_from(gram)] += mu
            # The transpose has Fortran order, so LAPACK works in place.
            with one_blas_thread():
                factor, _ = scipy.linalg.lapack.dpotrf(gram.T, lower=1, overwrite_a=1)
            last = SampledInverse(mu, self.rows, self.chosen, roots, factor)
            # Only one factor is kept, because each takes 8 m^2 bytes.
            self._last.clear()
            self._last[mu] = last
        return last


def sampled_row_indices(n_rows: int, n_wanted: int) -> NDArray[np.intp]:
    """Return the sorted indices of a sample of rows, which is the same on each call.

    They are the indices of all rows if no fewer are wanted.

    Examples
    --------
    >>> sampled_row_indices(3, 5)
    array([0, 1, 2])
    """
    if n_wanted >= n_rows:
        return np.arange(n_rows)
    generator = stream(0, "sampled rows")
    return np.sort(generator.choice(n_rows, n_wanted, replace=False, shuffle=False))


def resolution(n_rows: int) -> float:
    """Return the smallest eigenvalue that n rows can resolve, relative to the trace."""
    return _RESOLUTION / n_rows


def default_sample_size(n_rows: int) -> int:
    return int(np.clip(_ROWS_PER_ROOT * np.sqrt(n_rows), _MIN_ROWS, _MAX_ROWS))
