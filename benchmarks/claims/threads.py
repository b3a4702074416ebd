"""Two threads against one: RB16's Algorithm 2, and descent over grids.

``mean(loss) + alpha |w|_1`` with the squared and the squared hinge loss, over random bins of tables
of more and more rows. The threads of Algorithm 2 read and change one array of responses, 8 bytes a
row: what one has just changed, the other must fetch from its cache, unless the array is larger
than the caches. It takes a fixed number of epochs from zero; its columns are stored before.
Descent over grids runs from zero to its own stop, the listing of the bins included.
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
NONZEROS, MAX_GRIDS = 16_000_000, 64
"""Longer tables have fewer grids."""
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


def threaded(problem: Problem, n_threads: int) -> Problem:
    """Return the problem with a matrix whose products take so many threads."""
    matrix = problem.matrix
    assert isinstance(matrix, BinnedMatrix)
    own = BinnedMatrix(matrix.codes, matrix.offsets, has_unseen=False, n_jobs=n_threads)
    return replace(problem, matrix=own)


def random_descent(problem: Problem, stored: StoredColumns, n_threads: int) -> None:
    output = SharedSteps(threaded(problem, n_threads), stored, n_threads, 0)
    for _ in range(EPOCHS):
        output.epoch()


def grid_descent(problem: Problem, n_threads: int) -> None:
    GridDescent(tol=TOL, n_jobs=n_threads).solve(threaded(problem, n_threads))


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
