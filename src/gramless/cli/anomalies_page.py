"""The page of ``gramless anomalies``: one file of HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from gramless import AnomalyDetector
from gramless.base.types import AnyArray, FloatArray
from gramless.cli.charts import Chart, Columns, Series, ShadedTable, bar_cells, readable
from gramless.cli.explanation_findings import value_text
from gramless.cli.svg import COLOURS, LIGHT
from gramless.cli.templating import render
from gramless.datasets.table import Matrix, Table
from gramless.preprocessing.rows import Rows

_STRANGEST, _INPUTS_OF_ROW, _MOST_BARS = 12, 6, 12
_BARS, _LEVELS = 40, 200
_LINE = {"color": COLOURS[0], "linewidth": 1.8}
_DASHES = {"color": LIGHT["base"], "dashes": (4.0, 3.0)}


def page_of(
    detector: AnomalyDetector,
    X: Matrix | Table,
    columns: Mapping[str, AnyArray],
    threshold: float,
    places: Mapping[str, Path | None],
) -> str:
    """Return the page."""
    scores, outlier = columns["score"], columns["outlier"]
    strangest = np.argsort(scores, kind="stable")[:_STRANGEST]
    # Rows beyond the outliers tell nothing of what makes rows strange.
    asked = np.union1d(strangest, np.flatnonzero(outlier)[:1000])
    rows = X.take_rows(asked) if isinstance(X, Table) else X[asked]
    shares = detector.contributions(rows)
    names = _names(detector)
    at = {row: k for k, row in enumerate(asked.tolist())}
    return render(
        "anomalies.html",
        places=places,
        n_rows=len(scores),
        n_outliers=int(outlier.sum()),
        n_fitted=detector.bin_counts_.n_rows,
        threshold=readable(threshold),
        charts=[_histogram(scores, threshold), *_p_value_charts(columns)],
        inputs=_most_often(shares[outlier[asked] == 1], names),
        cards=[
            (row, _told(columns, row), _row_table(rows, at[row], shares[at[row]], names))
            for row in strangest.tolist()
        ],
    )


def _names(detector: AnomalyDetector) -> list[str]:
    encoder = detector.inputs_.encoder
    if encoder is not None:
        return list(encoder.names)
    return [f"x{j + 1}" for j in range(detector.n_features_in_)]


def _histogram(scores: FloatArray, threshold: float) -> Chart:
    """Chart how many rows have a score, on a logarithmic axis: the strange ones are few."""
    counts, edges = np.histogram(scores, bins=_BARS)
    x = np.repeat(edges, 2)[1:-1]
    # A logarithmic axis has no place for counts of 0: the line breaks there.
    y = np.repeat(counts, 2)
    return Chart(
        "How many rows have a score",
        "score",
        "rows",
        [
            Series(x.tolist(), y.tolist(), _LINE, "rows"),
            Series(
                [threshold, threshold], [1.0, float(counts.max())], _DASHES, "outliers are left"
            ),
        ],
        y_log=True,
    )


def _p_value_charts(columns: Mapping[str, AnyArray]) -> list[Chart]:
    """Chart the share of the rows by p-value, if there are any."""
    if "p_value" not in columns:
        return []
    p = np.sort(columns["p_value"])
    levels = np.geomspace(max(p[0], 1e-4), 1.0, _LEVELS)
    below = np.searchsorted(p, levels, side="right") / len(p)
    return [
        Chart(
            "Rows with a p-value of at most so much",
            "p-value",
            "share of the rows",
            [
                Series(levels.tolist(), levels.tolist(), _DASHES, "rows like those of the fit"),
                Series(levels.tolist(), below.tolist(), _LINE, "these rows"),
            ],
            x_log=True,
            y_log=True,
        )
    ]


def _most_often(shares: FloatArray, names: Sequence[str]) -> ShadedTable | None:
    """Return the inputs that make outliers strange, and by how much on average."""
    if not len(shares):
        return None
    means = shares.mean(axis=0)
    order = [j for j in np.argsort(-means, kind="stable")[:_MOST_BARS] if means[j] > 0.0]
    first = np.bincount(shares.argmax(axis=1), minlength=len(names))
    columns: Columns = {
        "input": [names[j] for j in order],
        "share of the score": bar_cells(means[order], [readable(means[j], 3) for j in order]),
        "strangest input of": [f"{first[j]:,} of {len(shares):,}" for j in order],
    }
    return ShadedTable.of(columns)


def _told(columns: Mapping[str, AnyArray], row: int) -> str:
    """Say how strange a row is."""
    told = f"score {readable(columns['score'][row])}"
    if "p_value" in columns:
        told += f", p-value {readable(columns['p_value'][row], 2)}"
    return told + ("" if columns["outlier"][row] else ", no outlier")


def _row_table(rows: Rows | Table, k: int, shares: FloatArray, names: Sequence[str]) -> ShadedTable:
    """Return what the inputs that make a row strange hold."""
    order = np.argsort(-shares, kind="stable")[:_INPUTS_OF_ROW]
    held = [rows.column(names[j])[k] if isinstance(rows, Table) else rows[k, j] for j in order]
    columns: Columns = {
        "input": [names[j] for j in order],
        "value": [value_text(own) for own in held],
        "share": bar_cells(shares[order].tolist()),
    }
    return ShadedTable.of(columns)
