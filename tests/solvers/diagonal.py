"""A preconditioner whose diagonal differs from column to column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramless.solvers.objective import Problem
from gramless.solvers.preconditioners import DiagonalInverse, Preconditioner


@dataclass(frozen=True)
class Diagonal(Preconditioner):
    """The inverse of the Hessian's diagonal; 1 where that is empty."""

    def inverse(self, problem: Problem) -> DiagonalInverse:
        diagonal = problem.matrix.gram_diagonal(problem.row_weights)
        diagonal = diagonal + problem.penalty.diagonal(diagonal)
        return DiagonalInverse(1.0 / np.where(diagonal > 0, diagonal, 1.0))
