"""The rows of the Hessian of a Newton step, sampled by their curvature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramless.base.random import stream
from gramless.base.threads import cached_property
from gramless.matrices.base import FeatureMatrix, Vector

WORTH_COPYING = 0.75  # if a larger share of the rows is drawn, all are used without a copy
MEASURED_ROWS = 256  # the mean squared norm is measured on at most this many rows


@dataclass(frozen=True)
class HessianRows:
    """The rows of the Hessian; their weights are multiplied by ``upscale``."""

    matrix: FeatureMatrix
    chosen: NDArray[np.intp] | slice
    upscale: NDArray[np.float64]
    has_all_rows: bool


class RowSampler:
    """A sampler of rows with probabilities proportional to their curvature.

    A row with curvature ``c`` is kept with probability ``p = min(1, c / enough)`` and weighted by
    ``1 / p``. The expected Hessian is then that of all rows, and no upscaled row has more curvature
    than ``enough``. If ``enough`` is proportional to the penalty, this bounds the error (Cohen,
    Musco & Musco 2017: upper bounds of ridge leverage scores). All rows with curvature are kept if
    ``alpha`` is 0, and all rows if there are at most ``all_below``.
    """

    def __init__(self, matrix: FeatureMatrix, alpha: float, all_below: int) -> None:
        self.matrix, self.alpha, self.all_below, self.n_draws = matrix, alpha, all_below, 0

    def draw(self, curvatures: Vector, penalties: float) -> HessianRows:
        """Return a new random sample of rows.

        All rows are returned if there are at most ``all_below`` of them, or if none or more than
        75 % are drawn.

        ``curvatures`` (n_rows, K) include the row weights; the largest of each row is used.
        ``enough`` is ``penalties * alpha`` for rows of norm 1, so at most ``curvatures.sum() /
        enough`` of these are expected. The sampled part of the matrix is copied.
        """
        n_rows = self.matrix.shape[0]
        everything = HessianRows(self.matrix, slice(None), np.ones(n_rows), has_all_rows=True)
        if n_rows <= self.all_below:
            return everything
        largest = curvatures.max(axis=1)
        probabilities = (largest > 0).astype(float)
        if self.alpha > 0:
            probabilities = np.minimum(
                largest * (self.squared_norm / (penalties * self.alpha)), 1.0
            )
        drawn = stream(0, "curved rows", self.n_draws).random(n_rows) < probabilities
        self.n_draws += 1
        chosen = np.flatnonzero(drawn)
        if not 0 < len(chosen) <= WORTH_COPYING * n_rows:
            return everything
        upscale = 1.0 / probabilities[chosen]
        return HessianRows(self.matrix.take_rows(chosen), chosen, upscale, has_all_rows=False)

    @cached_property
    def squared_norm(self) -> float:
        n_rows = self.matrix.shape[0]
        step = max(1, n_rows // MEASURED_ROWS)
        sample = self.matrix.take_rows(np.arange(0, n_rows, step)[:MEASURED_ROWS])
        return float(sample.gram_diagonal().sum()) / max(1, sample.shape[0])
