"""Nyström features and ridge regression: ours against scikit-learn's, at equal landmarks.

The same Gaussian kernel, bandwidth (half the median distance between standardised rows), number of
uniform landmarks and alpha, no intercept, labels as numbers. scikit-learn's ``Nystroem`` and
``Ridge`` get the rows once as float64 and once as float32. Each repeat draws other landmarks, the
same ones for all; ours and theirs take turns. Ours is solved as ``solver="auto"`` does, and once
more directly. Errors are RMSE over the targets' standard deviation on the test rows, and their
ratios those of the same landmarks: means over repeats. Seconds are medians.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import fmean, median
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.common import (
    Report,
    Row,
    load_sets,
    numeric_targets,
    options,
    parse,
    part_of,
    print_progress,
    rmse,
)
from gramless.base.random import stream
from gramless.base.threads import thread_count
from gramless.features.nystrom import Nystrom
from gramless.penalties import L2
from gramless.preprocessing.median import median_distance
from gramless.solvers.choose import choose_solver
from gramless.solvers.objective import Problem
from harness.data_sets import Dataset

SETS = ("ijcnn1",)
LANDMARKS = (1000, 4000)
ALPHA = 1e-6
TOL = 1e-3
"""Of conjugate gradients: a tenth of the estimators' default."""
BANDWIDTH = 0.5
"""In median distances between rows."""


@dataclass(frozen=True)
class Table:
    """Standardised rows and numeric targets."""

    X: NDArray[Any]
    y: NDArray[np.float64]
    X_test: NDArray[Any]
    y_test: NDArray[np.float64]
    bandwidth: float

    @classmethod
    def of(cls, data: Dataset) -> Table:
        scaler = StandardScaler().fit(data.X_train.astype(np.float64))
        X, X_test = (scaler.transform(rows) for rows in (data.X_train, data.X_test))
        targets = numeric_targets(np.concatenate([data.y_train, data.y_test]))
        n = len(X)
        median_gap = median_distance(X, seed=0, metric="euclidean")
        return cls(X, targets[:n], X_test, targets[n:], BANDWIDTH * median_gap)

    def error(self, predicted: NDArray[Any]) -> float:
        return rmse(predicted.ravel(), self.y_test) / float(self.y_test.std())


@dataclass
class Contender:
    """A way to fit and predict, and what it took so far."""

    table: Table
    n_landmarks: int
    n_jobs: int | None
    errors: list[float] = field(default_factory=list)
    fit_seconds: list[float] = field(default_factory=list)
    predict_seconds: list[float] = field(default_factory=list)
    columns: int = 0

    def run(self, seed: int) -> None:
        """Fit and predict once, and keep what it took."""
        started = perf_counter()
        model = self.fit(seed)
        fitted = perf_counter()
        predicted = self.predict(model)
        done = perf_counter()
        self.fit_seconds.append(fitted - started)
        self.predict_seconds.append(done - fitted)
        self.errors.append(self.table.error(predicted))

    def fit(self, seed: int) -> Any:
        raise NotImplementedError

    def predict(self, model: Any) -> NDArray[Any]:
        raise NotImplementedError


class Ours(Contender):
    """Our features, with the solver that ``"auto"`` takes."""

    solver = "auto"
    taken = "-"

    def fit(self, seed: int) -> Any:
        features = Nystrom(
            bandwidth=self.table.bandwidth,
            n_components=self.n_landmarks,
            random_state=seed,
            n_jobs=self.n_jobs,
        )
        problem = Problem(features.fit_rows(self.table.X), self.table.y, L2(ALPHA))
        self.columns = problem.matrix.shape[1]
        solver, reason = choose_solver(
            self.solver, tol=TOL, max_iter=200, n_jobs=self.n_jobs, matrix=problem.matrix
        )
        self.taken = reason.split(":")[0].split(",")[0]
        return features, solver.solve(problem).weights

    def predict(self, model: Any) -> NDArray[Any]:
        features, weights = model
        predicted: NDArray[Any] = features.rows_matrix(self.table.X_test).matvec(weights)
        return predicted


class Direct(Ours):
    """Our features and the Gram matrix of their columns, factorised."""

    solver = "cholesky"


class Theirs(Contender):
    """scikit-learn's features and ridge regression, rows in float64."""

    dtype: type = np.float64

    def fit(self, seed: int) -> Any:
        gamma = 0.5 / self.table.bandwidth**2
        features = Nystroem(gamma=gamma, n_components=self.n_landmarks, n_jobs=self.n_jobs)
        ridge = Ridge(alpha=ALPHA * len(self.table.y), fit_intercept=False)
        self.columns = self.n_landmarks
        X, y = (part.astype(self.dtype) for part in (self.table.X, self.table.y))
        # Of the rows that it is fitted to it looks at its landmarks alone: here they are all.
        features.fit(X[drawn_landmarks(len(y), self.n_landmarks, seed)])
        ridge.fit(features.transform(X), y)
        return make_pipeline(features, ridge)

    def predict(self, model: Any) -> NDArray[Any]:
        predicted: NDArray[Any] = model.predict(self.table.X_test.astype(self.dtype))
        return predicted


def drawn_landmarks(n_rows: int, n_landmarks: int, seed: int) -> NDArray[np.intp]:
    """Return the rows that ours takes as landmarks."""
    return stream(seed, "landmarks").permutation(n_rows)[:n_landmarks]


class TheirsInSingle(Theirs):
    """The same, rows in float32."""

    dtype = np.float32


def compare(data: Dataset, n_landmarks: int, args: argparse.Namespace) -> Iterator[Row]:
    """Run all contenders in turns."""
    kinds = {
        "ours": Ours,
        "ours, direct": Direct,
        "scikit-learn, float64": Theirs,
        "scikit-learn, float32": TheirsInSingle,
    }
    small = Table.of(part_of(data, 400, 100))
    table = Table.of(data)
    for kind in kinds.values():
        kind(small, 50, args.jobs).run(seed=0)
    found = {name: kind(table, n_landmarks, args.jobs) for name, kind in kinds.items()}
    for repeat in range(args.repeats):
        for name in list(found)[:: -1 if repeat % 2 else 1]:
            found[name].run(seed=repeat)
            print_progress(
                f"{data.name}, {n_landmarks} landmarks, {name}: {found[name].fit_seconds[-1]:.3g} s"
            )
    ours = found["ours"]
    for name, own in found.items():
        yield {
            "data set": data.name,
            "rows": len(table.y),
            "inputs": table.X.shape[1],
            "landmarks": n_landmarks,
            "method": name,
            "solver": getattr(own, "taken", "-"),
            "columns": own.columns,
            "error": fmean(own.errors),
            "error ratio": fmean(np.divide(own.errors, ours.errors)),
            "fit s": median(own.fit_seconds),
            "times ours": median(own.fit_seconds) / median(ours.fit_seconds),
            "predict s": median(own.predict_seconds),
            "times ours to predict": median(own.predict_seconds) / median(ours.predict_seconds),
        }


def main() -> None:
    parser = options(__doc__, repeats=3, sets=SETS)
    parser.add_argument("--landmarks", nargs="+", type=int, help="default 1000 4000")
    args = parse(parser)
    report = Report(args)
    rows: list[Row] = []
    for data in load_sets(args.only, args):
        for n_landmarks in args.landmarks or ((50, 100) if args.quick else LANDMARKS):
            rows.extend(compare(data, n_landmarks, args))
    threads = thread_count(args.jobs)
    report.add(f"Nyström and ridge, alpha {ALPHA:g}, threads of ours: {threads}", rows)
    report.close()


if __name__ == "__main__":
    main()
