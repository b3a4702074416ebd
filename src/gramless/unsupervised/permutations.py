"""Permutation tests: p-values, and random blocks of rows that move between two tables.

Permuting blocks in the place of rows leaves the distribution of two tables alone under the null
hypothesis just as well, and needs only the sums of the features of each block (Domingo-Enrich,
Dwivedi & Mackey 2025, *Cheap Permutation Testing*).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramless.base.arrays import readonly
from gramless.base.random import stream
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import BoolArray, FloatArray, IntArray
from gramless.matrices.base import FeatureMatrix
from gramless.matrices.binned import BinnedMatrix

_TIES = 1e-9
"""Statistics that differ by less, relative to the largest, count as equal: that is rounding."""
MOST_BLOCKS = 256
FEW_ROWS = 3000
"""Up to so many rows, bins that two rows share are counted faster than Gram matrices of blocks."""
_LEAST_BLOCKS = 64  # blocks of the smaller table, where it has as many rows
_MOST_CELLS = 1024
"""Bins of a grid beyond so many are merged at random, which adds a constant to the mean kernel."""
_GRIDS_AT_ONCE = 8


def p_value(statistics: FloatArray) -> float:
    """Return the share of (n,) statistics that are as large as the first.

    The first is that of the data, the others are of permutations that were drawn from a group which
    leaves the distribution of the data alone if the null hypothesis is true. Then the p-value is at
    most alpha with a probability of at most alpha (Hemerik & Goeman 2018, Theorem 2).

    Examples
    --------
    >>> p_value(np.array([3.0, 1.0, 3.0, 2.0]))
    0.5
    """
    slack = _TIES * np.abs(statistics).max()
    return float(np.mean(statistics >= statistics[0] - slack))


def standardised(statistics: FloatArray) -> FloatArray:
    """Return statistics (m, n) less the mean over all permutations, in standard deviations.

    Each row is that of one statistic; one that no permutation changes becomes 0.
    """
    centred = statistics - statistics.mean(axis=1, keepdims=True)
    deviation = centred.std(axis=1, keepdims=True)
    varies = deviation > _TIES * np.abs(statistics).max(axis=1, keepdims=True, initial=0.0)
    return np.where(varies, centred / np.where(varies, deviation, 1.0), 0.0)


def adjusted_p_values(statistics: FloatArray) -> FloatArray:
    """Return a p-value (m,) for each of several statistics, adjusted for looking at all of them.

    It is the share of the permutations whose largest statistic is as large as this one (Westfall &
    Young 1993, single step): the probability that any true null hypothesis has a p-value of at most
    alpha is at most alpha.

    Parameters
    ----------
    statistics : array (m, n)
        :func:`standardised`, the data as they are first.

    Examples
    --------
    >>> adjusted_p_values(np.array([[2.0, 0.0, 1.0, -3.0], [0.5, 1.0, -1.0, -0.5]]))
    array([0.25, 0.75])
    """
    largest = np.sort(statistics.max(axis=0))
    slack = _TIES * np.abs(largest).max()
    below = np.searchsorted(largest, statistics[:, 0] - slack)
    return np.asarray((len(largest) - below) / len(largest), np.float64)


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """Blocks of equally many rows of each of two tables, ``n_first`` and ``n_second`` of them.

    ``numbers`` (n_rows,) are the blocks of the rows, those of the first table before those of the
    second. The last two blocks hold the rows of either table that no permutation moves: what
    remains of blocks, and most rows of a table that is far larger than the other.
    """

    numbers: IntArray
    n_first: int
    n_second: int

    @classmethod
    def drawn(cls, n_first: int, n_second: int, seed: int) -> RowBlocks:
        """Draw blocks of the rows of two tables.

        Examples
        --------
        >>> blocks = RowBlocks.drawn(1000, 300, seed=0)
        >>> sizes = np.bincount(blocks.numbers, minlength=blocks.n_blocks)
        >>> blocks.n_first, blocks.n_second, int(sizes[0]), sizes[-2:].tolist()
        (181, 75, 4, [276, 0])
        """
        sizes = np.array([n_first, n_second])
        most = max(1, int(sizes.min()) // _LEAST_BLOCKS)
        rows = max(1, min(most, -(-int(sizes.sum()) // MOST_BLOCKS)))
        counts = sizes // rows
        smaller = int(counts.argmin())
        counts[1 - smaller] = min(
            counts[1 - smaller], MOST_BLOCKS - min(counts.min(), MOST_BLOCKS // 2)
        )
        generator = stream(seed, "row blocks")
        parts, n_moved = [], int(counts.sum())
        for k, (size, count) in enumerate(zip(sizes.tolist(), counts.tolist(), strict=True)):
            place = generator.permutation(size) // rows
            own = np.where(place < count, place + k * int(counts[0]), n_moved + k)
            parts.append(own)
        return cls(np.concatenate(parts), int(counts[0]), int(counts[1]))

    @property
    def n_blocks(self) -> int:
        """Number of blocks, those that stay included."""
        return self.n_first + self.n_second + 2

    def in_first(self, n_permutations: int, seed: int) -> BoolArray:
        """Return which blocks are in the first table: as they are, and in random permutations.

        Returns
        -------
        array (n_blocks, 1 + n_permutations) of bool
        """
        found = np.zeros((self.n_blocks, 1 + n_permutations), bool)
        found[: self.n_first], found[-2] = True, True
        moved = found[:-2, 1:].T
        found[:-2, 1:] = stream(seed, "permutations").permuted(moved, axis=1).T
        return found

    def rows(self) -> list[IntArray]:
        """Return the rows of each block."""
        order = np.argsort(self.numbers, kind="stable")
        counts = np.bincount(self.numbers, minlength=self.n_blocks)
        return np.split(order, np.cumsum(counts)[:-1])


def block_gram(matrix: FeatureMatrix, blocks: RowBlocks, weights: FloatArray) -> FloatArray:
    """Return the inner products (n_blocks, n_blocks) of the weighted sums of features of blocks.

    One pass over the matrix, and ``n_blocks**2`` operations for each column; at most 1,024 of a
    grid of plain bins. Of up to 3,000 rows, one pass over the bins of all pairs.
    """
    gram = np.zeros((blocks.n_blocks, blocks.n_blocks))
    if isinstance(matrix, BinnedMatrix) and matrix.shape[0] <= FEW_ROWS:
        belongs = np.zeros((blocks.n_blocks, len(weights)))
        belongs[blocks.numbers, np.arange(len(weights))] = weights
        with one_blas_thread():
            return belongs @ matrix.row_gram() @ belongs.T
    if isinstance(matrix, BinnedMatrix):
        for a, b in row_blocks(matrix.n_grids, _GRIDS_AT_ONCE):
            for part in _grams_of_grids(matrix, a, b, blocks, weights):
                gram += part
        return gram * matrix.scale**2
    rows = blocks.rows()
    for columns in matrix.blocks():
        parts = (columns.matrix.take_rows(own).rmatvec(weights[own]) for own in rows)
        sums = np.stack([*parts])
        with one_blas_thread():
            gram += sums @ sums.T
    return gram


def _grams_of_grids(
    matrix: BinnedMatrix, a: int, b: int, blocks: RowBlocks, weights: FloatArray
) -> list[FloatArray]:
    """Return the Gram matrix of the sums of blocks in each of some grids, at scale 1."""
    n_blocks = blocks.n_blocks
    cells = np.minimum(np.diff(matrix.offsets[a : b + 1]), _MOST_CELLS)
    offsets = np.append(0, np.cumsum(cells * n_blocks))
    pairs = np.empty((b - a, matrix.shape[0]), np.uint32)

    def pair(r: int) -> None:
        # Frequent bins come first: they stay apart.
        cell = (matrix.codes[a + r].astype(np.uint32) - np.uint32(1)) % np.uint32(cells[r])
        pairs[r] = cell * np.uint32(n_blocks) + blocks.numbers + 1

    map_blocks(pair, [(r,) for r in range(b - a)], matrix.n_jobs)
    both = BinnedMatrix(pairs, offsets, scale=1.0, has_unseen=False, n_jobs=matrix.n_jobs)
    sums = readonly(both.rmatvec(weights))

    def gram(r: int) -> FloatArray:
        own = sums[offsets[r] : offsets[r + 1]].reshape(-1, n_blocks)
        return own.T @ own

    with one_blas_thread():
        return map_blocks(gram, [(r,) for r in range(b - a)], matrix.n_jobs)
