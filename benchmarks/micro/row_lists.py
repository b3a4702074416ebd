"""One row of each bin, and the lists of all rows of each bin, in one thread, compared with NumPy.

A unit is a row of a grid. Bytes are those of the codes that are read and the row indices that are
written.
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
    starts, row_of_bin = n_bins * np.arange(N_GRIDS), np.zeros(N_GRIDS * n_bins, np.int64)
    rows, bounds = np.empty(n_rows, np.uint32), np.empty(n_bins + 1, np.uint32)

    def by_numpy() -> None:
        for start, code in zip(starts, codes, strict=True):
            row_of_bin[start + code.astype(np.int64) - 1] = np.arange(n_rows)

    def lists() -> None:
        for code in codes:
            list_rows(code, rows, bounds)

    def sorts() -> None:
        for code in codes:
            np.argsort(code, kind="stable")

    units, one, all_of = float(codes.size), f"NumPy, {n_bins} bins", f"argsort, {n_bins} bins"
    moved_one, moved_all = codes.nbytes + 8.0 * row_of_bin.size, codes.nbytes + 4.0 * units
    return [
        Case(one, by_numpy, "row", units, moved_one),
        Case(
            f"a row, {n_bins} bins",
            lambda: last_rows(codes, starts, row_of_bin),
            "row",
            units,
            moved_one,
            peer=one,
        ),
        Case(all_of, sorts, "row", units, moved_all),
        Case(f"rows, {n_bins} bins", lists, "row", units, moved_all, peer=all_of),
    ]


def main() -> None:
    args: argparse.Namespace = options(__doc__, QUICK, rows=50_000)
    cases = [case for n_bins in BINS for case in make_cases(args.rows, n_bins)]
    run(cases, args, {"memory": memory_bandwidth(1, args.quick)})


if __name__ == "__main__":
    main()
