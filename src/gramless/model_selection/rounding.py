"""How coarsely weights may be rounded: as far as rows held back lose next to nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramless.base.compact import rounded_to_multiples
from gramless.base.types import FloatArray
from gramless.matrices.base import FeatureMatrix, Vector
from gramless.model_selection.alpha import Goal
from gramless.model_selection.data import Data
from gramless.model_selection.splits import Split

_MOST_LOST = 1e-3
"""Of the loss of rows held back, by rounding."""
_FINEST = 2.0**-22
"""Of the largest weight: steps as fine as single precision need no rows that judge them."""
_HALVINGS = 6
"""Of the powers of two between the finest step and the largest weight."""


def coarsest_step(
    goal: Goal, data: Data, matrix: FeatureMatrix, split: Split, weights: Vector
) -> float:
    """Return the largest step of which weights may be multiples.

    Rounded weights must not raise the mean loss of the rows held back by more than a thousandth,
    twice its standard error included. Weights smaller than half a step become zero, and their bins
    are forgotten.

    Parameters
    ----------
    matrix : FeatureMatrix (n_rows, n_columns)
        Features of the training rows of the split, then of those held back, without the intercept's
        column.
    weights : array (n_columns,) or (n_columns, K)
        Of a fit to the training rows, that of the intercept last if there is one.

    Returns
    -------
    float
        Zero where all weights are.

    Notes
    -----
    Takes seven products of the features of the rows held back.
    """
    n, n_bound = len(split[0]), matrix.shape[1]
    others = data.matrix(matrix.take_rows(slice(n, n + len(split[1]))))
    judges = _Judges.of(goal, data, split, others.matvec(weights))
    largest = float(np.abs(weights[:n_bound]).max())
    if largest == 0.0:
        return 0.0

    def is_fine(step: float) -> bool:
        rounded = weights.copy()
        rounded[:n_bound] = rounded_to_multiples(weights[:n_bound], step)
        return judges.lost(others.matvec(rounded)) <= _MOST_LOST

    low, high = np.log2(_FINEST), 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_fine(largest * 2.0**middle) else (low, middle)
    return largest * float(2.0**low)


@dataclass(frozen=True, eq=False)
class _Judges:
    """Rows held back, and their losses without any rounding."""

    goal: Goal
    targets: Vector
    weights: FloatArray
    losses: FloatArray
    mean: float

    @classmethod
    def of(cls, goal: Goal, data: Data, split: Split, raw: Vector) -> _Judges:
        """Return the rows held back, with their raw predictions."""
        rows = split[1]
        counts, targets = data.counts_of(rows), data.targets[rows]
        weights = np.ones(len(rows)) if counts is None else counts
        losses = _by_row(goal.loss.value(raw, targets))
        return cls(goal, targets, weights, losses, abs(float(np.average(losses, weights=weights))))

    def lost(self, raw: Vector) -> float:
        """Return by which share other predictions raise the mean loss, at worst."""
        more = _by_row(self.goal.loss.value(raw, self.targets)) - self.losses
        mean = np.average(more, weights=self.weights)
        error = np.sqrt(np.average((more - mean) ** 2, weights=self.weights) / len(more))
        return float(mean + 2.0 * error) / self.mean if self.mean > 0.0 else np.inf


def _by_row(values: Vector) -> FloatArray:
    return values if values.ndim == 1 else values.sum(axis=1)
