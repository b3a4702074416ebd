"""Splits into training and validation rows, which keep groups of rows together."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.random import stream
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import IntArray
from gramless.selection.data import Data

Split = tuple[NDArray[np.intp], NDArray[np.intp]]
Groups = NDArray[np.intp]  # the number of each row's group

_VALIDATION_SHARE = 0.25
_FOLDS = 4
_ENOUGH_FOR_ONE_SPLIT = 4000

ROWS_OF_ONE_SPLIT = 300  # with fewer rows, five-fold cross-validation judges the selected model
MOST_HELD_BACK = 20_000
_JUDGING_SHARE, _SMALL_SHARE = 0.2, 0.1
_ENOUGH_TO_JUDGE = 2000
_TURNS = 5
_ENOUGH_FOR_ONE_TURN = 500
_ENOUGH_TO_ALIGN = 256
# How far below chance the targets of matched rows agree, in standard deviations.
_LEAST_DISAGREEMENT = 8.0
_FIRST_MATCHED_ROWS = 20_000  # about so many are compared before all are
_FEW_GROUPS = 16  # if fewer groups would fill a sample, rows of all groups are drawn instead
_NUMBERS_AT_ONCE = 1 << 18


def holdout_splits(
    n_rows: int, size: int, seed: int, classes: IntArray | None = None
) -> list[Split]:
    """Draw ``size`` rows without replacement and cut them into training and validation parts.

    One split, a quarter held back, from 4,000 drawn rows on; four folds of the drawn rows below,
    where a quarter would say too little. Each class is in all parts, as far as it has rows.

    Examples
    --------
    >>> [(len(a), len(b)) for a, b in holdout_splits(100_000, 8000, seed=0)]
    [(6000, 2000)]
    >>> [(len(a), len(b)) for a, b in holdout_splits(400, 8000, seed=0)]
    [(300, 100), (300, 100), (300, 100), (300, 100)]
    """
    drawn = stream(seed, "holdout").permutation(n_rows)[:size]
    ends = _ends(len(drawn), _FOLDS)
    if len(drawn) >= _ENOUGH_FOR_ONE_SPLIT:
        held_back, others = _parts(drawn, ends[:1], classes)
        return [(np.sort(others), np.sort(held_back))]
    folds = _parts(drawn, ends, classes)
    return [
        (np.sort(np.concatenate(folds[:k] + folds[k + 1 :])), np.sort(folds[k]))
        for k in range(_FOLDS)
    ]


def held_back_splits(n_rows: int, seed: int, classes: IntArray | None = None) -> list[Split]:
    """Cut rows into a part to fit and a part to judge: once, or in turns where they are few.

    A fifth of up to 10,000 rows is held back, a tenth of many, at most 20,000; of fewer than 500
    rows each once, in five turns. Each class is on both sides, if it has two rows.

    Examples
    --------
    >>> [(len(a), len(b)) for a, b in held_back_splits(5000, seed=0)]
    [(4000, 1000)]
    >>> [(len(a), len(b)) for a, b in held_back_splits(100, seed=0)]
    [(80, 20), (80, 20), (80, 20), (80, 20), (80, 20)]
    """
    order = stream(seed, "held back").permutation(n_rows)
    if n_rows >= _ENOUGH_FOR_ONE_TURN:
        few = min(_JUDGING_SHARE * n_rows, max(_ENOUGH_TO_JUDGE, _SMALL_SHARE * n_rows))
        parts = _parts(order, [min(int(few), MOST_HELD_BACK)], classes)[:1]
    else:
        parts = _parts(order, _ends(n_rows, _TURNS), classes)
    return [_parted(n_rows, part) for part in parts if len(part) > 0]


def drawn_rows(n_rows: int, size: int, seed: int, classes: IntArray | None = None) -> IntArray:
    """Draw some of the rows, with the share that each class has of all, in order.

    Classes of at least two rows keep one, unless there are more of them than rows are drawn.

    Examples
    --------
    >>> classes = np.repeat([0, 1], [998, 2])
    >>> np.bincount(classes[drawn_rows(1000, 100, 0, classes)]).tolist()
    [99, 1]
    """
    order = stream(seed, "rows in time").permutation(n_rows)
    order = order if classes is None else _spread(order, classes)
    return np.sort(order[:size])


def class_folds(n_rows: int, n_folds: int, seed: int, classes: IntArray | None) -> list[Split]:
    """Cut rows into folds of one size, each held back once; classes are spread over all.

    Examples
    --------
    >>> classes = np.array([0, 0, 0, 0, 1, 1])
    >>> [classes[held_back].tolist() for _, held_back in class_folds(6, 2, 0, classes)]
    [[0, 0, 1], [0, 0, 1]]
    """
    order = stream(seed, "folds").permutation(n_rows)
    order = order if classes is None else _spread(order, classes)
    return [_parted(n_rows, part) for part in np.array_split(order, n_folds)]


def group_folds(
    groups: IntArray, n_folds: int, seed: int, classes: IntArray | None = None
) -> list[Split]:
    """Cut rows into folds of about one size that part no group; fewer where groups are large.

    Groups are numbered from 0 on without gaps, and spread over the folds by the rarest class that
    each has. Of at least two folds, those whose size is nearest to that wanted come first.

    Examples
    --------
    >>> groups = np.array([0, 0, 1, 1, 2, 2])
    >>> sorted(groups[held_back].tolist() for _, held_back in group_folds(groups, 3, seed=0))
    [[0, 0], [1, 1], [2, 2]]
    """
    sizes = np.bincount(groups)
    order = stream(seed, "group folds").permutation(len(sizes))
    if classes is not None:
        rarity = np.argsort(np.argsort(np.bincount(classes), kind="stable"), kind="stable")
        rarest = np.full(len(sizes), len(rarity))
        np.minimum.at(rarest, groups, rarity[classes])
        order = _spread(order, rarest)
    n_rows, own = len(groups), sizes[order]
    middles = np.cumsum(own) - 0.5 * own
    fold = np.empty(len(sizes), np.intp)
    fold[order] = np.minimum(n_folds * middles / n_rows, n_folds - 1).astype(np.intp)
    parts = [np.flatnonzero(fold[groups] == k) for k in np.unique(fold)]
    parts.sort(key=lambda part: abs(len(part) - n_rows / n_folds))
    return [_parted(n_rows, part) for part in parts]


@dataclass(frozen=True, eq=False)
class Folds:
    """Rows to hold back, as a user said.

    Of no split a side is empty, or a row on both; rows on neither are of the final fit alone. No
    split parts the rows of a group, whose numbers ``groups`` has.
    """

    splits: list[Split] = field(repr=False)
    groups: IntArray | None = field(repr=False, default=None)

    @property
    def main(self) -> Split:
        """The first of the splits with the most rows: where time goes on, the last."""
        return max(self.splits, key=lambda split: len(split[0]) + len(split[1]))

    def used(self, n_rows: int) -> list[Split]:
        """Return the main split, and the others too where rows are few."""
        main = self.main
        others = [split for split in self.splits if split is not main]
        return [main, *others] if n_rows < _ENOUGH_FOR_ONE_SPLIT else [main]

    def sampled(self, n_rows: int, most: int, seed: int) -> list[Split]:
        """Return the same with at most so many rows, drawn from both sides alike."""
        generator, splits = stream(seed, "holdout"), self.used(n_rows)
        return [
            (_sampled(training, share, generator), _sampled(held_back, share, generator))
            for training, held_back in splits
            for share in [min(1.0, most / (len(training) + len(held_back)))]
        ]

    @property
    def can_be_halved(self) -> bool:
        """Whether the main split's training rows are of more than one group, if of any."""
        return self.groups is None or len(np.unique(self.groups[self.main[0]])) > 1


def all_rows(split: Split, n_rows: int) -> NDArray[np.intp]:
    """Return the training rows of a split, those held back, and those that are neither.

    Examples
    --------
    >>> all_rows((np.array([0, 1]), np.array([3])), 5)
    array([0, 1, 3, 2, 4])
    """
    neither = np.ones(n_rows, bool)
    for part in split:
        neither[part] = False
    return np.concatenate([*split, np.flatnonzero(neither)])


def _sampled(
    rows: NDArray[np.intp], share: float, generator: np.random.Generator
) -> NDArray[np.intp]:
    if share == 1.0:
        return rows
    return np.sort(generator.permutation(rows)[: max(1, int(share * len(rows)))])


def _ends(n_rows: int, n_parts: int) -> list[int]:
    """Return where parts of one size end, but the last one; the first may have one row more."""
    size, more = divmod(n_rows, n_parts)
    return [k * size + min(k, more) for k in range(1, n_parts)]


def _parts(
    order: NDArray[np.intp], ends: list[int], classes: IntArray | None
) -> list[NDArray[np.intp]]:
    """Cut rows in random order into parts, with each class in all of them if it has the rows."""
    parts = np.split(order, ends)
    if classes is None:
        return parts
    n_classes = int(classes.max(initial=0)) + 1
    counts = np.stack([np.bincount(classes[part], minlength=n_classes) for part in parts])
    total, present = counts.sum(axis=0), np.count_nonzero(counts, axis=0)
    if ((total < 2) | (present >= np.minimum(total, len(parts)))).all():
        return parts
    return np.split(_spread(order, classes), ends)


def _spread(order: NDArray[np.intp], classes: IntArray) -> NDArray[np.intp]:
    """Order rows so that every slice has its share of each class; a class of one row is last."""
    own = classes[order]
    counts = np.bincount(own)
    by_class = np.argsort(own, kind="stable")
    rank = np.empty(len(order), np.intp)
    rank[by_class] = np.arange(len(order)) - (np.cumsum(counts) - counts)[own[by_class]]
    place = np.where(counts[own] > 1, rank / counts[own], 1.0)
    return order[np.argsort(place, kind="stable")]


def _parted(n_rows: int, part: NDArray[np.intp]) -> Split:
    """Return all other rows and those of the part, in order."""
    held_back = np.zeros(n_rows, bool)
    held_back[part] = True
    return np.flatnonzero(~held_back), np.flatnonzero(held_back)


def half_of(n_rows: int) -> int:
    """Return how many rows the first of two halves has.

    A multiple of four from 256 rows on: where the codes of the second half begin, loops that
    take four rows at once lose no time.

    Examples
    --------
    >>> half_of(7), half_of(1003)
    (3, 500)
    """
    return n_rows // 2 if n_rows < _ENOUGH_TO_ALIGN else n_rows // 8 * 4


def matched_rows(data: Data, n_jobs: int | None = None) -> Groups | None:
    """Return the groups of rows that were drawn together; None where they look drawn one by one.

    Rows of a group agree in all inputs but one, the same for all groups. Sparse rows are not looked
    at. Takes some nanoseconds a number, a sort of some 20,000 numbers an input, and 24 bytes a row.

    Examples
    --------
    Pairs that share an input, a winner and a loser each:

    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.repeat(rng.normal(size=500), 2), rng.normal(size=1000)])
    >>> y = np.tile([-1.0, 1.0], 500)
    >>> groups = matched_rows(Data(X, y, None, lambda z, y, weight: 0.0, False))
    >>> bool((groups[::2] == groups[1::2]).all()), len(np.unique(groups))
    (True, 500)
    """
    if sp.issparse(data.rows):
        return None
    targets = data.targets.reshape(len(data.targets), -1)
    n_rows, n_inputs = data.rows.shape
    at_once, multipliers = max(1, _NUMBERS_AT_ONCE // n_inputs), _multipliers(n_inputs)
    blocks = row_blocks(n_rows, at_once)
    total = np.zeros(n_rows, np.uint64)

    def hashes_of(a: int, b: int) -> NDArray[np.uint64]:
        # Rows lie one after the other: a column by itself is read a cache line a number.
        return _hashed(np.ascontiguousarray(np.asarray(data.rows[a:b]).T), multipliers)

    def add_up(a: int, b: int) -> None:
        total[a:b] = hashes_of(a, b).sum(axis=0, dtype=np.uint64)

    map_blocks(add_up, blocks, n_jobs)
    # Of large tables some keys are left out, with all their rows.
    most = np.uint64((2**64 - 1) // max(1, n_rows // _FIRST_MATCHED_ROWS))

    def of_others(a: int, b: int) -> list[tuple[NDArray[np.uint64], NDArray[np.intp]]]:
        keys = total[a:b] - hashes_of(a, b)
        chosen = [np.flatnonzero(own <= most) for own in keys]
        return [(own[rows], a + rows) for own, rows in zip(keys, chosen, strict=True)]

    parts = map_blocks(of_others, blocks, n_jobs)
    mean, spread = targets.mean(axis=0), _target_spread(targets)

    def agreement(j: int) -> float:
        keys, rows = (np.concatenate([part[j][k] for part in parts]) for k in (0, 1))
        return _agreement(keys, targets[rows] - mean, spread)

    agreements = map_blocks(agreement, [(j,) for j in range(n_inputs)], n_jobs)
    found = int(np.argmin(agreements))
    if agreements[found] >= -_LEAST_DISAGREEMENT:
        return None
    column = np.asarray(data.rows[:, found])
    keys = total - _hashed(column[None], multipliers[:, [found]])[0]
    return np.unique(keys, return_inverse=True)[1].reshape(-1)


def kept_together(split: Split, groups: Groups | None) -> Split:
    """Return a split, of all rows or some, with each group where its first row was.

    It stays as it is where a side would be empty, or rows are in no groups.
    """
    if groups is None:
        return split
    rows = np.sort(np.concatenate(split))
    held_back = np.isin(rows, split[1])
    _, first, number = np.unique(groups[rows], return_index=True, return_inverse=True)
    held_back = held_back[first[number.reshape(-1)]]
    if held_back.all() or not held_back.any():
        return split
    return rows[~held_back], rows[held_back]


def shuffled(
    rows: NDArray[np.intp], groups: Groups | None, generator: np.random.Generator
) -> NDArray[np.intp]:
    """Return rows in random order, those of a group next to each other.

    Examples
    --------
    >>> groups = np.array([7, 8, 7, 9, 8, 7])
    >>> groups[shuffled(np.arange(6), groups, np.random.default_rng(0))]
    array([7, 7, 7, 8, 8, 9])
    """
    order = generator.permutation(rows)
    if groups is None:
        return order
    _, number = np.unique(groups[order], return_inverse=True)
    places = generator.permutation(int(number.max(initial=0)) + 1)
    return order[np.argsort(places[number.reshape(-1)], kind="stable")]


def cut_in_two(
    rows: NDArray[np.intp], groups: Groups | None, most: int, generator: np.random.Generator
) -> tuple[NDArray[np.intp], int]:
    """Shuffle rows, at most so many of them, and cut them into two halves that share no group.

    Returns the rows and how many are of the first half. A single group is cut in two.

    Examples
    --------
    >>> groups = np.array([7, 8, 7, 9, 8, 7])
    >>> rows, n_first = cut_in_two(np.arange(6), groups, 6, np.random.default_rng(0))
    >>> groups[rows[:n_first]], groups[rows[n_first:]]
    (array([7, 7, 7]), array([8, 8, 9]))
    """
    order = shuffled(rows, groups, generator)
    if groups is None:
        order = order[:most]
        return order, half_of(len(order))
    if len(order) > most and len(np.unique(groups[order[:most]])) < _FEW_GROUPS:
        order = order[np.sort(generator.permutation(len(order))[:most])]
    order = order[:most]
    half, own = half_of(len(order)), groups[order]
    ends = np.flatnonzero(own[1:] != own[:-1]) + 1
    return order, half if len(ends) == 0 else int(ends[np.argmin(np.abs(ends - half))])


def _multipliers(n_inputs: int) -> NDArray[np.uint64]:
    drawn = stream(0, "matched rows").integers(0, 2**64, (2, n_inputs), np.uint64)
    return drawn | np.uint64(1)


def _hashed(columns: NDArray[np.floating], multipliers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each number of some inputs, (n_inputs, n_rows)."""
    first, second = multipliers[:, :, None]
    # -0.0 + 0.0 is 0.0: equal numbers have equal bits.
    bits = (columns.astype(np.float64) + 0.0).view(np.uint64) * first
    bits ^= bits >> np.uint64(32)
    bits *= second
    return bits ^ (bits >> np.uint64(29))


def _target_spread(targets: NDArray[np.float64]) -> float:
    """Return how far the product of two rows' targets is from 0, by chance."""
    centred = targets - targets.mean(axis=0)
    with one_blas_thread():
        return float(np.linalg.norm(centred.T @ centred) / len(targets))


def _agreement(keys: NDArray[np.uint64], targets: NDArray[np.float64], spread: float) -> float:
    """Return how much targets of rows with one key agree, in standard deviations of chance.

    The sum over all rows of the product of a row's target with the mean of the others of
    its group.
    """
    _, number, size = np.unique(keys, return_inverse=True, return_counts=True)
    several = size > 1
    if not several.any():
        return 0.0
    sums = np.stack([np.bincount(number.reshape(-1), column) for column in targets.T])
    squares = np.bincount(number.reshape(-1), np.einsum("nk,nk->n", targets, targets))
    products = (np.einsum("kg,kg->g", sums, sums) - squares)[several]
    others = size[several] - 1.0
    chance = spread * np.sqrt(np.sum(2.0 * (1.0 + 1.0 / others)))
    total = np.sum(products / others)
    # Squares of huge targets overflow: what is no number says nothing.
    return float(total / chance) if chance > 0 and np.isfinite(total) else 0.0
