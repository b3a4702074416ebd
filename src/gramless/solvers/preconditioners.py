"""Cheap approximate inverses of the Hessian ``Z' S Z + alpha I``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gramless.matrices.base import Vector
from gramless.solvers.objective import Problem


class Preconditioner(Protocol):
    """Builds the diagonal by which a solver scales gradients."""

    def inverse_diagonal(self, problem: Problem) -> Vector:
        """Return what a gradient is multiplied by, (n_columns,)."""


@dataclass(frozen=True)
class Identity:
    """No preconditioning: plain conjugate gradients, as in RB16."""

    def inverse_diagonal(self, problem: Problem) -> Vector:
        """Return ones."""
        return np.ones(problem.matrix.shape[1])


@dataclass(frozen=True)
class Jacobi:
    """The exact diagonal of the Hessian.

    Within a grid the columns of a binned matrix are disjoint, so the weighted
    bin counts are the whole diagonal block of each grid: one rmatvec. Fast at
    first, slow at the end: it also spreads the eigenvalue ``alpha``, which most
    columns share.
    """

    def inverse_diagonal(self, problem: Problem) -> Vector:
        """Return ``1 / (diag(Z' S Z) + alpha)``; 1 where that is empty."""
        diagonal = problem.matrix.gram_diagonal(problem.row_weights)
        diagonal = diagonal + problem.penalty.diagonal(diagonal)
        return 1.0 / np.where(diagonal > 0, diagonal, 1.0)


@dataclass(frozen=True)
class RootJacobi:
    """The square root of the exact diagonal, halfway between plain and Jacobi.

    Full bins are slowed down as far as they must be, and the cluster of
    eigenvalues at ``alpha`` stays together: fewer iterations than both to 0.1
    and 0.01 % of the objective, as few as the diagonal to 1 %.
    """

    def inverse_diagonal(self, problem: Problem) -> Vector:
        """Return ``(diag(Z' S Z) + alpha) ** -0.5``; 1 where that is empty."""
        return np.sqrt(Jacobi().inverse_diagonal(problem))
