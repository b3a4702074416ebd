"""Plans and runs: what fits a budget, in which order, and what an interrupted run leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies import process, runner
from studies.records import Store, settled_keys
from studies.runner import Plan, absence_check, interleave, plan, records_to_show, run
from studies.study import Job, Study


def study(
    name="figure-1", n_jobs=4, seconds=10.0, data="digits", method="constant", minutes=None
) -> Study:
    """Return a study with a budget that all its jobs fit, unless another is given."""

    def jobs() -> list[Job]:
        return [
            Job(f"fake/{name}", data, method, {"number": number}, seconds=seconds)
            for number in range(n_jobs)
        ]

    return Study("fake", name, "", "", jobs, n_jobs * seconds / 60 if minutes is None else minutes)


def keys(jobs) -> list[str]:
    return [job.key for job in jobs]


def done(job: Job, status="done"):
    return [{"snapshot": 0, "status": status, "reason": "", "scores": {}, "facts": {}}]


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "records")


@pytest.fixture
def ran(monkeypatch):
    """Replace processes by a note of what was run; yields notes and what jobs come to."""
    notes = {"jobs": [], "limits": [], "status": {}, "takes": 0.0}

    def run_job(job, folder, *, limit, modules):
        notes["jobs"].append(job)
        notes["limits"].append(limit)
        time.sleep(notes["takes"])
        return done(job, notes["status"].get(job.options["number"], "done"))

    monkeypatch.setattr(runner, "run_job", run_job)
    return notes


# Plans.


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.floats(0.1, 50), st.floats(0.1, 2)), min_size=1, max_size=3
    ),
    st.floats(0, 500),
)
@settings(max_examples=25)
def test_each_study_fits_its_share_of_the_budget(shapes, budget):
    studies = [
        study(f"figure-{k}", n, seconds, minutes=minutes)
        for k, (n, seconds, minutes) in enumerate(shapes)
    ]
    todo = plan(studies, set(), budget)
    share = min(1.0, budget / sum(60.0 * one.minutes for one in studies))
    for one in studies:
        within = [job for job in todo.jobs if job.study == one.key]
        assert within == one.jobs()[: len(within)]
        spent = sum(job.seconds for job in within)
        assert spent <= 60.0 * one.minutes * share * (1 + 1e-12)
        for job in one.jobs()[len(within) :]:
            assert spent + job.seconds > 60.0 * one.minutes * share * (1 - 1e-12)
    assert len(todo.jobs) + len(todo.beyond) == sum(len(one.jobs()) for one in studies)
    assert todo.seconds <= budget * (1 + 1e-12)


def test_without_a_budget_every_job_is_run():
    todo = plan([study(minutes=0.1)], set(), float("inf"))
    assert (keys(todo.jobs), todo.beyond) == (keys(study().jobs()), [])
    assert plan([], set(), 1.0).jobs == []


def test_a_continued_run_measures_the_same_jobs():
    whole = keys(plan([study()], set(), budget=20.0).jobs)
    known = set(whole[:1])
    todo = plan([study()], known, budget=20.0)
    assert (keys(todo.jobs), todo.n_settled) == (whole[1:], 1)


def test_what_has_no_data_costs_nothing():
    studies = [study("figure-1"), study("figure-2", n_jobs=2, data="lost")]
    todo = plan(studies, set(), 60.0, absent=lambda name: name == "lost")
    assert (len(todo.jobs), todo.beyond) == (4, [])
    assert keys(todo.absent["lost"]) == keys(studies[1].jobs())


def test_studies_take_turns():
    long, short = study("figure-1", 8).jobs(), study("figure-2", 2).jobs()
    merged = interleave([long, short])
    assert sorted(keys(merged)) == sorted(keys(long) + keys(short))
    assert [job for job in merged if job in long] == long
    assert [merged.index(job) for job in short] == [2, 7]
    assert interleave([long, long]) == long
    assert interleave([[], []]) == []


# Runs.


def test_run_stores_what_ends_and_resumes(store, ran):
    ran["status"] = {1: "failed", 2: "over time"}
    seen = []
    todo = plan([study()], set(), 100.0)
    assert run(todo, store, 100.0, on_end=seen.append) == []
    assert [(one.n_ended, one.n_jobs, one.seconds_left) for one in seen] == [
        (1, 4, 30.0),
        (2, 4, 20.0),
        (3, 4, 10.0),
        (4, 4, 0.0),
    ]
    known = settled_keys(store.read("fake/figure-1"))
    again = plan([study()], known, 100.0)
    assert [job.options["number"] for job in again.jobs] == [1]
    assert again.n_settled == 3


def test_run_ends_with_its_budget(store, ran):
    ran["takes"] = 0.11
    jobs = study(n_jobs=5, seconds=0.1).jobs()
    left = run(Plan(jobs, 0), store, 0.25)
    assert left == jobs[2:]
    assert len(store.read("fake/figure-1")) == 2
    assert all(limit <= 0.25 * 1.1 for limit in ran["limits"])


def test_a_job_too_long_for_what_is_left_lets_others_pass(store, ran):
    small = study(n_jobs=2, seconds=0.01).jobs()
    (large,) = study("figure-2", n_jobs=1, seconds=900.0).jobs()
    assert run(Plan([small[0], large, small[1]], 0), store, 5.0) == [large]
    assert ran["jobs"] == small


def test_a_job_cut_by_the_budget_is_not_over_time(store, ran):
    ran["status"] = {0: "over time", 1: "over time"}
    jobs = study(n_jobs=2, seconds=1.0).jobs()
    assert run(Plan(jobs, 0), store, 5.0) == jobs
    assert store.read("fake/figure-1") == []
    assert run(Plan(jobs, 0), store, 500.0) == []
    assert len(store.read("fake/figure-1")) == 2


def test_missing_data_are_stored_once_and_tried_again(store, ran, tmp_path):
    (tmp_path / "data").mkdir()
    lost = study(data="lost", n_jobs=1)

    def once():
        absent = absence_check(tmp_path / "data")
        todo = plan([lost], settled_keys(store.read(lost.key)), 100.0, absent)
        run(todo, store, 100.0, tmp_path / "data")
        return [(one["status"], one["reason"]) for one in store.read(lost.key)]

    for _ in range(2):
        ((status, reason),) = once()
        assert status == "unavailable"
        assert "lost is not in" in reason
    assert len(store.path(lost.key).read_bytes().splitlines()) == 1
    (tmp_path / "data" / "lost.npz").touch()
    assert once() == [("done", "")]


def test_records_of_former_jobs_are_not_shown(store):
    former, present = study(n_jobs=4).jobs(), study(n_jobs=2)
    for job in former:
        store.add(job, done(job))
    assert [record["key"] for record in records_to_show(present, store)] == keys(present.jobs())
    assert records_to_show(study("figure-2"), store) == []


_WORKER = """
import json, os, sys, time
number = json.loads(sys.stdin.readline())["job"]["options"]["number"]
print(json.dumps({"snapshot": 0, "status": "done"}), flush=True)
if number == 1:
    open(sys.argv[1], "w").write(str(os.getpid()))
    while os.read(0, 1):
        pass
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_killed_in_the_middle_and_resumed(tmp_path, monkeypatch):
    command = (sys.executable, "-S", "-c", _WORKER, str(tmp_path / "worker"))
    monkeypatch.setattr(process, "WORKER", command)
    jobs = [Job("fake/figure-1", "digits", "constant", {"number": n}) for n in range(3)]
    store = Store(tmp_path)
    started = os.fork()
    if started == 0:
        run(Plan(jobs, 0), store, 1000.0)
        os._exit(0)
    pid = int(_wait_for_text(tmp_path / "worker"))
    os.kill(started, signal.SIGKILL)
    os.waitpid(started, 0)
    _wait_for_end(pid)
    assert [one["options"]["number"] for one in store.read("fake/figure-1")] == [0]
    monkeypatch.setattr(process, "WORKER", (*command[:3], _WORKER.replace("== 1", "== 9")))
    fake = Study("fake", "figure-1", "", "", lambda: jobs, minutes=1.0)
    todo = plan([fake], settled_keys(store.read(fake.key)), 1000.0)
    assert todo.jobs == jobs[1:]
    run(todo, store, 1000.0)
    assert [one["options"]["number"] for one in store.read(fake.key)] == [0, 1, 2]


_REAL_SCRIPT = """
import sys
from pathlib import Path
from studies.process import run_job
from studies.study import Job

options = {"n_snapshots": 1, "seconds": 600.0, "told": sys.argv[1]}
run_job(Job("fake/figure-1", "digits", "sleeping", options), modules=("fake_trainers",))
"""


@pytest.mark.slow
def test_a_worker_ends_with_the_process_that_started_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    started = subprocess.Popen([sys.executable, "-c", _REAL_SCRIPT, str(tmp_path / "worker")])
    pid = int(_wait_for_text(tmp_path / "worker"))
    started.send_signal(signal.SIGKILL)
    started.wait()
    _wait_for_end(pid)


def _wait_for_text(path: Path) -> str:
    for _ in range(1000):
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.05)
    raise AssertionError(f"{path} was never written")


def _wait_for_end(pid: int) -> None:
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        status = Path(f"/proc/{pid}/status")
        if status.exists() and "State:\tZ" in status.read_text():
            return
        time.sleep(0.05)
    raise AssertionError("a worker outlived the process that started it")
