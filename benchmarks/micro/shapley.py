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
    rng, n_inputs = np.random.default_rng(0), min(args.players, 4)
    learned, rows, background_rows = (
        rng.normal(size=(n, n_inputs)) for n in (N_LEARNED, args.rows, args.background)
    )
    grids = Grids.draw(Laplacian(), np.full(n_inputs, WIDTH), 1, 0)
    features = GivenBinning(n_jobs=1)
    features.fit_grids(learned, grids)
    all_inputs, parts = (
        np.arange(n_inputs),
        (1.0 / grids.widths[0], grids.shifts[0], grids.multipliers[0]),
    )
    limits = limits_of_cells(*parts)
    keys, background = (
        np.empty((n_inputs, len(rows)), np.int64),
        np.empty((n_inputs, len(background_rows)), np.int64),
    )
    cells = all_inputs, all_inputs, *parts, limits
    columns = np.ascontiguousarray(rows.T)
    loops.player_keys(columns, *cells, keys)
    loops.player_keys(np.ascontiguousarray(background_rows.T), *cells, background)
    weights = np.vstack([np.zeros((1, 1)), rng.normal(size=(int(features.n_bins_[0]), 1))])
    max_rows = max(keys.shape[1], background.shape[1])
    game = keys, background, int(grids.offsets[0]), *bin_tables(features)[0], weights
    scratch = (
        np.empty((8, max_rows + 1), np.int64),
        np.empty(len(rows) * (n_inputs + 1) + 2 * len(background_rows)),
        np.empty(1 << slot_bits(max_rows, loops.FIRST_BITS), np.int32),
    )
    out = np.zeros((len(rows), n_inputs, 1))
    orders = rng.permuted(np.tile(all_inputs, (len(background_rows), 1)), axis=1)
    factors, players = (
        joining_factors(n_inputs),
        Players(all_inputs, n_inputs).columns_of(np.ones(n_inputs, bool))[0],
    )
    n, moved = len(rows), 8.0 * len(rows) * n_inputs

    def exact() -> None:
        loops.grid_values(*game, factors, players, *scratch, out)

    def sampled() -> None:
        loops.sampled_grid_values(*game, orders, players, *scratch, out)

    def to_keys() -> None:
        loops.player_keys(columns, *cells, keys)

    return [
        Case("player_keys", to_keys, "cell", n * n_inputs, 2.0 * moved),
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
        scratch = np.empty((subsets.n_kept + 1, args.terms), kind)
        payoffs, units = np.zeros((n_rows, n)), n_rows * n * args.terms
        moved = float(factors.nbytes + table.nbytes + payoffs.nbytes)

        def sums(f=factors, t=table, r=scratch, p=payoffs) -> None:  # type: ignore[no-untyped-def]
            loops.product_sums(f, subsets.steps, t, r, p)

        def totals(f=factors, t=table, r=scratch) -> None:  # type: ignore[no-untyped-def]
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
