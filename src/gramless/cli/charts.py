"""Charts of pages, drawn by matplotlib: lines and points on axes, and horizontal bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
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
from gramless.cli.svg import COLOURS, LIGHT, cut, drawing, svg_text

WIDTH, HEIGHT = 340.0, 240.0
_LONGEST, _LONGEST_LABEL = 46, 28
"""Characters of the longest names of axes, and of rows of bars, that are shown whole."""
_MULTIPLES = {1.0: (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), 2.5: (1.0, 2.0, 5.0)}
"""Multiples of powers of ten to label, by the largest number of decades of the axis."""
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


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
        return svg_text(figure, title, draw(figure.subplots(), chart))


def key(series: Series) -> Markup:
    """Draw the sample of a series for a legend."""
    with drawing(28.0, 12.0) as figure:
        bare = {"borderpad": 0.0, "borderaxespad": 0.0, "handletextpad": 0.0}
        figure.legend([sample(series)], [""], loc="center", **bare)
        return svg_text(figure, "")


def sample(series: Series) -> Line2D:
    """Return the line that stands for a series in legends."""
    look = {**series.look, "markevery": None}
    if series.is_dots:
        look |= {"linestyle": "none", "marker": "o", "markersize": look["linewidth"]}
    return Line2D([], [], **look)


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


def draw(axes: Axes, chart: Chart) -> dict[str, list[str]]:
    """Draw a chart; return the hints of its marks for ``svg_text``."""
    axes.set_xlabel(cut(chart.x_label, _LONGEST))
    axes.set_title(cut(chart.y_label, _LONGEST))
    all_of = [(one, *placed(one.x, one.y, chart.x_log, chart.y_log)) for one in chart.series]
    shown = [(one, x, y) for one, x, y in all_of if np.isfinite(x).any()]
    if not shown:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "Nothing measured yet", ha="center", transform=axes.transAxes)
        return {}
    scales = {True: "log", False: "linear"}
    axes.set(xscale=scales[chart.x_log], yscale=scales[chart.y_log])
    number = axes.figure.axes.index(axes)
    hints = {f"{number} {k}": _hints(*one) for k, one in enumerate(shown)}
    for gid, (series, x, y) in zip(hints, shown, strict=True):
        axes.plot(*_vertices(series, x, y), gid=gid, **series.look)
    axes.update_datalim([(x, 0.0) for x in chart.x_held], updatey=False)
    axes.update_datalim([(0.0, y) for y in chart.y_held], updatex=False)
    axes.autoscale_view()
    axes.yaxis.set_inverted(chart.y_down)
    _label(axes, chart)
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
    """Choose the labelled numbers."""
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
    with drawing(width, 30.0 + 20.0 * len(labels)) as figure:
        panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
        panels[0].set_yticks(range(len(labels)), [cut(label, _LONGEST_LABEL) for label in labels])
        panels[0].set_ylim(len(labels) - 0.5, -0.5)
        panels[0].tick_params("y", labelcolor=LIGHT["ink"])
        heading = {"xycoords": "axes fraction", "ha": "right", "va": "bottom", "weight": "bold"}
        panels[0].annotate(cut(title, _LONGEST_LABEL), (-0.02, 1.0), **heading)
        for axes, column in zip(panels, columns, strict=True):
            _draw_bars(axes, column)
        return svg_text(figure, title)


def _draw_bars(axes: Axes, column: Bars) -> None:
    axes.spines["bottom"].set_visible(False)
    axes.grid(visible=False)
    axes.tick_params("x", length=0.0, labelbottom=False)
    lengths = [value - column.base for value in column.values]
    bars = axes.barh(range(len(lengths)), lengths, 0.7, column.base, color=column.colour)
    texts = [cut(text, _LONGEST_LABEL) for text in column.texts]
    axes.bar_label(bars, texts, padding=5.0, color=LIGHT["soft"])
    axes.update_datalim([(value, 0.0) for value in column.reach], updatey=False)
    axes.autoscale_view(scaley=False)
    axes.axvline(column.base, color=LIGHT["ink"], linewidth=1.0)
    axes.set_title(cut(column.title, _LONGEST_LABEL), color=LIGHT["soft"])
