"""The authors' plot data of Figures 3, 4 and 5."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from studies.published import Published
from studies.rb16.sets import ROWS

SOURCE = (
    "The authors' plot data: github.com/teddylfwu/RandomBinning, commit 06fc580 of 5 February "
    "2016, ExptResults/plotdata_02012016/L2R_Ridge."
)
# Trainers and their names in pictures.
METHODS = {
    "binning": "random bins",
    "fourier": "Fourier",
    "nystrom": "Nyström",
    "blocks": "independent blocks",
    "exact": "exact kernel",
}
# Regression data sets. Their scores are relative errors; those of all others are accuracies in %.
NUMBERS = frozenset({"cadata", "census"})


@dataclass(frozen=True)
class Point:
    """One run of the authors.

    Parameters
    ----------
    study : {"figure-3", "figure-4", "figure-5"}
    data : str
        The authors' name of the data set.
    method : {"binning", "fourier", "nystrom", "blocks", "exact"}
    size : int
        R, or the number of rows of the exact kernel.
    sigma : float
        The parameter of the authors' programs: the bandwidth, or 1 over it for random bins.
    columns : int or None
        D, including bins that only test rows fall into.
    test, train : float or None
        Errors in per cent: relative errors, or misclassification rates.
    seconds : float or None
        Time for the features of training and test rows and for the solver.
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

    @property
    def bandwidth(self) -> float:
        """The bandwidth that corresponds to sigma."""
        return 1.0 / self.sigma if self.method == "binning" else self.sigma

    def published(self) -> dict[str, Published]:
        """Return the run's numbers by the names of their fields."""
        run = f"{self.data}/{self.method}/{self.size}/{self.sigma:g}"
        what = f"{self.data}, {METHODS[self.method]}, R = {self.size}, σ = {self.sigma:g}"
        kinds = {
            "test": ("test error", "%"),
            "train": ("training error", "%"),
            "columns": ("columns D", "columns"),
            "seconds": ("training", "s"),
        }
        return {
            field: Published(
                self.study,
                f"{what}: {name}",
                f"{self.study}/{run}/{field}",
                float(value),
                unit,
                "authors' plot data",
                ROWS[self.data],
                identity=f"{run}/{field}/{value!r}",
            )
            for field, (name, unit) in kinds.items()
            if (value := getattr(self, field)) is not None
        }


def points(study: str, data: str | None = None, method: str | None = None) -> list[Point]:
    """Return the authors' runs of a figure, in their order.

    Parameters
    ----------
    study : str
    data : str, default=None
        The authors' name of a data set; all by default.
    method : str, default=None
        All by default.

    Examples
    --------
    >>> [point.size for point in points("figure-5", "cadata", "binning")]
    [8, 16, 32, 64, 128, 256, 512, 1024]
    >>> points("figure-5", "ijcnn1", "exact")[0].test
    1.2421
    """
    return [
        point
        for point in _all_points()
        if point.study == study and data in (None, point.data) and method in (None, point.method)
    ]


@cache
def _all_points() -> tuple[Point, ...]:
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
    error = 100.0 * float(text) if data in NUMBERS else 100.0 - float(text)
    return round(error, 7)
