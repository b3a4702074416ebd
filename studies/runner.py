"""Which jobs to run in the time there is, and the running of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from studies.catalogue import TRAINER_MODULES
from studies.process import no_data, run_job, time_limit
from studies.records import Store, settled
from studies.rows import missing
from studies.study import Job, Record, Study

LADDER = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05)
"""Scales that are tried, the largest first."""
_GRACE = 0.1
"""Share of a budget by which the last job may exceed it."""


@dataclass(frozen=True)
class Plan:
    """What is to be run.

    Parameters
    ----------
    scales : dict of str to float
        Of each study's jobs, in (0, 1], by its key.
    jobs : list of Job
        Those to run, in order.
    n_settled : int
        How many jobs of these scales are measured already.
    absent : dict of str to list of Job, default={}
        Jobs whose data set is not there, by its name.
    """

    scales: dict[str, float]
    jobs: list[Job]
    n_settled: int
    absent: dict[str, list[Job]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """What the jobs are expected to take."""
        return sum(job.seconds for job in self.jobs)


@dataclass(frozen=True)
class Finished:
    """A job that has ended, for those who watch.

    Parameters
    ----------
    job : Job
    records : list of dict
    n_ended, n_jobs : int
        How many have ended, of how many.
    left : float
        Seconds that the others are expected to take.
    """

    job: Job
    records: list[Record]
    n_ended: int
    n_jobs: int
    left: float


def plan(
    studies: Sequence[Study],
    known: Collection[str],
    budget: float,
    absent: Callable[[str], bool] = lambda name: False,
) -> Plan:
    """Choose the largest scales at which the jobs not yet measured fit the budget.

    First the largest scale that all studies can have. What it leaves goes to the studies that grow
    at the least cost, a step of the ladder at a time. If no scale fits, all have the least.

    Jobs that are measured, or for which there is no data set, cost nothing. Studies take
    turns, each in its own order, so that all are equally far wherever the run ends.

    Parameters
    ----------
    studies : sequence of Study
    known : collection of str
        Keys of jobs that are measured already.
    budget : float
        Seconds; infinity for all.
    absent : callable, default: none is
        From the name of a data set to whether it is not there.

    Returns
    -------
    Plan

    Examples
    --------
    >>> def jobs(scale):
    ...     return [Job("x/a", "letter", "binning", {"n": int(100 * scale)}, seconds=100 * scale)]
    >>> plan([Study("x", "a", "", "", jobs)], set(), budget=60.0).scales
    {'x/a': 0.5}
    """
    costs = [[_seconds(study.jobs(scale), known, absent) for scale in LADDER] for study in studies]
    scales = [LADDER[rung] for rung in rungs(costs, budget)]
    jobs, without, n_settled = [], dict[str, list[Job]](), 0
    queues = [study.jobs(scale) for study, scale in zip(studies, scales, strict=True)]
    for job in in_turns(queues):
        if job.key in known:
            n_settled += 1
        elif absent(job.data):
            without.setdefault(job.data, []).append(job)
        else:
            jobs.append(job)
    chosen = {study.key: scale for study, scale in zip(studies, scales, strict=True)}
    return Plan(chosen, jobs, n_settled, without)


def _seconds(jobs: Sequence[Job], known: Collection[str], absent: Callable[[str], bool]) -> float:
    return sum(job.seconds for job in jobs if job.key not in known and not absent(job.data))


def rungs(costs: Sequence[Sequence[float]], budget: float) -> list[int]:
    """Return how far each of several falling ladders of costs is gone down to fit a budget.

    Parameters
    ----------
    costs : sequence of sequence of float
        A ladder each, the dearest first, all of one length.
    budget : float

    Returns
    -------
    list of int
        A position on each ladder. The same for all at first, the last if nothing fits; then the
        cheapest step up that fits is taken, again and again.

    Examples
    --------
    >>> rungs([[9.0, 3.0, 1.0], [50.0, 20.0, 5.0]], budget=15.0)
    [0, 2]
    """
    lowest = len(LADDER) - 1 if not costs else len(costs[0]) - 1
    totals = [sum(one[rung] for one in costs) for rung in range(lowest + 1)]
    common = next((rung for rung, total in enumerate(totals) if total <= budget), lowest)
    found, left = [common] * len(costs), budget - totals[common]
    while True:
        steps = [
            (own[rung - 1] - own[rung], number)
            for number, (own, rung) in enumerate(zip(costs, found, strict=True))
            if rung > 0
        ]
        cost, number = min(steps, default=(float("inf"), 0))
        if not steps or cost > left:
            return found
        found[number] -= 1
        left -= cost


def in_turns(queues: Sequence[Sequence[Job]]) -> list[Job]:
    """Merge queues so that at any place each has given about the same share of its own.

    Jobs that are the same are kept once.

    Examples
    --------
    >>> many = [Job("x/a", "letter", name) for name in ("p", "q", "r")]
    >>> [job.method for job in in_turns([many, [Job("x/b", "letter", "s")]])]
    ['p', 'q', 's', 'r']
    """
    placed = [
        ((place + 0.5) / len(queue), number, job)
        for number, queue in enumerate(queues)
        for place, job in enumerate(queue)
    ]
    ordered = sorted(placed, key=lambda item: item[:2])
    return list({job.key: job for _, _, job in ordered}.values())


def run(
    todo: Plan,
    store: Store,
    budget: float,
    folder: str | os.PathLike[str] | None = None,
    *,
    watch: Callable[[Finished], None] = lambda finished: None,
    started: Callable[[Job], None] = lambda job: None,
    modules: Sequence[str] = TRAINER_MODULES,
) -> list[Job]:
    """Run the jobs of a plan, one after the other, and store their records.

    A job that no longer fits is left, and the next one tried. One that is ended because the budget
    is, is left as well: nothing is stored of it.

    Parameters
    ----------
    todo : Plan
    store : Store
    budget : float
        Seconds.
    folder : str or path-like, default=None
        Of data sets, as :func:`harness.data_sets.data_folder`.
    watch, started : callable, optional
        Told of every job that has ended or begins.
    modules : sequence of str
        Where trainers are looked for.

    Returns
    -------
    list of Job
        What was left.
    """
    _store_absent(todo, store)
    end = time.monotonic() + budget
    left: list[Job] = []
    waiting = todo.seconds
    for number, job in enumerate(todo.jobs, start=1):
        waiting -= job.seconds
        remaining = end - time.monotonic()
        if remaining < job.seconds and number > 1:
            left.append(job)
            continue
        started(job)
        limit = min(time_limit(job), remaining + _GRACE * budget)
        records = run_job(job, folder, limit=limit, modules=modules)
        if limit < time_limit(job) and records[-1]["status"] == "over time":
            left.append(job)
            continue
        store.add(job, records)
        watch(Finished(job, records, number, len(todo.jobs), waiting))
    return left


def _store_absent(todo: Plan, store: Store) -> None:
    """Say in the store which data sets are missing, once."""
    for name, jobs in todo.absent.items():
        # Reports are for others too: their folders are not this machine's.
        reason = f"the data set {name} is not in the folder of data sets"
        told = {one["key"] for study in {job.study for job in jobs} for one in store.of(study)}
        for job in jobs:
            if job.key not in told:
                store.add(job, no_data(job, reason))


def records_to_show(study: Study, store: Store) -> list[Record]:
    """Return the records of the scale of which most is measured, the larger of two alike.

    A study run again with more time has records of several scales: points of different numbers
    of rows belong into no common picture.

    Parameters
    ----------
    study : Study
    store : Store
    """
    by_job: dict[str, list[Record]] = {}
    for record in store.of(study.key):
        by_job.setdefault(record["key"], []).append(record)
    best = max(LADDER, key=lambda scale: _share_known(study.jobs(scale), by_job))
    return [record for job in study.jobs(best) for record in by_job.get(job.key, [])]


def _share_known(jobs: Sequence[Job], known: Mapping[str, Any]) -> float:
    return sum(job.key in known for job in jobs) / max(1, len(jobs))


def known_keys(studies: Sequence[Study], store: Store) -> set[str]:
    """Return the keys of the jobs that need not be run again.

    Parameters
    ----------
    studies : sequence of Study
    store : Store
    """
    return set().union(*(settled(store.of(study.key)) for study in studies))


def absent_sets(folder: str | os.PathLike[str] | None) -> Callable[[str], bool]:
    """Return what tells whether a data set is not there, each looked for once.

    Parameters
    ----------
    folder : str or path-like or None
    """
    looked: dict[str, bool] = {}

    def absent(name: str) -> bool:
        if name not in looked:
            looked[name] = missing(name, folder)
        return looked[name]

    return absent
