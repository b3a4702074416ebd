"""Storage of known bins by the ranks of their cells.

The rows of a fit occupy many cells of a bounding box in each grid. If the cells of the box are
numbered from one corner to the other, the gaps between occupied cells are small numbers. Compressed
by deflate they take a few bits per bin, while keys take five bytes.
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
# If a box has more cells, its bins are ranked by shortened hashes instead of by their cells.
_MAX_CELLS = 1 << _RANK_BITS
_BLOCK_BINS = 1 << 16  # the arrays of a block fit into the caches
# Bins with at least 32 rows come first, then those with at least 4, then the others: the look-ups
# of most rows then touch few cache lines.
_RUN_MIN_ROWS = (32.0, 4.0)


@dataclass(frozen=True, repr=False)
class CellRanks(Stateful):
    """The bins of grids, stored as ranks of their cells.

    Attributes
    ----------
    lowest, lengths : arrays (n_divided,)
        First cell of the box and number of cells, for each grid and each input that it divides,
        grid after grid. If the lengths of a grid are 0, its ranks are hashes.
    runs : array (n_grids, n_runs)
        Number of bins in each run of each grid. The ranks of a run ascend.
    gaps : array (n_bins,)
        Number of ranks between a bin and its predecessor in the run; the rank itself for the first
        bin of a run.
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
        """Return the ranks of the kept bins, and their former columns in the order of the runs.

        ``offsets`` are the first bins of the grids, ``seen`` is a row of each bin and ``counts``
        the number of its rows. Grids without kept bins are dropped. Return None if keys are longer
        than those of grown grids.
        """
        if (keys & ((1 << SHORT_HASH) - 1)).any():
            return None
        counted = np.add.reduceat(kept, offsets[:-1], dtype=np.int64)
        used, columns = np.flatnonzero(counted), np.flatnonzero(kept)
        starts = np.append(0, np.cumsum(counted[used]))

        def rank_block(first: int, last: int) -> tuple[IntArray, ...]:
            block, bins = used[first:last], columns[starts[first] : starts[last]]
            n_bins = counted[block]
            lowest, lengths, ranks = _boxes(grids, block, n_bins, rows, seen[bins], keys[bins])
            order, runs, gaps = _runs_and_gaps(n_bins, ranks, counts[bins])
            return lowest, lengths, runs, gaps, bins[order]

        block_grids = max(1, _BLOCK_BINS * len(used) // len(columns))
        results = map_blocks(rank_block, row_blocks(len(used), block_grids), n_jobs)
        *arrays, order = (np.concatenate(parts) for parts in zip(*results, strict=True))
        return cls(*arrays), order

    def keys(self, grids: Grids, offsets: IntArray) -> IntArray:
        """Return the keys of all bins, grid after grid."""
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
            rest, grid_keys = ranks[a:b], np.full(b - a, grids.offsets[r])
            columns = np.flatnonzero(divided[r])
            for j, low, length in zip(columns[::-1], lowest[::-1], lengths[::-1], strict=True):
                rest, cells = np.divmod(rest, length)
                grid_keys += grids.multipliers[r, j] * (cells + low)
            keys[a:b] = grid_keys
        return keys

    def check_bins(self, widths: FloatArray, offsets: IntArray) -> None:
        """Check ranks that come from a file, for grids whose bins start at ``offsets``."""
        n_grids, n_bins = len(widths), int(offsets[-1])
        n_divided = int(np.count_nonzero(np.isfinite(widths)))
        array_in(vars(self), "lowest", np.int64, (n_divided,))
        lengths = array_in(vars(self), "lengths", np.int64, (n_divided,))
        gaps = array_in(vars(self), "gaps", np.int64, (n_bins,))
        runs = array_in(vars(self), "runs", np.int64, (n_grids, None))
        require(((lengths >= 0) & (lengths <= _MAX_CELLS)).all(), "lengths are out of range")
        require(((gaps >= 0) & (gaps < _MAX_CELLS)).all(), "gaps are out of range")
        is_valid = runs.size > 0 and ((runs >= 0) & (runs <= n_bins)).all()
        is_valid = is_valid and (runs.sum(axis=1) == np.diff(offsets)).all()
        require(is_valid, "runs do not fit the bins")


def _boxes(
    grids: Grids,
    chosen: IntArray,
    counts: IntArray,
    rows: FloatArray,
    seen: IntArray,
    keys: IntArray,
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the first cells and lengths of the boxes of grids, and the ranks of their bins.

    ``chosen`` has the numbers of the grids and ``counts`` the numbers of their bins. ``seen`` and
    ``keys`` have a row and the key of each bin, grid after grid.
    """
    divided = np.isfinite(grids.widths[chosen])
    n_divided, starts = divided.sum(axis=1), np.append(0, np.cumsum(counts)[:-1])
    # The inputs that a grid divides come first.
    inputs = np.argsort(~divided, axis=1, kind="stable")
    shape = len(chosen), int(n_divided.max(initial=0))
    lowest, lengths = np.zeros(shape, np.int64), np.ones(shape, np.int64)
    hashes, ranks = np.repeat(grids.offsets[chosen], counts), np.zeros(len(seen), np.int64)
    for j in range(shape[1]):
        has_input = n_divided > j
        at, n_bins = (chosen[has_input], inputs[has_input, j]), counts[has_input]
        bins = slice(None) if has_input.all() else np.repeat(has_input, counts)
        points = rows[seen[bins], np.repeat(at[1], n_bins)].astype(np.float64, copy=False)
        # Differences of values near 1e308 overflow; these hashes differ from the keys.
        with np.errstate(over="ignore", invalid="ignore"):
            shifted = points - np.repeat(grids.shifts[at], n_bins)
            cells = np.floor(shifted * np.repeat(1.0 / grids.widths[at], n_bins)).astype(np.int64)
        firsts = np.append(0, np.cumsum(n_bins)[:-1])
        low = np.minimum.reduceat(cells, firsts)
        length = np.maximum.reduceat(cells, firsts) - low + 1
        hashes[bins] += cells * np.repeat(grids.multipliers[at], n_bins)
        ranks[bins] *= np.repeat(length, n_bins)
        ranks[bins] += cells - np.repeat(low, n_bins)
        lowest[has_input, j], lengths[has_input, j] = low, length
    # Hashes differ from keys if rows were clipped, or are not those that the bins come from.
    uses_hashes = np.prod(lengths, axis=1, dtype=float) > _MAX_CELLS
    uses_hashes |= np.logical_or.reduceat(hashes != keys, starts)
    lengths[uses_hashes] = 0
    short = (keys.view(np.uint64) >> np.uint64(SHORT_HASH)).view(np.int64)
    ranks = np.where(np.repeat(uses_hashes, counts), short, ranks)
    used = np.arange(shape[1]) < n_divided[:, None]
    return lowest[used], lengths[used], ranks


def _runs_and_gaps(
    counts: IntArray, ranks: IntArray, n_rows: FloatArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the order of bins in runs, the sizes of the runs, and the gaps between ranks."""
    n_grids, n_runs = len(counts), len(_RUN_MIN_ROWS) + 1
    run = n_runs * np.repeat(np.arange(n_grids), counts)
    for min_rows in _RUN_MIN_ROWS:
        run += n_rows < min_rows
    order = np.argsort((run << _RANK_BITS) | ranks)
    sizes = np.bincount(run, minlength=n_runs * n_grids)
    ranks = ranks[order]
    gaps = np.diff(ranks, prepend=-1) - 1
    starts = np.append(0, np.cumsum(sizes)[:-1])[sizes > 0]
    gaps[starts] = ranks[starts]
    return order, sizes.reshape(n_grids, n_runs), gaps
