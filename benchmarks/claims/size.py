"""The number of grids: ``n_grids="auto"`` compared with 1,024 random grids.

Bandwidth, alpha and scaling are selected once and given to both, so that seconds depend only on the
selection of the number of grids and on the fit. Errors are error rates, or the RMSE over the
standard deviation of the test targets. Errors are means over the seeds, and seconds are medians.

The official test rows of ijcnn1 and cod-rna have another distribution than the training rows. With
``--inner`` the errors of all sets are those of a fifth of the training rows. ``--made-up`` adds two
generated tables of 20 inputs with this many rows, the same as in ``rows.py``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import chain
from statistics import mean, median
from typing import Any

import _repository  # noqa: F401
import numpy as np
from _waves_and_jumps import TABLES, table

from benchmarks.common import (
    Outcome,
    Report,
    Row,
    fit_and_evaluate,
    load_sets,
    numeric_targets,
    options,
    parse,
    print_progress,
)
from gramless import KernelClassifier, KernelRegressor
from gramless.base.random import stream
from gramless.selection.data import Data
from gramless.selection.splits import matched_rows, shuffled
from harness.data_sets import Dataset

SETS = ("cadata", "protein_casp", "letter", "ijcnn1", "cod-rna")
GRIDS, QUICK_GRIDS = 1024, 64
TEST_ROWS = 50_000


def fit_once(data: Dataset, seed: int, jobs: int | None, **settings: Any) -> tuple[Outcome, Any]:
    kind = KernelRegressor if data.task == "regression" else KernelClassifier
    model = kind(grids="random", calibrate=False, random_state=seed, n_jobs=jobs, **settings)
    return fit_and_evaluate(model, data), model


def select_settings(data: Dataset, seed: int, jobs: int | None) -> dict[str, Any]:
    _, model = fit_once(data, seed, jobs, n_grids=96, relevance="equal")
    return {
        "bandwidth": model.bandwidth_,
        "alpha": model.alpha_,
        "scaling": model.settings_.scaling,
    }


def inner_part(data: Dataset) -> Dataset:
    """Return the training rows with a fifth of them as test rows; matched rows stay together."""
    X, y = data.X_train, data.y_train
    targets = numeric_targets(y) if data.task != "multiclass" else np.zeros(len(y))
    groups = matched_rows(Data(X, targets, None, lambda z, y, weight: 0.0, False))
    order = shuffled(np.arange(len(y)), groups, stream(0, "inner part"))
    test, rest = np.split(order, [len(y) // 5])
    return Dataset(X[rest], y[rest], X[test], y[test], data.task, data.name)


def made_up_tables(sizes: Iterable[int]) -> Iterable[Dataset]:
    for name in TABLES:
        for n_rows in sizes:
            X, y, _ = table(name, 0, n_rows, "training")
            X_test, y_test, _ = table(name, 0, min(n_rows, TEST_ROWS), "test")
            yield Dataset(X, y, X_test, y_test, "regression", f"{name}, {n_rows:,} rows")


def compare(data: Dataset, args: argparse.Namespace) -> Row:
    n_grids = QUICK_GRIDS if args.quick else GRIDS
    turns: dict[Any, list[Outcome]] = {"auto": [], n_grids: []}
    sizes = []
    for seed in range(args.repeats):
        settings = select_settings(data, seed, args.jobs)
        for size, outcomes in turns.items():
            outcome, model = fit_once(data, seed, args.jobs, n_grids=size, **settings)
            outcomes.append(outcome)
            if size == "auto":
                sizes.append(len(model.features_.n_bins_))
    auto, fixed = turns.values()
    errors = [mean(outcome.error for outcome in runs) for runs in (auto, fixed)]
    times = [median(outcome.fit_seconds for outcome in runs) for runs in (auto, fixed)]
    return {
        "data set": data.name,
        "rows": data.X_train.shape[0],
        "grids": int(median(sizes)),
        "error": errors[0],
        f"error at {n_grids:,}": errors[1],
        "ratio": errors[0] / errors[1],
        "s": times[0],
        f"s at {n_grids:,}": times[1],
        "time ratio": times[0] / times[1],
    }


def rows(args: argparse.Namespace) -> Iterable[Row]:
    named = args.only or (() if args.made_up else SETS)
    for data in chain(load_sets(named, args), made_up_tables(args.made_up)):
        print_progress(f"{data.name}: fitting")
        yield compare(inner_part(data) if args.inner else data, args)


def main() -> None:
    parser = options(__doc__, repeats=3)
    parser.add_argument("--only", nargs="+", help="these data sets alone")
    parser.add_argument(
        "--inner", action="store_true", help="compute errors on a fifth of the training rows"
    )
    parser.add_argument(
        "--made-up", nargs="+", type=int, default=[], metavar="ROWS", help="add generated tables"
    )
    args = parse(parser)
    report = Report(args)
    report.add('n_grids="auto" compared with a fixed number of random grids', rows(args))
    report.close()


if __name__ == "__main__":
    main()
