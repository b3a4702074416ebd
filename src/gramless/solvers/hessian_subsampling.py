"""The rows that have a say in a Newton step: a sample by their curvature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gramless.base.cached import cached_property
from gramless.base.random import stream
from gramless.matrices.base import FeatureMatrix, Vector

_FEW_ROWS = 4096
"""So many cost less than to choose among them."""
_WORTH_COPYING = 0.75
"""More of the rows are as dear as all."""
_MEASURED_ROWS = 256


@dataclass(frozen=True)
class CurvedRows:
    """Some rows of a matrix; all of them where it is the whole.

    Attributes
    ----------
    matrix : FeatureMatrix (m, n_columns)
    chosen : array (m,) of int, or slice
        Which rows of the whole.
    upscale : array (m,)
        By how much their weights grow, so that they stand for the rest.
    whole : bool
    """

    matrix: FeatureMatrix
    chosen: NDArray[np.intp] | slice
    upscale: NDArray[np.float64]
    whole: bool


def all_rows(matrix: FeatureMatrix) -> CurvedRows:
    """Return all rows of a matrix, which is not copied."""
    return CurvedRows(matrix, slice(None), np.ones(matrix.shape[0]), whole=True)


class RowChoice:
    """Draws rows of a matrix, each with a chance in proportion to its curvature.

    A row with curvature ``c`` is kept with the chance ``p = min(1, c / enough)`` and then
    counts ``1 / p`` times: the expected Hessian is the whole one, and no row that stands for
    others has more curvature than ``enough``. With a part of the penalty that is what bounds
    the error (Cohen, Musco & Musco 2017, leverage scores with a ridge, from above).

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
    alpha : float
        The L2 penalty; 0 keeps every row with any curvature.
    """

    def __init__(self, matrix: FeatureMatrix, alpha: float) -> None:
        self.matrix, self.alpha, self.draws = matrix, alpha, 0

    def choose(self, curvatures: Vector, penalties: float) -> CurvedRows:
        """Draw rows; each draw is another.

        Parameters
        ----------
        curvatures : array (n_rows, K)
            Row weights included; the largest of a row's outputs counts.
        penalties : float
            Curvature that a row may stand for, as a multiple of alpha.

        Returns
        -------
        CurvedRows
            All where they are few, or nearly all are drawn.

        Notes
        -----
        At most ``curvatures.sum() / (penalties * alpha)`` rows of norm 1 are expected. They are
        copied: time and memory of their part of the matrix.
        """
        n_rows = self.matrix.shape[0]
        if n_rows <= _FEW_ROWS:
            return all_rows(self.matrix)
        largest = curvatures.max(axis=1)
        chances = (largest > 0).astype(float)
        if self.alpha > 0:
            chances = np.minimum(largest * (self.squared_norm / (penalties * self.alpha)), 1.0)
        drawn = stream(0, "curved rows", self.draws).random(n_rows) < chances
        self.draws += 1
        chosen = np.flatnonzero(drawn)
        if not 0 < len(chosen) <= _WORTH_COPYING * n_rows:
            return all_rows(self.matrix)
        return CurvedRows(self.matrix.take_rows(chosen), chosen, 1.0 / chances[chosen], whole=False)

    @cached_property
    def squared_norm(self) -> float:
        """The mean squared norm of rows, from 256 of them at most."""
        n_rows = self.matrix.shape[0]
        step = max(1, n_rows // _MEASURED_ROWS)
        few = self.matrix.take_rows(np.arange(0, n_rows, step)[:_MEASURED_ROWS])
        return float(few.gram_diagonal().sum()) / max(1, few.shape[0])
