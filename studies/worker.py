"""One job, measured in this process: rows loaded, a trainer run, its snapshots scored.

``python -m studies.worker`` reads a request from its input and writes a line of JSON
a snapshot; :mod:`studies.process` starts it.
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
from studies.records import DONE, FAILED, UNAVAILABLE, as_line
from studies.rows import drawn, load_rows
from studies.scores import SCORES, Judge, Rows
from studies.study import Job, Record, Snapshot, Trainer, Training

_JUDGED_ROWS = 20_000
"""Training rows that scores of the training part are taken from."""
_REHEARSED_ROWS = 500


def measure(
    job: Job, folder: str | None = None, modules: Sequence[str] = TRAINER_MODULES
) -> Iterator[Record]:
    """Run a job in this process and yield a record a snapshot.

    The trainer first runs once on few rows, not measured, as far as its first snapshot: compiled
    loops are loaded then, for all methods alike. Its clock and the peak of memory are of
    the second run alone; both leave out what scoring takes.

    Parameters
    ----------
    job : Job
    folder : str, default=None
        Of data sets, as :func:`harness.data_sets.data_folder`.
    modules : sequence of str
        Where trainers are looked for.

    Yields
    ------
    dict
        ``snapshot``, ``status``, ``task``, ``rows``, ``inputs``, ``seconds``, ``memory`` (bytes),
        ``scores``, ``facts``, ``rehearsal`` (seconds of the first run).

    Raises
    ------
    InputError, DataFileError, MissingDependencyError
        And whatever a trainer raises.
    """
    trainer = find_trainer(job.method, modules)
    data = load_rows(
        job.data, folder, n_train=job.n_train, n_test=job.n_test, seed=job.seed, split=job.split
    )
    judge, training = _judge(job, data), _training(job, data)
    head = {
        "status": DONE,
        "task": data.task,
        "rows": [len(data.y_train), len(data.y_test)],
        "inputs": data.X_train.shape[1],
    }
    del data
    head["rehearsal"] = _rehearse(trainer, training, job.options)
    peak, watch = PeakMemory(), StopWatch()
    for index, snapshot in enumerate(trainer(training, job.options, watch)):
        with watch.stopped(), peak.ignoring():
            predictions, seconds = _predict(judge, snapshot)
            yield {
                **head,
                "snapshot": index,
                "seconds": {**watch.seconds(), **seconds},
                "memory": peak.bytes(),
                "scores": judge.scores(snapshot, predictions),
                "facts": dict(snapshot.facts),
            }


def _training(job: Job, data: Dataset) -> Training:
    return Training(data.X_train, data.y_train, data.task, job.seed)


def _judge(job: Job, data: Dataset) -> Judge:
    few = drawn(len(data.y_train), _JUDGED_ROWS, job.seed, "rows judged")
    classes = np.array([]) if data.task == "regression" else np.unique(data.y_train)
    train = Rows(data.X_train[few], data.y_train[few])
    loss = job.options.get("loss")
    named = loss if isinstance(loss, str) else None
    return Judge(data.task, classes, train, Rows(data.X_test, data.y_test), job.scores, named)


def _rehearse(trainer: Trainer, training: Training, options: Mapping[str, Any]) -> float:
    """Run a trainer on few rows and return the seconds that took."""
    started = time.perf_counter()
    few = drawn(len(training.y), _REHEARSED_ROWS, training.seed, "rows rehearsed")
    rows = Training(training.X[few], training.y[few], training.task, training.seed)
    try:
        for snapshot in trainer(rows, options, StopWatch()):
            snapshot.predict(rows.X)
            break
    except Exception as fault:
        # Few rows may be too few for what is asked; a real fault comes again with all rows.
        print(f"rehearsal: {fault!r}", file=sys.stderr)
    return time.perf_counter() - started


def _predict(judge: Judge, snapshot: Snapshot) -> tuple[NDArray[Any] | None, dict[str, float]]:
    """Return the predictions of the test rows and their seconds, if a score asks for them."""
    asked = {(SCORES[name].part, SCORES[name].asks) for name in judge.names}
    if ("test", "predictions") not in asked:
        return None, {}
    started = time.perf_counter()
    predictions = snapshot.predict(judge.test.X)
    return predictions, {"predict": time.perf_counter() - started}


def ended(fault: Exception, n_snapshots: int) -> Record:
    """Return the record of a run that a fault has ended.

    Examples
    --------
    >>> ended(ModuleNotFoundError("no trees here", name="lightgbm"), 0)["status"]
    'unavailable'
    """
    is_missing = _is_missing_package(fault)
    return {
        "snapshot": n_snapshots,
        "status": UNAVAILABLE if is_missing else FAILED,
        "reason": f"{type(fault).__name__}: {' '.join(str(fault).split())}",
        "facts": {"missing": "package"} if is_missing else {},
    }


def _is_missing_package(fault: Exception) -> bool:
    ours = "gramless"
    if isinstance(fault, ModuleNotFoundError):
        return not (fault.name or ours).startswith(ours)
    return isinstance(fault, MissingDependencyError)


def main() -> None:
    """Answer the request on the standard input."""
    lines = answers()
    request = json.loads(next(requests()))
    scores = tuple(request["job"].pop("scores"))
    job, n_snapshots = Job(**request["job"], scores=scores), 0
    try:
        for record in measure(job, request["folder"], request["modules"]):
            lines.write(as_line(record))
            n_snapshots += 1
        if n_snapshots == 0:
            raise ValueError(f"{job.method} made no snapshot")
    except Exception as fault:
        lines.write(as_line(ended(fault, n_snapshots)))
    sys.stderr.flush()
    # All is said: threads of other packages that do not end well are no fault of the method.
    os._exit(0)


if __name__ == "__main__":
    main()
