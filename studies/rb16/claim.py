"""The paper's claim that random bins need 10 to 1,000 times less time at the same error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from studies.rb16.curves import METHODS, points
from studies.rb16.sets import SETS
from studies.records import completed, fit_seconds
from studies.study import Record, TableOf

OTHERS = ("fourier", "nystrom", "blocks", "exact")


@dataclass(frozen=True)
class Run:
    """The error of a run in per cent, and its training time."""

    error: float
    seconds: float


@dataclass(frozen=True)
class Factor:
    """The ratio of another method's training time to that of random bins at the same error.

    Parameters
    ----------
    error : float
        The lowest error that both reach, in per cent.
    time : float
        The ratio of the training times.
    """

    error: float
    time: float


def factor(bins: Sequence[Run], others: Sequence[Run]) -> Factor | None:
    """Return the factor between two sets of runs, None if either is empty.

    Examples
    --------
    >>> bins = [Run(5.0, 1.0), Run(3.0, 2.0)]
    >>> factor(bins, [Run(9.0, 1.0), Run(4.0, 50.0)])
    Factor(error=4.0, time=25.0)
    """
    if not bins or not others:
        return None
    error = max(min(run.error for run in bins), min(run.error for run in others))
    return Factor(error, _min_seconds(others, error) / _min_seconds(bins, error))


def _min_seconds(runs: Sequence[Run], error: float) -> float:
    return min(run.seconds for run in runs if run.error <= error)


def measured_factor(data: str, method: str, records: list[Record]) -> Factor | None:
    """Return the factor between our runs."""

    def runs(trainer: str) -> list[Run]:
        return [
            Run(100.0 * record["scores"]["relative_error"], fit_seconds(record))
            for record in completed(records, data=data, method=trainer)
        ]

    return factor(runs(SETS[data].bins), runs(method))


def published_factor(data: str, method: str) -> Factor | None:
    """Return the factor between the authors' runs."""

    def runs(method: str) -> list[Run]:
        return [
            Run(point.test, point.seconds)
            for point in points("figure-5", SETS[data].paper_name, method)
            if point.test is not None and point.seconds is not None
        ]

    return factor(runs("binning"), runs(method))


def factor_table(records: list[Record]) -> list[TableOf]:
    """Return a table of the authors' factors and ours; above 1, random bins take less time."""
    rows = []
    for data in SETS:
        for method in OTHERS:
            theirs, ours = published_factor(data, method), measured_factor(data, method, records)
            if theirs or ours:
                name = SETS[data].paper_name
                rows.append((name, METHODS[method], *_cells(theirs), *_cells(ours)))
    columns = ("data", "other method", "their error", "their times", "our error", "our times")
    note = (
        "How many times longer another method trains than random bins, at the lowest error that "
        "both reach. The paper's claim is 10 to 1,000. Sizes are powers of two, and the errors "
        "differ: the factors are no comparison of numbers."
    )
    return [TableOf("Time at the same error", columns, tuple(rows), note)]


def _cells(factor: Factor | None) -> tuple[str, str]:
    return ("–", "–") if factor is None else (f"{factor.error:.3g} %", f"{factor.time:.2g}")
