"""Fits in a memory budget: codes and rows on the disk compared with both in memory.

A generated table of 20 float32 inputs is stored in an NPY file. The same fit either reads it, or
maps it and stores its codes in a file. The tables show time, peak memory, whether the predictions
have the same bits, and the memory of a default fit in addition to its table. Every fit has its own
process.
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


def write_table(folder: Path, n_rows: int) -> Row:
    """Write a table and return the names of its files."""
    X, y = made_up(n_rows, COLUMNS)
    files = {"inputs": str(folder / "X.npy"), "targets": str(folder / "y.npy")}
    np.save(files["inputs"], X.astype(np.float32))
    np.save(files["targets"], y)
    return files


def fit_in_process(label: str, files: Row, mapped: bool, **parameters: object) -> Row:
    result = run_script(CHILD, {**files, "mapped": mapped, "parameters": parameters})
    print_progress(f"{label}: {result['seconds']:.1f} s, peak {result['peak'] / 1e6:.0f} MB")
    return {
        "fit": label,
        "fit s": result["seconds"],
        "peak MB": result["peak"] / 1e6,
        "table MB": result["inputs"] / 1e6,
        "columns": result["columns"],
        "bits": result["bits"],
        "limits": result["limits"],
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
            files = write_table(Path(folder), n_rows)
            budget = 36_000_000 if args.quick else BUDGET
            in_memory = fit_in_process("in memory", files, False, **common)
            on_disk = fit_in_process("on the disk", files, True, memory_budget=budget, **common)
            report.add(f"{n_rows:,} rows of {COLUMNS} inputs, {grids} grids", [in_memory, on_disk])
            verdict = {
                "same bits": in_memory["bits"] == on_disk["bits"],
                "times the time": on_disk["fit s"] / in_memory["fit s"],
                "peak less budget MB": on_disk["peak MB"] - budget / 1e6,
                "within": on_disk["peak MB"] <= (budget + ALLOWANCE) / 1e6,
                "fast enough": on_disk["fit s"] <= MAX_TIMES * in_memory["fit s"],
            }
            report.add(f"With a budget of {budget / 1e9:g} GB", [verdict])
        if by_default:
            files = write_table(Path(folder), by_default)
            plain = fit_in_process("by default", files, False, n_jobs=args.jobs)
            plain["beyond the table MB"] = plain["peak MB"] - plain["table MB"]
            plain["within"] = plain["beyond the table MB"] <= MAX_BY_DEFAULT / 1e6
            report.add(f"{by_default:,} rows of {COLUMNS} inputs, defaults", [plain])
    report.close()


if __name__ == "__main__":
    main()
