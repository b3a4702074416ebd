"""For whom predictions fail: groups of rows, in words, where errors are larger than elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gramless.base.random import stream
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray

_LEVELS = 0.1, 0.25, 0.5, 0.75, 0.9  # quantiles at which numbers are parted
_CATEGORIES, _LEAST_ROWS, _LEAST_SHARE, _LEAST_JUDGED = 12, 20, 0.02, 10
_WORSE = 1.1
"""Least ratio of a group's loss to that of all rows, and to that of larger groups that hold it."""
_FOUND, _CONFIRMED = 3.0, 2.0
"""Standard errors by which a group is worse: where it was found, and in rows of its own."""


@dataclass(frozen=True)
class Condition:
    """What one column of a row must be, in words, and which rows meet it."""

    column: str
    words: str
    holds: BoolArray


@dataclass(frozen=True)
class WorstGroup:
    """Rows whose loss is larger than that of the others.

    Attributes
    ----------
    conditions : sequence of Condition
        One or two, all of which hold.
    rows : array (n_rows,)
        The numbers of all its rows.
    loss : float
        The mean loss of those of its rows in which it was not searched for.
    ratio : float
        That over the mean loss of all rows that were not searched.
    """

    conditions: Sequence[Condition]
    rows: IntArray
    loss: float
    ratio: float

    @property
    def words(self) -> str:
        """The conditions as one phrase."""
        first, *rest = self.conditions
        others = [
            one.words if one.column == first.column else f"{one.column} is {one.words}"
            for one in rest
        ]
        return " and ".join([f"{first.column} is {first.words}", *others])


def worst_groups(
    losses: FloatArray, columns: Mapping[str, AnyArray], *, most: int = 5, seed: int = 0
) -> list[WorstGroup]:
    """Return groups of rows whose losses are certainly larger than those of other rows.

    Groups are at most half of the rows that meet one condition or two: a number above or up to a
    quantile, a category, a missing value. They are searched for in half of the rows, and kept if
    they are worse in the other half too, by two standard errors; their losses are from there. The
    most certain group comes first, and its worst part if that is worse again; then groups of the
    rows that are left.

    Parameters
    ----------
    losses : array (n_samples,)
        Loss of each row.
    columns : mapping of str to array (n_samples,)
        Numbers with NaN where missing, or labels with ``""`` where missing.
    most : int, default=5
        Number of groups at most.
    seed : int, default=0
        Seed of the halves.

    Returns
    -------
    list of WorstGroup
        The largest losses first; empty where no group is certainly worse.

    Notes
    -----
    Some 10 conditions a column, and the sums of all pairs of them: ``n_samples * n_conditions**2``
    operations.

    Examples
    --------
    >>> age = np.random.default_rng(0).uniform(0, 100, 1000)
    >>> (group,) = worst_groups(np.where(age > 90, 4.0, 1.0), {"age": age})
    >>> group.words, group.loss
    ('age is above 90', 4.0)
    """
    conditions = [one for name, own in columns.items() for one in _conditions(name, own)]
    searched = np.zeros(len(losses), bool)
    searched[stream(seed, "rows searched for groups").permutation(len(losses))[::2]] = True
    # Squares of losses in this unit are finite.
    unit = float(losses.mean())
    if not conditions or not 0.0 < unit < np.inf or not losses[~searched].any():
        return []
    losses = losses / unit
    holds = np.column_stack([one.holds for one in conditions])
    overall = float(losses[~searched].mean())
    left = np.ones(len(losses), bool)
    chosen: list[list[int]] = []
    while len(chosen) < most:
        own = _first(losses, holds, searched, left, 2)
        if own is None:
            break
        inside = holds[:, own].all(axis=1)
        part = _first(losses, holds, searched, left & inside, 1) if len(own) == 1 else None
        chosen += [own] if part is None else [own, sorted([*own, *part])]
        left &= ~inside
    found = []
    for own in chosen[:most]:
        inside = holds[:, own].all(axis=1)
        loss = float(losses[inside & ~searched].mean())
        words = [conditions[k] for k in own]
        found.append(WorstGroup(words, np.flatnonzero(inside), loss * unit, loss / overall))
    return sorted(found, key=lambda group: -group.loss)


def _conditions(name: str, values: AnyArray) -> Iterator[Condition]:
    if values.dtype.kind != "f":
        labels, counts = np.unique(values, return_counts=True)
        for label in labels[np.argsort(-counts, kind="stable")[:_CATEGORIES]]:
            yield Condition(name, str(label) or "missing", values == label)
        return
    missing = np.isnan(values)
    if missing.any():
        yield Condition(name, "missing", missing)
    for cut in _cuts(values[~missing]):
        with np.errstate(invalid="ignore"):
            yield Condition(name, f"at most {cut:.12g}", values <= cut)
            yield Condition(name, f"above {cut:.12g}", values > cut)


def _cuts(known: FloatArray) -> list[float]:
    """Return distinct quantiles of numbers, rounded as far as their spread allows."""
    if not len(known) or np.ptp(known) == 0.0:
        return []
    ends = np.quantile(known, [0.05, 0.95])
    spread = float(np.ptp(ends) or np.ptp(known))
    rounded = np.round(np.quantile(known, _LEVELS), 1 - math.floor(math.log10(spread)))
    return [float(cut) for cut in np.unique(rounded) if known.min() <= cut < known.max()]


def _first(
    losses: FloatArray, holds: BoolArray, searched: BoolArray, within: BoolArray, most: int
) -> list[int] | None:
    """Return the most certain conditions, at most so many, that other rows confirm."""
    rows = searched & within
    if np.count_nonzero(rows) < 2 * _LEAST_ROWS:
        return None
    for chosen in _candidates(losses[rows], holds[rows]):
        inside = np.asarray(holds[:, chosen].all(axis=1))
        small = 2 * np.count_nonzero(inside) <= len(losses) and len(chosen) <= most
        if small and _is_worse(losses, inside, within & ~searched):
            return chosen
    return None


def _candidates(losses: FloatArray, holds: BoolArray) -> Iterator[list[int]]:
    """Yield conditions and pairs of them whose rows are worse, the most certain first."""
    n_rows, mask = len(losses), holds.astype(np.float64)
    counts = mask.T @ mask
    sums, squares = (mask.T @ (mask * own[:, None]) for own in (losses, losses**2))
    with np.errstate(invalid="ignore", divide="ignore"):
        means, others = sums / counts, (losses.sum() - sums) / (n_rows - counts)
        spread = squares / counts - means**2
        rest = ((losses**2).sum() - squares) / (n_rows - counts) - others**2
        certain = (means - others) / np.sqrt(spread / counts + rest / (n_rows - counts))
        alone = np.maximum.outer(np.diag(means), np.diag(means))
        adds = (means > _WORSE * alone) | np.eye(len(means), dtype=bool)
        large = (counts >= max(_LEAST_ROWS, _LEAST_SHARE * n_rows)) & (2.0 * counts <= n_rows)
        worse = adds & large & (certain > _FOUND) & (means > _WORSE * losses.mean())
    for k in np.argsort(-np.where(worse, certain, -np.inf), axis=None, kind="stable"):
        i, j = divmod(int(k), len(means))
        if not worse[i, j]:
            return
        if i <= j:
            yield [i] if i == j else [i, j]


def _is_worse(losses: FloatArray, inside: BoolArray, around: BoolArray) -> bool:
    """Tell whether losses inside a group are certainly larger than those of the rows around it."""
    own, others = losses[around & inside], losses[around & ~inside]
    if min(len(own), len(others)) < _LEAST_JUDGED:
        return False
    gap = math.sqrt(own.var(ddof=1) / len(own) + others.var(ddof=1) / len(others))
    needed = max(_CONFIRMED * gap, (_WORSE - 1.0) * float(others.mean()))
    return bool(own.mean() - others.mean() > needed)
