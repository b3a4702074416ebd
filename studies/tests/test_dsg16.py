"""DSG16: runs by label, courses along the clock, and features that a user brings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gramless.estimators.streamed import STRATEGIES
from gramless.streaming.strategies import Checking
from studies.dsg16.figure_1 import FIGURE_1
from studies.dsg16.figure_2 import FIGURE_2
from studies.dsg16.runs import CDSG, DSG, METHOD, OURS, SEPARATOR, SVRG_LABEL, UDSG
from studies.dsg16.stochastic_gradients import RUNS
from studies.dsg16.table_3 import LIBSVM, TABLE_3
from studies.dsg16.table_6 import TABLE_6
from studies.published import published
from studies.runner import absence_check, plan
from studies.worker import measure


def records_of(job, run, times, errors):
    """Return the records of a run of a race: a snapshot a time."""
    return [
        {
            "key": job.key,
            **job.identity,
            "snapshot": k,
            "status": "done",
            "reason": "",
            "task": "multiclass",
            "rows": [job.n_train or 50_000, 1000],
            "seconds": {"total": 10.0 * seconds, "prepare": 1.0, "predict": 0.1},
            "scores": dict.fromkeys(job.scores, error),
            "facts": {
                "run": run,
                "seconds": seconds,
                "features": 1000,
                "steps": 10 * k,
                "computed": 5e6 * k,
                "batch_rows": 64,
            },
        }
        for k, (seconds, error) in enumerate(zip(times, errors, strict=True))
    ]


def job_of(study, data, method=METHOD):
    """Return a study's first job on a data set."""
    return next(one for one in study.jobs() if (one.data, one.method) == (data, method))


def test_the_papers_runs_take_its_steps_with_its_parameters():
    for run in (DSG, UDSG, CDSG):
        assert not RUNS[run]["fit_intercept"]
        assert not RUNS[run]["average"]
        assert RUNS[run]["update"] == "gradient"
    # As the inequality (9) is printed: with B^2, and steps of any length.
    assert STRATEGIES[RUNS[CDSG]["strategy"]] == Checking(power=2, longest=np.inf)
    sizes = {
        (FIGURE_1, "cifar10_pca100"): (4096, 256, 1e-5),
        (FIGURE_1, "epsilon"): (10_000, 512, 1e-5),
        (FIGURE_2, "mnist"): (20_000, 4096, 1e-6),
        (TABLE_3, "cifar10_pca100"): (4096, 256, 1e-5),
        (TABLE_6, "cifar10_features"): (32_768, 512, 5e-4),
        (TABLE_6, "imagenet_features"): (16_384, 128, 5e-4),
    }
    for (study, data), expected in sizes.items():
        options = job_of(study, data).options
        assert tuple(options[name] for name in ("batch_size", "block_size", "alpha")) == expected
        assert options["runs"].split(SEPARATOR)[:3] == [DSG, UDSG, CDSG]
    assert job_of(FIGURE_1, "cifar10_pca100").options["frequencies"] == 4 * 256


def test_figure_1_draws_courses_along_the_clock_without_the_components():
    records = records_of(job_of(FIGURE_1, "mnist"), UDSG, [1.0, 4.0], [2.0, 0.5])
    drawn = {panel.title: panel for panel in FIGURE_1.panels(records)}
    (line,) = drawn["MNIST: objective by seconds"].lines
    assert (line.label, line.x, line.y) == (UDSG, (1.0, 4.0), (2.0, 0.5))
    assert not drawn["CIFAR-10: objective by seconds"].lines
    assert "Epsilon: objective by seconds" not in drawn
    (line,) = drawn["MNIST: objective by computed"].lines
    assert line.x == (0.0, 5e6)
    assert drawn["MNIST: objective by computed"].x_label == "random features computed"
    _, table = FIGURE_1.tables(records)
    assert table.rows == ((UDSG, "4.0", "10", "500", "5e+06", "0.5", "75 %", "0.5", "0.5"),)


def test_features_computed_until_dsg_s_objective_are_compared():
    job = job_of(FIGURE_1, "mnist")
    records = records_of(job, DSG, [1.0, 4.0, 9.0], [2.0, 0.5, 0.4])
    records += records_of(job, CDSG, [1.0, 2.0, 3.0], [2.0, 0.39, 0.2])
    records += records_of(job, UDSG, [1.0, 2.0, 3.0], [2.0, 0.6, 0.5])
    *_, saved = FIGURE_1.tables(records)
    assert saved.title == "MNIST: until the objective is 0.4, where DSG ends"
    assert saved.rows == (
        (DSG, "20", "1e+07", "1.00", "9.0"),
        (UDSG, "not reached", "", "", ""),
        (CDSG, "10", "5e+06", "0.50", "2.0"),
    )


def test_figure_2_has_a_race_of_pairs_of_classes():
    logistic, _, pairs = FIGURE_2.jobs()
    records = records_of(logistic, DSG, [1.0], [0.5]) + records_of(pairs, DSG, [2.0], [0.25])
    drawn = {panel.title: panel for panel in FIGURE_2.panels(records)}
    for loss, error in (("logistic", 50.0), ("one-vs-one hinge", 25.0)):
        (line,) = drawn[f"Deformed digits, {loss} loss: test error by steps"].lines
        assert list(line.y) == [error]


def test_figure_2_compares_few_stored_features():
    job = job_of(FIGURE_2, "mnist")
    assert job.options["frequencies"] == 500
    records = records_of(job, SVRG_LABEL, [1.0, 2.0], [0.2, 0.06])
    (one,) = FIGURE_2.comparisons(records + records_of(job, OURS, [1.0], [0.03]))
    assert (one.number.value, one.measured) == (5.0, pytest.approx((6.0,)))
    assert one.verdict == "other data"


def test_table_3_takes_runs_at_the_time_at_which_libsvm_has_converged():
    svm, job = (job_of(TABLE_3, "cifar10_pca100", method) for method in (LIBSVM, METHOD))
    records = records_of(svm, "", [100.0], [0.38])
    records += records_of(job, DSG, [10.0, 99.0, 121.0], [0.6, 0.45, 0.4])
    records += records_of(job, CDSG, [101.0], [0.41])
    ours = {one.number.what: one for one in TABLE_3.comparisons(records)}
    what = "CIFAR-10, {}: training error when LIBSVM has converged"
    assert ours[what.format("LIBSVM")].measured == pytest.approx((38.0,))
    assert ours[what.format("DSG")].measured == pytest.approx((45.0,))
    assert ours[what.format("DSG")].reason == "1 of 5 repetitions"
    assert not ours[what.format("CDSG")].measured
    assert ours["CIFAR-10, LIBSVM: training time"].measured == (100.0,)
    assert all(not one.measured for what, one in ours.items() if what.startswith("Epsilon"))
    rows = {row[0]: row for row in TABLE_3.tables(records)[0].rows}
    assert rows[DSG] == (DSG, "99.0", "40.7 %", "45.0 %", "45.0 %")


def test_table_3_compares_five_races_of_different_seeds():
    svm, *others = TABLE_3.jobs()
    races = [job for job in others if job.method == METHOD]
    assert [job.seed for job in races] == [0, 1, 2, 3, 4]
    records = records_of(svm, "", [100.0], [0.38])
    for number, job in enumerate(races):
        records += records_of(job, DSG, [99.0], [0.5 + 0.01 * number])
    ours = {one.number.what: one for one in TABLE_3.comparisons(records)}
    one = ours["CIFAR-10, DSG: training error when LIBSVM has converged"]
    assert one.measured == pytest.approx((50.0, 51.0, 52.0, 53.0, 54.0))
    assert one.verdict == "higher"


def test_libsvm_has_the_penalty_of_the_runs():
    svm, *others = TABLE_3.jobs()
    assert {job.n_train for job in others} == {svm.n_train} == {None}
    assert svm.options["C"] == pytest.approx(1.0 / (1e-5 * 50_000))


def test_table_5_is_taken_when_cdsg_has_converged_and_table_6_at_the_end():
    data = "cifar10_features"
    job = job_of(TABLE_6, data)
    records = records_of(job, CDSG, [1.0, 5.0, 9.0], [0.3, 0.2, 0.1995])
    records += records_of(job, DSG, [1.0, 5.1, 9.0], [0.5, 0.4, 0.3])
    ours = {one.number.what: one.measured for one in TABLE_6.comparisons(records)}
    name = "CIFAR-10, features of a neural net, DSG: test error, "
    assert ours[f"{name}when CDSG has converged"] == pytest.approx((40.0,))
    assert ours[f"{name}converged"] == pytest.approx((30.0,))
    assert ours["ImageNet, features of a neural net, CDSG: test error, converged"] == ()
    five, six = TABLE_6.tables(records)
    assert five.title.startswith("Table 5:")
    assert five.rows[0][:4] == ("CIFAR-10", "40.0", "", "20.0")
    assert six.rows[-1] == ("paper: ImageNet", "44.9", "44.8", "44.7", "", "46.2", "42.4")


def test_every_number_of_tables_5_and_6_has_a_row():
    numbers = [one for one in published("dsg16").values() if one.study in ("table-5", "table-6")]
    assert len(numbers) == 30
    assert len(TABLE_6.comparisons([])) == 30


@pytest.fixture
def brought(tmp_path):
    """Return a folder with features that a user has made."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=400)
    X = (rng.normal(size=(400, 5)) + 2.0 * np.eye(3, 5)[y]).astype(np.float32)
    parts = {"X_train": X[:300], "y_train": y[:300], "X_test": X[300:], "y_test": y[300:]}
    np.savez(tmp_path / "features.npz", **parts)
    return tmp_path


def test_features_are_run_where_the_file_is(brought, tmp_path_factory):
    todo = plan([TABLE_6], set(), np.inf, absence_check(brought))
    assert {job.data for job in todo.jobs} == {"features"}
    assert "cifar10_features" in todo.absent
    elsewhere = plan([TABLE_6], set(), np.inf, absence_check(tmp_path_factory.mktemp("empty")))
    assert not elsewhere.jobs


@pytest.mark.slow
def test_features_are_learned(brought):
    small = {"seconds": 0.1, "snapshots": 2, "batch_size": 200, "block_size": 32}
    job = job_of(TABLE_6, "features")
    records = list(measure(replace(job, options={**job.options, **small}), str(brought)))
    ends = {one["facts"]["run"]: one["scores"] for one in records}
    assert set(ends) == {DSG, UDSG, CDSG, OURS}
    assert all(scores["test_error"] < 0.25 for scores in ends.values())
    assert all(scores["objective"] < np.log(3.0) for scores in ends.values())
