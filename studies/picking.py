"""Records that a figure or a table asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gramless.base.words import duration
from studies.records import DONE
from studies.study import Record


def done(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """Return the records of runs that ended well, in their order.

    Parameters
    ----------
    records : iterable of dict
    **wanted
        What entries of a record must be; ``options`` must be among a record's, others equal.

    Examples
    --------
    >>> records = [{"status": "done", "data": "a", "options": {"size": 8}}, {"status": "failed"}]
    >>> len(done(records, data="a", options={"size": 8})), len(done(records, data="b"))
    (1, 0)
    """
    return [one for one in records if one["status"] == DONE and _is(one, wanted)]


def last(records: Iterable[Record], **wanted: Any) -> Record | None:
    """Return the last of :func:`done`, None if there is none."""
    found = done(records, **wanted)
    return found[-1] if found else None


def why_not(records: Iterable[Record], **wanted: Any) -> str:
    """Return why nothing was measured, in words.

    Examples
    --------
    >>> why_not([{"status": "failed", "reason": "too few rows", "data": "a"}], data="a")
    'failed: too few rows'
    >>> why_not([], data="a")
    'not run'
    """
    for record in records:
        if record["status"] != DONE and _is(record, wanted):
            return ": ".join(text for text in (record["status"], record.get("reason", "")) if text)
    return "not run"


def fit_seconds(record: Record) -> float:
    """Return the seconds of one machine's training, the others of its job left out.

    Examples
    --------
    >>> fit_seconds({"seconds": {"total": 5.0}, "facts": {"seconds": 2.0}})
    2.0
    """
    return float(record["facts"].get("seconds", record["seconds"]["total"]))


def brief(seconds: float) -> str:
    """Return a time for people, short ones with two digits.

    Examples
    --------
    >>> brief(0.0312), brief(75.0)
    ('0.031 s', '1 min 15 s')
    """
    return f"{seconds:.2g} s" if seconds < 10.0 else duration(seconds)


def _is(record: Record, wanted: dict[str, Any]) -> bool:
    wanted = dict(wanted)
    options = wanted.pop("options", {})
    given = record.get("options", {})
    alike = all(record.get(name) == value for name, value in wanted.items())
    return alike and all(given.get(name) == value for name, value in options.items())
