"""Fits judged on rows held back: which features, which alpha, and how far off they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gramless.base.deadline import Deadline
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.tuning.alpha import Goal
from gramless.tuning.data import Data
from gramless.tuning.recipes import Recipe
from gramless.tuning.splits import Split

_TIME_SHARE = 0.7
"""Of a time budget: the rest is for the final fit."""
_TIE = 1.003
"""Of alphas whose scores differ by less, the strongest."""


@dataclass(frozen=True)
class Judged:
    """A recipe with its best alpha.

    Attributes
    ----------
    recipe : Recipe
    alpha : float
        For as many rows as were fitted to.
    score : float
        Of the rows held back.
    rows : array (n_held_back,)
        Which.
    responses : array (n_held_back,) or (n_held_back, K)
        Of fits that did not know them.
    n_rows : int
        That were fitted to.
    """

    recipe: Recipe
    alpha: float
    score: float
    rows: NDArray[np.intp] = field(repr=False)
    responses: Vector = field(repr=False)
    n_rows: int


def judge(
    data: Data,
    goal: Goal,
    recipe: Recipe,
    alphas: Sequence[float],
    splits: Sequence[Split],
    deadline: Deadline,
    n_jobs: int | None,
) -> Judged:
    """Fit to the training rows of each split, alpha by alpha, and judge on the others.

    Parameters
    ----------
    data : Data
    goal : Goal
    recipe : Recipe
    alphas : sequence of float
        From strong to weak; each solution starts from the last, and the first that is
        no better ends the path.
    splits : sequence of (training rows, held-back rows)
    deadline : Deadline
        Ends the path too.
    n_jobs : int or None

    Returns
    -------
    Judged
    """
    paths = [_path(data, goal, recipe, alphas, split, deadline, n_jobs) for split in splits]
    held_back = np.concatenate([rows for _, rows in splits])
    truth, weight = data.targets[held_back], data.weights_of(held_back)
    responses = [np.concatenate(parts) for parts in zip(*paths, strict=False)]
    scores = [goal.score(own, truth, weight) for own in responses]
    at = next(k for k, score in enumerate(scores) if score <= _TIE * min(scores))
    return Judged(recipe, alphas[at], scores[at], held_back, responses[at], len(splits[0][0]))


def _path(
    data: Data,
    goal: Goal,
    recipe: Recipe,
    alphas: Sequence[float],
    split: Split,
    deadline: Deadline,
    n_jobs: int | None,
) -> list[Vector]:
    """Return the responses of the rows held back for each alpha that was tried."""
    training, held_back = split
    feature_map, features = recipe.fit(data.rows[training], n_jobs)
    Z = data.matrix(features)
    others: FeatureMatrix = data.matrix(
        feature_map.rows_matrix(recipe.scaler.rows(data.rows[held_back], n_jobs))
    )
    truth, weight = data.targets[held_back], data.weights_of(held_back)
    solver, weights = goal.solver(goal.problem(data, Z, alphas[0], training), n_jobs), None
    responses: list[Vector] = []
    scores: list[float] = []
    for alpha in alphas:
        weights = solver.solve(goal.problem(data, Z, alpha, training), weights).weights
        responses.append(others.matvec(weights))
        scores.append(goal.score(responses[-1], truth, weight))
        if scores[-1] >= min(scores[:-1], default=np.inf) or deadline.beyond(_TIME_SHARE):
            break
    return responses
