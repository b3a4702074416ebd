"""The problem that solvers minimise, and its solution.

::

    objective(w) = sum_i s_i L(z_i, y_i) + penalty(w),    z = Z w,    sum_i s_i = 1

The objective is the weighted mean of the loss plus the penalty (RB16, equations 1 and
23). K outputs are K such problems over one matrix; their objectives are summed.

Columns without a penalty, the *free* columns, are the last ones of a matrix. The intercept is one
of them: its column of ones need not be computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gramless.base.arrays import weighted_sums
from gramless.base.memory import check_memory
from gramless.base.types import FloatArray
from gramless.losses import Loss, Squared
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.stacked import without_ones
from gramless.penalties import Penalty
from gramless.solvers.vectors import matvec

# Bytes that a solver needs per weight: for the start, the solution, its gradient, directions and
# their products.
BYTES_PER_WEIGHT = 46
_UNCHECKED_BYTES = 1 << 27  # below this many bytes, the memory budget is not looked up

# Called as callback(iteration, weights) after each iteration; True stops the solver.
Callback = Callable[[int, Vector], bool | None]


@dataclass(frozen=True)
class Problem:
    """An objective over a feature matrix: the weighted mean loss plus a penalty.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
        Features of the rows.
    targets : array (n_rows,) or (n_rows, K)
        One column for each output.
    penalty : Penalty
        L2, L1 or elastic net.
    loss : Loss, default=Squared()
        Pointwise loss of raw predictions.
    sample_weight : array (n_rows,), optional
        Not negative; only the proportions matter. By default all rows have the same weight.

    Raises
    ------
    InputError
        If the weights of several outputs do not fit into memory.

    Examples
    --------
    >>> import numpy as np
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> from gramless.penalties import L2
    >>> Z = BinnedMatrix(np.array([[1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> Problem(Z, np.array([1.0, 3.0]), L2(0.5)).value(np.array([1.0, 1.0]))
    1.5
    """

    matrix: FeatureMatrix
    targets: Vector
    penalty: Penalty
    loss: Loss = field(default_factory=Squared)
    sample_weight: FloatArray | None = None

    def __post_init__(self) -> None:
        check_weights_memory(self.matrix.shape[1], columns(self.targets).shape[1])

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """The shape of the weights: (n_columns,) or (n_columns, K), like the targets."""
        return self.matrix.shape[1], *self.targets.shape[1:]

    @property
    def row_weights(self) -> FloatArray:
        """The sample weights (n_rows,), divided by their sum."""
        n_rows = self.matrix.shape[0]
        if self.sample_weight is None:
            return np.full(n_rows, 1.0 / n_rows)
        return self.sample_weight / self.sample_weight.sum()

    def value(self, w: Vector) -> float:
        """Return the objective, summed over outputs: one matvec.

        Parameters
        ----------
        w : array (n_columns,) or (n_columns, K)
            Weights.
        """
        losses = self.loss.value(self.matrix.matvec(w), self.targets)
        return float(weighted_sums(self.row_weights, losses).sum()) + self.penalty.value(w)

    def loss_gradient(self, w: Vector) -> Vector:
        """Return the gradient of the mean loss at ``w``: one matvec, one rmatvec."""
        slopes = self.loss.gradient(self.matrix.matvec(w), self.targets)
        return self.matrix.rmatvec((slopes.T * self.row_weights).T)

    def gradient(self, w: Vector) -> Vector:
        """Return the gradient of the objective without its L1 part.

        Parameters
        ----------
        w : array (n_columns,) or (n_columns, K)
            Weights.
        """
        return self.loss_gradient(w) + self.penalty.gradient(w)

    def kkt_residual(self, w: Vector) -> float:
        """Return the largest violation of optimality by a weight; 0 only at the minimum.

        If the penalty is smooth, this is the largest absolute entry of the gradient.
        """
        return float(self.penalty.distance(w, self.loss_gradient(w)).max(initial=0.0))


@dataclass(frozen=True)
class Solution:
    """The weights that a solver returns, with its status and history.

    Parameters
    ----------
    weights : array (n_columns,) or (n_columns, K)
        One column for each output.
    status : str
        ``"converged"``, ``"max_iter"``, ``"stopped"`` (by the callback) or
        ``"stalled"`` (no step lowers the objective any more).
    n_iter : int
        Number of iterations.
    history : list of dict
        Entries for the start and for each iteration, or fewer if the solver does not
        observe its iterations. Each has the ``objective`` and the ``residual``: the size of
        the gradient as described for the solver's ``tol``, the largest of all outputs.

    Examples
    --------
    >>> Solution(np.zeros(2), "converged", n_iter=0)
    Solution(weights=array([0., 0.]), status='converged', n_iter=0)
    """

    weights: Vector
    status: str
    n_iter: int
    history: list[dict[str, float]] = field(default_factory=list, repr=False)


def check_weights_memory(n_columns: int, n_outputs: int) -> None:
    """Raise InputError if a fit of several outputs needs too much memory for their weights."""
    needed = float(BYTES_PER_WEIGHT) * n_columns * n_outputs
    if n_outputs > 1 and needed > _UNCHECKED_BYTES:
        check_memory(
            f"A fit of {n_outputs:,} outputs over {n_columns:,} columns",
            needed,
            "fit fewer outputs or classes at once, or lower n_grids or n_components",
        )


def columns(array: Vector) -> Vector:
    """Return a view with the outputs as columns: (n,) becomes (n, 1)."""
    return array if array.ndim == 2 else array[:, None]


def last_columns(matrix: FeatureMatrix, n: int) -> FloatArray:
    n_rows, n_columns = matrix.shape
    if n == 0:
        return np.empty((n_rows, 0))
    if n == without_ones(matrix)[1]:
        return np.ones((n_rows, 1))
    return matvec(matrix, np.eye(n_columns, n, n - n_columns))


def free_part(weights: Vector, n_free: int) -> Vector:
    """Return a view of the weights of the free columns, (n_free, K)."""
    return weights[len(weights) - n_free :]


def initial_weights(problem: Problem) -> Vector:
    """Return the weights (n_columns, K) at which solvers of smooth losses start by default.

    They are zero, except the intercept if the curvature of the loss is unbounded.
    """
    targets = columns(problem.targets)
    weights = np.zeros((problem.matrix.shape[1], targets.shape[1]))
    _, n_ones = without_ones(problem.matrix)
    # With an unbounded curvature, steps from zero could be too long by any factor.
    if n_ones and problem.penalty.n_free and not problem.loss.smoothness < np.inf:
        weights[-1] = problem.loss.initial_constant(targets, problem.row_weights)
    return weights
