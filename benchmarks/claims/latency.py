"""Prediction time of one row, and of a large batch.

For one row the tables show the median and the 99th percentile of single calls of a warm model: with
random grids, and a default fit to ijcnn1, which has grids and smooth kernels. For a batch they show
rows per second.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import (
    Report,
    Row,
    load_sets,
    made_up,
    options,
    parse,
    print_progress,
    scalar_bandwidth,
)
from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.features.hybrid import parts_of
from harness.data_sets import Dataset
from harness.timing import interleaved

COLUMNS = 20
TRAINING_ROWS, DEFAULT_ROWS = 200_000, 20_000

Model = KernelRegressor | KernelClassifier
WARM_CALLS, CALLS = 20, 1000


def fit_random_grids(n_rows: int, n_grids: int, n_jobs: int | None) -> KernelRegressor:
    print_progress(f"fitting {n_grids} grids to {n_rows:,} rows")
    X, y = made_up(n_rows, COLUMNS)
    model = KernelRegressor(
        RandomBinning(n_grids=n_grids),
        bandwidth=scalar_bandwidth(X),
        alpha=1e-5,
        scaling="standard",
        max_iter=20,
        random_state=0,
        n_jobs=n_jobs,
    )
    return model.fit(X, y)


def fit_default(data: Dataset, n_jobs: int | None) -> KernelClassifier:
    print_progress(f"a default fit to {data.name}")
    rows = slice(0, DEFAULT_ROWS)
    model = KernelClassifier(random_state=0, n_jobs=n_jobs)
    return model.fit(data.X_train[rows], data.y_train[rows])


def time_single_rows(label: str, model: Model, X: NDArray) -> Row:
    """Time single calls, each with a row that the model has not seen."""
    rows, n_calls = [X[i : i + 1].copy() for i in range(len(X))], len(X)
    for row in rows[:WARM_CALLS]:
        model.predict(row)
    seconds = np.empty(n_calls)
    for i, row in enumerate(rows):
        started = perf_counter()
        model.predict(row)
        seconds[i] = perf_counter() - started
    bins, *smooth = parts_of(model.features_)
    return {
        "model": label,
        "grids": len(bins.n_bins_),
        "smooth features": sum(part.numbers_per_row for part in smooth),
        "inputs": X.shape[1],
        "bins a grid": bins.kappa_bar_,
        "calls": n_calls,
        "median ms": 1e3 * float(np.median(seconds)),
        "p99 ms": 1e3 * float(np.percentile(seconds, 99)),
        "largest ms": 1e3 * float(seconds.max()),
    }


def time_batch(model: KernelRegressor, n_rows: int, args: argparse.Namespace) -> Row:
    X = made_up(n_rows, COLUMNS)[0]
    seconds = interleaved({"predict": lambda: model.predict(X)}, args.repeats)["predict"]
    return {
        "grids": model.features_.n_grids,
        "inputs": COLUMNS,
        "bins a grid": model.features_.kappa_bar_,
        "rows": n_rows,
        "seconds": seconds,
        "rows a second": n_rows / seconds,
    }


def main() -> None:
    args = parse(options(__doc__, repeats=9))
    report = Report(args)
    n_training, n_rows = (2000, 5000) if args.quick else (TRAINING_ROWS, 1_000_000)
    grids = (32, 8) if args.quick else (512, 64)
    model = fit_random_grids(n_training, grids[0], args.jobs)
    n_calls = 50 if args.quick else CALLS
    new = made_up(TRAINING_ROWS + n_calls, COLUMNS)[0][TRAINING_ROWS:]
    rows = [time_single_rows("random grids", model, new)]
    for data in load_sets(["ijcnn1"], args):
        new = np.asarray(data.X_test[:n_calls])
        rows.append(time_single_rows("default, ijcnn1", fit_default(data, args.jobs), new))
    report.add("One row at a time", rows)
    model = fit_random_grids(n_training, grids[1], args.jobs)
    report.add("A batch", [time_batch(model, n_rows, args)])
    report.close()


if __name__ == "__main__":
    main()
