"""Charts of pages: lines and points on axes by matplotlib, bars and heat maps as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

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
from gramless.cli.svg import cut, drawing, svg_text

WIDTH, HEIGHT = 340.0, 240.0
_LONGEST = 46
"""Characters of the longest names of axes that are shown whole."""
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
    def has_course(self) -> bool:
        """Whether one of the series has points at more than two places along the x axis."""
        return any(len({x for x in one.x if math.isfinite(x)}) > 2 for one in self.series)

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
class Cell:
    """A number in a table, over a bar from ``start`` to ``end``, in parts of the cell's width.

    ``strength`` is how much of the colour, a name of :data:`gramless.cli.svg.LIGHT`, shows: up to
    1, over which text is still read well.
    """

    text: str
    start: float = 0.0
    end: float = 0.0
    colour: str = "c0"
    strength: float = 0.8

    @property
    def css(self) -> str:
        """The bar as CSS, empty where there is none."""
        if not self.end > self.start:
            return ""
        tint = f"color-mix(in srgb, var(--{self.colour}) {45.0 * self.strength:.0f}%, transparent)"
        return f"--from: {100 * self.start:.1f}%; --to: {100 * self.end:.1f}%; --tint: {tint}"


Columns: TypeAlias = dict[str, Sequence[str | Cell]]
"""Cells by the head of their column; the first column has the names of the rows."""


@dataclass(frozen=True)
class ShadedTable:
    """A table whose rows have a name and cells; pages draw bars and heat maps as such tables."""

    caption: str
    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    is_map: bool = False

    @classmethod
    def of(cls, columns: Columns, caption: str = "") -> Self:
        """Return a table of columns.

        Examples
        --------
        >>> ShadedTable.of({"input": ["age"], "share": ["half"]}).rows[0][1][0].text
        'half'
        """
        rows = [
            (str(name), [own if isinstance(own, Cell) else Cell(own) for own in cells])
            for name, *cells in zip(*columns.values(), strict=True)
        ]
        return cls(caption, list(columns), rows)


def bar_cells(
    values: Sequence[float], texts: Sequence[str] | None = None, colour: str = "c0"
) -> list[Cell]:
    """Return cells with bars from zero, those of negative values to the left.

    Examples
    --------
    >>> [(cell.start, cell.end) for cell in bar_cells([3.0, -1.0])]
    [(0.25, 1.0), (0.0, 0.25)]
    """
    known = [value if math.isfinite(value) else 0.0 for value in values]
    low, high = min([0.0, *known]), max([0.0, *known])
    reach = (high - low) or 1.0
    return [
        Cell(text, (min(0.0, value) - low) / reach, (max(0.0, value) - low) / reach, own)
        for value, text, own in zip(
            known,
            texts or [""] * len(known),
            [colour if value > 0.0 else "c1" for value in known],
            strict=True,
        )
    ]


def heat_map(
    caption: str, labels: Sequence[str], head: Sequence[str], values: FloatArray
) -> ShadedTable:
    """Return a table of numbers (n_labels, n_head), whose cells are the darker the larger."""
    shades = (values - values.min()) / (np.ptp(values) or 1.0)
    texts = np.reshape(aligned(values.ravel()), values.shape)
    rows = [
        (label, [Cell(text, 0.0, 1.0, strength=shade) for text, shade in zip(*own, strict=True)])
        for label, *own in zip(labels, texts.tolist(), shades.tolist(), strict=True)
    ]
    return ShadedTable(caption, ["", *head], rows, is_map=True)


def readable(value: float, digits: int = 4) -> str:
    """Return a number with so many significant digits, as people write it.

    Examples
    --------
    >>> [readable(value) for value in (0.123456, 27312.0, -3e12, 0.0, math.nan)]
    ['0.1235', '27,310', '-3·10¹²', '0', '–']
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else str(value).replace("inf", "∞")
    if value != 0.0 and not 1e-4 <= abs(value) < 1e9:
        return power_of_ten(value)
    return f"{float(f'{value:.{digits}g}'):,.10g}"


def aligned(values: FloatArray, digits: int = 3) -> list[str]:
    """Return numbers with as many decimals each, so that the largest has so many digits.

    Examples
    --------
    >>> aligned(np.array([0.5, 0.1234])), aligned(np.array([1234.5, 2.0]))
    (['0.500', '0.123'], ['1,234', '2'])
    """
    largest = float(np.abs(values).max(initial=0.0))
    if not 1e-4 <= largest < 1e9:
        return [readable(value, digits) for value in values.tolist()]
    decimals = max(0, digits - 1 - math.floor(math.log10(largest)))
    return [f"{value:,.{decimals}f}" for value in values.tolist()]
