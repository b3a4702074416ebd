"""Time to a relative objective gap of 1e-4 for the multinomial loss, and its test error.

``NewtonCG`` is compared with scikit-learn's ``LogisticRegression`` with lbfgs. Both minimise
``mean(loss) + alpha/2 |W|^2`` without an intercept, over the same matrix from zero; scikit-learn
gets CSR, and ``C = 1 / (alpha N)``. The gap is ``(F - F*) / F*`` with F* from a long run of ours.
Each solver's tolerance is divided by 3 until the gap is reached, and then increased to within 15 %
of the loosest sufficient one; that setting is timed, in turns. A fit that takes longer than
``--seconds`` counts as not having reached the gap.

The second table has test errors of the multinomial fit and of least squares, one class against the
rest, over the same matrix. Each has the alpha with the smallest error on a fifth of the training
rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import (
    Report,
    Row,
    binned_map,
    load_sets,
    parse,
    part_of,
    print_progress,
    scipy_csr,
)
from benchmarks.held_back import choose_alpha
from benchmarks.walks import (
    MAX_ITERATIONS,
    Contender,
    Goal,
    logistic_regression,
    newton_cg,
    race,
    race_options,
    relative_gap,
)
from gramless.base.threads import thread_count
from gramless.losses import Loss, Multinomial, Squared
from gramless.matrices.base import Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem
from harness.data_sets import Dataset

SETS = ("letter", "mnist")
ALPHAS = (1e-5, 1e-6)
CHOICES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
GRIDS = 256
GAP = 1e-4
LONG_TOLERANCE = 1e-6
SOLVE_TOLERANCE = 1e-3
MAX_SECONDS = 600.0


@dataclass(frozen=True)
class Binned:
    """A data set's matrices and labels; ``targets`` has a column of -1 and 1 for each class."""

    training: BinnedMatrix
    test: BinnedMatrix
    targets: Vector
    labels: NDArray[np.intp]
    test_labels: NDArray[np.intp]

    @classmethod
    def of(cls, data: Dataset, n_grids: int, n_jobs: int | None) -> Binned:
        feature_map = binned_map(data.X_train, n_grids, n_jobs)
        training = feature_map.fit_matrix(data.X_train)
        classes, labels = np.unique(data.y_train, return_inverse=True)
        targets = np.where(labels[:, None] == np.arange(len(classes)), 1.0, -1.0)
        test_labels = np.searchsorted(classes, data.y_test)
        return cls(training, feature_map.feature_matrix(data.X_test), targets, labels, test_labels)


def compare(name: str, binned: Binned, args: argparse.Namespace) -> Iterator[Row]:
    """Find each solver's tolerance, then time the solvers in turns."""
    csr = scipy_csr(binned.training)
    for alpha in ALPHAS:
        print_progress(f"{name}, alpha {alpha}")
        problem = Problem(binned.training, binned.targets, L2(alpha), Multinomial())
        best = problem.value(newton_cg(problem, args.jobs)(LONG_TOLERANCE))
        goal = Goal(GAP, relative_gap(problem.value, best), args.seconds)
        contenders = {
            "ours": Contender(newton_cg(problem, args.jobs), guarded=False),
            "lbfgs": Contender(logistic_regression(csr, binned.labels, alpha, "lbfgs"), first=1e-4),
        }
        _, rows = race(contenders, goal, args.repeats)
        for row in rows:
            yield {
                "data set": name,
                "rows": csr.shape[0],
                "columns": csr.shape[1],
                "classes": binned.targets.shape[1],
                "alpha": alpha,
                **row,
            }


def evaluate(name: str, binned: Binned, loss: Loss, args: argparse.Namespace) -> Row:
    """Select alpha on validation rows, fit all training rows, and compute the test error."""
    kind = NewtonCG if isinstance(loss, Multinomial) else ConjugateGradient
    solver = kind(tol=SOLVE_TOLERANCE, max_iter=MAX_ITERATIONS, n_jobs=args.jobs)

    def error_rate(responses: Vector, rows: NDArray[np.intp]) -> float:
        return float(np.mean(responses.argmax(axis=1) != binned.labels[rows]))

    alpha, validation_error = choose_alpha(
        solver, loss, binned.training, binned.targets, CHOICES, error_rate
    )
    started = perf_counter()
    fitted = solver.solve(Problem(binned.training, binned.targets, L2(alpha), loss))
    seconds = perf_counter() - started
    predicted = binned.test.matvec(fitted.weights).argmax(axis=1)
    return {
        "data set": name,
        "loss": loss.name,
        "alpha": alpha,
        "error held back": validation_error,
        "test error": float(np.mean(predicted != binned.test_labels)),
        "fit s": seconds,
    }


def main() -> None:
    parser = race_options(__doc__, 3, SETS, MAX_SECONDS)
    parser.add_argument("--rows", type=int, help="training rows at most, drawn at random")
    args = parse(parser)
    report = Report(args)
    times: list[Row] = []
    errors: list[Row] = []
    for data in load_sets(args.only, args):
        part = part_of(data, args.rows or len(data.y_train), len(data.y_test))
        binned = Binned.of(part, 16 if args.quick else GRIDS, args.jobs)
        errors += [evaluate(data.name, binned, loss, args) for loss in (Multinomial(), Squared())]
        times += compare(data.name, binned, args)
    threads = thread_count(args.jobs)
    report.add(f"Time to a relative gap of {GAP:g}, threads of ours: {threads}", times)
    report.add("Test errors", errors)
    report.close()


if __name__ == "__main__":
    main()
