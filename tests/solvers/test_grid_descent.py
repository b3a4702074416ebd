"""Descent over grids: optimality for every loss and penalty, peers, threads, hard cases."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import ElasticNet as ScikitElasticNet
from sklearn.linear_model import Lasso

from gramless.base import threads
from gramless.base.errors import InputError
from gramless.features.neighbours import NeighbourMatrix
from gramless.losses import Loss, Squared
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.codes import TaskSizes
from gramless.matrices.stacked import with_ones
from gramless.penalties import L1, L2, ElasticNet, Penalty
from gramless.solvers import working_set
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.gmres import Gmres
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem, Solution, columns
from gramless.solvers.preconditioners import Identity

from .pairwise import each_value, pairs
from .references import (
    LOSSES,
    PENALTIES,
    Array,
    Case,
    case_over,
    never_rises,
    targets_of,
)

N_ROWS, N_GRIDS, N_BINS = 120, 6, 7
pytestmark = pytest.mark.usefixtures("no_warning_goes_unseen")


every_penalty = pytest.mark.parametrize("penalty", PENALTIES.keys())
with_and_without_intercept = pytest.mark.parametrize("intercept", [False, True])


def binned(
    n_rows: int = N_ROWS, *, unseen: bool = False, seed: int = 0, **sizes: int
) -> BinnedMatrix:
    """Draw a matrix whose bins are of very different sizes."""
    rng = np.random.default_rng(seed)
    codes = (1 + N_BINS * rng.random((N_GRIDS, n_rows)) ** 2).astype(np.uint8)
    if unseen:
        codes[rng.random(codes.shape) < 0.2] = 0
    return BinnedMatrix(codes, np.arange(N_GRIDS + 1) * N_BINS, tasks=TaskSizes(**sizes))


def make_case(
    loss: Loss, penalty: Penalty, *, matrix: BinnedMatrix | None = None, **options: Any
) -> Case:
    return case_over(binned() if matrix is None else matrix, loss, penalty, **options)


@cache
def case_of(
    loss: str = "squared",
    penalty: str = "l1",
    intercept: bool = False,
    n_outputs: int | None = None,
) -> Case:
    return make_case(LOSSES[loss], PENALTIES[penalty], intercept=intercept, n_outputs=n_outputs)


def precise(**options: Any) -> GridDescent:
    return GridDescent(**{"tol": 1e-5, "max_iter": 1000, **options})


# The solution.


@cache
def matrix_of(kind: str) -> BinnedMatrix:
    if kind == "unseen":
        return binned(unseen=True)
    if kind == "many parts":
        return binned(part_rows=5)
    codes = binned().codes.copy()
    if kind == "wide codes":
        codes = np.asfortranarray(codes.astype(np.uint16))
        codes.flags.writeable = False
        return BinnedMatrix(codes, np.arange(N_GRIDS + 1) * N_BINS)
    codes[0] = 1
    return BinnedMatrix(codes, np.array([0, 1, 8, 20, 27, 34, 41]))


@pytest.mark.parametrize(
    ("loss", "penalty", "matrix", "intercept", "n_outputs", "weighted"),
    [
        *each_value(
            LOSSES,
            PENALTIES,
            ["unseen", "many parts", "wide codes", "one bin and empty bins"],
            [False, True],
            [3, None],
            [False, True, True],
        ),
        *each_value(
            reversed(LOSSES),
            PENALTIES,
            ["one bin and empty bins", "unseen", "many parts", "wide codes"],
            [True, False],
            [None, 3],
            [True, False, False],
        ),
    ],
)
def test_solution_is_optimal_to_the_documented_tolerance(
    loss: str, penalty: str, matrix: str, intercept: bool, n_outputs: int | None, weighted: bool
) -> None:
    case = make_case(
        LOSSES[loss],
        PENALTIES[penalty],
        matrix=matrix_of(matrix),
        intercept=intercept,
        n_outputs=n_outputs,
        weighted=weighted,
    )
    for tol in (1e-2, 1e-5):
        solution = precise(tol=tol).solve(case.problem)
        assert solution.status == "converged"
        assert solution.weights.shape == (case.dense.shape[1], *case.problem.targets.shape[1:])
        assert never_rises(solution)
        w = columns(solution.weights)
        at_zero = np.abs(case.gradient(np.zeros_like(w)))
        scale = case.problem.penalty.l1
        if scale == 0.0:
            scale = at_zero[: len(w) - intercept].max(axis=0)
        distance = case.problem.penalty.distance(w, case.gradient(w)).max(axis=0)
        result = float((distance / scale).max())
        np.testing.assert_allclose(solution.history[-1]["residual"], result, rtol=1e-6, atol=1e-10)
        assert result <= tol * (1 + 1e-6)
        assert case.residual(solution.weights) <= tol * (1 + 1e-6)
        assert case.problem.kkt_residual(solution.weights) <= tol * at_zero.max() * (1 + 1e-6)
    empty = ~case.dense.any(axis=0)
    np.testing.assert_allclose(solution.weights[empty], 0.0, atol=1e-4)


@pytest.mark.parametrize(
    ("intercept", "n_outputs", "l1_ratio"), pairs([False, True], [None, 3], [0.3, 1.0])
)
def test_solution_matches_scikit_learn(
    intercept: bool, n_outputs: int | None, l1_ratio: float
) -> None:
    penalty: Penalty = L1(0.01) if l1_ratio == 1.0 else ElasticNet(0.01, l1_ratio)
    case = make_case(Squared(), penalty, intercept=intercept, n_outputs=n_outputs)
    options: dict[str, Any] = {"alpha": 0.01, "tol": 1e-10, "max_iter": 100_000}
    options["fit_intercept"] = intercept
    peer = Lasso(**options) if l1_ratio == 1.0 else ScikitElasticNet(l1_ratio=l1_ratio, **options)
    peer.fit(case.dense[:, : N_GRIDS * N_BINS], case.problem.targets)
    expected = peer.coef_.T
    if intercept:
        last = np.reshape(peer.intercept_, (1, *expected.shape[1:]))
        expected = np.concatenate([expected, last])
    result = precise(tol=1e-6).solve(case.problem)
    least = case.problem.value(expected)
    assert case.problem.value(result.weights) == pytest.approx(least, rel=1e-9)
    np.testing.assert_allclose(result.weights, expected, atol=1e-3)


@pytest.mark.parametrize(("loss", "l1_ratio"), each_value(LOSSES, [0.0, 1.0]))
def test_elastic_net_equals_l1_and_l2_at_its_ends(loss: str, l1_ratio: float) -> None:
    net = case_of(loss).problem
    alone: Penalty = L1(0.01) if l1_ratio == 1.0 else L2(0.01)
    first = precise().solve(replace(net, penalty=ElasticNet(0.01, l1_ratio)))
    second = precise().solve(replace(net, penalty=alone))
    np.testing.assert_array_equal(first.weights, second.weights)


# Rows and codes.


@pytest.mark.parametrize(
    ("loss", "penalty", "intercept"), each_value(LOSSES, reversed(PENALTIES), [False, True])
)
def test_integer_weights_equal_repeated_rows(loss: str, penalty: str, intercept: bool) -> None:
    case = make_case(LOSSES[loss], PENALTIES[penalty], intercept=intercept)
    times = np.random.default_rng(5).integers(0, 4, N_ROWS)
    rows = np.repeat(np.arange(N_ROWS), times)
    weighted = replace(case.problem, sample_weight=7.0 * times)
    repeated = replace(
        case.problem, matrix=case.problem.matrix.take_rows(rows), targets=case.problem.targets[rows]
    )
    results = [precise(tol=1e-6).solve(problem) for problem in (weighted, repeated)]
    assert [solution.status for solution in results] == ["converged", "converged"]
    values = [weighted.value(solution.weights) for solution in results]
    assert values[0] == pytest.approx(values[1], rel=1e-8)
    assert values[1] == pytest.approx(repeated.value(results[1].weights), rel=1e-10)


@pytest.mark.parametrize(
    ("n_rows", "loss"), each_value([32_768, 32_769, 140_000], ["squared", "logistic"])
)
def test_more_rows_than_one_part_are_solved(n_rows: int, loss: str) -> None:
    rng = np.random.default_rng(n_rows)
    codes = rng.integers(0, 4, (3, n_rows)).astype(np.uint8)
    matrix = BinnedMatrix(codes, 3 * np.arange(4))
    scores = matrix.matvec(rng.normal(size=9)) + 0.2 * rng.normal(size=n_rows)
    targets = targets_of(LOSSES[loss], scores)
    case = Case(Problem(matrix, targets, L1(1e-3), LOSSES[loss]), matrix.toarray())
    solution = precise().solve(case.problem)
    assert solution.status == "converged"
    assert case.residual(solution.weights) <= 1e-5 * (1 + 1e-6)


# Hard cases.


@pytest.mark.parametrize(
    ("loss", "penalty", "intercept"),
    each_value(
        ["huber", "squared", "logistic", "quantile", "multinomial"], PENALTIES, [True, True, False]
    ),
)
def test_one_row_converges(loss: str, penalty: str, intercept: bool) -> None:
    """With a free weight, losses of one class fall for ever: only numbers have a minimum."""
    intercept = intercept and loss in ("squared", "huber", "quantile")
    case = make_case(LOSSES[loss], PENALTIES[penalty], intercept=intercept, matrix=binned(1))
    solution = precise().solve(case.problem)
    assert solution.status == "converged"
    # With a free weight the gradient at zero is not the scale of the others.
    assert case.problem.kkt_residual(solution.weights) <= 1e-5 * (1 + 1e-6)


@pytest.mark.parametrize(
    ("constant", "penalty", "intercept"),
    each_value([-3.0, 0.0, 1e3, 0.0], ["net", "l2", "l1"], [True, False]),
)
def test_constant_targets_are_solved_by_the_intercept(
    constant: float, penalty: str, intercept: bool
) -> None:
    case = case_of("squared", penalty, intercept)
    problem = replace(case.problem, targets=np.full(N_ROWS, constant))
    solution = GridDescent(tol=1e-4).solve(problem)
    assert solution.status == "converged"
    if constant == 0.0:
        assert solution.n_iter == 0
        assert not solution.weights.any()
    if intercept:
        np.testing.assert_allclose(solution.weights[:-1], 0.0, atol=1e-3 * abs(constant))
        assert solution.weights[-1] == pytest.approx(constant, rel=1e-3)


@pytest.mark.parametrize(
    ("loss", "n_outputs", "l1_ratio"), each_value(LOSSES, [None, 3], [0.4, 1.0])
)
def test_beyond_the_largest_alpha_all_weights_are_zero(
    loss: str, n_outputs: int | None, l1_ratio: float
) -> None:
    case = case_of(loss, "l1", False, n_outputs)
    shape = (N_GRIDS * N_BINS, columns(case.problem.targets).shape[1])
    largest = np.abs(case.gradient(np.zeros(shape))).max() / l1_ratio
    beyond = replace(case.problem, penalty=ElasticNet(largest * 1.01, l1_ratio))
    start = np.ones((shape[0], *case.problem.targets.shape[1:]))
    cold, warm = precise().solve(beyond), precise().solve(beyond, start)
    assert (cold.status, cold.n_iter) == ("converged", 0)
    assert warm.status == "converged"
    assert not cold.weights.any()
    assert not warm.weights.any()
    within = replace(case.problem, penalty=ElasticNet(largest * 0.9, l1_ratio))
    result = precise().solve(within)
    assert result.status == "converged"
    assert 0 < result.history[-1]["non_zeros"] < result.weights.size


@pytest.mark.parametrize("loss", ["squared hinge", "multinomial", "quantile"])
def test_strong_penalty_keeps_the_intercept(loss: str) -> None:
    case = make_case(LOSSES[loss], L1(10.0), intercept=True, weighted=True)
    solution = precise(tol=1e-8).solve(case.problem)
    assert not solution.weights[:-1].any()
    constants = Problem(
        with_ones(BinnedMatrix(np.zeros((0, N_ROWS), np.uint8), np.zeros(1, int))),
        case.problem.targets,
        L2(0.0, n_free=1),
        LOSSES[loss],
        case.problem.sample_weight,
    )
    expected = NewtonCG(Identity(), tol=1e-9).solve(constants)
    least = constants.value(expected.weights)
    assert constants.value(solution.weights[-1:]) == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize(
    ("penalty", "intercept"), each_value([L2(0.0), L1(0.0), ElasticNet(0.0, 0.5)], [False, True])
)
def test_zero_penalty_reaches_least_squares(penalty: Penalty, intercept: bool) -> None:
    """More directions than bins: the columns of each grid add up to the same."""
    case = make_case(Squared(), penalty, intercept=intercept)
    began = time.perf_counter()
    solution = precise(tol=1e-7).solve(case.problem)
    assert time.perf_counter() - began < 10.0
    assert solution.status == "converged"
    least = np.linalg.lstsq(case.dense, case.problem.targets, rcond=None)[0]
    np.testing.assert_allclose(case.dense @ solution.weights, case.dense @ least, atol=1e-4)


@pytest.mark.parametrize(
    ("loss", "penalty"),
    each_value(
        ["squared hinge", "logistic", "multinomial"], [L2(0.0), L2(1e-9), L1(0.0), L1(1e-5)]
    ),
)
def test_separable_classes_are_separated_with_finite_weights(loss: str, penalty: Penalty) -> None:
    """Without a penalty the logistic losses have no minimum: they fall for ever."""
    matrix = binned(20)
    rng = np.random.default_rng(7)
    targets = targets_of(LOSSES[loss], rng.normal(size=(20, 3)))
    problem = Problem(matrix, targets, penalty, LOSSES[loss])
    solution = GridDescent(max_iter=30).solve(problem)
    assert np.isfinite(solution.weights).all()
    assert never_rises(solution)
    z = matrix.matvec(solution.weights)
    assert (np.argmax(z, axis=1) == np.argmax(targets, axis=1)).all() or loss != "multinomial"
    assert (np.sign(z) == targets).all() or loss == "multinomial"


@pytest.mark.parametrize(
    ("loss", "penalty", "intercept"),
    each_value(["huber", "quantile"], ["l2", "net"], [True, False, True, False]),
)
def test_zero_curvature_at_the_start_converges(loss: str, penalty: str, intercept: bool) -> None:
    """No row curves these losses at the start."""
    case = case_of(loss, penalty, intercept)
    problem = replace(case.problem, targets=case.problem.targets + 100.0)
    assert not problem.loss.curvature(np.zeros(N_ROWS), problem.targets).any()
    solution = GridDescent(max_iter=1000).solve(problem)
    assert solution.status == "converged"
    assert never_rises(solution)
    assert replace(case, problem=problem).residual(solution.weights) <= 1e-2


@pytest.mark.slow
def test_stalled_objective_stops_the_solver() -> None:
    """Far more columns than rows, and next to no penalty: many more rounds would follow."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 10, (100, 60)).astype(np.uint8)
    matrix = BinnedMatrix(codes, 10 * np.arange(101), scale=0.1)
    problem = Problem(matrix, rng.normal(size=60), ElasticNet(1e-7, 0.5))
    solution = GridDescent(max_sweeps=200, max_iter=1000).solve(problem)
    assert solution.status == "stalled"
    objectives = [state["objective"] for state in solution.history]
    falls = -np.diff(objectives) / objectives[-1]
    assert (falls[-3:] < 1e-7).all()
    assert falls[:-3].max() > 1e-7
    assert solution.history[-1]["residual"] < 0.05


@pytest.mark.parametrize("l1_ratio", [1e-3, 1e-9])
def test_tiny_l1_ratio_is_solved(l1_ratio: float) -> None:
    """Rounding may end it first: then the weights still are as good as can be."""
    case = make_case(Squared(), ElasticNet(0.01, l1_ratio))
    solution = GridDescent().solve(case.problem)
    assert solution.status in ("stalled", "converged")
    assert case.residual(solution.weights) <= 1e-2


def test_matrix_without_columns_converges() -> None:
    matrix = BinnedMatrix(np.zeros((0, 5), np.uint8), np.array([0]))
    for penalty in (L1(0.1), L2(0.1)):
        solution = GridDescent().solve(Problem(matrix, np.ones(5), penalty))
        assert (solution.status, solution.weights.shape) == ("converged", (0,))


def test_column_of_ones_gives_the_mean() -> None:
    matrix = with_ones(BinnedMatrix(np.zeros((0, 5), np.uint8), np.array([0])))
    solution = GridDescent().solve(Problem(matrix, np.arange(5.0), L1(0.1, n_free=1)))
    assert solution.status == "converged"
    np.testing.assert_allclose(solution.weights, [2.0])


# Starts.


@every_penalty
def test_start_returns_to_zero_if_zero_is_optimal(penalty: str) -> None:
    """Without L1 there is nothing to compare with: the gradient at zero weights is zero."""
    matrix = BinnedMatrix(np.array([[1, 1, 2, 2]], np.uint8), np.array([0, 2]))
    problem = Problem(matrix, np.array([1.0, -1.0, 1.0, -1.0]), PENALTIES[penalty])
    warm = precise().solve(problem, np.array([1.0, -3.0]))
    assert warm.status == "converged"
    np.testing.assert_allclose(warm.weights, 0.0, atol=1e-4)


# The account of the work.


@pytest.mark.parametrize(
    ("loss", "penalty", "n_outputs", "warm"),
    each_value(LOSSES, PENALTIES, [None, 3], [False, True]),
)
def test_history_records_objective_and_non_zeros(
    loss: str, penalty: str, n_outputs: int | None, warm: bool
) -> None:
    problem = case_of(loss, penalty, True, n_outputs).problem
    shape = (N_GRIDS * N_BINS + 1, *problem.targets.shape[1:])
    start = np.random.default_rng(5).normal(size=shape) if warm else np.zeros(shape)
    iterates = [start]
    solution = precise(max_sweeps=3).solve(
        problem, start if warm else None, lambda step, w: iterates.append(w.copy())
    )
    history = solution.history
    assert len(history) == solution.n_iter + 1 == len(iterates)
    assert all(set(e) == {"objective", "residual", "sweeps", "non_zeros"} for e in history)
    # Without a start the solver finds one of its own: its weights are not seen.
    known = list(zip(history, iterates, strict=True))[0 if warm else 1 :]
    values = [problem.value(w) for _, w in known]
    np.testing.assert_allclose([entry["objective"] for entry, _ in known], values, rtol=1e-11)
    assert [entry["non_zeros"] for entry, _ in known] == [np.count_nonzero(w) for _, w in known]
    assert never_rises(solution)
    n_runs = columns(problem.targets).shape[1]
    # Sweeps on the way to the start that it finds are counted too.
    assert (history[0]["sweeps"] == 0) >= warm
    for before, after in pairwise(entry["sweeps"] for entry in history):
        assert 1 <= after - before <= 3 * n_runs


@pytest.mark.parametrize("loss", ["squared", "multinomial"])
def test_seed_changes_the_path_but_not_the_solution(loss: str) -> None:
    problem = case_of(loss, "net").problem
    first, again, other = (precise(seed=seed).solve(problem) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.weights, again.weights)
    assert first.history == again.history
    assert (first.weights != other.weights).any()
    ends = [solution.history[-1]["objective"] for solution in (first, other)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-7)


# What is refused.


@with_and_without_intercept
def test_matrices_without_bins_or_gram_are_rejected(intercept: bool) -> None:
    # Its columns are not disjoint, and it has no Gram matrix of all of them.
    neither = NeighbourMatrix(np.ones((1, 4), np.uint32), 2)
    matrix = with_ones(neither) if intercept else neither
    with pytest.raises(
        InputError, match="GridDescent needs a matrix of bins.*column_gram"
    ) as raised:
        GridDescent().solve(Problem(matrix, np.ones(4), L1(0.1)))
    assert "RandomDescent" in str(raised.value)


@pytest.mark.parametrize("solver", [ConjugateGradient(), NewtonCG(), Gmres()])
def test_smooth_solvers_reject_l1(solver: Any) -> None:
    for penalty in (L1(0.1), ElasticNet(0.1, 1e-3)):
        with pytest.raises(InputError, match="needs a smooth penalty; use GridDescent"):
            solver.solve(replace(case_of().problem, penalty=penalty))


@pytest.mark.parametrize(
    ("solver", "penalty"),
    each_value([ConjugateGradient(tol=1e-9), NewtonCG(tol=1e-6)], [L1(0.0), ElasticNet(0.1, 0.0)]),
)
def test_smooth_solvers_accept_elastic_nets_without_l1(solver: Any, penalty: Penalty) -> None:
    problem = replace(case_of().problem, penalty=penalty)
    same = replace(problem, penalty=L2(penalty.l2))
    np.testing.assert_allclose(solver.solve(problem).weights, solver.solve(same).weights)


# Threads.


@pytest.fixture
def many_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let three threads run on any machine."""
    monkeypatch.setattr(threads, "available_cpus", lambda: 4)


@dataclass(frozen=True)
class Large:
    """What a large problem is made of; its matrix is made anew for each number of threads."""

    codes: NDArray[np.uint8]
    targets: Array
    loss: Loss

    def solve(self, n_jobs: int) -> Solution:
        matrix = BinnedMatrix(self.codes, 3 * np.arange(7), n_jobs=n_jobs)
        problem = Problem(with_ones(matrix), self.targets, L1(1e-4, n_free=1), self.loss)
        return GridDescent(max_iter=2, n_jobs=n_jobs).solve(problem)


@cache
def large(loss: str, n_outputs: int | None = None) -> tuple[Large, Solution]:
    """Draw a problem of four parts with more non-zeros than a thread is worth."""
    rng = np.random.default_rng(8)
    n_rows = 70_000
    codes = rng.integers(0, 4, (6, n_rows)).astype(np.uint8)
    shape = (n_rows,) if n_outputs is None else (n_rows, n_outputs)
    scores = (codes.T - 1.5) @ rng.normal(size=(6, *shape[1:])) + rng.normal(size=shape)
    problem = Large(codes, targets_of(LOSSES[loss], scores), LOSSES[loss])
    return problem, problem.solve(1)


def assert_same(actual: Solution, expected: Solution) -> None:
    assert actual.weights.tobytes() == expected.weights.tobytes()
    assert actual.history == expected.history
    assert actual.status == expected.status


@pytest.mark.usefixtures("many_cpus")
@pytest.mark.parametrize("n_jobs", [2, 3])
@pytest.mark.parametrize(("loss", "n_outputs"), [("squared", None), ("logistic", None)])
def test_number_of_threads_does_not_change_the_solution(
    loss: str, n_outputs: int | None, n_jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []

    def counting(function: Callable[[int, int], None], n_threads: int) -> None:
        used.append(n_threads)
        threads.run_together(function, n_threads)

    problem, expected = large(loss, n_outputs)
    monkeypatch.setattr(working_set, "run_together", counting)
    for _ in range(3):
        assert_same(problem.solve(n_jobs), expected)
    assert max(used) == n_jobs


@pytest.mark.usefixtures("many_cpus")
@pytest.mark.parametrize(
    ("loss", "n_jobs"),
    [
        ("squared", 2),
        ("multinomial", 3),
        pytest.param("squared", 3, marks=pytest.mark.slow),
        pytest.param("multinomial", 2, marks=pytest.mark.slow),
    ],
)
def test_number_of_threads_does_not_change_several_outputs(loss: str, n_jobs: int) -> None:
    problem, expected = large(loss, 3)
    assert_same(problem.solve(n_jobs), expected)
