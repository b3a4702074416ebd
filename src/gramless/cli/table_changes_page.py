"""The page of ``gramless compare-tables``: one file of HTML."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gramless.base.columns import labels
from gramless.base.types import AnyArray, FloatArray
from gramless.cli.pages import (
    COLOURS,
    Cell,
    Chart,
    Columns,
    Grid,
    Note,
    Section,
    ShadedTable,
    chart_style,
    readable,
    render,
)
from gramless.cli.table_changes import Changes
from gramless.datasets import Table
from gramless.datasets.table import Matrix
from gramless.inspection.explanation import column_values
from gramless.unsupervised.two_sample import InputDifference

_MAX_DRAWN, _MAX_LISTED, _MAX_VALUES, _MAX_ALONE = 12, 30, 8, 20
_BINS, _ENDS = 40, (0.005, 0.995)  # bins of a histogram, between these quantiles of both tables
_MISSING = " (missing)"


@chart_style
def page(changes: Changes) -> str:
    """Return the page."""
    first, second = (path.name for path in changes.places)
    n_first, n_second = changes.result.n_rows
    verdict = "The distribution has changed" if changes.is_changed else "No change found"
    note = f"{n_first:,} rows of {first} and {n_second:,} rows of {second}, compared by"
    title = f"{first} and {second}: {verdict.lower()}"
    return render(title, verdict, note, [_answer(changes), *_columns(changes), _test(changes)])


def _answer(changes: Changes) -> Section:
    p_value = f"{changes.result.p_value:.3g}"
    if changes.is_changed:
        text = (
            "No. If they did, a difference as large as this one would be found with a probability "
            f"of about {p_value} (p-value)."
        )
    else:
        text = (
            "Nothing says that they do not. If they do, a difference as large as this one is found "
            f"with a probability of about {p_value} (p-value). Smaller changes need more rows to "
            "be seen."
        )
    parts = [text]
    for path, names in zip(changes.places, changes.alone, strict=False):
        shown = ", ".join([*names[:_MAX_ALONE], *(["..."] if len(names) > _MAX_ALONE else [])])
        if len(names) == 1:
            parts.append(f"{path.name} alone has the column {shown}. It was not compared.")
        elif names:
            parts.append(f"{path.name} alone has the columns {shown}. They were not compared.")
    heading = "Do the rows of both files follow the same distribution?"
    return Section("answer", heading, parts)


def _columns(changes: Changes) -> list[Section]:
    """Return the columns in the order of their changes, and pictures of the first."""
    ranked = sorted(changes.result.inputs, key=lambda one: (one.p_value, -one.statistic))
    changed, n_columns = changes.result.changed(changes.alpha), len(ranked)
    if changed:
        text = (
            f"{len(changed)} of {n_columns}, each by itself, with a probability of at most "
            f"{changes.alpha:.3g} that any is named by chance."
        )
    elif changes.is_changed:
        text = "No column by itself: it is how they go together that has changed."
    else:
        text = "None is certain to have changed."
    heading = "Which columns changed?"
    if not ranked:
        return [Section("columns", heading, [text])]
    listed = ranked[:_MAX_LISTED]
    columns: Columns = {
        "column": [one.name for one in listed],
        "distance": [Cell(f"{one.distance:.1%}", 0.0, one.distance) for one in listed],
        "p-value": [readable(one.p_value, 3) for one in listed],
    }
    rest, n_more = "", n_columns - len(listed)
    if n_more:
        rest = f"{n_more} more columns are less certain. "
    note = (
        f"{rest}The distance is a share of the rows: of a number, the largest difference between "
        "the shares of rows at or below a value; of a category, the share of rows that would have "
        f"to change. P-values count that {n_columns} columns were looked at."
    )
    pictures = [_picture(changes, one) for one in (changed or ranked)[:_MAX_DRAWN]]
    how = "How did they change?" if changed else "How do the columns look?"
    explained = (
        "Numbers from the 0.5th to the 99.5th percentile of both files; of categories, the values "
        "whose shares differ most."
    )
    return [
        Section("columns", heading, [text, ShadedTable.of(columns), Note(note)]),
        Section("pictures", how, [Grid(pictures), Note(explained)]),
    ]


def _test(changes: Changes) -> Section:
    kernels, n_permutations = changes.result.kernels, changes.result.n_permutations
    plural = "s" if len(kernels) > 1 else ""
    text = (
        f"By the maximum mean discrepancy of {len(kernels)} kernel{plural} of all columns, and of "
        "each column by itself. The largest, each measured by its own permutations, was compared "
        f"with the largest of {n_permutations:,} random permutations of rows between the files: "
        "where the distribution is the same, a change is found with a probability of at most "
        f"{changes.alpha:.3g}. Rows must be independent of each other: those that follow each "
        "other in time, or belong to the same person, often are not, and then changes are found "
        "too often."
    )
    columns: Columns = {
        "bandwidth, in units of the scaled columns": [
            readable(float(one.bandwidth), 3) for one in kernels
        ],
        "maximum mean discrepancy": [readable(float(one.mmd), 3) for one in kernels],
        "p-value": [readable(one.p_value, 3) for one in kernels],
    }
    return Section("test", "How it was tested", [text, ShadedTable.of(columns)], is_folded=True)


def _picture(changes: Changes, one: InputDifference) -> Chart | ShadedTable:
    """Return the distribution of one input in both tables: a chart, or a table of shares."""
    title = f"{one.name}: {one.distance:.1%} apart"
    files = [path.name for path in changes.places]
    parts = [_values(table, one) for table in changes.tables]
    # Dates in text are numbers to the test.
    are_labels = one.is_category or any(part.dtype == object for part in parts)
    if are_labels or len(np.unique(np.concatenate(parts))) <= _MAX_VALUES:
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
    values, codes = np.unique([*parts[0], *parts[1]], return_inverse=True)
    counts = np.stack(
        [np.bincount(own, minlength=len(values)) for own in np.split(codes, [len(parts[0])])]
    )
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    order = np.argsort(-np.abs(shares[1] - shares[0]), kind="stable")[:_MAX_VALUES]
    rows = [
        (
            str(values[k]) or "missing",
            [
                Cell(f"{own[k]:.1%}", 0.0, float(own[k]), colour)
                for own, colour in zip(shares, COLOURS[:2], strict=True)
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
    chart = Chart(title, name, "share of the rows", 220.0)
    for values, file, colour in zip(parts, files, COLOURS, strict=False):
        shares = np.histogram(values, edges)[0] / max(1, len(values))
        chart.axes.stairs(shares, edges, color=colour, label=file, linewidth=1.6)
    chart.axes.legend()
    return chart
