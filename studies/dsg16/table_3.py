"""Table 3: training errors at the time at which LIBSVM has converged."""

from __future__ import annotations

from studies.comparisons import REPETITIONS, Comparison, compare
from studies.dsg16.runs import METHOD, OURS, PAPER_RUNS, Setting, course, curves, panel, race
from studies.published import Published, published
from studies.records import fit_seconds, last_completed, reason_missing
from studies.study import Job, Line, Panel, Record, Study, TableOf

NAME = "dsg16/table-3"
LIBSVM = "LIBSVM"
_RUNS = (*PAPER_RUNS, OURS)
OWN: dict[str, dict[str, object]] = {
    "gramless, bins": {},
    "gramless, Fourier": {"features": "fourier"},
}
"""Our machines for rows in memory, that choose everything themselves."""
SETTING = Setting("cifar10_pca100", "CIFAR-10", 4096, 256, 1e-5)
_ROWS = 50_000
_LIBSVM_SECONDS, _OWN_SECONDS = 240.0, 70.0
"""Of all rows: on one core; on two."""
_LONGER = 1.2
_SCORES = ("train_error", "test_error")
_NOTE = "50,000 training rows, 60,000 in the paper; C, which it does not give, is 1/(lambda n)"


def jobs() -> list[Job]:
    """Return LIBSVM, the runs beside it on the same rows, and our own machines."""
    C = 1.0 / (SETTING.alpha * _ROWS)
    options: dict[str, object] = {"units": "none", "bandwidth": "median", "C": C}
    found = [_job(LIBSVM, options, 4.0 + 1.3 * _LIBSVM_SECONDS)]
    longer = {"seconds": _LONGER * _LIBSVM_SECONDS}
    found.append(race(NAME, SETTING, _RUNS, longer, _SCORES, n_jobs=1))
    found += [_job("gramless defaults", own, 6.0 + _OWN_SECONDS) for own in OWN.values()]
    return found


def _job(method: str, options: dict[str, object], seconds: float) -> Job:
    return Job(NAME, SETTING.data, method, options, scores=_SCORES, seconds=seconds)


def panels(records: list[Record]) -> list[Panel]:
    """Return training and test error along the clock, and where LIBSVM ends."""
    ends = _ends(records)
    found = []
    for what, score in (("training error", "train_error"), ("test error", "test_error")):
        lines = curves(records, SETTING.data, _RUNS, score, 100.0)
        points = tuple(
            Line(name, [fit_seconds(end)], [100.0 * end["scores"][score]])
            for name, end in ends.items()
        )
        found.append(panel(f"CIFAR-10: {what}", lines + points, f"{what}, %"))
    return found


def tables(records: list[Record]) -> list[TableOf]:
    """Return errors at the time of LIBSVM's end, and our other machines with their own times."""
    numbers = published("dsg16")
    found = {label: _beside(records, label) for label in _RUNS}
    rows = []
    for name, record in {**_ends(records), **found}.items():
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
    """Return every number of the table and ours."""
    numbers = published("dsg16").values()
    return [_comparison(records, number) for number in numbers if number.study == "table-3"]


def _comparison(records: list[Record], number: Published) -> Comparison:
    _, data, method, what = number.key.split("/")
    if data != SETTING.title:
        return Comparison(number, missing="epsilon is not run: its kernel matrix takes hours")
    record = _ends(records).get(LIBSVM) if method == LIBSVM else _beside(records, method)
    return compare(
        number,
        [] if record is None else [record],
        fit_seconds if what == "seconds" else lambda record: 100.0 * float(record["scores"][what]),
        repetitions=1 if method == LIBSVM else REPETITIONS,
        missing=reason_missing(records, method=LIBSVM if method == LIBSVM else METHOD),
    )


def _ends(records: list[Record]) -> dict[str, Record]:
    """Return LIBSVM and our machines, those that were run."""
    found = {LIBSVM: last_completed(records, method=LIBSVM)}
    for name, options in OWN.items():
        wanted = {"features": options.get("features")}
        found[name] = last_completed(records, method="gramless defaults", options=wanted)
    return {name: record for name, record in found.items() if record is not None}


def _beside(records: list[Record], label: str) -> Record | None:
    """Return the last snapshot of a run before LIBSVM has converged."""
    libsvm = last_completed(records, method=LIBSVM)
    if libsvm is None:
        return None
    until = fit_seconds(libsvm)
    snapshots = course(records, SETTING.data, label)
    return next((one for one in reversed(snapshots) if fit_seconds(one) <= until), None)


TABLE_3 = Study(
    "dsg16",
    "table-3",
    "CIFAR-10: training errors at the time at which LIBSVM has converged",
    "SVC of scikit-learn, which is LIBSVM, with a Gaussian kernel of the median distance and "
    "C = 1/(lambda n), and runs of logistic loss on the same rows, all on one core each. "
    "Below, our machines for rows in memory, on two cores and in their "
    "own time. Rows: 50,000 of raw pixels on 100 principal components, 1,000 test rows.",
    jobs,
    45.0,
    panels,
    tables,
    comparisons,
)
