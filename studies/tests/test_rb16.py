"""RB16's studies: jobs of every scale, what records show, and none at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gramless.features.binning import GivenBinning
from gramless.features.grids import Grids
from gramless.kernels import Laplacian
from harness.timing import StopWatch
from studies.comparisons import Comparison
from studies.rb16 import STUDIES, their_grids
from studies.rb16.claim import Factor, Run, factor, published_factor
from studies.rb16.curves import points
from studies.rb16.sets import GAMMAS
from studies.records import fit_seconds
from studies.rows import load_rows
from studies.settings import unit_of
from studies.study import Job, Record, Study, Training

BY_NAME = {study.name: study for study in STUDIES}


def record(job: Job, facts: dict[str, Any], error: float, seconds: float = 2.0) -> Record:
    return {
        **job.identity,
        "key": job.key,
        "snapshot": 0,
        "status": "done",
        "reason": "",
        "task": "binary",
        "rows": [job.n_train or 1000, 1000],
        "when": "2026-11-28",
        "commit": "abc",
        "inputs": 3,
        "seconds": {"total": seconds, "predict": 0.1},
        "memory": 2**20,
        "scores": {"relative_error": error, "train_relative_error": error / 2},
        "facts": {
            "seconds": seconds,
            "columns": 500,
            "iterations": 9,
            "feature_seconds": 0.1,
            **facts,
        },
    }


def records_of(study: Study) -> list[Record]:
    """Return made-up records of all jobs, a snapshot for each size or bandwidth."""
    results = []
    for job in study.jobs():
        for size in str(job.options.get("size", 8)).split():
            for bandwidth in str(job.options.get("bandwidth", 1.0)).split():
                counts = str(job.options.get("at_once", "1")).split()
                for at_once in counts:
                    facts = {
                        "size": int(float(size)),
                        "bandwidth": float(bandwidth),
                        "at_once": int(at_once),
                        "speed_up": float(at_once),
                        "law": float(at_once),
                        "epochs": 3.0,
                        "run_seconds": 1.0,
                        "pattern": list(range(2000)),
                    }
                    results.append(record(job, facts, 0.1))
    return results


def test_nothing_measured_is_shown_as_such() -> None:
    for study in STUDIES:
        study.panels([])
        study.tables([])
        assert all(one.verdict == "not measured" and one.reason for one in study.comparisons([]))


def test_failed_runs_are_no_numbers() -> None:
    for study in STUDIES:
        (first, *_) = study.jobs()
        failed = {**record(first, {}, 0.1), "status": "failed", "reason": "too few rows"}
        study.panels([failed])
        study.tables([failed])
        assert not any(one.measured for one in study.comparisons([failed]))


@pytest.mark.parametrize(
    "study",
    [
        pytest.param(study, marks=[pytest.mark.slow] * (study.name == "figure-5"), id=study.name)
        for study in STUDIES
    ],
)
def test_records_are_shown(study: Study) -> None:
    records = records_of(study)
    panels, tables = study.panels(records), study.tables(records)
    assert panels or tables
    for panel in panels:
        assert panel.lines
        for line in panel.lines:
            assert len(line.x) == len(line.y)
    for table in tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
    compared = study.comparisons(records)
    assert not compared or any(one.measured for one in compared)


def test_figure_2_takes_the_nearest_number_of_columns() -> None:
    study = BY_NAME["figure-2"]
    (job,) = study.jobs()
    records = [
        record(job, {"columns": columns, "bandwidth": 1.0, "pattern": [0] * 2000}, 0.0)
        for columns in (100, 380, 900)
    ]
    columns, nonzeros = study.comparisons(records)
    assert (columns.measured, nonzeros.measured) == ((380.0,), (2000.0,))


def compared(study: str, records: list[Record], *, key: str) -> Comparison:
    (comparison,) = [one for one in BY_NAME[study].comparisons(records) if one.number.key == key]
    return comparison


def test_authors_runs_are_compared_with_ours_of_the_same_parameters() -> None:
    jobs = [
        job
        for job in BY_NAME["figure-5"].jobs()
        if (job.data, job.method) == ("cadata", "nystrom") and "128" in job.options["size"].split()
    ]
    assert [job.seed for job in jobs] == [job.split for job in jobs] == [0, 1, 2, 3, 4]
    records = [
        record(job, {"size": 128, "bandwidth": 4.46}, 0.28 + 0.003 * job.seed) for job in jobs
    ]
    comparison = compared("figure-5", records, key="figure-5/cadata/nystrom/128/4.46/test")
    assert comparison.number.value == pytest.approx(28.6869)
    assert comparison.measured == pytest.approx((28.0, 28.3, 28.6, 28.9, 29.2))
    assert (comparison.rows, comparison.verdict) == (16_512, "agrees")
    other = [{**one, "facts": {**one["facts"], "bandwidth": 1.0 / 4.46}} for one in records]
    wrong = compared("figure-5", other, key="figure-5/cadata/nystrom/128/4.46/test")
    assert wrong.verdict == "not measured"


def test_figure_5_has_the_authors_kernels_and_bandwidths() -> None:
    jobs = [job for job in BY_NAME["figure-5"].jobs() if job.data == "cadata" and job.seed == 0]
    for job in jobs:
        literal = not job.method.startswith("chosen ")
        isotropic = literal and job.method != "authors' grids"
        assert job.options["kernel"] == ("isotropic laplacian" if isotropic else "laplacian")
        if isotropic:
            # Not inverted.
            assert job.options["bandwidth"] == "4.46"
    bandwidths = {
        int(size): float(job.options["bandwidth"])
        for job in jobs
        if job.method == "authors' grids"
        for size in job.options["size"].split()
    }
    theirs = points("figure-5", "cadata", "binning")
    assert bandwidths == {one.size: pytest.approx(1.0 / one.sigma) for one in theirs}


def test_letter_is_run_without_its_last_class_as_the_authors_did() -> None:
    # No more of their training rows are ever right: 3.6 % of letter are a Z.
    rights = [one.train for name in ("figure-3", "figure-4") for one in points(name, "letter")]
    assert min(error for error in rights if error is not None) == pytest.approx(3.6)
    for job in (
        job for name in ("figure-3", "figure-4", "figure-5") for job in BY_NAME[name].jobs()
    ):
        theirs = job.data == "letter" and not job.method.startswith("chosen ")
        assert job.options.get("without_last", False) == theirs


def test_other_data_are_measured_once_and_compared_with_nothing() -> None:
    jobs = [job for job in BY_NAME["figure-4"].jobs() if job.data == "covtype_1vs2_169k"]
    assert {job.seed for job in jobs} == {0}
    records = [record(job, {"size": 64, "bandwidth": 1.0 / 6.3}, 0.1) for job in jobs]
    comparison = compared("figure-4", records, key="figure-4/covtype/binning/64/6.3/train")
    assert comparison.verdict == "other data"
    assert "stand in" in comparison.reason


def test_data_that_are_not_available_have_rows_with_the_reason() -> None:
    reasons = [
        one.reason
        for one in BY_NAME["figure-5"].comparisons([])
        if one.number.key.split("/")[1] in ("SUSY", "acoustic", "census")
    ]
    assert len(reasons) == 2 * (38 + 48 + 44) + 3 * 8
    assert all("not available" in reason for reason in reasons)


def test_the_factor_is_at_the_lowest_error_that_both_reach() -> None:
    bins = [Run(8.0, 0.1), Run(5.0, 1.0), Run(3.0, 9.0)]
    others = [Run(9.0, 1.0), Run(5.5, 60.0), Run(6.0, 50.0)]
    assert factor(bins, others) == Factor(5.5, 60.0)
    assert factor(bins, [Run(1.0, 0.5)]) == Factor(3.0, pytest.approx(0.5 / 9.0))
    assert factor(bins, []) is None


def test_the_authors_own_runs_by_the_same_rule() -> None:
    forest = published_factor("covtype_1vs2_169k", "fourier")
    assert forest is not None
    # 32,768 columns take 2235.9 s for an error that 8 grids reach in 6.92282 s.
    assert forest.time == pytest.approx(2235.9 / 6.92282)
    assert forest.error == pytest.approx(100.0 - 85.8945)
    blocks = published_factor("ijcnn1", "blocks")
    assert blocks is not None
    assert blocks.time < 1.0


def test_factors_are_measured_from_records() -> None:
    study = BY_NAME["figure-5"]
    jobs = {(job.data, job.method): job for job in study.jobs()}
    bins = record(jobs["mnist", "binning"], {"size": 64}, 0.03, seconds=2.0)
    fourier = record(jobs["mnist", "fourier"], {"size": 64}, 0.04, seconds=30.0)
    (table,) = study.tables([bins, fourier])
    (row,) = [row for row in table.rows if row[:2] == ("mnist", "Fourier")]
    assert row[-2:] == ("4 %", "15")


def test_laws_are_no_published_numbers() -> None:
    study = BY_NAME["figure-6"]
    assert study.comparisons(records_of(study)) == []


def test_logs_compare_the_authors_own_grids() -> None:
    jobs = [job for job in BY_NAME["logs"].jobs() if job.data == "cpu_act"]
    records = [
        record(job, {"size": 8, "bandwidth": 1 / 0.79}, 0.04 + 0.004 * job.seed) for job in jobs
    ]
    comparison = compared(
        "logs", [{**one, "rows": [6553, 9]} for one in records], key="cpu/8/error"
    )
    assert comparison.measured == pytest.approx((4.0, 4.4, 4.8, 5.2, 5.6))
    assert comparison.verdict == "agrees"
    forest = next(job for job in BY_NAME["logs"].jobs() if job.data == "covtype_first20k")
    runs = [record(forest, {"size": 128, "feature_seconds": 0.5}, 0.1, seconds=2.0)]
    solve = compared("logs", runs, key="covtype-mult/128/solve")
    assert (solve.measured, solve.verdict) == ((1.5,), "other data")


def test_curves_are_the_authors() -> None:
    (exact,) = points("figure-5", "mnist", "exact")
    assert (exact.size, exact.seconds) == (60_000, 15752.5)
    assert exact.test == pytest.approx(1.57)
    assert all(one.size == 128 for one in points("figure-3", "letter"))
    assert [one.sigma for one in points("figure-3", "letter")] == list(GAMMAS)
    bins, fourier = points("figure-5", "cadata", "binning"), points("figure-5", "cadata", "fourier")
    assert bins[0].bandwidth == pytest.approx(1.0 / bins[0].sigma)
    assert {one.bandwidth for one in fourier} == {4.46}


def test_fit_seconds_are_of_one_machine() -> None:
    (job, *_) = BY_NAME["figure-4"].jobs()
    assert fit_seconds(record(job, {"seconds": 0.25}, 0.1, seconds=9.0)) == 0.25


def test_the_authors_grids_are_those_of_their_program() -> None:
    # Printed by their C++, g++ 12 on Linux, for 12 inputs and gamma 1.
    widths, shifts = their_grids.authors_grids(12, 2)
    first = [0.62048673165940138, 1.7099873851769425, 2.8250267478233577]
    assert widths[0, :3].tolist() == first
    assert shifts[0, :3].tolist() == [0.24470937328424791, 1.3390897939690718, 2.2556144511028844]
    assert widths[1, -2:].tolist() == [1.1959539240111907, 1.291902090814566]
    assert shifts[1, -2:].tolist() == [0.187380971603922, 0.51798090122702412]


def test_the_authors_grids_bin_rows_scaled_to_plus_and_minus_one() -> None:
    X = np.random.default_rng(0).normal(3.0, 5.0, size=(200, 3))
    low, high = X.min(axis=0), X.max(axis=0)
    scaled = 2.0 * (X - low) / (high - low) - 1.0
    widths, shifts = (part / 0.79 for part in their_grids.authors_grids(3, 4))
    cells = np.floor((scaled - shifts[:, None]) / widths[:, None])
    counts = [len(np.unique(own, axis=0)) for own in cells]
    grids = their_grids.AuthorsGrids(bandwidth=(high - low) / 2.0 / 0.79, n_grids=4)
    assert grids.fit(X).n_bins_.tolist() == counts


def test_the_authors_grids_bin_rows_in_each_scaling() -> None:
    for units in ["none", "largest", "range", "half range"]:
        X = np.random.default_rng(0).normal(3.0, 5.0, size=(200, 3))
        low, high = X.min(axis=0), X.max(axis=0)
        scaled = {
            "none": X,
            "largest": X / np.abs(X).max(axis=0),
            "range": (X - low) / (high - low),
            "half range": 2.0 * (X - low) / (high - low) - 1.0,
        }[units]
        widths, shifts = (part / 0.79 for part in their_grids.authors_grids(3, 4))
        cells = np.floor((scaled - shifts[:, None]) / widths[:, None])
        options = {"size": 4, "bandwidth": 1 / 0.79, "units": units}
        training = Training(X, X[:, 0], "regression", 0)
        (snapshot,) = their_grids.TRAINERS["authors' grids"](training, options, StopWatch())
        assert snapshot.facts["columns"] == sum(len(np.unique(own, axis=0)) for own in cells)


@pytest.mark.data
def test_all_rows_of_cpu_small_have_as_many_bins_as_in_the_authors_log(data_folder: Path) -> None:
    data = load_rows("cpu_act", data_folder)
    X = np.concatenate([data.X_train, data.X_test])[:, [*range(9), 18, 19, 20]]
    half = np.ptp(X, axis=0) / 2.0
    logged = {0.1: 49, 0.28: 163, 0.79: 1043, 2.23: 6231, 10.0: 41_917, 100.0: 64_820}
    for gamma, columns in logged.items():
        grids = their_grids.AuthorsGrids(bandwidth=half / gamma, n_grids=8)
        assert grids.fit_matrix(X).shape[1] == columns


@pytest.mark.data
def test_so_have_those_of_other_sets(data_folder: Path) -> None:
    for name, unit, n_inputs, logged in [
        ("cadata", "largest", 8, {0.1: 16, 0.79: 142, 3.16: 1855, 10.0: 13_970, 100.0: 158_389}),
        ("mnist", "overall", 780, {0.01: 1399, 0.03: 37_576}),
    ]:
        data = load_rows(name, data_folder)
        X = np.concatenate([data.X_train, data.X_test])[:, :n_inputs].astype(np.float64)
        X /= unit_of(unit, X)
        for gamma, columns in logged.items():
            widths, shifts = (part / gamma for part in their_grids.authors_grids(n_inputs, 8))
            grids = replace(
                Grids.draw(Laplacian(), np.ones(n_inputs), 8, seed=0), widths=widths, shifts=shifts
            )
            assert GivenBinning().fit_grids(X, grids).shape[1] == columns
