"""``gramless inspect``: what a model file holds, and what its bins look like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import BadParameter, Option

from gramless.base.errors import InputError
from gramless.base.formatting import sized
from gramless.cli import options
from gramless.cli.report import Report, facts, number, reporting
from gramless.cli.summaries import choices_of, run_in_words, run_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gramless.base.types import AnyArray, FloatArray
    from gramless.estimators.base import KernelMachine
    from gramless.estimators.streamed import StreamedMachine
    from gramless.features.base import FeatureMap
    from gramless.preprocessing.rows import Rows

THREADS = (2, 8, 64)
"""Numbers of threads whose speed-up is shown."""
_TOGETHER = "--data and --picture need each other: rows, and where to draw."


def inspect(
    model: options.ModelFile,
    data: Annotated[
        Path | None, Option(metavar="DATA", help="Rows to draw, in any format.")
    ] = None,
    picture: Annotated[
        Path | None,
        Option(
            metavar=options.PICTURE,
            help="Draw the bins of --data and the kernel that they imply; or, without --data, the "
            "run of a model that gramless stream wrote.",
        ),
    ] = None,
    part: options.PartOption = "auto",
    limits: options.Limits = "",
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Tell what a model file holds, and draw the bins that rows fall into.

    The class, the parameters, what was chosen, and what the bins say about
    learning: nu, kappa, the law of parallel speed-up and an estimate of the
    error by Theorem 1 of the 2016 paper. --data and --picture together draw
    some 200 rows. Of a streamed model, or a checkpoint: how its run went, which
    --picture draws.
    """
    if data is not None and picture is None:
        raise BadParameter(_TOGETHER)
    with reporting(as_json, debug) as report:
        from gramless.estimators.persistence import describe, load
        from gramless.estimators.streamed import StreamedMachine

        document = describe(model)
        with report.stage("load", "loading"):
            loaded = load(model)
        lines: dict[str, object] = {
            "class": document["class"],
            "written by": f"gramless {document['gramless_version']}, format {document['format']}",
            "size": sized(document["bytes"]),
        }
        if isinstance(loaded, StreamedMachine):
            lines |= _run_lines(report, loaded, document, data, picture)
        else:
            if picture is not None and data is None:
                raise BadParameter(_TOGETHER)
            lines |= _fitted(loaded) | _bin_lines(loaded, document)
            if data is not None and picture is not None:
                lines["picture"] = _draw_bins(report, model, loaded, data, part, limits, picture)
                document["picture"] = picture
        parameters = loaded.get_params(deep=False).items()
        report.result(document, facts(lines | {f"parameter {name}": it for name, it in parameters}))


def _run_lines(
    report: Report,
    model: StreamedMachine,
    document: dict[str, object],
    data: Path | None,
    picture: Path | None,
) -> dict[str, object]:
    """Return lines about the run of a streamed model, draw it if asked to, and document both."""
    if data is not None:
        raise InputError(f"--data {data}: a {type(model).__name__} has no bins; leave it out.")
    from gramless.cli.reading import input_names

    document["run"] = run_of(model)
    lines = run_in_words(model) | {"names": input_names(model) or None, "classes": _classes(model)}
    if "run_" in vars(model):
        lines["checkpoint"] = "gramless stream --checkpoint goes on from this file"
    if picture is not None:
        from gramless.inspection.pictures import check_picture

        check_picture(picture)
        from gramless.cli.figures import draw_run

        report.draw(picture, draw_run, model)
        document["picture"] = lines["picture"] = picture
    return lines


def _classes(model: KernelMachine | StreamedMachine) -> list[object] | None:
    """Return the classes of a classifier."""
    from gramless.cli.metrics import Classifier

    return model.classes_.tolist() if isinstance(model, Classifier) else None


def _fitted(model: KernelMachine | FeatureMap) -> dict[str, object]:
    """Return lines about what was fitted."""
    from gramless.cli.reading import input_names
    from gramless.estimators.base import KernelMachine

    if not isinstance(model, KernelMachine):
        return {"inputs": model.n_inputs, "columns": model._n_features_out}
    inputs = input_names(model) or model.n_features_in_
    return {"inputs": inputs, "classes": _classes(model), **choices_of(model)}


def _bin_lines(model: KernelMachine | FeatureMap, document: dict[str, object]) -> dict[str, object]:
    """Return lines about the bins of the training rows, if there are any, and document them."""
    from gramless.estimators.base import KernelMachine
    from gramless.features.binning import BinningMap
    from gramless.features.hybrid import parts_of
    from gramless.inspection.diagnostics import summarise

    estimator = model if isinstance(model, KernelMachine) else None
    # Of joined maps the grids come first.
    features = parts_of(model if estimator is None else estimator.features_)[0]
    if not isinstance(features, BinningMap):
        return {}
    found, estimate = summarise(features.nu_, features.offsets_[-1]), None
    # The weights are in the model's own units of the target. The estimate scales with their
    # square, as most losses do; a quantile loss does not, and the file does not hold its unit.
    if estimator is not None and estimator.loss_.name != "quantile":
        coef = estimator.coef_[: features._n_features_out]
        estimate = found.error_estimate(estimator.loss_, coef)
    speedups = {str(threads): found.speedup(threads) for threads in THREADS}
    document["diagnostics"] = {
        "nu": found.nu,
        "kappa": found.kappa,
        "kappa_bar": found.kappa_bar,
        "speedup": speedups,
        "speedup_limit": found.speedup_limit,
        "error_estimate": estimate,
    }
    unit = "" if estimator and _classes(estimator) else " in units of the target squared"
    return {
        "fullest bin": f"{found.nu:.1%} of the rows, mean over grids (nu)",
        "kappa": f"{number(found.kappa)}, one over that share, mean over grids",
        "bins a grid": f"{number(found.kappa_bar)} (kappa bar)",
        "parallel law": f"{', '.join(speedups)} threads: coordinate descent "
        f"{', '.join(map(number, speedups.values()))} times as fast; "
        f"at most {number(found.speedup_limit)}",
        "theorem 1": None
        if estimate is None
        else f"objective at most some {number(estimate)}{unit} above that of endless grids; an "
        "estimated bound",
    }


def _draw_bins(
    report: Report,
    path: Path,
    model: KernelMachine | FeatureMap,
    data: Path,
    part: str,
    limits: str,
    picture: Path,
) -> str:
    """Draw a sample of the rows of a file; return a line about it."""
    from gramless.cli.reading import read_for, rows_for
    from gramless.estimators.base import KernelMachine
    from gramless.inspection.explanation import sampled_rows
    from gramless.inspection.pictures import ROWS, check_picture

    check_picture(picture)
    if not isinstance(model, KernelMachine):
        raise InputError(
            f"{path} holds a {type(model).__name__} alone, which does not know the columns of a "
            "file; --picture needs a model that gramless fit wrote."
        )
    with report.stage("read", f"reading {data}"):
        rows = model.inputs_.transform(model, rows_for(model, read_for(model, data, part, limits)))
    shown = rows[sampled_rows(rows.shape[0], ROWS)]
    report.draw(picture, _figure, model, model.scaler_.rows(shown, model.n_jobs))
    return f"{picture}, {shown.shape[0]:,} of {rows.shape[0]:,} rows"


def _figure(model: KernelMachine, rows: Rows) -> Figure:
    from sklearn.base import clone

    from gramless.features.binning import BinningMap, RandomBinning
    from gramless.features.hybrid import parts_of
    from gramless.inspection.kernel_errors import exact_gram
    from gramless.inspection.pictures import draw_matrix

    features = parts_of(model.features_)[0]
    if not isinstance(features, BinningMap):
        raise InputError(f"--picture draws plain bins; a {type(features).__name__} has none.")
    exact = None
    if isinstance(features, RandomBinning):
        template = clone(features).set_params(bandwidth=features.bandwidth_)

        def exact(chosen: AnyArray) -> FloatArray:
            return exact_gram(template, rows[chosen])

    return draw_matrix(features.rows_matrix(rows), exact=exact)
