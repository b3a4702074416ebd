"""Steps of weights: as coarse as rows held back allow."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.base.compact import rounded_to_multiples
from gramless.features.binning import GivenBinning
from gramless.features.grids import Grids
from gramless.losses import Logistic, Loss, Poisson, Squared
from gramless.model_selection.alpha import Goal, mean_loss
from gramless.model_selection.data import Data
from gramless.model_selection.validation import coarsest_step
from gramless.solvers.choose import choose_solver

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(4000, 2))
Z = np.sin(6.0 * X[:, 0]) + X[:, 1]
HASHES = RNG.integers(1, 2**62, (60, 3))
GRIDS = Grids(
    RNG.uniform(0.1, 0.5, (60, 2)),
    RNG.uniform(size=(60, 2)),
    HASHES[:, 1:] | 1,
    HASHES[:, 0].copy(),
)
SPLIT = np.arange(3000), np.arange(3000, 4000)


def targets(loss: Loss) -> NDArray[np.float64]:
    if isinstance(loss, Logistic):
        return np.where(Z + RNG.logistic(size=4000) > 0.5, 1.0, -1.0)
    if isinstance(loss, Poisson):
        return RNG.poisson(1000.0 * np.exp(0.1 * Z)) / 1000.0
    return Z + 0.3 * RNG.normal(size=4000)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Poisson()], ids=lambda loss: loss.name)
def test_rows_held_back_lose_a_thousandth_at_most(loss: Loss, weighted: bool) -> None:
    matrix = GivenBinning().fit_grids(X, GRIDS)
    weight = RNG.uniform(0.5, 2.0, 4000) if weighted else None
    data = Data(X, targets(loss), weight, mean_loss(loss), True)
    goal = Goal(loss, 0.0, mean_loss(loss))
    own = data.matrix(matrix.take_rows(slice(0, 3000)))
    problem = goal.problem(data, own, 1e-4, SPLIT[0])
    solver, _ = choose_solver(
        "auto", tol=1e-3, max_iter=100, loss=loss, l1_ratio=0.0, n_jobs=1, matrix=own, n_outputs=1
    )
    weights = solver.solve(problem).weights
    step = coarsest_step(goal, data, matrix, SPLIT, weights)
    assert 2.0**-20 * np.abs(weights[:-1]).max() < step
    held_back = data.matrix(matrix.take_rows(slice(3000, 4000)))
    rounded = np.append(rounded_to_multiples(weights[:-1], step), weights[-1])
    coarse = np.append(rounded_to_multiples(weights[:-1], 64.0 * step), weights[-1])
    before, after, beyond = (
        goal.scored(data, held_back.matvec(w), SPLIT[1])[0] for w in (weights, rounded, coarse)
    )
    assert after <= 1.001 * before < beyond


def test_weights_of_zero_have_no_step() -> None:
    matrix, score = GivenBinning().fit_grids(X, GRIDS), mean_loss(Squared())
    goal, data = Goal(Squared(), 0.0, score), Data(X, Z, None, score, True)
    assert coarsest_step(goal, data, matrix, SPLIT, np.zeros(matrix.shape[1] + 1)) == 0.0
