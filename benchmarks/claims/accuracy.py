"""Test errors with nothing given but the seed, beside boosted trees and support vectors.

The official split, or our own of 80 and 20 per cent; three seeds. Classification: the share of
wrong classes; regression: RMSE over the standard deviation of the test targets.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import mean, median

import threadpoolctl

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import Report, Row, load_sets, options, parse
from benchmarks.versus.turns import find_methods, take_turns
from gramless.datasets import Dataset
from harness.peers import METHODS

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
"""What the defaults should reach."""
SUMMARY = ("data set", "error", "worst", "bound", "within", "fit s")
USUAL = ["gramless", "lightgbm", "hist_gradient_boosting", "svc"]


def judge(data: Dataset, chosen: argparse.Namespace) -> list[Row]:
    methods = find_methods(chosen.methods)
    outcomes = take_turns(methods, data, chosen.repeats, chosen.jobs)
    bound = BOUNDS.get(data.name)
    rows = []
    for name, own in outcomes.items():
        error = mean(one.error for one in own)
        rows.append(
            {
                "data set": data.name,
                "method": name,
                "error": error,
                "worst": max(one.error for one in own),
                "bound": bound,
                "within": None if bound is None else error <= bound,
                "fit s": median(one.fit_seconds for one in own),
                "predict s": median(one.predict_seconds for one in own),
                "fits": len(own),
            }
        )
    return rows


def main() -> None:
    parser = options(__doc__, repeats=3)
    parser.add_argument("--sets", nargs="*", default=[], help="more data sets")
    parser.add_argument("--only", nargs="+", help="these data sets and no others")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=USUAL)
    chosen = parse(parser)
    report = Report(chosen)
    names = chosen.only or dict.fromkeys([*BOUNDS, *chosen.sets])
    rows: list[Row] = []
    with threadpoolctl.threadpool_limits(chosen.jobs):
        for data in load_sets(names, chosen):
            found = judge(data, chosen)
            report.add(f"{data.name}: {data.task}, {len(data.y_train):,} rows", found)
            rows += found
    ours = [row for row in rows if row["method"] == "gramless"]
    report.add("Ours", [{key: row[key] for key in SUMMARY} for row in ours])
    report.close()


if __name__ == "__main__":
    main()
