"""scikit-learn's digits: default fits compared with a support vector machine.

Four fifths of the 1,797 images are fitted by a default `KernelClassifier` and by `SVC(C=10)` with
its Gaussian kernel; the others are predicted. In five splits either makes about 16 errors, so that
one more is 0.06 %: use some dozens of splits.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from benchmarks.common import Report, Row, options, parse, print_progress
from gramless import KernelClassifier


def fit_and_count_errors(name: str, model: Any, seed: int) -> tuple[int, int, float]:
    """Return the number of wrong test images, of all test images, and the seconds of the fit."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    started = perf_counter()
    model.fit(X, y)
    seconds = perf_counter() - started
    wrong = int(np.count_nonzero(model.predict(X_test) != y_test))
    print_progress(f"split {seed}, {name}: {wrong} of {len(y_test)} wrong, {seconds:.2f} s")
    return wrong, len(y_test), seconds


def main() -> None:
    args = parse(options(__doc__, repeats=30))
    report = Report(args)
    KernelClassifier(random_state=0, n_jobs=args.jobs).fit(*load_digits(return_X_y=True))
    results: dict[str, list[tuple[int, int, float]]] = {"gramless": [], "SVC(C=10)": []}
    for seed in range(args.repeats):
        models = KernelClassifier(random_state=seed, n_jobs=args.jobs), SVC(C=10.0)
        for (name, runs), model in zip(results.items(), models, strict=True):
            runs.append(fit_and_count_errors(name, model, seed))
    rows: list[Row] = []
    for name, runs in results.items():
        wrong, sizes, seconds = map(np.array, zip(*runs, strict=True))
        shares = wrong / sizes
        rows.append(
            {
                "method": name,
                "splits": len(runs),
                "wrong": int(wrong.sum()),
                "wrong %": 100.0 * float(shares.mean()),
                "standard error": 100.0 * float(shares.std() / np.sqrt(len(runs))),
                "fit s": float(np.median(seconds)),
            }
        )
    report.add("digits", rows)
    report.close()


if __name__ == "__main__":
    main()
