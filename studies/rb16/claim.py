"""The paper's claim: one to three orders of magnitude less time and memory at the same error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from studies.numbers import brief_seconds
from studies.rb16.common import METHODS, error_of
from studies.rb16.curves import points
from studies.rb16.sets import SETS
from studies.records import completed, fit_seconds
from studies.study import Comparison, Record, TableOf

OTHERS = ("fourier", "nystrom", "blocks", "exact")
_TOLERANCE = 0.5
"""Of a factor, as a share of it: sizes are powers of two."""


@dataclass(frozen=True)
class Run:
    """What a machine took for its error, in per cent."""

    error: float
    seconds: float
    memory: float


@dataclass(frozen=True)
class Factor:
    """How much more another method takes than random bins, at the same error.

    Parameters
    ----------
    data, method : str
    error : float
        The lowest that both reach, in per cent: that of the one whose best is worse.
    bins, other : Run
        The least seconds and bytes of the runs of each that are no worse.
    """

    data: str
    method: str
    error: float
    bins: Run
    other: Run

    @property
    def time(self) -> float:
        """Seconds of the other over those of random bins."""
        return self.other.seconds / self.bins.seconds

    @property
    def memory(self) -> float:
        """Bytes of the other over those of random bins."""
        return self.other.memory / self.bins.memory


def factor(data: str, method: str, bins: Sequence[Run], others: Sequence[Run]) -> Factor | None:
    """Return the factor between two sets of runs; None if either is empty.

    Examples
    --------
    >>> bins = [Run(5.0, 1.0, 10.0), Run(3.0, 2.0, 20.0)]
    >>> factor("letter", "fourier", bins, [Run(9.0, 1.0, 5.0), Run(4.0, 50.0, 60.0)]).time
    25.0
    """
    if not bins or not others:
        return None
    error = max(min(run.error for run in bins), min(run.error for run in others))
    return Factor(data, method, error, _cheapest(bins, error), _cheapest(others, error))


def _cheapest(runs: Sequence[Run], error: float) -> Run:
    able = [run for run in runs if run.error <= error]
    least_memory = min(run.memory for run in able)
    return Run(error, min(run.seconds for run in able), least_memory)


def measured(data: str, method: str, records: list[Record]) -> Factor | None:
    """Return the factor that our records show."""

    def runs(of: str) -> list[Run]:
        return [
            Run(error_of(one), fit_seconds(one), max(one["memory"], 1.0))
            for one in completed(records, data=data, method=of)
        ]

    return factor(data, method, runs("binning"), runs(method))


def claimed(data: str, method: str) -> Factor | None:
    """Return the factor that the authors' runs show; their memory is the numbers a row has."""

    def runs(of: str) -> list[Run]:
        return [
            Run(100.0 * point.test, point.seconds, float(point.size))
            for point in points("figure-5", SETS[data].paper_name, of)
            if point.test is not None and point.seconds is not None
        ]

    return factor(data, method, runs("binning"), runs(method))


def claims(names: Sequence[str], records: list[Record]) -> list[Comparison]:
    """Return the factors of time and memory, theirs and ours, for each data set and method."""
    found = []
    for data in names:
        for method in OTHERS:
            theirs, ours = claimed(data, method), measured(data, method, records)
            if theirs is None:
                continue
            head = f"{SETS[data].paper_name}, {METHODS[method]} against random bins"
            same = f"theirs at {theirs.error:.3g} %"
            same += f", ours at {ours.error:.3g} %" if ours else ""
            for what in ("time", "memory"):
                number = getattr(theirs, what)
                own = "; theirs is an estimate, R against R" if what == "memory" else ""
                found.append(
                    Comparison(
                        f"{head}: times the {what} at the same error",
                        number,
                        getattr(ours, what) if ours else None,
                        "times",
                        _TOLERANCE * number,
                        smaller_is_better=False,
                        note=same + own if ours else "not run",
                    )
                )
    return found


def factor_table(names: Sequence[str], records: list[Record]) -> TableOf:
    """Return the measured factors as a table: above 1 random bins take less."""
    found = [measured(data, method, records) for data in names for method in OTHERS]
    rows = [
        (
            one.data,
            METHODS[one.method],
            f"{one.error:.3g} %",
            brief_seconds(one.bins.seconds),
            brief_seconds(one.other.seconds),
            f"{one.time:.2g}",
            f"{one.bins.memory / 2**20:,.0f} MiB",
            f"{one.other.memory / 2**20:,.0f} MiB",
            f"{one.memory:.2g}",
        )
        for one in found
        if one is not None
    ]
    return TableOf(
        "Time and memory at the same error, measured here",
        (
            "data set",
            "other method",
            "error",
            "bins, time",
            "other, time",
            "times",
            "bins, memory",
            "other, memory",
            "times",
        ),
        tuple(rows),
        "The error is the lowest that both reach. Below 1, random bins take more. The exact kernel "
        "has fewer rows than the others at small scales.",
    )
