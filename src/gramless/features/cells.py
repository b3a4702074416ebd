"""Known bins by the ranks of their cells: a few bits each, where keys take five bytes.

Of a grid the rows see a box of cells, and occupy many of them: numbered from one corner of the box
to the other, occupied cells have small gaps between them, which deflate to a few bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gramless.base.state import Stateful, array_in, require
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import BoolArray, FloatArray, IntArray
from gramless.features.grids import SHORT_HASH, Grids

_RANK_BITS = 64 - SHORT_HASH
_MOST_CELLS = 1 << _RANK_BITS
"""Of a box: beyond, the hash itself is a shorter rank."""
_BINS_AT_ONCE = 1 << 16
"""Whose cells are computed together: their arrays fit into caches."""
_RUNS = (32.0, 4.0)
"""Rows of a bin: those of as many stand first, then the next, so that look-ups of most rows meet
few cache lines."""


@dataclass(frozen=True, repr=False)
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
        seen: IntArray,
        rows: FloatArray,
        counts: FloatArray,
        n_jobs: int | None,
    ) -> tuple[CellRanks, IntArray] | None:
        """Return ranks of some bins, and which of the columns each is, in the order of the runs.

        Bins have ``keys``, those of each grid from ``offsets`` on; grids of which none is ``kept``
        are left out. Each was ``seen`` by one of the ``rows``, given by its number, and by
        ``counts`` of them. None if keys are longer than those of grown grids.
        """
        if (keys & ((1 << SHORT_HASH) - 1)).any():
            return None
        counted = np.add.reduceat(kept, offsets[:-1], dtype=np.int64)
        left, columns = np.flatnonzero(counted), np.flatnonzero(kept)
        starts = np.append(0, np.cumsum(counted[left]))

        def of_block(first: int, last: int) -> tuple[IntArray, ...]:
            own, bins = left[first:last], columns[starts[first] : starts[last]]
            lowest, lengths, ranks = _boxes(grids, own, counted[own], rows, seen[bins], keys[bins])
            order, runs, gaps = _runs_and_gaps(counted[own], ranks, counts[bins])
            return lowest, lengths, runs, gaps, bins[order]

        at_once = max(1, _BINS_AT_ONCE * len(left) // len(columns))
        found = map_blocks(of_block, row_blocks(len(left), at_once), n_jobs)
        *arrays, order = (np.concatenate(own) for own in zip(*found, strict=True))
        return cls(*arrays), order

    def keys(self, grids: Grids, offsets: IntArray) -> IntArray:
        """Return the keys of the bins, grid after grid."""
        ends = np.cumsum(self.runs.reshape(-1))
        sums = np.cumsum(self.gaps + 1)
        before = np.append(0, sums)[np.append(0, ends[:-1])]
        ranks = sums - np.repeat(before, np.diff(ends, prepend=0)) - 1
        keys = np.empty(len(ranks), np.int64)
        divided = np.isfinite(grids.widths)
        starts = np.append(0, np.cumsum(divided.sum(axis=1)))
        for r, (a, b) in enumerate(pairwise(offsets)):
            box = slice(starts[r], starts[r + 1])
            lowest, lengths = self.lowest[box], self.lengths[box]
            if not lengths.all():
                keys[a:b] = ranks[a:b] << SHORT_HASH
                continue
            rest, found = ranks[a:b], np.full(b - a, grids.offsets[r])
            columns = np.flatnonzero(divided[r])
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


def _boxes(
    grids: Grids,
    own: IntArray,
    counts: IntArray,
    rows: FloatArray,
    seen: IntArray,
    keys: IntArray,
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the boxes of the grids ``own``, each the cells that rows see, and ranks of the bins.

    Bins stand grid after grid, as many of each as ``counts`` says; a row ``seen`` and the key of
    each are given.
    """
    divided = np.isfinite(grids.widths[own])
    n_divided, starts = divided.sum(axis=1), np.append(0, np.cumsum(counts)[:-1])
    # The inputs that a grid divides come first.
    inputs = np.argsort(~divided, axis=1, kind="stable")
    shape = len(own), int(n_divided.max(initial=0))
    lowest, lengths = np.zeros(shape, np.int64), np.ones(shape, np.int64)
    hashes, ranks = np.repeat(grids.offsets[own], counts), np.zeros(len(seen), np.int64)
    for j in range(shape[1]):
        wide = n_divided > j
        at, n_bins = (own[wide], inputs[wide, j]), counts[wide]
        bins = slice(None) if wide.all() else np.repeat(wide, counts)
        points = rows[seen[bins], np.repeat(at[1], n_bins)].astype(np.float64, copy=False)
        # Differences of values near 1e308 overflow: their bins turn out unlike, below.
        with np.errstate(over="ignore", invalid="ignore"):
            shifted = points - np.repeat(grids.shifts[at], n_bins)
            cells = np.floor(shifted * np.repeat(1.0 / grids.widths[at], n_bins)).astype(np.int64)
        firsts = np.append(0, np.cumsum(n_bins)[:-1])
        low = np.minimum.reduceat(cells, firsts)
        length = np.maximum.reduceat(cells, firsts) - low + 1
        hashes[bins] += cells * np.repeat(grids.multipliers[at], n_bins)
        ranks[bins] *= np.repeat(length, n_bins)
        ranks[bins] += cells - np.repeat(low, n_bins)
        lowest[wide, j], lengths[wide, j] = low, length
    # Of rows that were clipped, or are none of those that the bins were learned from.
    unlike = np.prod(lengths, axis=1, dtype=float) > _MOST_CELLS
    unlike |= np.logical_or.reduceat(hashes != keys, starts)
    lengths[unlike] = 0
    short = (keys.view(np.uint64) >> np.uint64(SHORT_HASH)).view(np.int64)
    ranks = np.where(np.repeat(unlike, counts), short, ranks)
    used = np.arange(shape[1]) < n_divided[:, None]
    return lowest[used], lengths[used], ranks


def _runs_and_gaps(
    counts: IntArray, ranks: IntArray, n_rows: FloatArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the order of the bins in runs, given their rows; sizes of runs; gaps of ranks."""
    n_grids, n_runs = len(counts), len(_RUNS) + 1
    run = n_runs * np.repeat(np.arange(n_grids), counts)
    for least in _RUNS:
        run += n_rows < least
    order = np.argsort((run << _RANK_BITS) | ranks)
    sizes = np.bincount(run, minlength=n_runs * n_grids)
    ranks = ranks[order]
    gaps = np.diff(ranks, prepend=-1) - 1
    starts = np.append(0, np.cumsum(sizes)[:-1])[sizes > 0]
    gaps[starts] = ranks[starts]
    return order, sizes.reshape(n_grids, n_runs), gaps
