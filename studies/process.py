"""The records of a job, which runs in a process of its own."""

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
from studies.records import FAILED, NO_DATA, OVER_TIME, UNAVAILABLE, parsed
from studies.study import Job, Record

WORKER = (sys.executable, "-P", "-m", "studies.worker")
"""The command that runs one job; the working folder is no place for modules."""
_LEAST_LIMIT, _LIMIT_FACTOR = 60.0, 6.0
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_NOTHING: Record = {
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
    """Return the seconds after which a job's process is ended.

    Examples
    --------
    >>> time_limit(Job("a/b", "letter", "binning", seconds=20.0))
    120.0
    """
    return max(_LEAST_LIMIT, _LIMIT_FACTOR * job.seconds)


def run_job(
    job: Job,
    folder: str | os.PathLike[str] | None = None,
    *,
    limit: float | None = None,
    modules: Sequence[str] = TRAINER_MODULES,
) -> list[Record]:
    """Run a job in a process of its own and return its records.

    The process may use every core that this one may, its peers' thread pools as well. It ends
    when this one does.

    Parameters
    ----------
    job : Job
    folder : str or path-like, default=None
        Of data sets, as :func:`harness.data_sets.data_folder`.
    limit : float, default=None
        Seconds after which it is ended; :func:`time_limit` by default.
    modules : sequence of str
        Where trainers are looked for.

    Returns
    -------
    list of dict
        One a snapshot, and one more for what ended the run before it was done. With ``wall``, the
        seconds of the whole process, ``others``, the cores that other programs kept busy
        meanwhile, ``machine``, ``versions``, ``when`` and ``commit``.
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
        records, is_over = _listen(worker, json.dumps(request), limit)
        if is_over:
            records.append(_over_time(len(records), limit))
        elif (code := worker.wait()) != 0:
            records.append(_crashed(len(records), code, worker.errors()))
    wall = time.perf_counter() - started
    run = {
        "wall": wall,
        "others": others.cores(),
        "machine": machine(),
        "versions": versions(),
        "when": when,
        "commit": commit(),
    }
    return [{**_NOTHING, **record, **run} for record in records]


@cache
def commit() -> str:
    """Return the commit of this repository, with a plus if tracked files differ from it."""
    root = Path(__file__).parent
    try:
        said = [
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
    return said[0] + ("+" if said[1] else "")


def no_data(job: Job, reason: str) -> list[Record]:
    """Return the records of a job whose data set is not there.

    Parameters
    ----------
    job : Job
    reason : str
    """
    facts = {"missing": NO_DATA, "name": job.data}
    return [{**_NOTHING, "snapshot": 0, "status": UNAVAILABLE, "reason": reason, "facts": facts}]


def _listen(worker: Worker, request: str, limit: float) -> tuple[list[Record], bool]:
    """Return what a worker sends, and whether it takes too long."""
    records: list[Record] = []
    end = time.monotonic() + limit
    worker.send(request)
    try:
        while line := worker.receive(end - time.monotonic()):
            record = parsed(line)
            if record is not None:
                records.append(record)
    except TimeoutError:
        return records, True
    return records, False


def _over_time(n_snapshots: int, limit: float) -> Record:
    reason = f"ended after {limit:.0f} s"
    seconds = {"total": limit}
    return {"snapshot": n_snapshots, "status": OVER_TIME, "reason": reason, "seconds": seconds}


def _crashed(n_snapshots: int, code: int, errors: str) -> Record:
    """Return the record of a process that ended without a word."""
    words = errors.strip().splitlines()
    how = f"signal {-code}, perhaps for want of memory" if code < 0 else f"exit code {code}"
    reason = f"the process ended by {how}" + (f": {words[-1]}" if words else "")
    return {"snapshot": n_snapshots, "status": FAILED, "reason": reason}
