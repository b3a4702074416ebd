"""``gramless explain``: write a page that shows what a model has learned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from gramless.base.errors import InputError
from gramless.base.formatting import format_bytes
from gramless.cli import options
from gramless.cli.outputs import Output, check_outputs
from gramless.cli.report import Report, facts_table, open_report, short_number

if TYPE_CHECKING:
    from gramless.cli.explanation_findings import Findings


def explain(
    model: options.ModelFile,
    data: Annotated[
        Path,
        Option(metavar="DATA", help="Rows with known labels, ideally not used in the fit."),
    ],
    output: Annotated[
        Path,
        Option("--output", "-o", "--page", metavar="OUT.html", help="Where to write the page."),
    ],
    target: options.KnownTarget = None,
    force: options.Force = False,
    part: options.PartOption = "auto",
    limits: options.Limits = "",
    n_jobs: options.Jobs = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Write a page that shows what a model has learned.

    The page shows the error on the given rows, compared with simple models;
    which inputs matter, and how predictions depend on them; groups of rows with
    larger errors; some single rows; and how the model was selected. It is one
    HTML file without scripts or links to other files. The labels are read as by
    gramless evaluate.
    """
    with open_report(as_json, debug) as report:
        inputs = {"the model": model, "the data": data}
        check_outputs([Output("-o", output, "page")], inputs, force)
        with report.stage("read", f"reading {data}"):
            from gramless.cli.reading import labelled_rows, load_predictor
            from gramless.estimators.streamed import StreamedMachine
            from gramless.estimators.survival import KernelSurvival

            predictor = load_predictor(model, n_jobs)
            if isinstance(predictor, StreamedMachine):
                raise InputError(
                    f"{model} holds a {type(predictor).__name__}, which has no search and no grids "
                    "to explain; gramless inspect --picture draws its run, gramless evaluate "
                    "prints its errors."
                )
            if isinstance(predictor, KernelSurvival):
                raise InputError(
                    f"{model} holds a KernelSurvival; explain takes regressors and classifiers."
                )
            X, y, name = labelled_rows(predictor, data, target, part, limits)
        with report.stage("explain", "explaining"):
            from gramless.cli.explanation_findings import explain_model
            from gramless.cli.explanation_page import render_explanation_page

            results = explain_model(predictor, X, y, {"model": model, "data": data, "target": name})
        report.write_page(output, "-o", render_explanation_page, results)
        _show(report, results, output)


def _show(report: Report, results: Findings, output: Path) -> None:
    shuffled, metrics, n_bytes = results.shuffled, results.metrics, output.stat().st_size
    names = [results.names[j] for j in shuffled.columns]
    importance = dict(zip(names, shuffled.increases.mean(axis=1).tolist(), strict=True))
    document = {
        "output": output,
        "bytes": n_bytes,
        **results.places,
        **metrics,
        "error_name": results.measure.name,
        "scores": results.scores,
        "shuffled_error": shuffled.error,
        "importance": importance,
        "relevance": dict(zip(results.names, results.relevance.tolist(), strict=True)),
        "worst_groups": [
            {
                "group": group.words,
                "rows": len(group.rows),
                "loss": group.loss,
                "ratio": group.ratio,
            }
            for group in results.groups
        ],
        "pairs": [
            [results.names[i], results.names[j], weight] for i, j, weight in results.use.pairs
        ],
        "seconds": report.seconds,
    }
    top = [f"{name} (+{short_number(mean)})" for name, mean in importance.items() if mean > 0]
    lines = {
        "rows": metrics["rows"],
        results.measure.name: results.scores["this model"][results.measure.name],
        "inputs that matter most": ", ".join(top[:5]) or None,
        "page": f"{output} ({format_bytes(n_bytes)})",
    }
    report.print_result(document, facts_table(lines))
