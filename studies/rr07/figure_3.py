"""Figure 3: random bins on Forest Cover, against the number of rows and of grids."""

from __future__ import annotations

from itertools import pairwise

from studies.comparisons import Comparison, compare
from studies.published import published
from studies.records import completed, fit_seconds, reason_missing
from studies.rr07.sets import SETS
from studies.study import Job, Line, Panel, Record, Study

NAME = "rr07/figure-3"
_FOREST = SETS["forest"]
_GRIDS = "10 20 30 40 50"
_HALVINGS = 7
_LABEL = "Binning + LS"


def jobs() -> list[Job]:
    """Return a job for all numbers of grids, and one for each number of rows."""
    rows = _FOREST.n_train
    found = [_job({**_FOREST.binning, "size": _GRIDS}, rows, 30.0)]
    for halving in range(_HALVINGS):
        found.append(_job(_FOREST.binning, rows // 2**halving, 3.0 + 5.0 / 2**halving))
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
    """Return the one number of the caption: the largest gain from twice the rows."""
    sizes = _by_rows(records)
    gains = {
        more["key"]: 100.0 * (1.0 - _error(more) / _error(few)) for few, more in pairwise(sizes)
    }
    best = [one for one in sizes if gains and gains.get(one["key"]) == max(gains.values())]
    return [
        compare(
            published("rr07")["forest/doubling"],
            best,
            lambda record: gains[record["key"]],
            other_data=_FOREST.other_data,
            missing=reason_missing(records, data=_FOREST.data),
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
    5.0,
    panels,
    comparisons=comparisons,
)
