"""One fit with default parameters in its own process: seconds, errors, memory.

The argument is a job as JSON: ``table`` (in ``_waves_and_jumps``), ``rows``, ``test_rows``,
``method``, ``seed``, ``jobs``. Prints JSON. Errors are RMSE against the noise-free targets, over
their standard deviation.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter

import _repository  # noqa: F401
from _waves_and_jumps import table

from benchmarks.common import Row, rmse
from benchmarks.versus.turns import find_methods
from harness.memory import peak_memory

WARM_UP_ROWS = 2000


def main() -> None:
    job: Row = json.loads(sys.argv[1])
    (peer,) = find_methods([job["method"]])
    name, seed = job["table"], job["seed"]
    X, y, _ = table(name, seed, WARM_UP_ROWS, "warm-up")
    peer(0, job["jobs"]).make("regression", WARM_UP_ROWS).fit(X, y).predict(X)
    X, y, _ = table(name, seed, job["rows"], "training")
    baseline = peak_memory()
    started = perf_counter()
    model = peer(seed, job["jobs"]).make("regression", len(y)).fit(X, y)
    fitted = perf_counter()
    peak = peak_memory() - baseline
    X_test, _, truth = table(name, seed, job["test_rows"], "test")
    begun = perf_counter()
    predicted = model.predict(X_test)
    result = {
        "fit": fitted - started,
        "predict": perf_counter() - begun,
        "error": rmse(predicted, truth) / float(truth.std()),
        "peak": peak,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
