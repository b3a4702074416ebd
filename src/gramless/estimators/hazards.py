"""Times to events, of which some are only known to be longer: targets, hazards, concordance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _check_y

from gramless.base.errors import InputError
from gramless.base.state import Stateful, array_in, require
from gramless.base.types import AnyArray, BoolArray, FloatArray

_TIMES = np.dtype([("event", "?"), ("time", "<f8")])


def event_times(y: object, owner: str) -> AnyArray:
    """Return targets as a structured array of ``event`` and ``time``.

    ``y`` is a structured array with two fields as scikit-survival has them, a data frame with two
    such columns, or numbers alone: times of events that were all seen.

    Examples
    --------
    >>> event_times([3.0, 5.0], "KernelSurvival")["event"]
    array([ True,  True])
    """
    columns = _columns(y)
    if columns is None:
        if y is None:
            raise InputError(f"{owner} requires y to be passed, but the target y is None.")
        times = np.asarray(_check_y(y, y_numeric=True, estimator=owner), np.float64)
        columns = [np.ones(len(times), bool), times]
    flags = [k for k, column in enumerate(columns) if column.dtype.kind == "b"]
    if len(columns) != 2 or len(flags) != 1:
        raise InputError(
            f"{owner}: y must have two fields or columns, whether the event was seen (bool) and "
            f"the time (a number); got types {[str(column.dtype) for column in columns]}."
        )
    found = np.empty(len(columns[0]), _TIMES)
    found["event"], found["time"] = columns[flags[0]], columns[1 - flags[0]]
    if not np.isfinite(found["time"]).all():
        raise InputError(f"{owner}: y has times that are NaN or infinite.")
    if not found["event"].any():
        raise InputError(f"{owner}: y has no event; nothing can be learned of when one comes.")
    return found


def _columns(y: Any) -> list[AnyArray] | None:
    """Return the fields of a structured array or columns of a frame; None for anything else."""
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names is None and getattr(y, "ndim", None) == 2:
        names = getattr(y, "columns", None)
    return None if names is None else [np.asarray(y[name]) for name in names]


@dataclass(frozen=True)
class BaselineHazard(Stateful):
    """The cumulative hazard of rows with log risk 0, which steps up at the times of events.

    Attributes
    ----------
    times : array (n_times,)
        Rising.
    cumulative : array (n_times,)
        From each time on until the next one; 0 before the first.
    """

    times: FloatArray = field(repr=False)
    cumulative: FloatArray = field(repr=False)

    def check(self) -> None:
        """Check that the parts of a hazard from a file fit each other."""
        times = array_in(vars(self), "times", np.float64, (None,), finite=True)
        steps = array_in(vars(self), "cumulative", np.float64, times.shape)
        rising = times.size > 0 and (np.diff(times) > 0).all() and (np.diff(steps) >= 0).all()
        require(bool(rising and steps[0] >= 0.0), "a hazard does not rise")

    @classmethod
    def breslow(cls, y: AnyArray, log_risks: FloatArray, weight: FloatArray | None) -> Self:
        """Return Breslow's estimate for rows with these risks.

        Each event adds its weight over the sum of the risks of all rows that are still under
        observation, times their weights.

        Examples
        --------
        >>> y = event_times([1.0, 2.0], "KernelSurvival")
        >>> BaselineHazard.breslow(y, np.zeros(2), None).cumulative
        array([0.5, 1.5])
        """
        times, event = y["time"], y["event"]
        own = np.ones(len(y)) if weight is None else weight
        known, number = np.unique(times[event], return_inverse=True)
        order = np.argsort(times, kind="stable")
        most = float(log_risks.max())
        risks = own[order] * np.exp(log_risks[order] - most)
        at_risk = np.cumsum(risks[::-1])[::-1]
        first = np.searchsorted(times[order], known)
        steps = np.bincount(number, own[event], len(known)) / at_risk[first]
        with np.errstate(over="ignore"):
            return cls(known, np.cumsum(steps) * np.exp(-most))

    def at(self, times: FloatArray) -> FloatArray:
        """Return the cumulative hazard at some times."""
        steps = np.append(0.0, self.cumulative)
        return steps[np.searchsorted(self.times, times, side="right")]


def concordance_index(event: BoolArray, time: ArrayLike, risk: ArrayLike) -> float:
    """Return the share of comparable pairs in which the row of the earlier event has more risk.

    Harrell's C, as scikit-survival's ``concordance_index_censored`` has it: a pair is comparable if
    one row has an event before the other's time, which may be that of its own censoring; equal
    risks count half. Takes some 0.1 s for 100,000 rows.

    Parameters
    ----------
    event : array (n,) of bool
        Whether the event was seen.
    time, risk : arrays (n,)
        When each row was last seen, and its predicted risk.

    Examples
    --------
    >>> concordance_index(np.array([True, True, False]), [1.0, 2.0, 3.0], [3.0, 1.0, 2.0])
    0.6666666666666666
    """
    from gramless.loops.concordance import count_pairs

    event, time = np.asarray(event, bool), np.asarray(time, np.float64)
    order = np.lexsort([event, -time])
    event, time = event[order], time[order]
    values, ranks = np.unique(np.asarray(risk, np.float64)[order], return_inverse=True)
    events = np.flatnonzero(event)
    _, first, group = np.unique(time[event], return_index=True, return_inverse=True)
    found = np.zeros(3, np.int64)
    tree = np.zeros(len(values) + 1, np.int64)
    count_pairs(ranks.reshape(-1) + 1, events, events[first][group.reshape(-1)], tree, found)
    if found[0] == 0:
        raise InputError("concordance_index: no event comes before the time of another row.")
    return float((found[1] + 0.5 * found[2]) / found[0])
