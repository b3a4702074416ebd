"""The one convention of all solvers.

::

    objective(w) = sum_i s_i L(z_i, y_i) + penalty(w),    z = Z w,    sum_i s_i = 1

that is, the weighted mean of the loss plus the penalty (RB16, equations 1 and
23). K outputs are K such problems over one matrix, summed.
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
from gramless.penalties import Penalty

BYTES_A_WEIGHT = 46
"""For the start and the solution, their gradient, directions and products of these."""
_FEW_BYTES = 1 << 27
"""Below this the memory budget is not looked up."""

Callback = Callable[[int, Vector], bool | None]
"""Called as ``callback(iteration, weights)`` after each iteration; True stops the solver."""


@dataclass(frozen=True)
class Problem:
    """What to minimise.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
        Features of the rows.
    targets : array (n_rows,) or (n_rows, K)
        One column each output.
    penalty : Penalty
        L2, L1 or elastic net.
    loss : Loss, default=Squared()
        Pointwise loss of raw predictions.
    sample_weight : array (n_rows,), optional
        Not negative; only its proportions matter. None weighs all rows alike.

    Raises
    ------
    InputError
        If weights of so many columns and outputs would not fit into memory.

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
        check_weights(self.matrix.shape[1], columns(self.targets).shape[1])

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """The shape of the weights: (n_columns,) or (n_columns, K), as the targets ask."""
        return self.matrix.shape[1], *self.targets.shape[1:]

    @property
    def row_weights(self) -> FloatArray:
        """Weights of the rows, summing to 1."""
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
        """Return the gradient of all but the absolute values of the weights.

        Parameters
        ----------
        w : array (n_columns,) or (n_columns, K)
            Weights.
        """
        return self.loss_gradient(w) + self.penalty.gradient(w)

    def kkt_residual(self, w: Vector) -> float:
        """Return the largest distance of a weight from optimal; 0 at the minimum alone.

        The gradient's largest entry where the penalty is smooth.
        """
        return float(self.penalty.distance(w, self.loss_gradient(w)).max(initial=0.0))


@dataclass(frozen=True)
class Solution:
    """Weights and how they were found.

    Parameters
    ----------
    weights : array (n_columns,) or (n_columns, K)
        A column an output.
    status : str
        ``"converged"``, ``"max_iter"``, ``"stopped"`` (by the callback) or
        ``"stalled"`` (no step lowers the objective any more).
    n_iter : int
        Number of iterations.
    history : list of dict
        One entry an iteration: ``objective`` and ``residual``, the norm of the
        gradient relative to the start in the solver's metric, the largest over
        the outputs.

    Examples
    --------
    >>> Solution(np.zeros(2), "converged", n_iter=0)
    Solution(weights=array([0., 0.]), status='converged', n_iter=0)
    """

    weights: Vector
    status: str
    n_iter: int
    history: list[dict[str, float]] = field(default_factory=list, repr=False)


def check_weights(n_columns: int, n_outputs: int) -> None:
    """Raise ``InputError`` for several outputs whose weights would not fit into memory."""
    needed = float(BYTES_A_WEIGHT) * n_columns * n_outputs
    if n_outputs > 1 and needed > _FEW_BYTES:
        check_memory(
            f"A fit of {n_outputs:,} outputs over {n_columns:,} columns",
            needed,
            "fit fewer outputs or classes at once, or lower n_grids or n_components",
        )


def columns(array: Vector) -> Vector:
    """Return a view with the outputs as columns: (n,) becomes (n, 1)."""
    return array if array.ndim == 2 else array[:, None]
