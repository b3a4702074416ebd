"""The number of weights that L1 needs for almost the test error of L2, on the same matrix.

Losses are the squared and the squared hinge loss, with labels -1 and 1 and without an intercept.
The alpha of L2 has the smallest error on a fifth of the training rows. On a path of alphas of L1,
fitted to all training rows, the sparsest fit is selected whose test error is at most 1 % above that
of L2, which can mean 1 % of that error or one percentage point. The selection uses the test rows,
because the question is how sparse a fit with that error can be. Prediction is timed from rows to
labels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import (
    Report,
    Row,
    binned_map,
    load_sets,
    numeric_targets,
    options,
    parse,
    print_progress,
)
from benchmarks.held_back import choose_alpha
from benchmarks.l1_paths import AlphaPath, Formats, largest_alpha, ours
from gramless import RandomBinning
from gramless.losses import Loss, Squared, SquaredHinge
from gramless.matrices.base import Vector
from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L2
from gramless.preprocessing.rows import Rows
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.newton_cg import NewtonCG
from gramless.solvers.objective import Problem
from harness.data_sets import Dataset
from harness.timing import interleaved

SETS = ("ijcnn1", "cod-rna", "covtype_1vs2_169k")
GRIDS = 256
L2_ALPHAS = tuple(float(alpha) for alpha in np.geomspace(1e-3, 1e-7, 9))
N_ALPHAS = 30
DEPTH = 10_000.0
TOLERANCE = 1e-3
MAX_ITERATIONS = 10_000
ROWS_TO_PREDICT = 100_000
# The claim: this many times fewer weights.
FEWER = 20.0
# Interpretations of "1 %": the largest test error of L1, given that of L2.
READINGS: dict[str, Callable[[float], float]] = {
    "1 % of the error": lambda error: 1.01 * error,
    "1 percentage point": lambda error: error + 0.01,
}


@dataclass(frozen=True)
class Task:
    """A data set with its features."""

    data: Dataset
    feature_map: RandomBinning
    training: BinnedMatrix
    test: BinnedMatrix

    @classmethod
    def of(cls, data: Dataset, n_grids: int, n_jobs: int | None) -> Task:
        feature_map = binned_map(data.X_train, n_grids, n_jobs)
        training = feature_map.fit_matrix(data.X_train)
        return cls(data, feature_map, training, feature_map.feature_matrix(data.X_test))

    def test_error(self, weights: Vector) -> float:
        return error_rate(self.test.matvec(weights), numeric_targets(self.data.y_test))


@dataclass(frozen=True)
class Fitted:
    """Weights, and their penalty and test error."""

    alpha: float
    weights: Vector
    test_error: float

    @property
    def n_weights(self) -> int:
        return int(np.count_nonzero(self.weights))


def error_rate(responses: Vector, targets: Vector) -> float:
    return float(np.mean(np.where(responses > 0.0, 1.0, -1.0) != targets))


def best_l2(task: Task, loss: Loss, n_jobs: int | None) -> Fitted:
    kind = ConjugateGradient if isinstance(loss, Squared) else NewtonCG
    solver = kind(tol=TOLERANCE, max_iter=MAX_ITERATIONS, n_jobs=n_jobs)
    y = numeric_targets(task.data.y_train)

    def error(responses: Vector, rows: NDArray[np.intp]) -> float:
        return error_rate(responses, y[rows])

    alpha, _ = choose_alpha(solver, loss, task.training, y, L2_ALPHAS, error)
    weights = solver.solve(Problem(task.training, y, L2(alpha), loss)).weights
    return Fitted(alpha, weights, task.test_error(weights))


def l1_path(task: Task, loss: Loss, args: argparse.Namespace) -> list[Fitted]:
    y = numeric_targets(task.data.y_train)
    largest = largest_alpha(task.training, y, loss)
    alphas = np.geomspace(largest, largest / args.depth, 6 if args.quick else N_ALPHAS)
    path = AlphaPath(Formats(task.training, y), loss, alphas)
    return [
        Fitted(float(alpha), weights, task.test_error(weights))
        for alpha, weights in zip(alphas, ours(path, args.jobs)(TOLERANCE), strict=True)
    ]


def used_bins_only(feature_map: RandomBinning, weights: Vector) -> tuple[RandomBinning, Vector]:
    """Return a model without the bins of zero weight, as the estimators store it."""
    is_used = weights != 0.0
    small = deepcopy(feature_map)
    small.keep_bins(is_used)
    return small, weights[is_used]


def predict(feature_map: RandomBinning, weights: Vector, X: Rows) -> NDArray[np.bool_]:
    return feature_map.feature_matrix(X).matvec(weights) > 0.0


def compare(task: Task, loss: Loss, args: argparse.Namespace) -> Iterator[Row]:
    """Fit with both penalties, and yield one row for each interpretation of the claim."""
    dense, path = best_l2(task, loss, args.jobs), l1_path(task, loss, args)
    n_rows = len(task.data.y_test) if args.quick else ROWS_TO_PREDICT
    X = task.data.X_test[np.arange(n_rows) % len(task.data.y_test)]
    for reading, bound in READINGS.items():
        near = [fit for fit in path if fit.test_error <= bound(dense.test_error)]
        sparse = min(near, key=lambda fit: fit.n_weights, default=None)
        models = {"L2": (task.feature_map, dense.weights)}
        if sparse:
            models["L1"] = used_bins_only(task.feature_map, sparse.weights)
        seconds = interleaved(
            {k: partial(predict, *model, X) for k, model in models.items()}, args.repeats
        )
        yield {
            "data set": task.data.name,
            "loss": loss.name,
            "allowed increase": reading,
            "L2 alpha": dense.alpha,
            "L2 error": dense.test_error,
            "L1 alpha": sparse.alpha if sparse else None,
            "L1 error": sparse.test_error if sparse else None,
            "L2 weights": dense.n_weights,
            "L1 weights": sparse.n_weights if sparse else None,
            "times fewer": dense.n_weights / max(1, sparse.n_weights) if sparse else None,
            "L2 predict s": seconds["L2"],
            "L1 predict s": seconds.get("L1"),
        }


def summary(rows: list[Row]) -> Iterator[Row]:
    """Count the data sets on which L1 has ``FEWER`` times fewer weights."""
    for loss, reading in dict.fromkeys((row["loss"], row["allowed increase"]) for row in rows):
        group = [row for row in rows if (row["loss"], row["allowed increase"]) == (loss, reading)]
        fewer = sum((row["times fewer"] or 0.0) >= FEWER for row in group)
        yield {
            "loss": loss,
            "allowed increase": reading,
            "sets": len(group),
            f"{FEWER:g}x fewer": fewer,
        }


def main() -> None:
    parser = options(__doc__, repeats=3, sets=SETS)
    parser.add_argument("--depth", type=float, default=DEPTH, help="largest over smallest alpha")
    args = parse(parser)
    report = Report(args)
    rows: list[Row] = []
    for data in load_sets(args.only, args):
        task = Task.of(data, 16 if args.quick else GRIDS, args.jobs)
        for loss in (Squared(), SquaredHinge()):
            print_progress(f"{data.name}, {loss.name}")
            rows.extend(compare(task, loss, args))
    report.add("Weights of fits with L2 and L1", rows)
    report.add(f"Sets with {FEWER:g} times fewer weights", summary(rows))
    report.close()


if __name__ == "__main__":
    main()
