"""The numbers that the authors drew Figures 3, 4 and 5 from."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

SOURCE = (
    "The authors' plot data: github.com/teddylfwu/RandomBinning, commit 06fc580 of 5 February "
    "2016, ExptResults/plotdata_02012016/L2R_Ridge."
)
NUMBERS = frozenset({"cadata", "census"})
"""Data sets of numbers: their scores are relative errors, all others' percentages right."""


@dataclass(frozen=True)
class Point:
    """One run of the authors.

    Parameters
    ----------
    study : {"figure-3", "figure-4", "figure-5"}
    data : str
        As the authors call it.
    method : {"binning", "fourier", "nystrom", "blocks", "exact"}
    size : int
        R; rows of the exact kernel.
    sigma : float
        What their programs were given: of random bins 1 over the bandwidth, gamma.
    columns : int or None
        D, bins of test rows included.
    test, train : float or None
        Relative errors, or shares wrong.
    seconds : float or None
        Features of training and test rows, and solution.
    """

    study: str
    data: str
    method: str
    size: int
    sigma: float
    columns: int | None
    test: float | None
    train: float | None
    seconds: float | None


def points(study: str, data: str, method: str | None = None) -> list[Point]:
    """Return the authors' runs of a figure and data set, in their order.

    Parameters
    ----------
    study : str
    data : str
        As the authors call it.
    method : str, default=None
        All by default.

    Examples
    --------
    >>> [point.size for point in points("figure-5", "cadata", "binning")]
    [8, 16, 32, 64, 128, 256, 512, 1024]
    >>> points("figure-5", "ijcnn1", "exact")[0].test
    0.012421
    """
    return [
        point
        for point in _all()
        if (point.study, point.data) == (study, data) and method in (None, point.method)
    ]


@cache
def _all() -> tuple[Point, ...]:
    text = resources.files(__package__).joinpath("curves.csv").read_text(encoding="utf-8")
    return tuple(_point(row) for row in csv.DictReader(text.splitlines()))


def _point(row: dict[str, str]) -> Point:
    data = row["data"]
    return Point(
        study=row["study"],
        data=data,
        method=row["method"],
        size=int(row["R"]),
        sigma=float(row["sigma"]),
        columns=int(row["D"]) if row["D"] else None,
        test=_error(data, row["test"]),
        train=_error(data, row["train"]),
        seconds=float(row["seconds"]) if row["seconds"] else None,
    )


def _error(data: str, text: str) -> float | None:
    if not text:
        return None
    return float(text) if data in NUMBERS else round(1.0 - float(text) / 100.0, 9)
