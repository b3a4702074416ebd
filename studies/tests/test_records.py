"""The store: what is written comes back, and what was cut off is not taken for whole."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pytest

from gramless.base.errors import DataFileError
from studies.records import Store, settled_keys
from studies.study import Job

JOB = Job("rb16/figure-4", "letter", "binning", {"n_grids": 8}, n_train=100)
OTHER = Job("rb16/figure-4", "letter", "binning", {"n_grids": 16}, n_train=100)


def snapshot(index: int = 0, status: str = "done", **rest):
    return {"snapshot": index, "status": status, "scores": {"test_error": 0.5}, **rest}


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "records")


def test_records_come_back_with_their_jobs(store):
    store.add(JOB, [snapshot(0), snapshot(1)])
    store.add(OTHER, [snapshot(0, seconds={"total": 2.0})])
    stored = store.read("rb16/figure-4")
    assert [(one["key"], one["snapshot"]) for one in stored] == [
        (JOB.key, 0),
        (JOB.key, 1),
        (OTHER.key, 0),
    ]
    identity = {name: value for name, value in JOB.identity.items() if name != "scores"}
    assert {name: stored[0][name] for name in identity} == identity
    assert stored[0]["scores"] == {"test_error": 0.5}
    assert stored[2]["seconds"] == {"total": 2.0}
    assert store.read("rb16/figure-5") == []


def test_lines_are_strict_json_and_nan_comes_back(store):
    scores = {
        "test_error": np.float32(np.nan),
        "objective": np.inf,
        "train_error": np.float64(0.25),
    }
    facts = {"bytes": np.int64(7), "path": np.arange(2), "why": None}
    store.add(JOB, [snapshot(scores=scores, facts=facts, memory=float("nan"))])

    def fail(text):
        raise AssertionError(f"{text} is not JSON")

    json.loads(store.path(JOB.study).read_text(), parse_constant=fail)
    (record,) = store.read(JOB.study)
    assert math.isnan(record["scores"]["test_error"])
    assert math.isnan(record["scores"]["objective"])
    assert math.isnan(record["memory"])
    assert record["scores"]["train_error"] == 0.25
    assert record["facts"] == {"bytes": 7, "path": [0, 1], "why": None}


def test_last_run_counts(store):
    store.add(JOB, [snapshot(0), snapshot(1), snapshot(2)])
    store.add(OTHER, [snapshot()])
    store.add(JOB, [snapshot(0, "failed")])
    assert [(one["key"], one["status"]) for one in store.read(JOB.study)] == [
        (JOB.key, "failed"),
        (OTHER.key, "done"),
    ]
    assert len(store.path(JOB.study).read_bytes().splitlines()) == 5


@pytest.mark.parametrize("lost", [1, 20, 10_000])
def test_a_run_cut_off_is_not_there(lost, store):
    store.add(OTHER, [snapshot()])
    first = store.path(JOB.study).stat().st_size
    store.add(JOB, [snapshot(0), snapshot(1)])
    path = store.path(JOB.study)
    whole = path.read_bytes()
    path.write_bytes(whole[: max(first + 30, len(whole) - lost)])
    with pytest.warns(UserWarning, match="last line"):
        assert {one["key"] for one in store.read(JOB.study)} == {OTHER.key}
    store.add(JOB, [snapshot(0), snapshot(1)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        keys = [one["key"] for one in store.read(JOB.study)]
    assert keys == [OTHER.key, JOB.key, JOB.key]


def test_a_run_without_its_last_line_is_not_there(store):
    store.add(JOB, [snapshot(0), snapshot(1)])
    path = store.path(JOB.study)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert store.read(JOB.study) == []


def test_damage_in_the_middle_is_named(store):
    for line in [b"{\n", b"[1]\n", b'{"key": "a"}\n', b"\xff\n"]:
        store.add(JOB, [snapshot()])
        path = store.path(JOB.study)
        path.write_bytes(path.read_bytes() + line)
        store.path(JOB.study).open("ab").write(path.read_bytes().splitlines(keepends=True)[0])
        with pytest.raises(DataFileError, match=r"rb16-figure-4\.jsonl, line 2"):
            store.read(JOB.study)


def test_what_is_settled(store):
    for records, is_settled in [
        ([snapshot()], True),
        ([snapshot(), snapshot(1, "over time")], True),
        ([snapshot(0, "unavailable", facts={"missing": "package"})], True),
        ([snapshot(0, "unavailable", facts={"missing": "data set"})], False),
        ([snapshot(), snapshot(1, "failed")], False),
    ]:
        store.add(JOB, records)
        assert (JOB.key in settled_keys(store.read(JOB.study))) == is_settled
