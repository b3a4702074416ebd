"""The coverage of prediction intervals in groups of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gramless.base.errors import InputError
from gramless.base.numeric import is_whole


@dataclass(frozen=True)
class CoveredGroup:
    """The coverage of prediction intervals in a group of rows.

    Attributes
    ----------
    least, most : float
        The range of the values that define the group.
    n_rows : int
        Number of rows.
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
    """Return the coverage of prediction intervals in groups of rows with similar values of ``by``.

    Intervals of ``predict_interval`` have the requested coverage on average over all rows. Good
    intervals have it also for rows that are easy and for rows that are hard to predict.

    Parameters
    ----------
    y, lower, upper : arrays (n,)
        Targets of rows that were not in the fit, and the bounds of their intervals.
    by : array (n,), optional
        Values that the rows are grouped by, for example an input. By default the widths of the
        intervals, or their centres if all widths are equal.
    n_groups : int, default=5
        Number of groups of about the same size.

    Returns
    -------
    list of CoveredGroup
        In ascending order of ``by``.

    Raises
    ------
    InputError
        If there are no rows, if an array does not have one number per row, or if ``n_groups`` is
        not a positive integer.

    Examples
    --------
    >>> groups = conditional_coverage([0.0, 5.0], [-1.0, -2.0], [1.0, 2.0], n_groups=2)
    >>> [(group.width, group.covered) for group in groups]
    [(2.0, 1.0), (4.0, 0.0)]
    """
    truth, low, high = (np.asarray(part, np.float64) for part in (y, lower, upper))
    if truth.ndim != 1 or not (truth.shape == low.shape == high.shape):
        raise InputError(
            "conditional_coverage: y, lower and upper must be one-dimensional and of equal length."
        )
    if len(truth) == 0:
        raise InputError("conditional_coverage needs at least one row.")
    if not is_whole(n_groups, 1):
        raise InputError(
            f"conditional_coverage: n_groups must be an integer, at least 1; got {n_groups!r}."
        )
    widths = high - low
    if by is not None:
        values = np.asarray(by, np.float64)
        if values.shape != truth.shape:
            raise InputError(
                f"conditional_coverage: by must have one number for each of the {len(truth)} rows, "
                f"got shape {values.shape}."
            )
    else:
        values = widths if np.ptp(widths) > 0.0 else 0.5 * (low + high)
    is_covered = (low <= truth) & (truth <= high)
    order = np.argsort(values, kind="stable")
    return [
        CoveredGroup(
            float(values[rows].min()),
            float(values[rows].max()),
            len(rows),
            float(is_covered[rows].mean()),
            float(widths[rows].mean()),
        )
        for rows in np.array_split(order, n_groups)
        if len(rows) > 0
    ]
