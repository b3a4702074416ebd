"""From names to solvers, and the diagonals that precondition them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.losses import Huber, Logistic, Loss, Multinomial, Squared, SquaredHinge
from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.choose import SOLVERS, choose_solver
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem
from gramless.solvers.preconditioners import Identity, Jacobi, RootJacobi, SampledRows
from gramless.solvers.random_descent import RandomDescent


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


LOSSES: dict[str, Loss] = {
    "squared": Squared(),
    "squared_hinge": SquaredHinge(),
    "logistic": Logistic(),
    "huber": Huber(0.5),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("l1_ratio", [1e-9, 0.5, 1.0])
def test_absolute_values_are_for_descent(loss: str, l1_ratio: float) -> None:
    options = {"tol": 1e-3, "max_iter": 9, "loss": LOSSES[loss], "l1_ratio": l1_ratio, "n_jobs": 2}
    solver, reason = choose_solver("auto", **options)
    assert solver == GridDescent(tol=1e-3, max_iter=9, n_jobs=2)
    assert reason.startswith(f"grid: {loss} loss with absolute values")
    named = {"grid": GridDescent(), "random": RandomDescent()}
    for name, kind in named.items():
        found, reason = choose_solver(name, **options)
        assert found == replace(kind, tol=1e-3, max_iter=9, n_jobs=2)
        assert reason == f"{name}, as asked"


@pytest.mark.parametrize("loss", LOSSES)
def test_without_absolute_values_the_choice_is_as_before(loss: str) -> None:
    found = choose_solver("auto", tol=1, max_iter=1, loss=LOSSES[loss], l1_ratio=0.0)
    assert found == choose_solver("auto", tol=1, max_iter=1, loss=LOSSES[loss])
    assert isinstance(found[0], ConjugateGradient if loss == "squared" else NewtonCG)


@pytest.mark.parametrize("solver", sorted(set(SOLVERS) - {"grid", "random"}))
@pytest.mark.parametrize("l1_ratio", [1e-9, 1.0])
def test_smooth_solvers_name_those_for_absolute_values(solver: str, l1_ratio: float) -> None:
    said = f"'{solver}' needs a smooth penalty.*l1_ratio above 0.*'auto' or 'grid', 'random'"
    with pytest.raises(InputError, match=said):
        choose_solver(solver, tol=1, max_iter=1, l1_ratio=l1_ratio)


@pytest.mark.parametrize("solver", sorted(set(SOLVERS) - {"newton", "grid", "random"}))
def test_solvers_of_squares_name_those_for_any_loss(solver: str) -> None:
    with pytest.raises(InputError, match="'logistic' use 'auto' or 'newton', 'grid', 'random'"):
        choose_solver(solver, tol=1, max_iter=1, loss=Logistic())


def test_random_descent_is_not_offered_for_coupled_outputs() -> None:
    """It would refuse them only when the features have been computed."""
    with pytest.raises(InputError, match="'random'.*multinomial.*'auto' or 'newton', 'grid'"):
        choose_solver("random", tol=1, max_iter=1, loss=Multinomial())
    assert choose_solver("auto", tol=1, max_iter=1, loss=Multinomial(), l1_ratio=1.0)[0]


@pytest.mark.parametrize("solver", ["pcg", "gmres"])
def test_what_is_offered_works_for_loss_and_penalty_together(solver: str) -> None:
    """A smooth solver of any loss would be refused in the next attempt."""
    with pytest.raises(InputError, match="'grid', 'random'") as caught:
        choose_solver(solver, tol=1, max_iter=1, loss=Logistic(), l1_ratio=1.0)
    assert "'newton'" not in str(caught.value)


def test_an_object_is_used_as_given_with_any_penalty() -> None:
    mine = GridDescent(tol=1e-9)
    assert choose_solver(mine, tol=1.0, max_iter=1, l1_ratio=1.0)[0] is mine


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
