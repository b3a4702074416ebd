"""Conjugate gradients on the normal equations, many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from gramless.base.errors import InputError
from gramless.base.threads import map_blocks, row_blocks
from gramless.loops import conjugate as loops
from gramless.matrices.base import Vector
from gramless.solvers.objective import Callback, Problem, Solution, columns
from gramless.solvers.preconditioners import Preconditioner, RootJacobi

_BLOCK_NUMBERS = 1 << 15


@dataclass(frozen=True)
class ConjugateGradient:
    """Ridge regression, ``(Z' S Z + alpha I) w = Z' S y`` (RB16, equation 8).

    Parameters
    ----------
    preconditioner : Preconditioner, default=RootJacobi()
        ``Identity()`` gives the paper's plain CG.
    tol : float, default=1e-4
        An output has converged when its gradient, in the preconditioner's norm,
        is at most ``tol`` times the gradient at zero. The objective's relative
        gap is then of the order of ``tol**2``.
    max_iter : int, default=200
    n_jobs : int or None, default=None
        Threads for the vector work. Results do not depend on it.

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

    preconditioner: Preconditioner = field(default_factory=RootJacobi)
    tol: float = 1e-4
    max_iter: int = 200
    n_jobs: int | None = None

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
        state = _State(problem, start, self)
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

    def __init__(self, problem: Problem, start: Vector | None, options: ConjugateGradient) -> None:
        self.problem, self.tol, self.n_jobs = problem, options.tol, options.n_jobs
        self.inverse = inverse = options.preconditioner.inverse_diagonal(problem)
        self.row_weights = problem.row_weights[:, None]
        targets = columns(problem.targets)
        right = self._rmatvec(self.row_weights * targets)
        self.found = np.zeros_like(right) if start is None else columns(start).astype(float)
        self.ridge = problem.penalty.diagonal(inverse)
        self.residual = right.copy() if start is None else right - self._hessian(self.found)
        at_zero = float((self.row_weights * targets**2).sum()) / 2.0
        self.objective = at_zero - 0.5 * float(np.vdot(self.found, right + self.residual))
        self.scale = np.sqrt(np.einsum("d,dk,dk->k", inverse, right, right))
        self.active = np.arange(right.shape[1])
        self.weights = self.found
        self.room = np.empty_like(right)
        self.direction = self.residual * inverse[:, None]
        self.energy = np.einsum("dk,dk->k", self.residual, self.direction)
        self.relative = self._relative(self.energy, self.scale)

    def step(self) -> None:
        """Advance every active output by one iteration."""
        responses = self._matvec(self.direction)
        responses *= self.row_weights
        product = self._rmatvec(responses, self.room)
        curvature = self._over_rows(loops.add_ridge, self.direction, self.ridge, product)
        length = np.divide(
            self.energy, curvature, out=np.zeros_like(curvature), where=curvature > 0
        )
        self.objective -= 0.5 * float(length @ self.energy)
        energy = self._over_rows(
            partial(loops.advance, length),
            self.direction,
            product,
            self.inverse,
            self.weights,
            self.residual,
        )
        ratio = np.divide(energy, self.energy, out=np.zeros_like(energy), where=self.energy > 0)
        self._over_rows(
            lambda residual, inverse, direction, _: loops.redirect(
                ratio, residual, inverse, direction
            ),
            self.residual,
            self.inverse,
            self.direction,
        )
        self.energy = energy
        self.relative[self.active] = self._relative(energy, self.scale[self.active])

    def drop_converged(self) -> bool:
        """Forget the outputs that have converged; True when none is left."""
        keep = self.relative[self.active] > self.tol
        if not keep.all():
            self.result()
            self.active = self.active[keep]
            self.weights = np.ascontiguousarray(self.weights[:, keep])
            self.residual = np.ascontiguousarray(self.residual[:, keep])
            self.direction = np.ascontiguousarray(self.direction[:, keep])
            self.energy = self.energy[keep]
            self.room = np.empty_like(self.residual)
        return len(self.active) == 0

    def record(self) -> dict[str, float]:
        """Return the entry of the history for the present weights."""
        return {"objective": self.objective, "residual": float(self.relative.max(initial=0.0))}

    def result(self) -> Vector:
        """Return the weights of all outputs in the shape of the targets."""
        if self.weights is not self.found:
            self.found[:, self.active] = self.weights
        return self.found[:, 0] if self.problem.targets.ndim == 1 else self.found

    def _hessian(self, w: Vector) -> Vector:
        return self._rmatvec(self._matvec(w) * self.row_weights) + w * self.ridge[:, None]

    def _matvec(self, w: Vector) -> Vector:
        if w.shape[1] == 1:
            return self.problem.matrix.matvec(w[:, 0])[:, None]
        return self.problem.matrix.matvec(w)

    def _rmatvec(self, v: Vector, out: Vector | None = None) -> Vector:
        if v.shape[1] == 1:
            return self.problem.matrix.rmatvec(v[:, 0], None if out is None else out[:, 0])[:, None]
        return self.problem.matrix.rmatvec(v, out)

    def _over_rows(self, function: Callable[..., None], *arrays: Vector) -> Vector:
        """Call ``function(*row blocks, sums)`` side by side; return the sums, added in order."""
        parts = row_blocks(len(self.residual), max(1, _BLOCK_NUMBERS // len(self.active)))
        sums = np.zeros((len(parts), len(self.active)))
        calls = [(*(array[a:b] for array in arrays), sums[k]) for k, (a, b) in enumerate(parts)]
        map_blocks(function, calls, self.n_jobs)
        return sums.sum(axis=0)

    @staticmethod
    def _relative(energy: Vector, scale: Vector) -> Vector:
        norm = np.sqrt(np.maximum(energy, 0.0))
        return np.divide(norm, scale, out=norm, where=scale > 0)
