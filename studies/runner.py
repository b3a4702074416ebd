"""Selection of the jobs that fit a time budget, and their execution."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache

from studies.catalogue import TRAINER_MODULES
from studies.process import records_without_data, run_job, time_limit
from studies.records import Store, settled_keys
from studies.rows import is_missing
from studies.study import Job, Record, Study

# The last job may exceed the budget by this fraction of it.
_GRACE = 0.1


@dataclass(frozen=True)
class Plan:
    """The jobs to run, and the jobs left out.

    Parameters
    ----------
    jobs : list of Job
        Jobs to run, in order.
    n_settled : int
        Number of jobs within the budgets that are measured already.
    beyond : list of Job, default=[]
        Jobs that exceed their study's budget.
    absent : dict of str to list of Job, default={}
        Jobs whose data set is missing, by the name of the data set.
    """

    jobs: list[Job]
    n_settled: int
    beyond: list[Job] = field(default_factory=list)
    absent: dict[str, list[Job]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The expected time of all jobs to run."""
        return sum(job.seconds for job in self.jobs)


@dataclass(frozen=True)
class Finished:
    """A job that has ended, as passed to the ``on_end`` callback of :func:`run`.

    Parameters
    ----------
    job : Job
    records : list of dict
    n_ended, n_jobs : int
        Number of jobs that have ended so far, and of all jobs.
    seconds_left : float
        Expected time of the remaining jobs.
    """

    job: Job
    records: list[Record]
    n_ended: int
    n_jobs: int
    seconds_left: float


def plan(
    studies: Sequence[Study],
    known: Collection[str],
    budget: float,
    absent: Callable[[str], bool] = lambda name: False,
) -> Plan:
    """Select the jobs of each study that fit its budget.

    The budgets of the studies are reduced in proportion if their sum exceeds the total budget.
    Jobs already measured count towards the budget, so that an interrupted run and its
    continuation measure the same jobs as an uninterrupted one. Jobs of different studies are
    interleaved.

    Parameters
    ----------
    studies : sequence of Study
    known : collection of str
        Keys of jobs that are measured already.
    budget : float
        Seconds for all studies; infinity runs every job.
    absent : callable, optional
        Returns whether the data set of a name is missing. By default none is.

    Returns
    -------
    Plan

    Examples
    --------
    >>> def jobs():
    ...     return [Job("x/a", "letter", "binning", {"n": n}, seconds=50.0) for n in range(3)]
    >>> todo = plan([Study("x", "a", "", "", jobs, minutes=2.0)], set(), budget=120.0)
    >>> len(todo.jobs), len(todo.beyond)
    (2, 1)
    """
    total = 60.0 * sum(study.minutes for study in studies)
    share = math.inf if math.isinf(budget) else min(1.0, budget / total) if total else 0.0
    queues, beyond, without_data = [], list[Job](), dict[str, list[Job]]()
    for study in studies:
        queue, seconds_left = list[Job](), 60.0 * study.minutes * share
        for job in study.jobs():
            if absent(job.data) and job.key not in known:
                without_data.setdefault(job.data, []).append(job)
            elif job.seconds <= seconds_left:
                queue.append(job)
                seconds_left -= job.seconds
            else:
                beyond.append(job)
        queues.append(queue)
    within = interleave(queues)
    jobs = [job for job in within if job.key not in known]
    return Plan(jobs, len(within) - len(jobs), beyond, without_data)


def interleave(queues: Sequence[Sequence[Job]]) -> list[Job]:
    """Merge queues so that every prefix contains about the same fraction of each.

    Equal jobs are kept once.

    Examples
    --------
    >>> many = [Job("x/a", "letter", name) for name in ("p", "q", "r")]
    >>> [job.method for job in interleave([many, [Job("x/b", "letter", "s")]])]
    ['p', 'q', 's', 'r']
    """
    positioned = [
        ((index + 0.5) / len(queue), number, job)
        for number, queue in enumerate(queues)
        for index, job in enumerate(queue)
    ]
    # Jobs have no order, so equal positions are sorted by the number of the queue.
    ordered = sorted(positioned, key=lambda item: item[:2])
    return list({job.key: job for _, _, job in ordered}.values())


def run(
    todo: Plan,
    store: Store,
    budget: float,
    folder: str | os.PathLike[str] | None = None,
    *,
    on_end: Callable[[Finished], None] = lambda finished: None,
    on_start: Callable[[Job], None] = lambda job: None,
    modules: Sequence[str] = TRAINER_MODULES,
) -> list[Job]:
    """Run the jobs of a plan, one after the other, and store their records.

    A job whose expected time exceeds the remaining budget is skipped. A job that is stopped because
    the budget is used up counts as skipped, and nothing is stored for it.

    Parameters
    ----------
    todo : Plan
    store : Store
    budget : float
        Seconds.
    folder : str or path-like, default=None
        Folder of data sets, passed to :func:`harness.data_sets.data_folder`.
    on_end, on_start : callable, optional
        Called after and before each job.
    modules : sequence of str
        Modules with trainers.

    Returns
    -------
    list of Job
        The skipped jobs.
    """
    _store_absent(todo, store)
    end = time.monotonic() + budget
    skipped: list[Job] = []
    expected_seconds = todo.seconds
    for number, job in enumerate(todo.jobs, start=1):
        expected_seconds -= job.seconds
        remaining = end - time.monotonic()
        if remaining < job.seconds and number > 1:
            skipped.append(job)
            continue
        on_start(job)
        limit = min(time_limit(job), remaining + _GRACE * budget)
        records = run_job(job, folder, limit=limit, modules=modules)
        if limit < time_limit(job) and records[-1]["status"] == "over time":
            skipped.append(job)
            continue
        store.add(job, records)
        on_end(Finished(job, records, number, len(todo.jobs), expected_seconds))
    return skipped


def _store_absent(todo: Plan, store: Store) -> None:
    """Store records for jobs without their data set, unless they have records already."""
    for name, jobs in todo.absent.items():
        # The reason appears in published reports, so it does not contain this machine's folder.
        reason = f"the data set {name} is not in the folder of data sets"
        studies = {job.study for job in jobs}
        stored = {record["key"] for study in studies for record in store.read(study)}
        for job in jobs:
            if job.key not in stored:
                store.add(job, records_without_data(job, reason))


def records_to_show(study: Study, store: Store) -> list[Record]:
    """Return the records of the study's current jobs, in the order of the jobs.

    Parameters
    ----------
    study : Study
    store : Store
    """
    by_job: dict[str, list[Record]] = {}
    for record in store.read(study.key):
        by_job.setdefault(record["key"], []).append(record)
    return [record for job in study.jobs() for record in by_job.get(job.key, [])]


def known_keys(studies: Sequence[Study], store: Store) -> set[str]:
    """Return the keys of the jobs that need not be run again.

    Parameters
    ----------
    studies : sequence of Study
    store : Store
    """
    return set().union(*(settled_keys(store.read(study.key)) for study in studies))


def absence_check(folder: str | os.PathLike[str] | None) -> Callable[[str], bool]:
    """Return a cached function that returns whether a data set is missing in a folder.

    Parameters
    ----------
    folder : str or path-like or None
    """

    @cache
    def is_absent(name: str) -> bool:
        return is_missing(name, folder)

    return is_absent
