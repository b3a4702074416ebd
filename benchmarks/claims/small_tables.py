"""Seconds of default fits of tables below 2,000 rows, after a fit that compiles all loops.

The tables are scikit-learn's, and generated ones on which no rule was chosen: regression, two
classes, and six to ten classes. Each is fitted with several seeds. The median and the longest time
are shown, and the processor time of the median.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter, process_time

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from benchmarks.common import Report, Row, options, parse, print_progress
from gramless import KernelClassifier, KernelRegressor
from gramless.datasets.generators import friedman1
from harness.synthetic import table_of_classes

SCIKIT_LEARN = ("iris", "wine", "breast_cancer", "digits", "diabetes", "linnerud")
# The number (seed) of each table, its rows and its classes.
OF_CLASSES = (
    (301, 1900, 10),
    (302, 1900, 6),
    (306, 1900, 6),
    (307, 1500, 8),
    (309, 1900, 10),
    (316, 1900, 10),
)
Table = tuple[str, NDArray[np.float64], NDArray[np.generic], bool]


def tables() -> Iterator[Table]:
    """Yield names, rows, targets, and whether the targets are classes."""
    for name in SCIKIT_LEARN:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield name, X, y, name not in ("diabetes", "linnerud")
    X, y = friedman1(1900)
    yield "friedman1", X, y, False
    for number, n_rows, n_classes in OF_CLASSES:
        made = table_of_classes(number, n_rows, n_classes)
        yield f"{n_classes} classes, {number}", made.X_train, made.y_train, True
        yield f"2 classes, {number}", made.X_train, made.y_train > n_classes / 2, True


def time_fits(table: Table, repeats: int, jobs: int | None) -> Row:
    name, X, y, is_classification = table
    times = []
    for seed in range(repeats):
        kind = KernelClassifier if is_classification else KernelRegressor
        wall, processor = perf_counter(), process_time()
        kind(random_state=seed, n_jobs=jobs).fit(X, y)
        times.append((perf_counter() - wall, process_time() - processor))
    times.sort()
    median = times[len(times) // 2]
    print_progress(f"{name}: {median[0]:.2f} s")
    return {
        "table": name,
        "rows": len(X),
        "inputs": X.shape[1],
        "median s": median[0],
        "longest s": times[-1][0],
        "processor s": median[1],
    }


def main() -> None:
    args = parse(options(__doc__, repeats=5))
    report = Report(args)
    all_tables = list(tables())
    for table in all_tables[:1] if args.quick else all_tables:
        time_fits(table, 1, args.jobs)
    report.add("default fits", [time_fits(table, args.repeats, args.jobs) for table in all_tables])
    report.close()


if __name__ == "__main__":
    main()
