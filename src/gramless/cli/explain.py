"""``gramless explain``: a page that tells what a model has learned."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from gramless.base.errors import InputError
from gramless.base.files import replacing
from gramless.base.formatting import sized
from gramless.cli.options import (
    AsJson,
    Debug,
    Jobs,
    Limits,
    ModelFile,
    PartOption,
    Target,
    check_output,
)
from gramless.cli.reading import is_streamed, labels_for, load_predictor, read_for, rows_for
from gramless.cli.report import facts, number, reporting

if TYPE_CHECKING:
    from gramless.cli.explanation_page import Findings

Data = Annotated[
    Path,
    typer.Option(
        "--data",
        metavar="DATA",
        help="Rows with known labels, in any format; best ones that fit has not seen.",
        show_default=False,
    ),
]
PageOut = Annotated[
    Path, typer.Option("--output", "-o", metavar="OUT.html", help="The page.", show_default=False)
]


def explain(
    model: ModelFile,
    data: Data,
    output: PageOut,
    target: Target = None,
    part: PartOption = "auto",
    limits: Limits = "",
    n_jobs: Jobs = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a page that tells what a model has learned.

    What was chosen and why, the trials of the search, which inputs matter,
    which ones grids use together, how predictions depend on an input, and the
    error on the rows given. One HTML file with everything in it: no script,
    nothing is fetched. Labels are found as in evaluate.
    """
    with reporting(as_json, debug) as report:
        check_output("-o", output, {"the model": model, "the data": data})
        with report.stage("read", f"reading {data}"):
            predictor = load_predictor(model, n_jobs)
            _check_kind(model, predictor)
            table = read_for(predictor, data, part, limits)
            y, name = labels_for(predictor, table, target)
            X = rows_for(predictor, table, name)
        with report.stage("explain", "explaining"):
            from gramless.cli.explanation_page import findings

            found = findings(predictor, X, y, {"model": model, "data": data, "target": name})
        with report.stage("write", f"writing {output}"):
            from gramless.cli.explanation_page import page

            _write(output, page(found))
        report.result(*_result(found, output, report.seconds))


def _check_kind(path: Path, model: object) -> None:
    if is_streamed(model):
        raise InputError(
            f"{path} holds a {type(model).__name__}; explain tells of a search and of the inputs "
            "that grids use, and this model has neither. gramless inspect --picture draws its run, "
            "gramless evaluate tells its errors."
        )


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    try:
        with replacing(Path(os.path.realpath(path))) as file:
            file.write(text.encode())
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise InputError(f"-o {path} cannot be written ({reason}); name another place.") from fault


def _result(
    found: Findings, output: Path, seconds: dict[str, float]
) -> tuple[dict[str, object], Table]:
    """Return the document, and the table that people read."""
    shuffled, n_bytes = found.shuffled, output.stat().st_size
    means = shuffled.increases.mean(axis=1).tolist()
    names = [found.names[j] for j in shuffled.columns]
    document = {
        "output": output,
        "bytes": n_bytes,
        **found.places,
        **found.metrics,
        "error_name": shuffled.error_name,
        "shuffled_error": shuffled.error,
        "importance": dict(zip(names, means, strict=True)),
        "relevance": dict(zip(found.names, found.relevance.tolist(), strict=True)),
        "pairs": [[found.names[i], found.names[j], weight] for i, j, weight in found.use.pairs],
        "seconds": seconds,
    }
    top = [f"{name} (+{number(mean)})" for name, mean in zip(names, means, strict=True) if mean > 0]
    lines = {
        "rows": f"{found.metrics['rows']:,}",
        shuffled.error_name: number(found.metrics["rmse" if "rmse" in found.metrics else "error"]),
        "inputs that matter most": ", ".join(top[:5]) or None,
        "page": f"{output} ({sized(n_bytes)})",
    }
    return document, facts(lines)
