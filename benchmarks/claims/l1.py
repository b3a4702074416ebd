"""Time to a relative objective gap of 1e-4 for L1 fits with smooth losses, compared with peers.

The logistic loss is compared with liblinear (``-s 6``), celer and skglm, the squared hinge loss
with liblinear (``-s 5``) and scikit-learn's ``LinearSVC``. All minimise ``mean(loss) + alpha
|w|_1`` without an intercept, over the same matrix from zero, for three alphas below the largest
with a non-zero weight. liblinear gets CSR in its own format, converted before it is timed,
scikit-learn CSR, celer and skglm CSC. The gap is ``(F - F*) / F*`` with F* from a long run of ours;
``F* surely within`` bounds its distance from the minimum by the dual objective. Each solver's
tolerance is divided by 3 until the gap is reached; then that setting is timed, in turns. A fit that
takes longer than ``--seconds`` counts as not having reached the gap.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import Report, Row, load_sets, parse, print_progress, rows_to_time
from benchmarks.l1_paths import AlphaPath, Formats, dual_value, formats, largest_alpha, ours
from benchmarks.l1_peers import compile_all, contenders
from benchmarks.walks import Goal, race, race_options, relative_gap
from gramless.base.threads import thread_count
from gramless.losses import Logistic, Loss, SquaredHinge

SETS = ("ijcnn1", "cod-rna", "covtype_1vs2_169k")
LOSSES = {loss.name: loss for loss in (Logistic(), SquaredHinge())}
DEPTHS = (30.0, 100.0, 1000.0)
GRIDS = 256
GAP = 1e-4
LONG_TOLERANCE = 1e-6
MAX_SECONDS = 300.0


def compare(
    name: str, data: Formats, loss: Loss, depth: float, args: argparse.Namespace
) -> Iterator[Row]:
    """Find each solver's tolerance, then time the solvers in turns."""
    alpha = largest_alpha(data.matrix, data.targets, loss) / depth
    path = AlphaPath(data, loss, np.array([alpha]))
    (problem,) = path.problems()
    (optimal,) = ours(path, args.jobs)(LONG_TOLERANCE)
    best = problem.value(optimal)
    gap = relative_gap(lambda weights: problem.value(weights[0]), best)
    goal = Goal(GAP, gap, args.seconds)
    finishes, rows = race(contenders(path, args.jobs), goal, args.repeats)
    for row in rows:
        weights = finishes[row["solver"]].weights
        yield {
            "data set": name,
            "columns": data.matrix.shape[1],
            "loss": loss.name,
            "largest alpha /": depth,
            "F* surely within": (best - dual_value(problem, optimal)) / best,
            "non-zeros": None if weights is None else np.count_nonzero(weights),
            **row,
        }


def main() -> None:
    parser = race_options(__doc__, 5, SETS, MAX_SECONDS)
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    parser.add_argument("--depths", nargs="+", type=float, default=DEPTHS)
    args = parse(parser)
    report = Report(args)
    losses = [LOSSES[name] for name in args.losses]
    for loss in losses:
        compile_all(loss, args.jobs)
    rows: list[Row] = []
    for known in load_sets(args.only, args):
        data = formats(*rows_to_time(known), 16 if args.quick else GRIDS, args.jobs)
        for loss in losses:
            for depth in args.depths:
                print_progress(f"{known.name}, {loss.name}, largest alpha / {depth:g}")
                rows.extend(compare(known.name, data, loss, depth, args))
    threads = thread_count(args.jobs)
    report.add(f"Time to a relative gap of {GAP:g}, threads of ours: {threads}", rows)
    report.close()


if __name__ == "__main__":
    main()
