"""Every solver, on every loss, penalty and matrix that it takes: the KKT residual at its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product
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
from gramless.matrices.computed import ComputedMatrix
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
BINS = ("binned", "unseen", "intercept")
MATRICES = (*BINS, "dense", "dense and intercept", "computed", "wide")
SQUARES = ("pcg", "nystrom", "root", "jacobi", "cg", "rows", "cholesky", "falkon", "gmres")
ALL_SOLVERS: dict[str, Any] = {**SOLVERS, "parallel": ParallelRandomDescent(n_jobs=2)}


def matrix_of(kind: str) -> tuple[FeatureMatrix, int]:
    """Return a matrix and how many of its columns are free."""
    random = np.random.default_rng(0)
    codes = random.integers(kind != "unseen", N_BINS + 1, size=(N_GRIDS, N_ROWS)).astype(np.uint8)
    binned = BinnedMatrix(codes, np.arange(N_GRIDS + 1) * N_BINS)
    dense = DenseMatrix(random.normal(size=(N_ROWS, 7)))
    rows = random.normal(size=(N_ROWS, 2))
    others: dict[str, FeatureMatrix] = {
        "dense": dense,
        "dense and intercept": dense,
        "computed": ComputedMatrix(rows, cosines, 7, budget=0),
        "wide": ComputedMatrix(rows, cosines, N_ROWS + 7),
    }
    inner = others.get(kind, binned)
    free = kind in ("intercept", "dense and intercept", "wide")
    return (WithIntercept(inner), 1) if free else (inner, 0)


def cosines(rows: np.ndarray, out: np.ndarray) -> None:
    """Compute features without zeros."""
    n = out.shape[1]
    out[:] = np.cos(rows @ np.random.default_rng(3).normal(size=(2, n)) + np.arange(n))


def targets_of(loss: str) -> np.ndarray:
    random = np.random.default_rng(1)
    if loss == "multinomial":
        return np.where(random.integers(3, size=(N_ROWS, 1)) == np.arange(3), 1.0, -1.0)
    numbers = random.normal(size=N_ROWS)
    return np.sign(numbers) if loss in ("hinge", "logistic") else numbers


def refused(solver: str, loss: str, penalty: str, matrix: str) -> str | None:
    """Return what a solver says of a case that it does not take."""
    if solver in SQUARES and loss != "squared":
        return "squared loss only"
    if solver not in ("grid", "random", "parallel") and penalty != "l2":
        return "smooth penalty"
    if solver == "cholesky" and matrix in BINS:
        return "column_gram"
    if solver == "falkon":
        return "needs Nyström features"
    if solver in ("random", "parallel") and loss == "multinomial":
        return "knows the losses"
    return None


def with_options(solver: Any, **options: Any) -> Solver:
    """Return a solver with those options that it has."""
    known = {field.name for field in fields(solver)}
    own: Solver = replace(solver, **{k: v for k, v in options.items() if k in known})
    return own


def cases() -> Iterator[Any]:
    """Yield a solver, loss, penalty and matrix; what takes long as slow."""
    for case in product(ALL_SOLVERS, LOSSES, PENALTIES, MATRICES):
        solver, loss, _, matrix = case
        long = (solver, loss) == ("grid", "multinomial") and matrix not in BINS
        if solver in ("random", "parallel") and matrix == "wide":
            # One coordinate at a time takes too many steps where columns are nearly alike.
            continue
        yield pytest.param(
            *case, marks=pytest.mark.slow if long and case[2:] != ("l1", "dense") else ()
        )


@pytest.mark.parametrize(("solver", "loss", "penalty", "matrix"), list(cases()))
def test_no_weight_is_far_from_optimal(solver: str, loss: str, penalty: str, matrix: str) -> None:
    features, n_free = matrix_of(matrix)
    options = {"alpha": 0.01, "n_free": n_free}
    problem = Problem(features, targets_of(loss), PENALTIES[penalty](**options), LOSSES[loss])
    precise = with_options(ALL_SOLVERS[solver], tol=TOL, max_iter=5000)
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
