"""Which jobs to run in the time there is, and the running of them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from studies.catalogue import TRAINER_MODULES
from studies.process import no_data, run_job, time_limit
from studies.records import Store, settled
from studies.rows import missing
from studies.study import Job, Record, Study

# The last job may exceed the budget by this share.
_GRACE = 0.1


@dataclass(frozen=True)
class Plan:
    """What is to be run.

    Parameters
    ----------
    jobs : list of Job
        Those to run, in order.
    n_settled : int
        How many jobs within the budgets are measured already.
    beyond : list of Job, default=[]
        Jobs beyond their study's budget.
    absent : dict of str to list of Job, default={}
        Jobs whose data set is not there, by its name.
    """

    jobs: list[Job]
    n_settled: int
    beyond: list[Job] = field(default_factory=list)
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
    """Choose the jobs of each study that fit its budget.

    The budgets of the studies are reduced in proportion if their sum exceeds the whole budget.
    Jobs already measured count towards the budget, so that an interrupted run and its
    continuation measure the same jobs as a run that was not interrupted. Studies take turns.

    Parameters
    ----------
    studies : sequence of Study
    known : collection of str
        Keys of jobs that are measured already.
    budget : float
        Seconds for all studies; infinity runs every job.
    absent : callable, default: none is
        From the name of a data set to whether it is not there.

    Returns
    -------
    Plan

    Examples
    --------
    >>> def jobs():
    ...     return [Job("x/a", "letter", "binning", {"n": n}, seconds=50.0) for n in range(3)]
    >>> found = plan([Study("x", "a", "", "", jobs, minutes=2.0)], set(), budget=120.0)
    >>> len(found.jobs), len(found.beyond)
    (2, 1)
    """
    whole = 60.0 * sum(study.minutes for study in studies)
    share = math.inf if math.isinf(budget) else min(1.0, budget / whole) if whole else 0.0
    queues, beyond, without = [], list[Job](), dict[str, list[Job]]()
    for study in studies:
        queue, left = list[Job](), 60.0 * study.minutes * share
        for job in study.jobs():
            if absent(job.data) and job.key not in known:
                without.setdefault(job.data, []).append(job)
            elif job.seconds <= left:
                queue.append(job)
                left -= job.seconds
            else:
                beyond.append(job)
        queues.append(queue)
    within = in_turns(queues)
    jobs = [job for job in within if job.key not in known]
    return Plan(jobs, len(within) - len(jobs), beyond, without)


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
    """Return the records of the study's present jobs, in the order of the jobs.

    Parameters
    ----------
    study : Study
    store : Store
    """
    by_job: dict[str, list[Record]] = {}
    for record in store.of(study.key):
        by_job.setdefault(record["key"], []).append(record)
    return [record for job in study.jobs() for record in by_job.get(job.key, [])]


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
