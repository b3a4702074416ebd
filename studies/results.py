"""The content of a report: what the records of each study show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median
from textwrap import shorten
from typing import Any

from gramless.base.formatting import format_bytes
from studies.comparisons import Comparison, mark_repeated
from studies.records import DONE, FAILED, NO_DATA, OVER_TIME, UNAVAILABLE, settled_keys
from studies.runner import plan
from studies.study import Panel, Record, Study, TableOf

ENDS = {OVER_TIME: "over time", FAILED: "failed", UNAVAILABLE: "not available here"}
_MAX_NAMES, _MAX_REASON_LENGTH = 6, 200
_IDLE_CORES = 0.1  # If other programs keep fewer cores busy, the machine counts as idle.


@dataclass(frozen=True)
class StudyResults:
    """A study with its records and everything computed from them.

    Parameters
    ----------
    study : Study
    records : list of dict
    panels : list of Panel
    tables : list of TableOf
    comparisons : list of Comparison
    """

    study: Study
    records: list[Record]
    panels: list[Panel]
    tables: list[TableOf]
    comparisons: list[Comparison]


def collect_results(
    studies: Sequence[Study], records: Mapping[str, list[Record]]
) -> list[StudyResults]:
    """Return the results of each study, in the order of the studies.

    A published number that occurs in several studies is marked as repeated in all but one.

    Parameters
    ----------
    studies : sequence of Study
    records : mapping of str to list of dict
        Records by the keys of their studies; a study without an entry has no records.
    """
    results = [_results_of(study, records.get(study.key, [])) for study in studies]
    marked = iter(mark_repeated(one for result in results for one in result.comparisons))
    return [
        replace(result, comparisons=list(islice(marked, len(result.comparisons))))
        for result in results
    ]


def by_paper(results: Iterable[StudyResults]) -> dict[str, list[StudyResults]]:
    """Group results by paper, keeping their order."""
    groups: dict[str, list[StudyResults]] = {}
    for result in results:
        groups.setdefault(result.study.paper, []).append(result)
    return groups


def command(study: Study) -> str:
    """Return the command that runs a study.

    Examples
    --------
    >>> command(Study("rb16", "figure-5", "", "", list, minutes=1.0))
    'python -m studies rb16 --figure 5'
    """
    kind, _, rest = study.name.partition("-")
    option = f"--{kind} {rest}" if kind in ("figure", "table") else f"--study {study.name}"
    return f"python -m studies {study.paper} {option}"


def jobs_of(records: Iterable[Record]) -> list[list[Record]]:
    """Return the records grouped by job, in order."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record["key"], []).append(record)
    return list(groups.values())


def misses(records: Sequence[Record]) -> tuple[str, list[str]]:
    """Return a summary of the jobs that did not complete, and the reasons.

    Parameters
    ----------
    records : sequence of dict
        The records of one study.

    Returns
    -------
    summary : str
        A sentence; "" if all jobs completed.
    reasons : list of str
        For each status and reason, the jobs concerned.
    """
    jobs = jobs_of(records)
    groups: dict[tuple[str, str], list[Record]] = {}
    for *_, last in jobs:
        if last["status"] != DONE:
            reason = shorten(last.get("reason", ""), _MAX_REASON_LENGTH, placeholder=" …")
            groups.setdefault((last["status"], reason), []).append(last)
    if not groups:
        return "", []
    missed = sum(map(len, groups.values()))
    verb = "was" if missed == 1 else "were"
    reasons = [
        f"{ENDS.get(status, status)}: {_job_names(last_records)}"
        + (f" ({reason})" if reason else "")
        for (status, reason), last_records in groups.items()
    ]
    return f"{missed} of {plural(len(jobs), 'run')} {verb} not measured to the end.", reasons


def fits(results: Iterable[StudyResults]) -> str:
    """Return the number of measured jobs, and of those that the budgets would still allow."""
    n_measured, n_left = 0, 0
    for result in results:
        keys = settled_keys(result.records)
        absent = {record["data"] for record in result.records if _has_no_data(record)}
        budget = 60.0 * result.study.minutes
        n_measured += len(keys)
        n_left += len(plan([result.study], keys, budget, absent.__contains__).jobs)
    more = f"; the budgets allow {n_left:,} more" if n_left else ""
    return f"{n_measured:,} measured{more}"


def when_and_where(records: Sequence[Record]) -> str:
    """Return a sentence with the dates and the commits of the records."""
    days = sorted({str(record["when"])[:10] for record in records if record.get("when")})
    commits = dict.fromkeys(record["commit"] for record in records if record.get("commit"))
    if not days:
        return ""
    when = " to ".join(dict.fromkeys([days[0], days[-1]]))
    return f"Measured {when}" + (f" at {', '.join(commits)}" if commits else "") + "."


def others_at_work(records: Iterable[Record]) -> str:
    """Return a sentence about other programs that kept the machine busy during the jobs.

    Examples
    --------
    >>> runs = [{"key": "a", "others": 1.75}, {"key": "b", "others": 0.01}, {"key": "c"}]
    >>> others_at_work(runs[1:2])
    'No other program was at work.'
    >>> others_at_work(runs)
    'Seconds are not reliable: other programs kept 1.8 cores busy during 1 of 3 fits; of 1 it is \
not recorded.'
    """
    cores = [job[0].get("others") for job in jobs_of(records) if not _has_no_data(job[0])]
    recorded = [one for one in cores if one is not None]
    busy, n_unknown = [one for one in recorded if one > _IDLE_CORES], len(cores) - len(recorded)
    if not cores:
        return ""
    if busy:
        sentence = (
            f"Seconds are not reliable: other programs kept {median(busy):.1f} cores busy during "
            f"{len(busy):,} of {plural(len(cores), 'fit')}"
        )
        return sentence + (f"; of {n_unknown:,} it is not recorded." if n_unknown else ".")
    if not recorded:
        return "It is not recorded whether other programs were at work."
    quiet = "No other program was at work"
    return quiet + (f"; of {plural(n_unknown, 'fit')} it is not recorded." if n_unknown else ".")


def machines(records: Iterable[Record]) -> list[str]:
    """Return descriptions of the machines of the records, each once.

    Examples
    --------
    >>> machines([{"machine": {"cpu": "EPYC", "cores": 2, "memory": 8_300_000_000}}])
    ['EPYC, 2 cores, 8.3 GB']
    """
    texts = (_describe_machine(record.get("machine", {})) for record in records)
    return list(dict.fromkeys(filter(None, texts)))


def plural(count: float, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1.

    Examples
    --------
    >>> plural(1, "run"), plural(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{count:,g} {noun}" if count == 1 else f"{count:,g} {noun}s"


def _results_of(study: Study, records: list[Record]) -> StudyResults:
    return StudyResults(
        study, records, study.panels(records), study.tables(records), study.comparisons(records)
    )


def _has_no_data(record: Record) -> bool:
    return bool(record.get("facts", {}).get("missing") == NO_DATA)


def _describe_machine(machine: Mapping[str, Any]) -> str:
    words = [str(machine.get("cpu", ""))]
    if machine.get("cores"):
        words.append(plural(machine["cores"], "core"))
    if machine.get("memory"):
        words.append(format_bytes(machine["memory"]))
    return ", ".join(filter(None, [*words, machine.get("system", "")]))


def _job_names(records: Sequence[Record]) -> str:
    names = list(dict.fromkeys(map(_job_name, records)))
    more = f"; and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return "; ".join(names[:_MAX_NAMES]) + more


def _job_name(record: Record) -> str:
    options = "".join(f", {name} {value}" for name, value in record.get("options", {}).items())
    return f"{record['method']} on {record['data']}{options}"
