"""The alpha of a ridge-like fit that does best on a fifth of the training rows, held back."""

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
    """Return the alpha with the least ``error(responses, rows)``, and that error.

    Of equals the largest alpha. Each fit starts from the one before.
    """
    order = stream(0, "held back").permutation(matrix.shape[0])
    held_back, kept = np.split(order, [int(SHARE * len(order))])
    training, judging = matrix.take_rows(kept), matrix.take_rows(held_back)
    weights, errors = None, {}
    for alpha in sorted(alphas, reverse=True):
        problem = Problem(training, targets[kept], L2(alpha), loss)
        weights = solver.solve(problem, weights).weights
        errors[alpha] = error(judging.matvec(weights), held_back)
    best = min(errors, key=lambda alpha: errors[alpha])
    return best, errors[best]
