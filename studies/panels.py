"""Panels as charts: the same label has the same colour and marker in all of a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gramless.cli.pages import COLOURS
from studies.charts import HEIGHT, WIDTH, Chart, Series, placed
from studies.results import plural
from studies.study import Line, Panel

MARKERS = {"o": 7.2, "s": 6.6, "^": 8.2, "D": 6.2, "v": 8.2, "*": 10.8}
"""matplotlib's markers, and the sizes at which they look alike."""
_KINDS = {"measured": "", "published": " (paper)", "law": " (formula)"}
_MOST_MARKS = {"measured": 24, "published": 10}
_LINES: dict[str, dict[str, Any]] = {
    "measured": {
        "linewidth": 2.0,
        "markeredgecolor": "white",
        "markeredgewidth": 0.8,
        "zorder": 3.0,
    },
    "published": {
        "linewidth": 1.3,
        "dashes": (4.0 / 1.3, 3.5 / 1.3),
        "markerfacecolor": "white",
        "markeredgewidth": 1.4,
    },
    "law": {"linewidth": 1.1},
}
_ALONE = 1.3
"""How much larger marks without a line are."""
_FROM_ZERO = 0.6
"""Numbers whose least is below so much of their largest are drawn from zero."""


@dataclass(frozen=True)
class Mark:
    """How the lines of a label look.

    Parameters
    ----------
    colour : str
        Of :data:`gramless.cli.pages.COLOURS`.
    marker : str
        Of :data:`MARKERS`.
    """

    colour: str
    marker: str


def marks_of(panels: Iterable[Panel]) -> dict[str, Mark]:
    """Choose colour and marker of every label.

    Labels that meet in a panel differ in both as long as there are enough.

    Parameters
    ----------
    panels : iterable of Panel
        All of a report.

    Returns
    -------
    dict of str to Mark

    Examples
    --------
    >>> lines = (Line("ours", [1], [2]), Line("theirs", [1], [3], kind="published"))
    >>> marks_of([Panel("", "x", "y", lines)])["theirs"].marker
    's'
    """
    together: dict[str, set[str]] = {}
    for panel in panels:
        labels = {line.label for line in panel.lines}
        for line in panel.lines:
            together.setdefault(line.label, set()).update(labels - {line.label})
    colours, markers = _spread(together, COLOURS), _spread(together, tuple(MARKERS))
    return {label: Mark(colours[label], markers[label]) for label in together}


def chart_of(panel: Panel, marks: Mapping[str, Mark]) -> Chart:
    """Return a panel as a chart.

    Parameters
    ----------
    panel : Panel
        Points that are no numbers are left out and break their line, as are those at or below
        zero on logarithmic axes; :func:`notes_of` counts these.
    marks : mapping of str to Mark
        See :func:`marks_of`.

    Examples
    --------
    >>> panel = Panel("letter", "grids", "error", (Line("binning", [1, 2], [4.0, 3.0]),))
    >>> chart_of(panel, marks_of([panel])).legend[0].name
    'binning'
    """
    look = _dots if panel.dots else _joined
    return Chart(
        panel.title,
        panel.x_label,
        panel.y_label,
        [look(line, marks[line.label], panel) for line in panel.lines],
        panel.x_log,
        panel.y_log,
        _zero([x for line in panel.lines for x in line.x], panel.x_log),
        _zero([y for line in panel.lines for y in line.y], panel.y_log),
        y_down=panel.dots,
    )


def notes_of(panel: Panel) -> list[str]:
    """Return what is told below a panel.

    Examples
    --------
    >>> notes_of(Panel("", "", "", (Line("", [1, 2], [0.0, 1.0]),), y_log=True))
    ['1 point at or below zero has no place on these axes.']
    """
    notes = [panel.note, *(f"{_name(line)}: {line.note}" for line in panel.lines if line.note)]
    points = [point for line in panel.lines for point in zip(line.x, line.y, strict=True)]
    numbers = [point for point in points if all(map(math.isfinite, point))]
    away = sum((panel.x_log and x <= 0.0) or (panel.y_log and y <= 0.0) for x, y in numbers)
    if away:
        verb = "has" if away == 1 else "have"
        notes.append(f"{plural(away, 'point')} at or below zero {verb} no place on these axes.")
    return list(dict.fromkeys(filter(None, notes)))


def _spread(together: Mapping[str, set[str]], looks: Sequence[str]) -> dict[str, str]:
    """Give each label a look: none of a label that it meets, then the one least used."""
    chosen: dict[str, str] = {}
    for label, met in together.items():
        near = [chosen[other] for other in met if other in chosen]
        used = list(chosen.values())
        chosen[label] = min(looks, key=lambda look: (near.count(look), used.count(look)))
    return chosen


def _name(line: Line) -> str:
    return line.label + _KINDS[line.kind] if line.label else ""


def _joined(line: Line, mark: Mark, panel: Panel) -> Series:
    """Return a line with marks on some of its points, the last of them always."""
    there = np.flatnonzero(np.isfinite(placed(line.x, line.y, panel.x_log, panel.y_log)[0]))
    look: dict[str, Any] = {"color": mark.colour, **_LINES[line.kind]}
    if line.kind != "law":
        every = max(1, math.ceil(len(there) / _MOST_MARKS[line.kind]))
        alone = len(there) == 1
        look |= {
            "marker": mark.marker,
            "markersize": MARKERS[mark.marker] * (_ALONE if alone else 1.0),
            "markevery": there[::-1][::every][::-1].tolist(),
            "linestyle": "none" if alone else "-",
        }
    if line.kind == "published":
        look |= {"markeredgecolor": mark.colour}
    return Series(line.x, line.y, look, _name(line))


def _dots(line: Line, mark: Mark, panel: Panel) -> Series:
    """Return points as dots, the smaller the more; those on the same half pixel once."""
    x, y = placed(line.x, line.y, panel.x_log, panel.y_log)
    points = np.column_stack([x, y])[np.isfinite(x)]
    if len(points):
        cell = np.maximum(np.ptp(points, axis=0), 1e-300) / (2.0 * WIDTH, 2.0 * HEIGHT)
        cells = np.round((points - points.min(axis=0)) / cell)
        points = points[np.unique(cells, axis=0, return_index=True)[1]]
    size = min(4.0, max(1.2, 60.0 / math.sqrt(1 + len(points))))
    look = {"color": mark.colour, "linewidth": size, "solid_capstyle": "projecting"}
    return Series(points[:, 0].tolist(), points[:, 1].tolist(), look, _name(line), is_dots=True)


def _zero(values: Sequence[float], is_log: bool) -> tuple[float, ...]:
    """Return zero where an axis starts there."""
    numbers = [value for value in values if math.isfinite(value)]
    near = bool(numbers) and 0.0 <= min(numbers) < _FROM_ZERO * max(numbers)
    return (0.0,) if near and not is_log else ()
