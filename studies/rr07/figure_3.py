"""Figure 3: random bins on Forest Cover, by the numbers of rows and grids."""

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
    """Return one job for all numbers of grids, and one for each number of rows."""
    rows = _FOREST.n_train
    by_grids = _job({**_FOREST.binning, "size": _GRIDS}, rows, 30.0)
    by_rows = [
        _job(_FOREST.binning, rows // 2**halving, 3.0 + 5.0 / 2**halving)
        for halving in range(_HALVINGS)
    ]
    return [by_grids, *by_rows]


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
    """Return the three panels of the paper's figure."""
    by_rows, by_grids = _by_rows(records), _by_grids(records)
    numbers = published("rr07")
    error, seconds = (numbers[f"forest/binning/{what}"] for what in ("error", "seconds"))
    note = "The paper's point is from its Table 1: 522,000 training rows."
    rows = f"{by_grids[0]['rows'][0]:,} training rows" if by_grids else "not run"
    sizes = [record["facts"]["size"] for record in by_grids]
    times = [fit_seconds(record) + record["seconds"]["predict"] for record in by_grids]
    return [
        Panel(
            "Error against training rows, P = 50",
            "training rows",
            "test error, %",
            (_line([one["rows"][0] for one in by_rows], [_error(one) for one in by_rows]),),
            x_log=True,
            y_log=True,
        ),
        Panel(
            f"Error against P, {rows}",
            "grids P",
            "test error, %",
            (
                _line(sizes, [_error(record) for record in by_grids]),
                Line(_LABEL, [50.0], [error.value], kind="published"),
            ),
            note=note,
        ),
        Panel(
            f"Time against P, {rows}",
            "grids P",
            "training and testing, s",
            (
                _line(sizes, times),
                Line(_LABEL, [50.0], [seconds.value], kind="published"),
            ),
            y_log=True,
            note=note,
        ),
    ]


def comparisons(records: list[Record]) -> list[Comparison]:
    """Return the comparison of the caption's number: the largest gain from twice the rows."""
    by_rows = _by_rows(records)
    gains = {
        more["key"]: 100.0 * (1.0 - _error(more) / _error(few)) for few, more in pairwise(by_rows)
    }
    best = [one for one in by_rows if gains and gains.get(one["key"]) == max(gains.values())]
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
    """Return the records of the fits to different numbers of rows, in increasing order."""
    matching = completed(records, options={"size": _FOREST.binning["size"]})
    return sorted(matching, key=lambda record: record["rows"][0])


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
