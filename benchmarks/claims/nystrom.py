"""Nyström features and ridge regression, compared with scikit-learn's with as many landmarks.

Both have the same Gaussian kernel, bandwidth (half the median distance between standardised rows),
number of uniformly sampled landmarks and alpha, no intercept, and labels as numbers. scikit-learn's
``Nystroem`` and ``Ridge`` get the rows as float64 and as float32. Each repeat draws new landmarks,
the same for all methods, and methods take turns. Ours is solved with ``solver="auto"``, and also
directly. Errors are RMSE on the test rows over the targets' standard deviation; their ratios
compare the same landmarks. Both are means over repeats. Seconds are medians.
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
# Tolerance of conjugate gradients: a tenth of the estimators' default.
TOL = 1e-3
# In median distances between rows.
BANDWIDTH = 0.5


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
    """A method, with the errors and times of its runs so far."""

    table: Table
    n_landmarks: int
    n_jobs: int | None
    errors: list[float] = field(default_factory=list)
    fit_seconds: list[float] = field(default_factory=list)
    predict_seconds: list[float] = field(default_factory=list)
    columns: int = 0

    def run(self, seed: int) -> None:
        """Fit and predict once, and record the error and the times."""
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
    """Our features, with the solver that ``"auto"`` selects."""

    solver = "auto"
    solver_name = "-"

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
        self.solver_name = reason.split(":")[0].split(",")[0]
        return features, solver.solve(problem).weights

    def predict(self, model: Any) -> NDArray[Any]:
        features, weights = model
        predicted: NDArray[Any] = features.rows_matrix(self.table.X_test).matvec(weights)
        return predicted


class Direct(Ours):
    """Our features, solved by Cholesky factorisation of the Gram matrix of their columns."""

    solver = "cholesky"


class Theirs(Contender):
    """scikit-learn's features and ridge regression, with float64 rows."""

    dtype: type = np.float64

    def fit(self, seed: int) -> Any:
        gamma = 0.5 / self.table.bandwidth**2
        features = Nystroem(gamma=gamma, n_components=self.n_landmarks, n_jobs=self.n_jobs)
        ridge = Ridge(alpha=ALPHA * len(self.table.y), fit_intercept=False)
        self.columns = self.n_landmarks
        X, y = (part.astype(self.dtype) for part in (self.table.X, self.table.y))
        # Nystroem uses only its landmarks in fit: here they are all the rows that it gets.
        features.fit(X[drawn_landmarks(len(y), self.n_landmarks, seed)])
        ridge.fit(features.transform(X), y)
        return make_pipeline(features, ridge)

    def predict(self, model: Any) -> NDArray[Any]:
        predicted: NDArray[Any] = model.predict(self.table.X_test.astype(self.dtype))
        return predicted


def drawn_landmarks(n_rows: int, n_landmarks: int, seed: int) -> NDArray[np.intp]:
    """Return the indices of the rows that our features use as landmarks."""
    return stream(seed, "landmarks").permutation(n_rows)[:n_landmarks]


class TheirsInSingle(Theirs):
    """scikit-learn's features and ridge regression, with float32 rows."""

    dtype = np.float32


def compare(data: Dataset, n_landmarks: int, args: argparse.Namespace) -> Iterator[Row]:
    """Run all methods in turns."""
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
    contenders = {name: kind(table, n_landmarks, args.jobs) for name, kind in kinds.items()}
    for repeat in range(args.repeats):
        # Every other repeat has the reverse order, so that a trend in speed affects all equally.
        for name in list(contenders)[:: -1 if repeat % 2 else 1]:
            contenders[name].run(seed=repeat)
            seconds = contenders[name].fit_seconds[-1]
            print_progress(f"{data.name}, {n_landmarks} landmarks, {name}: {seconds:.3g} s")
    ours = contenders["ours"]
    for name, contender in contenders.items():
        yield {
            "data set": data.name,
            "rows": len(table.y),
            "inputs": table.X.shape[1],
            "landmarks": n_landmarks,
            "method": name,
            "solver": getattr(contender, "solver_name", "-"),
            "columns": contender.columns,
            "error": fmean(contender.errors),
            "error ratio": fmean(np.divide(contender.errors, ours.errors)),
            "fit s": median(contender.fit_seconds),
            "times ours": median(contender.fit_seconds) / median(ours.fit_seconds),
            "predict s": median(contender.predict_seconds),
            "times ours to predict": median(contender.predict_seconds)
            / median(ours.predict_seconds),
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
