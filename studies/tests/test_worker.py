"""Jobs measured: rows, seconds, memory, scores, and everything that can end them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from gramless.base.errors import InputError
from gramless.base.threads import available_cpus
from studies import process
from studies.process import run_job, time_limit
from studies.rows import BUILT_IN, load_rows
from studies.study import Job
from studies.worker import measure

from . import fake_trainers

FAKE = (fake_trainers.__name__,)
MEGABYTE = 1_000_000


def job(method: str, data: str = "digits", scores=("test_error",), **options) -> Job:
    return Job("fake/figure-1", data, method, options, scores=scores)


def measured(*arguments, **options):
    return list(measure(job(*arguments, **options), modules=FAKE))


@pytest.fixture(scope="module")
def digits():
    return load_rows("digits")


@pytest.fixture(autouse=True)
def read_once(monkeypatch, digits):
    monkeypatch.setitem(BUILT_IN, "digits", lambda: digits)


@pytest.fixture
def worker(monkeypatch):
    """Return a function that puts lines of Python in the place of the worker."""

    def replace_by(code: str) -> None:
        script = f"import os, sys, time\nsys.stdin.readline()\n{code}"
        monkeypatch.setattr(process, "WORKER", (sys.executable, "-S", "-c", script))

    return replace_by


# Rows.


def test_rows_are_drawn_and_nested():
    whole = load_rows("digits")
    more, fewer = (load_rows("digits", n_train=n, n_test=50, seed=3) for n in (400, 100))
    assert (len(more.y_train), len(more.y_test), more.X_test.shape) == (400, 50, (50, 64))
    rows = {row.tobytes() for row in more.X_train}
    assert all(row.tobytes() in rows for row in fewer.X_train)
    other = load_rows("digits", n_train=100, seed=4)
    assert not np.array_equal(other.X_train, fewer.X_train)
    positions = {row.tobytes(): i for i, row in enumerate(whole.X_train)}
    places = [positions[row.tobytes()] for row in more.X_train]
    np.testing.assert_array_equal(whole.y_train[places], more.y_train)
    assert load_rows("digits", n_train=10**6).y_train.shape == whole.y_train.shape


def test_rows_are_split_anew():
    whole, other = load_rows("digits"), load_rows("digits", split=1)
    pairs = [
        sorted(row.tobytes() + bytes([label]) for row, label in zip(*part, strict=True))
        for data in (whole, other)
        for part in ((np.r_[data.X_train, data.X_test], np.r_[data.y_train, data.y_test]),)
    ]
    assert pairs[0] == pairs[1]
    assert len(other.y_test) == len(whole.y_test)
    assert not np.array_equal(other.X_test, whole.X_test)
    np.testing.assert_array_equal(other.X_test, load_rows("digits", split=1).X_test)
    assert replace(job("constant"), split=1).key != job("constant").key


def test_sparse_rows_are_split_anew(monkeypatch, digits):
    parts = {"X_train": csr_array(digits.X_train), "X_test": csr_array(digits.X_test)}
    monkeypatch.setitem(BUILT_IN, "sparse", lambda: replace(digits, **parts))
    data = load_rows("sparse", split=2)
    np.testing.assert_array_equal(data.X_test.toarray(), load_rows("digits", split=2).X_test)


def test_rows_of_a_folder(tmp_path):
    np.savez(tmp_path / "mine.npz", X=np.eye(10), y=np.arange(10) % 2)
    assert load_rows("mine", tmp_path).X_train.shape == (8, 10)
    with pytest.raises(InputError, match="mine"):
        load_rows("mine", tmp_path / "nothing")


# What is measured, in this process.


def test_record_of_a_fit():
    data = load_rows("digits", n_train=600, n_test=100, seed=1)
    values, counts = np.unique(data.y_train, return_counts=True)
    wrong = float(np.mean(data.y_test != values[np.argmax(counts)]))
    asked = replace(job("constant"), n_train=600, n_test=100, seed=1)
    (record,) = measure(asked, modules=FAKE)
    assert record["scores"] == {"test_error": wrong}
    assert (record["task"], record["rows"], record["inputs"]) == ("multiclass", [600, 100], 64)
    assert record["facts"]["rows"] == 600
    assert set(record["seconds"]) == {"total", "predict"}
    assert 0 <= record["seconds"]["total"] < 1


def test_course_of_training():
    records = measured("sleeping", n_snapshots=3, seconds=0.02)
    assert [one["facts"]["step"] for one in records] == [0, 1, 2]
    totals = [one["seconds"]["total"] for one in records]
    np.testing.assert_array_less([0.02, 0.04, 0.06], totals)
    assert totals[2] - records[2]["seconds"]["sleep"] < 0.02
    assert records[2]["seconds"]["sleep"] >= 0.06


@pytest.mark.slow
def test_scoring_is_not_training():
    first, second = measured("slowly_judged", scores=("test_error", "train_error"))
    assert first["seconds"]["predict"] >= 0.05
    assert second["seconds"]["total"] < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [40, 120])
def test_memory_is_that_of_training(megabytes):
    (record,) = measured("allocating", megabytes=megabytes)
    np.testing.assert_allclose(record["memory"], megabytes * MEGABYTE, rtol=0.2)


def test_faults_of_trainers():
    for method, message in [("failing", "not finite"), ("no such", "no method 'no such'")]:
        with pytest.raises(ValueError, match=message):
            measured(method)


# Processes.


@pytest.mark.slow
def test_worker_process(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    (record,) = run_job(job("constant"), modules=("fake_trainers",))
    assert record["status"] == "done", record["reason"]
    assert 0.8 < record["scores"]["test_error"] < 1.0
    threads = record["facts"]["threads"], record["facts"]["peers"], record["machine"]["cores"]
    assert threads == (available_cpus(), str(available_cpus()), available_cpus())
    assert record["facts"]["some"] == 0.5
    assert record["wall"] > record["seconds"]["total"] + record["rehearsal"]
    assert record["others"] >= 0.0 or not Path("/proc/stat").exists()
    assert record["versions"]["numpy"] == np.__version__


@pytest.mark.slow
def test_too_long_a_run_keeps_its_snapshots(worker):
    worker("""print('{"snapshot": 0, "status": "done"}', flush=True)\ntime.sleep(60)""")
    started = time.perf_counter()
    records = run_job(job("any"), limit=2.0)
    assert time.perf_counter() - started < 10
    assert [one["status"] for one in records] == ["done", "over time"]
    assert records[1]["snapshot"] == 1
    assert records[1]["reason"] == "ended after 2 s"


def test_processes_that_die(worker):
    for code, message in [
        ("sys.exit('no room left')", "exit code 1: no room left"),
        ("os.kill(os.getpid(), 9)", "signal 9"),
    ]:
        worker(code)
        (record,) = run_job(job("any"))
        assert record["status"] == "failed"
        assert message in record["reason"]


def test_limits():
    assert time_limit(replace(job("any"), seconds=1.0)) == 60.0
    assert time_limit(replace(job("any"), seconds=100.0)) == 600.0


@pytest.mark.slow
def test_worker_processes_that_fail(monkeypatch):
    for method, statuses, message in [
        ("failing", ["done", "failed"], "ValueError: weights are not finite"),
        ("needing", ["unavailable"], "pip install something"),
        ("dying", ["done", "failed"], "exit code 3"),
        ("wordless", ["failed"], "made no snapshot"),
        ("unheard of", ["failed"], "no method"),
    ]:
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
        records = run_job(job(method), modules=("fake_trainers",))
        assert [one["status"] for one in records] == statuses
        assert [one["snapshot"] for one in records] == list(range(len(records)))
        assert message in records[-1]["reason"]


@pytest.mark.slow
def test_worker_process_that_sleeps_too_long(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    records = run_job(
        job("sleeping", n_snapshots=100, seconds=1.0), modules=("fake_trainers",), limit=25.0
    )
    assert {one["status"] for one in records[:-1]} == {"done"}
    assert records[-1]["status"] == "over time"
    assert len(records) > 3


@pytest.mark.slow
def test_no_process_outlives_its_job(worker, tmp_path):
    told = tmp_path / "pid"
    worker(f"open({str(told)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")
    run_job(job("any"), limit=2.0)
    pid = int(told.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_worker_is_found_from_any_folder(tmp_path):
    (tmp_path / "json.py").write_text("raise RuntimeError('shadowed')")
    done = subprocess.run(
        [*process.WORKER[:2], "-c", "import json"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
