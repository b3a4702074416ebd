"""One fit in its own process: seconds and memory.

The argument is a job as JSON: either ``inputs`` and ``targets`` (NPY files) or ``made_up`` (rows
and columns), and ``task``, ``grids``, ``bandwidth``, ``alpha``, ``max_iter``, ``tol``, ``jobs``.
Prints JSON. Memory is counted from a process that has imported everything and loaded every compiled
loop but holds no data.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Row, made_up
from gramless import KernelClassifier, KernelRegressor, RandomBinning
from gramless.matrices.binned import BinnedMatrix
from harness.memory import peak_memory


def estimator(job: Row) -> Any:
    make = KernelClassifier if job["task"] == "binary" else KernelRegressor
    return make(
        RandomBinning(n_grids=job["grids"]),
        bandwidth=job["bandwidth"],
        alpha=job["alpha"],
        scaling="standard",
        tol=job["tol"],
        max_iter=job["max_iter"],
        random_state=0,
        n_jobs=job["jobs"],
    )


def rows_of(job: Row) -> tuple[NDArray[Any], NDArray[Any]]:
    if "made_up" in job:
        X, y = made_up(*job["made_up"])
    else:
        X, y = np.load(job["inputs"]), np.load(job["targets"])
    return X, y > 0 if job["task"] == "binary" else y


def warm_up(job: Row) -> None:
    """Fit to a few rows, with few bins and with many, so that every loop is compiled."""
    X, y = made_up(600, 3)
    targets = y > 0 if job["task"] == "binary" else y
    for bandwidth in (100.0, 1e-3):
        small = {**job, "grids": 8, "bandwidth": bandwidth, "max_iter": 3}
        estimator(small).fit(X, targets).predict(X)
    for kind in (np.uint8, np.uint16, np.uint32):
        matrix = BinnedMatrix(np.ones((8, 16), kind), np.arange(9), n_jobs=job["jobs"])
        matrix.rmatvec(matrix.matvec(np.ones(8)))


def code_bytes(model: Any) -> int:
    """Return the bytes of one code, which the grid with most bins determines."""
    largest = int(model.features_.n_bins_.max())
    return 1 if largest < 2**8 else 2 if largest < 2**16 else 4


def main() -> None:
    job: Row = json.loads(sys.argv[1])
    warm_up(job)
    baseline = peak_memory()
    X, y = rows_of(job)
    started = perf_counter()
    model = estimator(job).fit(X, y)
    seconds = perf_counter() - started
    result = {
        "seconds": seconds,
        "iterations": int(model.n_iter_),
        "bins a grid": float(model.features_.kappa_bar_),
        "code bytes": code_bytes(model),
        "inputs": X.nbytes + y.nbytes,
        "codes": code_bytes(model) * len(X) * job["grids"],
        "weights": model.weights_.nbytes,
        "peak": peak_memory() - baseline,
        "baseline": baseline,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
