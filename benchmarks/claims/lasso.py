"""Time of a path of lasso fits, each to a relative duality gap of 1e-6, compared with peers.

All minimise ``|Z w - y|^2 / (2 N) + alpha |w|_1`` without an intercept over the same matrix, with
labels as targets, for 20 decreasing alphas from the largest with a non-zero weight. Each fit starts
from the one before. celer, skglm and scikit-learn's ``lasso_path`` get the matrix as CSC and
compute the path themselves. The gap is ``(F - D) / (|y|^2 / (2 N))``, for all solvers with the dual
objective D that this script computes from the residual. Each solver's tolerance is divided by 3
until the largest gap of the path is small enough; then that setting is timed, in turns. A path that
takes longer than ``--seconds`` counts as not having reached the gap.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import Report, Row, load_sets, parse, print_progress, rows_to_time
from benchmarks.l1_paths import AlphaPath, Formats, dual_value, formats, largest_alpha
from benchmarks.l1_peers import compile_all, contenders
from benchmarks.walks import Goal, race, race_options
from gramless.base.threads import thread_count
from gramless.losses import Squared
from gramless.matrices.base import Vector

SETS = ("ijcnn1", "cod-rna", "covtype_1vs2_169k")
GRIDS = 256
N_ALPHAS = 20
GAP = 1e-6
DEPTHS = (100.0,)
MAX_SECONDS = 300.0


def worst_gap(path: AlphaPath, weights: Vector) -> float:
    """Return the largest duality gap of a path, relative to the objective at zero."""
    at_zero = 0.5 * float(np.mean(path.data.targets**2))
    gaps = [
        problem.value(w) - dual_value(problem, w)
        for problem, w in zip(path.problems(), weights, strict=True)
    ]
    return max(gaps) / at_zero


def compare(name: str, data: Formats, depth: float, args: argparse.Namespace) -> Iterator[Row]:
    """Find each solver's tolerance, then time the solvers in turns."""
    largest = largest_alpha(data.matrix, data.targets, Squared())
    n_alphas = 5 if args.quick else N_ALPHAS
    path = AlphaPath(data, Squared(), np.geomspace(largest, largest / depth, n_alphas))
    goal = Goal(GAP, lambda weights: worst_gap(path, weights), args.seconds)
    finishes, rows = race(contenders(path, args.jobs), goal, args.repeats)
    for row in rows:
        weights = finishes[row["solver"]].weights
        yield {
            "data set": name,
            "rows": data.matrix.shape[0],
            "columns": data.matrix.shape[1],
            "non-zeros at the end": None if weights is None else np.count_nonzero(weights[-1]),
            **row,
        }


def main() -> None:
    parser = race_options(__doc__, 3, SETS, MAX_SECONDS)
    parser.add_argument(
        "--depths", nargs="+", type=float, default=DEPTHS, help="largest over smallest alpha"
    )
    args = parse(parser)
    report = Report(args)
    compile_all(Squared(), args.jobs)
    tables: dict[float, list[Row]] = {depth: [] for depth in args.depths}
    for known in load_sets(args.only, args):
        data = formats(*rows_to_time(known), 16 if args.quick else GRIDS, args.jobs)
        for depth, rows in tables.items():
            print_progress(f"{known.name}, to the largest alpha / {depth:g}")
            rows.extend(compare(known.name, data, depth, args))
    threads = thread_count(args.jobs)
    for depth, rows in tables.items():
        title = (
            f"Path to the largest alpha / {depth:g}, gaps of {GAP:g}, threads of ours: {threads}"
        )
        report.add(title, rows)
    report.close()


if __name__ == "__main__":
    main()
