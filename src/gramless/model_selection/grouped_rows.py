"""Rows that were drawn together, and splits that do not part them.

Rows that are drawn one by one, and agree in most inputs, agree in their targets too, or at least no
less than others: the covariance of two targets given the same inputs x is the variance of
``E[y | x]``. Where rows that agree in all inputs but one have targets that agree *less* than those
of other rows, they were drawn together: a case and its controls, a signal and its shuffled copies,
a winner and a loser. New rows come with none of theirs in the training set. A random row held back
leaves them there: they tell its class, and whatever learns to find them looks good.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.random import stream
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.model_selection.data import Data
from gramless.model_selection.splits import Split, half_of

_LEAST = 8.0
"""In standard deviations: how far below chance targets of matched rows agree."""
_ROWS = 20_000
"""About so many are looked at before all are."""
_FEW_GROUPS = 16
"""Where fewer groups would fill a sample, rows of all groups are drawn instead."""
_NUMBERS_AT_ONCE = 1 << 18

Groups = NDArray[np.intp]
"""The number of each row's group."""


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
    most = np.uint64((2**64 - 1) // max(1, n_rows // _ROWS))

    def of_others(a: int, b: int) -> list[tuple[NDArray[np.uint64], NDArray[np.intp]]]:
        keys = total[a:b] - hashes_of(a, b)
        chosen = [np.flatnonzero(own <= most) for own in keys]
        return [(own[rows], a + rows) for own, rows in zip(keys, chosen, strict=True)]

    parts = map_blocks(of_others, blocks, n_jobs)
    mean, spread = targets.mean(axis=0), _spread(targets)

    def agreement(j: int) -> float:
        keys, rows = (np.concatenate([part[j][k] for part in parts]) for k in (0, 1))
        return _agreement(keys, targets[rows] - mean, spread)

    agreements = map_blocks(agreement, [(j,) for j in range(n_inputs)], n_jobs)
    found = int(np.argmin(agreements))
    if agreements[found] >= -_LEAST:
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


def _spread(targets: NDArray[np.float64]) -> float:
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
