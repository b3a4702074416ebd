"""What a report shows of a study, computed once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median
from textwrap import shorten
from typing import Any

from gramless.base.formatting import format_bytes
from studies.comparisons import Comparison, mark_repeated
from studies.records import DONE, FAILED, NO_DATA, OVER_TIME, UNAVAILABLE, settled
from studies.runner import plan
from studies.study import Panel, Record, Study, TableOf

ENDS = {OVER_TIME: "over time", FAILED: "failed", UNAVAILABLE: "not available here"}
_MOST_TOLD, _LONGEST = 6, 200
_QUIET = 0.1
"""Cores that other programs may keep busy: seconds are then those of an idle machine."""


@dataclass(frozen=True)
class StudyResults:
    """A study with what its records show.

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
    """Return what each study shows, in the order of the studies.

    Numbers that stand in several studies are marked in all but one.

    Parameters
    ----------
    studies : sequence of Study
    records : mapping of str to list of dict
        By the studies' keys; a study that is not there has none.
    """
    shown = [_shown(study, records.get(study.key, [])) for study in studies]
    marked = iter(mark_repeated(one for study in shown for one in study.comparisons))
    return [
        replace(study, comparisons=list(islice(marked, len(study.comparisons)))) for study in shown
    ]


def by_paper(shown: Iterable[StudyResults]) -> dict[str, list[StudyResults]]:
    """Return studies by paper, both in the order in which they come."""
    found: dict[str, list[StudyResults]] = {}
    for one in shown:
        found.setdefault(one.study.paper, []).append(one)
    return found


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
    """Return the records of each job, in order."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["key"], []).append(record)
    return list(found.values())


def misses(records: Sequence[Record]) -> tuple[str, list[str]]:
    """Say which runs did not come to their end, and why.

    Parameters
    ----------
    records : sequence of dict
        Of one study.

    Returns
    -------
    told : str
        A sentence; "" if all were measured.
    reasons : list of str
        How they ended, which they are, and the reason.
    """
    jobs = jobs_of(records)
    groups: dict[tuple[str, str], list[Record]] = {}
    for *_, last in jobs:
        if last["status"] != DONE:
            reason = shorten(last.get("reason", ""), _LONGEST, placeholder=" …")
            groups.setdefault((last["status"], reason), []).append(last)
    if not groups:
        return "", []
    missed = sum(map(len, groups.values()))
    verb = "was" if missed == 1 else "were"
    reasons = [
        f"{ENDS.get(status, status)}: {_named(ended)}" + (f" ({reason})" if reason else "")
        for (status, reason), ended in groups.items()
    ]
    return f"{missed} of {plural(len(jobs), 'run')} {verb} not measured to the end.", reasons


def fits(shown: Iterable[StudyResults]) -> str:
    """Say how many fits are measured, and how many more the budgets of the studies allow."""
    known, left = 0, 0
    for one in shown:
        keys = settled(one.records)
        absent = {own["data"] for own in one.records if _has_no_data(own)}
        budget = 60.0 * one.study.minutes
        known += len(keys)
        left += len(plan([one.study], keys, budget, absent.__contains__).jobs)
    return f"{known:,} measured" + (f"; the budgets allow {left:,} more" if left else "")


def when_and_where(records: Sequence[Record]) -> str:
    """Say on which days and at which commits records were measured."""
    days = sorted({str(one["when"])[:10] for one in records if one.get("when")})
    commits = dict.fromkeys(one["commit"] for one in records if one.get("commit"))
    if not days:
        return ""
    when = " to ".join(dict.fromkeys([days[0], days[-1]]))
    return f"Measured {when}" + (f" at {', '.join(commits)}" if commits else "") + "."


def others_at_work(records: Iterable[Record]) -> str:
    """Say whether other programs kept the machine busy, so that seconds are not reliable.

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
    told = [one for one in cores if one is not None]
    busy, n_unknown = [one for one in told if one > _QUIET], len(cores) - len(told)
    if not cores:
        return ""
    if busy:
        said = (
            f"Seconds are not reliable: other programs kept {median(busy):.1f} cores busy during "
            f"{len(busy):,} of {plural(len(cores), 'fit')}"
        )
        return said + (f"; of {n_unknown:,} it is not recorded." if n_unknown else ".")
    if not told:
        return "It is not recorded whether other programs were at work."
    quiet = "No other program was at work"
    return quiet + (f"; of {plural(n_unknown, 'fit')} it is not recorded." if n_unknown else ".")


def machines(records: Iterable[Record]) -> list[str]:
    """Return in words on what records were measured, each machine once.

    Examples
    --------
    >>> machines([{"machine": {"cpu": "EPYC", "cores": 2, "memory": 8_300_000_000}}])
    ['EPYC, 2 cores, 8.3 GB']
    """
    return list(dict.fromkeys(filter(None, (_machine(one.get("machine", {})) for one in records))))


def plural(count: float, noun: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> plural(1, "run"), plural(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{count:,g} {noun}" if count == 1 else f"{count:,g} {noun}s"


def _shown(study: Study, records: list[Record]) -> StudyResults:
    return StudyResults(
        study, records, study.panels(records), study.tables(records), study.comparisons(records)
    )


def _has_no_data(record: Record) -> bool:
    return bool(record.get("facts", {}).get("missing") == NO_DATA)


def _machine(machine: Mapping[str, Any]) -> str:
    words = [str(machine.get("cpu", ""))]
    if machine.get("cores"):
        words.append(plural(machine["cores"], "core"))
    if machine.get("memory"):
        words.append(format_bytes(machine["memory"]))
    return ", ".join(filter(None, [*words, machine.get("system", "")]))


def _named(records: Sequence[Record]) -> str:
    names = list(dict.fromkeys(map(_job_name, records)))
    more = f"; and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return "; ".join(names[:_MOST_TOLD]) + more


def _job_name(record: Record) -> str:
    options = "".join(f", {name} {value}" for name, value in record.get("options", {}).items())
    return f"{record['method']} on {record['data']}{options}"
