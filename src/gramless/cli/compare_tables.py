"""``gramless compare-tables``: test whether two files follow the same distribution."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from typer import Argument, BadParameter, Option

from gramless.cli import options
from gramless.cli.outputs import Output, check_outputs
from gramless.cli.report import facts_table, open_report, titled_table

if TYPE_CHECKING:
    from gramless.cli.table_changes import TableComparison

CHANGED = 3  # exit code if the distribution has changed
_MAX_COLUMNS = 20  # maximum number of changed columns to list


def compare_tables(
    before: Annotated[
        Path, Argument(metavar="BEFORE", help="A table, in any format that fit reads.")
    ],
    after: Annotated[Path, Argument(metavar="AFTER", help="A table with the same columns.")],
    output: Annotated[
        Path | None,
        Option("--output", "-o", "--page", metavar="OUT.html", help="Write a page with charts."),
    ] = None,
    ignore: options.Ignore = None,
    categorical: options.Categorical = None,
    alpha: Annotated[
        float, Option(min=0.0, max=1.0, help="Largest probability of a false alarm.")
    ] = 0.05,
    permutations: Annotated[
        int,
        Option(
            min=19,
            help="Number of permutations; the smallest p-value is 1 / (1 + PERMUTATIONS).",
        ),
    ] = 999,
    seed: Annotated[int, Option(min=0, help="Seed of the permutations and features.")] = 0,
    force: options.Force = False,
    limits: options.Limits = "",
    n_jobs: options.Jobs = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Test whether the rows of two files follow the same distribution, and show what changed.

    A kernel test of all common columns shows whether anything has changed, and a test
    of each column shows which columns have. Rows must be independent of each other.
    Intervals, sets and probabilities of a model are valid for rows that follow the
    distribution of its training rows: compare new rows with those before you trust them.

    The exit code is 0 if no change is found, 3 if the distribution has changed.
    """
    left_out = options.split_names(ignore, "--ignore")
    named = options.split_names(categorical, "--categorical")
    if not 0.0 < alpha < 1.0:
        raise BadParameter(f"--alpha must be above 0 and below 1, got {alpha}.")
    with open_report(as_json, debug) as report:
        inputs = {"the first table": before, "the second table": after}
        check_outputs([Output("-o", output, "page")], inputs, force)
        with report.stage("read", f"reading {before} and {after}"):
            from gramless.cli.reading import read_data

            tables = [read_data(path, limits=limits) for path in (before, after)]
        with report.stage("compare", "comparing"):
            from gramless.cli.table_changes import compare_common_columns

            result = compare_common_columns(
                (before, after), tables, left_out, named, alpha, permutations, seed, n_jobs
            )
        if output is not None:
            from gramless.cli.table_changes_page import render_changes_page

            report.write_page(output, "-o", render_changes_page, result)
        rest = {"output": output, "seconds": report.seconds}
        report.print_result(result.as_dict() | rest, *_summary_tables(result, output))
    if result.is_changed:
        raise typer.Exit(CHANGED)


def _summary_tables(comparison: TableComparison, output: Path | None) -> list[Table]:
    result, names = comparison.result, [path.name for path in comparison.paths]
    lines = {
        "rows": " and ".join(f"{n:,}" for n in result.n_rows),
        "the distribution": comparison.verdict,
        **{
            f"columns of {name} alone": columns or None
            for name, columns in zip(names, comparison.unshared_columns, strict=True)
        },
        "page": output,
    }
    changed = result.changed(comparison.alpha)
    tables = [facts_table(lines)]
    if changed:
        rows = [
            (
                column.name,
                column.p_value,
                f"{column.distance:.1%}",
                "category" if column.is_category else "number",
            )
            for column in changed[:_MAX_COLUMNS]
        ]
        title = f"Columns that changed: {len(changed)} of {len(result.inputs)}"
        tables.append(titled_table(title, ["column", "p-value", "distance", "kind"], rows))
    return tables
