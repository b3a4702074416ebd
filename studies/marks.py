"""Colours and shapes of lines: the same label looks the same in all panels of a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from studies.study import Line, Panel

N_COLOURS = 8
"""As many classes ``c0`` to ``c7`` are in ``picture.css``."""
_KINDS = {"measured": "", "published": " (paper)", "law": " (formula)"}
_CIRCLE = "circle"
_POLYGONS = {
    "square": ((45.0, 135.0, 225.0, 315.0), (1.3,)),
    "triangle": ((90.0, 210.0, 330.0), (1.5,)),
    "diamond": ((0.0, 90.0, 180.0, 270.0), (1.4,)),
    "triangle down": ((30.0, 150.0, 270.0), (1.5,)),
    "star": (tuple(90.0 + 36.0 * k for k in range(10)), (1.5, 0.65)),
}
"""Angles of the corners, and their distances from the middle by turns, in radii."""
SHAPES = (_CIRCLE, *_POLYGONS)


@dataclass(frozen=True)
class Mark:
    """How the lines of a label look.

    Parameters
    ----------
    colour : int
        Of the classes ``c0`` to ``c7``.
    shape : str
        Of :data:`SHAPES`.
    """

    colour: int
    shape: str

    def classes(self, kind: str) -> str:
        """Return the classes of a line of this label."""
        return f"{kind} c{self.colour}"

    def outline(self, across: float, down: float, radius: float) -> str:
        """Return the shape as path data, around a point."""
        if self.shape == _CIRCLE:
            turn = f"a{radius:g},{radius:g} 0 1 0 "
            left = f"M{across - radius:.1f},{down:.1f}"
            return f"{left}{turn}{2 * radius:g},0{turn}{-2 * radius:g},0z"
        angles, distances = _POLYGONS[self.shape]
        corners = [
            (
                across + radius * distances[k % len(distances)] * math.cos(math.radians(angle)),
                down - radius * distances[k % len(distances)] * math.sin(math.radians(angle)),
            )
            for k, angle in enumerate(angles)
        ]
        return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in corners) + "z"


def marks_of(panels: Iterable[Panel]) -> dict[str, Mark]:
    """Choose colour and shape of every label.

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
    >>> marks_of([Panel("", "x", "y", lines)])["theirs"].shape
    'square'
    """
    together: dict[str, set[str]] = {}
    for panel in panels:
        labels = {line.label for line in panel.lines}
        for line in panel.lines:
            together.setdefault(line.label, set()).update(labels - {line.label})
    colours, shapes = _spread(together, N_COLOURS), _spread(together, len(SHAPES))
    return {label: Mark(colours[label], SHAPES[shapes[label]]) for label in together}


def named(line: Line) -> str:
    """Return a line's name in a legend.

    Examples
    --------
    >>> named(Line("binning", [], [], kind="published")), named(Line("binning", [], []))
    ('binning (paper)', 'binning')
    """
    return line.label + _KINDS[line.kind]


def _spread(together: dict[str, set[str]], n: int) -> dict[str, int]:
    """Give each label a number below n: not that of one it meets, then the one least used."""
    chosen: dict[str, int] = {}
    for label, met in together.items():
        near = [chosen[other] for other in met if other in chosen]
        chosen[label] = min(range(n), key=lambda k: (near.count(k), _uses(chosen.values(), k), k))
    return chosen


def _uses(chosen: Iterable[int], k: int) -> int:
    return sum(one == k for one in chosen)


def entries(lines: Sequence[Line]) -> list[Line]:
    """Return the lines that a legend names, each label and kind once: that of most points."""
    found: dict[str, Line] = {}
    for line in filter(lambda line: len(line.x), lines):
        kept = found.setdefault(named(line), line)
        if len(line.x) > len(kept.x):
            found[named(line)] = line
    return list(found.values())
