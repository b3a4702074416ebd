"""Prior variances of the weights of bins, and grids along which monotone weights rise or fall."""

from __future__ import annotations

import numpy as np

from gramless.base.types import FloatArray, IntArray
from gramless.features.grids import Grids
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.codes import PlainBins
from gramless.matrices.weighted import first_part, round_factors, scale_bins
from gramless.selection.config import SearchConfig
from gramless.selection.data import Data
from gramless.selection.goal import Goal

_PSEUDO_ROWS = 20.0  # added to the rows of each bin, so that bins of a few rows are treated equally


def prior_deviations(counts: FloatArray, power: float) -> FloatArray:
    """Return the prior standard deviations of the weights of bins from their row counts.

    Variances are proportional to ``(count + 20) ** -power``, and have a mean of 1 over the rows.
    Standard deviations are rounded to 12 bits.

    Examples
    --------
    >>> prior_deviations(np.array([5.0, 5.0, 80.0]), 0.0)
    array([1., 1., 1.])
    >>> (prior_deviations(np.array([5.0, 5.0, 80.0]), 0.5) ** 2).round(2)
    array([1.8, 1.8, 0.9])
    """
    variances = (counts + _PSEUDO_ROWS) ** -power
    # Unlike einsum, BLAS rounds sums differently for each number of threads.
    total = np.einsum("b,b->", variances, counts)
    scaled = variances * (counts.sum() / total if total > 0.0 else 1.0)
    return round_factors(np.sqrt(scaled))


def count_power_of(goal: Goal, config: SearchConfig) -> float:
    """Return the power of the row counts; it is 0 for classes, sparse and monotone fits."""
    if goal.loss.is_of_classes or goal.sparse or goal.signs is not None:
        return 0.0
    return config.count_power


def row_counts(data: Data, order: IntArray | slice) -> FloatArray:
    """Return how many rows each row in an order counts for; validation rows count for 0."""
    rows = np.arange(len(data.targets))[order]
    counts = data.row_counts(rows)
    counts = np.ones(len(rows)) if counts is None else counts
    return np.where(rows < data.n_fitted, counts, 0.0)


def scaled_by_priors(
    matrix: FeatureMatrix, data: Data, order: IntArray | slice, power: float
) -> FeatureMatrix:
    """Return features with the bins scaled by the prior standard deviations of their weights.

    The rows of ``matrix`` are those of ``order``. Bins are its first part; without bins, or with
    power 0, the matrix is returned unchanged.
    """
    bins = first_part(matrix)
    if power == 0.0 or not isinstance(bins, PlainBins):
        return matrix
    # The non-zeros of bins are equal to the scale.
    counts = bins.rmatvec(row_counts(data, order)) / bins.scale
    return scale_bins(matrix, prior_deviations(counts, power))


def signs_of_grids(grids: Grids, monotone: IntArray) -> IntArray:
    """Return the sign of monotone weights of each grid over one input, 0 for other grids."""
    divided = np.isfinite(grids.widths)
    # The columns of grown grids are the values of all inputs, followed by their ranks.
    signs: IntArray = np.tile(monotone, 2)[divided.argmax(axis=1)]
    return np.where(divided.sum(axis=1) == 1, signs, 0)


def signed_columns(grids: Grids, monotone: IntArray) -> IntArray:
    """Return the column of ``grids.widths`` that each grid with a sign divides, -1 for others."""
    columns = np.isfinite(grids.widths).argmax(axis=1)
    return np.where(signs_of_grids(grids, monotone) != 0, columns, -1)
