"""Every solver, on every loss, penalty and matrix that it takes: the KKT residual at its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.losses import (
    Huber,
    Logistic,
    Loss,
    Multinomial,
    SmoothPinball,
    Squared,
    SquaredHinge,
)
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import DenseMatrix
from gramless.matrices.stacked import WithIntercept
from gramless.penalties import L1, L2, ElasticNet, Penalty
from gramless.solvers.choose import SOLVERS
from gramless.solvers.objective import Problem, Solver
from gramless.solvers.random_descent import ParallelRandomDescent

N_ROWS, N_GRIDS, N_BINS = 60, 4, 5
TOL = 1e-6

LOSSES: dict[str, Loss] = {
    "squared": Squared(),
    "hinge": SquaredHinge(),
    "logistic": Logistic(),
    "multinomial": Multinomial(),
    "huber": Huber(0.5),
    "quantile": SmoothPinball(0.7, 0.2),
}
PENALTIES: dict[str, type[Penalty]] = {"l2": L2, "l1": L1, "net": ElasticNet}
MATRICES = ("binned", "unseen", "intercept", "dense", "dense and intercept")
ALL_SOLVERS: dict[str, Any] = {**SOLVERS, "parallel": ParallelRandomDescent(n_jobs=2)}


def matrix_of(kind: str) -> tuple[FeatureMatrix, int]:
    """Return a matrix and how many of its columns are free."""
    random = np.random.default_rng(0)
    codes = random.integers(kind != "unseen", N_BINS + 1, size=(N_GRIDS, N_ROWS)).astype(np.uint8)
    binned = BinnedMatrix(codes, np.arange(N_GRIDS + 1) * N_BINS)
    dense = DenseMatrix(random.normal(size=(N_ROWS, 7)))
    inner: FeatureMatrix = dense if kind.startswith("dense") else binned
    return (WithIntercept(inner), 1) if "intercept" in kind else (inner, 0)


def targets_of(loss: str) -> np.ndarray:
    random = np.random.default_rng(1)
    if loss == "multinomial":
        return np.where(random.integers(3, size=(N_ROWS, 1)) == np.arange(3), 1.0, -1.0)
    numbers = random.normal(size=N_ROWS)
    return np.sign(numbers) if loss in ("hinge", "logistic") else numbers


def refused(solver: str, loss: str, penalty: str, matrix: str) -> str | None:
    """Return what a solver says of a case that it does not take."""
    if solver in ("pcg", "root", "jacobi", "cg", "gmres") and loss != "squared":
        return "squared loss only"
    if solver not in ("grid", "random", "parallel") and penalty != "l2":
        return "smooth penalty"
    if solver == "grid" and matrix.startswith("dense"):
        return "matrix of bins"
    if solver in ("random", "parallel") and loss == "multinomial":
        return "knows the losses"
    return None


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", ALL_SOLVERS)
def test_no_weight_is_far_from_optimal(solver: str, loss: str, penalty: str, matrix: str) -> None:
    features, n_free = matrix_of(matrix)
    options = {"alpha": 0.01, "n_free": n_free}
    problem = Problem(features, targets_of(loss), PENALTIES[penalty](**options), LOSSES[loss])
    precise: Solver = replace(ALL_SOLVERS[solver], tol=TOL, max_iter=5000)
    said = refused(solver, loss, penalty, matrix)
    if said is not None:
        with pytest.raises(InputError, match=said):
            precise.solve(problem)
        return
    solution = precise.solve(problem)
    assert solution.status == "converged"
    zeros = np.zeros_like(solution.weights)
    largest = np.abs(problem.loss_gradient(zeros)).max()
    assert problem.kkt_residual(solution.weights) <= 10 * TOL * largest
    assert problem.kkt_residual(solution.weights + 0.01) > 100 * TOL * largest
