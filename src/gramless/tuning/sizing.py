"""As many random grids as are worth their time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.deadline import Deadline
from gramless.features.grids import Grids
from gramless.features.inputs import Rows
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.tuning.alpha import Goal
from gramless.tuning.data import Data
from gramless.tuning.judging import Judged
from gramless.tuning.recipes import RandomRecipe
from gramless.tuning.splits import Split

LEAST_ROWS_TO_SIZE = 2000
FIRST_GRIDS = 128
LEAST_GAIN = 0.02
"""Twice the grids, and so twice the time, must lower the score by this much. The noise of a
kernel of R grids falls as 1/R: what all further doublings could gain is about as much again."""
_TIME_SHARE = 0.6


class _Bins:
    """The bins of training and held-back rows, grids added one after the other."""

    def __init__(self, rows: Rows, others: Rows, n_jobs: int | None) -> None:
        self.rows, self.others, self.n_jobs = rows, others, n_jobs
        self.codes: list[NDArray[Any]] = []
        self.other_codes: list[NDArray[Any]] = []
        self.offsets = np.zeros(1, np.int64)

    def add(self, grids: Grids) -> None:
        codes, known = grids.learn(self.rows, self.n_jobs)
        self.codes.append(codes)
        self.other_codes.append(known.find(self.others, self.n_jobs))
        ends = self.offsets[-1] + np.cumsum(known.n_bins)
        self.offsets = np.concatenate([self.offsets, ends])

    def matrices(self) -> tuple[BinnedMatrix, BinnedMatrix]:
        """Return the matrix of the training rows and that of the held-back ones."""
        codes, others = np.concatenate(self.codes), np.concatenate(self.other_codes)
        training = BinnedMatrix(codes, self.offsets, has_unseen=False, n_jobs=self.n_jobs)
        return training, BinnedMatrix(others, self.offsets, n_jobs=self.n_jobs)


def enough_grids(
    data: Data,
    goal: Goal,
    recipe: RandomRecipe,
    alpha: float,
    split: Split,
    deadline: Deadline,
    n_jobs: int | None,
) -> Judged:
    """Double the number of grids for as long as that predicts held-back rows better.

    Parameters
    ----------
    data : Data
    goal : Goal
    recipe : RandomRecipe
        Its number of grids is the most.
    alpha : float
        For the training rows.
    split : (training rows, held-back rows)
    deadline : Deadline
    n_jobs : int or None

    Returns
    -------
    Judged
        The fit with as many, and the recipe for it.

    Notes
    -----
    Every solution starts from the one with half the grids.
    """
    training, held_back = split
    most, grids = recipe.template.n_grids, recipe.draw()
    scaler = recipe.scaler
    bins = _Bins(
        scaler.rows(data.rows[training], n_jobs), scaler.rows(data.rows[held_back], n_jobs), n_jobs
    )
    truth, weight = data.targets[held_back], data.weights_of(held_back)
    start = None
    before, n_grids, score = 0, min(FIRST_GRIDS, most), np.inf
    while True:
        bins.add(grids.take((np.arange(most) >= before) & (np.arange(most) < n_grids)))
        Z, others = (data.matrix(part) for part in bins.matrices())
        start = _lengthened(start, Z, int(data.intercept), n_grids / max(before, 1))
        problem = goal.problem(data, Z, alpha, training)
        start = goal.solver(problem, n_jobs).solve(problem, start).weights
        responses = others.matvec(start)
        last, score = score, goal.score(responses, truth, weight)
        enough = score > (1.0 - LEAST_GAIN) * last or n_grids == most
        if enough or deadline.beyond(_TIME_SHARE):
            judged = Judged(
                recipe.sized(n_grids), alpha, score, held_back, responses, len(training)
            )
            return judged
        before, n_grids = n_grids, min(2 * n_grids, most)


def _lengthened(
    weights: Vector | None, Z: FeatureMatrix, n_free: int, more: float
) -> Vector | None:
    """Return weights that predict the same over ``more`` times the grids: zeros in new bins."""
    if weights is None:
        return None
    n_old = len(weights) - n_free
    longer = np.zeros((Z.shape[1], *weights.shape[1:]))
    # Features have the value 1/sqrt(n_grids).
    longer[:n_old] = weights[:n_old] * np.sqrt(more)
    longer[len(longer) - n_free :] = weights[n_old:]
    return longer
