"""Fits in a memory budget: codes and rows on the disk against both in memory.

A made-up table of 20 inputs in single precision, in an NPY file. The same fit reads it whole, or
maps it and keeps its codes in a file: time, peak memory, and whether the weights have the same
bits. Then the peak of a default fit beyond its table. Every fit has a process of its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import Report, Row, made_up, options, parse, print_progress
from harness.process import run_script

COLUMNS, GRIDS, BUDGET = 20, 128, 1_000_000_000
ROWS, ROWS_BY_DEFAULT = 10_000_000, 3_000_000
ALLOWANCE, MAX_TIMES, MAX_BY_DEFAULT = 200e6, 3.0, 1.5e9
CHILD = Path(__file__).with_name("_fit_budget.py")


def written(folder: Path, n_rows: int) -> Row:
    """Write a table; return its files."""
    X, y = made_up(n_rows, COLUMNS)
    files = {"inputs": str(folder / "X.npy"), "targets": str(folder / "y.npy")}
    np.save(files["inputs"], X.astype(np.float32))
    np.save(files["targets"], y)
    return files


def fitted(what: str, files: Row, mapped: bool, **parameters: object) -> Row:
    found = run_script(CHILD, {**files, "mapped": mapped, "parameters": parameters})
    print_progress(f"{what}: {found['seconds']:.1f} s, peak {found['peak'] / 1e6:.0f} MB")
    return {
        "fit": what,
        "fit s": found["seconds"],
        "peak MB": found["peak"] / 1e6,
        "table MB": found["inputs"] / 1e6,
        "columns": found["columns"],
        "bits": found["bits"],
        "limits": found["limits"],
    }


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--rows", type=int, default=ROWS, help="of the fits that are compared")
    parser.add_argument("--default-rows", type=int, default=ROWS_BY_DEFAULT, help="0 leaves it out")
    args = parse(parser)
    report, grids = Report(args), 480 if args.quick else GRIDS
    n_rows, by_default = (20_000, 20_000) if args.quick else (args.rows, args.default_rows)
    common = {"n_grids": grids, "n_jobs": args.jobs, "effort": 1 if args.quick else 3}
    if args.quick:
        # Growth, the search and the preconditioner use fewer rows within a budget too small for
        # these, which changes the weights. Codes of many random grids with given settings outgrow
        # a budget that suffices.
        common |= {"grids": "random", "bandwidth": 3.0, "alpha": 1e-4, "scaling": "standard"}
    with tempfile.TemporaryDirectory() as folder:
        if n_rows:
            files = written(Path(folder), n_rows)
            budget = 36_000_000 if args.quick else BUDGET
            inside = fitted("in memory", files, False, **common)
            outside = fitted("on the disk", files, True, memory_budget=budget, **common)
            report.add(f"{n_rows:,} rows of {COLUMNS} inputs, {grids} grids", [inside, outside])
            verdict = {
                "same bits": inside["bits"] == outside["bits"],
                "times the time": outside["fit s"] / inside["fit s"],
                "peak less budget MB": outside["peak MB"] - budget / 1e6,
                "within": outside["peak MB"] <= (budget + ALLOWANCE) / 1e6,
                "fast enough": outside["fit s"] <= MAX_TIMES * inside["fit s"],
            }
            report.add(f"With a budget of {budget / 1e9:g} GB", [verdict])
        if by_default:
            files = written(Path(folder), by_default)
            plain = fitted("by default", files, False, n_jobs=args.jobs)
            plain["beyond the table MB"] = plain["peak MB"] - plain["table MB"]
            plain["within"] = plain["beyond the table MB"] <= MAX_BY_DEFAULT / 1e6
            report.add(f"{by_default:,} rows of {COLUMNS} inputs, defaults", [plain])
    report.close()


if __name__ == "__main__":
    main()
