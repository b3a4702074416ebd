"""Conjugate gradients with one unknown per row, for matrices with more columns than rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import inner
from gramless.base.threads import one_blas_thread
from gramless.base.types import FloatArray
from gramless.matrices.base import Vector
from gramless.solvers.base import RIDGE, Capabilities, Solver
from gramless.solvers.cg import ConjugateRuns, RowCurvature, System
from gramless.solvers.objective import (
    Callback,
    Problem,
    Solution,
    columns,
    free_part,
    last_columns,
)
from gramless.solvers.preconditioners import DiagonalInverse
from gramless.solvers.vectors import matvec, rmatvec
from gramless.unsupervised.tall_arrays import svd


@dataclass(frozen=True)
class RowConjugateGradient(Solver):
    """Ridge regression, ``(P S^1/2 Z Z' S^1/2 P + alpha I) a = P S^1/2 y``, ``w = Z' S^1/2 a``.

    The solution is that of :class:`ConjugateGradient`, but there is one unknown per row instead of
    per column. Small random bins have many more columns than rows, so that most of the time of an
    iteration would be spent on vectors of column weights.

    Columns F without a penalty, such as the intercept, are eliminated: ``P`` projects onto the
    complement of ``S^1/2 F`` (Frisch and Waugh 1933), and their weights fit the residuals.

    Parameters
    ----------
    tol : float, default=1e-3
        An output has converged when the residual of these equations is at most ``tol`` times
        that at zero penalised weights.
    max_iter : int, default=200
        Maximum number of iterations.
    n_jobs : int or None, default=None
        Number of threads for vector operations. Results do not depend on it.

    Notes
    -----
    An iteration takes one rmatvec, one matvec, and 4 multiplications per row, output and free
    column. Memory per output is four vectors of length ``n_rows`` and one of ``n_columns``.

    Examples
    --------
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.penalties import L2
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> problem = Problem(Z, np.array([1.0, 2.0, 6.0]), L2(1.0))
    >>> RowConjugateGradient(tol=1e-9).solve(problem).weights.round(6)
    array([0.6, 1.5])
    """

    tol: float = 1e-3
    max_iter: int = 200
    n_jobs: int | None = None
    capabilities: ClassVar[Capabilities] = replace(RIDGE, requires_l2=True)

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise a squared-loss problem, see :meth:`Solver.solve`.

        ``start`` is ignored. Each callback takes one product. The history has one entry for zero
        penalised weights and one for the solution.
        """
        self.check_problem(problem)
        equations = _RowEquations(problem)
        identity = DiagonalInverse(np.ones(len(equations.right)))
        runs = ConjugateRuns(equations, identity, self.tol, self.n_jobs)
        at_zero = 0.5 * inner(equations.right, equations.right)
        history = [runs.record() | {"objective": at_zero}]
        iteration, stopped = 0, False
        while iteration < self.max_iter and not stopped and not runs.converged():
            runs.step()
            iteration += 1
            if callback is not None:
                stopped = bool(callback(iteration, equations.weights_of(runs.weights)))
        status = "converged" if runs.converged() else "stopped" if stopped else "max_iter"
        weights = equations.weights_of(runs.weights)
        history.append(runs.record() | {"objective": problem.value(weights)})
        return Solution(weights, status, iteration, history)


class _RowEquations(System):
    """The linear equations of a problem with one unknown per row.

    ``basis`` (n_rows, m) is an orthonormal basis of the span of the free columns, multiplied by
    ``roots``, the square roots of the row weights. ``back`` (n_free, m) maps coefficients in this
    basis to free weights. ``buffer`` holds the last product with the matrix.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.roots = problem, np.sqrt(problem.row_weights)[:, None]
        free = self.roots * last_columns(problem.matrix, problem.penalty.n_free)
        with one_blas_thread():
            left, values, right = svd(free)
        kept = values > values.max(initial=0.0) * max(free.shape) * np.finfo(float).eps
        self.basis, self.back = left[:, kept], right[kept].T / values[kept]
        targets = self._without_free(self.roots * columns(problem.targets))
        # A second projection removes rounding errors, which matter if the targets become small.
        targets = np.ascontiguousarray(self._without_free(targets))
        ridge = np.full(len(targets), problem.penalty.l2)
        super().__init__(problem.matrix, RowCurvature(self.roots), ridge, targets)
        self.buffer = np.empty((0, 0))

    def times(self, w: Vector, active: NDArray[np.intp], out: Vector | None = None) -> Vector:
        """Return ``P S^1/2 Z Z' S^1/2 w`` for vectors in the range of ``P``."""
        shape = self.matrix.shape[1], w.shape[1]
        # Allocating memory in each iteration would take longer than the product.
        if self.buffer.shape != shape:
            self.buffer = np.empty(shape)
        product = rmatvec(self.matrix, self.roots * w, self.buffer)
        return self._without_free(self.roots * matvec(self.matrix, product))

    def weights_of(self, unknowns: Vector) -> Vector:
        """Return the weights of all columns, in the shape of the problem's weights."""
        problem, n_free = self.problem, self.problem.penalty.n_free
        weights = rmatvec(problem.matrix, self.roots * unknowns)
        if n_free:
            free = free_part(weights, n_free)
            free[:] = 0.0
            residuals = columns(problem.targets) - matvec(problem.matrix, weights)
            coefficients = self._coefficients(self.roots * residuals)
            free[:] = np.einsum("pm,mk->pk", self.back, coefficients)
        return weights.reshape(problem.weights_shape)

    def _without_free(self, rows: Vector) -> Vector:
        """Return ``P rows``; if there are no free columns, this is the same array."""
        if not self.basis.size:
            return rows
        return rows - np.einsum("nm,mk->nk", self.basis, self._coefficients(rows))

    def _coefficients(self, rows: Vector) -> FloatArray:
        return np.asarray(np.einsum("nm,nk->mk", self.basis, rows))
