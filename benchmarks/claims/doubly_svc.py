"""Doubly stochastic gradients compared with LIBSVM: training error when LIBSVM has converged.

This follows Table 3 of Li & Póczos 2016, on images reduced to 100 components. SVC, with a Gaussian
kernel of the median distance and C = 1 / (alpha n), runs in one thread. A doubly stochastic run
(Newton steps by default) in one thread on another core stops when SVC does. Our estimators are then
fitted to all rows, with their own times. Errors are those of a sample of the training rows and of
the test rows.
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
N_EVALUATED = 2000


class BackgroundSVC:
    """An SVC that is fitted in a thread of its own; it releases the GIL while it works."""

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


def predict(run: Run, X: np.ndarray) -> np.ndarray:
    f = run.trainer.expansion
    outputs = responses(run.trainer, f.averaged_weights(), X) + f.averaged_constant
    return outputs.argmax(axis=1)


def race(data: Any, name: str, args: argparse.Namespace) -> list[Row]:
    X, y = np.asarray(data.X_train, np.float32), data.y_train
    evaluated = np.random.default_rng(0).permutation(len(X))[:N_EVALUATED]
    classes = np.unique(y)
    targets = np.where(y[:, None] == classes, 1.0, -1.0)
    sizes = (16, 64) if args.quick else (256, 4096)
    run = Run(
        Task(X, targets, Multinomial(), ALPHA, *sizes, evaluated, 1), STRATEGIES[name], args.update
    )
    svc = BackgroundSVC(X, y, run.task.bandwidth)
    run.step()  # A model needs features even if SVC ends at once.
    while svc.running:
        run.step()
    print_progress(f"{data.name}: SVC took {svc.seconds:.0f} s")
    parts = X[evaluated], np.asarray(data.X_test, np.float32)
    predictions = {"SVC": [svc.model.predict(part) for part in parts]}
    predictions[name] = [classes[predict(run, part)] for part in parts]
    seconds = {"SVC": svc.seconds, name: run.seconds}
    return [
        row(key, seconds[key], *predictions[key], y[evaluated], data.y_test) for key in predictions
    ]


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


def fit_estimator(data: Any, features: str, args: argparse.Namespace) -> Row:
    X = np.asarray(data.X_train, np.float32)
    evaluated = np.random.default_rng(0).permutation(len(X))[:N_EVALUATED]
    model = KernelClassifier(features, random_state=0, n_jobs=args.jobs)
    started = perf_counter()
    model.fit(X, data.y_train)
    seconds = perf_counter() - started
    predictions = model.predict(X[evaluated]), model.predict(np.asarray(data.X_test, np.float32))
    return row(f"ours, {features}", seconds, *predictions, data.y_train[evaluated], data.y_test)


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
        rows += [fit_estimator(data, features, args) for features in ("binning", "fourier")]
        report.add(f"{data.name}, {data.X_train.shape[0]:,} x {data.X_train.shape[1]}", rows)
    report.close()


if __name__ == "__main__":
    main()
