"""One fit within a memory budget in its own process: its peak memory, or the error message.

The argument is a job as JSON: ``kind``, ``shape``, ``budget`` in bytes, ``by_variable``, ``jobs``.
Prints JSON. The peak is counted after all imports, after a small fit that loads every compiled
loop, and after the table is generated.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray

import gramless
from benchmarks.common import Row
from gramless.base.errors import InputError
from harness.memory import PeakMemory

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "regressor": ("KernelRegressor", {}),
    "regressor, effort 1": ("KernelRegressor", {"effort": 1}),
    "regressor, Fourier": ("KernelRegressor", {"features": "fourier"}),
    "regressor, Nystrom": ("KernelRegressor", {"features": "nystrom"}),
    "regressor, smooth bins": ("KernelRegressor", {"features": "smooth"}),
    "regressor, exact": ("KernelRegressor", {"features": "exact"}),
    "regressor, random bins": ("KernelRegressor", {"features": "binning", "grids": "random"}),
    "classifier, 2 classes": ("KernelClassifier", {}),
    "classifier, 5 classes": ("KernelClassifier", {}),
    "survival": ("KernelSurvival", {}),
    "doubly stochastic regressor": ("DoublyStochasticRegressor", {}),
    "doubly stochastic classifier": ("DoublyStochasticClassifier", {}),
    "anomalies": ("AnomalyDetector", {}),
    "spectral clustering": ("SpectralClustering", {"n_clusters": 3}),
    "kernel PCA": ("KernelPCA", {"n_components": 3}),
    "decomposition": ("FeatureDecomposition", {"n_components": 3}),
}


def targets(kind: str, X: NDArray[np.float64]) -> NDArray[Any]:
    noise = np.random.default_rng(1).normal(size=len(X))
    signal = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * noise
    if kind == "classifier, 5 classes":
        return np.digitize(signal, [-1.0, -0.3, 0.3, 1.0])
    if "classifier" in kind:
        return (signal > 0.0).astype(int)
    if kind == "survival":
        events = np.random.default_rng(2).random(len(X)) < 0.7
        pairs = zip(events, np.exp(signal), strict=True)
        return np.array(list(pairs), [("event", bool), ("time", float)])
    return signal


def fit(model: Any, X: NDArray[np.float64], y: NDArray[Any]) -> None:
    model.fit(X, y)
    if hasattr(model, "predict"):
        model.predict(X[:1000])


def main() -> None:
    job: Row = json.loads(sys.argv[1])
    warnings.simplefilter("ignore")
    kind, budget = job["kind"], int(job["budget"])
    name, parameters = KINDS[kind]
    model = getattr(gramless, name)(random_state=0, n_jobs=job["jobs"], **parameters)
    rng = np.random.default_rng(0)
    small = rng.normal(size=(400, 5))
    fit(model, small, targets(kind, small))
    X = rng.normal(size=job["shape"])
    y = targets(kind, X)
    if "memory_budget" in model.get_params() and not job["by_variable"]:
        model.set_params(memory_budget=budget)
    else:
        os.environ["GRAMLESS_MEMORY_LIMIT"] = str(budget)
    peak, refused = PeakMemory(), ""
    try:
        fit(model, X, y)
    except InputError as error:
        refused = str(error)
    limits = list(getattr(model, "limits_", []))
    print(json.dumps({"peak": peak.bytes(), "refused": refused, "limits": limits}))


if __name__ == "__main__":
    main()
