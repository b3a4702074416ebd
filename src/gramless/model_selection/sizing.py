"""As many random grids as are worth their time, the best of many that are drawn."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from gramless.base.deadline import Deadline
from gramless.base.random import stream
from gramless.base.threads import row_blocks
from gramless.features.grids import Grids
from gramless.matrices.base import Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.model_selection.alpha import Goal
from gramless.model_selection.amounts import most_drawn, sampled_rows
from gramless.model_selection.data import Data
from gramless.model_selection.grouped_rows import Groups, shuffled
from gramless.model_selection.halves import Halves
from gramless.model_selection.recipes import GridRecipe, RandomRecipe
from gramless.model_selection.scoring import MOST_SKETCHES, Unexplained
from gramless.model_selection.splits import Split, half_of

LEAST_ROWS_TO_SIZE = 2000
FIRST_GRIDS = 64
LEAST_GAIN = 0.02
"""A doubling that lowers the score by less is the last. The noise of a kernel of R grids falls
as 1/R: what all further doublings could gain is about as much again."""
MOST_ROWS, MOST_JUDGES = 10_000, 4_000
"""Rows that choose grids, and that judge them."""
_FEW_OUTPUTS, _ROWS_OF_MANY = 4, 4_000
"""More outputs have fewer rows: their weights are as many as outputs times bins."""
_POOL = 1024
_SHRINKAGE = 5.0
_TIME_SHARE = 0.6
_GRIDS_AT_ONCE = 64


class Pool:
    """Random grids, two models over those that are taken, and what the others would gain.

    Parameters
    ----------
    data : Data
        In random order.
    parts : (slice, slice, slice)
        The rows of either half, and those that judge both models.
    goal : Goal
    recipe : RandomRecipe
        As many grids as there are to choose from.
    generator : numpy.random.Generator
    n_jobs : int or None

    Notes
    -----
    2 bytes a row and grid.
    """

    def __init__(
        self,
        data: Data,
        parts: tuple[slice, slice, slice],
        goal: Goal,
        recipe: RandomRecipe,
        generator: np.random.Generator,
        n_jobs: int | None,
    ) -> None:
        self.recipe, self.generator, self.n_jobs = recipe, generator, n_jobs
        self.grids: Grids = recipe.draw()
        self.codes, known = self.grids.learn(recipe.scaler.rows(data.rows, n_jobs), n_jobs)
        self.n_bins = known.n_bins
        self.halves = Halves(data, parts, goal, len(self.grids), n_jobs)
        self.taken = np.zeros(len(self.grids), bool)

    def take(self, n_more: int) -> None:
        """Take the grids that would gain most; the first ones where none are taken."""
        left = np.flatnonzero(~self.taken)
        if self.taken.any():
            left = left[np.argsort(-self.gains(left), kind="stable")]
        new = left[:n_more]
        self.taken[new] = True
        self.halves.add(self.codes[new], self.n_bins[new], _SHRINKAGE)

    def solve(self, alpha: float) -> float:
        """Solve all weights again, and return the score."""
        score, self.halves.models = self.halves.solved(alpha)
        return score

    def gains(self, which: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return how much grids would lower the loss of rows that they were not fitted to.

        As :func:`gramless.model_selection.scoring.score_candidates` does, from known bins.
        """
        rest = _sketched(self.halves.unexplained(), self.generator)
        blocks = [which[a:b] for a, b in row_blocks(len(which), _GRIDS_AT_ONCE)]
        return np.concatenate([self._gains_at_once(own, rest) for own in blocks])

    def _gains_at_once(self, which: NDArray[np.intp], rest: Unexplained) -> NDArray[np.float64]:
        offsets = np.concatenate([[0], np.cumsum(self.n_bins[which])])
        matrix = BinnedMatrix(
            self.codes[which], offsets, scale=1.0, has_unseen=False, n_jobs=self.n_jobs
        )
        gains = np.zeros(offsets[-1])
        for half in self.halves.models:
            own, others = matrix.take_rows(half.rows), matrix.take_rows(half.others)
            size = own.gram_diagonal(rest.fitted_curvature[half.rows]) + _SHRINKAGE
            value = own.rmatvec(rest.fitted[half.rows]) / size[:, None]
            judged = others.rmatvec(rest.judged[half.others])
            curvature = others.gram_diagonal(rest.judged_curvature[half.others])
            gains += (judged * value).sum(axis=1) - 0.5 * curvature * (value**2).sum(axis=1)
        return np.add.reduceat(gains, offsets[:-1])


def enough_grids(
    data: Data,
    goal: Goal,
    recipe: RandomRecipe,
    least: int,
    alpha: float,
    split: Split,
    groups: Groups | None,
    seed: int,
    deadline: Deadline,
    n_jobs: int | None,
) -> tuple[GridRecipe, list[dict[str, float]]]:
    """Double the number of grids for as long as that predicts held-back rows clearly better.

    The first are taken as they are drawn, then always those of many that would lower the loss
    most of rows that they were not fitted to. Where fewer than ``least`` are enough, others
    as they are drawn are added.

    Parameters
    ----------
    data : Data
    goal : Goal
    recipe : RandomRecipe
        Its number of grids is the most.
    least : int
        How many grids to return at least.
    alpha : float
        For all rows.
    split : (training rows, held-back rows)
        At most 10,000 rows choose the grids, at most 4,000 others judge them.
    groups : array (n_rows,) or None
        Of rows that are not parted.
    seed : int
    deadline : Deadline
    n_jobs : int or None

    Returns
    -------
    recipe : GridRecipe
    history : list of dict
        ``n_grids``, ``n_rows``, ``score`` and ``seconds`` of each size.

    Notes
    -----
    Does not grow with the rows: about a fit of the rows that choose with all grids that are
    drawn, and the drawing.
    """
    started, generator, most = time.perf_counter(), stream(seed, "sizing"), recipe.size
    n_rows = MOST_ROWS if data.n_outputs <= _FEW_OUTPUTS else _ROWS_OF_MANY
    n_rows = sampled_rows(n_rows, data.n_outputs)
    training = shuffled(split[0], groups, generator)[:n_rows]
    judges = generator.permutation(split[1])[: sampled_rows(MOST_JUDGES, data.n_outputs)]
    n_half, n_both = half_of(len(training)), len(training)
    parts = slice(0, n_half), slice(n_half, n_both), slice(n_both, n_both + len(judges))
    sample = data.take(np.concatenate([training, judges]))
    worth_drawing = most_drawn(len(recipe.scaler.unit))
    every = recipe.sized(max(most, least, min(_POOL, worth_drawing)))
    pool = Pool(sample, parts, goal, every, generator, n_jobs)
    # The penalty beside the summed losses stays what it is.
    alpha *= data.rows.shape[0] / n_half
    history: list[dict[str, float]] = []
    n_grids, score = min(FIRST_GRIDS, most), np.inf
    while True:
        before = pool.taken.copy()
        pool.take(n_grids - pool.halves.count)
        last, score = score, pool.solve(alpha)
        told = {"n_grids": n_grids, "n_rows": n_half, "score": score}
        history.append({**told, "seconds": time.perf_counter() - started})
        enough = score > (1.0 - LEAST_GAIN) * last or n_grids == most
        if enough or deadline.beyond(_TIME_SHARE):
            taken = pool.taken if score < last else before
            return GridRecipe(recipe.scaler, pool.grids.take(_filled(taken, least))), history
        n_grids = min(2 * n_grids, most)


def _filled(taken: NDArray[np.bool_], least: int) -> NDArray[np.bool_]:
    """Return which grids to take: those taken, and the first others until there are ``least``."""
    others = np.cumsum(~taken)
    return taken | (others <= least - np.count_nonzero(taken))


def _sketched(rest: Unexplained, generator: np.random.Generator) -> Unexplained:
    """Return a few random projections of many outputs."""
    n_outputs = rest.fitted.shape[1]
    if n_outputs <= MOST_SKETCHES:
        return rest
    directions = generator.normal(size=(n_outputs, MOST_SKETCHES))

    def projected(values: Vector) -> Vector:
        return np.einsum("nk,ks->ns", values, directions)

    return Unexplained(
        projected(rest.fitted),
        projected(rest.judged),
        rest.fitted_curvature,
        rest.judged_curvature,
    )
