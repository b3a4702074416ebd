"""A row of each bin, and the rows of each bin, in one thread, beside NumPy.

A unit is a row of a grid. Bytes are the codes that are read, and what is written of rows.
"""

from __future__ import annotations

import argparse

import numpy as np
from _timing import Case, memory_bandwidth, options, run

from gramless.base.arrays import readonly
from gramless.loops.row_lists import last_rows, list_rows

QUICK = {"rows": 1000}
N_GRIDS = 16
BINS = (200, 20_000)


def make_cases(n_rows: int, n_bins: int) -> list[Case]:
    rng = np.random.default_rng(0)
    kind = np.uint8 if n_bins < 256 else np.uint16
    codes = readonly(rng.integers(1, n_bins + 1, (N_GRIDS, n_rows)).astype(kind))
    starts, found = n_bins * np.arange(N_GRIDS), np.zeros(N_GRIDS * n_bins, np.int64)
    rows, bounds = np.empty(n_rows, np.uint32), np.empty(n_bins + 1, np.uint32)

    def by_numpy() -> None:
        for start, own in zip(starts, codes, strict=True):
            found[start + own.astype(np.int64) - 1] = np.arange(n_rows)

    def lists() -> None:
        for own in codes:
            list_rows(own, rows, bounds)

    def sorts() -> None:
        for own in codes:
            np.argsort(own, kind="stable")

    units, one, all_of = float(codes.size), f"NumPy, {n_bins} bins", f"argsort, {n_bins} bins"
    each, listed = codes.nbytes + 8.0 * found.size, codes.nbytes + 4.0 * units
    return [
        Case(one, by_numpy, "row", units, each),
        Case(
            f"a row, {n_bins} bins",
            lambda: last_rows(codes, starts, found),
            "row",
            units,
            each,
            peer=one,
        ),
        Case(all_of, sorts, "row", units, listed),
        Case(f"rows, {n_bins} bins", lists, "row", units, listed, peer=all_of),
    ]


def main() -> None:
    args: argparse.Namespace = options(__doc__, QUICK, rows=50_000)
    cases = [case for n_bins in BINS for case in make_cases(args.rows, n_bins)]
    run(cases, args, {"memory": memory_bandwidth(1, args.quick)})


if __name__ == "__main__":
    main()
