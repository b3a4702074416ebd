"""Two threads compared with one: RB16's Algorithm 2, and descent over grids.

The objective is ``mean(loss) + alpha |w|_1`` with the squared or the squared hinge loss, over
random bins of tables of increasing length. The threads of Algorithm 2 read and change one array of
responses, 8 bytes per row: unless the array is larger than the caches, each thread must fetch the
other's changes from its cache. Algorithm 2 runs a fixed number of epochs from zero, with its
columns stored beforehand. Descent over grids runs from zero until it converges, including the
listing of the bins.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import _repository  # noqa: F401

from benchmarks.common import (
    Report,
    Row,
    binned_map,
    load_sets,
    made_up,
    numeric_targets,
    options,
    parse,
    part_of,
    print_progress,
)
from gramless.losses import Loss, Squared, SquaredHinge
from gramless.matrices.base import Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L1
from gramless.preprocessing.rows import Rows
from gramless.solvers.grid_descent import GridDescent
from gramless.solvers.objective import Problem
from gramless.solvers.random_descent import SharedSteps, StoredColumns
from harness.timing import interleaved

SETS = ("ijcnn1", "covtype_1vs2_169k")
LOSSES: tuple[Loss, ...] = (Squared(), SquaredHinge())
FEW_ROWS, MADE_UP_ROWS, MADE_UP_COLUMNS = 10_000, (300_000, 1_000_000), 20
# Longer tables have fewer grids, so that the number of non-zeros is limited.
NONZEROS, MAX_GRIDS = 16_000_000, 64
ALPHA, TOL, EPOCHS = 1e-4, 1e-2, 4
CLAIM = 1.7


def tables(args: argparse.Namespace) -> Iterator[tuple[str, Rows, Vector]]:
    """Yield names, rows and targets, short tables first."""
    for data in load_sets(args.only, args):
        for part in (part_of(data, FEW_ROWS, 1), data):
            yield data.name, part.X_train, numeric_targets(part.y_train)
    for n_rows in [1000] if args.quick else MADE_UP_ROWS:
        X, y = made_up(n_rows, MADE_UP_COLUMNS)
        middle = sorted(y)[n_rows // 2]
        yield "made up", X, numeric_targets(y > middle)


def binned(X: Rows, args: argparse.Namespace) -> BinnedMatrix:
    n_grids = min(MAX_GRIDS, NONZEROS // X.shape[0])
    return binned_map(X, n_grids, args.jobs).fit_matrix(X)


def with_threads(problem: Problem, n_threads: int) -> Problem:
    """Return the problem with a matrix whose products use this number of threads."""
    matrix = problem.matrix
    assert isinstance(matrix, BinnedMatrix)
    threaded_matrix = BinnedMatrix(matrix.codes, matrix.offsets, has_unseen=False, n_jobs=n_threads)
    return replace(problem, matrix=threaded_matrix)


def random_descent(problem: Problem, stored: StoredColumns, n_threads: int) -> None:
    output = SharedSteps(with_threads(problem, n_threads), stored, n_threads, 0)
    for _ in range(EPOCHS):
        output.epoch()


def grid_descent(problem: Problem, n_threads: int) -> None:
    GridDescent(tol=TOL, n_jobs=n_threads).solve(with_threads(problem, n_threads))


def compare(name: str, problem: Problem, args: argparse.Namespace) -> Row:
    stored = StoredColumns.of(problem)
    runs = {
        f"{algorithm}, {n}": partial(run, n_threads=n)
        for algorithm, run in (
            ("Algorithm 2", partial(random_descent, problem, stored)),
            ("grids", partial(grid_descent, problem)),
        )
        for n in (1, 2)
    }
    times = interleaved(runs, args.repeats)
    row: Row = {
        "table": name,
        "rows": problem.matrix.shape[0],
        "columns": problem.matrix.shape[1],
        "loss": problem.loss.name,
    }
    for algorithm in ("Algorithm 2", "grids"):
        one, two = (times[f"{algorithm}, {n}"] for n in (1, 2))
        row |= {
            f"{algorithm}, 1 thread s": one,
            f"{algorithm}, 2 threads s": two,
            f"{algorithm}, speed-up": one / two,
        }
    return row


def main() -> None:
    args = parse(options(__doc__, repeats=7, sets=SETS))
    report, rows = Report(args), []
    for name, X, targets in tables(args):
        matrix = binned(X, args)
        for loss in LOSSES:
            print_progress(f"{name}, {X.shape[0]} rows, {loss.name}")
            rows.append(compare(name, Problem(matrix, targets, L1(ALPHA), loss), args))
    report.add(f"Two threads against one; the claim: {CLAIM} times", rows)
    report.close()


if __name__ == "__main__":
    main()
