"""Doubly stochastic gradients beside LIBSVM: training error at the time LIBSVM has converged.

As Table 3 of Li & Póczos 2016, on images reduced to 100 components: SVC with a Gaussian kernel of
the median distance and C = 1 / (alpha n), in one thread, and beside it on another core a run in one
thread, which ends when SVC does: Newton steps by default. Then our machines on all rows,
with their own times. Errors are of a sample of the training rows, and of the test rows.
"""

from __future__ import annotations

import argparse
from threading import Thread
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from sklearn.svm import SVC

from benchmarks.common import Report, Row, load_sets, options, parse, print_progress
from benchmarks.doubly_runs import Run, Task, responses
from gramless import KernelClassifier
from gramless.losses import Multinomial
from gramless.streaming.strategies import Checking, Grow, Strategy, Uniform

STRATEGIES: dict[str, Strategy] = {"DSG": Grow(), "UDSG": Uniform(), "CDSG": Checking()}
ALPHA = 1e-5
JUDGED = 2000


class Beside:
    """SVC in a thread of its own; it releases the lock while it works."""

    def __init__(self, X: np.ndarray, y: np.ndarray, bandwidth: float) -> None:
        C = 1.0 / (ALPHA * len(X))
        self.model = SVC(C=C, gamma=0.5 / bandwidth**2, cache_size=2000, random_state=0)
        self.seconds = 0.0
        self._thread = Thread(target=self._fit, args=(X, y))
        self._thread.start()

    def _fit(self, X: np.ndarray, y: np.ndarray) -> None:
        started = perf_counter()
        self.model.fit(X, y)
        self.seconds = perf_counter() - started

    @property
    def running(self) -> bool:
        return self._thread.is_alive()


def answers(run: Run, X: np.ndarray) -> np.ndarray:
    f = run.machine.expansion
    found = responses(run.machine, f.averaged_weights(), X) + f.averaged_constant
    return found.argmax(axis=1)


def race(data: Any, name: str, args: argparse.Namespace) -> list[Row]:
    X, y = np.asarray(data.X_train, np.float32), data.y_train
    judged = np.random.default_rng(0).permutation(len(X))[:JUDGED]
    classes = np.unique(y)
    targets = np.where(y[:, None] == classes, 1.0, -1.0)
    sizes = (16, 64) if args.quick else (256, 4096)
    run = Run(
        Task(X, targets, Multinomial(), ALPHA, *sizes, judged, 1), STRATEGIES[name], args.update
    )
    beside = Beside(X, y, run.task.bandwidth)
    run.step()  # A model needs features, however soon the other one is fitted.
    while beside.running:
        run.step()
    print_progress(f"{data.name}: SVC took {beside.seconds:.0f} s")
    tested = X[judged], np.asarray(data.X_test, np.float32)
    found = {"SVC": [beside.model.predict(part) for part in tested]}
    found[name] = [classes[answers(run, part)] for part in tested]
    seconds = {"SVC": beside.seconds, name: run.seconds}
    return [row(key, seconds[key], *found[key], y[judged], data.y_test) for key in found]


def row(
    name: str,
    seconds: float,
    training: np.ndarray,
    test: np.ndarray,
    y_training: np.ndarray,
    y_test: np.ndarray,
) -> Row:
    return {
        "method": name,
        "s": seconds,
        "training error": float(np.mean(training != y_training)),
        "test error": float(np.mean(test != y_test)),
    }


def ours(data: Any, features: str, args: argparse.Namespace) -> Row:
    X = np.asarray(data.X_train, np.float32)
    judged = np.random.default_rng(0).permutation(len(X))[:JUDGED]
    model = KernelClassifier(features, random_state=0, n_jobs=args.jobs)
    started = perf_counter()
    model.fit(X, data.y_train)
    seconds = perf_counter() - started
    found = model.predict(X[judged]), model.predict(np.asarray(data.X_test, np.float32))
    return row(f"ours, {features}", seconds, *found, data.y_train[judged], data.y_test)


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--sets", nargs="+", default=["cifar10_pca100"], help="data sets")
    parser.add_argument("--strategy", default="CDSG", choices=STRATEGIES, help="default CDSG")
    parser.add_argument(
        "--update", default="newton", choices=("papers", "gradient", "newton"), help="of the run"
    )
    args = parse(parser)
    report = Report(args)
    for data in load_sets(args.sets, args):
        rows = race(data, args.strategy, args)
        rows += [ours(data, features, args) for features in ("binning", "fourier")]
        report.add(f"{data.name}, {data.X_train.shape[0]:,} x {data.X_train.shape[1]}", rows)
    report.close()


if __name__ == "__main__":
    main()
