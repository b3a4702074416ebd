"""``gramless anomalies``: score how unusual the rows of a table are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter, Option

import gramless
from gramless.base.errors import InputError
from gramless.base.formatting import format_bytes
from gramless.cli import options
from gramless.cli.outputs import Output, check_outputs
from gramless.cli.report import open_report

if TYPE_CHECKING:
    from gramless import AnomalyDetector
    from gramless.base.types import AnyArray
    from gramless.datasets import Table
    from gramless.datasets.table import Matrix

Page = Annotated[
    Path | None,
    Option(metavar="OUT.html", help="Also write a page with the scores and the strangest rows."),
]
Train = Annotated[
    Path | None,
    Option(
        "--train",
        metavar="TABLE",
        help="Normal rows to compare DATA with. By default the rows of DATA are compared with "
        "each other.",
    ),
]
Model = Annotated[
    Path | None,
    Option("--model", "-m", metavar="MODEL", help="A detector written by an earlier --save."),
]
Save = Annotated[Path | None, Option("--save", metavar="MODEL", help="Save the detector here.")]
Contamination = Annotated[
    str,
    Option(
        metavar="auto|SHARE",
        help="Share of rows to call outliers: of the rows of DATA, or, with --train or --model, of "
        "new rows that are like those of the fit.",
    ),
]


def anomalies(
    data: options.DataFile,
    output: options.Output = None,
    page: Page = None,
    train: Train = None,
    model: Model = None,
    save: Save = None,
    ignore: options.Ignore = None,
    ids: options.Ids = None,
    contamination: Contamination = "auto",
    seed: Annotated[int, Option(min=0, help="Seed of the random grids.")] = 0,
    force: options.Force = False,
    limits: options.Limits = "",
    n_jobs: options.Jobs = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Score how strange each row of a table is, and write the scores as CSV.

    Columns: the score (lower is stranger), 1 for an outlier, and with --train
    or --model a p-value: of new rows that are like those of the fit, at most a
    share of ALPHA has a p-value of at most ALPHA.
    """
    kept = options.split_names(ids, "--id")
    left_out = [*options.split_names(ignore, "--ignore"), *kept]
    share = options.parse_auto_or_number(contamination, "--contamination")
    if train is not None and model is not None:
        raise BadParameter("--train fits a detector and --model brings one; give one of them.")
    with open_report(as_json, debug) as report:
        outputs = [Output("-o", output, "table"), Output("--page", page, "page")]
        outputs.append(Output("--save", save, "model"))
        inputs = {"the data itself": data, "the table of --train": train, "the model": model}
        check_outputs(outputs, inputs, force)
        with report.stage("read", f"reading {data}"):
            from gramless.cli.reading import read_data, unlabelled_rows, with_ids

            table = read_data(data, categorical=kept, part="auto", limits=limits)
            for name in left_out:
                table.index_of(name)
            source = table if train is None else read_data(train, limits=limits)
        with report.stage("fit", "counting rows"):
            if model is None:
                parameters: dict[str, Any] = {"contamination": share, "random_state": seed}
                detector = gramless.AnomalyDetector(**parameters, n_jobs=n_jobs)
                detector.fit(unlabelled_rows(source, None, left_out)[0])
            else:
                loaded = gramless.load(model)
                if not isinstance(loaded, gramless.AnomalyDetector):
                    kind = type(loaded).__name__
                    raise InputError(f"{model} holds a {kind}, not an AnomalyDetector.")
                detector = loaded
                if n_jobs is not None:
                    detector.n_jobs = detector.bin_counts_.bins.n_jobs = n_jobs
            if save is not None:
                gramless.save(detector, save)
        with report.stage("score", "scoring"):
            X = _select_inputs(detector, table, left_out)
            is_new = train is not None or model is not None
            threshold = detector.offset_ if is_new else detector.training_offset_
            scores = detector.score_samples(X)
            is_outlier = scores < threshold
            columns: dict[str, AnyArray] = {"score": scores, "outlier": is_outlier.astype(int)}
            if is_new:
                columns["p_value"] = detector.p_values(X)
        counts = {"rows": len(scores), "outliers": int(is_outlier.sum())}
        lines: dict[str, object] = {**counts}
        if page is not None:
            from gramless.cli.anomalies_page import render_anomalies_page

            places = {"data": data, "train": train or model}
            report.write_page(
                page, "--page", render_anomalies_page, detector, X, columns, threshold, places
            )
            lines["page"] = f"{page} ({format_bytes(page.stat().st_size)})"
        columns = with_ids(table, kept, columns)
        document = {**counts, "page": page, "output": output, "seconds": report.seconds}
        report.write_rows(columns, output, document, lines, has_summary=page is not None)


def _select_inputs(
    detector: AnomalyDetector, table: Table, ignored: Sequence[str]
) -> Matrix | Table:
    from gramless.cli.reading import check_names, inputs_of, unlabelled_rows

    if detector.inputs_.encoder is None:
        return unlabelled_rows(table, None, ignored)[0]
    names = detector.inputs_.encoder.names
    check_names(table, names, "detector")
    return inputs_of(table, names)
