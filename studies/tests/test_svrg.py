"""SVRG: against exact solutions and a slow twin, its steps, its batches, its reports."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.random import stream
from gramless.losses import Hinge, Logistic, Multinomial, Squared, SquaredHinge
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import ComputedMatrix, DenseMatrix
from gramless.matrices.stacked import HStack, with_ones
from gramless.penalties import L1, L2, ElasticNet
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem, columns
from studies.svrg import SVRG, batch_of

Array = NDArray[np.float64]

N_ROWS, N_COLUMNS = 90, 6


@pytest.fixture(autouse=True)
def no_warning_goes_unseen() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def dense_problem(loss: Any = None, **changes: Any) -> Problem:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(N_ROWS, N_COLUMNS))
    targets = features @ rng.normal(size=N_COLUMNS) + rng.normal(size=N_ROWS)
    if loss is not None:
        targets = np.sign(targets)
    problem = Problem(DenseMatrix(features), targets, L2(0.05), loss or Squared())
    return replace(problem, **changes)


def far_from_optimal(problem: Problem, weights: Array) -> float:
    largest = np.abs(problem.loss_gradient(np.zeros_like(weights))).max()
    return problem.kkt_residual(weights) / float(largest)


# The minimum.


def test_exact_solutions() -> None:
    """Three outputs, rows with weights and a free constant, against the normal equations."""
    for batch_rows in [30, 1000]:
        for alpha in [0.0, 1e-2, 1e2]:
            rng = np.random.default_rng(1)
            features = rng.normal(size=(N_ROWS, N_COLUMNS))
            targets = rng.normal(3.0, 1.0, size=(N_ROWS, 3))
            matrix = with_ones(DenseMatrix(features))
            problem = Problem(
                matrix, targets, L2(alpha, n_free=1), sample_weight=rng.gamma(1.0, size=N_ROWS)
            )
            solution = SVRG(batch_rows, tol=1e-7, max_iter=5000).solve(problem)
            dense, ridge = (
                np.column_stack([features, np.ones(N_ROWS)]),
                np.full(N_COLUMNS + 1, alpha),
            )
            ridge[-1] = 0.0
            weighted = dense.T * problem.row_weights
            exact = np.linalg.solve(weighted @ dense + np.diag(ridge), weighted @ targets)
            assert solution.status == "converged"
            np.testing.assert_allclose(
                dense @ solution.weights, dense @ exact, rtol=1e-4, atol=1e-5
            )


def test_any_size_of_batches() -> None:
    for batch_rows in [1, 4, 30, 89, 90]:
        for loss in [None, Logistic(), SquaredHinge()]:
            problem = dense_problem(loss)
            solution = SVRG(batch_rows, tol=1e-6).solve(problem)
            assert solution.status == "converged"
            assert far_from_optimal(problem, solution.weights) <= 1.01e-6


def test_rows_that_come_sorted() -> None:
    problem = dense_problem(Logistic())
    order = np.argsort(problem.targets)
    sorted_rows = replace(
        problem, matrix=problem.matrix.take_rows(order), targets=problem.targets[order]
    )
    solution = SVRG(15, tol=1e-6).solve(sorted_rows)
    assert solution.status == "converged"
    assert far_from_optimal(problem, solution.weights) <= 1.01e-6


def test_sample_weights_count_as_repetition() -> None:
    problem, times = dense_problem(), np.random.default_rng(1).integers(0, 4, size=N_ROWS)
    repeated = np.repeat(np.arange(N_ROWS), times)
    weighted = SVRG(16, tol=1e-9).solve(replace(problem, sample_weight=3.0 * times))
    matrix, targets = problem.matrix.take_rows(repeated), problem.targets[repeated]
    plain = SVRG(16, tol=1e-9).solve(replace(problem, matrix=matrix, targets=targets))
    np.testing.assert_allclose(weighted.weights, plain.weights, rtol=1e-7)


def test_free_columns_are_not_shrunk() -> None:
    problem = dense_problem()
    far = replace(
        problem,
        matrix=with_ones(problem.matrix),
        targets=problem.targets + 1000.0,
        penalty=L2(10.0, n_free=1),
    )
    solution = SVRG(16, tol=1e-9).solve(far)
    residual = far.targets - far.matrix.matvec(solution.weights)
    assert abs(residual.mean()) < 1e-5
    assert abs(solution.weights[-1] - 1000.0) < 1.0


def test_coupled_outputs() -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(4, size=N_ROWS)
    targets = np.where(truth[:, None] == np.arange(4), 1.0, -1.0)
    problem = dense_problem(targets=targets, loss=Multinomial())
    solution = SVRG(16, tol=1e-7).solve(problem)
    expected = NewtonCG(tol=1e-9).solve(problem)
    assert solution.status == "converged"
    np.testing.assert_allclose(solution.weights, expected.weights, atol=1e-6)


def test_an_output_is_solved_as_if_it_were_alone() -> None:
    rng = np.random.default_rng(3)
    targets = np.column_stack([rng.normal(size=N_ROWS), 1e3 * rng.normal(size=N_ROWS)])
    problem = dense_problem(targets=targets)
    together = SVRG(16, tol=1e-6).solve(problem)
    for k in range(2):
        alone = SVRG(16, tol=1e-6).solve(replace(problem, targets=targets[:, k]))
        np.testing.assert_allclose(together.weights[:, k], alone.weights, rtol=1e-9)
        assert alone.n_iter <= together.n_iter


# The steps.


def twin(problem: Problem, dense: Array, step: float, batch_rows: int, n_epochs: int) -> Array:
    """Return the weights after some epochs of Johnson & Zhang's Algorithm 1, row by row."""
    weights, targets = np.zeros(dense.shape[1]), problem.targets
    shares, alpha = problem.row_weights, problem.penalty.l2
    n_batches = -(-len(dense) // batch_rows)

    def gradient(at: Array, rows: range) -> Array:
        total = np.zeros_like(at)
        for i in rows:
            slope = problem.loss.gradient(dense[i : i + 1] @ at, targets[i : i + 1])[0]
            total += shares[i] * slope * dense[i]
        return total

    for epoch in range(n_epochs):
        snapshot, whole = weights.copy(), gradient(weights, range(len(dense)))
        for batch in stream(0, "svrg", epoch).integers(n_batches, size=2 * n_batches):
            rows = range(batch * batch_rows, min((batch + 1) * batch_rows, len(dense)))
            noise = n_batches * (gradient(weights, rows) - gradient(snapshot, rows))
            weights = weights - step * (noise + whole + alpha * weights)
    return weights


def test_against_the_twin() -> None:
    for loss in [None, Logistic()]:
        for batch_rows in [1, 20, 45]:
            problem = dense_problem(loss, sample_weight=np.random.default_rng(4).random(N_ROWS))
            dense = problem.matrix.array  # type: ignore[attr-defined]
            solver = SVRG(batch_rows, step=0.01, tol=0.0, max_iter=3)
            expected = twin(problem, dense, 0.01, batch_rows, 3)
            np.testing.assert_allclose(
                solver.solve(problem).weights, expected, rtol=1e-11, atol=1e-13
            )


def test_a_given_step_is_kept() -> None:
    history = SVRG(16, step=0.003, tol=0.0, max_iter=5).solve(dense_problem()).history
    assert [entry["step"] for entry in history] == [0.003] * 6


def test_the_first_step_is_a_tenth_of_what_the_traces_allow() -> None:
    problem = dense_problem(Logistic())
    dense = problem.matrix.array  # type: ignore[attr-defined]
    traces = [(dense[k : k + 30] ** 2).sum() / N_ROWS for k in (0, 30, 60)]
    (first,) = SVRG(30, max_iter=0).solve(problem).history
    assert first["step"] == pytest.approx(0.1 / (3 * 0.25 * max(traces) + 0.05), rel=1e-12)


def test_later_steps_follow_the_rule_of_barzilai_and_borwein() -> None:
    problem, seen = dense_problem(), [np.zeros(N_COLUMNS)]
    solution = SVRG(20, tol=0.0, max_iter=1).solve(problem, callback=lambda _, w: seen.append(w))
    way, bend = seen[1] - seen[0], problem.gradient(seen[1]) - problem.gradient(seen[0])
    # Five batches and two passes: ten steps an epoch.
    assert solution.history[1]["step"] == pytest.approx(way @ way / (10 * way @ bend), rel=1e-9)


def test_steps_that_are_too_long_are_taken_back() -> None:
    for step in [1e3, 1e150, 1e300]:
        for batch_rows in [8, 1000]:
            problem = dense_problem(Logistic())
            solution = SVRG(batch_rows, step=step, tol=1e-3, max_iter=900).solve(problem)
            objectives = [entry["objective"] for entry in solution.history]
            assert max(objectives) == objectives[0]
            if step == 1e3:
                assert solution.status == "converged"
            assert solution.history[-1]["step"] < step


def test_steps_that_never_become_short_enough() -> None:
    solution = SVRG(8, step=1e100, max_iter=900).solve(dense_problem(Logistic()))
    assert solution.status == "stalled"
    assert solution.n_iter < 40
    assert not solution.weights.any()


def test_the_default_needs_fewer_epochs_than_its_first_step() -> None:
    problem = dense_problem()
    (first,) = SVRG(16, max_iter=0).solve(problem).history
    default = SVRG(16, tol=1e-4).solve(problem)
    kept = SVRG(16, tol=1e-4, step=first["step"]).solve(problem)
    assert default.status == kept.status == "converged"
    assert 2 * default.n_iter < kept.n_iter


def test_one_batch_is_gradient_descent() -> None:
    problem = dense_problem()
    solution = SVRG(N_ROWS, step=0.1, tol=0.0, max_iter=4).solve(problem)
    weights = np.zeros(N_COLUMNS)
    for _ in range(4):
        weights = weights - 0.1 * problem.gradient(weights)
    np.testing.assert_allclose(solution.weights, weights, rtol=1e-12)


def test_longer_epochs_take_more_steps() -> None:
    problem = dense_problem()
    short, long = (
        SVRG(10, factor, step=0.01, tol=0.0, max_iter=1).solve(problem) for factor in (1.0, 5.0)
    )
    assert long.history[1]["residual"] < short.history[1]["residual"]


# What it reports.


def test_history() -> None:
    for batch_rows in [16, 1000]:
        problem = dense_problem(Logistic())
        solution = SVRG(batch_rows, tol=1e-5).solve(problem)
        assert len(solution.history) == solution.n_iter + 1
        last = solution.history[-1]
        assert last["objective"] == pytest.approx(problem.value(solution.weights), rel=1e-13)
        assert last["residual"] == pytest.approx(
            far_from_optimal(problem, solution.weights), rel=1e-6
        )
        assert last["residual"] <= 1e-5 < solution.history[-2]["residual"]
        assert solution.history[0]["objective"] == pytest.approx(np.log(2.0))


def test_start_and_callback() -> None:
    problem, calls = dense_problem(), []
    best = SVRG(16, tol=1e-7).solve(problem)
    again = SVRG(16, tol=1e-6).solve(problem, start=best.weights)
    assert (again.status, again.n_iter) == ("converged", 0)
    np.testing.assert_array_equal(again.weights, best.weights)

    def stop(epoch: int, weights: Array) -> bool:
        calls.append((epoch, weights.shape))
        return epoch == 3

    stopped = SVRG(16, tol=0.0).solve(problem, callback=stop)
    assert (stopped.status, stopped.n_iter) == ("stopped", 3)
    assert calls == [(1, (N_COLUMNS,)), (2, (N_COLUMNS,)), (3, (N_COLUMNS,))]


def test_steps_are_those_of_solve() -> None:
    problem, seen = dense_problem(), []
    solution = SVRG(16, tol=1e-7).solve(problem, callback=lambda *step: seen.append(step))
    steps = SVRG(16, tol=1e-7).steps(problem)
    for (epoch, weights), (k, expected) in zip(steps, seen, strict=True):
        assert (epoch, len(steps.history)) == (k, k + 1)
        np.testing.assert_array_equal(weights, expected)
    assert (steps.status, steps.history) == (solution.status, solution.history)


def test_nothing_is_computed_between_steps() -> None:
    steps = SVRG(16, tol=0.0).steps(dense_problem())
    one_by_one = iter(steps)
    assert (next(one_by_one)[0], len(steps.history)) == (1, 2)
    assert (next(one_by_one)[0], len(steps.history)) == (2, 3)
    assert steps.status == "stopped"


def test_start_is_not_written_over() -> None:
    start = np.ones(N_COLUMNS)
    start.flags.writeable = False
    assert SVRG(16).solve(dense_problem(), start=start).status == "converged"


def test_too_few_epochs() -> None:
    solution = SVRG(16, tol=1e-9, max_iter=2).solve(dense_problem())
    assert (solution.status, solution.n_iter) == ("max_iter", 2)


def test_nothing_to_gain() -> None:
    solution = SVRG(16).solve(dense_problem(targets=np.zeros(N_ROWS)))
    assert (solution.status, solution.n_iter) == ("converged", 0)
    assert not solution.weights.any()


def test_to_the_last_digits() -> None:
    problem = dense_problem()
    solution = SVRG(16, tol=0.0, max_iter=300).solve(problem)
    assert solution.status in ("stalled", "max_iter", "converged")
    assert far_from_optimal(problem, solution.weights) < 1e-7


# Matrices and threads.


def binned(n_rows: int, n_jobs: int | None) -> BinnedMatrix:
    codes = np.random.default_rng(5).integers(1, 41, size=(30, n_rows)).astype(np.uint8)
    return BinnedMatrix(codes, np.arange(31) * 40, n_jobs=n_jobs)


def matrices(n_jobs: int | None) -> dict[str, FeatureMatrix]:
    rng = np.random.default_rng(6)
    features = rng.normal(size=(700, 40))
    dense = DenseMatrix(features, n_jobs)
    return {
        "binned": with_ones(binned(700, n_jobs)),
        "dense": with_ones(dense),
        "hybrid": HStack([binned(700, n_jobs), dense]),
    }


def test_threads_and_repetition_change_no_bit() -> None:
    for kind in ["binned", "dense", "hybrid"]:
        targets = np.random.default_rng(7).normal(size=700)
        solutions = [
            SVRG(64, tol=1e-4, max_iter=20)
            .solve(Problem(matrices(n_jobs)[kind], targets, L2(0.01)))
            .weights
            for n_jobs in (1, 2, 1)
        ]
        np.testing.assert_array_equal(solutions[0], solutions[1])
        np.testing.assert_array_equal(solutions[0], solutions[2])


def test_seeds_differ() -> None:
    problem = dense_problem()
    first, second = (SVRG(16, seed=seed, max_iter=1).solve(problem).weights for seed in (0, 1))
    assert (first != second).all()


def test_batches_are_the_rows() -> None:
    for kind in ["binned", "dense", "hybrid"]:
        matrix = matrices(None)[kind]
        batch = batch_of(matrix, 100, 103)
        np.testing.assert_allclose(batch.tocsr().toarray(), matrix.tocsr().toarray()[100:103])


def test_computed_features_are_so_once_a_step() -> None:
    rng, counts = np.random.default_rng(8), [0]

    def compute(rows: Array, out: Array) -> None:
        counts[0] += len(rows)
        out[:] = np.cos(rows @ np.ones((2, 5)) + np.arange(5))

    matrix = ComputedMatrix(rng.normal(size=(600, 2)), compute, 5, budget=0)
    problem = Problem(matrix, rng.normal(size=600), L2(0.1))
    SVRG(100, step=0.01, tol=0.0, max_iter=0).solve(problem)
    before = counts[0]
    SVRG(100, step=0.01, tol=0.0, max_iter=1).solve(problem)
    # The second run: as the first, then two passes in batches, then the end's two products.
    assert counts[0] - before == before + 2 * 600 + 2 * 600


# What it refuses.


def test_bad_options() -> None:
    for options, said in [
        ({"batch_rows": 0}, "batch_rows must be a whole number of at least 1, got 0"),
        ({"batch_rows": 2.5}, "batch_rows must be a whole number"),
        ({"batch_rows": True}, "batch_rows must be a whole number"),
        ({"max_iter": -1}, "max_iter must be a whole number of at least 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"epoch_factor": 0.0}, "epoch_factor must be a positive number, got 0.0"),
        ({"epoch_factor": None}, "epoch_factor must be a positive number, got None"),
        ({"step": -1.0}, "step must be a positive number, got -1.0"),
        ({"step": np.nan}, "step must be a positive number, got nan"),
        ({"step": "auto"}, "step must be a positive number, got 'auto'"),
        ({"tol": -1.0}, "tol must be a finite number, not negative"),
        ({"tol": np.inf}, "tol must be a finite number, not negative"),
    ]:
        with pytest.raises(InputError, match=f"SVRG: {said}"):
            SVRG(**options)


def test_absolute_values_are_refused() -> None:
    for penalty in [L1(0.1), ElasticNet(0.1, 0.5)]:
        with pytest.raises(InputError, match="SVRG needs a smooth penalty; use GridDescent"):
            SVRG().solve(dense_problem(penalty=penalty))


def test_corners_are_refused() -> None:
    with pytest.raises(InputError, match="SVRG needs a smooth loss, and 'hinge' has corners"):
        SVRG().solve(dense_problem(Hinge()))


def test_columns_stay_columns() -> None:
    problem = dense_problem()
    as_column = replace(problem, targets=columns(problem.targets))
    weights = SVRG(16).solve(as_column).weights
    assert weights.shape == (N_COLUMNS, 1)
    np.testing.assert_array_equal(weights[:, 0], SVRG(16).solve(problem).weights)
