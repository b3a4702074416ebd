"""Conjugate gradients over the rows: for matrices with more columns than rows."""

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

    The minimum is that of :class:`ConjugateGradient`, with an unknown for each row in place of
    each column. Small random bins have many more columns than rows, and iterations spend most of
    their time on vectors of unknowns.

    Free columns F, such as the intercept, are eliminated: ``P`` projects onto the complement of
    ``S^1/2 F`` (Frisch and Waugh 1933), and their weights fit what the others leave.

    Parameters
    ----------
    tol : float, default=1e-3
        An output has converged when the residual of these equations is at most ``tol`` times
        that at zero penalised weights.
    max_iter : int, default=200
        Iterations of the solver at most.
    n_jobs : int or None, default=None
        Threads for the vector work. Results do not depend on it.

    Notes
    -----
    One rmatvec and one matvec an iteration, and 4 multiplications a row, output and free column;
    memory for four vectors of ``n_rows`` and one of ``n_columns`` an output.

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

        ``start`` is ignored. Each callback costs a product. The history holds the state at zero
        penalised weights and at the end.
        """
        self.check_problem(problem)
        equations = _RowEquations(problem)
        inverse = DiagonalInverse(np.ones(len(equations.right)))
        runs = ConjugateRuns(equations, inverse, self.tol, self.n_jobs)
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
    """A problem's equations over the rows.

    ``basis`` (n_rows, m) is an orthonormal basis of the free columns times the ``roots`` of the row
    weights, without those that depend on others; ``back`` (n_free, m) turns coefficients of it into
    free weights. ``room`` holds the last product with the matrix.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.roots = problem, np.sqrt(problem.row_weights)[:, None]
        free = self.roots * last_columns(problem.matrix, problem.penalty.n_free)
        with one_blas_thread():
            left, sizes, right = svd(free)
        kept = sizes > sizes.max(initial=0.0) * max(free.shape) * np.finfo(float).eps
        self.basis, self.back = left[:, kept], right[kept].T / sizes[kept]
        targets = self._without_free(self.roots * columns(problem.targets))
        # Once more, for what rounding left where little of the targets remains.
        targets = np.ascontiguousarray(self._without_free(targets))
        ridge = np.full(len(targets), problem.penalty.l2)
        super().__init__(problem.matrix, RowCurvature(self.roots), ridge, targets)
        self.room = np.empty((0, 0))

    def times(self, w: Vector, active: NDArray[np.intp], out: Vector | None = None) -> Vector:
        """Return ``P S^1/2 Z Z' S^1/2 w`` of vectors projected by ``P``."""
        shape = self.matrix.shape[1], w.shape[1]
        # Fresh memory would cost more than the product.
        if self.room.shape != shape:
            self.room = np.empty(shape)
        product = rmatvec(self.matrix, self.roots * w, self.room)
        return self._without_free(self.roots * matvec(self.matrix, product))

    def weights_of(self, unknowns: Vector) -> Vector:
        """Return the weights of all columns, shaped as the targets ask."""
        problem, n_free = self.problem, self.problem.penalty.n_free
        found = rmatvec(problem.matrix, self.roots * unknowns)
        if n_free:
            free = free_part(found, n_free)
            free[:] = 0.0
            left = columns(problem.targets) - matvec(problem.matrix, found)
            free[:] = np.einsum("pm,mk->pk", self.back, self._coefficients(self.roots * left))
        return found.reshape(problem.weights_shape)

    def _without_free(self, rows: Vector) -> Vector:
        """Return ``P rows``, the same array without free columns."""
        if not self.basis.size:
            return rows
        return rows - np.einsum("nm,mk->nk", self.basis, self._coefficients(rows))

    def _coefficients(self, rows: Vector) -> FloatArray:
        return np.asarray(np.einsum("nm,nk->mk", self.basis, rows))
