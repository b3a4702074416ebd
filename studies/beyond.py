"""Comparisons beyond the papers: boosted trees and our defaults on each paper's data sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from studies.numbers import brief_seconds
from studies.records import NOT_RUN, fit_seconds, last_completed, reason_missing
from studies.study import Job, Line, Panel, Record, Study, TableOf

OURS, LIGHTGBM, HISTOGRAMS = "gramless defaults", "LightGBM", "HistGradientBoosting"
METHODS = (OURS, LIGHTGBM, HISTOGRAMS)
PEERS = METHODS[1:]
_MAX_TEST_ROWS = 50_000
_START_SECONDS = 2.5  # starting the process and loading the data
_TIE = 0.01  # Errors within 1 % of the smaller one count as equal.

# Expected seconds of the fits of METHODS, by data set.
_FIT_SECONDS = {
    "cpu_act": (4.0, 1.5, 2.0),
    "house_16H": (5.0, 1.5, 2.0),
    "a9a": (7.0, 1.5, 3.0),
    "covtype_1vs2_169k": (40.0, 10.0, 15.0),
    "kddcup99_10pct": (25.0, 12.0, 15.0),
    "cadata": (5.0, 2.0, 3.0),
    "ijcnn1": (12.0, 2.5, 4.0),
    "letter": (20.0, 12.0, 20.0),
    "mnist": (80.0, 100.0, 200.0),
    "cod-rna": (12.0, 2.0, 3.0),
    "cifar10_pca100": (20.0, 60.0, 150.0),
}
# The available data sets of each paper, or those that replace them.
SETS = {
    "rr07": ("cpu_act", "house_16H", "a9a", "covtype_1vs2_169k", "kddcup99_10pct"),
    "rb16": (
        "cadata",
        "ijcnn1",
        "letter",
        "cod-rna",
        "house_16H",
        "covtype_1vs2_169k",
        "mnist",
    ),
    "dsg16": ("cifar10_pca100", "mnist"),
}
_MINUTES = {"rr07": 4.0, "rb16": 12.0, "dsg16": 11.0}


def jobs(paper: str) -> list[Job]:
    """Return a job for every data set of a paper and every method."""
    return [
        Job(
            f"{paper}/beyond",
            data,
            method,
            n_test=_MAX_TEST_ROWS,
            seconds=_START_SECONDS + seconds,
        )
        for data in SETS[paper]
        for method, seconds in zip(METHODS, _FIT_SECONDS[data], strict=True)
    ]


def panels(paper: str, records: list[Record]) -> list[Panel]:
    """Return one panel per data set: the test error and training time of each method."""
    panels = []
    for data in SETS[paper]:
        lines, task = [], ""
        for method in METHODS:
            record = last_completed(records, data=data, method=method)
            if record is not None:
                task = record["task"]
                lines.append(Line(method, [fit_seconds(record)], [_error(record)]))
        name = "RMSE / standard deviation, %" if task == "regression" else "test error, %"
        panels.append(Panel(data, "training time, s", name, tuple(lines), x_log=True))
    return panels


def tables(paper: str, records: list[Record]) -> list[TableOf]:
    """Return a table of errors and times, with the best method and the counts of wins."""
    columns = ("data", "training rows", *METHODS, "ours / the best of the others", "")
    rows, ratios = [], []
    for data in SETS[paper]:
        results = {method: last_completed(records, data=data, method=method) for method in METHODS}
        cells = [_cell(records, data, method, results[method]) for method in METHODS]
        ratio = _ratio(results)
        ratios += [] if ratio is None else [ratio]
        comparison = ("–", "") if ratio is None else (f"{ratio:.2f}", _verdict(ratio))
        known = next((record for record in results.values() if record is not None), None)
        rows.append((data, f"{known['rows'][0]:,}" if known else "–", *cells, *comparison))
    if len(ratios) > 1:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        rows.append(("geometric mean", "", "", "", "", f"{mean:.2f}", _count_wins(ratios)))
    note = (
        "Errors: share of test rows wrong, or RMSE over the standard deviation of the test "
        "targets; then seconds of the fit, each method's own choices included. A tie: within 1 %."
    )
    return [TableOf("Defaults beside boosted trees", columns, tuple(rows), note)]


def _cell(records: list[Record], data: str, method: str, record: Record | None) -> str:
    if record is None:
        reason = reason_missing(records, data=data, method=method)
        return "–" if reason == NOT_RUN else reason
    return f"{_error(record):.2f} %, {brief_seconds(fit_seconds(record))}"


def _ratio(results: dict[str, Record | None]) -> float | None:
    """Return our error divided by the lowest error of the others, None if either is missing."""
    ours = results[OURS]
    others = [_error(record) for method in PEERS if (record := results[method]) is not None]
    if ours is None or not others or not min(others) > 0.0 or not _error(ours) > 0.0:
        return None
    return _error(ours) / min(others)


def _verdict(ratio: float) -> str:
    """Return which method has the smaller error.

    Examples
    --------
    >>> _verdict(0.9), _verdict(1.005), _verdict(1.2)
    ('gramless wins', 'tie', 'gramless loses')
    """
    if ratio > 1.0 + _TIE:
        return "gramless loses"
    return "gramless wins" if 1.0 / ratio > 1.0 + _TIE else "tie"


def _count_wins(ratios: Sequence[float]) -> str:
    verdicts = [_verdict(ratio) for ratio in ratios]
    wins, losses = verdicts.count("gramless wins"), verdicts.count("gramless loses")
    return f"{wins} wins, {losses} losses, {verdicts.count('tie')} ties"


def _error(record: Record) -> float:
    return 100.0 * float(record["scores"]["test_error"])


def _study(paper: str) -> Study:
    functions: dict[str, Callable[..., list]] = {
        "jobs": partial(jobs, paper),
        "panels": partial(panels, paper),
        "tables": partial(tables, paper),
    }
    return Study(
        paper,
        "beyond",
        "Boosted trees and our defaults on the paper's data sets",
        "Each method as its user would take it: KernelClassifier() or KernelRegressor() with "
        "nothing given but the seed; LightGBM and HistGradientBoosting of scikit-learn with up to "
        "1,000 trees, a learning rate of 0.1, stopped when a tenth of the rows, held back, has "
        "not gained for 50 trees. Rows and inputs are the same for all; at most 50,000 test rows "
        "are used.",
        minutes=_MINUTES[paper],
        **functions,
    )


STUDIES = tuple(_study(paper) for paper in SETS)
