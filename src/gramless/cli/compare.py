"""``gramless compare``: which method suits a table, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from typer import Option

from gramless.cli import options
from gramless.cli.report import facts, listing, reporting

if TYPE_CHECKING:
    from gramless.inspection.recommendation import Recommendation


def compare(
    data: options.DataFile,
    target: options.Target = None,
    task: options.TaskOption = "auto",
    seed: Annotated[int, Option(min=0, help="Which rows are drawn; the seed of each fit.")] = 0,
    limits: options.Limits = "",
    n_jobs: options.Jobs = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Say which method suits a table, and why.

    A linear model, support vector machines, boosted trees and three fits of
    gramless learn from at most 3,000 rows, and 2,000 others judge them: some ten
    seconds. Of those whose errors cannot be told apart the quickest is taken,
    which may not be gramless.
    """
    with reporting(as_json, debug) as report:
        with report.stage("read", f"reading {data}"):
            from gramless.cli.reading import decide_task, labels_of, read_data, training_rows

            rows = training_rows(read_data(data, limits=limits), target, None, None)
            kind, reason = decide_task(rows.y, task)
        with report.stage("compare", "comparing") as show_line:
            from gramless.inspection import recommend

            found = recommend(
                rows.X,
                labels_of(rows.y, kind),
                task=kind,
                random_state=seed,
                n_jobs=n_jobs,
                report=show_line,
            )
        document = {
            "data": data,
            "task": kind,
            "rows": found.n_rows,
            "columns": found.n_features,
            "method": found.method,
            "code": found.code,
            "gramless_code": found.gramless_code,
            "reasons": found.reasons,
            "trials": [vars(one) for one in found.trials],
            "seconds": report.seconds,
        }
        report.result(document, *_tables(found, reason))


def _tables(found: Recommendation, reason: str) -> list[Table]:
    lines = {
        "take": f"{found.method}: {found.code}",
        "because": "\n".join(found.reasons),
        "task": f"{found.task} ({reason})",
        "rows": f"{found.n_rows:,} of {found.n_features:,} columns",
    }
    columns = ["method", "error", "rows", "fit s", "predict s", "all rows s"]
    rows = []
    for one in found.trials:
        seconds = (one.fit_seconds, one.predict_seconds, one.all_rows_seconds)
        rows.append((one.method, one.error, one.n_rows, *(f"{value:.2g}" for value in seconds)))
    measure = (
        "share of wrong classes"
        if found.task == "classification"
        else "RMSE over the standard deviation of the targets"
    )
    title = f"On rows held back ({measure}); seconds with all rows are extrapolated"
    return [facts(lines), listing(title, columns, rows)]
