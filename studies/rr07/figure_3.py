"""Figure 3: random bins on Forest Cover, against the number of rows and of grids."""

from __future__ import annotations

from itertools import pairwise

from studies.published import published
from studies.records import completed, fit_seconds, reason_missing
from studies.rr07.sets import SETS
from studies.study import Comparison, Job, Line, Panel, Record, Study

NAME = "rr07/figure-3"
_FOREST = SETS["forest"]
_GRIDS = "10 20 30 40 50"
_HALVINGS = 7
_LABEL = "Binning + LS"
_FULL_SCALE = 0.35
"""From here on all rows are used: the machines are quick."""


def jobs(scale: float) -> list[Job]:
    """Return a job for all numbers of grids, and one for each number of rows."""
    rows = round(_FOREST.n_train * min(1.0, scale / _FULL_SCALE))
    by_grids = {**_FOREST.binning, "size": _GRIDS}
    found = [_job(by_grids, rows, 5.0 + 25.0 * rows / _FOREST.n_train)]
    for halving in range(_HALVINGS):
        fewer = rows // 2**halving
        found.append(_job(_FOREST.binning, fewer, 3.0 + 5.0 * fewer / _FOREST.n_train))
    return found


def _job(options: object, rows: int, seconds: float) -> Job:
    return Job(
        NAME,
        _FOREST.data,
        "binning",
        options,  # type: ignore[arg-type]
        n_train=None if rows >= _FOREST.n_train else rows,
        seconds=seconds,
    )


def panels(records: list[Record]) -> list[Panel]:
    """Return the paper's three pictures."""
    sizes, grids = _by_rows(records), _by_grids(records)
    numbers = published("rr07")
    error, seconds = (numbers[f"forest/binning/{what}"] for what in ("error", "seconds"))
    note = "The paper's point is from its Table 1: 522,000 training rows."
    rows = f"{grids[0]['rows'][0]:,} training rows" if grids else "not run"
    measured = [one["facts"]["size"] for one in grids]
    times = [fit_seconds(one) + one["seconds"]["predict"] for one in grids]
    return [
        Panel(
            "Error against training rows, P = 50",
            "training rows",
            "test error, %",
            (_line([one["rows"][0] for one in sizes], [_error(one) for one in sizes]),),
            x_log=True,
            y_log=True,
        ),
        Panel(
            f"Error against P, {rows}",
            "grids P",
            "test error, %",
            (
                _line(measured, [_error(one) for one in grids]),
                Line(_LABEL, [50.0], [error.value], kind="published"),
            ),
            note=note,
        ),
        Panel(
            f"Time against P, {rows}",
            "grids P",
            "training and testing, s",
            (
                _line(measured, times),
                Line(_LABEL, [50.0], [seconds.value], kind="published"),
            ),
            y_log=True,
            note=note,
        ),
    ]


def comparisons(records: list[Record]) -> list[Comparison]:
    """Return the one number of the caption: what twice the rows are worth."""
    number = published("rr07")["forest/doubling"]
    sizes = _by_rows(records)
    gains = [100.0 * (1.0 - _error(more) / _error(few)) for few, more in pairwise(sizes)]
    note = reason_missing(records, data=_FOREST.data)
    if gains:
        rows = " to ".join(f"{sizes[k]['rows'][0]:,}" for k in (0, -1))
        note = f"the largest of {len(gains)} doublings, {rows} rows"
    return [
        Comparison(
            number.what,
            number.value,
            max(gains, default=None),
            number.unit,
            number.tolerance,
            smaller_is_better=False,
            note=note,
        )
    ]


def _by_rows(records: list[Record]) -> list[Record]:
    """Return the records of different numbers of rows, the fewest first."""
    found = completed(records, options={"size": _FOREST.binning["size"]})
    return sorted(found, key=lambda one: one["rows"][0])


def _by_grids(records: list[Record]) -> list[Record]:
    return completed(records, options={"size": _GRIDS})


def _line(x: list[float], y: list[float]) -> Line:
    return Line(_LABEL, x, y)


def _error(record: Record) -> float:
    return 100.0 * float(record["scores"]["test_error"])


FIGURE_3 = Study(
    "rr07",
    "figure-3",
    "Random bins on Forest Cover: error against training rows and grids, time against grids",
    "Least squares on random bins, with the parameters of Table 1. Half the rows each time, down "
    "to one row in 64, and 10 to 50 grids. The paper's points are not printed, only the end "
    "of the curves is in its Table 1. 169,472 rows of two classes stand in for 581,012.",
    jobs,
    panels,
    comparisons=comparisons,
)
