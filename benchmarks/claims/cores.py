"""A second thread in default fits, compared with a second process.

Two cores rarely do twice the work of one: they share caches and memory, and processors of virtual
machines can be threads of one core. The limit of a fit with two threads is therefore the work that
two processes with one thread each do at the same time, over that of one process. Rows are
generated, and seconds are medians.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification

from benchmarks.common import Report, Row, options, parse, print_progress
from gramless import KernelClassifier, KernelRegressor
from gramless.datasets import friedman1

# Number of classes (0 for numbers) and of rows.
TABLES = {"numbers": (0, 17_500), "two classes": (2, 12_000), "five classes": (5, 12_000)}
QUICK_ROWS, WARM_UP_ROWS = 300, 600


def rows_of(n_classes: int, n_rows: int) -> tuple[NDArray[Any], NDArray[Any]]:
    if n_classes == 0:
        return friedman1(n_rows, seed=0)
    X, y = make_classification(
        n_rows, 12, n_informative=8, n_classes=n_classes, n_clusters_per_class=3, random_state=0
    )
    return np.asarray(X), np.asarray(y)


def seconds_of_fit(n_classes: int, n_rows: int, n_jobs: int) -> float:
    estimator = KernelRegressor if n_classes == 0 else KernelClassifier
    model = estimator(random_state=0, n_jobs=n_jobs)
    X, y = rows_of(n_classes, n_rows)
    started = perf_counter()
    model.fit(X, y)
    return perf_counter() - started


def warm_up() -> None:
    for n_classes, _ in TABLES.values():
        seconds_of_fit(n_classes, WARM_UP_ROWS, 2)


def compare(pool: ProcessPoolExecutor, n_classes: int, n_rows: int, repeats: int) -> Row:
    """Return the seconds of one thread, two threads, and one thread in each of two processes."""
    one, two, both = [], [], []
    for _ in range(repeats):
        one.append(pool.submit(seconds_of_fit, n_classes, n_rows, 1).result())
        two.append(pool.submit(seconds_of_fit, n_classes, n_rows, 2).result())
        fits = [pool.submit(seconds_of_fit, n_classes, n_rows, 1) for _ in range(2)]
        both.append(max(fit.result() for fit in fits))
    speed_up = median(one) / median(two)
    limit = 2.0 * median(one) / median(both)
    return {
        "rows": n_rows,
        "1 thread s": median(one),
        "2 threads s": median(two),
        "2 processes s": median(both),
        "speed-up": speed_up,
        "limit": limit,
        "share of the limit": speed_up / limit,
    }


def main() -> None:
    args = parse(options(__doc__, repeats=7))
    report, rows = Report(args), []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=warm_up) as pool:
        for name, (n_classes, n_rows) in TABLES.items():
            print_progress(name)
            n_rows = QUICK_ROWS if args.quick else n_rows
            rows.append({"table": name} | compare(pool, n_classes, n_rows, args.repeats))
    report.add("A second thread, and two processes at the same time", rows)
    report.close()


if __name__ == "__main__":
    main()
