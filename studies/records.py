"""Records of what was measured: their store, lines of JSON, and picking among them."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gramless.base.errors import DataFileError
from studies.study import Job, Record

DONE, OVER_TIME, FAILED, UNAVAILABLE = "done", "over time", "failed", "unavailable"
NO_DATA = "data set"
"""What ``facts["missing"]`` says where a data set was missing, and not a package."""

NOT_RUN = "not run yet, or beyond the study's budget"
_MEASURED = ("scores", "seconds", "memory")


class Store:
    """Records in a folder, a file of JSON lines a study.

    A job that was run again replaces its earlier records when they are read. The records of a
    run are written at once, when it has ended; each says how many they are, so that those
    of a run of which a part is missing count as not there.

    Parameters
    ----------
    folder : Path
        Made when something is written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store, job = Store(Path(folder)), Job("rb16/figure-4", "letter", "binning")
    ...     store.add(job, [{"snapshot": 0, "status": "done", "scores": {"test_error": 0.1}}])
    ...     [record["scores"] for record in store.of("rb16/figure-4")]
    [{'test_error': 0.1}]
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, study: str) -> Path:
        """Return the file of a study, such as ``"rb16/figure-4"``."""
        return self.folder / f"{study.replace('/', '-')}.jsonl"

    def add(self, job: Job, records: Sequence[Record]) -> None:
        """Write the records of a run of a job.

        Returns once they are on the disk.

        Parameters
        ----------
        job : Job
        records : sequence of dict
            One a snapshot, the job's key and identity added here.
        """
        head = {"key": job.key, **job.identity, "snapshots": len(records)}
        lines = [as_line({**head, **one}) for one in records]
        path = self.path(job.study)
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_torn_line(path)
        with path.open("ab") as file:
            file.write("".join(lines).encode())
            file.flush()
            os.fsync(file.fileno())

    def of(self, study: str) -> list[Record]:
        """Return the records of the last run of every job of a study.

        Parameters
        ----------
        study : str
            Such as ``"rb16/figure-4"``.

        Returns
        -------
        list of dict
            Jobs in the order in which they first were run. Numbers that JSON lacks are NaN.

        Raises
        ------
        DataFileError
            If a line is damaged. A damaged last line, as of a run that was ended, is
            left out with a warning.
        """
        runs: dict[str, list[Record]] = {}
        for record in _read(self.path(study)):
            if record["snapshot"] == 0:
                runs[record["key"]] = []
            runs.setdefault(record["key"], []).append(record)
        return [one for run in runs.values() if len(run) == run[0]["snapshots"] for one in run]


def settled(records: Iterable[Record]) -> set[str]:
    """Return the keys of jobs that need not be run again.

    Those done, those over time, and those for which a package is missing. One whose data set was
    missing is tried again, as one that failed.

    Examples
    --------
    >>> sorted(settled([{"key": "a", "status": "done"}, {"key": "b", "status": "failed"}]))
    ['a']
    """
    found = set()
    for record in records:
        missing = record.get("facts", {}).get("missing")
        if record["status"] != FAILED and missing != NO_DATA:
            found.add(record["key"])
    return found - {record["key"] for record in records if record["status"] == FAILED}


def completed(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """Return the records of runs that ended well, in their order.

    Parameters
    ----------
    records : iterable of dict
    **wanted
        What entries of a record must be; ``options`` must be among a record's, others equal.

    Examples
    --------
    >>> records = [{"status": "done", "data": "a", "options": {"size": 8}}, {"status": "failed"}]
    >>> len(completed(records, data="a", options={"size": 8})), len(completed(records, data="b"))
    (1, 0)
    """
    return [one for one in records if one["status"] == DONE and _matches(one, wanted)]


def last_completed(records: Iterable[Record], **wanted: Any) -> Record | None:
    """Return the last of :func:`completed`, None if there is none."""
    found = completed(records, **wanted)
    return found[-1] if found else None


def reason_missing(records: Iterable[Record], **wanted: Any) -> str:
    """Return why nothing was measured, in words.

    Examples
    --------
    >>> reason_missing([{"status": "failed", "reason": "too few rows", "data": "a"}], data="a")
    'failed: too few rows'
    >>> reason_missing([], data="a")
    "not run yet, or beyond the study's budget"
    """
    for record in records:
        if record["status"] != DONE and _matches(record, wanted):
            return ": ".join(text for text in (record["status"], record.get("reason", "")) if text)
    return NOT_RUN


def fit_seconds(record: Record) -> float:
    """Return the seconds of one machine's training, the others of its job left out.

    Examples
    --------
    >>> fit_seconds({"seconds": {"total": 5.0}, "facts": {"seconds": 2.0}})
    2.0
    """
    return float(record["facts"].get("seconds", record["seconds"]["total"]))


def as_line(record: Record) -> str:
    r"""Return a record as a line of JSON; numbers that JSON lacks are null.

    Examples
    --------
    >>> as_line({"snapshot": 0, "memory": float("nan")})
    '{"snapshot": 0, "memory": null}\n'
    """
    return json.dumps(_plain(record), allow_nan=False) + "\n"


def parsed(line: bytes) -> Record | None:
    r"""Return a line as a record; None if it is none, or not whole.

    Examples
    --------
    >>> parsed(b'{"snapshot": 0, "status": "done", "memory": null}\n')
    {'snapshot': 0, 'status': 'done', 'memory': nan}
    """
    try:
        record = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    if not isinstance(record, dict) or not {"snapshot", "status"} <= set(record):
        return None
    for name in _MEASURED:
        if name in record:
            record[name] = _with_nan(record[name])
    return record


def _matches(record: Record, wanted: dict[str, Any]) -> bool:
    wanted = dict(wanted)
    options = wanted.pop("options", {})
    given = record.get("options", {})
    alike = all(record.get(name) == value for name, value in wanted.items())
    return alike and all(given.get(name) == value for name, value in options.items())


def _read(path: Path) -> Iterable[Record]:
    if not path.is_file():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        record = parsed(line)
        if record is not None and {"key", "snapshots"} <= set(record):
            yield record
        elif number == len(lines):
            warnings.warn(f"{path}: the last line is damaged and left out.", stacklevel=2)
        else:
            raise DataFileError(f"{path}, line {number}, is no record; delete the line.")


def _drop_torn_line(path: Path) -> None:
    """Cut off what follows the last end of a line: a run ended while it was written."""
    if not path.is_file():
        return
    whole = path.read_bytes()
    if whole and not whole.endswith(b"\n"):
        os.truncate(path, whole.rfind(b"\n") + 1)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: arrays as lists, what is no number as None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _with_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_nan(item) for key, item in value.items()}
    return float("nan") if value is None else value
