"""Seconds of default fits of tables below 2,000 rows, after a first fit that compiled all loops.

scikit-learn's tables, and made-up ones that no rule was chosen on: numbers, two classes and six to
ten. Each is fitted with several seeds; the median and the longest are shown, and the processor time
of the median.
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
OF_CLASSES = (
    (301, 1900, 10),
    (302, 1900, 6),
    (306, 1900, 6),
    (307, 1500, 8),
    (309, 1900, 10),
    (316, 1900, 10),
)
"""Numbers of tables, with their rows and classes."""
Table = tuple[str, NDArray[np.float64], NDArray[np.generic], bool]


def tables() -> Iterator[Table]:
    """Yield names, rows, targets, and whether these are classes."""
    for name in SCIKIT_LEARN:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield name, X, y, name not in ("diabetes", "linnerud")
    X, y = friedman1(1900)
    yield "friedman1", X, y, False
    for number, n_rows, n_classes in OF_CLASSES:
        made = table_of_classes(number, n_rows, n_classes)
        yield f"{n_classes} classes, {number}", made.X_train, made.y_train, True
        yield f"2 classes, {number}", made.X_train, made.y_train > n_classes / 2, True


def timed(table: Table, repeats: int, jobs: int | None) -> Row:
    name, X, y, of_classes = table
    found = []
    for seed in range(repeats):
        kind = KernelClassifier if of_classes else KernelRegressor
        wall, processor = perf_counter(), process_time()
        kind(random_state=seed, n_jobs=jobs).fit(X, y)
        found.append((perf_counter() - wall, process_time() - processor))
    found.sort()
    median = found[len(found) // 2]
    print_progress(f"{name}: {median[0]:.2f} s")
    return {
        "table": name,
        "rows": len(X),
        "inputs": X.shape[1],
        "median s": median[0],
        "longest s": found[-1][0],
        "processor s": median[1],
    }


def main() -> None:
    args = parse(options(__doc__, repeats=5))
    report = Report(args)
    every = list(tables())
    for table in every[:1] if args.quick else every:
        timed(table, 1, args.jobs)
    report.add("default fits", [timed(own, args.repeats, args.jobs) for own in every])
    report.close()


if __name__ == "__main__":
    main()
