"""Cells, keys and look-ups, compared with the rate of a loop that only computes floors.

The arithmetic limit is the rate of a loop over a tile in the L1 cache that adds ``floor(x * a +
b)``, in numbers per second. A unit is a cell, or a look-up of one row in one grid.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np
from _timing import Case, memory_bandwidth, options, run
from numpy.typing import NDArray

from gramless.features.grids import BinTables, GridGroup, cell_limits, key_workspace
from gramless.features.packing import ColumnPlan, PackedBlock, pack_block
from gramless.loops import binning
from gramless.loops.compile import reordering_loop
from gramless.loops.packing import TILE
from harness.loops import entry

QUICK = {"rows": 3000, "grids": 16, "columns": 4}
CACHED_COLUMNS = 3
CACHED_ROWS = 128
DENSITY = 0.05
BINS = {"2,000": 2000, "90,000": 90_000}

number_codes, fill_slots = entry(binning.number_codes), entry(binning.fill_slots)
add_patterns, add_sparse_cells = entry(binning.add_patterns), entry(binning.add_sparse_cells)


@reordering_loop
def add_floors(values, scale, shift, out):  # type: ignore[no-untyped-def]
    """Add ``floor(values * scale + shift)`` to ``out``, the least work that a cell needs."""
    for i in range(len(out)):
        out[i] += np.floor(values[i] * scale + shift)


@reordering_loop
def repeat_floors(n, values, out):  # type: ignore[no-untyped-def]
    for k in range(n):
        add_floors(values, 0.5 + k, 0.25, out)


def arithmetic_rate() -> float:
    """Return the numbers per second of the plain loop."""
    values, out, n = np.random.default_rng(0).normal(size=TILE), np.zeros(TILE), 2000
    repeat_floors(n, values, out)
    best = float("inf")
    for _ in range(7):
        start = perf_counter()
        repeat_floors(n, values, out)
        best = min(best, perf_counter() - start)
    return n * TILE / best


def draw_group(n_columns: int, mean: float) -> GridGroup:
    """Draw a group of grids with shifted cells of the given mean width."""
    rng = np.random.default_rng(0)
    widths = mean / 2 * rng.gamma(2.0, size=(binning.GROUP, n_columns))
    hashes = rng.integers(-(2**63), 2**63, (binning.GROUP, n_columns + 1))
    return GridGroup(
        1.0 / widths, rng.random(widths.shape) * widths, hashes[:, 1:] | 1, hashes[:, 0].copy()
    )


def cell_cases() -> list[Case]:
    """Time the cells of one tile in eight grids, all in the L1 cache."""
    rng = np.random.default_rng(1)
    grids = draw_group(CACHED_COLUMNS, 1.0)._divided(np.arange(CACHED_COLUMNS))
    columns = rng.normal(size=(CACHED_COLUMNS, CACHED_ROWS))
    largest = np.abs(columns).max(axis=1)
    partial_keys = np.zeros((CACHED_ROWS, binning.GROUP), np.int64)
    keys = np.zeros((binning.GROUP, CACHED_ROWS), np.int64)
    ids = rng.integers(0, 256, CACHED_ROWS).astype(np.int32)
    contributions = rng.integers(0, 9, (256, binning.GROUP))
    cells = binning.GROUP * columns.size
    return [
        Case(
            "add_cells",
            lambda: binning.add_cells(columns, largest, grids, keys),
            "cell",
            cells,
            columns.nbytes + 2 * keys.nbytes,
            limit="floors",
            work=cells,
        ),
        Case(
            "add_patterns",
            lambda: add_patterns(ids, contributions, partial_keys),
            "key",
            keys.size,
            ids.nbytes + 2 * keys.nbytes,
        ),
    ]


def table_cases() -> list[Case]:
    """Time the cells of sparse rows, and rebuilding the index of a hash table."""
    rng = np.random.default_rng(5)
    parameters = draw_group(CACHED_COLUMNS, 1.0)._padded
    values = rng.normal(size=CACHED_COLUMNS * TILE)
    indptr = CACHED_COLUMNS * np.arange(TILE + 1)
    indices = np.tile(np.arange(CACHED_COLUMNS), TILE)
    keys, zero_keys = np.zeros((TILE, binning.GROUP), np.int64), np.zeros_like(parameters[2])
    table, slots = rng.integers(-(2**63), 2**63, 2001), np.zeros(1 << 13, np.int32)
    cells = binning.GROUP * values.size

    def add_cells_of_nonzeros() -> None:
        add_sparse_cells(indptr, indices, values, 0, TILE, parameters, zero_keys, keys)

    filled = table.nbytes + slots.nbytes
    return [
        Case(
            "add_sparse_cells", add_cells_of_nonzeros, "cell", cells, values.nbytes, "floors", cells
        ),
        Case("fill_slots", lambda: fill_slots(table, 2000, slots, 13), "bin", 2000, filled),
    ]


def learn(keys: NDArray[np.int64], codes: NDArray[np.uint32]) -> tuple:
    """Number the bins of one grid from the start; return the arguments of look-ups."""
    bits = (4 * (len(keys) + 1)).bit_length()
    slots, table = np.zeros(1 << bits, np.int32), np.zeros(1 << (bits - 2), np.int64)
    count, used = number_codes(keys, len(keys), slots, min(10, bits), table, 0, len(keys), codes)
    return slots, used, table, count, count


def lookup_cases(n_rows: int) -> list[Case]:
    """Learn and find the bins of one grid, with few and with many bins."""
    cases = []
    for label, n_bins in BINS.items():
        rng = np.random.default_rng(3)
        bins = rng.integers(-(2**63), 2**63, n_bins)
        keys = bins[rng.integers(0, n_bins, n_rows)]
        codes = np.empty(n_rows, np.uint32)
        tables = learn(keys, codes)
        moved = keys.nbytes + codes.nbytes
        runs = {
            "learn": lambda keys=keys, codes=codes: learn(keys, codes),
            "find": lambda keys=keys, codes=codes, tables=tables: number_codes(
                keys, len(keys), *tables, codes
            ),
        }
        for name, call in runs.items():
            cases.append(Case(f"{name}, {label} bins", call, "look-up", n_rows, moved))
    return cases


def block_cases(args: argparse.Namespace) -> list[Case]:
    """Bin whole rows as the library does, from tiles and from non-zeros."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(args.rows, args.columns))
    X[rng.random(X.shape) >= DENSITY] = 0.0
    all_columns, none = np.arange(args.columns), np.empty(0, np.int64)
    group = draw_group(args.columns, 8.0)
    limits = cell_limits(group.inverse_widths)
    tiles = pack_block(X, 0, len(X), ColumnPlan(all_columns, (), none), limits)
    nonzeros = pack_block(X, 0, len(X), ColumnPlan(none, (), all_columns), limits)
    n_groups = -(-args.grids // binning.GROUP)
    return [
        *layout_cases("tiles", tiles, group, n_groups, X.size),
        *layout_cases("non-zeros", nonzeros, group, n_groups, len(nonzeros.values)),
    ]


def layout_cases(
    label: str, block: PackedBlock, group: GridGroup, n_groups: int, n_cells: int
) -> list[Case]:
    """Learn and find the bins of a packed block, once per group of grids."""
    codes = np.empty((binning.GROUP, block.n_rows), np.uint32)
    tables, workspace = BinTables.empty(binning.GROUP), key_workspace(block)
    tables.learn(group, block, codes)

    def learn_all() -> None:
        for _ in range(n_groups):
            BinTables.empty(binning.GROUP).learn(group, block, codes)

    def find_all() -> None:
        for _ in range(n_groups):
            tables.find(group, block, codes, workspace)

    read = block.tiles.nbytes + block.values.nbytes + block.indices.nbytes
    lookups, moved = n_groups * codes.size, n_groups * (read + codes.nbytes)
    cells = n_groups * binning.GROUP * n_cells
    return [
        Case(f"{name}, {label}", call, "look-up", lookups, moved, "floors", cells)
        for name, call in (("learn a block", learn_all), ("find a block", find_all))
    ]


def main() -> None:
    args = options(__doc__, QUICK, rows=169_472, grids=256, columns=28)
    cases = [*cell_cases(), *table_cases(), *lookup_cases(args.rows), *block_cases(args)]
    limits = {"floors": arithmetic_rate(), "memory": memory_bandwidth(1, args.quick)}
    run(cases, args, limits)


if __name__ == "__main__":
    main()
