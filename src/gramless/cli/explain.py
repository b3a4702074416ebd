"""``gramless explain``: a page that tells what a model has learned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from gramless.base.errors import InputError
from gramless.base.formatting import sized
from gramless.cli import options
from gramless.cli.outputs import Output, check_outputs
from gramless.cli.report import Report, facts, number, reporting

if TYPE_CHECKING:
    from gramless.cli.explanation_findings import Findings


def explain(
    model: options.ModelFile,
    data: Annotated[
        Path,
        Option(metavar="DATA", help="Rows with known labels; best ones that fit has not seen."),
    ],
    output: Annotated[
        Path, Option("--output", "-o", "--page", metavar="OUT.html", help="The page.")
    ],
    target: options.KnownTarget = None,
    force: options.Force = False,
    part: options.PartOption = "auto",
    limits: options.Limits = "",
    n_jobs: options.Jobs = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Write a page that tells what a model has learned.

    How good the predictions of the rows given are, beside simple ones; which
    inputs drive them, and how; groups of rows for which they fail; some rows
    one by one; how the model was chosen. One HTML file with everything in it:
    no script, nothing is fetched. Labels are found as in evaluate.
    """
    with reporting(as_json, debug) as report:
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
                    "to explain; gramless inspect --picture draws its run, gramless evaluate tells "
                    "its errors."
                )
            if isinstance(predictor, KernelSurvival):
                raise InputError(
                    f"{model} holds a KernelSurvival; explain takes regressors and classifiers."
                )
            X, y, name = labelled_rows(predictor, data, target, part, limits)
        with report.stage("explain", "explaining"):
            from gramless.cli.explanation_findings import findings
            from gramless.cli.explanation_page import page

            found = findings(predictor, X, y, {"model": model, "data": data, "target": name})
        report.write_page(output, "-o", page, found)
        _show(report, found, output)


def _show(report: Report, found: Findings, output: Path) -> None:
    shuffled, metrics, n_bytes = found.shuffled, found.metrics, output.stat().st_size
    names = [found.names[j] for j in shuffled.columns]
    importance = dict(zip(names, shuffled.increases.mean(axis=1).tolist(), strict=True))
    document = {
        "output": output,
        "bytes": n_bytes,
        **found.places,
        **metrics,
        "error_name": found.measure.name,
        "scores": found.scores,
        "shuffled_error": shuffled.error,
        "importance": importance,
        "relevance": dict(zip(found.names, found.relevance.tolist(), strict=True)),
        "worst_groups": [
            {"group": one.words, "rows": len(one.rows), "loss": one.loss, "ratio": one.ratio}
            for one in found.groups
        ],
        "pairs": [[found.names[i], found.names[j], weight] for i, j, weight in found.use.pairs],
        "seconds": report.seconds,
    }
    top = [f"{name} (+{number(mean)})" for name, mean in importance.items() if mean > 0]
    lines = {
        "rows": metrics["rows"],
        found.measure.name: found.scores["this model"][found.measure.name],
        "inputs that matter most": ", ".join(top[:5]) or None,
        "page": f"{output} ({sized(n_bytes)})",
    }
    report.result(document, facts(lines))
