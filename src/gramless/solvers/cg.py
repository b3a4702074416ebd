"""Conjugate gradients on the normal equations, many right-hand sides at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.matrices.base import Vector
from gramless.solvers.objective import Callback, Problem, Solution, columns
from gramless.solvers.preconditioners import Jacobi, Preconditioner


@dataclass(frozen=True)
class ConjugateGradient:
    """Ridge regression, ``(Z' S Z + alpha I) w = Z' S y`` (RB16, equation 8).

    Parameters
    ----------
    preconditioner : Preconditioner, default=Jacobi()
        ``Identity()`` gives the paper's plain CG.
    tol : float, default=1e-4
        An output has converged when its gradient, in the preconditioner's norm,
        is at most ``tol`` times the gradient at zero. The objective's relative
        gap is then of the order of ``tol**2``.
    max_iter : int, default=200

    Notes
    -----
    One matvec and one rmatvec an iteration serve all outputs that have not
    converged; memory for four vectors of ``n_columns`` and two of ``n_rows``
    an output.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.penalties import L2
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> problem = Problem(Z, np.array([1.0, 2.0, 6.0]), L2(1.0))
    >>> ConjugateGradient().solve(problem).weights.round(6)
    array([0.6, 1.5])
    """

    preconditioner: Preconditioner = field(default_factory=Jacobi)
    tol: float = 1e-4
    max_iter: int = 200

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise a squared-loss problem.

        Parameters
        ----------
        problem : Problem
            With the squared loss.
        start : array (n_columns,) or (n_columns, K), optional
            Weights to start from.
        callback : callable, optional
            ``callback(iteration, weights)`` after each iteration; True stops.

        Returns
        -------
        Solution

        Raises
        ------
        InputError
            For another loss.
        """
        if problem.loss.name != "squared":
            raise InputError(
                f"ConjugateGradient solves the squared loss only, not {problem.loss.name!r}."
            )
        state = _State(problem, start, self.preconditioner.inverse_diagonal(problem), self.tol)
        history = [state.record()]
        status = "max_iter"
        for iteration in range(1, self.max_iter + 1):
            if state.drop_converged():
                status = "converged"
                break
            state.step()
            history.append(state.record())
            if callback is not None and callback(iteration, state.result()):
                status = "stopped"
                break
        else:
            status = "converged" if state.drop_converged() else status
        return Solution(state.result(), status, len(history) - 1, history)


class _State:
    """Independent CG runs side by side, on the outputs that have not converged."""

    def __init__(
        self, problem: Problem, start: Vector | None, inverse: NDArray[np.float64], tol: float
    ) -> None:
        self.problem, self.tol = problem, tol
        self.flat = problem.targets.ndim == 1
        self.row_weights = problem.row_weights[:, None]
        self.inverse = inverse[:, None]
        targets = columns(problem.targets)
        right = self._rmatvec(self.row_weights * targets)
        self.weights = np.zeros_like(right) if start is None else columns(start).astype(float)
        at_zero = float((self.row_weights * targets**2).sum()) / 2.0
        residual = right.copy() if start is None else right - self._hessian(self.weights)
        self.objective = at_zero - 0.5 * float(np.vdot(self.weights, right + residual))
        self.scale = np.sqrt((right * self.inverse * right).sum(axis=0))
        self.active = np.arange(right.shape[1])
        self.residual = residual
        self.direction = residual * self.inverse
        self.energy = (residual * self.direction).sum(axis=0)
        self.relative = self._relative(self.energy, self.scale)

    def step(self) -> None:
        """Advance every active output by one iteration."""
        product = self._hessian(self.direction)
        curvature = (self.direction * product).sum(axis=0)
        length = np.divide(
            self.energy, curvature, out=np.zeros_like(curvature), where=curvature > 0
        )
        self.weights[:, self.active] += length * self.direction
        self.objective -= 0.5 * float(length @ self.energy)
        product *= length
        self.residual -= product
        scaled = np.multiply(self.residual, self.inverse, out=product)
        energy = (self.residual * scaled).sum(axis=0)
        ratio = np.divide(energy, self.energy, out=np.zeros_like(energy), where=self.energy > 0)
        self.direction *= ratio
        self.direction += scaled
        self.energy = energy
        self.relative[self.active] = self._relative(energy, self.scale[self.active])

    def drop_converged(self) -> bool:
        """Forget the outputs that have converged; True when none is left."""
        keep = self.relative[self.active] > self.tol
        if not keep.all():
            self.active = self.active[keep]
            self.residual = np.ascontiguousarray(self.residual[:, keep])
            self.direction = np.ascontiguousarray(self.direction[:, keep])
            self.energy = self.energy[keep]
        return len(self.active) == 0

    def record(self) -> dict[str, float]:
        """Return the entry of the history for the present weights."""
        return {"objective": self.objective, "residual": float(self.relative.max(initial=0.0))}

    def result(self) -> Vector:
        """Return the weights in the shape of the targets."""
        return self.weights[:, 0] if self.flat else self.weights

    def _hessian(self, w: Vector) -> Vector:
        responses = self._matvec(w)
        responses *= self.row_weights
        product = self._rmatvec(responses)
        product += w * self.problem.penalty.diagonal(w)
        return product

    def _matvec(self, w: Vector) -> Vector:
        if w.shape[1] == 1:
            return self.problem.matrix.matvec(w[:, 0])[:, None]
        return self.problem.matrix.matvec(w)

    def _rmatvec(self, v: Vector) -> Vector:
        if v.shape[1] == 1:
            return self.problem.matrix.rmatvec(v[:, 0])[:, None]
        return self.problem.matrix.rmatvec(v)

    @staticmethod
    def _relative(energy: Vector, scale: Vector) -> Vector:
        norm = np.sqrt(np.maximum(energy, 0.0))
        return np.divide(norm, scale, out=norm, where=scale > 0)
