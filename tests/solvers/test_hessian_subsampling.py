"""Rows drawn by their curvature: an unbiased Hessian, and Newton-CG with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.losses import Huber, Logistic, Loss, Multinomial, SquaredHinge
from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L2
from gramless.solvers.hessian_subsampling import HessianRows, RowSampler
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem

from .diagonal import Diagonal

N_ROWS, N_GRIDS, N_BINS = 4500, 10, 700
Array = NDArray[np.float64]


def matrix(n_jobs: int | None = None, seed: int = 0) -> BinnedMatrix:
    """Return grids with more columns than rows, each row in the same place of all but for noise."""
    rng = np.random.default_rng(seed)
    place = rng.random(N_ROWS) ** 2 + 0.02 * rng.random((N_GRIDS, N_ROWS))
    codes = np.array(
        [1 + np.unique((N_BINS * row).astype(int), return_inverse=True)[1] for row in place],
        np.uint16,
    )
    offsets = np.concatenate([[0], np.cumsum(codes.max(axis=1).astype(int))])
    return BinnedMatrix(codes, offsets, n_jobs=n_jobs)


def problem_of(loss: Loss, alpha: float, n_jobs: int | None = None) -> Problem:
    rng = np.random.default_rng(1)
    Z = matrix(n_jobs)
    z = 3.0 * np.sin(20.0 * Z.codes[0] / Z.codes[0].max()) + 0.3 * rng.normal(size=N_ROWS)
    if loss.coupled:
        classes = np.digitize(z, [-1.5, 1.5])
        return Problem(Z, np.where(np.arange(3) == classes[:, None], 1.0, -1.0), L2(alpha), loss)
    targets = z if loss.name == "huber" else np.sign(z)
    return Problem(Z, targets, L2(alpha), loss)


def curvatures() -> Array:
    """Return the curvatures of two outputs, over five orders of magnitude; some rows have none."""
    rng = np.random.default_rng(2)
    drawn = 10.0 ** rng.uniform(-5, 0, size=(N_ROWS, 2)) / N_ROWS
    drawn[::7] = 0.0
    return np.asarray(drawn)


# The choice.


def chosen_from(Z: BinnedMatrix, c: Array, alpha: float, draws: int = 0) -> HessianRows:
    """Return the rows of one of many draws, with half of alpha for a row."""
    sampler = RowSampler(Z, 2.0 * alpha, 4096)
    sampler.n_draws = draws
    return sampler.draw(c, 0.5)


def test_only_rows_without_curvature_are_omitted() -> None:
    sparse = np.where(np.arange(N_ROWS)[:, None] % 3 == 0, 1.0, 0.0)
    rows = chosen_from(matrix(), sparse, 0.0, 0)
    np.testing.assert_array_equal(rows.chosen, np.arange(0, N_ROWS, 3))
    np.testing.assert_array_equal(rows.upscale, 1.0)


def test_expected_weights_are_the_curvatures() -> None:
    """Each draw is one of many: their mean is within five standard errors, their number too."""
    c, enough = curvatures(), 0.1 / N_ROWS
    Z, largest = matrix(), c.max(axis=1)
    sums, numbers = np.zeros(N_ROWS), []
    for step in range(4):
        rows = chosen_from(Z, c, enough, step)
        sums[rows.chosen] += largest[rows.chosen] * rows.upscale
        numbers.append(len(rows.upscale))
        assert (c[rows.chosen].max(axis=1) * rows.upscale >= 0.999 * enough).all()
    chances = np.minimum(largest / enough, 1.0)
    assert abs(np.mean(numbers) - chances.sum()) < 5 * np.sqrt(chances.sum() / len(numbers))
    error = np.sqrt((largest**2 * (1 / np.maximum(chances, 1e-300) - 1))[largest > 0].sum())
    assert abs(sums.sum() / len(numbers) - largest.sum()) < 5 * error / np.sqrt(len(numbers))
    certain = chances == 1.0
    np.testing.assert_allclose(sums[certain], len(numbers) * largest[certain])


def test_draws_depend_on_the_step_only() -> None:
    c, Z = curvatures(), matrix()
    first, again, other = (chosen_from(Z, c, 0.1 / N_ROWS, step).chosen for step in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("enough", [1.0, 1e-12])
def test_all_rows_are_used_if_few_or_nearly_all_matter(enough: float) -> None:
    Z, c = matrix(), np.ones((N_ROWS, 1))
    few = Z.take_rows(slice(0, 4000))
    assert chosen_from(few, c[:4000], enough, 0).matrix is few
    assert chosen_from(Z, c, enough, 0).has_all_rows
    assert chosen_from(Z, 0.0 * c, enough, 0).has_all_rows


# Newton-CG with it.


LOSSES = [Logistic(), SquaredHinge(), Multinomial(), Huber(0.5)]


@pytest.mark.parametrize(
    ("loss", "alpha"), [*((loss, 1e-3) for loss in LOSSES), (Logistic(), 1e-5)]
)
def test_solution_matches_that_of_all_rows(loss: Loss, alpha: float) -> None:
    problem = problem_of(loss, alpha)
    result = NewtonCG(tol=1e-7, max_iter=60).solve(problem)
    assert result.status == "converged"
    exact = NewtonCG(Diagonal(), tol=1e-8, all_rows_below=N_ROWS).solve(problem)
    assert exact.status == "converged"
    np.testing.assert_allclose(result.weights, exact.weights, rtol=1e-4, atol=1e-5)
    assert problem.value(result.weights) <= problem.value(exact.weights) * (1 + 1e-11)


@pytest.mark.parametrize("loss", [Logistic(), Multinomial()], ids=lambda loss: loss.name)
def test_sampled_rows_save_work(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver does choose, and not many."""
    problem, sizes = problem_of(loss, 1e-4), []
    draw = RowSampler.draw

    def watched(*arguments: Any) -> Any:
        rows = draw(*arguments)
        sizes.append(rows.matrix.shape[0])
        return rows

    monkeypatch.setattr(RowSampler, "draw", watched)
    assert NewtonCG(tol=1e-3).solve(problem).status == "converged"
    assert np.mean(sizes) < 0.6 * N_ROWS


def test_number_of_threads_does_not_change_the_solution() -> None:
    problems = {n: problem_of(Multinomial(), 1e-4, n) for n in (1, 2, 3)}
    results = [NewtonCG(tol=1e-2, n_jobs=n).solve(problem) for n, problem in problems.items()]
    for other in results[1:]:
        assert other.history == results[0].history
        np.testing.assert_array_equal(other.weights, results[0].weights)
