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
from studies.methods import TRAINERS
from studies.published import published
from studies.rb16 import STUDIES, their_grids
from studies.rb16.claim import Run, claimed, factor
from studies.rb16.curves import points
from studies.rb16.sets import GAMMAS, SETS
from studies.records import fit_seconds
from studies.rows import load_rows
from studies.settings import Units, unit_of
from studies.study import Job, Record, Study

BY_NAME = {study.name: study for study in STUDIES}
SCALES = (1.0, 0.5, 0.25, 0.1, 0.05)
study_named = pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)


def record(job: Job, facts: dict[str, Any], error: float, seconds: float = 2.0) -> Record:
    return {
        **job.identity,
        "key": job.key,
        "snapshot": 0,
        "status": "done",
        "reason": "",
        "task": "binary",
        "rows": [job.n_train or 1000, job.n_test or 1000],
        "inputs": 3,
        "seconds": {"total": seconds, "predict": 0.1},
        "memory": 2**20,
        "scores": {"relative_error": error, "train_relative_error": error / 2},
        "facts": {"seconds": seconds, "columns": 500, "iterations": 9, **facts},
    }


def records_of(study: Study) -> list[Record]:
    """Return made-up records of all jobs, a snapshot for each size or bandwidth."""
    found = []
    for job in study.jobs(0.25):
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
                    found.append(record(job, facts, 0.1))
    return found


@study_named
def test_jobs_are_different_and_their_methods_known(study: Study) -> None:
    for scale in SCALES:
        jobs = study.jobs(scale)
        assert len({job.key for job in jobs}) == len(jobs)
        assert {job.method for job in jobs} <= {
            *TRAINERS,
            *their_grids.TRAINERS,
            "gramless defaults",
        }
        assert all(job.study == study.key and job.seconds > 0 for job in jobs)


@study_named
def test_smaller_scales_ask_for_less_with_the_same_methods(study: Study) -> None:
    seconds = [sum(job.seconds for job in study.jobs(scale)) for scale in SCALES]
    assert seconds == sorted(seconds, reverse=True)
    methods = [{(job.data, job.method) for job in study.jobs(scale)} for scale in SCALES]
    assert all(one == methods[0] for one in methods)


@study_named
def test_nothing_measured_is_shown_as_such(study: Study) -> None:
    study.panels([])
    study.tables([])
    assert all(one.verdict == "not measured" for one in study.comparisons([]))


@study_named
def test_failed_runs_are_no_numbers(study: Study) -> None:
    (first, *_) = study.jobs(0.25)
    failed = {**record(first, {}, 0.1), "status": "failed", "reason": "too few rows"}
    study.panels([failed])
    study.tables([failed])
    assert all(one.ours is None for one in study.comparisons([failed]))


@study_named
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
    measured = [one for one in study.comparisons(records) if one.ours is not None]
    assert measured
    assert all(np.isfinite(one.theirs) for one in measured)


def test_figure_2_takes_the_nearest_number_of_columns() -> None:
    study = BY_NAME["figure-2"]
    (job,) = study.jobs(1.0)
    records = [
        record(job, {"columns": columns, "bandwidth": 1.0, "pattern": [0] * 2000}, 0.0)
        for columns in (100, 380, 900)
    ]
    columns, nonzeros = study.comparisons(records)
    assert (columns.ours, columns.verdict) == (380.0, "agrees")
    assert (nonzeros.ours, nonzeros.verdict) == (2000.0, "agrees")


def test_figure_3_compares_at_the_same_bandwidth() -> None:
    study = BY_NAME["figure-3"]
    job = next(job for job in study.jobs(1.0) if job.data == "ijcnn1")
    ours = record(job, {"bandwidth": 1.0 / 1.12, "size": 128}, 0.02, seconds=0.5)
    test, train, seconds = study.comparisons([ours])
    (theirs,) = [one for one in points("figure-3", "ijcnn1") if one.sigma == 1.12]
    assert theirs.test is not None
    assert theirs.train is not None
    assert (test.theirs, test.ours) == (pytest.approx(100 * theirs.test), pytest.approx(2.0))
    assert (train.theirs, train.ours) == (pytest.approx(100 * theirs.train), pytest.approx(1.0))
    assert (seconds.theirs, seconds.ours) == (theirs.seconds, 0.5)


def test_the_factor_is_at_the_lowest_error_that_both_reach() -> None:
    bins = [Run(8.0, 0.1, 1.0), Run(5.0, 1.0, 10.0), Run(3.0, 9.0, 90.0)]
    others = [Run(9.0, 1.0, 3.0), Run(5.5, 60.0, 40.0), Run(6.0, 50.0, 200.0)]
    found = factor("letter", "fourier", bins, others)
    assert found is not None
    assert (found.error, found.time, found.memory) == (5.5, 60.0, 4.0)
    better = factor("letter", "fourier", bins, [Run(1.0, 0.5, 1.0)])
    assert better is not None
    assert (better.error, better.time) == (3.0, pytest.approx(0.5 / 9.0))
    assert factor("letter", "fourier", bins, []) is None


def test_the_authors_own_runs_by_the_same_rule() -> None:
    forest = claimed("covtype_1vs2_169k", "fourier")
    assert forest is not None
    # 32,768 columns take 2235.9 s for an error that 8 grids reach in 6.92282 s.
    assert forest.time == pytest.approx(2235.9 / 6.92282)
    assert forest.error == pytest.approx(100.0 - 85.8945)
    blocks = claimed("ijcnn1", "blocks")
    assert blocks is not None
    assert blocks.time < 1.0


def test_the_claim_is_measured_from_records() -> None:
    study = BY_NAME["figure-5"]
    jobs = {(job.data, job.method): job for job in study.jobs(1.0)}
    bins = record(jobs["mnist", "binning"], {"size": 64}, 0.03, seconds=2.0)
    fourier = record(jobs["mnist", "fourier"], {"size": 64}, 0.04, seconds=30.0)
    (claim,) = [
        one
        for one in study.comparisons([bins, fourier])
        if one.what == "mnist, Fourier against random bins: times the time at the same error"
    ]
    assert claim.ours == pytest.approx(15.0)
    (table,) = study.tables([bins, fourier])
    assert [row[:2] for row in table.rows] == [("mnist", "Fourier")]


def test_logs_say_whether_they_are_twenty_times_faster() -> None:
    study = BY_NAME["logs"]
    forest = next(job for job in study.jobs(1.0) if job.options.get("solver") == "rows")
    numbers = published("rb16")
    theirs = numbers["covtype-mult/128/features"].value + numbers["covtype-mult/128/solve"].value
    for seconds, word in ((theirs / 25.0, "above"), (theirs / 15.0, "below")):
        runs = [record(forest, {"size": 128}, 0.1, seconds=seconds)]
        (time,) = [one for one in study.comparisons(runs) if one.unit == "s" and one.ours]
        assert (time.theirs, time.ours) == (pytest.approx(theirs), seconds)
        assert f"{word} the 20 asked for" in time.note


def test_logs_choose_a_bandwidth_as_theirs() -> None:
    study = BY_NAME["logs"]
    drawn = [job for job in study.jobs(1.0) if (job.data, job.method) == ("cpu_act", "binning")]
    runs = [
        record(job, {"size": 8, "bandwidth": bandwidth}, error, seconds=0.1)
        for job, best in zip(drawn, 0.01 * np.arange(len(drawn), 0, -1), strict=True)
        for bandwidth, error in ((10.0, 0.2), (1.78571, best), (1.26582, 0.3))
    ]
    found = {one.what.rpartition(", ")[2]: one.ours for one in study.comparisons(runs) if one.ours}
    assert len(drawn) == 10
    assert found["bandwidth chosen as theirs"] == pytest.approx(5.5)
    assert found["R = 8: relative test error"] == pytest.approx(30.0)
    (table,) = study.tables(runs)
    assert [row[-1] for row in table.rows] == ["30.00 %"] * 10


def test_curves_are_the_authors() -> None:
    (exact,) = points("figure-5", "mnist", "exact")
    assert (exact.size, exact.seconds) == (60_000, 15752.5)
    assert exact.test == pytest.approx(0.0157)
    assert all(one.size == 128 for one in points("figure-3", "letter"))
    assert [one.sigma for one in points("figure-3", "letter")] == list(GAMMAS)
    for own in SETS.values():
        assert points("figure-5", own.paper_name, "binning")
        assert set(own.gammas.values()) <= set(GAMMAS)


def test_fit_seconds_are_of_one_machine() -> None:
    (job, *_) = BY_NAME["figure-4"].jobs(0.1)
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
@pytest.mark.parametrize(
    ("name", "unit", "n_inputs", "logged"),
    [
        ("cadata", "largest", 8, {0.1: 16, 0.79: 142, 3.16: 1855, 10.0: 13_970, 100.0: 158_389}),
        ("mnist", "overall", 780, {0.01: 1399, 0.03: 37_576}),
    ],
)
def test_so_have_those_of_other_sets(
    data_folder: Path, name: str, unit: Units, n_inputs: int, logged: dict[float, int]
) -> None:
    data = load_rows(name, data_folder)
    X = np.concatenate([data.X_train, data.X_test])[:, :n_inputs].astype(np.float64)
    X /= unit_of(unit, X)
    for gamma, columns in logged.items():
        widths, shifts = (part / gamma for part in their_grids.authors_grids(n_inputs, 8))
        grids = replace(
            Grids.draw(Laplacian(), np.ones(n_inputs), 8, seed=0), widths=widths, shifts=shifts
        )
        assert GivenBinning().fit_grids(X, grids).shape[1] == columns
