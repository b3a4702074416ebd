"""One fit to rows in memory or in a memory-mapped file, in its own process.

The argument is a job as JSON: ``inputs`` and ``targets`` (NPY files), ``mapped``, and the
``parameters`` of a KernelRegressor. Prints JSON. Peak memory is counted from a process that has
imported and compiled everything but holds no data.
"""

from __future__ import annotations

import hashlib
import json
import sys
from time import perf_counter

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import Row, made_up
from gramless import KernelRegressor
from harness.memory import PeakMemory

PREDICTED = 10_000


def main() -> None:
    job: Row = json.loads(sys.argv[1])
    X, y = made_up(6000, 4)
    KernelRegressor(random_state=0).fit(X, y)
    KernelRegressor(random_state=0, effort=1, memory_budget="500 MB").fit(X, y)
    peak = PeakMemory()
    X = np.load(job["inputs"], mmap_mode="r" if job["mapped"] else None)
    y = np.load(job["targets"])
    started = perf_counter()
    model = KernelRegressor(random_state=0, **job["parameters"]).fit(X, y)
    seconds, peak_bytes = perf_counter() - started, peak.bytes()
    # Compare predictions, because a model fitted from the disk orders its columns differently.
    predicted = model.predict(np.asarray(X[:PREDICTED]))
    result = {
        "seconds": seconds,
        "peak": peak_bytes,
        "inputs": X.nbytes + y.nbytes,
        "bits": hashlib.sha256(predicted.tobytes()).hexdigest()[:16],
        "columns": len(model.weights_),
        "limits": "; ".join(model.limits_),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
