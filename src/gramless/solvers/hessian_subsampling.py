"""The rows that have a say in a Newton step: a sample by their curvature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramless.base.cached import cached_property
from gramless.base.random import stream
from gramless.matrices.base import FeatureMatrix, Vector

WORTH_COPYING = 0.75
"""Above this fraction, use all rows."""
MEASURED_ROWS = 256


@dataclass(frozen=True)
class CurvedRows:
    """Some rows of a matrix, or the whole of it; weights of the rows grow by ``upscale``."""

    matrix: FeatureMatrix
    chosen: NDArray[np.intp] | slice
    upscale: NDArray[np.float64]
    whole: bool


class RowChoice:
    """Draws rows of a matrix, each with a chance in proportion to its curvature.

    A row with curvature ``c`` is kept with the chance ``p = min(1, c / enough)`` and then
    counts ``1 / p`` times: the expected Hessian is the whole one, and no row that stands for
    others has more curvature than ``enough``. With ``enough`` a part of the penalty, this bounds
    the error (Cohen, Musco & Musco 2017: ridge leverage scores, bounded from above). With ``alpha``
    0 every row with any curvature is kept, and so are all of at most ``all_below`` rows.
    """

    def __init__(self, matrix: FeatureMatrix, alpha: float, all_below: int) -> None:
        self.matrix, self.alpha, self.all_below, self.draws = matrix, alpha, all_below, 0

    def choose(self, curvatures: Vector, penalties: float) -> CurvedRows:
        """Draw rows, other ones each time; all where nearly all are drawn.

        Of the curvatures (n_rows, K), times row weights, the largest of a row counts. A row may
        stand for a curvature of ``penalties * alpha``: at most ``curvatures.sum()`` over that many
        rows of norm 1 are expected, and their part of the matrix is copied.
        """
        n_rows = self.matrix.shape[0]
        whole = CurvedRows(self.matrix, slice(None), np.ones(n_rows), whole=True)
        if n_rows <= self.all_below:
            return whole
        largest = curvatures.max(axis=1)
        chances = (largest > 0).astype(float)
        if self.alpha > 0:
            chances = np.minimum(largest * (self.squared_norm / (penalties * self.alpha)), 1.0)
        drawn = stream(0, "curved rows", self.draws).random(n_rows) < chances
        self.draws += 1
        chosen = np.flatnonzero(drawn)
        if not 0 < len(chosen) <= WORTH_COPYING * n_rows:
            return whole
        return CurvedRows(self.matrix.take_rows(chosen), chosen, 1.0 / chances[chosen], whole=False)

    @cached_property
    def squared_norm(self) -> float:
        """The mean squared norm of rows, from 256 of them at most."""
        n_rows = self.matrix.shape[0]
        step = max(1, n_rows // MEASURED_ROWS)
        few = self.matrix.take_rows(np.arange(0, n_rows, step)[:MEASURED_ROWS])
        return float(few.gram_diagonal().sum()) / max(1, few.shape[0])
