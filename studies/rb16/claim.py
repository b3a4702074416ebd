"""The paper's claim: one to three orders of magnitude less time and memory at the same error."""

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
    """An error in per cent, and the seconds of its training."""

    error: float
    seconds: float


@dataclass(frozen=True)
class Factor:
    """How many times longer another method takes than random bins, at the same error.

    Parameters
    ----------
    error : float
        The lowest that both reach, in per cent.
    time : float
    """

    error: float
    time: float


def factor(bins: Sequence[Run], others: Sequence[Run]) -> Factor | None:
    """Return the factor between two sets of runs; None if either is empty.

    Examples
    --------
    >>> bins = [Run(5.0, 1.0), Run(3.0, 2.0)]
    >>> factor(bins, [Run(9.0, 1.0), Run(4.0, 50.0)])
    Factor(error=4.0, time=25.0)
    """
    if not bins or not others:
        return None
    error = max(min(run.error for run in bins), min(run.error for run in others))
    return Factor(error, _least_seconds(others, error) / _least_seconds(bins, error))


def _least_seconds(runs: Sequence[Run], error: float) -> float:
    return min(run.seconds for run in runs if run.error <= error)


def measured(data: str, method: str, records: list[Record]) -> Factor | None:
    """Return the factor that our records show."""

    def runs(of: str) -> list[Run]:
        return [
            Run(100.0 * one["scores"]["relative_error"], fit_seconds(one))
            for one in completed(
                records, data=data, method=SETS[data].bins if of == "binning" else of
            )
        ]

    return factor(runs("binning"), runs(method))


def claimed(data: str, method: str) -> Factor | None:
    """Return the factor that the authors' runs show."""

    def runs(of: str) -> list[Run]:
        return [
            Run(point.test, point.seconds)
            for point in points("figure-5", SETS[data].paper_name, of)
            if point.test is not None and point.seconds is not None
        ]

    return factor(runs("binning"), runs(method))


def factor_table(records: list[Record]) -> list[TableOf]:
    """Return the authors' factors and ours as a table: above 1 random bins take less time."""
    rows = [
        (SETS[data].paper_name, METHODS[method], *_cells(theirs), *_cells(ours))
        for data in SETS
        for method in OTHERS
        for theirs, ours in [(claimed(data, method), measured(data, method, records))]
        if theirs or ours
    ]
    columns = ("data", "other method", "their error", "their times", "our error", "our times")
    note = (
        "How many times longer another method trains than random bins, at the lowest error that "
        "both reach. The paper's claim is 10 to 1,000. Sizes are powers of two, and the errors "
        "differ: the factors are no comparison of numbers."
    )
    return [TableOf("Time at the same error", columns, tuple(rows), note)]


def _cells(found: Factor | None) -> tuple[str, str]:
    return ("–", "–") if found is None else (f"{found.error:.3g} %", f"{found.time:.2g}")
