"""Measure one job in this process: load its rows, run its trainer and score the snapshots.

``python -m studies.worker`` reads a request from its standard input and writes one line of JSON
per snapshot; :mod:`studies.process` starts it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import MissingDependencyError
from harness.data_sets import Dataset
from harness.memory import PeakMemory
from harness.process import answers, requests
from harness.timing import StopWatch
from studies.catalogue import TRAINER_MODULES, find_trainer
from studies.records import DONE, FAILED, UNAVAILABLE, to_line
from studies.rows import load_rows, sample_rows
from studies.scores import SCORES, Rows, Scorer
from studies.study import Job, Record, Snapshot, Trainer, Training

_SCORED_TRAINING_ROWS = 20_000  # Scoring all training rows would take longer than many fits.
_REHEARSAL_ROWS = 500


def measure(
    job: Job, folder: str | None = None, modules: Sequence[str] = TRAINER_MODULES
) -> Iterator[Record]:
    """Run a job in this process and yield a record for each snapshot.

    The trainer first runs on few rows up to its first snapshot, so that packages are imported and
    compiled loops are loaded. Time and peak memory are those of the second run, without scoring.

    Parameters
    ----------
    job : Job
    folder : str, default=None
        Folder of data sets, passed to :func:`harness.data_sets.data_folder`.
    modules : sequence of str
        Modules with trainers.

    Yields
    ------
    dict
        ``snapshot``, ``status``, ``task``, ``rows``, ``inputs``, ``seconds``, ``memory`` (bytes),
        ``scores``, ``facts``, ``rehearsal`` (seconds of the first run).

    Raises
    ------
    InputError, DataFileError, MissingDependencyError
        A trainer may raise other exceptions as well.
    """
    trainer = find_trainer(job.method, modules)
    data = load_rows(
        job.data, folder, n_train=job.n_train, n_test=job.n_test, seed=job.seed, split=job.split
    )
    scorer = _scorer(job, data)
    training = Training(data.X_train, data.y_train, data.task, job.seed)
    shared = {
        "status": DONE,
        "task": data.task,
        "rows": [len(data.y_train), len(data.y_test)],
        "inputs": data.X_train.shape[1],
    }
    del data
    shared["rehearsal"] = _rehearse(trainer, training, job.options)
    peak, watch = PeakMemory(), StopWatch()
    for index, snapshot in enumerate(trainer(training, job.options, watch)):
        with watch.stopped(), peak.ignoring():
            predictions, seconds = _predict(scorer, snapshot)
            yield {
                **shared,
                "snapshot": index,
                "seconds": {**watch.seconds(), **seconds},
                "memory": peak.bytes(),
                "scores": scorer.scores(snapshot, predictions),
                "facts": dict(snapshot.facts),
            }


def _scorer(job: Job, data: Dataset) -> Scorer:
    # The text names a random stream: stored results depend on it.
    indices = sample_rows(len(data.y_train), _SCORED_TRAINING_ROWS, job.seed, "rows judged")
    classes = np.array([]) if data.task == "regression" else np.unique(data.y_train)
    train = Rows(data.X_train[indices], data.y_train[indices])
    loss = job.options.get("loss")
    loss_name = loss if isinstance(loss, str) else None
    return Scorer(data.task, classes, train, Rows(data.X_test, data.y_test), job.scores, loss_name)


def _rehearse(trainer: Trainer, training: Training, options: Mapping[str, Any]) -> float:
    """Run a trainer on few rows up to its first snapshot, and return the seconds."""
    started = time.perf_counter()
    indices = sample_rows(len(training.y), _REHEARSAL_ROWS, training.seed, "rows rehearsed")
    rows = Training(training.X[indices], training.y[indices], training.task, training.seed)
    try:
        for snapshot in trainer(rows, options, StopWatch()):
            snapshot.predict(rows.X)
            break
    except Exception as error:
        # The sample may be too small for the options; other errors recur in the measured run.
        print(f"rehearsal: {error!r}", file=sys.stderr)
    return time.perf_counter() - started


def _predict(scorer: Scorer, snapshot: Snapshot) -> tuple[NDArray[Any] | None, dict[str, float]]:
    """Return the predictions for the test rows and their seconds, if a score needs them."""
    needed = {(SCORES[name].part, SCORES[name].uses) for name in scorer.names}
    if ("test", "predictions") not in needed:
        return None, {}
    started = time.perf_counter()
    predictions = snapshot.predict(scorer.test.X)
    return predictions, {"predict": time.perf_counter() - started}


def error_record(error: Exception, n_snapshots: int) -> Record:
    """Return the record of a run that an exception has ended after some snapshots.

    Examples
    --------
    >>> error_record(ModuleNotFoundError("no trees here", name="lightgbm"), 0)["status"]
    'unavailable'
    """
    is_missing = _is_missing_package(error)
    return {
        "snapshot": n_snapshots,
        "status": UNAVAILABLE if is_missing else FAILED,
        "reason": f"{type(error).__name__}: {' '.join(str(error).split())}",
        "facts": {"missing": "package"} if is_missing else {},
    }


def _is_missing_package(error: Exception) -> bool:
    library = "gramless"
    if isinstance(error, ModuleNotFoundError):
        # A missing module of this package is a bug, not a missing dependency.
        return not (error.name or library).startswith(library)
    return isinstance(error, MissingDependencyError)


def main() -> None:
    """Answer the request on the standard input."""
    output = answers()
    request = json.loads(next(requests()))
    scores = tuple(request["job"].pop("scores"))
    job, n_snapshots = Job(**request["job"], scores=scores), 0
    try:
        for record in measure(job, request["folder"], request["modules"]):
            output.write(to_line(record))
            n_snapshots += 1
        if n_snapshots == 0:
            raise ValueError(f"{job.method} made no snapshot")
    except Exception as error:
        output.write(to_line(error_record(error, n_snapshots)))
    sys.stderr.flush()
    # Threads of other packages may hang or crash when the interpreter shuts down.
    os._exit(0)


if __name__ == "__main__":
    main()
