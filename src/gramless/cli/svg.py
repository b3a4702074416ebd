"""Small pictures as SVG text, to stand inside a page: bars, lines and points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

from gramless.base.axes import Axis
from gramless.base.markup import escape

COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#b7791f", "#6a4c93", "#4a5568")
WIDTH = 760

_INK, _PALE, _RULE = "#222222", "#666666", "#dddddd"
_CHARACTER, _BOLD = 6.6, 1.15
"""Pixels that a character takes, about, and how much more where it is bold."""
_LABELS, _ROW, _HEAD = 210.0, 20.0, 24.0

Style = Literal["line", "points", "dashes", "both", "rings"]
Point = tuple[float, float]


@dataclass(frozen=True)
class Panel:
    """One column of bars.

    Parameters
    ----------
    title : str
    values : sequence of float
    texts : sequence of str
        Stand behind the bars.
    base : float, default=0.0
        Where the bars start.
    reach : sequence of float
        Further numbers for which there must be room: what panels share for one scale.
    colour : str
    """

    title: str
    values: Sequence[float]
    texts: Sequence[str]
    base: float = 0.0
    reach: Sequence[float] = ()
    colour: str = COLOURS[0]


def bars(title: str, labels: Sequence[str], panels: Sequence[Panel], width: float = WIDTH) -> str:
    """Draw horizontal bars, one row a label, panels side by side.

    Parameters
    ----------
    title : str
        Stands above the labels.
    labels : sequence of str
    panels : sequence of Panel
    width : float, default=760
        In pixels; a third of it and 210 at most are for the labels.

    Returns
    -------
    str

    Examples
    --------
    >>> "cats" in bars("Pets", ["cats"], [Panel("", [2.0], ["2"])])
    True
    """
    left = min(_LABELS, width / 3.0)
    each = (width - left) / len(panels)
    parts = [_text(2, 14, _clipped(title, (left - 8) / _BOLD), weight="bold", full=title)]
    parts += [
        _text(left - 8, _middle(row), _clipped(label, left - 8), anchor="end", full=label)
        for row, label in enumerate(labels)
    ]
    for k, panel in enumerate(panels):
        parts += _panel(panel, left + k * each, each)
    return _picture(title, width, _HEAD + _ROW * len(labels) + 6, parts)


def _panel(panel: Panel, left: float, width: float) -> list[str]:
    room = width - _CHARACTER * max((len(text) for text in panel.texts), default=0) - 14
    held = [panel.base, *panel.values, *panel.reach]
    low, high = min(held), max(held)
    scale = room / (high - low) if high > low else 0.0
    start = left + scale * (panel.base - low)
    parts = [_text(left, 14, panel.title, fill=_PALE)]
    for row, (value, text) in enumerate(zip(panel.values, panel.texts, strict=True)):
        ends = sorted((start, left + scale * (value - low)))
        parts.append(
            f'<rect x="{ends[0]:.1f}" y="{_HEAD + _ROW * row + 3:.1f}" '
            f'width="{max(ends[1] - ends[0], 0.5):.1f}" height="{_ROW - 6:.1f}" '
            f'fill="{panel.colour}"/>'
        )
        parts.append(_text(ends[1] + 5, _middle(row), text, fill=_PALE))
    bottom = _HEAD + _ROW * len(panel.values)
    return [*parts, _line((start, _HEAD), (start, bottom), _INK)]


def _middle(row: int) -> float:
    return _HEAD + _ROW * (row + 0.5) + 4


@dataclass(frozen=True)
class Series:
    """Points of one colour, joined or not.

    Parameters
    ----------
    name : str
        For the legend; "" keeps it out.
    points : sequence of (float, float)
    style : {"line", "points", "dashes", "both", "rings"}
        "both" is a line with its points.
    colour : str, optional
        By default the next one.
    """

    name: str
    points: Sequence[tuple[float, float]]
    style: Style = "both"
    colour: str | None = None


def lines(
    title: str,
    x: Axis,
    y: Axis,
    series: Sequence[Series],
    *,
    width: float = WIDTH,
    height: float = 190,
) -> str:
    """Draw lines and points.

    Parameters
    ----------
    title : str
        Stands above the picture.
    x, y : Axis
    series : sequence of Series
    width, height : float
        In pixels; the height is that between the axes.

    Returns
    -------
    str

    Examples
    --------
    >>> from gramless.base.axes import linear_axis
    >>> axis = linear_axis("time", [0.0, 1.0])
    >>> lines("Growth", axis, axis, [Series("", [(0.0, 0.0), (1.0, 1.0)])]).count("<circle")
    2
    """
    colours = cycle(COLOURS)
    shown = [(one, one.colour or next(colours)) for one in series]
    legend, rows = _legend([(one.name, colour) for one, colour in shown if one.name], width)
    top = 8.0 + 18.0 * (bool(title) + rows) + (16.0 if y.title else 0.0)
    left = 12.0 + _CHARACTER * max(len(name) for _, name in y.ticks)
    last = max((len(name) for _, name in x.ticks[-1:]), default=0)
    box = _Box(x, y, left, top, width - max(16.0, 0.5 * _CHARACTER * last), top + height)
    parts = [_text(2, 14, _clipped(title, width / _BOLD), weight="bold", full=title), *legend]
    parts += box.frame()
    for one, colour in shown:
        parts += _drawn([box.at(point) for point in one.points], one.style, colour)
    return _picture(title, width, box.bottom + (40.0 if x.title else 24.0), parts)


@dataclass(frozen=True)
class _Box:
    """Where numbers stand in a picture."""

    x: Axis
    y: Axis
    left: float
    top: float
    right: float
    bottom: float

    def across(self, value: float) -> float:
        return self.left + self.x.share(value) * (self.right - self.left)

    def down(self, value: float) -> float:
        return self.bottom - self.y.share(value) * (self.bottom - self.top)

    def at(self, point: tuple[float, float]) -> Point:
        return self.across(point[0]), self.down(point[1])

    def frame(self) -> list[str]:
        """Return rules at the ticks, their names and the titles of the axes."""
        parts = []
        for value, name in self.y.ticks:
            down = self.down(value)
            parts.append(_line((self.left, down), (self.right, down), _RULE))
            parts.append(_text(self.left - 5, down + 4, name, fill=_PALE, anchor="end"))
        for value, name in self.x.ticks:
            across = self.across(value)
            parts.append(_line((across, self.bottom), (across, self.bottom + 4)))
            parts.append(_text(across, self.bottom + 17, name, fill=_PALE, anchor="middle"))
        parts.append(_line((self.left, self.bottom), (self.right, self.bottom)))
        middle = (self.left + self.right) / 2.0
        parts.append(_text(middle, self.bottom + 33, self.x.title, anchor="middle"))
        parts.append(_text(self.left + 5, self.top - 4, self.y.title))
        return parts


def _legend(entries: Sequence[tuple[str, str]], width: float) -> tuple[list[str], int]:
    """Return names beside their colours, below the title, and the rows that they take."""
    parts: list[str] = []
    across, row = 2.0, 0
    for name, colour in entries:
        shown = _clipped(name, width - 30.0)
        needed = 30.0 + _CHARACTER * len(shown)
        if across > 2.0 and across + needed > width:
            across, row = 2.0, row + 1
        down = 32.0 + 18.0 * row
        parts.append(
            f'<rect x="{across:.1f}" y="{down - 9:.1f}" width="10" height="10" fill="{colour}"/>'
        )
        parts.append(_text(across + 15, down, shown, full=name))
        across += needed
    return parts, row + 1 if entries else 0


def _drawn(points: Sequence[Point], style: Style, colour: str) -> list[str]:
    parts = []
    if style in ("line", "dashes", "both") and len(points) > 1:
        path = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
        dashes = ' stroke-dasharray="5 4"' if style == "dashes" else ""
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dashes}/>'
        )
    if style == "rings":
        parts += [
            f'<circle cx="{across:.1f}" cy="{down:.1f}" r="7" fill="none" stroke="{colour}"/>'
            for across, down in points
        ]
    if style in ("points", "both"):
        size, ink = (2.2, ' fill-opacity="0.45"') if style == "points" else (2.8, "")
        parts += [
            f'<circle cx="{across:.1f}" cy="{down:.1f}" r="{size}" fill="{colour}"{ink}/>'
            for across, down in points
        ]
    return parts


def _picture(title: str, width: float, height: float, parts: Sequence[str]) -> str:
    inside = "\n".join(filter(None, parts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12">'
        f"<title>{escape(title)}</title>\n{inside}\n</svg>"
    )


def _text(
    x: float,
    y: float,
    content: str,
    *,
    fill: str = _INK,
    anchor: str = "start",
    weight: str = "normal",
    full: str = "",
) -> str:
    """Return a line of text; ``full`` is shown where the pointer rests, if it is longer."""
    if not content:
        return ""
    hint = f"<title>{escape(full)}</title>" if len(full) > len(content) else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{hint}{escape(content)}</text>'
    )


def _line(start: Point, end: Point, colour: str = _PALE) -> str:
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
        f'stroke="{colour}"/>'
    )


def _clipped(text: str, width: float) -> str:
    most = max(3, int(width / _CHARACTER))
    return text if len(text) <= most else text[: most - 1] + "…"
