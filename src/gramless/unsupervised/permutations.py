"""Permutation tests: p-values, and permutations of random blocks of rows between two tables.

Under the null hypothesis, permutations of blocks preserve the distribution of the tables as
permutations of rows do. They need only the sums of the features of each block (Domingo-Enrich,
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

_TIES = 1e-9  # relative to the largest statistic; smaller differences are rounding
# About the largest number of blocks of both tables together, and the smallest of the smaller table
# if it has enough rows.
MAX_BLOCKS, _MIN_BLOCKS = 256, 64
# With at most this many rows, the Gram matrix of rows is faster than that of blocks.
FEW_ROWS = 3000
# Bins of a grid beyond this number are merged at random, which adds a constant to the mean kernel.
_MAX_CELLS = 1024
_GRIDS_AT_ONCE = 8


def p_value(statistics: FloatArray) -> float:
    """Return the share of (n,) statistics that are at least as large as the first.

    The first is the statistic of the data. The others are those of random permutations from a group
    that preserves the distribution of the data under the null hypothesis. The probability of a
    p-value of at most alpha is then at most alpha (Hemerik & Goeman 2018, Theorem 2).

    Examples
    --------
    >>> p_value(np.array([3.0, 1.0, 3.0, 2.0]))
    0.5
    """
    slack = _TIES * np.abs(statistics).max()
    return float(np.mean(statistics >= statistics[0] - slack))


def standardise(statistics: FloatArray) -> FloatArray:
    """Return statistics (m, n), each standardised by its mean and deviation over permutations.

    Each row is one statistic; a statistic that no permutation changes becomes 0.
    """
    centred = statistics - statistics.mean(axis=1, keepdims=True)
    deviation = centred.std(axis=1, keepdims=True)
    is_varying = deviation > _TIES * np.abs(statistics).max(axis=1, keepdims=True, initial=0.0)
    return np.where(is_varying, centred / np.where(is_varying, deviation, 1.0), 0.0)


def adjusted_p_values(statistics: FloatArray) -> FloatArray:
    """Return p-values (m,) of several statistics, adjusted for multiple tests.

    Each is the share of permutations with a largest statistic at least as large as this one
    (Westfall & Young 1993, single step). The probability that any true null hypothesis has a
    p-value of at most alpha is at most alpha.

    Parameters
    ----------
    statistics : array (m, n)
        The result of :func:`standardise`, with the data in the first column.

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
    """Blocks of equally many rows: ``n_first`` of the first table, ``n_second`` of the second.

    ``numbers`` (n_rows,) are the blocks of the rows, with the rows of the first table first. The
    last two blocks are the rows of each table that no permutation moves: rows that do not fill a
    block, and most rows of a table that is far larger than the other.
    """

    numbers: IntArray
    n_first: int
    n_second: int

    @classmethod
    def draw(cls, n_first: int, n_second: int, seed: int) -> RowBlocks:
        """Return random blocks of the rows of two tables.

        Examples
        --------
        >>> blocks = RowBlocks.draw(1000, 300, seed=0)
        >>> sizes = np.bincount(blocks.numbers, minlength=blocks.n_blocks)
        >>> blocks.n_first, blocks.n_second, int(sizes[0]), sizes[-2:].tolist()
        (181, 75, 4, [276, 0])
        """
        sizes = np.array([n_first, n_second])
        max_size = max(1, int(sizes.min()) // _MIN_BLOCKS)
        block_size = max(1, min(max_size, -(-int(sizes.sum()) // MAX_BLOCKS)))
        counts = sizes // block_size
        smaller = int(counts.argmin())
        counts[1 - smaller] = min(
            counts[1 - smaller], MAX_BLOCKS - min(counts.min(), MAX_BLOCKS // 2)
        )
        generator = stream(seed, "row blocks")
        numbers, n_moved = [], int(counts.sum())
        for k, (size, count) in enumerate(zip(sizes.tolist(), counts.tolist(), strict=True)):
            block = generator.permutation(size) // block_size
            numbers.append(np.where(block < count, block + k * int(counts[0]), n_moved + k))
        return cls(np.concatenate(numbers), int(counts[0]), int(counts[1]))

    @property
    def n_blocks(self) -> int:
        """Number of blocks, including the two that no permutation moves."""
        return self.n_first + self.n_second + 2

    def in_first(self, n_permutations: int, seed: int) -> BoolArray:
        """Return a mask of the blocks in the first table, for the data and each permutation.

        Returns
        -------
        array (n_blocks, 1 + n_permutations) of bool
        """
        result = np.zeros((self.n_blocks, 1 + n_permutations), bool)
        result[: self.n_first], result[-2] = True, True
        moved = result[:-2, 1:].T
        result[:-2, 1:] = stream(seed, "permutations").permuted(moved, axis=1).T
        return result

    def rows(self) -> list[IntArray]:
        order = np.argsort(self.numbers, kind="stable")
        counts = np.bincount(self.numbers, minlength=self.n_blocks)
        return np.split(order, np.cumsum(counts)[:-1])


def block_gram(matrix: FeatureMatrix, blocks: RowBlocks, weights: FloatArray) -> FloatArray:
    """Return the inner products (n_blocks, n_blocks) of the weighted feature sums of blocks.

    The cost is one pass over the matrix and ``n_blocks**2`` operations for each column, of which
    bins count at most 1,024 per grid. For bins of up to 3,000 rows it is the Gram matrix of rows.
    """
    gram = np.zeros((blocks.n_blocks, blocks.n_blocks))
    if isinstance(matrix, BinnedMatrix) and matrix.shape[0] <= FEW_ROWS:
        to_blocks = np.zeros((blocks.n_blocks, len(weights)))
        to_blocks[blocks.numbers, np.arange(len(weights))] = weights
        with one_blas_thread():
            return to_blocks @ matrix.row_gram() @ to_blocks.T
    if isinstance(matrix, BinnedMatrix):
        for a, b in row_blocks(matrix.n_grids, _GRIDS_AT_ONCE):
            for of_grid in _grams_of_grids(matrix, a, b, blocks, weights):
                gram += of_grid
        return gram * matrix.scale**2
    rows = blocks.rows()
    for columns in matrix.blocks():
        sums = np.stack([columns.matrix.take_rows(block).rmatvec(weights[block]) for block in rows])
        with one_blas_thread():
            gram += sums @ sums.T
    return gram


def _grams_of_grids(
    matrix: BinnedMatrix, a: int, b: int, blocks: RowBlocks, weights: FloatArray
) -> list[FloatArray]:
    """Return the Gram matrix of the sums of blocks for each of the grids a to b - 1, at scale 1."""
    n_blocks = blocks.n_blocks
    cells = np.minimum(np.diff(matrix.offsets[a : b + 1]), _MAX_CELLS)
    offsets = np.append(0, np.cumsum(cells * n_blocks))
    pairs = np.empty((b - a, matrix.shape[0]), np.uint32)

    def pair(r: int) -> None:
        # The most frequent bins have the first codes, so that none of them are merged.
        cell = (matrix.codes[a + r].astype(np.uint32) - np.uint32(1)) % np.uint32(cells[r])
        pairs[r] = cell * np.uint32(n_blocks) + blocks.numbers + 1

    map_blocks(pair, [(r,) for r in range(b - a)], matrix.n_jobs)
    joint = BinnedMatrix(pairs, offsets, scale=1.0, has_unseen=False, n_jobs=matrix.n_jobs)
    sums = readonly(joint.rmatvec(weights))

    def gram(r: int) -> FloatArray:
        of_grid = sums[offsets[r] : offsets[r + 1]].reshape(-1, n_blocks)
        return of_grid.T @ of_grid

    with one_blas_thread():
        return map_blocks(gram, [(r,) for r in range(b - a)], matrix.n_jobs)
