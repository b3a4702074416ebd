"""Direct ridge regression: factorise the Gram matrix of the columns or of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from gramless.base.arrays import weighted_sums
from gramless.base.errors import InputError
from gramless.base.memory import check_memory
from gramless.base.threads import one_blas_thread, row_blocks
from gramless.base.types import FloatArray
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.penalties import Penalty
from gramless.solvers.base import RIDGE, Capabilities, MatrixNeed, Solver
from gramless.solvers.cg import ConjugateRuns, System
from gramless.solvers.factor import BorderedFactor, FactorInverse, is_singular
from gramless.solvers.intercept import free_part, last_columns
from gramless.solvers.objective import Callback, Problem, Solution, columns
from gramless.solvers.vectors import matvec, rmatvec

_PRECISE, _GOOD = 1e-9, 1e-6
"""Relative residuals: below the first refinement is skipped, below the second is convergence."""


_SMALL_GRAM = MatrixNeed(
    "a matrix with a column_gram, or fewer rows than columns",
    lambda matrix: direct_is_possible(matrix) or matrix.shape[0] < matrix.shape[1],
    "Use ConjugateGradient, solver='pcg'.",
)


@dataclass(frozen=True)
class Cholesky(Solver):
    """Ridge regression by a Cholesky factorisation of ``Z' S Z + alpha I`` (RB16, equation 8).

    With fewer rows than columns, ``S^1/2 Z Z' S^1/2 + alpha I`` is factorised instead, for the
    same solution. Systems that are singular up to rounding are solved by their eigenvectors; with
    ``alpha`` 0 the weights are those of least norm. Refinement with products of the matrix itself
    makes up for Gram matrices summed in single precision.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads for the vector work of refinement. Results do not depend on it.
    max_refinements : int, default=50
        Steps of refinement at most, where the unknowns are the weights.

    Notes
    -----
    n_rows * n_columns * min(n_rows, n_columns) operations for the Gram matrix, a third of
    the smaller number's cube for the factorisation, and 16 bytes times its square.
    Outputs cost no more than the products with them.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless.matrices.dense import DenseMatrix
    >>> from gramless.penalties import L2
    >>> Z = DenseMatrix(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> problem = Problem(Z, np.array([1.0, 2.0, 6.0]), L2(1.0))
    >>> Cholesky().solve(problem).weights.round(6)
    array([0.6, 1.5])
    """

    n_jobs: int | None = None
    max_refinements: int = 50
    capabilities: ClassVar[Capabilities] = replace(RIDGE, matrix=_SMALL_GRAM)

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise a squared-loss problem, see :meth:`Solver.solve`.

        ``start`` is ignored, and the callback is called once, at the end. The history holds the
        state at zero weights and at the end. Status ``"stalled"`` means that the precision of the
        Gram matrix, and of the steps that follow, is not enough for so small an alpha.
        """
        self.check_problem(problem)
        prepared = self.prepared(problem.matrix, problem.row_weights)
        return prepared.solve(problem, start, callback)

    def prepared(self, matrix: FeatureMatrix, row_weights: FloatArray) -> PreparedCholesky:
        """Return a solver for any alpha and targets over one matrix, whose Gram matrix it keeps.

        Row weights are divided by their sum.
        """
        self.capabilities.check_matrix(matrix, "Cholesky")
        weights = row_weights / row_weights.sum()
        gram: Gram
        if matrix.shape[0] >= matrix.shape[1] and matrix.has_column_gram:
            gram = ColumnGram.of(matrix, weights)
        else:
            gram = RowGram.of(matrix, weights)
        return PreparedCholesky(matrix, weights, gram, self)


@dataclass(frozen=True)
class PreparedCholesky(Solver):
    """Solves ridge problems over one matrix and row weights, see :meth:`Cholesky.prepared`."""

    matrix: FeatureMatrix = field(repr=False)
    row_weights: FloatArray = field(repr=False)
    gram: Gram = field(repr=False)
    options: Cholesky
    capabilities: ClassVar[Capabilities] = Cholesky.capabilities

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        self.check_problem(problem)
        if problem.matrix is not self.matrix or not np.allclose(
            problem.row_weights, self.row_weights, rtol=1e-9, atol=0.0
        ):
            raise InputError(
                "PreparedCholesky solves problems over the matrix and the row weights that it was "
                "prepared for; prepare another for these."
            )
        factor = self.gram.factor(problem.penalty)
        zeros = np.zeros((factor.size, columns(problem.targets).shape[1]))
        at_zero = self.gram.at(problem, zeros)
        found, scale = self.gram.at(problem, factor.solve(at_zero.residual)), at_zero.norms
        history = [point.record(problem, scale) for point in (at_zero, found)]
        if history[-1]["residual"] > _PRECISE:
            polished = self.gram.polished(problem, found, factor, self.options)
            record = polished.record(problem, scale)
            if record["objective"] < history[-1]["objective"]:
                found, history[-1] = polished, record
        weights = found.weights.reshape(problem.weights_shape)
        status = "converged" if history[-1]["residual"] <= _GOOD else "stalled"
        if callback is not None and callback(1, weights):
            status = "stopped"
        return Solution(weights, status, 1, history)


_COLUMNS_AT_ONCE = 64
_TOL = 1e-9
"""Of refinement: the gradient in the factor's norm, relative to that at zero."""

BYTES_A_NUMBER = 16
"""Of a Gram matrix with its factor."""

_REMEDY = "use ConjugateGradient"


@dataclass(frozen=True)
class Point:
    """Unknowns and residuals of a system (n_unknowns, K), and the state of the problem there.

    The weights and ``downhill``, minus the gradient of the objective, are (n_columns, K); the
    errors, targets minus responses, are (n_rows, K).
    """

    unknowns: Vector
    residual: Vector
    weights: Vector
    downhill: Vector
    errors: Vector

    @property
    def norms(self) -> FloatArray:
        """The norm of each output's gradient."""
        return np.sqrt(np.einsum("dk,dk->k", self.downhill, self.downhill))

    def record(self, problem: Problem, scale: FloatArray) -> dict[str, float]:
        """Return the entry of the history, given the norms at zero weights."""
        losses, norms = 0.5 * weighted_sums(problem.row_weights, self.errors**2).sum(), self.norms
        relative = np.divide(norms, scale, out=norms, where=scale > 0)
        objective = float(losses) + problem.penalty.value(self.weights)
        return {"objective": objective, "residual": float(relative.max(initial=0.0))}


class Gram(ABC):
    """The linear systems of all ridge problems over one matrix and row weights.

    By default the unknowns are the weights, and the residual is the negative gradient.
    """

    @abstractmethod
    def factor(self, penalty: Penalty) -> BorderedFactor:
        """Factorise the system of a penalty."""

    def at(self, problem: Problem, unknowns: Vector) -> Point:
        """Return the point of some unknowns: a matvec unless they are zero, and an rmatvec."""
        downhill, errors = _descent(problem, unknowns)
        return Point(unknowns, downhill, unknowns, downhill, errors)

    def polished(
        self, problem: Problem, point: Point, factor: BorderedFactor, options: Cholesky
    ) -> Point:
        """Refine a point, found with a rounded factor, by products with the matrix.

        Conjugate gradients, preconditioned by the factor: one or two steps suffice where alpha is
        far above the rounding of the Gram matrix.
        """
        system, inverse = System.of_squares(problem), FactorInverse(factor)
        runs = ConjugateRuns(system, inverse, _TOL, options.n_jobs, point.weights)
        runs.run(options.max_refinements)
        return self.at(problem, runs.weights)


@dataclass(frozen=True)
class ColumnGram(Gram):
    """``Z' S Z``, (n_columns, n_columns)."""

    matrix: FeatureMatrix
    row_weights: FloatArray
    gram: FloatArray

    @classmethod
    def of(cls, matrix: FeatureMatrix, row_weights: FloatArray) -> ColumnGram:
        check_gram_memory(matrix.shape[1], "columns", "Cholesky", _REMEDY)
        return cls(matrix, row_weights, matrix.column_gram(row_weights))

    def factor(self, penalty: Penalty) -> BorderedFactor:
        """Factorise ``Z' S Z + ridge``."""
        n, gram = len(self.gram), self.gram
        ridge = penalty.diagonal(np.empty(n))
        if not ridge.any() and is_singular(gram):
            gram = self._by_products()
        return BorderedFactor(gram, ridge, np.empty((n, 0)), np.empty((0, 0)))

    def _by_products(self) -> FloatArray:
        """Return ``Z' S Z`` in double precision.

        In single precision linearly dependent columns may look independent, since BLAS need not
        sum equal columns in the same order.
        """
        n, weights = self.matrix.shape[1], self.row_weights[:, None]
        gram = np.empty((n, n))
        for start, stop in row_blocks(n, _COLUMNS_AT_ONCE):
            chosen = np.eye(n, stop - start, -start)
            gram[:, start:stop] = rmatvec(self.matrix, weights * matvec(self.matrix, chosen))
        return 0.5 * (gram + gram.T)


@dataclass(frozen=True)
class RowGram(Gram):
    """``S^1/2 Z Z' S^1/2``, (n_rows, n_rows).

    The penalised weights are ``Z' S^1/2 a`` with an unknown ``a`` for each row, ``S^1/2`` times
    the error over alpha; free weights are unknowns of their own. Without a penalty all weights are
    of the first kind, and their norm is the least.
    """

    matrix: FeatureMatrix
    roots: FloatArray
    gram: FloatArray

    @classmethod
    def of(cls, matrix: FeatureMatrix, row_weights: FloatArray) -> RowGram:
        check_gram_memory(matrix.shape[0], "rows", "Cholesky", _REMEDY)
        gram, roots = matrix.row_gram(), np.sqrt(row_weights)
        gram *= roots
        gram *= roots[:, None]
        return cls(matrix, roots, gram)

    def factor(self, penalty: Penalty) -> BorderedFactor:
        """Factorise ``S^1/2 Z Z' S^1/2 + alpha I`` of penalised columns, bordered by free ones."""
        n, n_free = len(self.roots), penalty.n_free if penalty.l2 > 0.0 else 0
        free = self.roots[:, None] * last_columns(self.matrix, n_free)
        with one_blas_thread():
            penalised = self.gram - free @ free.T if n_free else self.gram
        ridge, corner = np.full(n, penalty.l2), np.zeros((n_free, n_free))
        return BorderedFactor(penalised, ridge, free, corner)

    def at(self, problem: Problem, unknowns: Vector) -> Point:
        n, roots = len(self.roots), self.roots[:, None]
        own, free = unknowns[:n], unknowns[n:]
        weights = rmatvec(self.matrix, roots * own)
        free_weights = free_part(weights, len(free))
        left = -free_weights
        free_weights[:] = free
        downhill, errors = _descent(problem, weights)
        residual = np.concatenate([roots * errors - problem.penalty.l2 * own, left])
        return Point(unknowns, residual, weights, downhill, errors)

    def polished(
        self, problem: Problem, point: Point, factor: BorderedFactor, options: Cholesky
    ) -> Point:
        """Solve once more, for the residual."""
        return self.at(problem, point.unknowns + factor.solve(point.residual))


def _descent(problem: Problem, weights: Vector) -> tuple[Vector, Vector]:
    """Return minus the gradient of the objective, and the errors of all rows."""
    errors = columns(problem.targets).astype(float)
    if weights.any():
        errors -= matvec(problem.matrix, weights)
    downhill = rmatvec(problem.matrix, problem.row_weights[:, None] * errors)
    downhill -= problem.penalty.gradient(weights)
    return downhill, errors


def check_gram_memory(size: int, what: str, who: str, remedy: str) -> None:
    """Raise ``InputError`` unless a Gram matrix and its factor fit into memory."""
    whole = f"{who}: the Gram matrix of {size:,} {what} and its factor"
    check_memory(whole, BYTES_A_NUMBER * size**2, remedy)


def direct_is_possible(matrix: FeatureMatrix) -> bool:
    """Tell whether a matrix has a Gram matrix of its columns."""
    return matrix.has_column_gram
