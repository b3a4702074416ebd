"""The page of ``gramless compare-tables``: one file of HTML."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gramless.base.columns import labels
from gramless.base.types import AnyArray, FloatArray
from gramless.cli.charts import Cell, Chart, Columns, Series, ShadedTable, readable
from gramless.cli.svg import COLOURS
from gramless.cli.table_changes import Changes
from gramless.cli.templating import render
from gramless.datasets import Table
from gramless.datasets.table import Matrix
from gramless.inspection.explanation import column_values
from gramless.unsupervised.two_sample import InputDifference

_MOST_DRAWN, _MOST_LISTED, _MOST_VALUES = 12, 30, 8
_BINS, _ENDS = 40, (0.005, 0.995)
"""Bins of a histogram, between these quantiles of both tables."""
_MISSING = " (missing)"


def page(found: Changes) -> str:
    """Return the page."""
    ranked = sorted(found.result.inputs, key=lambda one: (one.p_value, -one.statistic))
    changed = found.result.changed(found.alpha)
    listed = ranked[:_MOST_LISTED]
    columns: Columns = {
        "column": [one.name for one in listed],
        "distance": [Cell(f"{one.distance:.1%}", 0.0, one.distance) for one in listed],
        "p-value": [readable(one.p_value, 3) for one in listed],
    }
    return render(
        "compare_tables.html",
        found=found,
        names=[path.name for path in found.places],
        changed=changed,
        columns=ShadedTable.of(columns),
        n_columns=len(ranked),
        kernels=[
            tuple(readable(float(value), 3) for value in (one.bandwidth, one.mmd, one.p_value))
            for one in found.result.kernels
        ],
        pictures=[_picture(found, one) for one in (changed or ranked)[:_MOST_DRAWN]],
    )


def _picture(found: Changes, one: InputDifference) -> Chart | ShadedTable:
    """Return the distribution of one input in both tables: a chart, or a table of shares."""
    title = f"{one.name}: {one.distance:.1%} apart"
    files = [path.name for path in found.places]
    parts = [_values(table, one) for table in found.tables]
    # Dates in text are numbers to the test.
    are_labels = one.is_category or any(part.dtype == object for part in parts)
    if are_labels or len(np.unique(np.concatenate(parts))) <= _MOST_VALUES:
        return _shares(title, files, [[*labels(part.tolist())] for part in parts])
    return _histograms(title, one.name, files, parts)


def _values(table: Table | Matrix, one: InputDifference) -> AnyArray:
    """Return the values of an input: numbers without gaps, or labels."""
    names = list(table.names or ()) if isinstance(table, Table) else []
    is_marker = one.name not in names and one.name.endswith(_MISSING)
    own = one.name.removesuffix(_MISSING) if is_marker else one.name
    place = names.index(own) if names else int(own.removeprefix("x")) - 1
    values, is_category = column_values(table, place)
    if is_category:
        return values
    if is_marker:
        return np.where(np.isnan(values), "missing", "present").astype(object)
    return values[~np.isnan(values)]


def _shares(title: str, files: Sequence[str], parts: Sequence[Sequence[str]]) -> ShadedTable:
    """Return a table of the values whose shares differ most."""
    values, codes = np.unique([*parts[0], *parts[1]], return_inverse=True)
    counts = np.stack(
        [np.bincount(own, minlength=len(values)) for own in np.split(codes, [len(parts[0])])]
    )
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    order = np.argsort(-np.abs(shares[1] - shares[0]), kind="stable")[:_MOST_VALUES]
    rows = [
        (
            str(values[k]) or "missing",
            [
                Cell(f"{own[k]:.1%}", 0.0, float(own[k]), colour)
                for own, colour in zip(shares, ("c0", "c1"), strict=True)
            ],
        )
        for k in order
    ]
    return ShadedTable(title, ["value", *files], rows)


def _histograms(title: str, name: str, files: Sequence[str], parts: Sequence[FloatArray]) -> Chart:
    low, high = np.quantile(np.concatenate(parts), _ENDS)
    if not low < high:
        low, high = (edge(np.concatenate(parts)) for edge in (np.min, np.max))
    edges = np.linspace(low, high, _BINS + 1)
    middles = ((edges[1:] + edges[:-1]) / 2.0).tolist()
    look = {"linewidth": 1.8, "drawstyle": "steps-mid"}
    series = [
        Series(
            middles,
            (np.histogram(own, edges)[0] / max(1, len(own))).tolist(),
            look | {"color": colour},
            file,
        )
        for own, file, colour in zip(parts, files, COLOURS, strict=False)
    ]
    return Chart(title, name, "share of the rows", series, y_held=(0.0,))
