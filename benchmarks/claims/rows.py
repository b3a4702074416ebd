"""Default fits of many rows, compared with boosted trees.

Two generated tables have 20 float32 inputs, half of them with heavy tails: Friedman's first
function, smooth and of five inputs, and a function of nine inputs with a kink, jumps and products.
Only the seed is set; LightGBM has at most 1,000 trees, a learning rate of 0.1, and early stopping
on a fifth of the rows. Errors are RMSE against the noise-free targets, over their standard
deviation, on 100,000 other rows. Each fit has its own process, and methods take turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, median

import _repository  # noqa: F401
from _waves_and_jumps import TABLES

from benchmarks.common import Report, Row, options, parse, print_progress
from harness.process import run_script

ROWS, TEST_ROWS = (100_000, 1_000_000, 3_000_000), 100_000
QUICK_ROWS, QUICK_TEST_ROWS = (500,), 200
METHODS = ("gramless", "lightgbm")
FIT = Path(__file__).with_name("_default_fit.py")


def compare(table: str, n_rows: int, test_rows: int, args: argparse.Namespace) -> Iterator[Row]:
    """Fit with both methods in each repeat."""
    runs: dict[str, list[Row]] = {method: [] for method in METHODS}
    for repeat in range(args.repeats):
        # Every other repeat has the reverse order, so that a trend in speed affects all equally.
        for method in METHODS[:: -1 if repeat % 2 else 1]:
            job = {
                "table": table,
                "rows": n_rows,
                "test_rows": test_rows,
                "method": method,
                "seed": repeat,
                "jobs": args.jobs,
            }
            runs[method].append(run_script(FIT, job))
            print_progress(f"{table}, {n_rows:,} rows, {method}: {runs[method][-1]['fit']:.3g} s")
    ours = runs["gramless"]
    for method, results in runs.items():
        yield {
            "table": table,
            "rows": n_rows,
            "method": method,
            "fit s": median(run["fit"] for run in results),
            "times ours": median(run["fit"] for run in results)
            / median(run["fit"] for run in ours),
            "error": fmean(run["error"] for run in results),
            "error over ours": fmean(run["error"] for run in results)
            / fmean(run["error"] for run in ours),
            "rows predicted a s": test_rows / median(run["predict"] for run in results),
            "peak MB": max(run["peak"] for run in results) / 1e6,
        }


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--rows", nargs="+", type=int, help="default 100,000, 1 and 3 million")
    args = parse(parser)
    report = Report(args)
    sizes = args.rows or (QUICK_ROWS if args.quick else ROWS)
    test_rows = QUICK_TEST_ROWS if args.quick else TEST_ROWS
    rows = [
        row
        for table in TABLES
        for n_rows in sizes
        for row in compare(table, n_rows, test_rows, args)
    ]
    report.add("Default fits, error without the noise", rows)
    report.close()


if __name__ == "__main__":
    main()
