"""One fit with nothing given in a process of its own: seconds, errors, memory.

Called with a job as JSON: ``table`` (a name in ``TABLES``), ``rows``, ``test_rows``, ``method``,
``seed``, ``jobs``. Prints JSON. Errors are RMSE against the truth, without the noise, over its
standard deviation.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import Row, peak_memory
from versus.methods import find_methods

from gramless.base.random import stream

COLUMNS, WARM_UP_ROWS = 20, 2000
NOISE = {"waves": 1.0, "jumps": 0.5}

Floats = NDArray[np.floating]


def waves(uniform: Floats) -> Floats:
    """Friedman's first table: five of the inputs, smoothly."""
    x = uniform.T
    return 10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4]


def jumps(uniform: Floats) -> Floats:
    """Nine of the inputs: a wave, a kink, a jump, a logarithm, a square."""
    x = 4.0 * uniform.T - 2.0
    wave = np.sin(2.0 * x[0]) * x[1]
    return (
        wave + np.abs(x[2]) - x[3] * (x[4] > 0) + 0.5 * x[5] * x[6] + 0.3 * x[7] ** 2 * (x[8] > 1)
    )


TABLES = {"waves": waves, "jumps": jumps}


def table(job: Row, n_rows: int, purpose: str) -> tuple[Floats, Floats, Floats]:
    """Return inputs, half of them with heavy tails, noisy targets and the truth."""
    random = stream(job["seed"], purpose)
    uniform = random.random((n_rows, COLUMNS), np.float32)
    truth = TABLES[job["table"]](uniform)
    y = truth + NOISE[job["table"]] * random.normal(size=n_rows)
    X = uniform.copy()
    np.exp(4.0 * X[:, ::2], out=X[:, ::2])
    return X, y, truth


def main() -> None:
    job: Row = json.loads(sys.argv[1])
    (peer,) = find_methods([job["method"]])
    X, y, _ = table(job, WARM_UP_ROWS, "warm-up")
    peer(0, job["jobs"]).make("regression", WARM_UP_ROWS).fit(X, y).predict(X)
    X, y, _ = table(job, job["rows"], "training")
    baseline = peak_memory()
    started = perf_counter()
    model = peer(job["seed"], job["jobs"]).make("regression", len(y)).fit(X, y)
    fitted = perf_counter()
    peak = peak_memory() - baseline
    X_test, _, truth = table(job, job["test_rows"], "test")
    begun = perf_counter()
    gaps = model.predict(X_test) - truth
    found = {
        "fit": fitted - started,
        "predict": perf_counter() - begun,
        "error": float(np.sqrt(np.mean(gaps**2)) / truth.std()),
        "peak": peak,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
