"""``gramless inspect``: show the contents of a model file, and draw its bins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import BadParameter, Option

from gramless.base.errors import InputError
from gramless.base.formatting import format_bytes
from gramless.cli import options
from gramless.cli.outputs import Output, check_outputs
from gramless.cli.report import Report, facts_table, open_report

if TYPE_CHECKING:
    from gramless.estimators.base import KernelMachine
    from gramless.features.base import FeatureMap

_NEEDED_TOGETHER = "--data and --picture must be given together: the rows, and the file to draw to."


def inspect(
    model: options.ModelFile,
    data: Annotated[
        Path | None, Option(metavar="DATA", help="Rows to draw, in any format.")
    ] = None,
    picture: Annotated[
        Path | None,
        Option(
            metavar=options.PICTURE,
            help="With --data: draw the bins of its rows and the kernel that they imply. Without: "
            "draw the training run of a model that gramless stream wrote.",
        ),
    ] = None,
    part: options.PartOption = "auto",
    force: options.Force = False,
    limits: options.Limits = "",
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Show what a model file contains, and draw the bins of rows.

    Prints the class, the parameters, the selected settings and statistics of
    the bins: nu, kappa, the predicted parallel speed-up and an estimate of the
    error by Theorem 1 of the 2016 paper. --data and --picture together draw
    about 200 rows. For a streamed model or a checkpoint it prints how the run
    went, and --picture draws it.
    """
    if data is not None and picture is None:
        raise BadParameter(_NEEDED_TOGETHER)
    with open_report(as_json, debug) as report:
        inputs = {"the model": model, "the data": data}
        check_outputs([Output("--picture", picture, "picture")], inputs, force)
        from gramless.cli.summaries import bin_lines, fitted_lines, run_lines
        from gramless.estimators.persistence import describe, load
        from gramless.estimators.streamed import StreamedMachine

        document = describe(model)
        with report.stage("load", "loading"):
            loaded = load(model)
        lines: dict[str, object] = {
            "class": document["class"],
            "written by": f"gramless {document['gramless_version']}, format {document['format']}",
            "size": format_bytes(document["bytes"]),
        }
        if isinstance(loaded, StreamedMachine):
            if data is not None:
                kind = type(loaded).__name__
                raise InputError(f"--data {data}: a {kind} has no bins; leave out --data.")
            lines |= run_lines(loaded, document)
            if picture is not None:
                from gramless.inspection.pictures import check_picture

                # Before matplotlib is imported: the error names it if it is missing.
                check_picture(picture)
                from gramless.cli.figures import draw_run

                report.draw(picture, draw_run, loaded)
                lines["picture"] = picture
        else:
            if picture is not None and data is None:
                raise BadParameter(_NEEDED_TOGETHER)
            lines |= fitted_lines(loaded) | bin_lines(loaded, document)
            if data is not None and picture is not None:
                lines["picture"] = _draw_bins(report, model, loaded, data, part, limits, picture)
        if picture is not None:
            document["picture"] = picture
        parameters = loaded.get_params(deep=False).items()
        report.print_result(
            document,
            facts_table(lines | {f"parameter {name}": value for name, value in parameters}),
        )


def _draw_bins(
    report: Report,
    path: Path,
    model: KernelMachine | FeatureMap,
    data: Path,
    part: str,
    limits: str,
    picture: Path,
) -> str:
    from gramless.cli.reading import read_for, rows_for
    from gramless.estimators.base import KernelMachine
    from gramless.inspection.explanation import sample_rows
    from gramless.inspection.pictures import ROWS, check_picture

    check_picture(picture)
    if not isinstance(model, KernelMachine):
        raise InputError(
            f"{path} holds a {type(model).__name__} without the columns of a table; --picture "
            "needs a model that gramless fit wrote."
        )
    with report.stage("read", f"reading {data}"):
        rows = model.inputs_.transform(model, rows_for(model, read_for(model, data, part, limits)))
    from gramless.cli.figures import draw_bins

    shown = rows[sample_rows(rows.shape[0], ROWS)]
    report.draw(picture, draw_bins, model, model.scaler_.rows(shown, model.n_jobs))
    return f"{picture}, {shown.shape[0]:,} of {rows.shape[0]:,} rows"
