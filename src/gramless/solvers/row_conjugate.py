"""Conjugate gradients over the rows: for matrices with more columns than rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.sums import inner
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.solvers.conjugate import ConjugateRuns, System, matvec, rmatvec
from gramless.solvers.objective import (
    Callback,
    Problem,
    Solution,
    columns,
    require_smooth,
    require_squared,
)
from gramless.solvers.preconditioners import DiagonalInverse


@dataclass(frozen=True)
class RowConjugateGradient:
    """Ridge regression, ``(S^1/2 Z Z' S^1/2 + alpha I) a = S^1/2 y``, ``w = Z' S^1/2 a``.

    The same minimum as that of :class:`ConjugateGradient`: there the unknowns are the weights,
    here there is one a row. Random bins of small cells have many times more columns than rows, and
    most of the time of an iteration goes into vectors as long as the unknowns.

    Parameters
    ----------
    tol : float, default=1e-3
        An output has converged when the residual of these equations is at most ``tol`` times
        that at zero.
    max_iter : int, default=200
    n_jobs : int or None, default=None
        Threads for the vector work. Results do not depend on it.

    Notes
    -----
    One rmatvec and one matvec an iteration; memory for four vectors of ``n_rows`` and one of
    ``n_columns`` an output.

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

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise a squared-loss problem.

        Parameters
        ----------
        problem : Problem
            With the squared loss and a smooth penalty on every weight.
        start : ignored
        callback : callable, optional
            ``callback(iteration, weights)`` after each iteration; True stops. Weights cost
            another product each time.

        Returns
        -------
        Solution
            Its history holds the state at zero weights and at the end.

        Raises
        ------
        InputError
            For another loss or penalty.
        """
        require_squared(problem, "RowConjugateGradient")
        require_smooth(problem, "RowConjugateGradient")
        if problem.penalty.n_free:
            raise InputError(
                "RowConjugateGradient needs a penalty on every weight, and "
                f"{problem.penalty.n_free} are free; use ConjugateGradient."
            )
        runs, roots = self._begin(problem)
        at_zero = 0.5 * inner(runs.system.right, runs.system.right)
        history = [_record(at_zero, runs)]
        iteration, stopped = 0, False
        while iteration < self.max_iter and not stopped and not runs.drop_converged():
            runs.step()
            iteration += 1
            stopped = callback is not None and bool(
                callback(iteration, _weights(problem, roots, runs))
            )
        status = "converged" if runs.drop_converged() else "stopped" if stopped else "max_iter"
        weights = _weights(problem, roots, runs)
        history.append(_record(problem.value(weights), runs))
        return Solution(weights, status, iteration, history)

    def _begin(self, problem: Problem) -> tuple[ConjugateRuns, NDArray[np.float64]]:
        """Return the runs at zero, and the roots of the rows' weights."""
        roots = np.sqrt(problem.row_weights)[:, None]
        right = roots * columns(problem.targets)
        n_rows = len(roots)
        system = System(
            _Transposed(problem.matrix, roots),  # type: ignore[arg-type]  # products will do
            _Ones(),
            np.full(n_rows, problem.penalty.l2),
            np.ascontiguousarray(right),
        )
        inverse = DiagonalInverse(np.ones(n_rows))
        return ConjugateRuns(system, inverse, self.tol, self.n_jobs), roots


def _weights(problem: Problem, roots: NDArray[np.float64], runs: ConjugateRuns) -> Vector:
    found = rmatvec(problem.matrix, roots * runs.result())
    return found.reshape(_shape(problem))


def _shape(problem: Problem) -> tuple[int, ...]:
    return (problem.matrix.shape[1], *problem.targets.shape[1:])


def _record(objective: float, runs: ConjugateRuns) -> dict[str, float]:
    return {"objective": objective, "residual": float(runs.relative.max(initial=0.0))}


@dataclass(frozen=True)
class _Ones:
    """No weights between the two products."""

    coupled: ClassVar[bool] = False

    def apply(self, rows: slice, responses: Vector, active: NDArray[np.intp]) -> None:
        """Do nothing."""


@dataclass(frozen=True, eq=False)
class _Transposed:
    """``Z' S^1/2`` as a matrix of its products alone."""

    matrix: FeatureMatrix
    roots: NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, int]:
        """(n_columns, n_rows)."""
        return self.matrix.shape[1], self.matrix.shape[0]

    def matvec(self, w: Vector, out: Vector | None = None) -> Vector:
        """Return ``Z' S^1/2 w``."""
        wide = w if w.ndim == 2 else w[:, None]
        return rmatvec(self.matrix, self.roots * wide).reshape(-1, *w.shape[1:])

    def rmatvec(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return ``S^1/2 Z v``."""
        wide = v if v.ndim == 2 else v[:, None]
        product = (self.roots * matvec(self.matrix, wide)).reshape(-1, *v.shape[1:])
        if out is None:
            return product
        out[...] = product
        return out
