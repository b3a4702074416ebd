"""Conjugate gradients on the normal equations, many right-hand sides at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from gramless.base.arrays import inner
from gramless.base.state import Stateful
from gramless.matrices.base import Vector
from gramless.solvers.capabilities import RIDGE, Capabilities
from gramless.solvers.conjugate import ConjugateRuns, RowCurvature, System, rmatvec
from gramless.solvers.objective import Callback, Problem, Solution, columns
from gramless.solvers.options import check_options
from gramless.solvers.preconditioners import Preconditioner, SampledRows
from gramless.solvers.row_runs import RowRuns, RowSystem, fit_for_rows


@dataclass(frozen=True)
class ConjugateGradient(Stateful):
    """Ridge regression, ``(Z' S Z + alpha I) w = Z' S y`` (RB16, equation 8).

    Parameters
    ----------
    preconditioner : Preconditioner, default=SampledRows()
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
    converged. Memory an output for two vectors of ``n_columns`` and eight of ``n_rows``
    where columns are more than rows and nobody looks at the weights on the way, else
    for four of ``n_columns`` and two of ``n_rows``.

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

    preconditioner: Preconditioner = field(default_factory=SampledRows)
    tol: float = 1e-4
    max_iter: int = 200
    n_jobs: int | None = None
    capabilities: ClassVar[Capabilities] = RIDGE

    def __post_init__(self) -> None:
        check_options(self)

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
        self.capabilities.check(problem, "ConjugateGradient")
        runs, at_zero = self._begin(problem, start, callback is not None)
        shape = (problem.matrix.shape[1], *problem.targets.shape[1:])
        history = [_record(at_zero, runs)]
        status = "max_iter"
        for iteration in range(1, self.max_iter + 1):
            if runs.drop_converged():
                status = "converged"
                break
            runs.step()
            history.append(_record(at_zero, runs))
            if callback is not None and callback(iteration, runs.result().reshape(shape)):
                status = "stopped"
                break
        else:
            status = "converged" if runs.drop_converged() else status
        return Solution(runs.result().reshape(shape), status, len(history) - 1, history)

    def _begin(
        self, problem: Problem, start: Vector | None, watched: bool
    ) -> tuple[ConjugateRuns | RowRuns, float]:
        """Return the runs at their start, and the objective of zero weights."""
        row_weights, targets = problem.row_weights[:, None], columns(problem.targets)
        weighted = row_weights * targets
        inverse = self.preconditioner.inverse(problem)
        first = None if start is None else columns(start)
        runs: ConjugateRuns | RowRuns
        # Weights cost a product there: only where nobody looks at them on the way.
        if not watched and fit_for_rows(inverse, problem.matrix):
            system = RowSystem.of_squares(problem, first)
            runs = RowRuns(system, inverse, self.tol, self.n_jobs)
        else:
            right = rmatvec(problem.matrix, weighted)
            ridge = problem.penalty.diagonal(right[:, 0])
            whole = System(problem.matrix, RowCurvature(row_weights), ridge, right)
            runs = ConjugateRuns(whole, inverse, self.tol, self.n_jobs, first)
        return runs, 0.5 * inner(weighted, targets)


def _record(at_zero: float, runs: ConjugateRuns | RowRuns) -> dict[str, float]:
    return {
        "objective": at_zero - runs.decrease,
        "residual": float(runs.relative.max(initial=0.0)),
    }
