"""Time to a relative objective gap of 1e-4 for smooth losses, compared with scikit-learn.

The logistic loss is compared with ``LogisticRegression`` with the solvers liblinear, lbfgs and
newton-cg, the squared hinge loss with ``LinearSVC``. All minimise ``mean(loss) + alpha/2 |w|^2``
without an intercept, over the same matrix from zero. scikit-learn gets CSR, and ``C = 1 / (alpha
N)``, or half of that if its loss has no factor 1/2. The gap is ``(F - F*) / F*`` with F* from a
long run of ours. Each solver's tolerance is divided by 3 until the gap is reached, and then
increased to within 15 % of the loosest sufficient one; that setting is timed, in turns. A fit that
takes longer than ``--seconds`` counts as not having reached the gap.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import _repository  # noqa: F401
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from benchmarks.common import (
    Report,
    Row,
    binned_map,
    load_sets,
    numeric_targets,
    parse,
    print_progress,
    rows_to_time,
    scipy_csr,
)
from benchmarks.walks import (
    MAX_ITERATIONS,
    Contender,
    Fit,
    Goal,
    logistic_regression,
    newton_cg,
    race,
    race_options,
    relative_gap,
)
from gramless.base.threads import thread_count
from gramless.losses import Logistic, SquaredHinge
from gramless.matrices.base import Vector
from gramless.penalties import L2
from gramless.solvers.objective import Problem
from harness.data_sets import Dataset

SETS = ("ijcnn1", "cod-rna", "covtype_1vs2_169k")
ALPHAS = (1e-5, 1e-6)
GRIDS = 256
GAP = 1e-4
FIRST_TOLERANCE, LONG_TOLERANCE = 1e-1, 1e-7
MAX_SECONDS = 120.0


def hinge_peer(problem: Problem, csr: sp.csr_array) -> Fit:
    def fit(tolerance: float) -> Vector:
        model = LinearSVC(
            loss="squared_hinge",
            dual=False,
            C=0.5 / (problem.penalty.l2 * csr.shape[0]),
            fit_intercept=False,
            tol=tolerance,
            max_iter=MAX_ITERATIONS,
        )
        return model.fit(csr, problem.targets).coef_.ravel()

    return fit


def contenders(problem: Problem, csr: sp.csr_array, n_jobs: int | None) -> dict[str, Contender]:
    """Return the solvers of a problem, ours first."""
    solvers = {"ours": Contender(newton_cg(problem, n_jobs), FIRST_TOLERANCE, guarded=False)}
    if isinstance(problem.loss, SquaredHinge):
        return {**solvers, "LinearSVC": Contender(hinge_peer(problem, csr), FIRST_TOLERANCE)}
    for name in ("liblinear", "lbfgs", "newton-cg"):
        peer = logistic_regression(csr, problem.targets, problem.penalty.l2, name)
        solvers[name] = Contender(peer, FIRST_TOLERANCE)
    return solvers


def compare(
    name: str, problem: Problem, csr: sp.csr_array, args: argparse.Namespace
) -> Iterator[Row]:
    """Find each solver's tolerance, then time the solvers in turns."""
    best = problem.value(newton_cg(problem, args.jobs)(LONG_TOLERANCE))
    goal = Goal(GAP, relative_gap(problem.value, best), args.seconds)
    _, rows = race(contenders(problem, csr, args.jobs), goal, args.repeats)
    for row in rows:
        yield {
            "data set": name,
            "rows": problem.matrix.shape[0],
            "columns": problem.matrix.shape[1],
            "loss": problem.loss.name,
            "alpha": problem.penalty.l2,
            **row,
        }


def problems(data: Dataset, args: argparse.Namespace) -> Iterator[Problem]:
    X, y = rows_to_time(data)
    matrix = binned_map(X, 16 if args.quick else GRIDS, args.jobs).fit_matrix(X)
    for loss in (Logistic(), SquaredHinge()):
        for alpha in ALPHAS:
            yield Problem(matrix, numeric_targets(y), L2(alpha), loss)


def main() -> None:
    args = parse(race_options(__doc__, 5, SETS, MAX_SECONDS))
    report = Report(args)
    rows: list[Row] = []
    for data in load_sets(args.only, args):
        csr: sp.csr_array | None = None
        for problem in problems(data, args):
            print_progress(f"{data.name}, {problem.loss.name}, alpha {problem.penalty.l2}")
            if csr is None:
                csr = scipy_csr(problem.matrix)
            rows.extend(compare(data.name, problem, csr, args))
    threads = thread_count(args.jobs)
    report.add(f"Time to a relative gap of {GAP:g}, threads of ours: {threads}", rows)
    report.close()


if __name__ == "__main__":
    main()
