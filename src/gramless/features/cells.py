"""Known bins by the ranks of their cells: a few bits each, where keys take five bytes.

Of a grid the rows see a box of cells, and occupy many of them: numbered from one corner of the box
to the other, occupied cells have small gaps between them, which deflate to a few bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gramless.base.state import Stateful, array_in, require
from gramless.base.threads import map_blocks
from gramless.base.types import BoolArray, FloatArray, IntArray
from gramless.features.grids import SHORT_HASH, Grids
from gramless.matrices.binned import BinnedMatrix

_RANK_BITS = 64 - SHORT_HASH
_MOST_CELLS = 1 << _RANK_BITS
"""Of a box: beyond, the hash itself is a shorter rank."""
_RUNS = (32.0, 4.0)
"""Rows of a bin: those of as many stand first, then the next, so that look-ups of most rows meet
few cache lines."""


@dataclass(frozen=True)
class CellRanks(Stateful):
    """Keys of the bins of grids, by cells.

    Attributes
    ----------
    lowest, lengths : arrays (n_divided,)
        For each grid and input that it divides, grid after grid: the first cell of the box and how
        many there are along the input; a grid whose lengths are all 0 has hashes for ranks.
    runs : array (n_grids, n_runs)
        Bins of each grid come in runs of rising ranks.
    gaps : array (n_bins,)
        How many ranks there are between a bin's and that of the bin before in its run, or 0.
    """

    lowest: IntArray
    lengths: IntArray
    runs: IntArray
    gaps: IntArray

    @classmethod
    def of(
        cls,
        grids: Grids,
        keys: IntArray,
        offsets: IntArray,
        kept: BoolArray,
        matrix: BinnedMatrix,
        rows: FloatArray,
        counts: FloatArray,
        n_jobs: int | None,
    ) -> tuple[CellRanks, IntArray] | None:
        """Return ranks of some bins, and which of the columns each is, in the order of the runs.

        Parameters
        ----------
        keys : array (n_bins,)
        offsets : array (n_grids + 1,)
            Where each grid's bins start.
        kept : array (n_bins,) of bool
            At least one; grids without any are left out.
        matrix : BinnedMatrix (n_rows, n_bins)
        rows : array (n_rows, n_features)
            That the matrix has the features of.
        counts : array (n_bins,)
            Rows of each bin.

        Returns
        -------
        (CellRanks, array of int) or None
            None if keys are longer than those of grown grids.
        """
        if (keys & ((1 << SHORT_HASH) - 1)).any():
            return None

        def of_grid(r: int) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
            a, b = offsets[r], offsets[r + 1]
            columns = np.flatnonzero(kept[a:b])
            seen = np.zeros(b - a, np.intp)
            seen[matrix.codes[r] - 1] = np.arange(matrix.shape[0])
            own = keys[a:b][columns]
            lowest, lengths, ranks = _box(grids, r, rows, seen[columns], own)
            run = len(_RUNS) - np.searchsorted(_RUNS[::-1], counts[a:b][columns], side="right")
            order = np.argsort((run << _RANK_BITS) | ranks)
            sizes = np.bincount(run, minlength=len(_RUNS) + 1)
            gaps = np.diff(ranks[order], prepend=-1) - 1
            starts = np.append(0, np.cumsum(sizes)[:-1])[sizes > 0]
            gaps[starts] = ranks[order][starts]
            return lowest, lengths, sizes, gaps, a + columns[order]

        left = np.flatnonzero(np.add.reduceat(kept, offsets[:-1]))
        found = map_blocks(of_grid, [(r,) for r in left.tolist()], n_jobs)
        lowest, lengths, runs, gaps, order = zip(*found, strict=True)
        ranks = cls(
            np.concatenate(lowest), np.concatenate(lengths), np.array(runs), np.concatenate(gaps)
        )
        return ranks, np.concatenate(order)

    def keys(self, grids: Grids, offsets: IntArray) -> IntArray:
        """Return the keys of the bins, grid after grid."""
        ends = np.cumsum(self.runs.reshape(-1))
        sums = np.cumsum(self.gaps + 1)
        before = np.append(0, sums)[np.append(0, ends[:-1])]
        ranks = sums - np.repeat(before, np.diff(ends, prepend=0)) - 1
        keys = np.empty(len(ranks), np.int64)
        for r, (columns, lowest, lengths) in enumerate(self._boxes(grids)):
            a, b = offsets[r], offsets[r + 1]
            if not lengths.all():
                keys[a:b] = ranks[a:b] << SHORT_HASH
                continue
            rest, found = ranks[a:b], np.full(b - a, grids.offsets[r])
            for j, low, length in zip(columns[::-1], lowest[::-1], lengths[::-1], strict=True):
                rest, cells = np.divmod(rest, length)
                found += grids.multipliers[r, j] * (cells + low)
            keys[a:b] = found
        return keys

    def check_bins(self, widths: FloatArray, offsets: IntArray) -> None:
        """Check ranks of a foreign file, for grids whose bins start at ``offsets``."""
        n_grids, n_bins = len(widths), int(offsets[-1])
        n_divided = int(np.count_nonzero(np.isfinite(widths)))
        array_in(vars(self), "lowest", np.int64, (n_divided,))
        lengths = array_in(vars(self), "lengths", np.int64, (n_divided,))
        gaps = array_in(vars(self), "gaps", np.int64, (n_bins,))
        runs = array_in(vars(self), "runs", np.int64, (n_grids, None))
        require(((lengths >= 0) & (lengths <= _MOST_CELLS)).all(), "lengths are out of range")
        require(((gaps >= 0) & (gaps < _MOST_CELLS)).all(), "gaps are out of range")
        fits = runs.size > 0 and ((runs >= 0) & (runs <= n_bins)).all()
        require(fits and (runs.sum(axis=1) == np.diff(offsets)).all(), "runs do not fit the bins")

    def _boxes(self, grids: Grids) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Return the divided inputs of each grid, with the first cell and the cells along each."""
        divided = np.isfinite(grids.widths)
        ends = np.append(0, np.cumsum(divided.sum(axis=1)))
        for own, (a, b) in zip(divided, pairwise(ends.tolist()), strict=True):
            yield np.flatnonzero(own), self.lowest[a:b], self.lengths[a:b]


def _box(
    grids: Grids, r: int, rows: FloatArray, seen: IntArray, keys: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the box of a grid, and the ranks of bins that some rows fall into."""
    columns = np.flatnonzero(np.isfinite(grids.widths[r]))
    points = rows[seen[:, None], columns].astype(np.float64, copy=False)
    cells = np.floor((points - grids.shifts[r, columns]) * (1.0 / grids.widths[r, columns]))
    cells = cells.astype(np.int64)
    lowest = cells.min(axis=0)
    lengths = cells.max(axis=0) - lowest + 1
    hashes = (cells * grids.multipliers[r, columns]).sum(axis=1) + grids.offsets[r]
    # Of rows that were clipped, or are none of those that the bins were learned from.
    if float(np.prod(lengths, dtype=float)) > _MOST_CELLS or (hashes != keys).any():
        ranks = (keys.view(np.uint64) >> np.uint64(SHORT_HASH)).view(np.int64)
        return lowest, np.zeros_like(lengths), ranks
    ranks = np.zeros(len(seen), np.int64)
    for j in range(len(columns)):
        ranks = ranks * lengths[j] + cells[:, j] - lowest[j]
    return lowest, lengths, ranks
