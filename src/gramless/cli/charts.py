"""Charts of pages, drawn by matplotlib: lines and points on axes, and horizontal bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    Formatter,
    LogLocator,
    MaxNLocator,
    NullLocator,
)

from gramless.base.formatting import power_of_ten
from gramless.base.types import FloatArray
from gramless.cli.svg import CHARACTER, COLOURS, LIGHT, drawing, pixels, svg_text, write

WIDTH, HEIGHT = 340.0, 240.0
_LABELS, _ROW, _HEAD, _BOLD = 210.0, 20.0, 24.0, 1.15
_TOP, _BOTTOM, _UNNAMED, _RIGHT, _LEAST_LEFT = 26.0, 40.0, 10.0, 12.0, 30.0
KEY_WIDTH, KEY_HEIGHT = 28.0, 12.0
_MULTIPLES = {1.0: (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), 2.5: (1.0, 2.0, 5.0)}
"""Multiples of powers of ten to label, by the largest number of decades of the axis."""
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)

Box = tuple[float, float, float, float]
"""Left, top, width and height, in pixels."""


@dataclass(frozen=True)
class Series:
    """Points that are drawn alike, joined by a line or as dots.

    ``look`` has keywords of ``Axes.plot``, with the colours of :data:`gramless.cli.svg.LIGHT`. A
    line breaks where a number is not finite. ``name`` stands in the legend and in the hints of
    marks, unless it is empty.
    """

    x: Sequence[float]
    y: Sequence[float]
    look: Mapping[str, Any]
    name: str = ""
    is_dots: bool = False


@dataclass(frozen=True)
class Chart:
    """Series on two axes, which also span ``x_held`` and ``y_held``.

    Logarithmic axes omit points that are not positive. ``x_ticks`` names places on the x axis, by
    default round numbers; with ``y_down`` y grows downwards.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    x_log: bool = False
    y_log: bool = False
    x_held: Sequence[float] = ()
    y_held: Sequence[float] = ()
    x_ticks: Mapping[float, str] = field(default_factory=dict)
    y_down: bool = False

    @property
    def legend(self) -> list[Series]:
        """The named series, of each name the one with the most points."""
        named: dict[str, Series] = {}
        for one in filter(lambda one: one.name and len(one.x), self.series):
            named[one.name] = max(named.get(one.name, one), one, key=lambda same: len(same.x))
        return list(named.values())


def line_chart(chart: Chart, width: float = WIDTH, height: float = HEIGHT) -> Markup:
    """Draw a chart without its title and legend, which stand beside it on the page."""
    against = " against ".join(filter(None, (chart.y_label, chart.x_label)))
    title = ": ".join(filter(None, (chart.title, against)))
    with drawing(width, height) as figure:
        return svg_text(figure, title, draw(figure, chart, (0.0, 0.0, width, height)))


def key(series: Series) -> Markup:
    """Draw the sample of a series for a legend."""
    with drawing(KEY_WIDTH, KEY_HEIGHT) as figure:
        draw_sample(figure, series, 0.0, 0.0)
        return svg_text(figure, "")


def short_number(value: float) -> str:
    """Return a short name of a round number.

    Examples
    --------
    >>> [short_number(value) for value in (0.0, 0.02, 5e-6, 500.0, 20_000.0, 3e6, 1e12)]
    ['0', '0.02', '5·10⁻⁶', '500', '20k', '3M', '10¹²']
    """
    size = abs(value)
    if size >= 1e9 or 0.0 < size < 0.999e-3:
        return power_of_ten(value)
    if size >= 1e6:
        return f"{value / 1e6:.4g}M"
    return f"{value / 1e3:.4g}k" if size >= 1e4 else f"{value:.6g}"


class _ShortNumbers(Formatter):
    """Labels of ticks: short ones if these differ, otherwise with all digits."""

    def __call__(self, value: float, pos: int | None = None) -> str:
        return short_number(value)

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        names = [short_number(value) for value in values]
        return names if len(set(names)) == len(names) else [f"{value:.15g}" for value in values]


def draw(figure: Figure, chart: Chart, box: Box) -> dict[str, list[str]]:
    """Draw a chart into a box of a figure; return the hints of its marks for ``svg_text``."""
    left, top, width, height = box
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), facecolor="none", axisbelow=True)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.spines["bottom"].set(color=LIGHT["base"], linewidth=1.0)
    axes.set_xmargin(0.03)
    axes.set_ymargin(0.03)
    places = [placed(one.x, one.y, chart.x_log, chart.y_log) for one in chart.series]
    shown = [
        (one, x, y)
        for one, (x, y) in zip(chart.series, places, strict=True)
        if np.isfinite(x).any()
    ]
    hints = {f"{len(figure.axes)} {k}": _hints(*one) for k, one in enumerate(shown)}
    write(figure, left, top + 14.0, chart.y_label, width)
    above = _TOP if chart.y_label else _UNNAMED
    bottom = height - (_BOTTOM if chart.x_label else _UNNAMED + 14.0)
    if shown:
        scales = {True: "log", False: "linear"}
        axes.set(xscale=scales[chart.x_log], yscale=scales[chart.y_log])
        for gid, (series, x, y) in zip(hints, shown, strict=True):
            axes.plot(*_vertices(series, x, y), gid=gid, **series.look)
        axes.update_datalim([(x, 0.0) for x in chart.x_held], updatey=False)
        axes.update_datalim([(0.0, y) for y in chart.y_held], updatex=False)
        axes.autoscale_view()
        axes.yaxis.set_inverted(chart.y_down)
        _label(axes, chart)
        names = [text.get_text() for text in axes.get_yticklabels()]
        inner = max(_LEAST_LEFT, 10.0 + CHARACTER * max(map(len, names), default=0))
    else:
        inner = _LEAST_LEFT
        axes.set(xticks=[], yticks=[])
        write(
            figure,
            left + width / 2,
            top + height / 2,
            "Nothing measured yet",
            ha="center",
            color=LIGHT["soft"],
        )
    size = pixels(figure)
    across = width - inner - _RIGHT
    place = (left + inner, size[1] - top - bottom, across, bottom - above)
    axes.set_position(np.divide(place, np.tile(size, 2)))
    middle = left + inner + across / 2
    write(figure, middle, top + bottom + 35.0, chart.x_label, across, ha="center")
    return hints


def placed(
    x: Sequence[float], y: Sequence[float], x_log: bool, y_log: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the points as floats, NaN where the axes have no place for them."""
    across, up = np.array(x, dtype=float), np.array(y, dtype=float)
    away = ~(np.isfinite(across) & np.isfinite(up))
    away |= (x_log & (across <= 0.0)) | (y_log & (up <= 0.0))
    across[away] = up[away] = np.nan
    return across, up


def _vertices(series: Series, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what is drawn: for dots, a line from each point to itself."""
    if not series.is_dots:
        return x, y
    apart = np.array([0.0, 0.0, np.nan])
    return np.add.outer(x, apart).ravel(), np.add.outer(y, apart).ravel()


def _hints(series: Series, x: FloatArray, y: FloatArray) -> list[str]:
    if not series.name or "marker" not in series.look:
        return []
    marked = series.look.get("markevery", range(len(x)))
    return [f"{series.name}: {x[k]:.4g}, {y[k]:.4g}" for k in marked if np.isfinite(x[k])]


def _label(axes: Axes, chart: Chart) -> None:
    """Choose the labelled numbers, and draw a rule at those of the y axis."""
    soft = {"labelcolor": LIGHT["soft"], "color": LIGHT["base"]}
    axes.tick_params("x", length=4, width=1, pad=4, **soft)
    axes.tick_params("y", length=0, pad=6, **soft)
    axes.grid(axis="y", color=LIGHT["rule"], linewidth=1.0)
    for axis, is_log in ((axes.xaxis, chart.x_log), (axes.yaxis, chart.y_log)):
        axis.set_major_locator(
            _locator(*axis.get_view_interval()) if is_log else MaxNLocator(6, steps=_STEPS)
        )
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(_ShortNumbers())
    if chart.x_ticks:
        axes.xaxis.set_major_locator(FixedLocator(list(chart.x_ticks)))
        axes.xaxis.set_major_formatter(FixedFormatter(list(chart.x_ticks.values())))


def _locator(low: float, high: float) -> LogLocator:
    decades = abs(math.log10(high / low))
    multiples = next((own for most, own in _MULTIPLES.items() if decades < most), (1.0,))
    return LogLocator(subs=multiples, numticks=9)


def draw_sample(figure: Figure, series: Series, across: float, down: float) -> None:
    """Draw the sample of a series for a legend, its upper left corner at a pixel."""
    size = pixels(figure)
    box = np.divide((across, size[1] - down - KEY_HEIGHT, KEY_WIDTH, KEY_HEIGHT), np.tile(size, 2))
    axes = figure.add_axes(tuple(box), xlim=(0.0, KEY_WIDTH), ylim=(0.0, KEY_HEIGHT))
    axes.set_axis_off()
    middle = 0.5 * KEY_WIDTH
    x = [1.0, middle, KEY_WIDTH - 1.0] if len(series.x) > 1 else [middle]
    if series.is_dots:
        x = [middle, middle]
    look = {**series.look, "markevery": (len(x) // 2, 3)}
    axes.plot(x, [0.5 * KEY_HEIGHT] * len(x), **look)


@dataclass(frozen=True)
class Bars:
    """A column of horizontal bars from ``base``, on a scale that also spans ``reach``."""

    title: str
    values: Sequence[float]
    texts: Sequence[str]
    base: float = 0.0
    reach: Sequence[float] = ()
    colour: str = COLOURS[0]


def bar_chart(
    title: str, labels: Sequence[str], columns: Sequence[Bars], width: float = 760.0
) -> Markup:
    """Draw columns of horizontal bars side by side, with one row for each label."""
    left = min(_LABELS, width / 3.0)
    each = (width - left) / len(columns)
    with drawing(width, _HEAD + _ROW * len(labels) + 6.0) as figure:
        write(figure, 2.0, 14.0, title, (left - 8.0) / _BOLD, weight="bold")
        for row, label in enumerate(labels):
            write(figure, left - 8.0, _middle(row), label, left - 8.0, ha="right")
        for k, column in enumerate(columns):
            _draw_bars(figure, column, left + k * each, each)
        return svg_text(figure, title)


def _draw_bars(figure: Figure, column: Bars, left: float, width: float) -> None:
    """Draw one column of bars in the pixels from left to left + width."""
    room = width - CHARACTER * max(map(len, column.texts), default=0) - 14.0
    held = [column.base, *column.values, *column.reach]
    low, high = min(held), max(held)
    n_rows, (across, down) = len(column.values), pixels(figure)
    axes = figure.add_axes((left / across, 6.0 / down, width / across, _ROW * n_rows / down))
    axes.set_axis_off()
    axes.set(ylim=(n_rows - 0.5, -0.5))
    # The bars have the room that their texts leave.
    axes.set(xlim=(low, low + ((high - low) or 1.0) * width / room))
    lengths = [value - column.base for value in column.values]
    axes.barh(range(n_rows), lengths, height=0.7, left=column.base, color=column.colour)
    for row, (value, text) in enumerate(zip(column.values, column.texts, strict=True)):
        end = axes.transData.transform((max(value, column.base), 0.0))[0]
        write(figure, end + 5.0, _middle(row), text, color=LIGHT["soft"])
    axes.plot([column.base] * 2, [n_rows - 0.5, -0.5], color=LIGHT["ink"], linewidth=1)
    write(figure, left, 14.0, column.title, color=LIGHT["soft"])


def _middle(row: int) -> float:
    return _HEAD + _ROW * (row + 0.5) + 4.0
