"""Charts side by side, with one legend, as a picture of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gramless.cli.charts import HEIGHT, WIDTH, Chart, draw, sample
from gramless.cli.svg import LIGHT, cut, drawing, svg_text, variables

_LONGEST = 40
"""Characters of the longest title of a chart that is shown whole."""
_FILE_STYLE = ".plot { font: 12px system-ui, sans-serif; }"


def sheet(title: str, charts: Sequence[Chart]) -> str:
    """Draw charts two by two, with titles and one legend, as a picture of its own.

    Parameters
    ----------
    title : str
        For those who cannot see the picture.
    charts : sequence of Chart

    Returns
    -------
    str
        The text of an SVG file.
    """
    n_columns = min(2, len(charts))
    n_rows = math.ceil(len(charts) / n_columns)
    named = {cut(one.name, 60): sample(one) for chart in charts for one in chart.legend}
    per_row = max(1, 85 * n_columns // (2 * (8 + max(map(len, named), default=0))))
    height = n_rows * (HEIGHT + 50.0) + 20.0 * math.ceil(len(named) / per_row) + 10.0
    hints: dict[str, list[str]] = {}
    with drawing(n_columns * (WIDTH + 30.0), height) as figure:
        figure.patch.set_facecolor(LIGHT["page"])
        figure.set_layout_engine("constrained", w_pad=0.2, h_pad=0.12)
        panels = figure.subplots(n_rows, n_columns, squeeze=False).flat
        for chart, axes in zip(charts, panels, strict=False):
            hints |= draw(axes, chart)
            heading = {"fontsize": 14.0, "weight": "bold", "xycoords": "axes fraction"}
            axes.annotate(cut(chart.title, _LONGEST), (0.0, 1.13), **heading)
        for axes in list(panels):
            axes.set_visible(False)
        figure.legend(named.values(), named, loc="outside upper left", ncols=per_row)
        text = svg_text(figure, title, hints, variables() + _FILE_STYLE)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
