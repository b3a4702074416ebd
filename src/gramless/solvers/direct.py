"""Ridge regression solved at once: the Gram matrix of the columns or of the rows, factorised."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import weighted_sums
from gramless.base.errors import InputError
from gramless.base.state import Stateful
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.solvers.capabilities import RIDGE, Capabilities, MatrixNeed
from gramless.solvers.costs import direct_is_possible
from gramless.solvers.gram import Gram, Point, gram_of
from gramless.solvers.objective import Callback, Problem, Solution

_PRECISE, _GOOD = 1e-9, 1e-6
"""Residuals, relative to that of zero weights: not worth two more products; converged."""


def _has_small_gram(matrix: FeatureMatrix) -> bool:
    return direct_is_possible(matrix) or matrix.shape[0] < matrix.shape[1]


_SMALL_GRAM = MatrixNeed(
    "a matrix with a column_gram, or fewer rows than columns",
    _has_small_gram,
    "Use ConjugateGradient, solver='pcg'.",
)


@dataclass(frozen=True)
class Cholesky(Stateful):
    """Ridge regression by a Cholesky factorisation of ``Z' S Z + alpha I`` (RB16, equation 8).

    Where there are fewer rows than columns, of ``S^1/2 Z Z' S^1/2 + alpha I`` instead: the
    same answer. Where the matrix is block-diagonal, block by block; the columns that
    all rows share are eliminated. Where rounding makes the system singular, by its
    eigenvectors: with ``alpha`` 0 the weights are those of least norm. One step of
    refinement by products with the matrix itself makes up for Gram matrices that were
    summed in single precision.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads over diagonal blocks. Results do not depend on it.

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
    capabilities: ClassVar[Capabilities] = replace(RIDGE, matrix=_SMALL_GRAM)

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise a squared-loss problem.

        Parameters
        ----------
        problem : Problem
            With the squared loss and a smooth penalty.
        start : ignored
        callback : callable, optional
            ``callback(1, weights)`` at the end.

        Returns
        -------
        Solution
            Its history holds the state at zero weights and at the end. Status
            ``"stalled"`` means that the precision of the Gram matrix, and of the steps that
            follow, is not enough for so small an alpha.

        Raises
        ------
        InputError
            For another loss or penalty, and for a matrix without ``column_gram``
            that has more rows than columns.
        """
        self.capabilities.check(problem, "Cholesky")
        prepared = self.prepared(problem.matrix, problem.row_weights)
        return prepared.solve(problem, start, callback)

    def prepared(self, matrix: FeatureMatrix, row_weights: NDArray[np.float64]) -> PreparedCholesky:
        """Return the solver of all ridge problems over a matrix with these row weights.

        Parameters
        ----------
        matrix : FeatureMatrix (n_rows, n_columns)
        row_weights : array (n_rows,)
            Not negative; their sum is made 1.

        Returns
        -------
        PreparedCholesky
            For any alpha and targets: the Gram matrix is kept, and factorised for each.
        """
        self.capabilities.check_matrix(matrix, "Cholesky")
        weights = row_weights / row_weights.sum()
        return PreparedCholesky(matrix, weights, gram_of(matrix, weights, self.n_jobs), self.n_jobs)


@dataclass(frozen=True)
class PreparedCholesky:
    """Ridge problems over one matrix and its row weights: see :meth:`Cholesky.prepared`."""

    matrix: FeatureMatrix = field(repr=False)
    row_weights: NDArray[np.float64] = field(repr=False)
    gram: Gram = field(repr=False)
    n_jobs: int | None = None
    capabilities: ClassVar[Capabilities] = Cholesky.capabilities

    def solve(
        self, problem: Problem, start: Vector | None = None, callback: Callback | None = None
    ) -> Solution:
        """Minimise a problem over the matrix, see :meth:`Cholesky.solve`.

        Raises
        ------
        InputError
            For another loss, penalty or matrix, or other row weights.
        """
        self.capabilities.check(problem, "PreparedCholesky")
        if problem.matrix is not self.matrix or not np.allclose(
            problem.row_weights, self.row_weights, rtol=1e-9, atol=0.0
        ):
            raise InputError(
                "PreparedCholesky solves problems over the matrix and the row weights that it was "
                "prepared for; prepare another for these."
            )
        factor = self.gram.factor(problem.penalty, self.n_jobs)
        start_point = self.gram.start(problem)
        scale = _norms(start_point)
        found = self.gram.moved(problem, start_point, factor.solve(start_point.residual))
        if _relative(found, scale) > _PRECISE:
            polished = self.gram.polished(problem, found, factor, self.n_jobs)
            found = min(found, polished, key=lambda point: _objective(problem, point))
        weights = found.weights.reshape(problem.matrix.shape[1], *problem.targets.shape[1:])
        history = [_record(problem, point, scale) for point in (start_point, found)]
        status = "converged" if history[-1]["residual"] <= _GOOD else "stalled"
        if callback is not None and callback(1, weights):
            status = "stopped"
        return Solution(weights, status, 1, history)


def _norms(point: Point) -> NDArray[np.float64]:
    """Return the norm of each output's gradient."""
    return np.sqrt(np.einsum("dk,dk->k", point.gradient, point.gradient))


def _relative(point: Point, scale: NDArray[np.float64]) -> float:
    """Return the largest norm of a gradient, relative to that of zero weights."""
    norms = _norms(point)
    return float(np.divide(norms, scale, out=norms, where=scale > 0).max(initial=0.0))


def _record(problem: Problem, point: Point, scale: NDArray[np.float64]) -> dict[str, float]:
    """Return the entry of the history for a point."""
    return {"objective": _objective(problem, point), "residual": _relative(point, scale)}


def _objective(problem: Problem, point: Point) -> float:
    losses = 0.5 * weighted_sums(problem.row_weights, point.errors**2).sum()
    return float(losses) + problem.penalty.value(point.weights)
