"""The HTML page of ``gramless anomalies``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from gramless import AnomalyDetector
from gramless.base.types import AnyArray, FloatArray
from gramless.cli.explanation_findings import value_text
from gramless.cli.pages import (
    COLOURS,
    GREY,
    Card,
    Chart,
    Columns,
    Grid,
    Note,
    Section,
    ShadedTable,
    bar_cells,
    chart_style,
    readable,
    render_page,
)
from gramless.datasets.table import Matrix, Table

_N_STRANGEST, _INPUTS_PER_ROW = 12, 6  # rows that are shown, and the inputs of each
_MAX_BARS = 12  # inputs in the table of contributions
_N_BINS, _N_LEVELS = 40, 200  # bins of the histogram of scores, points of the p-value chart


@chart_style
def render_anomalies_page(
    detector: AnomalyDetector,
    X: Matrix | Table,
    columns: Mapping[str, AnyArray],
    threshold: float,
    places: Mapping[str, Path | None],
) -> str:
    """Return the page; ``columns`` are those of the output, ``places`` the files by their role."""
    scores, outlier = columns["score"], columns["outlier"] == 1
    strangest = np.argsort(scores, kind="stable")[:_N_STRANGEST]
    # The contributions of a thousand outliers are enough to see what makes rows strange.
    explained = np.union1d(strangest, np.flatnonzero(outlier)[:1000])
    rows = X.take_rows(explained) if isinstance(X, Table) else X[explained]
    shares, encoder = detector.contributions(rows), detector.inputs_.encoder
    if encoder is not None:
        names = list(encoder.names)
    else:
        names = [f"x{j + 1}" for j in range(detector.n_features_in_)]
    n_rows, n_outliers = len(scores), int(outlier.sum())
    n_fitted, data, train = detector.bin_counts_.n_rows, places["data"], places["train"]
    charts = [_histogram(scores, threshold)]
    note = ""
    if "p_value" in columns:
        charts.append(_p_value_chart(columns["p_value"]))
        note = (
            "If all rows were like those of the fit, the share of rows with a p-value below any "
            "level would be at most that level: the dashed line. Where the line of these rows is "
            "above it, some of them are different."
        )
    cards = []
    for row, k in zip(strangest, np.searchsorted(explained, strangest), strict=True):
        summary = f"score {readable(scores[row])}"
        if "p_value" in columns:
            summary += f", p-value {readable(columns['p_value'][row], 2)}"
        if not outlier[row]:
            summary += ", not an outlier"
        cards.append(Card(f"Row {row + 1:,}", summary, _row_table(rows, k, shares[k], names)))
    title = f"Strange rows of {data.name if data else ''}"
    others = f"{n_fitted:,} rows of {train.name}" if train else "each other"
    return render_page(
        title,
        title,
        f"{n_rows:,} rows, compared with {others}, by",
        [
            Section(
                "scores",
                "How strange are they?",
                [
                    f"{n_outliers:,} of {n_rows:,} rows ({n_outliers / n_rows:.2%}) have a score "
                    f"below {readable(threshold)} and are called outliers. The score measures how "
                    "rare the bins of a row are: from -1 for a row like no other up to 0.",
                    Grid(charts),
                    Note(note),
                ],
            ),
            Section(
                "inputs",
                "What makes outliers strange?",
                _input_table(shares[outlier[explained]], names),
            ),
            Section("rows", "The strangest rows", [Grid(cards)]),
        ],
    )


def _histogram(scores: FloatArray, threshold: float) -> Chart:
    chart = Chart("Distribution of the scores", "score", "rows")
    # The few outliers would be invisible on a linear axis.
    chart.axes.hist(scores, bins=_N_BINS, color=COLOURS[0], log=True)
    chart.axes.axvline(threshold, linestyle="--", color=GREY, label="outliers are to the left")
    chart.axes.yaxis.set_major_formatter("{x:g}")
    chart.axes.legend()
    return chart


def _p_value_chart(p_values: FloatArray) -> Chart:
    chart = Chart("Cumulative distribution of the p-values", "p-value", "share of the rows")
    p = np.sort(p_values)
    # The axes are logarithmic, because small p-values matter and the levels span decades.
    levels = np.geomspace(max(p[0], 1e-4), 1.0, _N_LEVELS)
    below = np.searchsorted(p, levels, side="right") / len(p)
    chart.axes.loglog(levels, levels, "--", color=GREY, label="rows like those of the fit")
    chart.axes.loglog(levels, below, color=COLOURS[0], label="these rows")
    for axis in (chart.axes.xaxis, chart.axes.yaxis):
        axis.set_major_formatter("{x:g}")
    chart.axes.legend()
    return chart


def _input_table(shares: FloatArray, names: Sequence[str]) -> list[str | ShadedTable]:
    if not len(shares):
        return ["No row is called an outlier."]
    means = shares.mean(axis=0)
    order = [j for j in np.argsort(-means, kind="stable")[:_MAX_BARS] if means[j] > 0.0]
    counts = np.bincount(shares.argmax(axis=1), minlength=len(names))
    columns: Columns = {
        "input": [names[j] for j in order],
        "share of the score": bar_cells(means[order], [readable(means[j], 3) for j in order]),
        "strangest input of": [f"{counts[j]:,} of {len(shares):,}" for j in order],
    }
    text = (
        "If a row's bin is rarer than usual in a grid, the difference is divided among the inputs "
        "of that grid in proportion to how rare the row is along each of them alone. The shares "
        "of a row add up to the difference between its score and the mean score."
    )
    return [text, ShadedTable.of(columns)]


def _row_table(
    rows: Matrix | Table, k: int, shares: FloatArray, names: Sequence[str]
) -> ShadedTable:
    order = np.argsort(-shares, kind="stable")[:_INPUTS_PER_ROW]
    values = [rows.column(names[j])[k] if isinstance(rows, Table) else rows[k, j] for j in order]
    columns: Columns = {
        "input": [names[j] for j in order],
        "value": list(map(value_text, values)),
        "share": bar_cells(shares[order].tolist()),
    }
    return ShadedTable.of(columns)
