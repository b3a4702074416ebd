"""Our default fits compared with other methods: test error, and seconds to fit and to predict.

Each method has the settings that its users would choose, see its file; the time of a search is part
of its fit. Methods take turns, each turn with another seed; errors are means and seconds medians.
Errors are error rates, or the RMSE over the standard deviation of the test targets. Our default
fits should be within a bound. The picture shows the error against the time to fit, with one panel
per data set.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import mean, median
from typing import Any

import threadpoolctl

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import ROOT, Report, Row, load_sets, options, parse, save_picture
from benchmarks.versus.turns import find_methods, take_turns
from harness.peers import METHODS

# Largest test errors that the default fits may have.
BOUNDS = {
    "ijcnn1": 0.013,
    "letter": 0.038,
    "cod-rna": 0.033,
    "a9a": 0.152,
    "covtype_1vs2_169k": 0.060,
    "covtype_first20k": 0.128,
    "cadata": 0.46,
    "protein_casp": 0.545,
}


def draw(rows: list[Row], path: Path) -> None:
    """Draw the error against the time to fit, with one panel per data set."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["data set"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    n_wide = min(3, len(names))
    n_high = -(-len(names) // n_wide)
    figure = Figure(figsize=(4.2 * n_wide, 3.4 * n_high), layout="constrained")
    axes = figure.subplots(n_high, n_wide, squeeze=False).ravel()
    points: dict[str, Any] = {}
    for name, ax in zip(names, axes, strict=False):
        for row in (row for row in rows if row["data set"] == name):
            colour = f"C{methods.index(row['method'])}"
            marker = "*" if row["method"] == "gramless" else "o"
            (point,) = ax.plot(row["fit s"], row["error"], marker, color=colour, markersize=9)
            points[row["method"]] = point
        ax.set(title=name, xscale="log", xlabel="seconds to fit", ylabel="test error")
        ax.margins(0.15)
        ax.grid(alpha=0.3)
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    figure.legend(points.values(), points, loc="outside lower center", ncols=4)
    save_picture(figure, path)


def compare_with_bound(row: Row) -> Row:
    """Return our errors and whether they are within the bound, or None if there is no bound."""
    bound = BOUNDS.get(row["data set"])
    within = None if bound is None else row["error"] <= bound
    columns = {name: row[name] for name in ("data set", "error", "worst", "fit s")}
    return {**columns, "bound": bound, "within": within}


def options_of_run() -> argparse.Namespace:
    parser = options(__doc__, repeats=3)
    parser.add_argument("--sets", nargs="+", default=BOUNDS)
    # benchmarks/pareto.py compares the efforts.
    usual = [name for name in METHODS if not name.startswith("effort")]
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=usual)
    parser.add_argument("--picture", type=Path, default=ROOT / "build" / "versus.png")
    return parse(parser)


def main() -> None:
    args = options_of_run()
    report = Report(args)
    methods = find_methods(args.methods)
    rows: list[Row] = []
    with threadpoolctl.threadpool_limits(args.jobs):
        for data in load_sets(args.sets, args):
            outcomes = take_turns(methods, data, args.repeats, args.jobs)
            rows_of_set: list[Row] = [
                {
                    "data set": data.name,
                    "method": name,
                    "error": mean(outcome.error for outcome in runs),
                    "worst": max(outcome.error for outcome in runs),
                    "fit s": median(outcome.fit_seconds for outcome in runs),
                    "predict s": median(outcome.predict_seconds for outcome in runs),
                }
                for name, runs in outcomes.items()
            ]
            report.add(f"{data.name}: {data.task}, {len(data.y_train):,} rows", rows_of_set)
            rows += rows_of_set
    ours = [row for row in rows if row["method"] == "gramless"]
    report.add("Default fits and the bounds of their errors", map(compare_with_bound, ours))
    report.close()
    if rows:
        draw(rows, args.picture)


if __name__ == "__main__":
    main()
