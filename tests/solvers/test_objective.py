"""The one convention: values and gradients against dense formulas and finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.solvers.objective import Problem, Solution, columns


def point(case) -> NDArray[np.float64]:  # type: ignore[no-untyped-def]
    shape = (case.dense.shape[1], *case.problem.targets.shape[1:])
    return np.random.default_rng(2).normal(size=shape)


def test_row_weights_sum_to_one(case) -> None:  # type: ignore[no-untyped-def]
    weights = case.problem.row_weights
    assert weights.shape == (len(case.dense),)
    assert weights.sum() == pytest.approx(1.0)
    given = case.problem.sample_weight
    expected = np.full(len(weights), 1 / len(weights)) if given is None else given / given.sum()
    np.testing.assert_allclose(weights, expected)


def test_value_is_weighted_mean_loss_plus_penalty(case) -> None:  # type: ignore[no-untyped-def]
    w, penalty = point(case), case.problem.penalty
    halves = columns(case.dense @ w - case.problem.targets) ** 2 / 2
    penalised = w[: len(w) - penalty.n_free]
    expected = (case.problem.row_weights @ halves).sum() + penalty.alpha / 2 * (penalised**2).sum()
    assert case.problem.value(w) == pytest.approx(expected, rel=1e-12)


def test_gradient_by_finite_differences(case) -> None:  # type: ignore[no-untyped-def]
    w, step = point(case), 1e-5
    gradient = case.problem.gradient(w)
    assert gradient.shape == w.shape
    for at in np.ndindex(w.shape):
        moved = [w.copy(), w.copy()]
        moved[0][at] += step
        moved[1][at] -= step
        slope = (case.problem.value(moved[0]) - case.problem.value(moved[1])) / (2 * step)
        assert gradient[at] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_gradient_vanishes_at_the_exact_solution(case) -> None:  # type: ignore[no-untyped-def]
    scale = np.abs(case.problem.gradient(np.zeros_like(case.exact))).max()
    assert np.abs(case.problem.gradient(case.exact)).max() < 1e-10 * scale


def test_outputs_are_independent_problems(case) -> None:  # type: ignore[no-untyped-def]
    w, problem = point(case), case.problem
    parts = [replace(problem, targets=t) for t in columns(problem.targets).T]
    values = [part.value(v) for part, v in zip(parts, columns(w).T, strict=True)]
    assert problem.value(w) == pytest.approx(sum(values), rel=1e-12)


def test_only_proportions_of_sample_weights_matter(case) -> None:  # type: ignore[no-untyped-def]
    w, problem = point(case), case.problem
    given = np.ones(len(case.dense)) if problem.sample_weight is None else problem.sample_weight
    scaled = replace(problem, sample_weight=8.0 * given)
    assert scaled.value(w) == pytest.approx(problem.value(w), rel=1e-12)


def test_problems_and_solutions_cannot_be_changed(case) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(AttributeError):
        case.problem.targets = None
    with pytest.raises(AttributeError):
        Solution(np.zeros(1), "converged", 0).status = "stopped"  # type: ignore[misc]
    assert isinstance(case.problem, Problem)


def test_columns_is_a_view() -> None:
    vector, table = np.zeros(3), np.zeros((3, 2))
    assert columns(vector).shape == (3, 1)
    assert columns(vector).base is vector
    assert columns(table) is table
