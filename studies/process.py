"""Jobs in processes of their own: started, listened to, ended when they take too long."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from gramless.base.threads import available_cpus
from studies.catalogue import TRAINER_MODULES
from studies.machine import machine, versions
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
        Of data sets, as :func:`gramless.datasets.data_folder`.
    limit : float, default=None
        Seconds after which it is ended; :func:`time_limit` by default.
    modules : sequence of str
        Where trainers are looked for.

    Returns
    -------
    list of dict
        One a snapshot, and one more for what ended the run before it was done. With ``wall``, the
        seconds of the whole process, ``machine``, ``versions`` and ``when``.
    """
    limit = time_limit(job) if limit is None else limit
    request = {
        "job": {**job.identity, "seconds": job.seconds},
        "folder": None if folder is None else os.fspath(folder),
        "modules": list(modules),
    }
    started = time.perf_counter()
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with tempfile.TemporaryFile() as said, _process(said) as process:
        records, is_over = _listen(process, json.dumps(request), limit)
        if is_over:
            records.append(_over_time(len(records), limit))
        elif process.returncode != 0:
            records.append(_crashed(len(records), process.returncode, said))
    wall = time.perf_counter() - started
    run = {"wall": wall, "machine": machine(), "versions": versions(), "when": when}
    return [{**_NOTHING, **record, **run} for record in records]


def no_data(job: Job, reason: str) -> list[Record]:
    """Return the records of a job whose data set is not there.

    Parameters
    ----------
    job : Job
    reason : str
    """
    facts = {"missing": NO_DATA, "name": job.data}
    return [{**_NOTHING, "snapshot": 0, "status": UNAVAILABLE, "reason": reason, "facts": facts}]


@contextlib.contextmanager
def _process(said: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a worker whose words go to a file; end it and its children in any case."""
    process = subprocess.Popen(
        WORKER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=said,
        env={**os.environ, **dict.fromkeys(_THREADS, str(available_cpus())), **_path()},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _kill(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _path() -> dict[str, str]:
    """Return where a worker finds this package, which is not installed."""
    paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    process.wait()


def _listen(
    process: subprocess.Popen[bytes], request: str, limit: float
) -> tuple[list[Record], bool]:
    """Return what a worker sends, and whether it was ended for taking too long."""
    records: list[Record] = []
    pipes: Any = process

    def listen() -> None:
        for line in pipes.stdout:
            record = parsed(line)
            if record is not None:
                records.append(record)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    with contextlib.suppress(OSError):
        pipes.stdin.write(request.encode() + b"\n")
        pipes.stdin.flush()
    # Its input stays open: the worker ends when it closes.
    listener.join(limit)
    is_over = listener.is_alive()
    if is_over:
        _kill(process)
    listener.join()
    process.wait()
    return records, is_over


def _over_time(n_snapshots: int, limit: float) -> Record:
    reason = f"ended after {limit:.0f} s"
    seconds = {"total": limit}
    return {"snapshot": n_snapshots, "status": OVER_TIME, "reason": reason, "seconds": seconds}


def _crashed(n_snapshots: int, code: int, said: IO[bytes]) -> Record:
    """Return the record of a process that ended without a word."""
    said.seek(0)
    words = said.read().decode(errors="replace").strip().splitlines()
    how = f"signal {-code}, perhaps for want of memory" if code < 0 else f"exit code {code}"
    reason = f"the process ended by {how}" + (f": {words[-1]}" if words else "")
    return {"snapshot": n_snapshots, "status": FAILED, "reason": reason}
