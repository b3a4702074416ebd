"""Time import, load, first and later predictions of one row in a new process. Prints JSON."""

from __future__ import annotations

import json
import sys
from time import perf_counter

import numpy as np


def main() -> None:
    job = json.loads(sys.argv[1])
    row = np.full((1, job["inputs"]), 0.25)
    started = perf_counter()
    if job["portable"]:
        from gramless.portable import PortableModel as load
    else:
        from gramless import load  # type: ignore[assignment]
    imported = perf_counter()
    model = load(job["path"])
    loaded = perf_counter()
    model.predict(row)
    seconds = {
        "import": imported - started,
        "load": loaded - imported,
        "first": perf_counter() - loaded,
    }
    later = []
    for _ in range(30):
        began = perf_counter()
        model.predict(row)
        later.append(perf_counter() - began)
    print(json.dumps({**seconds, "later": float(np.median(later))}))


if __name__ == "__main__":
    main()
