"""Convert panels to charts, with one colour and marker per label throughout a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gramless.cli.pages import COLOURS
from studies.charts import HEIGHT, WIDTH, Chart, Series, mask_points
from studies.results import plural
from studies.study import Line, Panel

# Markers of matplotlib, with sizes at which they appear equally large.
MARKERS = {"o": 7.2, "s": 6.6, "^": 8.2, "D": 6.2, "v": 8.2, "*": 10.8}
_KIND_SUFFIXES = {"measured": "", "published": " (paper)", "law": " (formula)"}
_MAX_MARKERS = {"measured": 24, "published": 10}
_LINE_STYLES: dict[str, dict[str, Any]] = {
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
_SINGLE_POINT_SCALE = 1.3  # A marker without a line is drawn larger.
_FROM_ZERO = 0.6  # An axis starts at zero if the minimum is below this share of the maximum.


@dataclass(frozen=True)
class Mark:
    """The colour and the marker of a label.

    Parameters
    ----------
    colour : str
        A colour in :data:`gramless.cli.pages.COLOURS`.
    marker : str
        A key of :data:`MARKERS`.
    """

    colour: str
    marker: str


def marks_of(panels: Iterable[Panel]) -> dict[str, Mark]:
    """Assign a colour and a marker to every label.

    Labels in the same panel differ in both, as long as there are enough colours and markers.

    Parameters
    ----------
    panels : iterable of Panel
        All panels of a report.

    Returns
    -------
    dict of str to Mark

    Examples
    --------
    >>> lines = (Line("ours", [1], [2]), Line("theirs", [1], [3], kind="published"))
    >>> marks_of([Panel("", "x", "y", lines)])["theirs"].marker
    's'
    """
    neighbours: dict[str, set[str]] = {}
    for panel in panels:
        labels = {line.label for line in panel.lines}
        for line in panel.lines:
            neighbours.setdefault(line.label, set()).update(labels - {line.label})
    colours, markers = _assign(neighbours, COLOURS), _assign(neighbours, tuple(MARKERS))
    return {label: Mark(colours[label], markers[label]) for label in neighbours}


def chart_of(panel: Panel, marks: Mapping[str, Mark]) -> Chart:
    """Return a panel as a chart.

    Parameters
    ----------
    panel : Panel
        Points with a NaN are omitted and interrupt their line, and so are points at or below zero
        on logarithmic axes; :func:`notes_of` counts the latter.
    marks : mapping of str to Mark
        The result of :func:`marks_of`.

    Examples
    --------
    >>> panel = Panel("letter", "grids", "error", (Line("binning", [1, 2], [4.0, 3.0]),))
    >>> chart_of(panel, marks_of([panel])).legend[0].name
    'binning'
    """
    series = _dots if panel.dots else _joined
    return Chart(
        panel.title,
        panel.x_label,
        panel.y_label,
        [series(line, marks[line.label], panel) for line in panel.lines],
        panel.x_log,
        panel.y_log,
        _zero([x for line in panel.lines for x in line.x], panel.x_log),
        _zero([y for line in panel.lines for y in line.y], panel.y_log),
        y_down=panel.dots,
    )


def notes_of(panel: Panel) -> list[str]:
    """Return the notes below a panel.

    Examples
    --------
    >>> notes_of(Panel("", "", "", (Line("", [1, 2], [0.0, 1.0]),), y_log=True))
    ['1 point at or below zero has no place on these axes.']
    """
    notes = [panel.note, *(f"{_name(line)}: {line.note}" for line in panel.lines if line.note)]
    points = [point for line in panel.lines for point in zip(line.x, line.y, strict=True)]
    finite = [point for point in points if all(map(math.isfinite, point))]
    n_hidden = sum((panel.x_log and x <= 0.0) or (panel.y_log and y <= 0.0) for x, y in finite)
    if n_hidden:
        verb = "has" if n_hidden == 1 else "have"
        points_text = plural(n_hidden, "point")
        notes.append(f"{points_text} at or below zero {verb} no place on these axes.")
    return list(dict.fromkeys(filter(None, notes)))


def _assign(neighbours: Mapping[str, set[str]], looks: Sequence[str]) -> dict[str, str]:
    """Assign to each label the look least used by its neighbours, then least used overall."""
    assigned: dict[str, str] = {}
    for label, others in neighbours.items():
        near = [assigned[other] for other in others if other in assigned]
        used = list(assigned.values())
        assigned[label] = min(looks, key=lambda look: (near.count(look), used.count(look)))
    return assigned


def _name(line: Line) -> str:
    return line.label + _KIND_SUFFIXES[line.kind] if line.label else ""


def _joined(line: Line, mark: Mark, panel: Panel) -> Series:
    """Return a line with markers at evenly spaced points, including the last one."""
    x, _ = mask_points(line.x, line.y, panel.x_log, panel.y_log)
    visible = np.flatnonzero(np.isfinite(x))
    look: dict[str, Any] = {"color": mark.colour, **_LINE_STYLES[line.kind]}
    if line.kind != "law":
        step = max(1, math.ceil(len(visible) / _MAX_MARKERS[line.kind]))
        is_single = len(visible) == 1
        look |= {
            "marker": mark.marker,
            "markersize": MARKERS[mark.marker] * (_SINGLE_POINT_SCALE if is_single else 1.0),
            "markevery": visible[::-1][::step][::-1].tolist(),
            "linestyle": "none" if is_single else "-",
        }
    if line.kind == "published":
        look |= {"markeredgecolor": mark.colour}
    return Series(line.x, line.y, look, _name(line))


def _dots(line: Line, mark: Mark, panel: Panel) -> Series:
    """Return dots whose size decreases with their number, at most one per half pixel."""
    x, y = mask_points(line.x, line.y, panel.x_log, panel.y_log)
    points = np.column_stack([x, y])[np.isfinite(x)]
    if len(points):
        cell = np.maximum(np.ptp(points, axis=0), 1e-300) / (2.0 * WIDTH, 2.0 * HEIGHT)
        cells = np.round((points - points.min(axis=0)) / cell)
        points = points[np.unique(cells, axis=0, return_index=True)[1]]
    size = min(4.0, max(1.2, 60.0 / math.sqrt(1 + len(points))))
    look = {"color": mark.colour, "linewidth": size, "solid_capstyle": "projecting"}
    return Series(points[:, 0].tolist(), points[:, 1].tolist(), look, _name(line), is_dots=True)


def _zero(values: Sequence[float], is_log: bool) -> tuple[float, ...]:
    """Return ``(0.0,)`` if the axis of these values should include zero, otherwise ``()``."""
    finite = [value for value in values if math.isfinite(value)]
    is_near_zero = bool(finite) and 0.0 <= min(finite) < _FROM_ZERO * max(finite)
    return (0.0,) if is_near_zero and not is_log else ()
