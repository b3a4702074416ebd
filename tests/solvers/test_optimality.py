"""Every solver, on each of the losses, penalties and matrices that it takes: optimality."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from gramless import losses
from gramless.base.errors import InputError
from gramless.features.nystrom import Nystrom
from gramless.losses import Huber, Loss, SmoothPinball
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import ComputedMatrix, DenseMatrix
from gramless.matrices.stacked import HStack, with_ones
from gramless.penalties import L1, L2, ElasticNet, Penalty
from gramless.solvers.base import Solver
from gramless.solvers.choose import SOLVERS
from gramless.solvers.objective import Problem
from gramless.solvers.random_descent import ParallelRandomDescent

from .pairwise import covering

N_ROWS, N_GRIDS, N_BINS = 60, 4, 5
TOL = 1e-6

LOSSES: dict[str, Loss] = {
    **{name: loss() for name, loss in losses.LOSSES.items()},
    "huber": Huber(0.5),
    "quantile": SmoothPinball(0.7, 0.2),
}
PENALTIES: dict[str, type[Penalty]] = {"l2": L2, "l1": L1, "net": ElasticNet}
BINS = ("binned", "unseen", "intercept")
DENSE = ("dense", "dense and intercept", "computed", "wide")
# Matrices that one solver alone is tried on; all others are asked whether they take them.
SPECIAL = {"landmarks": "falkon", "hybrid": "random"}
MATRICES = (*BINS, *DENSE, *SPECIAL)
ALL_SOLVERS: dict[str, Any] = {**SOLVERS, "parallel": ParallelRandomDescent(n_jobs=2)}
EVERYTHING = list(product(ALL_SOLVERS, LOSSES, PENALTIES, MATRICES))


@cache
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
        "landmarks": Nystrom(n_components=7, random_state=0).fit_matrix(rows),
        "hybrid": HStack([binned, dense]),
    }
    inner = others.get(kind, binned)
    free = kind in ("intercept", "dense and intercept", "wide")
    return (with_ones(inner), 1) if free else (inner, 0)


def cosines(rows: np.ndarray, out: np.ndarray) -> None:
    """Compute features without zeros."""
    n = out.shape[1]
    out[:] = np.cos(rows @ np.random.default_rng(3).normal(size=(2, n)) + np.arange(n))


UNBOUNDED = "poisson", "gamma", "tweedie"


@cache
def targets_of(loss: str) -> np.ndarray:
    random = np.random.default_rng(1)
    kind = LOSSES[loss].targets[0]
    if kind == "classes":
        return np.where(random.integers(3, size=(N_ROWS, 1)) == np.arange(3), 1.0, -1.0)
    numbers = random.normal(size=N_ROWS)
    if kind == "counts":
        return random.poisson(np.exp(2.0 + numbers)).astype(float)
    if kind == "amounts":
        return np.exp(numbers)
    return np.sign(numbers) if kind == "labels" else numbers


def with_options(solver: Any, **options: Any) -> Solver:
    """Return a solver with those options that it has."""
    known = {field.name for field in fields(solver)}
    chosen: Solver = replace(solver, **{k: v for k, v in options.items() if k in known})
    return chosen


@cache
def problem_of(loss: str, penalty: str, matrix: str) -> Problem:
    features, n_free = matrix_of(matrix)
    strength = PENALTIES[penalty](alpha=0.01, n_free=n_free)
    return Problem(features, targets_of(loss), strength, LOSSES[loss])


def taken(solver: str, loss: str, penalty: str, matrix: str) -> bool:
    """Tell whether a solver declares that it takes a case."""
    declared, problem = ALL_SOLVERS[solver].capabilities, problem_of(loss, penalty, matrix)
    need = declared.matrix
    return declared.lack(problem.loss, l1=problem.penalty.l1 > 0) is None and (
        need is None or need.met_by(problem.matrix)
    )


def known() -> Iterator[tuple[str, str, str, str]]:
    """Yield what solvers can do, by hand: a solver, loss, penalty and matrix."""
    smooth = [loss for loss in LOSSES if loss != "hinge"]
    alone = [loss for loss in smooth if loss not in ("multinomial", *UNBOUNDED)]
    for solver in ("pcg", "cg", "gmres"):
        yield from product([solver], ["squared"], ["l2"], MATRICES)
    yield from product(["cholesky"], ["squared"], ["l2"], [*DENSE, "landmarks"])
    yield ("falkon", "squared", "l2", "landmarks")
    yield from product(["newton"], smooth, ["l2"], MATRICES)
    yield from product(["grid"], smooth, PENALTIES, [*BINS, *DENSE, "landmarks"])
    yield from product(["random", "parallel"], alone, PENALTIES, MATRICES)


def cases() -> Iterator[Any]:
    """Yield a solver with each loss, penalty and matrix that it takes; more pairs are slow."""
    for solver in ALL_SOLVERS:
        solvable = [
            case for case in EVERYTHING if case[0] == solver and taken(*case) and tried(*case)
        ]
        each = covering(solvable, together=1)
        yield from each
        for case in covering(solvable):
            if case not in each:
                yield pytest.param(*case, marks=pytest.mark.slow)


def tried(solver: str, loss: str, penalty: str, matrix: str) -> bool:
    # One coordinate at a time takes too many steps where columns are nearly alike.
    endless = solver in ("random", "parallel") and matrix == "wide"
    return not endless and SPECIAL.get(matrix, solver) == solver


@pytest.mark.parametrize(("solver", "loss", "penalty", "matrix"), list(cases()))
def test_weights_are_near_optimal_for_every_solver(
    solver: str, loss: str, penalty: str, matrix: str
) -> None:
    problem = problem_of(loss, penalty, matrix)
    solution = with_options(ALL_SOLVERS[solver], tol=TOL, max_iter=5000).solve(problem)
    assert solution.status == "converged"
    zeros = np.zeros_like(solution.weights)
    largest = np.abs(problem.loss_gradient(zeros)).max()
    assert problem.kkt_residual(solution.weights) <= 10 * TOL * largest
    assert problem.kkt_residual(solution.weights + 0.01) > 100 * TOL * largest


def test_declared_losses_and_penalties_are_exactly_those_solved() -> None:
    assert {case for case in EVERYTHING if taken(*case)} == set(known())


def test_undeclared_combinations_are_rejected() -> None:
    """By name, with a solver that takes the problem, if there is one."""
    by_name = {type(solver).__name__: key for key, solver in ALL_SOLVERS.items()}
    for case in EVERYTHING:
        if taken(*case):
            continue
        named = type(ALL_SOLVERS[case[0]]).__name__
        with pytest.raises(InputError, match=f"^{named} (solves|takes|needs) ") as raised:
            ALL_SOLVERS[case[0]].solve(problem_of(*case[1:]))
        able = {name for name, key in by_name.items() if taken(key, *case[1:])}
        assert not able or able & set(re.findall(r"\w+", str(raised.value))), case
