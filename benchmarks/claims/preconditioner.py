"""Conjugate gradients on Gaussian Fourier features: the iterations that preconditioners save.

Ridge regression is solved from zero weights to a relative gap of 1e-4, ``(F - F*) / F*`` with F*
from the direct solution, which is timed too (Gram matrix and factorisation). A run that records the
objective determines the number of iterations; another run of that length is timed, including its
preconditioner. Features are stored. The bandwidth is half of the median distance between rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import (
    Report,
    Row,
    load_sets,
    made_up,
    numeric_targets,
    options,
    parse,
    part_of,
    print_progress,
    rows_to_time,
)
from gramless.base.threads import thread_count
from gramless.features.fourier import RandomFourier
from gramless.matrices.dense import DenseMatrix
from gramless.penalties import L2
from gramless.preprocessing.median import median_distance
from gramless.preprocessing.scaling import Scaler
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.direct import Cholesky
from gramless.solvers.objective import Problem, Solution
from gramless.solvers.preconditioners import Identity, Preconditioner, SampledRows
from harness.data_sets import Dataset
from harness.timing import interleaved
from studies.baselines.preconditioners import Jacobi, RandomisedNystrom

SETS = ("ijcnn1", "nyc_taxi_green_349k")
MADE_UP = "made up"
SHARE = 0.5
ALPHAS = (1e-4, 1e-6, 1e-8)
MAX_ROWS, QUICK_ROWS = 50_000, 600
GAP = 1e-4
FIRST_ITERATIONS, MAX_ITERATIONS = 50, 3200

PRECONDITIONERS: dict[str, Preconditioner] = {
    "plain": Identity(),
    "jacobi": Jacobi(),
    "sampled rows": SampledRows(),
    "randomised Nyström": RandomisedNystrom(),
}


def data_sets(args: argparse.Namespace) -> Iterator[Dataset]:
    """Yield the data sets and a generated one."""
    for known in load_sets(args.only, args):
        yield part_of(known, args.rows, 0)
    X, y = made_up(args.rows, 5)
    yield Dataset(X, y, X[:0], y[:0], "regression", MADE_UP)


def problems(data: Dataset, args: argparse.Namespace) -> Iterator[Problem]:
    """Yield problems with the same stored features."""
    X, y = rows_to_time(data) if data.name != MADE_UP else (data.X_train, data.y_train)
    rows = Scaler.fit("standard", X).rows(np.asarray(X, np.float32))
    fourier = RandomFourier(
        bandwidth=SHARE * median_distance(rows, 0, None, "euclidean"),
        n_components=args.columns,
        random_state=0,
        n_jobs=args.jobs,
    )
    matrix = DenseMatrix(fourier.fit_transform(rows), n_jobs=args.jobs)
    for alpha in ALPHAS:
        yield Problem(matrix, numeric_targets(y), L2(alpha))


def iterations(preconditioner: Preconditioner, problem: Problem, best: float) -> int:
    """Return the number of iterations to the gap, or the largest number allowed."""
    n_iter = FIRST_ITERATIONS
    while True:
        history = solve(preconditioner, n_iter, problem, None).history
        near = [k for k, entry in enumerate(history) if entry["objective"] - best <= GAP * best]
        if near or n_iter == MAX_ITERATIONS:
            return near[0] if near else n_iter
        n_iter = min(4 * n_iter, MAX_ITERATIONS)


def solve(
    preconditioner: Preconditioner, n_iter: int, problem: Problem, n_jobs: int | None
) -> Solution:
    return ConjugateGradient(preconditioner, tol=0.0, max_iter=n_iter, n_jobs=n_jobs).solve(problem)


def compare(name: str, problem: Problem, args: argparse.Namespace) -> Iterator[Row]:
    """Find each preconditioner's iterations, then time them and the direct solution in turns."""
    direct = Cholesky(n_jobs=args.jobs)
    best = problem.value(direct.solve(problem).weights)
    counts = {
        label: iterations(preconditioner, problem, best)
        for label, preconditioner in PRECONDITIONERS.items()
    }
    runs: dict[str, Callable[[], Solution]] = {"direct": partial(direct.solve, problem)}
    for label, preconditioner in PRECONDITIONERS.items():
        runs[label] = partial(solve, preconditioner, counts[label], problem, args.jobs)
    gaps = {label: (problem.value(run().weights) - best) / best for label, run in runs.items()}
    seconds = interleaved(runs, args.repeats, warm_up=False)
    for label in runs:
        count = counts.get(label)
        yield {
            "data set": name,
            "rows": problem.matrix.shape[0],
            "columns": problem.matrix.shape[1],
            "alpha": problem.penalty.l2,
            "solver": label,
            "iterations": count,
            "of plain": None if count is None else counts["plain"] / max(count, 1),
            "gap": gaps[label],
            "seconds": seconds[label],
        }


def main() -> None:
    parser = options(__doc__, repeats=3, sets=SETS)
    parser.add_argument("--rows", type=int, help=f"at most; default {MAX_ROWS}")
    parser.add_argument("--columns", type=int, help="default 2048")
    args = parse(parser)
    args.rows = args.rows or (QUICK_ROWS if args.quick else MAX_ROWS)
    args.columns = args.columns or (64 if args.quick else 2048)
    report = Report(args)
    rows: list[Row] = []
    for data in data_sets(args):
        for problem in problems(data, args):
            print_progress(f"{data.name}, alpha {problem.penalty.l2}")
            rows.extend(compare(data.name, problem, args))
    threads = thread_count(args.jobs)
    report.add(f"Conjugate gradients to a relative gap of {GAP:g}, threads: {threads}", rows)
    report.close()


if __name__ == "__main__":
    main()
