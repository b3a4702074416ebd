"""Ridge regression on Fourier features that do not fit into memory.

Features within a budget of 2 GB are stored; the others are recomputed in every pass. If there is
enough memory, the same fit is repeated with all features stored. The peak memory is counted from
before the first fit.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import (
    Report,
    Row,
    load_sets,
    numeric_targets,
    options,
    parse,
    print_progress,
    rows_to_time,
)
from gramless import RandomFourier
from gramless.matrices.dense import ComputedMatrix
from gramless.penalties import L2
from gramless.solvers.choose import choose_solver
from gramless.solvers.objective import Problem
from harness.memory import peak_memory

SET = "nyc_taxi_green_349k"
COLUMNS, QUICK_COLUMNS = 8192, 64
BUDGET, ALL = 2 << 30, 1 << 60
ALPHA = 1e-6


def fit(X: np.ndarray, y: np.ndarray, budget: int, args: argparse.Namespace) -> Row:
    n_columns = QUICK_COLUMNS if args.quick else COLUMNS
    fourier = RandomFourier(n_components=n_columns, random_state=0, n_jobs=args.jobs).fit(X)
    started = perf_counter()
    Z = ComputedMatrix(X, fourier.compute, n_columns, budget=budget, n_jobs=args.jobs)
    solver, reason = choose_solver("auto", tol=1e-2, max_iter=100, n_jobs=args.jobs, matrix=Z)
    solution = solver.solve(Problem(Z, y, L2(ALPHA)))
    seconds = perf_counter() - started
    return {
        "budget": "2 GB" if budget == BUDGET else "none",
        "kept": Z.stored,
        "solver": reason.partition(":")[0],
        "iterations": solution.n_iter,
        "objective": solution.history[-1]["objective"],
        "s": seconds,
    }


def main() -> None:
    args = parse(options(__doc__, repeats=1))
    report = Report(args)
    for data in load_sets([SET], args):
        X, y = rows_to_time(data)
        X = np.asarray((X - X.mean(axis=0)) / X.std(axis=0), np.float32)
        y = numeric_targets(y)
        rows, before = [], peak_memory()
        for budget in (BUDGET, ALL):
            print_progress(f"{data.name}: budget {budget:,}")
            row = fit(X, y, budget, args)
            rows.append({**row, "peak MB": (peak_memory() - before) / 1e6})
        report.add(f"{data.name}, {X.shape[0]:,} x {X.shape[1]}, ridge on Fourier features", rows)
    report.close()


if __name__ == "__main__":
    main()
