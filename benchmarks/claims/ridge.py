"""Time of ridge regression to a relative objective gap of 1e-4, compared with SciPy's CG.

Both minimise ``|Z w - y|^2 / (2 N) + alpha/2 |w|^2`` over the same matrix from zero. SciPy gets the
normal equations as a CSR operator, with the faster form of the transpose, without a preconditioner
and with the exact diagonal. The gap is ``(F - F*) / F*`` with F* from a long run. A run that
records the objective determines the number of iterations; another run of that length is timed.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import _repository  # noqa: F401
import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from benchmarks.common import (
    Report,
    Row,
    binned_map,
    load_sets,
    numeric_targets,
    options,
    parse,
    print_progress,
    rows_to_time,
    scipy_csr,
)
from gramless.base.threads import thread_count
from gramless.matrices.base import Vector
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.objective import Problem
from harness.data_sets import Dataset
from harness.timing import interleaved

SETS = ("ijcnn1", "cod-rna", "covtype_1vs2_169k")
ALPHAS = (1e-5, 1e-6)
GRIDS = 256
GAP = 1e-4
MAX_ITERATIONS = 5000


class _Reached(Exception):
    """Raised when the gap is reached, because SciPy's solver has no other way to stop."""


@dataclass(frozen=True)
class Ours:
    """Our conjugate gradients, preconditioned with the exact diagonal."""

    problem: Problem
    n_jobs: int | None

    def solve(self, n_iter: int) -> Vector:
        solver = ConjugateGradient(tol=0.0, max_iter=n_iter, n_jobs=self.n_jobs)
        return solver.solve(self.problem).weights

    def iterations(self, gap: Callable[[Vector], float]) -> int:
        def reached(iteration: int, weights: Vector) -> bool:
            return gap(weights) <= GAP

        solver = ConjugateGradient(tol=0.0, max_iter=MAX_ITERATIONS, n_jobs=self.n_jobs)
        return solver.solve(self.problem, callback=reached).n_iter


class SciPyCG:
    """``scipy.sparse.linalg.cg`` on the normal equations."""

    def __init__(self, problem: Problem, preconditioned: bool) -> None:
        self.problem, self.preconditioned = problem, preconditioned
        self.csr = scipy_csr(problem.matrix)
        n_rows = self.csr.shape[0]
        forms = {"csr.T": self.csr.T, "stored": self.csr.T.tocsr()}
        ones = np.ones(n_rows)
        runs = {name: partial(form.__matmul__, ones) for name, form in forms.items()}
        seconds = interleaved(runs, 3)
        self.transpose = forms[min(seconds, key=lambda name: seconds[name])]

    def solve(self, n_iter: int, callback: Callable[[Vector], None] | None = None) -> Vector:
        """Solve from zero; computing the right-hand side and the diagonal is part of the time."""
        csr, transpose, alpha = self.csr, self.transpose, self.problem.penalty.alpha
        n_rows, n_columns = csr.shape
        hessian = LinearOperator(
            (n_columns, n_columns),
            matvec=lambda w: transpose @ (csr @ w) / n_rows + alpha * w,
            dtype=np.float64,
        )
        inverse = None
        if self.preconditioned:
            # All values of the matrix are equal, so that its squares need no second matrix.
            scale = self.problem.matrix.scale
            diagonal = transpose @ np.full(n_rows, scale / n_rows) + alpha
            inverse = LinearOperator(
                (n_columns, n_columns), matvec=lambda v: v / diagonal, dtype=np.float64
            )
        rhs = transpose @ (self.problem.targets / n_rows)
        weights, _ = cg(
            hessian, rhs, rtol=0.0, atol=0.0, maxiter=n_iter, M=inverse, callback=callback
        )
        return weights

    def iterations(self, gap: Callable[[Vector], float]) -> int:
        count = 0

        def watch(weights: Vector) -> None:
            nonlocal count
            count += 1
            if gap(weights) <= GAP:
                raise _Reached

        with contextlib.suppress(_Reached):
            self.solve(MAX_ITERATIONS, watch)
        return count


def compare(name: str, problem: Problem, args: argparse.Namespace) -> Iterator[Row]:
    """Find each solver's number of iterations, then time the solvers in turns."""
    long_run = ConjugateGradient(tol=1e-9, max_iter=MAX_ITERATIONS, n_jobs=args.jobs)
    best = problem.value(long_run.solve(problem).weights)

    def gap(weights: Vector) -> float:
        return (problem.value(weights) - best) / best

    solvers = {
        "ours": Ours(problem, args.jobs),
        "SciPy": SciPyCG(problem, preconditioned=False),
        "SciPy, exact diagonal": SciPyCG(problem, preconditioned=True),
    }
    counts = {label: solver.iterations(gap) for label, solver in solvers.items()}
    runs = {label: partial(solver.solve, counts[label]) for label, solver in solvers.items()}
    gaps = {label: gap(run()) for label, run in runs.items()}
    seconds = interleaved(runs, args.repeats, warm_up=False)
    for label in solvers:
        yield {
            "data set": name,
            "rows": problem.matrix.shape[0],
            "columns": problem.matrix.shape[1],
            "alpha": problem.penalty.alpha,
            "solver": label,
            "iterations": counts[label],
            "gap": gaps[label],
            "seconds": seconds[label],
            "times ours": seconds[label] / seconds["ours"],
        }


def problems(data: Dataset, args: argparse.Namespace) -> Iterator[Problem]:
    X, y = rows_to_time(data)
    matrix = binned_map(X, 16 if args.quick else GRIDS, args.jobs).fit_matrix(X)
    for alpha in ALPHAS:
        yield Problem(matrix, numeric_targets(y), L2(alpha))


def main() -> None:
    args = parse(options(__doc__, repeats=5, sets=SETS))
    report = Report(args)
    rows: list[Row] = []
    for data in load_sets(args.only, args):
        for problem in problems(data, args):
            print_progress(f"{data.name}, alpha {problem.penalty.alpha}")
            rows.extend(compare(data.name, problem, args))
    threads = thread_count(args.jobs)
    report.add(f"Time to a relative gap of {GAP:g}, threads of ours: {threads}", rows)
    report.close()


if __name__ == "__main__":
    main()
