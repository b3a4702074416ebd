"""The store of measured records, their JSON lines, and queries."""

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
NO_DATA = "data set"  # the value of facts["missing"] if not a package but a data set is missing

NOT_RUN = "not run yet, or beyond the study's budget"
_MEASURED = ("scores", "seconds", "memory")


class Store:
    """A folder of records, with one file of JSON lines per study.

    If a job was run several times, only the records of its last run are read. All records of a run
    are written together after its end. Each contains their number, so that a run that was written
    only in part is recognised and ignored.

    Parameters
    ----------
    folder : Path
        Created at the first write.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store, job = Store(Path(folder)), Job("rb16/figure-4", "letter", "binning")
    ...     store.add(job, [{"snapshot": 0, "status": "done", "scores": {"test_error": 0.1}}])
    ...     [record["scores"] for record in store.read("rb16/figure-4")]
    [{'test_error': 0.1}]
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, study: str) -> Path:
        """Return the file of a study, such as ``"rb16/figure-4"``."""
        return self.folder / f"{study.replace('/', '-')}.jsonl"

    def add(self, job: Job, records: Sequence[Record]) -> None:
        """Append the records of one run of a job, and wait until they are on the disk.

        Parameters
        ----------
        job : Job
        records : sequence of dict
            One record per snapshot, without the job's key and identity, which are added.
        """
        shared = {"key": job.key, **job.identity, "snapshots": len(records)}
        lines = [to_line({**shared, **record}) for record in records]
        path = self.path(job.study)
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_incomplete_line(path)
        with path.open("ab") as file:
            file.write("".join(lines).encode())
            file.flush()
            os.fsync(file.fileno())

    def read(self, study: str) -> list[Record]:
        """Return the records of the last run of every job of a study.

        Parameters
        ----------
        study : str
            Such as ``"rb16/figure-4"``.

        Returns
        -------
        list of dict
            In the order of each job's first run. Measurements stored as null are NaN.

        Raises
        ------
        DataFileError
            If a line is damaged. A damaged last line, as an interrupted write leaves it, is
            skipped with a warning.
        """
        runs: dict[str, list[Record]] = {}
        for record in _read(self.path(study)):
            if record["snapshot"] == 0:
                runs[record["key"]] = []
            runs.setdefault(record["key"], []).append(record)
        complete = (run for run in runs.values() if len(run) == run[0]["snapshots"])
        return [record for run in complete for record in run]


def settled_keys(records: Iterable[Record]) -> set[str]:
    """Return the keys of jobs that need not be run again.

    These are the jobs that are done, exceeded their time limit or lack a package. Jobs that failed
    or whose data set was missing are run again.

    Examples
    --------
    >>> sorted(settled_keys([{"key": "a", "status": "done"}, {"key": "b", "status": "failed"}]))
    ['a']
    """
    keys = set()
    for record in records:
        missing = record.get("facts", {}).get("missing")
        if record["status"] != FAILED and missing != NO_DATA:
            keys.add(record["key"])
    return keys - {record["key"] for record in records if record["status"] == FAILED}


def completed(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """Return the records with the status ``"done"`` and the given entries, in their order.

    Parameters
    ----------
    records : iterable of dict
    **wanted
        Required values of a record's entries. ``options`` may name only some of its options.

    Examples
    --------
    >>> records = [{"status": "done", "data": "a", "options": {"size": 8}}, {"status": "failed"}]
    >>> len(completed(records, data="a", options={"size": 8})), len(completed(records, data="b"))
    (1, 0)
    """
    return [record for record in records if record["status"] == DONE and _matches(record, wanted)]


def last_completed(records: Iterable[Record], **wanted: Any) -> Record | None:
    """Return the last record that :func:`completed` returns, or None."""
    matching = completed(records, **wanted)
    return matching[-1] if matching else None


def reason_missing(records: Iterable[Record], **wanted: Any) -> str:
    """Return why there is no measurement, as text for the report.

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
    """Return the training time of one model, even if its job trained several.

    Examples
    --------
    >>> fit_seconds({"seconds": {"total": 5.0}, "facts": {"seconds": 2.0}})
    2.0
    """
    return float(record["facts"].get("seconds", record["seconds"]["total"]))


def to_line(record: Record) -> str:
    r"""Return a record as a line of JSON, with null for NaN and infinity.

    Examples
    --------
    >>> to_line({"snapshot": 0, "memory": float("nan")})
    '{"snapshot": 0, "memory": null}\n'
    """
    return json.dumps(_to_json(record), allow_nan=False) + "\n"


def parse_line(line: bytes) -> Record | None:
    r"""Return the record in a line, or None if the line is incomplete or not a record.

    Examples
    --------
    >>> parse_line(b'{"snapshot": 0, "status": "done", "memory": null}\n')
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
    wanted_options = wanted.pop("options", {})
    options = record.get("options", {})
    return all(record.get(name) == value for name, value in wanted.items()) and all(
        options.get(name) == value for name, value in wanted_options.items()
    )


def _read(path: Path) -> Iterable[Record]:
    if not path.is_file():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        record = parse_line(line)
        if record is not None and {"key", "snapshots"} <= set(record):
            yield record
        elif number == len(lines):
            warnings.warn(f"{path}: the last line is damaged and left out.", stacklevel=2)
        else:
            raise DataFileError(f"{path}, line {number}, is not a record; delete the line.")


def _drop_incomplete_line(path: Path) -> None:
    """Remove an incomplete last line, which a process leaves if it ends while writing."""
    if not path.is_file():
        return
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)


def _to_json(value: Any) -> Any:
    """Return a value with lists for arrays, and None for NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(key): _to_json(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return _to_json(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _with_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_nan(item) for key, item in value.items()}
    return float("nan") if value is None else value
