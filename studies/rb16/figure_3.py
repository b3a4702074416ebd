"""Figure 3: training and test error and training time against the bandwidth, at 128 grids."""

from __future__ import annotations

from studies.rb16.common import (
    compared_errors,
    compared_time,
    error_label,
    error_of,
    exact_job,
    gamma_of,
    machine_job,
    near,
    published_line,
    words,
)
from studies.rb16.curves import SOURCE, Point, points
from studies.rb16.sets import GAMMAS, SETS
from studies.records import completed, fit_seconds, last_completed
from studies.study import Comparison, Job, Line, Panel, Record, Study

NAME = "rb16/figure-3"
DATA = ("cadata", "ijcnn1", "covtype_1vs2_169k", "letter", "mnist", "house_16H")
GRIDS = 128
_TOL, _ITERATIONS = 1e-15, 50
_SECONDS = {
    "cadata": 0.25,
    "ijcnn1": 1.0,
    "covtype_1vs2_169k": 4.0,
    "letter": 4.5,
    "mnist": 10.0,
    "house_16H": 0.3,
}
"""Of one bandwidth on all rows, about."""


def gammas_at(scale: float, best: float) -> list[float]:
    """Return the bandwidths of a scale: all of the paper's, or fewer around the best."""
    if scale >= 0.7:
        return list(GAMMAS)
    every = 2 if scale >= 0.35 else 3
    middle = GAMMAS.index(best)
    return [gamma for k, gamma in enumerate(GAMMAS) if (k - middle) % every == 0]


def jobs(scale: float) -> list[Job]:
    """Return a job of all bandwidths for each data set, and one of the exact kernel."""
    found = []
    for data in DATA:
        own = SETS[data]
        gammas = gammas_at(scale, own.gammas["binning"])
        options = {
            "size": GRIDS,
            "bandwidth": words([1.0 / gamma for gamma in gammas]),
            "tol": _TOL,
            "max_iter": _ITERATIONS,
        }
        seconds = _SECONDS[data] * len(gammas)
        found.append(machine_job(NAME, own, "binning", options, scale, seconds))
    return found + [exact_job(NAME, SETS[data], scale) for data in DATA]


def panels(records: list[Record]) -> list[Panel]:
    """Return two pictures a data set: errors, and seconds."""
    return [panel for data in DATA for panel in _panels_of(data, records)]


def _panels_of(data: str, records: list[Record]) -> list[Panel]:
    own = SETS[data]
    found, theirs = _bins(data, records), _theirs(data)
    gammas = [gamma_of(one) for one in found]
    errors = [
        Line("test", gammas, [error_of(one) for one in found]),
        Line("train", gammas, [error_of(one, "train") for one in found]),
        *(published_line(part, theirs, "sigma", part) for part in ("test", "train") if theirs),
        *_exact_lines(data, records),
    ]
    times = [Line("training", gammas, [fit_seconds(one) for one in found])]
    times += [published_line("training", theirs, "sigma", "seconds")] if theirs else []
    title, x_label = f"{data}, {_rows(found)}R = {GRIDS}", "1 / bandwidth (the paper's σ)"
    return [
        Panel(
            title, x_label, error_label(data), tuple(errors), x_log=True, y_log=True, note=own.note
        ),
        Panel(title, x_label, "training, s", tuple(times), x_log=True, y_log=True),
    ]


def _exact_lines(data: str, records: list[Record]) -> list[Line]:
    """Return the best of the exact kernel as level lines: ours, and the paper's."""
    ends, lines = [GAMMAS[0], GAMMAS[-1]], []
    exact = last_completed(records, data=data, method="exact")
    if exact is not None:
        rows = f"{exact['rows'][0]:,} rows"
        lines.append(Line("exact kernel", ends, [error_of(exact)] * 2, note=rows))
    for point in points("figure-5", SETS[data].paper_name, "exact"):
        if _theirs(data) and point.test is not None:
            lines.append(Line("exact kernel", ends, [100.0 * point.test] * 2, kind="published"))
    return lines


def comparisons(records: list[Record]) -> list[Comparison]:
    """Return test errors, training errors and columns at each bandwidth that was measured."""
    found = []
    for data in DATA:
        for point in _theirs(data):
            ours = [one for one in _bins(data, records) if near(gamma_of(one), point.sigma)]
            if ours:
                found += _beside(data, point, ours[-1])
    return found


def _beside(data: str, point: Point, ours: Record) -> list[Comparison]:
    head = f"{SETS[data].paper_name}, R = {GRIDS}, σ = {point.sigma:g}"
    times = "theirs: 16 cores, rows of the test binned as well"
    return [
        *compared_errors(head, data, point, ours),
        *compared_time(head, data, point, ours, times),
    ]


def _bins(data: str, records: list[Record]) -> list[Record]:
    return sorted(completed(records, data=data, method="binning"), key=gamma_of)


def _theirs(data: str) -> list[Point]:
    """Return the authors' runs; none where another set stands in whose errors do not compare."""
    own = SETS[data]
    return [] if own.other_inputs else points("figure-3", own.paper_name)


def _rows(records: list[Record]) -> str:
    return f"{records[-1]['rows'][0]:,} rows, " if records else ""


FIGURE_3 = Study(
    "rb16",
    "figure-3",
    "Errors and training time against the bandwidth, at 128 grids",
    "Random bins of the Laplacian kernel, lambda 0.01, plain conjugate gradients with the "
    "tolerance 1e-15, which 50 iterations do not reach: so the work is alike at every bandwidth, "
    "as in the paper. The axis is 1 / bandwidth, which the paper's figures call σ. Level lines: "
    "the exact kernel at its best; ours has fewer rows, as the table of runs says. Numbers are "
    f"relative errors, labels the share wrong. {SOURCE} Its runs had 16 cores.",
    jobs,
    panels,
    comparisons=comparisons,
)
