"""Paths of ``mean(loss) + alpha |w|_1`` over binned features, our solver, and dual objectives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import xlogy

from benchmarks.common import binned_map, numeric_targets, scipy_csr
from benchmarks.walks import MAX_ITERATIONS, Fit
from gramless.losses import Loss
from gramless.matrices.base import Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L1
from gramless.preprocessing.rows import Rows
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.objective import Problem


@dataclass(frozen=True)
class Formats:
    """A matrix in each solver's format, and its targets."""

    matrix: BinnedMatrix
    targets: Vector

    @cached_property
    def csr(self) -> sp.csr_matrix:
        # liblinear's interface accepts only the older class.
        return sp.csr_matrix(scipy_csr(self.matrix))

    @cached_property
    def csc(self) -> sp.csc_matrix:
        return self.csr.tocsc()


@dataclass(frozen=True)
class AlphaPath:
    """A loss over a matrix, with decreasing alphas."""

    data: Formats
    loss: Loss
    alphas: NDArray[np.float64]

    def problems(self) -> Iterator[Problem]:
        for alpha in self.alphas:
            yield Problem(self.data.matrix, self.data.targets, L1(float(alpha)), self.loss)


def formats(X: Rows, y: NDArray[np.generic], n_grids: int, n_jobs: int | None) -> Formats:
    """Bin rows with the default bandwidths; two classes become targets -1 and 1."""
    return Formats(binned_map(X, n_grids, n_jobs).fit_matrix(X), numeric_targets(y))


def largest_alpha(matrix: BinnedMatrix, targets: Vector, loss: Loss) -> float:
    """Return the alpha above which all weights are zero, the largest entry of the gradient."""
    gradient = loss.gradient(np.zeros_like(targets), targets)
    return float(np.abs(matrix.rmatvec(gradient / len(targets))).max())


def dual_value(problem: Problem, weights: Vector) -> float:
    """Return a lower bound on the objective, which equals it at the minimum.

    The bound is the dual objective at the negative gradient of the losses (for the squared loss,
    the residual), scaled down so that no column's product with it exceeds alpha.
    """
    matrix, y = problem.matrix, problem.targets
    negative_gradient = -problem.loss.gradient(matrix.matvec(weights), y)
    largest_product = float(np.abs(matrix.rmatvec(negative_gradient / len(y))).max())
    dual = (
        negative_gradient * min(1.0, problem.penalty.l1 / largest_product)
        if largest_product
        else negative_gradient
    )
    if problem.loss.name == "squared":
        return float(np.mean(dual * y - 0.5 * dual**2))
    share = dual * y
    if problem.loss.name == "logistic":
        return float(-np.mean(xlogy(share, share) + xlogy(1.0 - share, 1.0 - share)))
    return float(np.mean(share - 0.5 * share**2))


def ours(path: AlphaPath, n_jobs: int | None) -> Fit:
    def fit(tolerance: float) -> Vector:
        solver = GridDescent(tol=tolerance, max_iter=MAX_ITERATIONS, n_jobs=n_jobs)
        weights, path_weights = None, []
        for problem in path.problems():
            weights = solver.solve(problem, weights).weights
            path_weights.append(weights)
        return np.array(path_weights)

    return fit
