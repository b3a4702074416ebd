"""From names to solvers, and the diagonals that precondition them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gramless.base.errors import InputError
from gramless.losses import Huber, Logistic, Loss, Multinomial, Squared, SquaredHinge
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import ChunkedMatrix, DenseMatrix
from gramless.matrices.stacked import HStack, with_ones
from gramless.penalties import L2
from gramless.solvers import choose as costs
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.choose import REMOVED_SOLVERS, SOLVERS, Costs, choose_solver, path_solver
from gramless.solvers.direct import PreparedCholesky
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem
from gramless.solvers.preconditioners import Identity, SampledRows
from gramless.solvers.random_descent import RandomDescent

from .pairwise import each_value


def test_options_reach_the_solver() -> None:
    for name in ("auto", *SOLVERS):
        solver, reason = choose_solver(name, tol=1e-7, max_iter=17, n_jobs=2)
        assert type(solver) is type(SOLVERS["pcg" if name == "auto" else name])
        assert solver.n_jobs == 2
        if name != "cholesky":
            assert (solver.tol, solver.max_iter) == (1e-7, 17)
        assert reason


def test_names_map_to_preconditioners() -> None:
    chosen = {name: choose_solver(name, tol=1, max_iter=1)[0] for name in SOLVERS}
    kinds = {k: v.preconditioner for k, v in chosen.items() if isinstance(v, ConjugateGradient)}
    assert kinds == {
        "pcg": SampledRows(),
        "cg": Identity(),
    }
    assert choose_solver("auto", tol=1, max_iter=1)[0].preconditioner == SampledRows()
    assert ConjugateGradient().preconditioner == SampledRows()


def test_solver_object_is_used_as_given() -> None:
    mine = ConjugateGradient(tol=1e-9)
    solver, reason = choose_solver(mine, tol=1.0, max_iter=1)
    assert solver is mine
    assert "ConjugateGradient" in reason


def test_invalid_solvers_are_rejected() -> None:
    for unknown in ("newtons", "", "PCG"):
        with pytest.raises(InputError, match=r"unknown solver.*'auto', 'pcg', 'cg'"):
            choose_solver(unknown, tol=1.0, max_iter=1)
    for other in (None, 3, ConjugateGradient):
        with pytest.raises(InputError, match="solver"):
            choose_solver(other, tol=1.0, max_iter=1)  # type: ignore[arg-type]


def test_removed_solvers_name_the_file_that_holds_them() -> None:
    for solver, place in REMOVED_SOLVERS.items():
        message = rf"'{solver}' left gramless after .*0\.2\.0.* {re.escape(place)}"
        with pytest.raises(InputError, match=message):
            choose_solver(solver, tol=1.0, max_iter=1)
        assert (Path(__file__).parents[2] / place).is_file()


LOSSES: dict[str, Loss] = {
    "squared": Squared(),
    "squared_hinge": SquaredHinge(),
    "logistic": Logistic(),
    "huber": Huber(0.5),
}


@pytest.mark.parametrize(("loss", "l1_ratio"), each_value(LOSSES, [1e-9, 0.5, 1.0]))
def test_l1_penalty_chooses_descent(loss: str, l1_ratio: float) -> None:
    options = {"tol": 1e-3, "max_iter": 9, "loss": LOSSES[loss], "l1_ratio": l1_ratio, "n_jobs": 2}
    solver, reason = choose_solver("auto", **options)
    assert solver == GridDescent(tol=1e-3, max_iter=9, n_jobs=2)
    assert reason.startswith(f"grid: {loss} loss with absolute values")
    named = {"grid": GridDescent(), "random": RandomDescent()}
    for name, kind in named.items():
        result, reason = choose_solver(name, **options)
        assert result == replace(kind, tol=1e-3, max_iter=9, n_jobs=2)
        assert reason == f"{name}, as asked"


def test_smooth_penalty_lets_the_loss_decide() -> None:
    for name, loss in LOSSES.items():
        result = choose_solver("auto", tol=1, max_iter=1, loss=loss, l1_ratio=0.0)
        assert result == choose_solver("auto", tol=1, max_iter=1, loss=loss)
        assert isinstance(result[0], ConjugateGradient if name == "squared" else NewtonCG)


def test_smooth_solvers_reject_l1_and_name_alternatives() -> None:
    for solver in sorted(set(SOLVERS) - {"grid", "random"}):
        message = f"'{solver}' needs a smooth penalty.*l1_ratio above 0.*'auto' or 'grid', 'random'"
        for l1_ratio in (1e-9, 1.0):
            with pytest.raises(InputError, match=message):
                choose_solver(solver, tol=1, max_iter=1, l1_ratio=l1_ratio)


def test_least_squares_solvers_reject_other_losses_and_name_alternatives() -> None:
    for solver in sorted(set(SOLVERS) - {"newton", "grid", "random"}):
        with pytest.raises(InputError, match="'logistic' use 'auto' or 'newton', 'grid', 'random'"):
            choose_solver(solver, tol=1, max_iter=1, loss=Logistic())


def test_random_descent_is_not_suggested_for_coupled_outputs() -> None:
    """It would refuse them only when the features have been computed."""
    with pytest.raises(InputError, match="'random'.*multinomial.*'auto' or 'newton', 'grid'"):
        choose_solver("random", tol=1, max_iter=1, loss=Multinomial())
    assert choose_solver("auto", tol=1, max_iter=1, loss=Multinomial(), l1_ratio=1.0)[0]


def test_suggested_solvers_fit_loss_and_penalty() -> None:
    """A smooth solver of any loss would be refused in the next attempt."""
    with pytest.raises(InputError, match="'grid', 'random'") as caught:
        choose_solver("pcg", tol=1, max_iter=1, loss=Logistic(), l1_ratio=1.0)
    assert "'newton'" not in str(caught.value)


# With a matrix: direct or iterative.


class Shape(ChunkedMatrix):
    """A matrix of any size that is never looked into."""

    shape, dtype, stored = (0, 0), np.dtype(np.float32), 1.0

    def __init__(
        self, n_rows: int, n_columns: int, dtype: type = np.float32, stored: float = 1.0
    ) -> None:
        self.shape, self.dtype, self.stored = (n_rows, n_columns), np.dtype(dtype), stored

    def chunk(self, start: int, stop: int, scratch: Any = None) -> Any:
        raise AssertionError("nobody needs the numbers to choose a solver")

    def take_rows(self, rows: Any) -> ChunkedMatrix:
        raise AssertionError("nobody needs the rows to choose a solver")


def auto(matrix: Any, **options: Any) -> tuple[str, str]:
    """Return the name of what is chosen, and why."""
    solver, reason = choose_solver("auto", tol=1e-2, max_iter=99, matrix=matrix, **options)
    name = next(name for name, one in SOLVERS.items() if type(one) is type(solver))
    assert reason.startswith(f"{name}: ")
    return name, reason.removeprefix(f"{name}: ")


@pytest.fixture
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "large_array_budget_for", lambda _: 10**12)


def test_few_columns_are_solved_directly(plenty: None) -> None:
    name, reason = auto(Shape(100_000, 1024))
    assert name == "cholesky"
    assert "1,024 columns" in reason
    assert "30 iterations" in reason
    direct, iterative = (float(number) for number in re.findall(r"some ([\d.e+]+) s", reason))
    assert direct < iterative


def test_many_columns_are_solved_iteratively(plenty: None) -> None:
    name, reason = auto(Shape(100_000, 20_000))
    assert name == "pcg"
    assert "20,000 columns" in reason
    direct, iterative = (float(number) for number in re.findall(r"some ([\d.e+]+) s", reason))
    assert iterative < direct


def test_expensive_passes_favour_the_direct_solver(plenty: None) -> None:
    """Break-even is at some 1,050 columns that are stored, for one output."""
    assert auto(Shape(100_000, 2500))[0] == "pcg"
    assert auto(Shape(100_000, 2500, stored=0.0))[0] == "cholesky"
    assert auto(Shape(100_000, 2500), n_outputs=10)[0] == "cholesky"
    assert auto(Shape(100_000, 1000))[0] == "cholesky"
    assert auto(Shape(100_000, 1000, dtype=np.float64))[0] == "pcg"


def test_costs_include_every_part_of_a_matrix(plenty: None) -> None:
    """What a column of ones or other columns hide is seen."""
    one = Shape(100_000, 2500, stored=0.0)
    assert auto(with_ones(one))[0] == "cholesky"
    small = Shape(100_000, 10)
    assert auto(HStack([one, small]))[0] == "cholesky"
    costs_of = Costs.of(HStack([one, small]), 1)
    assert costs_of.iteration_seconds == pytest.approx(
        Costs.of(one, 1).iteration_seconds + Costs.of(small, 1).iteration_seconds
    )


def test_memory_limit_rules_out_the_direct_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "large_array_budget_for", lambda _: 10_000_000)
    name, reason = auto(Shape(100_000, 1024))
    assert name == "pcg"
    assert "would need 0.017 GB of the 0.01 GB" in reason


def test_matrix_of_bins_does_not_change_the_choice() -> None:
    binned = BinnedMatrix(np.ones((3, 50), np.uint8), np.arange(4))
    for loss in (Squared(), Logistic()):
        for l1_ratio in (0.0, 1.0):
            options = {"tol": 1e-2, "max_iter": 9, "loss": loss, "l1_ratio": l1_ratio}
            assert choose_solver("auto", matrix=binned, **options) == choose_solver(
                "auto", **options
            )


def test_other_losses_and_penalties_choose_newton_and_descent() -> None:
    matrix = Shape(1000, 10)
    assert auto(matrix, loss=Logistic())[0] == "newton"
    name, reason = auto(matrix, l1_ratio=0.5)
    assert name == "grid"
    assert reason.endswith("descent over columns")


@pytest.mark.parametrize("bytes_free", [10**9, 100])
def test_path_solver_solves_each_problem(bytes_free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it chooses solves each problem as a fresh solver does."""
    monkeypatch.setattr(costs, "large_array_budget_for", lambda _: bytes_free)
    rng = np.random.default_rng(0)
    matrix, y = DenseMatrix(rng.normal(size=(300, 20))), rng.normal(size=300)
    weights = np.full(300, 1.0 / 300)
    solver = path_solver(matrix, weights, tol=1e-8, max_iter=50, n_alphas=3)
    assert isinstance(solver, PreparedCholesky if bytes_free > 100 else ConjugateGradient)
    for alpha in (1.0, 0.1):
        problem = Problem(matrix, y, L2(alpha))
        assert problem.kkt_residual(solver.solve(problem).weights) < 1e-6
