"""Conjugate gradients over the rows: for matrices with more columns than rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import inner
from gramless.base.threads import one_blas_thread
from gramless.matrices.base import Vector
from gramless.solvers.base import RIDGE, Capabilities, Solver
from gramless.solvers.cg import ConjugateRuns, System
from gramless.solvers.intercept import free_part, last_columns
from gramless.solvers.objective import Callback, Problem, Solution, columns
from gramless.solvers.preconditioners import DiagonalInverse
from gramless.solvers.vectors import matvec, rmatvec


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
        equations = _RowEquations.of(problem)
        runs = ConjugateRuns(
            equations.system(),
            DiagonalInverse(np.ones(len(equations.roots))),
            self.tol,
            self.n_jobs,
        )
        at_zero = 0.5 * inner(runs.system.right, runs.system.right)
        history = [_record(at_zero, runs)]
        iteration, stopped = 0, False
        while iteration < self.max_iter and not stopped and not runs.drop_converged():
            runs.step()
            iteration += 1
            stopped = callback is not None and bool(
                callback(iteration, equations.weights(runs.result()))
            )
        status = "converged" if runs.drop_converged() else "stopped" if stopped else "max_iter"
        weights = equations.weights(runs.result())
        history.append(_record(problem.value(weights), runs))
        return Solution(weights, status, iteration, history)


def _record(objective: float, runs: ConjugateRuns) -> dict[str, float]:
    return {"objective": objective, "residual": float(runs.relative.max(initial=0.0))}


@dataclass(frozen=True)
class _Ones:
    """No weights between the two products."""

    coupled: ClassVar[bool] = False

    def apply(self, rows: slice, responses: Vector, active: NDArray[np.intp]) -> None:
        """Do nothing."""


@dataclass(eq=False)
class _RowEquations:
    """A problem's equations over the rows; it stands in for the matrix ``Z' S^1/2 P``.

    ``basis`` (n_rows, m) is an orthonormal basis of the free columns times the ``roots`` of the row
    weights, and ``back`` (n_free, m) turns coefficients of it into free weights. ``room`` holds the
    last product.
    """

    problem: Problem
    roots: NDArray[np.float64]
    basis: NDArray[np.float64]
    back: NDArray[np.float64]
    room: Vector | None = None

    @classmethod
    def of(cls, problem: Problem) -> _RowEquations:
        """Find the basis, without linearly dependent columns."""
        roots = np.sqrt(problem.row_weights)[:, None]
        free = roots * last_columns(problem.matrix, problem.penalty.n_free)
        with one_blas_thread():
            left, sizes, right = np.linalg.svd(free, full_matrices=False)
        least = sizes.max(initial=0.0) * max(free.shape) * np.finfo(float).eps
        kept = sizes > least
        return cls(problem, roots, left[:, kept], right[kept].T / sizes[kept])

    def system(self) -> System:
        """Return the system for conjugate gradients."""
        right = self._without_free(self.roots * columns(self.problem.targets))
        # Once more, for what rounding left where little of the targets remains.
        right = self._without_free(right)
        ridge = np.full(len(right), self.problem.penalty.l2)
        # The system only needs products.
        return System(self, _Ones(), ridge, np.ascontiguousarray(right))  # type: ignore[arg-type]

    def weights(self, unknowns: Vector) -> Vector:
        """Return the weights of all columns, shaped as the targets ask."""
        problem, n_free = self.problem, self.problem.penalty.n_free
        found = rmatvec(problem.matrix, self.roots * unknowns)
        if n_free:
            free = free_part(found, n_free)
            free[:] = 0.0
            left = columns(problem.targets) - matvec(problem.matrix, found)
            coefficients = self._coefficients(self.roots * left)
            free[:] = np.einsum("pm,mk->pk", self.back, coefficients)
        return found.reshape(problem.weights_shape)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_columns, n_rows)."""
        return self.problem.matrix.shape[1], self.problem.matrix.shape[0]

    def matvec(self, w: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z' S^1/2 w``, overwritten by the next call, of vectors projected by ``P``."""
        wide = w if w.ndim == 2 else w[:, None]
        shape = self.shape[0], wide.shape[1]
        # Fresh memory would cost more than the product.
        if self.room is None or self.room.shape != shape:
            self.room = np.empty(shape)
        product = rmatvec(self.problem.matrix, self.roots * wide, self.room)
        return product.reshape(-1, *w.shape[1:])

    def rmatvec(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return ``P S^1/2 Z v``."""
        wide = v if v.ndim == 2 else v[:, None]
        product = self._without_free(self.roots * matvec(self.problem.matrix, wide))
        product = product.reshape(-1, *v.shape[1:])
        if out is None:
            return product
        out[...] = product
        return out

    def _without_free(self, rows: Vector) -> Vector:
        """Return ``P rows``, the same array without free columns."""
        if not self.basis.size:
            return rows
        return rows - np.einsum("nm,mk->nk", self.basis, self._coefficients(rows))

    def _coefficients(self, rows: Vector) -> NDArray[np.float64]:
        coefficients: NDArray[np.float64] = np.einsum("nm,nk->mk", self.basis, rows)
        return coefficients
