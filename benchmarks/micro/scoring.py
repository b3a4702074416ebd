"""Scoring of candidate grids with four inputs, compared with computing their bin keys.

A unit is a row in one grid. Scoring must read the inputs that the grid divides, four bytes each,
and the residuals of the row, 4 numbers for one output and 8 for three; the sums of the bins stay in
the caches. The keys are the least work of binning the same rows, eight grids at once: from tiles of
these four inputs only, and from tiles of 16 inputs. Their speed-up is the time of scoring over
theirs. ``tile_slots`` and ``crossed_gain`` are parts of ``score_grids``. ``simplify_grids`` scores
each grid without each of its inputs, and drops those that add nothing. All but the last two cases
run in one thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from _timing import Case, memory_bandwidth, options, run
from numpy.typing import NDArray

from gramless.base.threads import map_blocks, row_blocks
from gramless.features.grids import GridGroup, Grids, cell_limits
from gramless.features.packing import ColumnPlan, pack_block
from gramless.loops import binning, scoring
from gramless.loops.compile import allocating_loop
from harness.loops import entry

QUICK = {"rows": 3000, "grids": 16, "bits": 9}
SIZE, COLUMNS = 4, 16
# Numbers per row, by the number of outputs.
LANES = {1: 4, 3: 8}
SHRINKAGE = np.float32(5.0)
TASK_GRIDS = 8
PEER = "score_grids, 1 output"


@allocating_loop
def all_keys(tiles, largest, ids, contributions, sparse, dense_grids, sparse_grids, offsets):  # type: ignore[no-untyped-def]
    """Compute the keys of all tiles, overwriting those of the previous tile."""
    width = tiles.shape[2]
    partial_keys = np.empty((width, binning.GROUP), np.int64)
    keys = np.empty((binning.GROUP, width), np.int64)
    for t in range(tiles.shape[0]):
        binning.tile_keys(
            t, tiles, largest, ids, contributions, sparse, dense_grids, sparse_grids, offsets,
            partial_keys, keys,
        )  # fmt: skip


class Candidates:
    """Grids over a few inputs each, and the rows that they are scored on."""

    def __init__(self, args: argparse.Namespace) -> None:
        rng, shape = np.random.default_rng(0), (args.grids, SIZE)
        self.bits, self.n_grids = args.bits, args.grids
        self.columns = rng.normal(size=(COLUMNS, args.rows)).astype(np.float32)
        self.inputs = np.argsort(rng.random((args.grids, COLUMNS)))[:, :SIZE].astype(np.int32)
        self.widths = rng.uniform(0.5, 2.0, shape)
        self.shifts = rng.random(shape) * self.widths
        self.multipliers = rng.integers(0, 2**32, SIZE, dtype=np.uint32) | np.uint32(1)
        half = args.rows // 2
        self.parts = np.array([[0, half], [half, args.rows]])
        self.values = {
            k: rng.gamma(1.0, size=(args.rows, lanes)).astype(np.float32)
            for k, lanes in LANES.items()
        }

    @property
    def grids(self) -> tuple[NDArray, ...]:
        inverse, shifts = (1.0 / self.widths).astype(np.float32), self.shifts.astype(np.float32)
        return self.inputs, inverse, shifts

    def scorer(self, n_outputs: int, n_threads: int) -> Callable[[], object]:
        sizes, gains = np.full(self.n_grids, SIZE), np.empty(self.n_grids)
        ends = np.stack([self.columns.min(axis=1), self.columns.max(axis=1)], axis=1)
        rows = self.columns, ends, self.values[n_outputs], self.parts
        shared = *rows, n_outputs, sizes, self.grids
        blocks = row_blocks(self.n_grids, TASK_GRIDS)

        def score(a: int, b: int) -> None:
            scratch = (
                *(np.empty((2, scoring.TILE), np.uint32), np.empty(SIZE, np.uint32)),
                np.empty((2, 1 << self.bits, LANES[n_outputs]), np.float32),
            )
            settings = self.multipliers, self.bits, SHRINKAGE
            scoring.score_grids(*shared, *settings, a, b, gains, *scratch)

        return lambda: map_blocks(score, blocks, n_threads)

    def hasher(self) -> Callable[[], object]:
        slots, shift = np.empty(scoring.TILE, np.uint32), np.uint32(32 - self.bits)
        grid = tuple(part[0] for part in self.grids)
        n_rows = min(scoring.TILE, self.columns.shape[1])
        steering = self.multipliers, SIZE, np.uint32(0), shift, slots
        return partial(entry(scoring.tile_slots), self.columns, 0, n_rows, *grid, *steering)

    def simplifier(self) -> Callable[[], object]:
        """Return a function that simplifies as many grids with 1 output as a round keeps."""
        n, rng = min(self.n_grids, 16), np.random.default_rng(3)
        X = self.columns.T.astype(np.float64)
        widths, shifts = np.full((n, COLUMNS), np.inf), np.zeros((n, COLUMNS))
        np.put_along_axis(widths, self.inputs[:n], self.widths[:n], axis=1)
        np.put_along_axis(shifts, self.inputs[:n], self.shifts[:n], axis=1)
        hashes = rng.integers(-(2**63), 2**63, (n, COLUMNS + 1)) | 1
        codes, known = Grids(widths, shifts, hashes[:, 1:], hashes[:, 0].copy()).learn(X)
        max_bins, at = int(known.n_bins.max()), (np.arange(n)[:, None], self.inputs[:n])
        limits = np.full((n, SIZE), 1e9)
        grids = self.inputs[:n], 1.0 / self.widths[:n], self.shifts[:n], limits, hashes[:, 1:][at]
        sizes, gains = np.full(n, SIZE), np.ones(n)
        sums = np.empty((2, 2, max_bins, LANES[1]), np.float32)
        scratch = (
            *(np.empty(max_bins, np.int64), np.empty((SIZE, max_bins), np.int64)),
            *(np.empty(max_bins, np.uint32), *sums, np.empty(1 << self.bits, np.int32)),
        )
        keys = np.empty((n, max_bins), np.int64)
        common = X, codes, known.n_bins, sizes, grids, self.multipliers, self.values[1], self.parts

        def simplify() -> None:
            results = gains, np.ones((n, SIZE), bool), np.zeros((n, SIZE)), keys
            settings = 1, self.bits, SHRINKAGE, 0.999
            scoring.simplify_grids(*common, *settings, 0, n, *results, *scratch)

        return simplify

    def gain(self) -> Callable[[], object]:
        sums = np.random.default_rng(1).gamma(1.0, size=(2, 1 << self.bits, LANES[1]))
        return partial(scoring.crossed_gain, *sums.astype(np.float32), 1, SHRINKAGE)

    def key_maker(self, n_columns: int) -> tuple[Callable[[], object], float]:
        """Return a function that computes the keys of all grids, and the bytes that it reads."""
        rng, all_columns = np.random.default_rng(2), np.arange(n_columns)
        X = rng.normal(size=(self.columns.shape[1], n_columns))
        widths = np.full((self.n_grids, n_columns), np.inf)
        # If there are as many columns as a grid has inputs, each grid divides all columns.
        inputs_of_grids = (
            np.tile(np.arange(SIZE), (self.n_grids, 1)) if n_columns == SIZE else self.inputs
        )
        np.put_along_axis(widths, inputs_of_grids, self.widths, axis=1)
        hashes = rng.integers(-(2**63), 2**63, (self.n_grids, n_columns + 1))
        inverse, shifts = 1.0 / widths, np.where(np.isfinite(widths), 0.25, 0.0)
        plan = ColumnPlan(all_columns, (), np.empty(0, np.int64))
        block = pack_block(X, 0, len(X), plan, cell_limits(inverse))
        groups = [
            GridGroup(inverse[a:b], shifts[a:b], hashes[a:b, 1:] | 1, hashes[a:b, 0].copy())
            for a, b in row_blocks(self.n_grids, binning.GROUP)
        ]
        prepared = [group.prepare(block)[1:] for group in groups]

        def make() -> None:
            for arguments in prepared:
                all_keys(*arguments)

        return make, float(block.tiles.nbytes * len(groups))


def all_cases(args: argparse.Namespace) -> list[Case]:
    candidates, cases = Candidates(args), []
    units = args.rows * args.grids
    for k, lanes in LANES.items():
        name, moved = f"score_grids, {k} output{'s' * (k > 1)}", 4.0 * (SIZE + lanes) * units
        peer = None if name == PEER else PEER
        cases.append(Case(name, candidates.scorer(k, 1), "row", units, moved, peer=peer))
    for n_columns in (SIZE, COLUMNS):
        make, moved = candidates.key_maker(n_columns)
        cases.append(Case(f"tile_keys, {n_columns} columns", make, "row", units, moved, peer=PEER))
    tile = min(scoring.TILE, args.rows)
    cases.append(Case("tile_slots", candidates.hasher(), "row", tile, 4.0 * (SIZE + 1) * tile))
    units_of_round = min(args.grids, 16) * args.rows
    moved = (2.0 + 4.0 * LANES[1]) * units_of_round
    cases.append(Case("simplify_grids", candidates.simplifier(), "row", units_of_round, moved))
    bins = 1 << args.bits
    cases.append(Case("crossed_gain", candidates.gain(), "bin", bins, 8.0 * LANES[1] * bins))
    for k, lanes in LANES.items():
        name = f"score_grids, {k} output{'s' * (k > 1)}, {args.jobs} threads"
        moved, score = 4.0 * (SIZE + lanes) * units, candidates.scorer(k, args.jobs)
        cases.append(Case(name, score, "row", units, moved, peer=PEER))
    return cases


def main() -> None:
    args = options(__doc__, QUICK, rows=100_000, grids=240, bits=14, jobs=2)
    run(all_cases(args), args, {"memory": memory_bandwidth(args.jobs, args.quick)})


if __name__ == "__main__":
    main()
