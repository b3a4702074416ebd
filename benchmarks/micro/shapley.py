"""Shapley values: keys of players, games of grids, and products over all subsets of inputs.

``player_keys`` computes cells: a unit is an input of a row in one grid. In ``grid_values`` and
``sampled_grid_values`` a unit is a row: rows of one bin are one game, whose payoffs are looked up
for all subsets, or along two orders for each background row. For ``product_sums``
and ``product_totals`` a unit is a term of a row in one subset: three numbers are read and one is
written in the L1 cache. Bytes are those that must move at least once. All use one thread.
"""

from __future__ import annotations

import argparse

import numpy as np
from _timing import Case, memory_bandwidth, options, run

from gramless.features.binning import GivenBinning
from gramless.features.grids import Grids, limits_of_cells
from gramless.features.shapley import Subsets
from gramless.features.shapley_grids import Players, bin_tables, joining_factors
from gramless.kernels import Laplacian
from gramless.loops import shapley as loops
from gramless.loops.binning import slot_bits

QUICK = {"rows": 200, "background": 20, "players": 4, "terms": 16}
N_LEARNED, WIDTH = 20_000, 3.0


def grid_cases(args: argparse.Namespace) -> list[Case]:
    """Time a grid over a few inputs, as growth makes them."""
    rng, s = np.random.default_rng(0), min(args.players, 4)
    learned, rows, others = (
        rng.normal(size=(n, s)) for n in (N_LEARNED, args.rows, args.background)
    )
    grids = Grids.draw(Laplacian(), np.full(s, WIDTH), 1, 0)
    features = GivenBinning(n_jobs=1)
    features.fit_grids(learned, grids)
    everything, parts = np.arange(s), (1.0 / grids.widths[0], grids.shifts[0], grids.multipliers[0])
    limits = limits_of_cells(*parts)
    keys, background = np.empty((s, len(rows)), np.int64), np.empty((s, len(others)), np.int64)
    cells = everything, everything, *parts, limits
    columns = np.ascontiguousarray(rows.T)
    loops.player_keys(columns, *cells, keys)
    loops.player_keys(np.ascontiguousarray(others.T), *cells, background)
    weights = np.vstack([np.zeros((1, 1)), rng.normal(size=(int(features.n_bins_[0]), 1))])
    most = max(keys.shape[1], background.shape[1])
    game = keys, background, int(grids.offsets[0]), *bin_tables(features)[0], weights
    room = (
        np.empty((8, most + 1), np.int64),
        np.empty(len(rows) * (s + 1) + 2 * len(others)),
        np.empty(1 << slot_bits(most, loops.FIRST_BITS), np.int32),
    )
    out = np.zeros((len(rows), s, 1))
    orders = rng.permuted(np.tile(everything, (len(others), 1)), axis=1)
    factors, players = joining_factors(s), Players(everything, s).columns_of(np.ones(s, bool))[0]
    n, moved = len(rows), 8.0 * len(rows) * s

    def exact() -> None:
        loops.grid_values(*game, factors, players, *room, out)

    def sampled() -> None:
        loops.sampled_grid_values(*game, orders, players, *room, out)

    def to_keys() -> None:
        loops.player_keys(columns, *cells, keys)

    return [
        Case("player_keys", to_keys, "cell", n * s, 2.0 * moved),
        Case("grid_values", exact, "row", n, 2.0 * moved),
        Case("sampled_grid_values", sampled, "row", n, 2.0 * moved, peer="grid_values"),
    ]


def product_cases(args: argparse.Namespace) -> list[Case]:
    """Time products of real and of complex factors."""
    rng, subsets, cases = np.random.default_rng(1), Subsets.all_of(args.players), []
    n, n_rows = len(subsets.steps), min(args.rows, 64)
    for name, kind in (("real", np.float64), ("complex", np.complex128)):
        factors = rng.random((n_rows, args.players, args.terms)).astype(kind)
        table = rng.random((n, args.terms)).astype(kind)
        room = np.empty((subsets.n_kept + 1, args.terms), kind)
        payoffs, units = np.zeros((n_rows, n)), n_rows * n * args.terms
        moved = float(factors.nbytes + table.nbytes + payoffs.nbytes)

        def sums(f=factors, t=table, r=room, p=payoffs) -> None:  # type: ignore[no-untyped-def]
            loops.product_sums(f, subsets.steps, t, r, p)

        def totals(f=factors, t=table, r=room) -> None:  # type: ignore[no-untyped-def]
            loops.product_totals(f, subsets.steps, r, t)

        cases += [
            Case(f"product_sums, {name}", sums, "term", units, moved),
            Case(f"product_totals, {name}", totals, "term", units, moved),
        ]
    return cases


def main() -> None:
    args = options(__doc__, QUICK, rows=2048, background=200, players=10, terms=250)
    limits = {"memory": memory_bandwidth(1, args.quick)}
    run(grid_cases(args) + product_cases(args), args, limits)


if __name__ == "__main__":
    main()
