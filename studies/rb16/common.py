"""What RB16's studies share: jobs of one data set, and errors and times of records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from studies.rb16.curves import NUMBERS, Point
from studies.rb16.sets import SETS, PaperSet
from studies.records import fit_seconds
from studies.study import Comparison, Job, Line, Record

METHODS = {
    "binning": "random bins",
    "fourier": "Fourier",
    "nystrom": "Nyström",
    "blocks": "independent blocks",
    "exact": "exact kernel",
}
"""Trainers and what they are called in pictures."""
LAMBDA = 0.01
"""Of equation 8, in all of section 5."""
SCORES = ("relative_error", "train_relative_error")
_FEWEST_ROWS, _MOST_EXACT, _MOST_TEST = 20_000, 16_512, 20_000
_ALL_ROWS = 0.5
"""From this scale on all rows are used."""
_START = 2.5
"""Seconds of a job besides its training: the process, the rows, the scores."""
_EXACT_SECONDS = 2.0
"""Of the exact kernel on 5,000 rows, with its answers."""
_TOLERANCE, _LEAST_TOLERANCE = 0.1, 0.3
"""What another draw of features and rows changes: a share of an error or a time, and per cent."""


def n_train_of(own: PaperSet, scale: float) -> int:
    """Return how many training rows are used at a scale: all of them where they are few."""
    most = own.rows_here if own.n_train is None else own.n_train
    return min(most, max(_FEWEST_ROWS, round(min(1.0, scale / _ALL_ROWS) * most)))


def machine_job(
    study: str,
    own: PaperSet,
    method: str,
    options: Mapping[str, Any],
    scale: float,
    seconds: float,
) -> Job:
    """Return a job of one method on a data set, with the paper's lambda and units.

    Parameters
    ----------
    study : str
    own : PaperSet
    method : str
    options : mapping
        Sizes and bandwidths, and whatever differs from plain conjugate gradients.
    scale : float
    seconds : float
        On all rows.
    """
    n_train = n_train_of(own, scale)
    shared = {"penalty": LAMBDA, "units": own.units}
    return Job(
        study,
        own.name,
        method,
        {**shared, **options},
        n_train=n_train,
        n_test=None if scale >= _ALL_ROWS else _MOST_TEST,
        scores=SCORES,
        seconds=_START + seconds * n_train / own.rows_here,
    )


def exact_job(study: str, own: PaperSet, scale: float) -> Job:
    """Return the job of the exact kernel, on as many rows as the scale allows."""
    n_train = min(n_train_of(own, scale), round(_MOST_EXACT * scale**0.75))
    options = {
        "size": _MOST_EXACT,
        "bandwidth": 1.0 / own.gammas["exact"],
        "penalty": LAMBDA,
        "units": own.units,
    }
    return Job(
        study,
        own.name,
        "exact",
        options,
        n_train=n_train,
        n_test=None if scale >= _ALL_ROWS else _MOST_TEST,
        scores=SCORES,
        seconds=_START + _EXACT_SECONDS * own.exact_work * (n_train / 5000.0) ** 2.5,
    )


def words(numbers: list[float] | tuple[float, ...]) -> str:
    """Return numbers as the text of an option.

    Examples
    --------
    >>> words([8, 0.25])
    '8 0.25'
    """
    return " ".join(f"{number:.10g}" for number in numbers)


def error_of(record: Record, part: str = "test") -> float:
    """Return an error in per cent: relative for numbers, of classes the share wrong."""
    name = "relative_error" if part == "test" else "train_relative_error"
    return 100.0 * float(record["scores"][name])


def gamma_of(record: Record) -> float:
    """Return what the paper's figures call sigma: 1 over the bandwidth."""
    return 1.0 / float(record["facts"]["bandwidth"])


def error_label(data: str) -> str:
    """Return the axis of a data set's errors."""
    paper_name = SETS[data].paper_name
    return "relative error, %" if paper_name in NUMBERS else "wrong, %"


def compared_errors(
    head: str, data: str, point: Point, ours: Record, parts: tuple[str, ...] = ("test", "train")
) -> list[Comparison]:
    """Return the errors of one of the authors' runs beside ours, those that they have.

    Parameters
    ----------
    head : str
        What was run, for people.
    data : str
        Name of the data set.
    point : Point
    ours : dict
        The record of the same run here.
    parts : tuple of {"test", "train"}
    """
    percents = {
        part: 100.0 * getattr(point, part) for part in parts if getattr(point, part) is not None
    }
    return [
        Comparison(
            f"{head}: {part} error",
            theirs,
            error_of(ours, part),
            "%",
            max(_LEAST_TOLERANCE, _TOLERANCE * theirs),
            note=_note(data, ours),
            stand_in=SETS[data].other_rows,
        )
        for part, theirs in percents.items()
    ]


def compared_time(
    head: str, data: str, point: Point, ours: Record, theirs: str
) -> list[Comparison]:
    """Return the seconds of one of the authors' trainings beside ours, if they have them.

    Parameters
    ----------
    head, data, point, ours
        As in :func:`compared_errors`.
    theirs : str
        What was different there.
    """
    if point.seconds is None:
        return []
    return [
        Comparison(
            f"{head}: training",
            point.seconds,
            fit_seconds(ours),
            "s",
            _TOLERANCE * point.seconds,
            note=f"{_note(data, ours)}. {theirs}",
        )
    ]


def _note(data: str, ours: Record) -> str:
    rows = f"{ours['rows'][0]:,} training rows"
    return ". ".join(filter(None, (SETS[data].note, rows)))


def published_line(label: str, points: list[Point], x: str, y: str) -> Line:
    """Return the authors' points as a line; errors in per cent.

    Parameters
    ----------
    label : str
    points : list of Point
    x, y : str
        Fields of :class:`Point`; those that a run has not are left out.
    """
    both = [(getattr(point, x), getattr(point, y)) for point in points]
    known = [(float(a), float(b)) for a, b in both if a is not None and b is not None]
    factors = [100.0 if name in ("test", "train") else 1.0 for name in (x, y)]
    return Line(
        label,
        [a * factors[0] for a, _ in known],
        [b * factors[1] for _, b in known],
        kind="published",
    )


def near(first: float, second: float) -> bool:
    """Tell whether two parameters are the same but for the digits that they were printed with.

    Examples
    --------
    >>> near(1.0 / 0.31646, 3.16), near(1.12, 1.58)
    (True, False)
    """
    return math.isclose(first, second, rel_tol=0.01)
