"""scikit-learn's digits over several stratified splits: defaults beside a support vector machine.

A fifth of the 1,797 images is held out, the other four are fitted to, by `KernelClassifier` with
nothing given and by `SVC(C=10)`, whose kernel is the Gaussian. In five splits either is wrong in
some 16 images, so one more or less is 0.06 %: take some dozens.
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


def judged(name: str, model: Any, seed: int) -> tuple[int, int, float]:
    """Return how many held-out images are wrong, how many there are, and the seconds of the fit."""
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
    found: dict[str, list[tuple[int, int, float]]] = {"gramless": [], "SVC(C=10)": []}
    for seed in range(args.repeats):
        models = KernelClassifier(random_state=seed, n_jobs=args.jobs), SVC(C=10.0)
        for (name, own), model in zip(found.items(), models, strict=True):
            own.append(judged(name, model, seed))
    rows: list[Row] = []
    for name, own in found.items():
        wrong, sizes, seconds = map(np.array, zip(*own, strict=True))
        shares = wrong / sizes
        rows.append(
            {
                "method": name,
                "splits": len(own),
                "wrong": int(wrong.sum()),
                "wrong %": 100.0 * float(shares.mean()),
                "standard error": 100.0 * float(shares.std() / np.sqrt(len(own))),
                "fit s": float(np.median(seconds)),
            }
        )
    report.add("digits", rows)
    report.close()


if __name__ == "__main__":
    main()
