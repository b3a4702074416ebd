"""Search for groups of rows with larger losses than other rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gramless.base.random import stream
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray

_LEVELS = 0.1, 0.25, 0.5, 0.75, 0.9  # quantiles that split a column of numbers
_MAX_CATEGORIES = 12
# Minimum number of rows of a group in the half that is searched, the same as a share of that half,
# and the minimum number in the other half.
_MIN_ROWS, _MIN_SHARE, _MIN_TEST_ROWS = 20, 0.02, 10
# Minimum ratio of a group's loss to that of all rows, of the other rows, and of the larger groups
# that contain it.
_MIN_RATIO = 1.1
# Minimum difference between the mean losses of a group and of the other rows, in standard errors:
# in the half that is searched, where many groups are compared, and in the other half.
_SEARCH_ERRORS, _TEST_ERRORS = 3.0, 2.0


@dataclass(frozen=True)
class Condition:
    """A condition on one column."""

    column: str
    words: str
    holds: BoolArray  # mask of the rows that meet the condition


@dataclass(frozen=True)
class WorstGroup:
    """A group of rows with a larger loss than the other rows.

    Attributes
    ----------
    conditions : sequence of Condition
        One or two conditions that all rows of the group meet.
    rows : array (n_rows,)
        The indices of its rows.
    loss : float
        Mean loss of its rows in the half that was not searched.
    ratio : float
        That loss divided by the mean loss of all rows of that half.
    """

    conditions: Sequence[Condition]
    rows: IntArray
    loss: float
    ratio: float

    @property
    def words(self) -> str:
        """The conditions as text."""
        first, *rest = self.conditions
        others = [
            condition.words
            if condition.column == first.column
            else f"{condition.column} is {condition.words}"
            for condition in rest
        ]
        return " and ".join([f"{first.column} is {first.words}", *others])


def worst_groups(
    losses: FloatArray, columns: Mapping[str, AnyArray], *, max_groups: int = 5, seed: int = 0
) -> list[WorstGroup]:
    """Return groups of rows with significantly larger losses than other rows.

    A group is defined by one or two conditions: a number above or up to a quantile, a category, or
    a missing value. It has at most half of the rows. Groups are searched for in one half of the
    rows. They are kept if their mean loss is larger also in the other half, by two standard errors
    and a tenth of the mean loss of the other rows. The reported losses are from that half. The
    search selects the most significant group, and also its worst part if that is significantly
    worse again. Then it continues with the remaining rows.

    Parameters
    ----------
    losses : array (n_samples,)
        Loss of each row.
    columns : mapping of str to array (n_samples,)
        Numbers with NaN where missing, or labels with ``""`` where missing.
    max_groups : int, default=5
        Maximum number of groups.
    seed : int, default=0
        Seed of the halves.

    Returns
    -------
    list of WorstGroup
        The largest losses first; empty if no group is significantly worse.

    Notes
    -----
    About 10 conditions per column and the sums of all pairs of conditions:
    ``n_samples * n_conditions**2`` operations.

    Examples
    --------
    >>> age = np.random.default_rng(0).uniform(0, 100, 1000)
    >>> (group,) = worst_groups(np.where(age > 90, 4.0, 1.0), {"age": age})
    >>> group.words, group.loss
    ('age is above 90', 4.0)
    """
    conditions = [
        condition for name, values in columns.items() for condition in _conditions(name, values)
    ]
    searched = np.zeros(len(losses), bool)
    searched[stream(seed, "rows searched for groups").permutation(len(losses))[::2]] = True
    # Losses are divided by their mean, so that their squares are finite.
    unit = float(losses.mean())
    if not conditions or not 0.0 < unit < np.inf or not losses[~searched].any():
        return []
    losses = losses / unit
    holds = np.column_stack([condition.holds for condition in conditions])
    overall = float(losses[~searched].mean())
    remaining = np.ones(len(losses), bool)
    selected: list[list[int]] = []  # the indices of the conditions of each group
    while len(selected) < max_groups:
        group = _find_most_significant(losses, holds, searched, remaining, 2)
        if group is None:
            break
        inside = holds[:, group].all(axis=1)
        part = None
        if len(group) == 1:
            part = _find_most_significant(losses, holds, searched, remaining & inside, 1)
        selected += [group] if part is None else [group, sorted([*group, *part])]
        remaining &= ~inside
    groups = []
    for group in selected[:max_groups]:
        inside = holds[:, group].all(axis=1)
        loss = float(losses[inside & ~searched].mean())
        members = [conditions[k] for k in group]
        groups.append(WorstGroup(members, np.flatnonzero(inside), loss * unit, loss / overall))
    return sorted(groups, key=lambda group: -group.loss)


def _conditions(name: str, values: AnyArray) -> Iterator[Condition]:
    if values.dtype.kind != "f":
        labels, counts = np.unique(values, return_counts=True)
        for label in labels[np.argsort(-counts, kind="stable")[:_MAX_CATEGORIES]]:
            yield Condition(name, str(label) or "missing", values == label)
        return
    missing = np.isnan(values)
    if missing.any():
        yield Condition(name, "missing", missing)
    for cut in _rounded_quantiles(values[~missing]):
        with np.errstate(invalid="ignore"):
            yield Condition(name, f"at most {cut:.12g}", values <= cut)
            yield Condition(name, f"above {cut:.12g}", values > cut)


def _rounded_quantiles(known: FloatArray) -> list[float]:
    """Return distinct quantiles of numbers, rounded to two digits of their spread."""
    if not len(known) or np.ptp(known) == 0.0:
        return []
    ends = np.quantile(known, [0.05, 0.95])
    spread = float(np.ptp(ends) or np.ptp(known))
    rounded = np.round(np.quantile(known, _LEVELS), 1 - math.floor(math.log10(spread)))
    return [float(cut) for cut in np.unique(rounded) if known.min() <= cut < known.max()]


def _find_most_significant(
    losses: FloatArray,
    holds: BoolArray,
    searched: BoolArray,
    remaining: BoolArray,
    max_conditions: int,
) -> list[int] | None:
    """Return the conditions of the most significant group that the other half confirms."""
    rows = searched & remaining
    if np.count_nonzero(rows) < 2 * _MIN_ROWS:
        return None
    for candidate in _candidates(losses[rows], holds[rows]):
        inside = np.asarray(holds[:, candidate].all(axis=1))
        is_small = 2 * np.count_nonzero(inside) <= len(losses) and len(candidate) <= max_conditions
        if is_small and _is_worse(losses, inside, remaining & ~searched):
            return candidate
    return None


def _candidates(losses: FloatArray, holds: BoolArray) -> Iterator[list[int]]:
    """Yield conditions and pairs of conditions with larger losses, the most significant first."""
    n_rows, mask = len(losses), holds.astype(np.float64)
    counts = mask.T @ mask
    # Matrix products give the sums of all pairs at once; the diagonal has single conditions.
    sums, squares = (mask.T @ (mask * values[:, None]) for values in (losses, losses**2))
    with np.errstate(invalid="ignore", divide="ignore"):
        means, other_means = sums / counts, (losses.sum() - sums) / (n_rows - counts)
        variance = squares / counts - means**2
        other_variance = ((losses**2).sum() - squares) / (n_rows - counts) - other_means**2
        errors = np.sqrt(variance / counts + other_variance / (n_rows - counts))
        t = (means - other_means) / errors
        single = np.maximum.outer(np.diag(means), np.diag(means))
        is_above_single = (means > _MIN_RATIO * single) | np.eye(len(means), dtype=bool)
        is_allowed = (counts >= max(_MIN_ROWS, _MIN_SHARE * n_rows)) & (2.0 * counts <= n_rows)
        is_worse = (t > _SEARCH_ERRORS) & (means > _MIN_RATIO * losses.mean())
        is_candidate = is_above_single & is_allowed & is_worse
    for k in np.argsort(-np.where(is_candidate, t, -np.inf), axis=None, kind="stable"):
        i, j = divmod(int(k), len(means))
        if not is_candidate[i, j]:
            return
        if i <= j:
            yield [i] if i == j else [i, j]


def _is_worse(losses: FloatArray, inside: BoolArray, rows: BoolArray) -> bool:
    """Return whether losses inside a group are significantly larger than those of other rows."""
    group, others = losses[rows & inside], losses[rows & ~inside]
    if min(len(group), len(others)) < _MIN_TEST_ROWS:
        return False
    error = math.sqrt(group.var(ddof=1) / len(group) + others.var(ddof=1) / len(others))
    min_difference = max(_TEST_ERRORS * error, (_MIN_RATIO - 1.0) * float(others.mean()))
    return bool(group.mean() - others.mean() > min_difference)
