"""Fits within a time budget, for several numbers of rows, inputs and classes.

Generated tables, and optionally known ones, are fitted once each, after one warm fit of each kind.
The tables show wall time and processor time, both over the budget. Processor time over the number
of processors is a lower bound of the time on an otherwise idle machine.
"""

from __future__ import annotations

import itertools
from time import perf_counter, process_time
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Report, Row, load_sets, options, parse, print_progress
from gramless import KernelClassifier, KernelRegressor, warmup
from gramless.base.threads import available_cpus
from gramless.estimators.base import KernelMachine
from gramless.preprocessing.rows import Rows

# 0 stands for regression.
CLASSES = (0, 2, 10, 65, 100, 200)
ROWS, INPUTS = (2000, 20_000, 200_000), (5, 40)
BUDGET, QUICK_BUDGET = 2.0, 0.3
MISLABELLED = 0.1


def table(n_rows: int, n_inputs: int, n_classes: int) -> tuple[NDArray, NDArray]:
    """Return rows and noisy numbers, their signs, or the index of the nearest centre."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(n_rows, n_inputs))
    z = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 0.3 * rng.normal(size=n_rows)
    if n_classes == 0:
        return X, z
    if n_classes == 2:
        return X, z > 0
    centres = 1.5 * rng.normal(size=(n_classes, min(n_inputs, 5)))
    distances = (centres**2).sum(axis=1) - 2.0 * X[:, :5] @ centres.T
    y = distances.argmin(axis=1)
    wrong = rng.random(n_rows) < MISLABELLED
    y[wrong] = rng.integers(0, n_classes, wrong.sum())
    return X, y


def fit(X: Rows, y: NDArray, budget: float, n_jobs: int | None, **labels: Any) -> Row:
    """Fit a regressor if targets are floats, else a classifier; return the time of the fit."""
    is_class = y.dtype.kind != "f"
    kind: type[KernelMachine] = KernelClassifier if is_class else KernelRegressor
    started, used = perf_counter(), process_time()
    model = kind(time_budget=budget, random_state=0, n_jobs=n_jobs).fit(X, y)
    wall, used = perf_counter() - started, process_time() - used
    return {
        **labels,
        "classes": len(np.unique(y)) if is_class else "numbers",
        "rows": X.shape[0],
        "inputs": X.shape[1],
        "s": wall,
        "processor s": used,
        "wall / budget": wall / budget,
        "processor / budget": used / (n_jobs or available_cpus()) / budget,
        "cut short": "; ".join(line.removeprefix("time: ") for line in model.limits_),
    }


def print_row(row: Row) -> Row:
    """Print a row as progress, because the table may take long to complete, and return it."""
    print_progress(", ".join(f"{name} {value}" for name, value in row.items()))
    return row


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--budget", type=float, default=BUDGET, help=f"seconds, default {BUDGET}")
    parser.add_argument("--classes", nargs="*", type=int, default=CLASSES, help="0 for numbers")
    parser.add_argument("--sets", nargs="+", default=(), help="known tables, in addition")
    args = parse(parser)
    report = Report(args)
    budget = QUICK_BUDGET if args.quick else args.budget
    sizes = ((1000,), (4,)) if args.quick else (ROWS, INPUTS)
    classes = args.classes[:3] if args.quick else args.classes
    warmup(n_jobs=args.jobs)
    rows = [
        print_row(fit(*table(n_rows, n_inputs, n_classes), budget, args.jobs))
        for n_classes, n_rows, n_inputs in itertools.product(classes, *sizes)
    ]
    report.add(f"Fits with time_budget={budget}", rows)
    for data in load_sets(args.sets, args):
        y = data.y_train.astype(float if data.task == "regression" else data.y_train.dtype)
        rows.append(print_row(fit(data.X_train, y, budget, args.jobs, table=data.name)))
    if args.sets:
        report.add("The same of known tables", [row for row in rows if "table" in row])
    ratios = ("wall / budget", "processor / budget")
    report.add("The worst", [{name: max(row[name] for row in rows) for name in ratios}])
    report.close()


if __name__ == "__main__":
    main()
