"""Several charts with a common legend in one SVG picture."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from gramless.cli.pages import chart_style, truncate
from studies.charts import HEIGHT, WIDTH, Chart, draw, legend_line

_MAX_TITLE_LENGTH = 40  # characters; longer titles would overlap the next chart


@chart_style
def sheet(title: str, charts: Sequence[Chart]) -> str:
    """Draw charts in two columns, with titles and a common legend.

    Parameters
    ----------
    title : str
        The title in the metadata of the SVG file, for screen readers.
    charts : sequence of Chart

    Returns
    -------
    str
        The text of an SVG file.
    """
    n_columns = min(2, len(charts))
    n_rows = math.ceil(len(charts) / n_columns)
    legend = {truncate(one.name, 60): legend_line(one) for chart in charts for one in chart.legend}
    # About 42 characters fit the width of a chart; 8 are for the line and the gap of an entry.
    per_row = max(1, 85 * n_columns // (2 * (8 + max(map(len, legend), default=0))))
    height = n_rows * (HEIGHT + 50.0) + 20.0 * math.ceil(len(legend) / per_row) + 10.0
    size = (n_columns * (WIDTH + 30.0) / 72.0, height / 72.0)
    figure = Figure(figsize=size, facecolor="white")
    figure.set_layout_engine("constrained", w_pad=0.2, h_pad=0.12)
    panels = list(figure.subplots(n_rows, n_columns, squeeze=False).flat)
    for chart, axes in zip(charts, panels, strict=False):
        draw(axes, chart)
        heading = {"fontsize": 14.0, "weight": "bold", "xycoords": "axes fraction"}
        axes.annotate(truncate(chart.title, _MAX_TITLE_LENGTH), (0.0, 1.13), **heading)
    for axes in panels[len(charts) :]:
        axes.set_visible(False)
    figure.legend(legend.values(), legend, loc="outside upper left", ncols=per_row)
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Title": title, "Date": None})
    return file.getvalue()
