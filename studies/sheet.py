"""Charts side by side, with one legend, as a picture of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gramless.cli.charts import HEIGHT, KEY_WIDTH, WIDTH, Chart, draw, draw_sample
from gramless.cli.svg import CHARACTER, LIGHT, drawing, svg_text, variables, write

_TITLE, _GAP, _MARGIN = 22.0, 28.0, 18.0
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
    width = 2 * _MARGIN + n_columns * WIDTH + (n_columns - 1) * _GAP
    named = list({one.name: one for chart in charts for one in chart.legend}.values())
    needed = KEY_WIDTH + 26.0 + CHARACTER * max((len(one.name) for one in named), default=0)
    per_row = max(1, int((width - 2 * _MARGIN) / needed))
    top = _MARGIN + 20.0 * math.ceil(len(named) / per_row) + 12.0
    each = _TITLE + HEIGHT + _GAP
    hints: dict[str, list[str]] = {}
    with drawing(width, top + each * math.ceil(len(charts) / n_columns)) as figure:
        figure.patch.set(visible=True, facecolor=LIGHT["page"])
        for k, one in enumerate(named):
            across, down = _MARGIN + needed * (k % per_row), _MARGIN + 20.0 * (k // per_row)
            draw_sample(figure, one, across, down)
            write(figure, across + KEY_WIDTH + 6.0, down + 10.0, one.name, needed - KEY_WIDTH)
        for k, chart in enumerate(charts):
            left = _MARGIN + (WIDTH + _GAP) * (k % n_columns)
            down = top + each * (k // n_columns)
            write(figure, left, down + 14.0, chart.title, WIDTH / 1.2, size=14, weight="bold")
            hints |= draw(figure, chart, (left, down + _TITLE, WIDTH, HEIGHT))
        text = svg_text(figure, title, hints, variables() + _FILE_STYLE)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
