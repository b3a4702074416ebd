"""Bar charts of pages, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from gramless.cli.svg import CHARACTER, COLOURS, LIGHT, drawing, pixels, svg_text, write

WIDE = 760.0
_LABELS, _ROW, _HEAD, _BOLD = 210.0, 20.0, 24.0, 1.15


@dataclass(frozen=True)
class Bars:
    """One column of horizontal bars.

    Parameters
    ----------
    title : str
    values : sequence of float
    texts : sequence of str
        Stand behind the bars.
    base : float, default=0.0
        Where the bars start.
    reach : sequence of float, default=()
        Further numbers for which there must be room: what columns share for one scale.
    colour : str
    """

    title: str
    values: Sequence[float]
    texts: Sequence[str]
    base: float = 0.0
    reach: Sequence[float] = ()
    colour: str = COLOURS[0]


def bar_chart(
    title: str, labels: Sequence[str], columns: Sequence[Bars], width: float = WIDE
) -> Markup:
    """Draw horizontal bars, one row a label, columns side by side.

    Parameters
    ----------
    title : str
        Stands above the labels.
    labels : sequence of str
    columns : sequence of Bars
    width : float
        In pixels; a third of it and 210 at most are for the labels.

    Returns
    -------
    Markup
        An ``svg`` element; the same text for the same bars.

    Examples
    --------
    >>> "cats" in bar_chart("Pets", ["cats"], [Bars("", [2.0], ["2"])])
    True
    """
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
    """Draw one column of bars at the pixels from left to left + width."""
    room = width - CHARACTER * max(map(len, column.texts), default=0) - 14.0
    held = [column.base, *column.values, *column.reach]
    low, high = min(held), max(held)
    n_rows, (across, down) = len(column.values), pixels(figure)
    axes: Any = figure.add_axes((left / across, 6.0 / down, width / across, _ROW * n_rows / down))
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
