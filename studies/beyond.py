"""Beyond the papers: boosted trees and this package's defaults on every set of each paper."""

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
_MOST_TEST_ROWS = 50_000
_START = 2.5
_TIE = 0.01
"""Errors that differ by no more, of the smaller one, are as good as each other."""


TABLES = {
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
"""Seconds that each method's fit is expected to take, by data set."""
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
"""By paper, those here that are the paper's or stand in for them."""


_MINUTES = {"rr07": 4.0, "rb16": 12.0, "dsg16": 11.0}


def jobs(paper: str) -> list[Job]:
    """Return every method on every set of a paper."""
    return [
        Job(
            f"{paper}/beyond",
            data,
            method,
            n_test=_MOST_TEST_ROWS,
            seconds=_START + seconds,
        )
        for data in SETS[paper]
        for method, seconds in zip(METHODS, TABLES[data], strict=True)
    ]


def panels(paper: str, records: list[Record]) -> list[Panel]:
    """Return a picture of each set: test error by time of the fit, a point a method."""
    found = []
    for data in SETS[paper]:
        lines, task = [], ""
        for method in METHODS:
            record = last_completed(records, data=data, method=method)
            if record is not None:
                task = record["task"]
                lines.append(Line(method, [fit_seconds(record)], [_error(record)]))
        name = "RMSE / standard deviation, %" if task == "regression" else "test error, %"
        found.append(Panel(data, "training time, s", name, tuple(lines), x_log=True))
    return found


def tables(paper: str, records: list[Record]) -> list[TableOf]:
    """Return errors and times, who is best, and how often."""
    columns = ("data", "training rows", *METHODS, "ours / the best of the others", "")
    rows, ratios = [], []
    for data in SETS[paper]:
        found = {method: last_completed(records, data=data, method=method) for method in METHODS}
        cells = [_cell(records, data, method, found[method]) for method in METHODS]
        ratio = _ratio(found)
        ratios += [] if ratio is None else [ratio]
        said = ("–", "") if ratio is None else (f"{ratio:.2f}", _verdict(ratio))
        known = next((record for record in found.values() if record is not None), None)
        rows.append((data, f"{known['rows'][0]:,}" if known else "–", *cells, *said))
    if len(ratios) > 1:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        rows.append(("geometric mean", "", "", "", "", f"{mean:.2f}", _counted(ratios)))
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


def _ratio(found: dict[str, Record | None]) -> float | None:
    """Return our error over the least of the others', None where either is not there."""
    ours = found[OURS]
    others = [_error(record) for method in PEERS if (record := found[method]) is not None]
    if ours is None or not others or not min(others) > 0.0 or not _error(ours) > 0.0:
        return None
    return _error(ours) / min(others)


def _verdict(ratio: float) -> str:
    """Return who has the smaller error.

    Examples
    --------
    >>> _verdict(0.9), _verdict(1.005), _verdict(1.2)
    ('gramless wins', 'tie', 'gramless loses')
    """
    if ratio > 1.0 + _TIE:
        return "gramless loses"
    return "gramless wins" if 1.0 / ratio > 1.0 + _TIE else "tie"


def _counted(ratios: Sequence[float]) -> str:
    said = [_verdict(ratio) for ratio in ratios]
    wins, losses = said.count("gramless wins"), said.count("gramless loses")
    return f"{wins} wins, {losses} losses, {said.count('tie')} ties"


def _error(record: Record) -> float:
    return 100.0 * float(record["scores"]["test_error"])


def _study(paper: str) -> Study:
    of_paper: dict[str, Callable[..., list]] = {
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
        **of_paper,
    )


STUDIES = tuple(_study(paper) for paper in SETS)
"""One a paper."""
