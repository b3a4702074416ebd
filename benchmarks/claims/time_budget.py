"""Fits within a budget of seconds, whatever the rows, inputs and classes.

Made-up tables, once each, after one warm fit of each kind. Wall time and processor time, both over
the budget: on a machine that others use too, processor time over the processors is what a quiet one
would take at least.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import Report, Row, options, parse, say
from gramless import KernelClassifier, KernelRegressor, warmup
from gramless.base.threads import available_cpus
from gramless.estimators.base import KernelMachine

CLASSES = (0, 2, 10, 65, 100, 200)
"""0 stands for regression."""
ROWS, INPUTS = (2000, 20_000, 200_000), (5, 40)
BUDGET, QUICK_BUDGET = 2.0, 0.3
MISLABELLED = 0.1


def table(n_rows: int, n_inputs: int, n_classes: int) -> tuple[NDArray, NDArray]:
    """Return rows with noisy numbers, noisy signs of them, or the nearest of some centres."""
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


def fit(n_rows: int, n_inputs: int, n_classes: int, budget: float, n_jobs: int | None) -> Row:
    X, y = table(n_rows, n_inputs, n_classes)
    kind: type[KernelMachine] = KernelClassifier if n_classes else KernelRegressor
    begun, used = perf_counter(), process_time()
    model = kind(time_budget=budget, random_state=0, n_jobs=n_jobs).fit(X, y)
    wall, used = perf_counter() - begun, process_time() - used
    return {
        "classes": n_classes or "numbers",
        "rows": n_rows,
        "inputs": n_inputs,
        "s": wall,
        "processor s": used,
        "wall / budget": wall / budget,
        "processor / budget": used / (n_jobs or available_cpus()) / budget,
        "cut short": "; ".join(line.removeprefix("time: ") for line in model.limits_),
    }


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--budget", type=float, default=BUDGET, help=f"seconds, default {BUDGET}")
    chosen = parse(parser)
    report = Report(chosen)
    budget = QUICK_BUDGET if chosen.quick else chosen.budget
    sizes = ((1000,), (4,)) if chosen.quick else (ROWS, INPUTS)
    warmup(n_jobs=chosen.jobs)
    rows = []
    for case in itertools.product(CLASSES[:3] if chosen.quick else CLASSES, *sizes):
        n_classes, n_rows, n_inputs = case
        rows.append(fit(n_rows, n_inputs, n_classes, budget, chosen.jobs))
        say(", ".join(f"{name} {value}" for name, value in rows[-1].items()))
    report.add(f"Fits with time_budget={budget}", rows)
    ratios = ("wall / budget", "processor / budget")
    report.add("The worst", [{name: max(row[name] for row in rows) for name in ratios}])
    report.close()


if __name__ == "__main__":
    main()
