"""Trainers that do next to nothing, found by the worker as the real ones are."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from gramless.base.errors import MissingDependencyError
from gramless.base.threads import thread_count
from studies.study import Snapshot


def _most_frequent(training, **rest):
    values, counts = np.unique(training.y, return_counts=True)
    label = values[np.argmax(counts)]
    return Snapshot(lambda X: np.full(X.shape[0], label), **rest)


def constant(training, options, clock):
    print("words of a trainer are no record")
    os.write(1, b"nor are those of its libraries\n")
    facts = {
        "rows": len(training.y),
        "threads": thread_count(options.get("n_jobs")),
        "peers": os.environ.get("OMP_NUM_THREADS"),
        "some": np.float32(0.5),
    }
    yield _most_frequent(training, facts=facts)


def sleeping(training, options, clock):
    is_rehearsal = len(training.y) <= 500
    if "told" in options and not is_rehearsal:
        Path(options["told"]).write_text(str(os.getpid()))
    for step in range(options["n_snapshots"]):
        with clock.phase("sleep"):
            time.sleep(0.0 if is_rehearsal else options["seconds"])
        yield _most_frequent(training, facts={"step": step})


def slowly_judged(training, options, clock):
    def predict(X):
        if len(X) != 500:
            time.sleep(0.05)
        return np.full(len(X), training.y[0])

    for _ in range(2):
        yield Snapshot(predict)


def allocating(training, options, clock):
    if len(training.y) > 500:
        block = np.ones(options["megabytes"] * 1_000_000 // 8)
        del block
    yield _most_frequent(training)


def failing(training, options, clock):
    yield _most_frequent(training)
    if len(training.y) > 500:
        raise ValueError("weights are\nnot finite")


def needing(training, options, clock):
    raise MissingDependencyError("pip install something")
    yield


def dying(training, options, clock):
    yield _most_frequent(training)
    os._exit(3)


def wordless(training, options, clock):
    yield from ()


TRAINERS = {
    one.__name__: one
    for one in (
        constant,
        sleeping,
        slowly_judged,
        allocating,
        failing,
        needing,
        dying,
        wordless,
    )
}
