"""RB16's Theorem 1: constants, the bound, and the L1 case that the paper proves."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gramless import RandomBinning
from gramless.inspection.diagnostics import diagnose
from gramless.losses import Squared
from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L1
from gramless.solvers import GridDescent, Problem
from studies.rb16.theorem_1 import Reference, measured

N_GRIDS, PENALTY = 64, 0.02
RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(40, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1]


def test_constants():
    reference = Reference(square=4.0, start=1.0, objective=0.3, beta=0.25)
    # c = ceil(2 * 10 * 0.7 / (0.25 * 4)) = 14.
    assert reference.lost_grids(kappa=10.0) == 14
    assert reference.bound(10.0, 64) == 0.25 * 4.0 / (10.0 * 50)
    assert reference.proven_bound(10.0, 64) == 2 * 0.25 * 4.0 / (10.0 * 52)
    assert reference.bound(10.0, 14) == math.inf


@given(st.floats(0.1, 100.0), st.floats(1.0, 50.0), st.integers(1, 200))
def test_the_recursion_stays_below_the_proven_bound(square, kappa, n_steps):
    reference = Reference(square, start=1.0, objective=1.0)
    gap = square / kappa
    for _ in range(n_steps):
        gap -= kappa * gap**2 / (2 * square)
    assert gap <= reference.proven_bound(kappa, n_steps) * (1 + 1e-9)


def test_the_recursion_does_not_give_the_printed_bound():
    gap = 1.0
    for _ in range(100):
        gap -= gap**2 / 2
    assert gap > 1.5 * Reference(1.0, 1.0, 1.0).bound(1.0, 100)


def test_ridge_regression_on_random_grids_stays_below_the_bound():
    for n_grids in [16, 64]:
        gap, kappa, reference = measured(n_grids, 10)
        assert 0 < gap <= reference.bound(kappa, n_grids)


def weights_of(matrix: BinnedMatrix) -> np.ndarray:
    """Return L1-penalised weights of features that are 1 in a bin."""
    problem = Problem(matrix, Y, L1(PENALTY * matrix.scale), Squared())
    return matrix.scale * GridDescent(tol=1e-8, max_iter=2000).solve(problem).weights


def objective(matrix: BinnedMatrix, weights: np.ndarray) -> float:
    values = matrix.matvec(weights) / matrix.scale
    return float(0.5 * np.mean((Y - values) ** 2) + PENALTY * np.abs(weights).sum())


def test_l1_penalised_weights_on_some_grids_stay_below_the_bound():
    for n_grids in [8, 24]:
        # H holds 64 grids, each with p = 1/64, so that w* is known:
        # sqrt(p) w* are the weights of all.
        gaps, bounds = [], []
        for seed in range(5):
            grids = RandomBinning(bandwidth=2.0, n_grids=N_GRIDS, random_state=seed).fit_matrix(X)
            best, some = weights_of(grids), grids.first_grids(n_grids)
            least, start = objective(grids, best), 0.5 * float(np.mean(Y**2))
            reference = Reference(N_GRIDS * float(best @ best), start, least)
            gaps.append(objective(some, weights_of(some)) - least)
            bounds.append(reference.bound(diagnose(grids).kappa, n_grids))
        assert min(gaps) > 0
        assert np.mean(gaps) <= np.mean(bounds) < np.inf


@given(
    arrays(float, st.integers(1, 8), elements=st.floats(0.01, 1.0)),
    st.integers(1, 5),
    st.data(),
)
def test_the_norm_of_the_l1_case(shares, n_bins, data):
    # |sqrt(p) w|_1 <= |sqrt(p)| |w|. The paper has |sqrt(p)| = 1, which is true if every grid has
    # one bin: p is the share of each grid, and each of its bins has that entry.
    p = np.repeat(shares / shares.sum(), n_bins)
    w = data.draw(arrays(float, len(p), elements=st.floats(-5.0, 5.0)))
    length = np.abs(np.sqrt(p) * w).sum()
    assert length <= np.sqrt(n_bins) * np.linalg.norm(w) + 1e-9
    if n_bins > 1:
        assert np.abs(np.sqrt(p) * np.sqrt(p)).sum() > np.linalg.norm(np.sqrt(p))
