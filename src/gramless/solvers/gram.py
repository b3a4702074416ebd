"""Gram matrices of columns, of rows and of diagonal blocks: what a direct solution factorises."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.memory import memory_budget
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.matrices.abilities import SupportsColumnGram, SupportsDiagonalBlocks
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.stacked import WithIntercept
from gramless.penalties import Penalty
from gramless.solvers.conjugate import ConjugateRuns, RowCurvature, System, matvec, rmatvec
from gramless.solvers.factor import BorderedFactor, FactorInverse, is_singular
from gramless.solvers.objective import Problem, columns

_BLOCKS_AT_ONCE = 16
_COLUMNS_AT_ONCE = 64
_TOL, _MOST_STEPS = 1e-9, 50
"""Of the gradient in the factor's norm, relative to that at zero, and steps to get there."""

BYTES_A_NUMBER = 16
"""The Gram matrix and its factor."""

_REMEDY = "Use ConjugateGradient."

DiagonalBlock = tuple[Any, slice, NDArray[Any]]
"""Rows, columns, and the numbers there; all others in these rows are zero."""


@dataclass(frozen=True)
class Point:
    """Unknowns of a system, (n_unknowns, K), with what it takes to improve and judge them.

    Attributes
    ----------
    unknowns, residual : array (n_unknowns, K)
        The residual is the right-hand sides less what the unknowns give.
    weights, gradient : array (n_columns, K)
        The weights that the unknowns stand for, and the objective's gradient there.
    errors : array (n_rows, K)
        Targets less responses.
    """

    unknowns: Vector
    residual: Vector
    weights: Vector
    gradient: Vector
    errors: Vector


class Gram(Protocol):
    """The equations of all ridge problems over one matrix and its row weights."""

    def factor(self, penalty: Penalty, n_jobs: int | None) -> BorderedFactor:
        """Return their matrix with a penalty, factorised."""

    def start(self, problem: Problem) -> Point:
        """Return the point of zero weights."""

    def moved(self, problem: Problem, point: Point, step: Vector) -> Point:
        """Return the point whose unknowns are a step further."""

    def polished(
        self, problem: Problem, point: Point, factor: BorderedFactor, n_jobs: int | None
    ) -> Point:
        """Return a better point than that of the factor, which is rounded, by products."""


class _Primal:
    """The unknowns are the weights; the residual is the negative gradient."""

    def start(self, problem: Problem) -> Point:
        """Return the point of zero weights."""
        zeros = np.zeros((problem.matrix.shape[1], columns(problem.targets).shape[1]))
        return _at_weights(problem, zeros)

    def moved(self, problem: Problem, point: Point, step: Vector) -> Point:
        """Return the point whose weights are a step further."""
        return _at_weights(problem, point.weights + step)

    def polished(
        self, problem: Problem, point: Point, factor: BorderedFactor, n_jobs: int | None
    ) -> Point:
        """Go on by conjugate gradients, preconditioned by the factor.

        One step or two where alpha is far above the rounding of a Gram matrix in single
        precision, more where it is not.
        """
        row_weights, weights = problem.row_weights[:, None], point.weights
        right = rmatvec(problem.matrix, row_weights * columns(problem.targets))
        ridge = problem.penalty.diagonal(weights[:, 0])
        system = System(problem.matrix, RowCurvature(row_weights), ridge, right)
        inverse = FactorInverse.of(factor, len(weights))
        runs = ConjugateRuns(system, inverse, _TOL, n_jobs, weights)
        for _ in range(_MOST_STEPS):
            if runs.drop_converged():
                break
            runs.step()
        return _at_weights(problem, runs.result())


@dataclass(frozen=True)
class ColumnGram(_Primal):
    """``Z' S Z``, (n_columns, n_columns)."""

    matrix: FeatureMatrix
    row_weights: NDArray[np.float64]
    gram: NDArray[np.float64]

    @classmethod
    def of(cls, matrix: SupportsColumnGram, row_weights: NDArray[np.float64]) -> ColumnGram:
        """Sum it up over the rows."""
        check_memory(matrix.shape[1], "columns", "Cholesky", _REMEDY)
        return cls(matrix, row_weights, matrix.column_gram(row_weights))

    def factor(self, penalty: Penalty, n_jobs: int | None) -> BorderedFactor:
        """Return ``Z' S Z + ridge`` factorised."""
        ridge = penalty.diagonal(np.empty(len(self.gram)))
        precise = not ridge.any() and is_singular(self.gram)
        whole = [(slice(0, len(self.gram)), self._by_products() if precise else self.gram)]
        nothing = np.empty((len(self.gram), 0))
        return BorderedFactor.of(whole, ridge, nothing, np.empty((0, 0)), n_jobs)

    def _by_products(self) -> NDArray[np.float64]:
        """Return ``Z' S Z`` summed in double precision.

        Columns that depend on each other do not in a Gram matrix of single precision, in which
        BLAS need not sum equal columns in the same order.
        """
        n, weights = len(self.gram), self.row_weights[:, None]
        gram = np.empty((n, n))
        for start, stop in row_blocks(n, _COLUMNS_AT_ONCE):
            chosen = np.eye(n, stop - start, -start)
            gram[:, start:stop] = rmatvec(self.matrix, weights * matvec(self.matrix, chosen))
        return 0.5 * (gram + gram.T)


@dataclass(frozen=True)
class RowGram:
    """``S^1/2 Z Z' S^1/2``, (n_rows, n_rows).

    The penalised weights are ``Z' S^1/2 a`` of unknowns ``a``, one a row, which are
    ``S^1/2`` times the errors over alpha; the free weights are unknowns of their own.
    Without a penalty all weights are of the first kind, and of least norm.
    """

    matrix: FeatureMatrix
    roots: NDArray[np.float64]
    gram: NDArray[np.float64]

    @classmethod
    def of(cls, matrix: FeatureMatrix, row_weights: NDArray[np.float64]) -> RowGram:
        """Multiply the rows with each other."""
        check_memory(matrix.shape[0], "rows", "Cholesky", _REMEDY)
        gram, roots = matrix.row_gram(), np.sqrt(row_weights)
        gram *= roots
        gram *= roots[:, None]
        return cls(matrix, roots, gram)

    def factor(self, penalty: Penalty, n_jobs: int | None) -> BorderedFactor:
        """Return ``S^1/2 Z Z' S^1/2 + alpha`` of the penalised columns, bordered by the free."""
        n, n_free = len(self.roots), _n_free(penalty)
        free = self.roots[:, None] * last_columns(self.matrix, n_free)
        with one_blas_thread():
            penalised = self.gram - free @ free.T if n_free else self.gram
        ridge, corner = np.full(n, penalty.l2), np.zeros((n_free, n_free))
        return BorderedFactor.of([(slice(0, n), penalised)], ridge, free, corner, n_jobs)

    def start(self, problem: Problem) -> Point:
        """Return the point of zero weights."""
        n_unknowns = len(self.roots) + _n_free(problem.penalty)
        zeros = np.zeros((n_unknowns, columns(problem.targets).shape[1]))
        return self._at(problem, zeros)

    def moved(self, problem: Problem, point: Point, step: Vector) -> Point:
        """Return the point whose unknowns are a step further."""
        return self._at(problem, point.unknowns + step)

    def polished(
        self, problem: Problem, point: Point, factor: BorderedFactor, n_jobs: int | None
    ) -> Point:
        """Solve for what is left, once."""
        return self.moved(problem, point, factor.solve(point.residual))

    def _at(self, problem: Problem, unknowns: Vector) -> Point:
        n, roots = len(self.roots), self.roots[:, None]
        own, free = unknowns[:n], unknowns[n:]
        weights = rmatvec(self.matrix, roots * own)
        first_free = len(weights) - len(free)
        left = -weights[first_free:]
        weights[first_free:] = free
        here = _at_weights(problem, weights)
        residual = np.concatenate([roots * here.errors - problem.penalty.l2 * own, left])
        return Point(unknowns, residual, weights, here.gradient, here.errors)


@dataclass(frozen=True)
class BlockGrams(_Primal):
    """``Z' S Z`` of a matrix with diagonal blocks and a few columns that all rows share.

    ``cross`` and ``corner`` are the products of the columns in blocks, and of the
    shared ones, with the shared ones.
    """

    grams: list[tuple[slice, NDArray[np.float64]]]
    cross: NDArray[np.float64]
    corner: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        matrix: FeatureMatrix,
        inner: SupportsDiagonalBlocks,
        row_weights: NDArray[np.float64],
        n_jobs: int | None,
    ) -> BlockGrams:
        """Multiply each block of ``inner`` with itself, which is ``matrix`` but for its ones."""
        n_shared = matrix.shape[1] - inner.shape[1]
        roots = np.sqrt(row_weights)
        blocks = (own for own in inner.diagonal_blocks() if own[2].shape[1] > 0)

        def square(rows: Any, own: slice, block: NDArray[Any]) -> tuple[slice, NDArray[np.float64]]:
            weighted = roots[rows, None] * block
            return own, weighted.T @ weighted

        grams: list[tuple[slice, NDArray[np.float64]]] = []
        while some := list(islice(blocks, _BLOCKS_AT_ONCE)):
            with one_blas_thread():
                grams.extend(map_blocks(square, some, n_jobs))
        n = matrix.shape[1] - n_shared
        shared = row_weights[:, None] * last_columns(matrix, n_shared)
        products = rmatvec(matrix, shared) if n_shared else np.empty((n, 0))
        return cls(grams, products[:n], products[n:])

    def factor(self, penalty: Penalty, n_jobs: int | None) -> BorderedFactor:
        """Return the blocks factorised, and the shared columns eliminated."""
        n, n_shared = self.cross.shape
        ridge = penalty.diagonal(np.empty(n + n_shared))
        corner = self.corner + np.diag(ridge[n:])
        return BorderedFactor.of(self.grams, ridge[:n], self.cross, corner, n_jobs)


def gram_of(
    matrix: FeatureMatrix, row_weights: NDArray[np.float64], n_jobs: int | None = None
) -> Gram:
    """Return the smallest Gram matrix that serves ridge problems over a matrix.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
    row_weights : array (n_rows,)
        Summing to 1.
    n_jobs : int or None, default=None
        Threads over diagonal blocks.

    Returns
    -------
    Gram
        Of the diagonal blocks where there are any, else of the rows or of the columns,
        whichever are fewer.
    """
    inner, _ = without_ones(matrix)
    if isinstance(inner, SupportsDiagonalBlocks):
        return BlockGrams.of(matrix, inner, row_weights, n_jobs)
    if matrix.shape[0] >= matrix.shape[1] and isinstance(matrix, SupportsColumnGram):
        return ColumnGram.of(matrix, row_weights)
    return RowGram.of(matrix, row_weights)


def has_diagonal_blocks(matrix: FeatureMatrix) -> bool:
    """Tell whether a matrix is block-diagonal, a last column of ones aside."""
    return isinstance(without_ones(matrix)[0], SupportsDiagonalBlocks)


def without_ones(matrix: FeatureMatrix) -> tuple[FeatureMatrix, int]:
    """Return the matrix without a last column of ones, and how many columns that leaves out."""
    return (matrix.matrix, 1) if isinstance(matrix, WithIntercept) else (matrix, 0)


def _at_weights(problem: Problem, weights: Vector) -> Point:
    """Look at a problem at weights: a matvec unless they are zero, and an rmatvec."""
    errors = columns(problem.targets).astype(float)
    if weights.any():
        errors -= matvec(problem.matrix, weights)
    falling = rmatvec(problem.matrix, problem.row_weights[:, None] * errors)
    falling -= problem.penalty.gradient(weights)
    return Point(weights, falling, weights, -falling, errors)


def _n_free(penalty: Penalty) -> int:
    return penalty.n_free if penalty.l2 > 0.0 else 0


def last_columns(matrix: FeatureMatrix, n: int) -> NDArray[np.float64]:
    """Return the last columns of a matrix, (n_rows, n)."""
    n_rows, n_columns = matrix.shape
    if n == 0:
        return np.empty((n_rows, 0))
    if n == without_ones(matrix)[1]:
        return np.ones((n_rows, 1))
    return matvec(matrix, np.eye(n_columns, n, n - n_columns))


def check_memory(size: int, what: str, who: str, remedy: str) -> None:
    """Raise ``InputError`` unless a Gram matrix and its factor fit into memory."""
    needed, budget = BYTES_A_NUMBER * size**2, memory_budget()
    if needed > budget:
        raise InputError(
            f"{who}: the Gram matrix of {size:,} {what} and its factor need "
            f"{needed / 1e9:.1f} GB, and {budget / 1e9:.1f} GB may be used. {remedy}"
        )
