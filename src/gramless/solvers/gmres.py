"""Ridge regression by GMRES on the normal equations, as in RB16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from gramless.matrices.base import Vector
from gramless.solvers.base import RIDGE, Capabilities, Solver, check_start
from gramless.solvers.objective import Callback, Problem, Solution, columns


@dataclass(frozen=True)
class Gmres(Solver):
    """Ridge regression by SciPy's GMRES without a preconditioner (RB16, section 3.2).

    This solver is for comparison: on a symmetric matrix it needs about as many products
    as conjugate gradients, and ``restart`` more vectors.

    Parameters
    ----------
    tol : float, default=1e-4
        An output has converged when its gradient is at most ``tol`` times the
        gradient at zero.
    max_iter : int, default=200
        Maximum number of inner iterations for each output. A number above ``restart`` is rounded
        up to a multiple of ``restart``.
    restart : int, default=20
        Number of vectors of length ``n_columns`` stored before GMRES restarts.
    n_jobs : int or None, default=None
        Not used: the matrix determines the threads of its products.

    Examples
    --------
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.penalties import L2
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> problem = Problem(Z, np.array([1.0, 2.0, 6.0]), L2(1.0))
    >>> Gmres().solve(problem).weights.round(6)
    array([0.6, 1.5])
    """

    tol: float = 1e-4
    max_iter: int = 200
    restart: int = 20
    n_jobs: int | None = None
    capabilities: ClassVar[Capabilities] = RIDGE

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise a squared-loss problem, one output after the other, see :meth:`Solver.solve`.

        ``n_iter`` is the largest number of iterations of any output. The callback is called once,
        at the end, because SciPy provides iterates only at restarts.
        """
        self.check_problem(problem)
        check_start(problem, start, "Gmres")
        targets = columns(problem.targets)
        weights = np.zeros((problem.matrix.shape[1], targets.shape[1]))
        if start is not None:
            weights += columns(start)
        counts, residuals = np.zeros(targets.shape[1], int), np.zeros(targets.shape[1])
        for k, y in enumerate(targets.T):
            weights[:, k], counts[k], residuals[k] = self._solve_output(problem, y, weights[:, k])
        n_iter, residual = int(counts.max()), float(residuals.max())
        weights = weights.reshape(problem.weights_shape)
        record = {"objective": problem.value(weights), "residual": residual}
        status = "converged" if residual <= self.tol else "max_iter"
        if callback is not None and callback(n_iter, weights):
            status = "stopped"
        return Solution(weights, status, n_iter, [record])

    def _solve_output(
        self, problem: Problem, y: Vector, start: Vector
    ) -> tuple[Vector, int, float]:
        """Return the weights of one output, the number of iterations and the relative residual."""
        matrix, row_weights = problem.matrix, problem.row_weights
        rhs = matrix.rmatvec(row_weights * y)
        ridge = problem.penalty.diagonal(rhs)

        def hessian(w: Vector) -> Vector:
            w = w.reshape(-1)
            return matrix.rmatvec(row_weights * matrix.matvec(w)) + ridge * w

        rhs_norm = float(np.linalg.norm(rhs))
        if rhs_norm == 0.0:
            return np.zeros_like(rhs), 0, 0.0
        if start.any() or self.max_iter == 0:
            residual = float(np.linalg.norm(rhs - hessian(start))) / rhs_norm
            # SciPy 1.12 would take a step even if it starts at the solution.
            if residual <= self.tol or self.max_iter == 0:
                return start, 0, residual
        steps: list[float] = []
        restart = min(self.restart, self.max_iter)
        w, _ = gmres(
            LinearOperator((len(rhs), len(rhs)), matvec=hessian, dtype=np.float64),
            rhs / rhs_norm,
            x0=start / rhs_norm,
            rtol=self.tol,
            atol=0.0,
            restart=restart,
            maxiter=-(-self.max_iter // restart),
            callback=steps.append,
            callback_type="pr_norm",
        )
        w = np.asarray(w) * rhs_norm
        return w, len(steps), float(np.linalg.norm(rhs - hessian(w))) / rhs_norm
