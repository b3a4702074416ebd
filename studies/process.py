"""Run a job in a separate process and return its records."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from gramless.base.threads import available_cpus
from harness.load import OtherPrograms
from harness.machine import machine, versions
from harness.process import Worker
from studies.catalogue import TRAINER_MODULES
from studies.records import FAILED, NO_DATA, OVER_TIME, UNAVAILABLE, parse_line
from studies.study import Job, Record

# -P keeps modules in the working folder from being imported.
WORKER = (sys.executable, "-P", "-m", "studies.worker")
_MIN_LIMIT_SECONDS, _LIMIT_FACTOR = 60.0, 6.0
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_EMPTY_RECORD: Record = {
    "reason": "",
    "task": "",
    "rows": [0, 0],
    "inputs": 0,
    "seconds": {},
    "memory": 0.0,
    "scores": {},
    "facts": {},
    "rehearsal": 0.0,
}


def time_limit(job: Job) -> float:
    """Return the seconds after which a job's process is killed.

    Examples
    --------
    >>> time_limit(Job("a/b", "letter", "binning", seconds=20.0))
    120.0
    """
    return max(_MIN_LIMIT_SECONDS, _LIMIT_FACTOR * job.seconds)


def run_job(
    job: Job,
    folder: str | os.PathLike[str] | None = None,
    *,
    limit: float | None = None,
    modules: Sequence[str] = TRAINER_MODULES,
) -> list[Record]:
    """Run a job in a separate process and return its records.

    The process and the thread pools of all packages in it may use every core available to this
    process. It ends when this process ends.

    Parameters
    ----------
    job : Job
    folder : str or path-like, default=None
        Folder of data sets, passed to :func:`harness.data_sets.data_folder`.
    limit : float, default=None
        Seconds after which the process is killed; :func:`time_limit` by default.
    modules : sequence of str
        Modules with trainers.

    Returns
    -------
    list of dict
        One record per snapshot, and one more if the run failed or exceeded its limit. In addition
        to the entries of :func:`studies.worker.measure`, each has ``wall``, the seconds of the
        whole process, ``others``, the mean number of cores that other programs kept busy,
        ``machine``, ``versions``, ``when`` and ``commit``.
    """
    limit = time_limit(job) if limit is None else limit
    request = {
        "job": {**job.identity, "seconds": job.seconds},
        "folder": None if folder is None else os.fspath(folder),
        "modules": list(modules),
    }
    started, others = time.perf_counter(), OtherPrograms()
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with Worker(WORKER, dict.fromkeys(_THREADS, str(available_cpus()))) as worker:
        records, has_timed_out = _receive_records(worker, json.dumps(request), limit)
        if has_timed_out:
            records.append(_timeout_record(len(records), limit))
        elif (code := worker.wait()) != 0:
            records.append(_crash_record(len(records), code, worker.errors()))
    wall = time.perf_counter() - started
    run = {
        "wall": wall,
        "others": others.cores(),
        "machine": machine(),
        "versions": versions(),
        "when": when,
        "commit": commit(),
    }
    return [{**_EMPTY_RECORD, **record, **run} for record in records]


@cache
def commit() -> str:
    """Return the commit of this repository, with a plus if tracked files differ from it.

    It is "" outside a repository.
    """
    root = Path(__file__).parent
    try:
        commit_hash, changes = [
            subprocess.run(
                ["git", *words], cwd=root, capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (
                ["rev-parse", "--short=8", "HEAD"],
                ["status", "--porcelain", "--untracked-files=no"],
            )
        ]
    except (OSError, subprocess.CalledProcessError):
        return ""
    return commit_hash + ("+" if changes else "")


def records_without_data(job: Job, reason: str) -> list[Record]:
    """Return the records of a job whose data set is missing.

    Parameters
    ----------
    job : Job
    reason : str
    """
    facts = {"missing": NO_DATA, "name": job.data}
    entries = {"snapshot": 0, "status": UNAVAILABLE, "reason": reason, "facts": facts}
    return [{**_EMPTY_RECORD, **entries}]


def _receive_records(worker: Worker, request: str, limit: float) -> tuple[list[Record], bool]:
    """Return the records that a worker sends, and whether it exceeded the time limit."""
    records: list[Record] = []
    end = time.monotonic() + limit
    worker.send(request)
    try:
        while line := worker.receive(end - time.monotonic()):
            record = parse_line(line)
            # Trainers may print lines of their own.
            if record is not None:
                records.append(record)
    except TimeoutError:
        return records, True
    return records, False


def _timeout_record(n_snapshots: int, limit: float) -> Record:
    reason = f"ended after {limit:.0f} s"
    seconds = {"total": limit}
    return {"snapshot": n_snapshots, "status": OVER_TIME, "reason": reason, "seconds": seconds}


def _crash_record(n_snapshots: int, code: int, errors: str) -> Record:
    """Return the record of a process that ended without reporting an exception."""
    lines = errors.strip().splitlines()
    how = f"signal {-code}, perhaps for want of memory" if code < 0 else f"exit code {code}"
    reason = f"the process ended by {how}" + (f": {lines[-1]}" if lines else "")
    return {"snapshot": n_snapshots, "status": FAILED, "reason": reason}
