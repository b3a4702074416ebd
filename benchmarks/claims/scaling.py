"""Growth of the time and the memory of a fit with the rows and with the grids.

The generated regression table has 18 float32 inputs. Bandwidth, alpha, scaling and the number of
iterations are fixed. Every fit has its own process, and sizes take turns.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

import _repository  # noqa: F401

from benchmarks.common import (
    ROOT,
    Report,
    Row,
    log_slope,
    made_up,
    options,
    parse,
    print_progress,
    save_picture,
    scalar_bandwidth,
)
from harness.process import run_script

COLUMNS, ALPHA, ITERATIONS = 18, 1e-5, 20
FIT_ONCE = Path(__file__).with_name("_fit_once.py")
ROWS, GRIDS_FOR_ROWS = (100_000, 300_000, 1_000_000, 2_000_000, 5_000_000), 64
GRIDS, ROWS_FOR_GRIDS = (64, 128, 256, 512, 1024), 200_000
QUICK_ROWS, QUICK_GRIDS = (1000, 3000), (8, 16)

Size = tuple[int, int]


def measure(sizes: list[Size], args: argparse.Namespace) -> dict[Size, list[Row]]:
    """Fit every size in each repeat, in a new process."""
    bandwidth = scalar_bandwidth(made_up(min(100_000, max(sizes)[0]), COLUMNS)[0])
    runs: dict[Size, list[Row]] = {size: [] for size in sizes}
    for repeat in range(args.repeats):
        # Every other repeat has the reverse order, so that a trend in speed affects all equally.
        for n_rows, n_grids in sizes[:: -1 if repeat % 2 else 1]:
            job = {
                "made_up": [n_rows, COLUMNS],
                "task": "regression",
                "grids": n_grids,
                "bandwidth": bandwidth,
                "alpha": ALPHA,
                "tol": 1e-12,
                "max_iter": ITERATIONS,
                "jobs": args.jobs,
            }
            runs[n_rows, n_grids].append(run_script(FIT_ONCE, job))
            print_progress(
                f"{n_rows:,} rows, {n_grids} grids: {runs[n_rows, n_grids][-1]['seconds']:.2f} s"
            )
    return runs


def row_of(size: Size, runs: list[Row]) -> Row:
    seconds = median(run["seconds"] for run in runs)
    return {
        "rows": size[0],
        "grids": size[1],
        "bins a grid": runs[0]["bins a grid"],
        "bytes a code": runs[0]["code bytes"],
        "iterations": runs[0]["iterations"],
        "fit s": seconds,
        "ns/row/grid": 1e9 * seconds / (size[0] * size[1]),
        "peak MB": max(run["peak"] for run in runs) / 1e6,
        "input MB": runs[0]["inputs"] / 1e6,
        "codes MB": runs[0]["codes"] / 1e6,
    }


def draw(tables: dict[str, list[Row]], path: Path) -> None:
    """Draw time and memory against rows and grids, with a line of proportional growth."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7), layout="constrained")
    for line, (key, label) in enumerate([("fit s", "seconds to fit"), ("peak MB", "peak MB")]):
        for k, (size, rows) in enumerate(tables.items()):
            ax = figure.add_subplot(2, 2, 2 * line + k + 1)
            x, y = [row[size] for row in rows], [row[key] for row in rows]
            ax.loglog(x, y, "o-", label=f"measured, exponent {log_slope(x, y):.2f}")
            ax.loglog(x, [y[0] * value / x[0] for value in x], "k:", label="proportional")
            ax.set(xlabel=size, ylabel=label)
            ax.grid(alpha=0.3, which="both")
            ax.legend()
    save_picture(figure, path)


def main() -> None:
    parser = options(__doc__, repeats=3)
    parser.add_argument("--picture", type=Path, default=ROOT / "build" / "scaling.png")
    args = parse(parser)
    report = Report(args)
    by_rows = [(n, GRIDS_FOR_ROWS) for n in ROWS]
    by_grids = [(ROWS_FOR_GRIDS, r) for r in GRIDS]
    if args.quick:
        by_rows, by_grids = [(n, 8) for n in QUICK_ROWS], [(1000, r) for r in QUICK_GRIDS]
    runs = measure(list(dict.fromkeys([*by_rows, *by_grids])), args)
    tables = {"rows": [row_of(size, runs[size]) for size in by_rows]}
    tables["grids"] = [row_of(size, runs[size]) for size in by_grids]
    for size, rows in tables.items():
        report.add(f"Growth with the {size}", rows)
    slopes = [
        {
            "of": size,
            "exponent of the time": log_slope([r[size] for r in rows], [r["fit s"] for r in rows]),
            "exponent of the peak": log_slope(
                [r[size] for r in rows], [r["peak MB"] for r in rows]
            ),
        }
        for size, rows in tables.items()
    ]
    report.add("Exponents", slopes)
    report.close()
    draw(tables, args.picture)


if __name__ == "__main__":
    main()
