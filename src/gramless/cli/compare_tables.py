"""``gramless compare-tables``: whether the rows of two files follow the same distribution."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from typer import Argument, BadParameter, Option

from gramless.cli import options
from gramless.cli.outputs import Output, check_outputs
from gramless.cli.report import facts, listing, reporting

if TYPE_CHECKING:
    from gramless.cli.table_changes import Changes

CHANGED = 3
"""The exit code where the distribution has changed."""
_SHOWN = 20


def compare_tables(
    before: Annotated[
        Path, Argument(metavar="BEFORE", help="A table, in any format that fit reads.")
    ],
    after: Annotated[Path, Argument(metavar="AFTER", help="A table with the same columns.")],
    output: Annotated[
        Path | None,
        Option("--output", "-o", "--page", metavar="OUT.html", help="A page with pictures."),
    ] = None,
    ignore: options.Ignore = None,
    categorical: options.Categorical = None,
    alpha: Annotated[
        float, Option(min=0.0, max=1.0, help="Probability of a false alarm, at most.")
    ] = 0.05,
    permutations: Annotated[
        int, Option(min=19, help="The smallest p-value is 1 / (1 + PERMUTATIONS).")
    ] = 999,
    seed: Annotated[int, Option(min=0, help="Seed of permutations and features.")] = 0,
    force: options.Force = False,
    limits: options.Limits = "",
    n_jobs: options.Jobs = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Say whether the rows of two files follow the same distribution, and what has changed.

    A kernel test of all columns that both files have finds whether anything has changed,
    and a test of each column which columns have. Rows must be independent of each other.
    Intervals, sets and probabilities of a model hold for rows that follow the
    distribution of its fit: compare new rows with those before you trust them.

    The exit code is 0 if no change is found, 3 if the distribution has changed.
    """
    left_out = options.names(ignore, "--ignore")
    named = options.names(categorical, "--categorical")
    if not 0.0 < alpha < 1.0:
        raise BadParameter(f"--alpha must be above 0 and below 1, got {alpha}.")
    with reporting(as_json, debug) as report:
        inputs = {"the first table": before, "the second table": after}
        check_outputs([Output("-o", output, "page")], inputs, force)
        with report.stage("read", f"reading {before} and {after}"):
            from gramless.cli.reading import read_data

            tables = [read_data(path, limits=limits) for path in (before, after)]
        with report.stage("compare", "comparing"):
            from gramless.cli.table_changes import changes

            found = changes(
                (before, after), tables, left_out, named, alpha, permutations, seed, n_jobs
            )
        if output is not None:
            from gramless.cli.table_changes_page import page

            report.write_page(output, "-o", page, found)
        rest = {"output": output, "seconds": report.seconds}
        report.result(found.as_dict() | rest, *_shown(found, output))
    if found.is_changed:
        raise typer.Exit(CHANGED)


def _shown(found: Changes, output: Path | None) -> list[Table]:
    result, names = found.result, [path.name for path in found.places]
    lines = {
        "rows": " and ".join(f"{n:,}" for n in result.n_rows),
        "the distribution": found.verdict,
        **{
            f"columns of {name} alone": own or None
            for name, own in zip(names, found.alone, strict=True)
        },
        "page": output,
    }
    changed = result.changed(found.alpha)
    tables = [facts(lines)]
    if changed:
        rows = [
            (
                one.name,
                one.p_value,
                f"{one.distance:.1%}",
                "category" if one.is_category else "number",
            )
            for one in changed[:_SHOWN]
        ]
        title = f"Columns that changed: {len(changed)} of {len(result.inputs)}"
        tables.append(listing(title, ["column", "p-value", "distance", "kind"], rows))
    return tables
