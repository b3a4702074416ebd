"""Weights of bins that rise or fall along an input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import isotonic_regression

from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.monotone import MonotoneBins, pool_adjacent
from gramless.solvers.objective import Problem

RNG = np.random.default_rng(0)


def test_pools_match_isotonic_regression() -> None:
    for n in range(1, 40):
        values, masses = RNG.normal(size=n) + 0.1 * np.arange(n), RNG.uniform(0.5, 2.0, n)
        begins = pool_adjacent(values, masses)
        means = np.add.reduceat(masses * values, begins) / np.add.reduceat(masses, begins)
        result = np.repeat(means, np.diff(np.append(begins, n)))
        np.testing.assert_allclose(result, isotonic_regression(values, sample_weight=masses))


@pytest.mark.parametrize("sign", [1, -1])
def test_one_grid_without_a_penalty_matches_isotonic_regression(sign: int) -> None:
    codes = RNG.integers(1, 13, size=400)
    codes[np.isin(codes, (1, 5, 6, 12))] = 4
    y = sign * 0.2 * codes + RNG.normal(size=400)
    matrix = BinnedMatrix(codes[None].astype(np.uint16), np.array([0, 12]), scale=1.0)
    inner = ConjugateGradient(tol=1e-12)
    problem = Problem(matrix, y, L2(1e-12))
    result = MonotoneBins(inner, np.array([sign])).solve(problem).weights
    fitted = isotonic_regression(
        [y[codes == k].mean() for k in np.unique(codes)],
        sample_weight=np.bincount(codes)[np.unique(codes)],
        increasing=sign > 0,
    )
    np.testing.assert_allclose(result[np.unique(codes) - 1], fitted, atol=1e-6)
    assert (sign * np.diff(result) >= 0.0).all()


def test_unconstrained_grids_are_unconstrained() -> None:
    codes = RNG.integers(1, 9, size=(2, 300)).astype(np.uint16)
    y = np.sin(codes[0]) - codes[1] + 0.1 * RNG.normal(size=300)
    matrix = BinnedMatrix(codes, np.array([0, 8, 16]), scale=0.5)
    problem = Problem(matrix, y, L2(1e-6))
    inner = ConjugateGradient(tol=1e-12)
    free = inner.solve(problem)
    bound = MonotoneBins(inner, np.array([0, -1])).solve(problem)
    np.testing.assert_allclose(matrix.matvec(bound.weights), matrix.matvec(free.weights), atol=1e-4)
    wrong = MonotoneBins(inner, np.array([0, 1])).solve(problem).weights
    assert np.ptp(wrong[8:]) == 0.0
