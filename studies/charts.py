"""Charts of lines and points with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    Formatter,
    LogLocator,
    MaxNLocator,
    NullLocator,
)

from gramless.base.formatting import format_scientific
from gramless.base.types import FloatArray
from gramless.cli.pages import truncate

WIDTH, HEIGHT = 340.0, 240.0  # points
_MAX_LABEL_LENGTH = 46  # characters; longer labels of axes would not fit the chart
# Multiples of powers of ten to label on an axis that spans fewer decades than the key.
_MULTIPLES = {1.0: (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), 2.5: (1.0, 2.0, 5.0)}
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Series:
    """Points drawn in one style, as a line or as dots.

    ``look`` has keywords of ``Axes.plot``. A line is interrupted at values that are not finite. If
    ``name`` is not empty, it appears in the legend.
    """

    x: Sequence[float]
    y: Sequence[float]
    look: Mapping[str, Any]
    name: str = ""
    is_dots: bool = False


@dataclass(frozen=True)
class Chart:
    """Series on two axes.

    The ranges of the axes include ``x_held`` and ``y_held``. Logarithmic axes omit points that are
    not positive. With ``y_down``, y grows downwards.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    x_log: bool = False
    y_log: bool = False
    x_held: Sequence[float] = ()
    y_held: Sequence[float] = ()
    y_down: bool = False

    @property
    def legend(self) -> list[Series]:
        """One series for each name: the one with the most points."""
        by_name: dict[str, Series] = {}
        for one in filter(lambda one: one.name and len(one.x), self.series):
            by_name[one.name] = max(by_name.get(one.name, one), one, key=lambda same: len(same.x))
        return list(by_name.values())


def legend_line(series: Series) -> Line2D:
    """Return the line that represents a series in a legend."""
    look = {**series.look, "markevery": None}
    if series.is_dots:
        look |= {"linestyle": "none", "marker": "o", "markersize": look["linewidth"]}
    return Line2D([], [], **look)


def short_number(value: float) -> str:
    """Return a number in a short notation for labels of ticks.

    Examples
    --------
    >>> [short_number(value) for value in (0.0, 0.02, 5e-6, 500.0, 20_000.0, 3e6, 1e12)]
    ['0', '0.02', '5·10⁻⁶', '500', '20k', '3M', '10¹²']
    """
    size = abs(value)
    if size >= 1e9 or 0.0 < size < 0.999e-3:
        return format_scientific(value)
    if size >= 1e6:
        return f"{value / 1e6:.4g}M"
    return f"{value / 1e3:.4g}k" if size >= 1e4 else f"{value:.6g}"


class _ShortNumbers(Formatter):
    """Formats ticks with short numbers if these are distinct, otherwise with all digits."""

    def __call__(self, value: float, pos: int | None = None) -> str:
        return short_number(value)

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        texts = [short_number(value) for value in values]
        return texts if len(set(texts)) == len(texts) else [f"{value:.15g}" for value in values]


def draw(axes: Axes, chart: Chart) -> None:
    """Draw a chart without its title and legend."""
    axes.set_xlabel(truncate(chart.x_label, _MAX_LABEL_LENGTH))
    axes.set_title(truncate(chart.y_label, _MAX_LABEL_LENGTH))
    masked = [(one, *mask_points(one.x, one.y, chart.x_log, chart.y_log)) for one in chart.series]
    visible = [(one, x, y) for one, x, y in masked if np.isfinite(x).any()]
    if not visible:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "Nothing measured yet", ha="center", transform=axes.transAxes)
        return
    scales = {True: "log", False: "linear"}
    axes.set(xscale=scales[chart.x_log], yscale=scales[chart.y_log])
    for series, x, y in visible:
        axes.plot(*_vertices(series, x, y), **series.look)
    axes.update_datalim([(x, 0.0) for x in chart.x_held], updatey=False)
    axes.update_datalim([(0.0, y) for y in chart.y_held], updatex=False)
    axes.autoscale_view()
    axes.yaxis.set_inverted(chart.y_down)
    for axis, is_log in ((axes.xaxis, chart.x_log), (axes.yaxis, chart.y_log)):
        axis.set_major_locator(
            _locator(*axis.get_view_interval()) if is_log else MaxNLocator(6, steps=_STEPS)
        )
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(_ShortNumbers())


def mask_points(
    x: Sequence[float], y: Sequence[float], x_log: bool, y_log: bool
) -> tuple[FloatArray, FloatArray]:
    """Return float copies with both coordinates NaN for points that the axes cannot show."""
    x_values, y_values = np.array(x, dtype=float), np.array(y, dtype=float)
    hidden = ~(np.isfinite(x_values) & np.isfinite(y_values))
    hidden |= (x_log & (x_values <= 0.0)) | (y_log & (y_values <= 0.0))
    x_values[hidden] = y_values[hidden] = np.nan
    return x_values, y_values


def _vertices(series: Series, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the vertices to draw: for dots, a line of length zero at each point."""
    if not series.is_dots:
        return x, y
    # The NaN interrupts the line between two points.
    offsets = np.array([0.0, 0.0, np.nan])
    return np.add.outer(x, offsets).ravel(), np.add.outer(y, offsets).ravel()


def _locator(low: float, high: float) -> LogLocator:
    decades = abs(math.log10(high / low))
    multiples = next((labels for limit, labels in _MULTIPLES.items() if decades < limit), (1.0,))
    return LogLocator(subs=multiples, numticks=9)
