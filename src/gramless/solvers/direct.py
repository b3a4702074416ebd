"""Direct ridge regression by a factorisation of the Gram matrix of the columns or rows."""

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
from gramless.solvers.factor import BorderedFactor, is_singular
from gramless.solvers.objective import (
    Callback,
    Problem,
    Solution,
    columns,
    free_part,
    last_columns,
)
from gramless.solvers.preconditioners import FactorInverse
from gramless.solvers.vectors import matvec, rmatvec

# Up to the first relative residual, refinement is skipped; up to the second, the solve converged.
_SKIP_TOL, _CONVERGED_TOL = 1e-9, 1e-6
# Tolerance of refinement: the gradient in the norm of the factor, relative to that at zero.
_REFINEMENT_TOL = 1e-9
_COLUMNS_PER_BLOCK = 64
# Bytes that a Gram matrix and its factor take together, per number of the matrix.
BYTES_PER_NUMBER = 16
_REMEDY = "use ConjugateGradient"


_SMALL_GRAM = MatrixNeed(
    "a matrix with a column_gram, or fewer rows than columns",
    lambda matrix: matrix.has_column_gram or matrix.shape[0] < matrix.shape[1],
    "Use ConjugateGradient, solver='pcg'.",
)


@dataclass(frozen=True)
class Cholesky(Solver):
    """Ridge regression by a Cholesky factorisation of ``Z' S Z + alpha I`` (RB16, equation 8).

    With fewer rows than columns, ``S^1/2 Z Z' S^1/2 + alpha I`` is factorised instead; the
    solution is the same. Systems that are singular up to rounding are solved by their eigenvectors;
    with ``alpha`` 0 the weights are those of least norm. Refinement by products with the matrix
    itself corrects Gram matrices summed in single precision.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads for the vector work of refinement. Results do not depend on it.
    max_refinements : int, default=50
        Maximum number of refinement steps, if there are at least as many rows as columns.
        Otherwise there is at most one.

    Notes
    -----
    With ``n = min(n_rows, n_columns)``, the Gram matrix takes ``n_rows * n_columns * n``
    operations, the factorisation ``n^3 / 3``, and both ``16 n^2`` bytes. Each output adds only
    products with the matrix and the factor.

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
        state at zero weights and at the end. Status ``"stalled"`` means that alpha is too small for
        the precision of the Gram matrix and of the refinement.
        """
        self.check_problem(problem)
        prepared = self.prepare(problem.matrix, problem.row_weights)
        return prepared.solve(problem, start, callback)

    def prepare(self, matrix: FeatureMatrix, row_weights: FloatArray) -> PreparedCholesky:
        """Return a solver of problems over one matrix and row weights, with any alpha and targets.

        The Gram matrix is computed once and kept. The row weights are divided by their sum.
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
        at_zero = self.gram.point(problem, zeros)
        scale = at_zero.norms
        best = self.gram.point(problem, factor.solve(at_zero.residual))
        history = [point.record(problem, scale) for point in (at_zero, best)]
        if history[-1]["residual"] > _SKIP_TOL:
            refined = self.gram.refine(problem, best, factor, self.options)
            record = refined.record(problem, scale)
            if record["objective"] < history[-1]["objective"]:
                best, history[-1] = refined, record
        weights = best.weights.reshape(problem.weights_shape)
        status = "converged" if history[-1]["residual"] <= _CONVERGED_TOL else "stalled"
        if callback is not None and callback(1, weights):
            status = "stopped"
        return Solution(weights, status, 1, history)


@dataclass(frozen=True)
class Point:
    """Unknowns and residuals of a system, (n_unknowns, K), and the state of the problem there.

    ``weights`` and ``descent``, the negative gradient of the objective, are (n_columns, K).
    ``errors``, the targets minus the responses, are (n_rows, K).
    """

    unknowns: Vector
    residual: Vector
    weights: Vector
    descent: Vector
    errors: Vector

    @property
    def norms(self) -> FloatArray:
        return np.sqrt(np.einsum("dk,dk->k", self.descent, self.descent))

    def record(self, problem: Problem, scale: FloatArray) -> dict[str, float]:
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
        """Return the factorised system for a penalty."""

    def point(self, problem: Problem, unknowns: Vector) -> Point:
        """Return the state at some unknowns, by a matvec unless they are 0, and an rmatvec."""
        descent, errors = _descent_and_errors(problem, unknowns)
        return Point(unknowns, descent, unknowns, descent, errors)

    def refine(
        self, problem: Problem, point: Point, factor: BorderedFactor, options: Cholesky
    ) -> Point:
        """Return a point with a smaller residual, by products with the matrix itself.

        This runs conjugate gradients, preconditioned by the factor. One or two steps suffice if
        alpha is far above the rounding of the Gram matrix.
        """
        system, inverse = System.from_problem(problem), FactorInverse(factor)
        runs = ConjugateRuns(system, inverse, _REFINEMENT_TOL, options.n_jobs, point.weights)
        runs.run(options.max_refinements)
        return self.point(problem, runs.weights)


@dataclass(frozen=True)
class ColumnGram(Gram):
    matrix: FeatureMatrix
    row_weights: FloatArray
    gram: FloatArray

    @classmethod
    def of(cls, matrix: FeatureMatrix, row_weights: FloatArray) -> ColumnGram:
        check_gram_memory(matrix.shape[1], "columns", "Cholesky", _REMEDY)
        return cls(matrix, row_weights, matrix.column_gram(row_weights))

    def factor(self, penalty: Penalty) -> BorderedFactor:
        n, gram = len(self.gram), self.gram
        ridge = penalty.diagonal(np.empty(n))
        if not ridge.any() and is_singular(gram):
            # In single precision, linearly dependent columns may look independent, because BLAS
            # need not sum equal columns in the same order: sum in double precision.
            weights, gram = self.row_weights[:, None], np.empty((n, n))
            for start, stop in row_blocks(n, _COLUMNS_PER_BLOCK):
                block = matvec(self.matrix, np.eye(n, stop - start, -start))
                gram[:, start:stop] = rmatvec(self.matrix, weights * block)
            # Products are symmetric only up to rounding.
            gram = 0.5 * (gram + gram.T)
        return BorderedFactor(gram, ridge, np.empty((n, 0)), np.empty((0, 0)))


@dataclass(frozen=True)
class RowGram(Gram):
    """The Gram matrix ``S^1/2 Z Z' S^1/2``, (n_rows, n_rows).

    The penalised weights are ``Z' S^1/2 a`` with an unknown for each row, ``a = S^1/2 error /
    alpha``. The free weights are additional unknowns. Without a penalty, all weights are of the
    first kind, and the solution is that of least norm.
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
        """Return the factor for the penalised columns, bordered by the free ones."""
        n, n_free = len(self.roots), penalty.n_free if penalty.l2 > 0.0 else 0
        free = self.roots[:, None] * last_columns(self.matrix, n_free)
        with one_blas_thread():
            penalised = self.gram - free @ free.T if n_free else self.gram
        ridge, corner = np.full(n, penalty.l2), np.zeros((n_free, n_free))
        return BorderedFactor(penalised, ridge, free, corner)

    def point(self, problem: Problem, unknowns: Vector) -> Point:
        n, roots = len(self.roots), self.roots[:, None]
        of_rows, free = unknowns[:n], unknowns[n:]
        weights = rmatvec(self.matrix, roots * of_rows)
        free_weights = free_part(weights, len(free))
        free_residual = -free_weights
        free_weights[:] = free
        descent, errors = _descent_and_errors(problem, weights)
        row_residual = roots * errors - problem.penalty.l2 * of_rows
        residual = np.concatenate([row_residual, free_residual])
        return Point(unknowns, residual, weights, descent, errors)

    def refine(
        self, problem: Problem, point: Point, factor: BorderedFactor, options: Cholesky
    ) -> Point:
        # One step of iterative refinement.
        return self.point(problem, point.unknowns + factor.solve(point.residual))


def _descent_and_errors(problem: Problem, weights: Vector) -> tuple[Vector, Vector]:
    errors = columns(problem.targets).astype(float)
    if weights.any():
        errors -= matvec(problem.matrix, weights)
    descent = rmatvec(problem.matrix, problem.row_weights[:, None] * errors)
    descent -= problem.penalty.gradient(weights)
    return descent, errors


def check_gram_memory(size: int, what: str, who: str, remedy: str) -> None:
    """Raise InputError if a Gram matrix of ``size`` rows and its factor do not fit into memory.

    ``what`` are its rows, and ``who`` is the solver, in the message.
    """
    subject = f"{who}: the Gram matrix of {size:,} {what} and its factor"
    check_memory(subject, BYTES_PER_NUMBER * size**2, remedy)
