"""What solvers know of the intercept: a last column of ones whose weight has no penalty.

Free columns, those without a penalty, are the last ones of a matrix. The intercept is one of them;
its column of ones need not be computed.
"""

from __future__ import annotations

import numpy as np

from gramless.base.types import FloatArray
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.stacked import without_ones
from gramless.solvers.objective import Problem, columns
from gramless.solvers.vectors import matvec


def last_columns(matrix: FeatureMatrix, n: int) -> FloatArray:
    """Return the last columns of a matrix, (n_rows, n)."""
    n_rows, n_columns = matrix.shape
    if n == 0:
        return np.empty((n_rows, 0))
    if n == without_ones(matrix)[1]:
        return np.ones((n_rows, 1))
    return matvec(matrix, np.eye(n_columns, n, n - n_columns))


def free_part(weights: Vector, n_free: int) -> Vector:
    """Return the entries of the free columns, (n_free, K): a view."""
    return weights[len(weights) - n_free :]


def initial_weights(problem: Problem) -> Vector:
    """Return the weights (n_columns, K) that a solver of smooth losses starts from.

    They are zero. Where the curvature of the loss has no bound, steps from zero could be too long
    by any factor: there the intercept is the loss's initial constant.
    """
    targets = columns(problem.targets)
    weights = np.zeros((problem.matrix.shape[1], targets.shape[1]))
    _, n_ones = without_ones(problem.matrix)
    if n_ones and problem.penalty.n_free and not problem.loss.smoothness < np.inf:
        weights[-1] = problem.loss.initial_constant(targets, problem.row_weights)
    return weights
