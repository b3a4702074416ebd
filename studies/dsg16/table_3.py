"""Table 3: training errors at the time when LIBSVM has converged."""

from __future__ import annotations

from dataclasses import replace

from studies.comparisons import REPETITIONS, Comparison, compare
from studies.dsg16.runs import METHOD, OURS, PAPER_RUNS, Setting, course, curves, panel, race
from studies.published import Published, published
from studies.records import fit_seconds, last_completed, reason_missing
from studies.study import Job, Line, Panel, Record, Study, TableOf

NAME = "dsg16/table-3"
LIBSVM = "LIBSVM"
_RUNS = (*PAPER_RUNS, OURS)
# Our estimators for data in memory, which select all hyperparameters themselves.
OUR_ESTIMATORS: dict[str, dict[str, object]] = {
    "gramless, bins": {},
    "gramless, Fourier": {"features": "fourier"},
}
SETTING = Setting("cifar10_pca100", "CIFAR-10", 4096, 256, 1e-5)
_ROWS = 50_000
# Expected seconds on all rows: LIBSVM on one core, our estimators on two.
_LIBSVM_SECONDS, _OUR_SECONDS = 240.0, 70.0
_TIME_RESERVE = 1.2  # so that the runs last until LIBSVM has converged
_SCORES = ("train_error", "test_error")
_NOTE = "50,000 training rows, 60,000 in the paper; C, which it does not give, is 1/(lambda n)"


def jobs() -> list[Job]:
    """Return the jobs of LIBSVM, our estimators, and the runs to compare with LIBSVM."""
    C = 1.0 / (SETTING.alpha * _ROWS)
    options: dict[str, object] = {"units": "none", "bandwidth": "median", "C": C}
    end = {"seconds": _TIME_RESERVE * _LIBSVM_SECONDS}
    return [
        _job(LIBSVM, options, 4.0 + 1.3 * _LIBSVM_SECONDS),
        race(NAME, SETTING, _RUNS, end, _SCORES, n_jobs=1),
        *(
            _job("gramless defaults", parameters, 6.0 + _OUR_SECONDS)
            for parameters in OUR_ESTIMATORS.values()
        ),
        *(
            replace(race(NAME, SETTING, PAPER_RUNS, end, _SCORES, n_jobs=1), seed=seed)
            for seed in range(1, REPETITIONS)
        ),
    ]


def _job(method: str, options: dict[str, object], seconds: float) -> Job:
    return Job(NAME, SETTING.data, method, options, scores=_SCORES, seconds=seconds)


def panels(records: list[Record]) -> list[Panel]:
    """Return panels of training and test error over time, with LIBSVM and our estimators."""
    estimators = _estimators(records)
    panels = []
    for what, score in (("training error", "train_error"), ("test error", "test_error")):
        lines = curves(_first_race(records), SETTING.data, _RUNS, score, 100.0)
        points = tuple(
            Line(name, [fit_seconds(record)], [100.0 * record["scores"][score]])
            for name, record in estimators.items()
        )
        panels.append(panel(f"CIFAR-10: {what}", lines + points, f"{what}, %"))
    return panels


def tables(records: list[Record]) -> list[TableOf]:
    """Return a table of the errors when LIBSVM has converged, and of our estimators' errors."""
    numbers = published("dsg16")
    runs = {label: _at_libsvm_end(records, _first_race(records), label) for label in _RUNS}
    rows = []
    for name, record in {**_estimators(records), **runs}.items():
        if record is None:
            continue
        number = numbers.get(f"table-3/CIFAR-10/{name}/train_error")
        rows.append(
            (
                name,
                f"{fit_seconds(record):.1f}",
                "" if number is None else f"{number.value:g} %",
                f"{100 * record['scores']['train_error']:.1f} %",
                f"{100 * record['scores']['test_error']:.1f} %",
            )
        )
    columns = ("method", "time, s", "paper: training error", "training error", "test error")
    title = "When LIBSVM has converged; gramless' machines with their own times"
    return [TableOf(title, columns, tuple(rows), _NOTE)] if rows else []


def comparisons(records: list[Record]) -> list[Comparison]:
    """Return a comparison for every number of the table."""
    numbers = published("dsg16").values()
    return [_comparison(records, number) for number in numbers if number.study == "table-3"]


def _comparison(records: list[Record], number: Published) -> Comparison:
    _, data, method, what = number.key.split("/")
    if data != SETTING.title:
        return Comparison(number, missing="epsilon is not run: its kernel matrix takes hours")
    if method == LIBSVM:
        measured = [_estimators(records).get(LIBSVM)]
    else:
        races = ([one for one in records if one["seed"] == seed] for seed in range(REPETITIONS))
        measured = [_at_libsvm_end(records, one, method) for one in races]
    return compare(
        number,
        [record for record in measured if record is not None],
        fit_seconds if what == "seconds" else lambda record: 100.0 * float(record["scores"][what]),
        repetitions=1 if method == LIBSVM else REPETITIONS,
        missing=reason_missing(records, method=LIBSVM if method == LIBSVM else METHOD),
    )


def _estimators(records: list[Record]) -> dict[str, Record]:
    """Return the records of LIBSVM and of our estimators, without those that were not run."""
    candidates = {LIBSVM: last_completed(records, method=LIBSVM)}
    for name, options in OUR_ESTIMATORS.items():
        wanted = {"features": options.get("features")}
        candidates[name] = last_completed(records, method="gramless defaults", options=wanted)
    return {name: record for name, record in candidates.items() if record is not None}


def _first_race(records: list[Record]) -> list[Record]:
    """Return the records of the only seed that has all runs and our estimators."""
    return [record for record in records if record["seed"] == 0]


def _at_libsvm_end(records: list[Record], of_race: list[Record], label: str) -> Record | None:
    """Return the last snapshot of a run before the time when LIBSVM has converged."""
    libsvm = last_completed(records, method=LIBSVM)
    if libsvm is None:
        return None
    end = fit_seconds(libsvm)
    snapshots = course(of_race, SETTING.data, label)
    return next((one for one in reversed(snapshots) if fit_seconds(one) <= end), None)


TABLE_3 = Study(
    "dsg16",
    "table-3",
    "CIFAR-10: training errors at the time at which LIBSVM has converged",
    "SVC of scikit-learn, which is LIBSVM, with a Gaussian kernel of the median distance and "
    "C = 1/(lambda n), and runs of logistic loss on the same rows, all on one core each; "
    "those of the paper with five seeds. "
    "Below, our machines for rows in memory, on two cores and in their "
    "own time. Rows: 50,000 of raw pixels on 100 principal components, 1,000 test rows.",
    jobs,
    110.0,
    panels,
    tables,
    comparisons,
)
