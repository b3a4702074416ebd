"""From names to solvers, and the diagonals that precondition them."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.choose import SOLVERS, choose_solver
from gramless.solvers.objective import Problem
from gramless.solvers.preconditioners import Identity, Jacobi, RootJacobi, SampledRows


@pytest.mark.parametrize("name", ["auto", *SOLVERS])
def test_options_reach_the_solver(name: str) -> None:
    solver, reason = choose_solver(name, tol=1e-7, max_iter=17, n_jobs=2)
    assert type(solver) is type(SOLVERS["pcg" if name == "auto" else name])
    assert (solver.tol, solver.max_iter, solver.n_jobs) == (1e-7, 17, 2)
    assert reason


def test_names() -> None:
    chosen = {name: choose_solver(name, tol=1, max_iter=1)[0] for name in SOLVERS}
    kinds = {k: v.preconditioner for k, v in chosen.items() if isinstance(v, ConjugateGradient)}
    assert kinds == {
        "pcg": SampledRows(),
        "root": RootJacobi(),
        "jacobi": Jacobi(),
        "cg": Identity(),
    }
    assert choose_solver("auto", tol=1, max_iter=1)[0].preconditioner == SampledRows()
    assert ConjugateGradient().preconditioner == SampledRows()


def test_an_object_is_used_as_given() -> None:
    mine = ConjugateGradient(tol=1e-9)
    solver, reason = choose_solver(mine, tol=1.0, max_iter=1)
    assert solver is mine
    assert "ConjugateGradient" in reason


@pytest.mark.parametrize("solver", ["newtons", "", "PCG"])
def test_unknown_names(solver: str) -> None:
    with pytest.raises(InputError, match=r"unknown solver.*'auto', 'pcg', 'root', 'jacobi', 'cg'"):
        choose_solver(solver, tol=1.0, max_iter=1)


@pytest.mark.parametrize("solver", [None, 3, ConjugateGradient])
def test_what_is_no_solver(solver: object) -> None:
    with pytest.raises(InputError, match="solver"):
        choose_solver(solver, tol=1.0, max_iter=1)  # type: ignore[arg-type]


def test_identity_is_ones(case) -> None:  # type: ignore[no-untyped-def]
    diagonal = Identity().inverse(case.problem).diagonal
    assert diagonal.tolist() == [1.0] * case.dense.shape[1]


def test_jacobi_inverts_the_diagonal_of_the_hessian(case) -> None:  # type: ignore[no-untyped-def]
    inverse = Jacobi().inverse(case.problem).diagonal
    np.testing.assert_allclose(inverse * np.diag(case.hessian), 1.0, rtol=1e-12)


def test_root_jacobi_is_halfway(case) -> None:  # type: ignore[no-untyped-def]
    inverse = RootJacobi().inverse(case.problem).diagonal
    np.testing.assert_allclose(inverse**2 * np.diag(case.hessian), 1.0, rtol=1e-12)


def test_jacobi_leaves_empty_columns_alone() -> None:
    matrix = BinnedMatrix(np.array([[1, 3]], np.uint8), np.array([0, 3]))
    problem = Problem(matrix, np.ones(2), L2(0.0))
    np.testing.assert_allclose(Jacobi().inverse(problem).diagonal, [2.0, 1.0, 2.0])
    np.testing.assert_allclose(RootJacobi().inverse(problem).diagonal ** 2, [2.0, 1.0, 2.0])
