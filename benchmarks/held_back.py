"""Select the alpha of a ridge-like fit on a fifth of the training rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from gramless.base.random import stream
from gramless.losses import Loss
from gramless.matrices.base import Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L2
from gramless.solvers.base import Solver
from gramless.solvers.objective import Problem

SHARE = 0.2


def choose_alpha(
    solver: Solver,
    loss: Loss,
    matrix: BinnedMatrix,
    targets: Vector,
    alphas: Iterable[float],
    error: Callable[[Vector, NDArray[np.intp]], float],
) -> tuple[float, float]:
    """Return the alpha with the smallest ``error(responses, rows)``, and that error.

    In a tie the largest alpha wins. Each fit starts from the solution of the one before.
    """
    order = stream(0, "held back").permutation(matrix.shape[0])
    validation, training_rows = np.split(order, [int(SHARE * len(order))])
    training_matrix, validation_matrix = (
        matrix.take_rows(training_rows),
        matrix.take_rows(validation),
    )
    weights, errors = None, {}
    for alpha in sorted(alphas, reverse=True):
        problem = Problem(training_matrix, targets[training_rows], L2(alpha), loss)
        weights = solver.solve(problem, weights).weights
        errors[alpha] = error(validation_matrix.matvec(weights), validation)
    best = min(errors, key=lambda alpha: errors[alpha])
    return best, errors[best]
