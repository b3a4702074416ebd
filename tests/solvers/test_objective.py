"""The one convention: values and gradients against dense formulas and finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gramless.solvers.objective import Solution, columns

from .references import RIDGE_CASES, Case

every_case = pytest.mark.parametrize("case", RIDGE_CASES.values(), ids=RIDGE_CASES.keys())


def point(case: Case) -> np.ndarray:
    shape = (case.dense.shape[1], *case.problem.targets.shape[1:])
    return np.random.default_rng(2).normal(size=shape)


@every_case
def test_value_is_the_weighted_mean_loss_plus_penalty(case: Case) -> None:
    w, problem = point(case), case.problem
    given = np.ones(len(case.dense)) if problem.sample_weight is None else problem.sample_weight
    np.testing.assert_allclose(problem.row_weights, given / given.sum())
    halves = columns(case.dense @ w - problem.targets) ** 2 / 2
    penalised = w[: len(w) - problem.penalty.n_free]
    expected = (problem.row_weights @ halves).sum() + problem.penalty.l2 / 2 * (penalised**2).sum()
    assert problem.value(w) == pytest.approx(expected, rel=1e-12)
    scaled = replace(problem, sample_weight=8.0 * given)
    assert scaled.value(w) == pytest.approx(expected, rel=1e-12)


@every_case
def test_gradient_matches_finite_differences(case: Case) -> None:
    w, step = point(case), 1e-5
    gradient = case.problem.gradient(w)
    assert gradient.shape == w.shape
    for at in np.ndindex(w.shape):
        moved = [w.copy(), w.copy()]
        moved[0][at] += step
        moved[1][at] -= step
        slope = (case.problem.value(moved[0]) - case.problem.value(moved[1])) / (2 * step)
        assert gradient[at] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_problems_and_solutions_are_read_only() -> None:
    with pytest.raises(AttributeError):
        RIDGE_CASES["all"].problem.targets = np.zeros(1)  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Solution(np.zeros(1), "converged", 0).status = "stopped"  # type: ignore[misc]


def test_columns_is_a_view() -> None:
    vector, table = np.zeros(3), np.zeros((3, 2))
    assert columns(vector).shape == (3, 1)
    assert columns(vector).base is vector
    assert columns(table) is table
