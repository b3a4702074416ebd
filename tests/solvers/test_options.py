"""Solvers raise an error for options that arrays cannot hold, at construction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gramless import RandomBinning
from gramless.base.errors import InputError
from gramless.base.threads import thread_count
from gramless.penalties import ElasticNet
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.gmres import Gmres
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem
from gramless.solvers.preconditioners import SampledRows
from gramless.solvers.random_descent import RandomDescent

REFUSED: list[tuple[Callable[..., Any], str, Any]] = [
    (ConjugateGradient, "tol", 10**400),
    (ConjugateGradient, "max_iter", 2**70),
    (Gmres, "restart", 0),
    (Gmres, "tol", float("nan")),
    (GridDescent, "max_sweeps", 2**70),
    (GridDescent, "max_sweeps", 10**6),
    (NewtonCG, "inner_tol", 10**400),
    (RandomDescent, "tol", -1.0),
    (RandomDescent, "seed", 2**70),
    (SampledRows, "n_rows", 2**63),
]


def test_invalid_options_are_rejected() -> None:
    for kind, name, value in REFUSED:
        with pytest.raises(InputError, match=f"{kind.__name__}: {name} must be"):
            kind(**{name: value})


def test_huge_n_jobs_is_accepted() -> None:
    assert thread_count(4096) == 4096
    with pytest.raises(InputError, match="n_jobs must be at most 4,096 threads, got 1000000"):
        thread_count(10**6)


def test_vanishing_l1_penalty_ends_the_path() -> None:
    features = RandomBinning(n_grids=4, random_state=0).fit_matrix(
        np.random.default_rng(0).normal(size=(60, 2))
    )
    problem = Problem(features, np.arange(60.0), ElasticNet(0.1, 1e-300))
    solution = GridDescent().solve(problem)
    assert solution.n_iter < 50
