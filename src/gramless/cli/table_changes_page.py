"""The HTML page of ``gramless compare-tables``."""

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
    render_page,
)
from gramless.cli.table_changes import TableComparison
from gramless.datasets import Table
from gramless.datasets.table import Matrix
from gramless.inspection.explanation import column_values
from gramless.unsupervised.two_sample import InputDifference

_MAX_DRAWN, _MAX_LISTED, _MAX_VALUES, _MAX_UNSHARED = 12, 30, 8, 20
_N_BINS = 40
_HISTOGRAM_QUANTILES = 0.005, 0.995  # histograms range between these quantiles of both tables
# The two-sample test adds this to the name of a column for an input that marks missing numbers.
_MISSING = " (missing)"


@chart_style
def render_changes_page(comparison: TableComparison) -> str:
    first, second = (path.name for path in comparison.paths)
    n_first, n_second = comparison.result.n_rows
    verdict = "The distribution has changed" if comparison.is_changed else "No change found"
    note = f"{n_first:,} rows of {first} and {n_second:,} rows of {second}, compared by"
    title = f"{first} and {second}: {verdict.lower()}"
    return render_page(
        title,
        verdict,
        note,
        [_answer_section(comparison), *_column_sections(comparison), _method_section(comparison)],
    )


def _answer_section(comparison: TableComparison) -> Section:
    p_value = f"{comparison.result.p_value:.3g}"
    if comparison.is_changed:
        text = (
            "No. If they did, the probability of a difference as large as this one would be about "
            f"{p_value} (p-value)."
        )
    else:
        text = (
            "There is no evidence that they do not. If they do, the probability of a difference as "
            f"large as this one is about {p_value} (p-value). Detecting smaller changes needs more "
            "rows."
        )
    parts = [text]
    for path, names in zip(comparison.paths, comparison.unshared_columns, strict=False):
        shown = ", ".join(
            [*names[:_MAX_UNSHARED], *(["..."] if len(names) > _MAX_UNSHARED else [])]
        )
        if len(names) == 1:
            parts.append(f"{path.name} alone has the column {shown}. It was not compared.")
        elif names:
            parts.append(f"{path.name} alone has the columns {shown}. They were not compared.")
    heading = "Do the rows of both files follow the same distribution?"
    return Section("answer", heading, parts)


def _column_sections(comparison: TableComparison) -> list[Section]:
    ranked = sorted(
        comparison.result.inputs, key=lambda difference: (difference.p_value, -difference.statistic)
    )
    changed, n_columns = comparison.result.changed(comparison.alpha), len(ranked)
    if changed:
        text = (
            f"{len(changed)} of {n_columns} columns, each tested by itself. The probability that "
            f"any of them is listed by chance is at most {comparison.alpha:.3g}."
        )
    elif comparison.is_changed:
        text = "No single column, but the relations between the columns have changed."
    else:
        text = "No column has changed significantly."
    heading = "Which columns changed?"
    if not ranked:
        return [Section("columns", heading, [text])]
    listed = ranked[:_MAX_LISTED]
    columns: Columns = {
        "column": [difference.name for difference in listed],
        "distance": [
            Cell(f"{difference.distance:.1%}", 0.0, difference.distance) for difference in listed
        ],
        "p-value": [readable(difference.p_value, 3) for difference in listed],
    }
    omitted, n_more = "", n_columns - len(listed)
    if n_more:
        omitted = f"{n_more} more columns are not listed. "
    note = (
        f"{omitted}The distance is a share of the rows. For numbers it is the largest difference "
        "between the shares of rows at or below a value; for categories it is the share of rows "
        "that would have to change. The p-values are corrected for testing "
        f"{n_columns} columns."
    )
    pictures = [
        _draw_difference(comparison, difference) for difference in (changed or ranked)[:_MAX_DRAWN]
    ]
    how = "How did they change?" if changed else "How do the columns look?"
    explained = (
        "Numbers are shown from the 0.5th to the 99.5th percentile of both files; categories are "
        "shown by the values whose shares differ most."
    )
    return [
        Section("columns", heading, [text, ShadedTable.of(columns), Note(note)]),
        Section("pictures", how, [Grid(pictures), Note(explained)]),
    ]


def _method_section(comparison: TableComparison) -> Section:
    kernels, n_permutations = comparison.result.kernels, comparison.result.n_permutations
    plural = "s" if len(kernels) > 1 else ""
    text = (
        "The test uses the maximum mean discrepancy (MMD) with "
        f"{len(kernels)} kernel{plural} of all columns, and with a kernel of each column. Each MMD "
        "is scaled by its distribution under permutations, and the largest is compared with the "
        f"largest of {n_permutations:,} random permutations of rows between the files. If the "
        "distribution is the same, the probability of finding a change is at most "
        f"{comparison.alpha:.3g}. Rows must be independent of each other. Rows that follow each "
        "other in time or belong to the same person often are not, and then changes are found too "
        "often."
    )
    columns: Columns = {
        "bandwidth, in units of the scaled columns": [
            readable(float(kernel.bandwidth), 3) for kernel in kernels
        ],
        "maximum mean discrepancy": [readable(float(kernel.mmd), 3) for kernel in kernels],
        "p-value": [readable(kernel.p_value, 3) for kernel in kernels],
    }
    return Section("test", "How it was tested", [text, ShadedTable.of(columns)], is_folded=True)


def _draw_difference(
    comparison: TableComparison, difference: InputDifference
) -> Chart | ShadedTable:
    title = f"{difference.name}: {difference.distance:.1%} apart"
    files = [path.name for path in comparison.paths]
    parts = [_input_values(table, difference) for table in comparison.tables]
    # The test treats dates in text as numbers.
    has_labels = difference.is_category or any(part.dtype == object for part in parts)
    if has_labels or len(np.unique(np.concatenate(parts))) <= _MAX_VALUES:
        return _share_table(title, files, [[*labels(part.tolist())] for part in parts])
    return _histogram_chart(title, difference.name, files, parts)


def _input_values(table: Table | Matrix, difference: InputDifference) -> AnyArray:
    """Return the values of an input: numbers that are not missing, or labels."""
    names = list(table.names or ()) if isinstance(table, Table) else []
    is_marker = difference.name not in names and difference.name.endswith(_MISSING)
    column = difference.name.removesuffix(_MISSING) if is_marker else difference.name
    index = names.index(column) if names else int(column.removeprefix("x")) - 1
    values, is_category = column_values(table, index)
    if is_category:
        return values
    if is_marker:
        return np.where(np.isnan(values), "missing", "present").astype(object)
    return values[~np.isnan(values)]


def _share_table(title: str, files: Sequence[str], parts: Sequence[Sequence[str]]) -> ShadedTable:
    values, codes = np.unique([*parts[0], *parts[1]], return_inverse=True)
    counts = np.stack(
        [np.bincount(part, minlength=len(values)) for part in np.split(codes, [len(parts[0])])]
    )
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    order = np.argsort(-np.abs(shares[1] - shares[0]), kind="stable")[:_MAX_VALUES]
    rows = [
        (
            str(values[k]) or "missing",
            [
                Cell(f"{share:.1%}", 0.0, float(share), colour)
                for share, colour in zip(shares[:, k], COLOURS[:2], strict=True)
            ],
        )
        for k in order
    ]
    return ShadedTable(title, ["value", *files], rows)


def _histogram_chart(
    title: str, name: str, files: Sequence[str], parts: Sequence[FloatArray]
) -> Chart:
    low, high = np.quantile(np.concatenate(parts), _HISTOGRAM_QUANTILES)
    if not low < high:
        low, high = (edge(np.concatenate(parts)) for edge in (np.min, np.max))
    edges = np.linspace(low, high, _N_BINS + 1)
    chart = Chart(title, name, "share of the rows", height=220.0)
    for values, file, colour in zip(parts, files, COLOURS, strict=False):
        shares = np.histogram(values, edges)[0] / max(1, len(values))
        chart.axes.stairs(shares, edges, color=colour, label=file, linewidth=1.6)
    chart.axes.legend()
    return chart
