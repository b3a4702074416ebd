"""Panels as SVG: text stays text, dark pages are met, and no package is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources

from gramless.base.axes import Axis, linear_axis, log_axis
from gramless.base.markup import escape
from studies.marks import Mark, entries, named
from studies.numbers import power_of_ten
from studies.study import Line, Panel

WIDTH, HEIGHT = 340.0, 240.0
_CHARACTER = 6.6
"""Pixels that a character takes, about, at 12 px."""
_TOP, _BOTTOM, _RIGHT, _LEAST_LEFT = 26.0, 40.0, 12.0, 30.0
_MOST_MARKS = {"measured": 24, "published": 10}
_GAP, _MARGIN = 28.0, 18.0
_FROM_ZERO = 0.6
"""Numbers whose least is below so much of their largest are drawn from zero."""

Point = tuple[float, float]


def drawing(panel: Panel, marks: Mapping[str, Mark]) -> str:
    """Draw a panel without its title and legend, to stand inside a page.

    Parameters
    ----------
    panel : Panel
        Points that are no numbers are left out and break their line, as are those at or below
        zero on logarithmic axes; :func:`left_out` counts these.
    marks : mapping of str to Mark
        See :func:`studies.marks.marks_of`.

    Returns
    -------
    str
        An ``svg`` element, 340 by 240, with the classes of ``picture.css``.

    Examples
    --------
    >>> panel = Panel("letter", "grids", "test error, %", (Line("binning", [1, 2], [4.0, 3.0]),))
    >>> drawing(panel, {"binning": Mark(0, "circle")}).count('class="mark"')
    2
    """
    title = ": ".join(filter(None, (panel.title, f"{panel.y_label} against {panel.x_label}")))
    return _svg(WIDTH, HEIGHT, title, _parts(panel, marks))


def sheet(panels: Sequence[Panel], marks: Mapping[str, Mark], title: str) -> str:
    """Draw panels side by side, with titles and one legend, as a picture of its own.

    Parameters
    ----------
    panels : sequence of Panel
    marks : mapping of str to Mark
    title : str
        For those who cannot see the picture.

    Returns
    -------
    str
        The text of an SVG file.
    """
    columns = 1 if len(panels) == 1 else 2
    width = 2 * _MARGIN + columns * WIDTH + (columns - 1) * _GAP
    legend, top = _legend([line for panel in panels for line in panel.lines], marks, width)
    each = 22.0 + HEIGHT + _GAP
    height = top + each * math.ceil(len(panels) / columns)
    parts = [
        f"<style>{picture_style()}</style>",
        f'<rect class="sheet" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" '
        'rx="6"/>',
        *legend,
    ]
    for k, panel in enumerate(panels):
        across = _MARGIN + (k % columns) * (WIDTH + _GAP)
        parts.append(f'<g transform="translate({across:g},{top + each * (k // columns):g})">')
        parts.append(_text(2, 14, panel.title, "title", width=WIDTH / 1.2))
        parts += ['<g transform="translate(0,22)">', *_parts(panel, marks), "</g></g>"]
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _svg(width, height, title, parts)


def key(line: Line, mark: Mark, is_dots: bool) -> str:
    """Draw the sample of a line that stands in a legend."""
    inside = "\n".join(_key(line, mark, is_dots))
    return f'<svg class="key" viewBox="0 0 28 12" width="28" height="12">{inside}</svg>'


def left_out(panel: Panel) -> int:
    """Return the points at or below zero that logarithmic axes have no place for.

    Examples
    --------
    >>> left_out(Panel("", "", "", (Line("", [1, 2], [0.0, 1.0]),), y_log=True))
    1
    """
    points = [point for line in panel.lines for point in zip(line.x, line.y, strict=True)]
    numbers = [point for point in points if all(map(math.isfinite, point))]
    return sum((panel.x_log and x <= 0.0) or (panel.y_log and y <= 0.0) for x, y in numbers)


def picture_style() -> str:
    """Return the style of pictures, for a page or an SVG file."""
    return resources.files("studies").joinpath("picture.css").read_text(encoding="utf-8")


@dataclass(frozen=True)
class _Box:
    """Where numbers stand."""

    x: Axis
    y: Axis
    left: float
    is_upside_down: bool

    def at(self, x: float, y: float) -> Point:
        """Return where a point stands."""
        up = 1.0 - self.y.share(y) if self.is_upside_down else self.y.share(y)
        across = self.left + self.x.share(x) * (WIDTH - _RIGHT - self.left)
        return across, HEIGHT - _BOTTOM - up * (HEIGHT - _BOTTOM - _TOP)


def _parts(panel: Panel, marks: Mapping[str, Mark]) -> list[str]:
    shown = [
        (line, [_placed(point, panel) for point in zip(line.x, line.y, strict=True)])
        for line in panel.lines
    ]
    places = [point for _, points in shown for point in points if point is not None]
    if not places:
        return _empty(panel)
    x = _axis(panel.x_label, [point[0] for point in places], panel.x_log)
    y = _axis(panel.y_label, [point[1] for point in places], panel.y_log)
    left = max(_LEAST_LEFT, 10.0 + max(_width(name) for _, name in y.ticks))
    box = _Box(x, y, left, panel.dots)
    parts = _frame(box)
    # What was measured is drawn last: over the rest.
    for line, points in sorted(shown, key=lambda one: one[0].kind == "measured"):
        mark = marks[line.label]
        drawn = _dots(box, points) if panel.dots else _joined(box, line, points, mark)
        parts += [f'<g class="{mark.classes(line.kind)}">', *drawn, "</g>"]
    return parts


def _empty(panel: Panel) -> list[str]:
    bottom, middle = HEIGHT - _BOTTOM, 0.5 * WIDTH
    return [
        _text(0, 14, panel.y_label, "strong", width=WIDTH),
        f'<path class="base" d="M{_LEAST_LEFT},{bottom}H{WIDTH - _RIGHT}"/>',
        _text(middle, 0.5 * HEIGHT, "Nothing measured yet", anchor="middle"),
        _text(middle, bottom + 35, panel.x_label, "strong", "middle", WIDTH),
    ]


def _placed(point: tuple[float, float], panel: Panel) -> Point | None:
    x, y = point
    there = math.isfinite(x) and math.isfinite(y)
    return (x, y) if there and (not panel.x_log or x > 0) and (not panel.y_log or y > 0) else None


def _axis(title: str, values: Sequence[float], is_log: bool) -> Axis:
    if is_log:
        axis = log_axis(title, values)
    else:
        low, high = min(values), max(values)
        axis = linear_axis(title, [0.0, high] if 0.0 <= low < _FROM_ZERO * high else values)
    names = [_tick(value) for value, _ in axis.ticks]
    if len(set(names)) < len(names):
        return axis
    values_of = [value for value, _ in axis.ticks]
    return replace(axis, ticks=list(zip(values_of, names, strict=True)))


def _tick(value: float) -> str:
    """Return a short name of a round number.

    Examples
    --------
    >>> [_tick(value) for value in (0.0, 0.02, 5e-6, 500.0, 20_000.0, 3e6, 1e12)]
    ['0', '0.02', '5·10⁻⁶', '500', '20k', '3M', '10¹²']
    """
    size = abs(value)
    if size >= 1e9 or 0.0 < size < 0.999e-3:
        return power_of_ten(value)
    if size >= 1e6:
        return f"{value / 1e6:.4g}M"
    return f"{value / 1e3:.4g}k" if size >= 1e4 else f"{value:.6g}"


def _frame(box: _Box) -> list[str]:
    """Return rules at the ticks, their names and the titles of the axes."""
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    low_x, low_y = box.x.ticks[0][0], box.y.ticks[0][0]
    parts: list[str] = []
    named_at: list[float] = []
    for value, name in _by_rank(box.y):
        down = box.at(low_x, value)[1]
        parts.append(f'<path class="rule" d="M{box.left:.1f},{down:.1f}H{right:.1f}"/>')
        if all(abs(down - other) >= 14.0 for other in named_at):
            parts.append(_text(box.left - 6, down + 4, name, anchor="end"))
            named_at.append(down)
    ends: list[Point] = []
    for value, name in _by_rank(box.x):
        across, half = box.at(value, low_y)[0], 0.5 * _width(name)
        parts.append(f'<path class="base" d="M{across:.1f},{bottom:.1f}v4"/>')
        middle = min(across, WIDTH - half)
        if all(middle + half + 5 < start or middle - half - 5 > end for start, end in ends):
            parts.append(_text(middle, bottom + 17, name, anchor="middle"))
            ends.append((middle - half, middle + half))
    parts.append(f'<path class="base" d="M{box.left:.1f},{bottom:.1f}H{right:.1f}"/>')
    middle = 0.5 * (box.left + right)
    parts.append(_text(middle, bottom + 35, box.x.title, "strong", "middle", right - box.left))
    return [*parts, _text(0, 14, box.y.title, "strong", width=WIDTH)]


def _by_rank(axis: Axis) -> list[tuple[float, str]]:
    """Return the ticks, those first whose names matter most: powers of ten, then the outer."""
    if axis.place is float:
        return list(axis.ticks)
    powers = [tick for tick in axis.ticks if math.log10(tick[0]).is_integer()]
    return [*powers, *(tick for tick in axis.ticks if tick not in powers)]


def _joined(box: _Box, line: Line, points: Sequence[Point | None], mark: Mark) -> list[str]:
    path, is_down = [], False
    for point in points:
        if point is not None:
            across, down = box.at(*point)
            path.append(f"{'L' if is_down else 'M'}{across:.1f},{down:.1f}")
        is_down = point is not None
    parts = [f'<path class="line" d="{"".join(path)}"/>'] if len(path) > 1 else []
    if line.kind == "law":
        return parts
    there = [point for point in points if point is not None]
    every, radius = (
        max(1, math.ceil(len(there) / _MOST_MARKS[line.kind])),
        3.6 if len(path) > 1 else 4.8,
    )
    # Counted from the end: the last point is always marked.
    for point in there[::-1][::every][::-1]:
        told = escape(f"{named(line)}: {point[0]:.4g}, {point[1]:.4g}")
        outline = mark.outline(*box.at(*point), radius)
        parts.append(f'<path class="mark" d="{outline}"><title>{told}</title></path>')
    return parts


def _dots(box: _Box, points: Sequence[Point | None]) -> list[str]:
    """Return points as one path, the smaller the more; those on the same half pixel once."""
    places = [box.at(*point) for point in points if point is not None]
    once = dict.fromkeys((round(2 * across), round(2 * down)) for across, down in places)
    path = "".join(f"M{across / 2:g},{down / 2:g}h0" for across, down in once)
    size = min(4.0, max(1.2, 60.0 / math.sqrt(1 + len(once))))
    return [f'<path class="dots" stroke-width="{size:.1f}" d="{path}"/>']


def _key(line: Line, mark: Mark, is_dots: bool) -> list[str]:
    parts = [f'<g class="{mark.classes(line.kind)}">']
    if is_dots:
        return [*parts, '<path class="dots" stroke-width="4" d="M14,6h0"/>', "</g>"]
    if len(line.x) > 1:
        parts.append('<path class="line" d="M1,6H27"/>')
    if line.kind != "law":
        parts.append(f'<path class="mark" d="{mark.outline(14.0, 6.0, 3.6)}"/>')
    return [*parts, "</g>"]


def _legend(
    lines: Sequence[Line], marks: Mapping[str, Mark], width: float
) -> tuple[list[str], float]:
    """Return the legend above panels, in rows as needed, and where the panels start."""
    parts: list[str] = []
    across, down = _MARGIN, _MARGIN
    for line in entries(lines):
        needed = 36.0 + _width(named(line)) + 18.0
        if across > _MARGIN and across + needed > width - _MARGIN:
            across, down = _MARGIN, down + 20.0
        parts.append(f'<g transform="translate({across:.1f},{down:.1f})">')
        parts += [*_key(line, marks[line.label], False), _text(34, 10, named(line)), "</g>"]
        across += needed
    return parts, down + (32.0 if parts else 0.0)


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    inside = "\n".join(filter(None, parts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">'
        f"<title>{escape(title)}</title>\n{inside}\n</svg>\n"
    )


def _text(
    x: float,
    y: float,
    content: str,
    style: str = "",
    anchor: str = "start",
    width: float = math.inf,
) -> str:
    """Return a line of text, cut where it is too wide; then all of it where the pointer rests."""
    if not content:
        return ""
    is_long = _width(content) > width
    shown = content[: int(width / _CHARACTER) - 1].rstrip() + "…" if is_long else content
    hint = f"<title>{escape(content)}</title>" if is_long else ""
    of_style = f' class="{style}"' if style else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{of_style}>'
        f"{hint}{escape(shown)}</text>"
    )


def _width(text: str) -> float:
    return _CHARACTER * len(text)
