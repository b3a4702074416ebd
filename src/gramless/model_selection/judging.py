"""Fits judged on rows held back: which features, which alpha, and how far off they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gramless.base.deadline import Deadline
from gramless.features.base import FeatureMap
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.model_selection.alpha import Goal
from gramless.model_selection.data import Data
from gramless.model_selection.recipes import Recipe
from gramless.model_selection.splits import Split

_TIME_SHARE = 0.7
"""Of a time budget: the rest is for the final fit."""
_TIE = 1.003
"""Of alphas whose scores differ by less, the strongest."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Features of all rows, and weights to start a fit to them from.

    Attributes
    ----------
    feature_map : FeatureMap
    features : FeatureMatrix (n_rows, n_columns)
        Of the rows in the order below.
    order : array (n_rows,) of int, or slice
    weights : array (n_columns,) or (n_columns, K), or None
        Of a fit to some of the rows, that of the intercept last if there is one.
    """

    feature_map: FeatureMap
    features: FeatureMatrix
    order: NDArray[np.intp] | slice
    weights: Vector | None


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
    fits : tuple of Fit
        What fits to all rows can go on from, one a model: of bins, where rows were split once.
    """

    recipe: Recipe
    alpha: float
    score: float
    rows: NDArray[np.intp] = field(repr=False)
    responses: Vector = field(repr=False)
    n_rows: int
    fits: tuple[Fit, ...] = field(default=(), repr=False)


def judge(
    data: Data,
    goal: Goal,
    recipe: Recipe,
    alphas: Sequence[float],
    splits: Sequence[Split],
    deadline: Deadline,
    n_jobs: int | None,
    begin: int = 0,
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
    begin : int, default=0
        Which alpha is the first. Stronger ones are tried where no weaker one is better.

    Returns
    -------
    Judged
    """
    paths, fits = [], []
    for split in splits:
        path, fit = _path(data, goal, recipe, alphas, begin, split, deadline, n_jobs)
        paths.append(path)
        # Each is as large as the model in the end, and of several none is gone on with.
        if fit is not None and len(splits) == 1:
            fits.append(fit)
    held_back = np.concatenate([rows for _, rows in splits])
    truth, weight = data.targets[held_back], data.weights_of(held_back)
    tried = [alpha for alpha in alphas if all(alpha in path for path in paths)]
    responses = [np.concatenate([path[alpha] for path in paths]) for alpha in tried]
    scores = [goal.score(own, truth, weight) for own in responses]
    at = next(k for k, score in enumerate(scores) if score <= _TIE * min(scores))
    n_rows = len(splits[0][0])
    return Judged(recipe, tried[at], scores[at], held_back, responses[at], n_rows, tuple(fits))


def _path(
    data: Data,
    goal: Goal,
    recipe: Recipe,
    alphas: Sequence[float],
    begin: int,
    split: Split,
    deadline: Deadline,
    n_jobs: int | None,
) -> tuple[dict[float, Vector], Fit | None]:
    """Return the responses of the rows held back for each alpha that was tried."""
    training, held_back = split
    fit, own, others = _features(data, recipe, split, n_jobs)
    Z, new = data.matrix(own), data.matrix(others)
    truth, weight = data.targets[held_back], data.weights_of(held_back)
    solver = goal.solver(goal.problem(data, Z, alphas[begin], training), n_jobs)
    responses: dict[float, Vector] = {}
    least, best, kept = np.inf, alphas[begin], None
    for path in (alphas[begin:], alphas[:begin][::-1]):
        weights = kept
        for alpha in path:
            weights = solver.solve(goal.problem(data, Z, alpha, training), weights).weights
            responses[alpha] = new.matvec(weights)
            score = goal.score(responses[alpha], truth, weight)
            better = score < least
            if better:
                least, best, kept = score, alpha, weights
            if not better or deadline.beyond(_TIME_SHARE):
                break
        if best != alphas[begin] or deadline.beyond(_TIME_SHARE):
            break
    return responses, None if fit is None else replace(fit, weights=kept)


def _features(
    data: Data, recipe: Recipe, split: Split, n_jobs: int | None
) -> tuple[Fit | None, FeatureMatrix, FeatureMatrix]:
    """Return the features of the training rows, and of those held back.

    Bins are learned on all rows at once. Those of no training row keep the weight zero, as if
    they had never been seen, and all features are there for a fit to all rows.
    """
    training, held_back = split
    if recipe.learns_bins:
        order = np.concatenate(split)
        feature_map, whole = recipe.fit(data.rows[order], n_jobs)
        first, last = slice(0, len(training)), slice(len(training), len(order))
        return Fit(feature_map, whole, order, None), whole.take_rows(first), whole.take_rows(last)
    feature_map, own = recipe.fit(data.rows[training], n_jobs)
    others = feature_map.rows_matrix(recipe.scaler.rows(data.rows[held_back], n_jobs))
    return None, own, others
