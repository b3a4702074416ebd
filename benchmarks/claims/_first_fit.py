"""Time the import, the first fit and two warm fits in a new process. Prints JSON."""

from __future__ import annotations

import json
import sys
from time import perf_counter

import numpy as np
import sklearn.svm


def main() -> None:
    job = json.loads(sys.argv[1])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(job["rows"], 8))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] > 0
    sklearn.svm.SVC().fit(X[:20], y[:20])
    started = perf_counter()
    from gramless import KernelClassifier

    seconds = {"import": perf_counter() - started}
    for name in ("first", "second", "third"):
        started = perf_counter()
        KernelClassifier(random_state=0, **job["parameters"]).fit(X, y).predict(X)
        seconds[name] = perf_counter() - started
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
