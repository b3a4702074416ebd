"""Check that peak memory is at most 1.5 times the budget plus 30 MB.

The budget is ``memory_budget`` or ``GRAMLESS_MEMORY_LIMIT``.

Each fit, with a prediction of 1,000 rows, runs in a new process; its peak is counted from when the
table has been generated. Cells are ``peak/limit`` in MB; "refused" means that the fit raised an
error. With ``--by-variable`` the environment variable is used also for estimators that have
``memory_budget``.
"""

from __future__ import annotations

from pathlib import Path

import _repository  # noqa: F401
from _fit_in_memory import KINDS

from benchmarks.common import Report, Row, options, parse, print_progress
from harness.process import run_script

SHAPES = ((3000, 2000), (50_000, 20), (200_000, 10), (5000, 100))
QUICK_SHAPES = ((500, 5),)
BUDGETS = (30, 100, 300)
FACTOR, ALLOWANCE = 1.5, 30e6
FIT = Path(__file__).with_name("_fit_in_memory.py")


def limit(budget: float) -> float:
    """Return the number of bytes that a fit with this budget may use."""
    return FACTOR * budget + ALLOWANCE


def measure(
    kind: str, shape: tuple[int, int], budget: float, by_variable: bool, jobs: int | None
) -> tuple[str, bool]:
    """Return the cell of the table, and whether the peak is within the limit."""
    job = {"kind": kind, "shape": shape, "budget": budget, "by_variable": by_variable, "jobs": jobs}
    fit = run_script(FIT, job)
    cell = f"{fit['peak'] / 1e6:.0f}/{limit(budget) / 1e6:.0f}"
    if fit["refused"]:
        cell += " refused"
    print_progress(f"{kind}, {shape[0]} x {shape[1]}: {cell} {fit['refused'] or fit['limits']}")
    return cell, fit["peak"] <= limit(budget)


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--shapes", nargs="+", help="such as 5000x100")
    parser.add_argument("--budgets", nargs="+", type=int, default=BUDGETS, help="in MB")
    parser.add_argument("--by-variable", action="store_true", help="set GRAMLESS_MEMORY_LIMIT")
    args = parse(parser)
    report = Report(args)
    shapes = [tuple(map(int, each.split("x"))) for each in args.shapes or ()]
    n_exceeded = 0
    for n_rows, n_columns in shapes or (QUICK_SHAPES if args.quick else SHAPES):
        rows: list[Row] = []
        for kind in args.kinds:
            row: Row = {"kind": kind}
            for budget in args.budgets:
                cell, is_within = measure(
                    kind, (n_rows, n_columns), 1e6 * budget, args.by_variable, args.jobs
                )
                row[f"{budget} MB"] = cell if is_within else f"{cell} BEYOND"
                n_exceeded += not is_within
            rows.append(row)
        report.add(f"{n_rows:,} rows of {n_columns:,} inputs: peak/limit, MB", rows)
    report.add("Beyond the limit", [{"fits": n_exceeded}])
    report.close()


if __name__ == "__main__":
    main()
