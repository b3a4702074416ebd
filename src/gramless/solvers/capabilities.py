"""What solvers take: each class declares it, and one check refuses everything else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gramless.base.errors import InputError
from gramless.losses import Loss, Squared
from gramless.matrices.base import FeatureMatrix
from gramless.solvers.gram import without_ones
from gramless.solvers.objective import Problem


@dataclass(frozen=True)
class MatrixNeed:
    """What a solver needs of a matrix beyond the products that every matrix has.

    Attributes
    ----------
    description : str
        What the matrix must be, for people.
    met_by : callable
        Tells whether a matrix is that.
    remedy : str
        What to use for other matrices: a sentence.
    """

    description: str
    met_by: Callable[[FeatureMatrix], bool]
    remedy: str


@dataclass(frozen=True)
class Capabilities:
    """The losses, penalties and matrices that a solver takes.

    Attributes
    ----------
    losses : tuple of classes of Loss, optional
        None for all smooth losses.
    bounded_curvature : bool, default=False
        Whether the loss must have a bound on its curvature, a finite ``smoothness``.
    l1 : bool, default=False
        Whether the penalty may contain absolute values, as L1 and elastic nets do.
    requires_l2 : bool, default=False
        Whether the penalty must contain squares: alpha above 0.
    matrix : MatrixNeed, optional
        None for all matrices.

    Examples
    --------
    >>> from gramless.losses import Logistic
    >>> Capabilities(losses=(Squared,)).lack(Logistic(), l1=False)
    "solves the squared loss only, not 'logistic'"
    """

    losses: tuple[type[Loss], ...] | None = None
    bounded_curvature: bool = False
    l1: bool = False
    requires_l2: bool = False
    matrix: MatrixNeed | None = None

    def lack(self, loss: Loss, *, l1: bool) -> str | None:
        """Return why a loss, or a penalty with absolute values, is not taken, if so.

        Parameters
        ----------
        loss : Loss
        l1 : bool
            Whether the penalty contains absolute values.

        Returns
        -------
        str or None
            To be written after the name of the solver.
        """
        if self.losses is None and not loss.smooth:
            return f"needs a smooth loss, and {loss.name!r} has corners"
        if self.bounded_curvature and not loss.smoothness < np.inf:
            return f"needs a loss of bounded curvature, and {loss.name!r} has no bound"
        if self.losses == (Squared,) and type(loss) is not Squared:
            return f"solves the squared loss only, not {loss.name!r}"
        if self.losses is not None and type(loss) not in self.losses:
            names = ", ".join(repr(kind.name) for kind in self.losses)
            return f"takes the losses {names} only, not {loss.name!r}"
        if l1 and not self.l1:
            return "needs a smooth penalty"
        return None

    def check(self, problem: Problem, who: str) -> None:
        """Raise ``InputError`` unless a problem is one that the solver takes.

        Parameters
        ----------
        problem : Problem
        who : str
            Name of the solver, for the message.

        Raises
        ------
        InputError
            For another loss, penalty or matrix.
        """
        l1 = problem.penalty.l1 > 0.0
        lack = self.lack(problem.loss, l1=l1)
        if lack is not None:
            raise InputError(f"{who} {lack}; use {_instead(problem.loss, l1)}.")
        if self.requires_l2 and problem.penalty.l2 <= 0.0:
            raise InputError(
                f"{who} needs alpha above 0: without a penalty its equations may have no "
                f"solution; use ConjugateGradient, solver='cg'."
            )
        self.check_matrix(problem.matrix, who)

    def check_matrix(self, matrix: FeatureMatrix, who: str) -> None:
        """Raise ``InputError`` unless a matrix is one that the solver takes."""
        need = self.matrix
        if need is not None and not need.met_by(matrix):
            raise InputError(
                f"{who} needs {need.description}; got {type(without_ones(matrix)[0]).__name__} "
                f"of shape {matrix.shape}. {need.remedy}"
            )


RIDGE = Capabilities(losses=(Squared,))
"""Ridge regression on any matrix."""


def require_ridge(problem: Problem, who: str) -> None:
    """Raise ``InputError`` unless the problem is ridge regression."""
    lack = RIDGE.lack(problem.loss, l1=problem.penalty.l1 > 0.0)
    if lack is not None:
        raise InputError(f"{who} {lack}.")


def _instead(loss: Loss, l1: bool) -> str:
    """Return what takes a loss and a penalty, if anything does."""
    if not loss.smooth:
        return "SquaredHinge, Logistic or another smooth loss"
    if l1:
        return "GridDescent for L1 and elastic nets, or RandomDescent on any matrix"
    return "NewtonCG, solver='newton'"
