"""For whom intervals hold: the share that is covered, by groups of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gramless.base.errors import InputError


@dataclass(frozen=True)
class CoveredGroup:
    """Rows of like values, and what intervals do for them.

    Attributes
    ----------
    least, most : float
        The range of the values.
    n_rows : int
    covered : float
        Share of the rows whose target lies within its interval.
    width : float
        Mean width of the intervals.
    """

    least: float
    most: float
    n_rows: int
    covered: float
    width: float


def conditional_coverage(
    y: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    by: ArrayLike | None = None,
    n_groups: int = 5,
) -> list[CoveredGroup]:
    """Return how often intervals hold in groups of rows, which split by ``by`` into equal parts.

    Intervals of ``predict_interval`` hold on average over all rows; good ones also do for rows that
    are easy or hard to predict.

    Parameters
    ----------
    y, lower, upper : arrays (n,)
        Targets of rows that were not fitted, and the bounds for them.
    by : array (n,), optional
        What groups have in common, an input for example; the widths if left out, or where these
        are all the same the middles of the intervals.
    n_groups : int, default=5
        Number of groups of about the same size.

    Examples
    --------
    >>> groups = conditional_coverage([0.0, 5.0], [-1.0, -2.0], [1.0, 2.0], n_groups=2)
    >>> [(group.width, group.covered) for group in groups]
    [(2.0, 1.0), (4.0, 0.0)]
    """
    truth, low, high = (np.asarray(part, np.float64) for part in (y, lower, upper))
    if truth.ndim != 1 or not (truth.shape == low.shape == high.shape):
        raise InputError("conditional_coverage: y, lower and upper must be columns of one length.")
    widths = high - low
    if by is not None:
        values = np.asarray(by, np.float64)
    else:
        values = widths if np.ptp(widths) > 0.0 else 0.5 * (low + high)
    inside = (low <= truth) & (truth <= high)
    order = np.argsort(values, kind="stable")
    return [
        CoveredGroup(
            float(values[own].min()),
            float(values[own].max()),
            len(own),
            float(inside[own].mean()),
            float(widths[own].mean()),
        )
        for own in np.array_split(order, n_groups)
        if len(own) > 0
    ]
