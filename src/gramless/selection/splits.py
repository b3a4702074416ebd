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
Groups = NDArray[np.intp]  # the index of each row's group

# Splits of the search.
_N_SEARCH_FOLDS = 4
_ROWS_OF_ONE_SEARCH_SPLIT = 4000

# Splits that validate the candidates.
MIN_ROWS_TO_VALIDATE_ONCE = 300  # with fewer rows, all folds validate the selected model
_MIN_ROWS_OF_SINGLE_SPLIT = 500  # with fewer rows, there are five folds instead of one split
_MAX_VALIDATION_ROWS = 20_000
_VALIDATION_SHARE, _MIN_VALIDATION_SHARE = 0.2, 0.1
_ENOUGH_VALIDATION_ROWS = 2000
_N_FOLDS = 5

_MIN_ALIGNED_ROWS = 256
# The correlation of the targets of matched rows is this far below chance, in standard deviations.
_MIN_DISAGREEMENT = 8.0
_SAMPLED_MATCHED_ROWS = 20_000  # about this many rows are compared first
_FEW_GROUPS = 16  # if fewer groups would fill a sample, rows of all groups are drawn instead
_BLOCK_VALUES = 1 << 18


def search_splits(
    n_rows: int, size: int, seed: int, classes: IntArray | None = None
) -> list[Split]:
    """Return splits of ``size`` random rows into training and validation rows.

    If at least 4,000 rows are drawn, there is one split, with a quarter of them for validation.
    With fewer rows a quarter would be too noisy, so there are four folds. Each class is in all
    parts if it has enough rows.

    Examples
    --------
    >>> [(len(a), len(b)) for a, b in search_splits(100_000, 8000, seed=0)]
    [(6000, 2000)]
    >>> [(len(a), len(b)) for a, b in search_splits(400, 8000, seed=0)]
    [(300, 100), (300, 100), (300, 100), (300, 100)]
    """
    drawn = stream(seed, "holdout").permutation(n_rows)[:size]
    ends = _part_ends(len(drawn), _N_SEARCH_FOLDS)
    if len(drawn) >= _ROWS_OF_ONE_SEARCH_SPLIT:
        validation, training = _stratified_parts(drawn, ends[:1], classes)
        return [(np.sort(training), np.sort(validation))]
    folds = _stratified_parts(drawn, ends, classes)
    return [
        (np.sort(np.concatenate(folds[:k] + folds[k + 1 :])), np.sort(folds[k]))
        for k in range(_N_SEARCH_FOLDS)
    ]


def validation_splits(n_rows: int, seed: int, classes: IntArray | None = None) -> list[Split]:
    """Return splits of all rows into training and validation rows.

    Validation rows are 20 % of up to 10,000 rows, 2,000 of up to 20,000 rows, and 10 % of more rows
    (at most 20,000). With fewer than 500 rows there are five folds. Each class with at least two
    rows is on both sides.

    Examples
    --------
    >>> [(len(a), len(b)) for a, b in validation_splits(5000, seed=0)]
    [(4000, 1000)]
    >>> [(len(a), len(b)) for a, b in validation_splits(100, seed=0)]
    [(80, 20), (80, 20), (80, 20), (80, 20), (80, 20)]
    """
    order = stream(seed, "held back").permutation(n_rows)
    if n_rows >= _MIN_ROWS_OF_SINGLE_SPLIT:
        n_validation = min(
            _VALIDATION_SHARE * n_rows,
            max(_ENOUGH_VALIDATION_ROWS, _MIN_VALIDATION_SHARE * n_rows),
        )
        end = min(int(n_validation), _MAX_VALIDATION_ROWS)
        parts = _stratified_parts(order, [end], classes)[:1]
    else:
        parts = _stratified_parts(order, _part_ends(n_rows, _N_FOLDS), classes)
    return [_split_off(n_rows, part) for part in parts if len(part) > 0]


def drawn_rows(n_rows: int, size: int, seed: int, classes: IntArray | None = None) -> IntArray:
    """Return a random sample of the rows in order, stratified by class.

    Classes with at least two rows keep one, unless there are more such classes than drawn rows.

    Examples
    --------
    >>> classes = np.repeat([0, 1], [998, 2])
    >>> np.bincount(classes[drawn_rows(1000, 100, 0, classes)]).tolist()
    [99, 1]
    """
    order = stream(seed, "rows in time").permutation(n_rows)
    order = order if classes is None else _stratify(order, classes)
    return np.sort(order[:size])


def class_folds(n_rows: int, n_folds: int, seed: int, classes: IntArray | None) -> list[Split]:
    """Return the splits of folds of equal size, stratified by class.

    Examples
    --------
    >>> classes = np.array([0, 0, 0, 0, 1, 1])
    >>> [classes[held_back].tolist() for _, held_back in class_folds(6, 2, 0, classes)]
    [[0, 0, 1], [0, 0, 1]]
    """
    order = stream(seed, "folds").permutation(n_rows)
    order = order if classes is None else _stratify(order, classes)
    return [_split_off(n_rows, part) for part in np.array_split(order, n_folds)]


def group_folds(
    groups: IntArray, n_folds: int, seed: int, classes: IntArray | None = None
) -> list[Split]:
    """Return the splits of folds of similar size that keep groups together.

    There are fewer folds if groups are large. ``groups`` holds indices from 0 without gaps. Folds
    are stratified by the rarest class of each group. The first folds are those of typical size.

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
        order = _stratify(order, rarest)
    n_rows, ordered_sizes = len(groups), sizes[order]
    middles = np.cumsum(ordered_sizes) - 0.5 * ordered_sizes
    fold = np.empty(len(sizes), np.intp)
    fold[order] = np.minimum(n_folds * middles / n_rows, n_folds - 1).astype(np.intp)
    parts = [np.flatnonzero(fold[groups] == k) for k in np.unique(fold)]
    parts.sort(key=lambda part: abs(len(part) - n_rows / n_folds))
    return [_split_off(n_rows, part) for part in parts]


@dataclass(frozen=True, eq=False)
class Folds:
    """The splits of a user, each with two disjoint sides that are not empty.

    Rows on neither side are only in the final fit. All splits keep ``groups`` together.
    """

    splits: list[Split] = field(repr=False)
    groups: IntArray | None = field(repr=False, default=None)

    @property
    def main(self) -> Split:
        """The largest split, the first of equals: for expanding time-series splits the last one."""
        return max(self.splits, key=lambda split: len(split[0]) + len(split[1]))

    def used(self, n_rows: int) -> list[Split]:
        """Return the main split, followed by the others if there are few rows."""
        main = self.main
        others = [split for split in self.splits if split is not main]
        return [main, *others] if n_rows < _ROWS_OF_ONE_SEARCH_SPLIT else [main]

    def sampled(self, n_rows: int, most: int, seed: int) -> list[Split]:
        generator, splits = stream(seed, "holdout"), self.used(n_rows)
        return [
            (_sample(training, share, generator), _sample(validation, share, generator))
            for training, validation in splits
            for share in [min(1.0, most / (len(training) + len(validation)))]
        ]

    @property
    def can_be_halved(self) -> bool:
        """True if the main split's training rows have no groups, or more than one."""
        return self.groups is None or len(np.unique(self.groups[self.main[0]])) > 1


def all_rows(split: Split, n_rows: int) -> NDArray[np.intp]:
    """Return the training rows of a split, its validation rows, and then all other rows.

    Examples
    --------
    >>> all_rows((np.array([0, 1]), np.array([3])), 5)
    array([0, 1, 3, 2, 4])
    """
    neither = np.ones(n_rows, bool)
    for part in split:
        neither[part] = False
    return np.concatenate([*split, np.flatnonzero(neither)])


def _sample(
    rows: NDArray[np.intp], share: float, generator: np.random.Generator
) -> NDArray[np.intp]:
    if share == 1.0:
        return rows
    return np.sort(generator.permutation(rows)[: max(1, int(share * len(rows)))])


def _part_ends(n_rows: int, n_parts: int) -> list[int]:
    """Return the ends of parts of equal size, without the last one."""
    size, remainder = divmod(n_rows, n_parts)
    return [k * size + min(k, remainder) for k in range(1, n_parts)]


def _stratified_parts(
    order: NDArray[np.intp], ends: list[int], classes: IntArray | None
) -> list[NDArray[np.intp]]:
    parts = np.split(order, ends)
    if classes is None:
        return parts
    n_classes = int(classes.max(initial=0)) + 1
    counts = np.stack([np.bincount(classes[part], minlength=n_classes) for part in parts])
    total, present = counts.sum(axis=0), np.count_nonzero(counts, axis=0)
    if ((total < 2) | (present >= np.minimum(total, len(parts)))).all():
        return parts
    # Parts are stratified only if one of them lacks a class that it could have.
    return np.split(_stratify(order, classes), ends)


def _stratify(order: NDArray[np.intp], classes: IntArray) -> NDArray[np.intp]:
    """Return rows in an order in which every slice has about the same share of each class."""
    labels = classes[order]
    counts = np.bincount(labels)
    by_class = np.argsort(labels, kind="stable")
    rank = np.empty(len(order), np.intp)
    rank[by_class] = np.arange(len(order)) - (np.cumsum(counts) - counts)[labels[by_class]]
    # Classes with one row come last.
    position = np.where(counts[labels] > 1, rank / counts[labels], 1.0)
    return order[np.argsort(position, kind="stable")]


def _split_off(n_rows: int, part: NDArray[np.intp]) -> Split:
    is_validation = np.zeros(n_rows, bool)
    is_validation[part] = True
    return np.flatnonzero(~is_validation), np.flatnonzero(is_validation)


def half_of(n_rows: int) -> int:
    """Return the number of rows in the first of two halves.

    From 256 rows on it is a multiple of four, so that loops over four rows at a time can read
    aligned codes of the second half.

    Examples
    --------
    >>> half_of(7), half_of(1003)
    (3, 500)
    """
    return n_rows // 2 if n_rows < _MIN_ALIGNED_ROWS else n_rows // 8 * 4


def matched_rows(data: Data, n_jobs: int | None = None) -> Groups | None:
    """Return the groups of rows of a matched sample, or None if rows look independent.

    Matched rows would leak between training and validation rows, so splits must not separate them.
    Rows of a group are equal in all inputs but one, which is the same for all groups, and their
    targets are negatively correlated. Sparse rows are not examined.

    Notes
    -----
    It takes a few nanoseconds per value, a sort of about 20,000 values per input, and 24 bytes per
    row.

    Examples
    --------
    Each pair of a winner and a loser shares an input:

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
    drawn = stream(0, "matched rows").integers(0, 2**64, (2, n_inputs), np.uint64)
    multipliers = drawn | np.uint64(1)
    blocks = row_blocks(n_rows, max(1, _BLOCK_VALUES // n_inputs))
    total = np.zeros(n_rows, np.uint64)

    def hash_rows(a: int, b: int) -> NDArray[np.uint64]:
        # Rows are contiguous, so reading single columns would load a cache line per value.
        return _hash_columns(np.ascontiguousarray(np.asarray(data.rows[a:b]).T), multipliers)

    def add_hashes(a: int, b: int) -> None:
        total[a:b] = hash_rows(a, b).sum(axis=0, dtype=np.uint64)

    map_blocks(add_hashes, blocks, n_jobs)
    # Large tables are sampled by key, so that groups stay complete.
    largest_key = np.uint64((2**64 - 1) // max(1, n_rows // _SAMPLED_MATCHED_ROWS))

    def keys_without_input(a: int, b: int) -> list[tuple[NDArray[np.uint64], NDArray[np.intp]]]:
        keys_by_input = total[a:b] - hash_rows(a, b)
        sampled = [np.flatnonzero(keys <= largest_key) for keys in keys_by_input]
        pairs = zip(keys_by_input, sampled, strict=True)
        return [(keys[rows], a + rows) for keys, rows in pairs]

    parts = map_blocks(keys_without_input, blocks, n_jobs)
    centred = targets - targets.mean(axis=0)
    with one_blas_thread():
        # The standard deviation of the product of the targets of two independent rows.
        spread = float(np.linalg.norm(centred.T @ centred) / n_rows)

    def agreement(j: int) -> float:
        keys, rows = (np.concatenate([part[j][k] for part in parts]) for k in (0, 1))
        return _agreement(keys, centred[rows], spread)

    agreements = map_blocks(agreement, [(j,) for j in range(n_inputs)], n_jobs)
    best = int(np.argmin(agreements))
    if agreements[best] >= -_MIN_DISAGREEMENT:
        return None
    column = np.asarray(data.rows[:, best])
    keys = total - _hash_columns(column[None], multipliers[:, [best]])[0]
    return np.unique(keys, return_inverse=True)[1].reshape(-1)


def kept_together(split: Split, groups: Groups | None) -> Split:
    """Return a split in which each group is on the side of its first row.

    The split is returned unchanged if a side would become empty.
    """
    if groups is None:
        return split
    rows = np.sort(np.concatenate(split))
    is_validation = np.isin(rows, split[1])
    _, first, index = np.unique(groups[rows], return_index=True, return_inverse=True)
    is_validation = is_validation[first[index.reshape(-1)]]
    if is_validation.all() or not is_validation.any():
        return split
    return rows[~is_validation], rows[is_validation]


def shuffled(
    rows: NDArray[np.intp], groups: Groups | None, generator: np.random.Generator
) -> NDArray[np.intp]:
    """Return rows in random order, with the rows of a group next to each other.

    Examples
    --------
    >>> groups = np.array([7, 8, 7, 9, 8, 7])
    >>> groups[shuffled(np.arange(6), groups, np.random.default_rng(0))]
    array([7, 7, 7, 8, 8, 9])
    """
    order = generator.permutation(rows)
    if groups is None:
        return order
    _, index = np.unique(groups[order], return_inverse=True)
    positions = generator.permutation(int(index.max(initial=0)) + 1)
    return order[np.argsort(positions[index.reshape(-1)], kind="stable")]


def cut_in_two(
    rows: NDArray[np.intp], groups: Groups | None, most: int, generator: np.random.Generator
) -> tuple[NDArray[np.intp], int]:
    """Return at most ``most`` rows in random order, and the size of the first half.

    The halves share no group, unless there is only one group.

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
    half, ordered_groups = half_of(len(order)), groups[order]
    ends = np.flatnonzero(ordered_groups[1:] != ordered_groups[:-1]) + 1
    return order, half if len(ends) == 0 else int(ends[np.argmin(np.abs(ends - half))])


def _hash_columns(
    columns: NDArray[np.floating], multipliers: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return the hash of each value, (n_inputs, n_rows)."""
    first, second = multipliers[:, :, None]
    # Adding 0.0 turns -0.0 into 0.0, so that equal numbers have equal bits.
    bits = (columns.astype(np.float64) + 0.0).view(np.uint64) * first
    bits ^= bits >> np.uint64(32)
    bits *= second
    return bits ^ (bits >> np.uint64(29))


def _agreement(keys: NDArray[np.uint64], targets: NDArray[np.float64], spread: float) -> float:
    """Return the agreement of targets of rows with the same key, in standard deviations.

    It is the sum over all rows of the product of a row's target with the mean target of the other
    rows of its group, divided by its standard deviation for independent rows.
    """
    _, index, size = np.unique(keys, return_inverse=True, return_counts=True)
    has_several_rows = size > 1
    if not has_several_rows.any():
        return 0.0
    # Squares of huge targets overflow, and are then ignored; each thread has its own error state.
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.stack([np.bincount(index.reshape(-1), column) for column in targets.T])
        squares = np.bincount(index.reshape(-1), np.einsum("nk,nk->n", targets, targets))
        products = (np.einsum("kg,kg->g", sums, sums) - squares)[has_several_rows]
        n_others = size[has_several_rows] - 1.0
        deviation = spread * np.sqrt(np.sum(2.0 * (1.0 + 1.0 / n_others)))
        total = np.sum(products / n_others)
    return float(total / deviation) if deviation > 0 and np.isfinite(total) else 0.0
