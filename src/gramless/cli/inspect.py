"""``gramless inspect``: what a model file holds, and what its bins look like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gramless.base.errors import InputError
from gramless.base.formatting import sized
from gramless.cli.options import AsJson, Debug, Limits, ModelFile, PartOption, picture_option
from gramless.cli.reading import is_streamed, read_for, rows_for
from gramless.cli.report import Report, facts, first_few, number, reporting
from gramless.cli.summaries import run_in_words, run_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gramless.base.types import AnyArray, FloatArray
    from gramless.estimators.base import KernelMachine
    from gramless.estimators.streamed import StreamedMachine
    from gramless.features.base import FeatureMap
    from gramless.inspection.diagnostics import Diagnostics
    from gramless.preprocessing.rows import Rows

THREADS = (2, 8, 64)
"""Numbers of threads whose speed-up is shown."""
_TOGETHER = "--data and --picture need each other: rows, and where to draw."

Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DATA", help="Rows to draw, in any format.", show_default=False),
]
Picture = Annotated[
    Path | None,
    picture_option(
        "Draw the bins of --data and the kernel that they imply; or, without --data, the run "
        "of a model that gramless stream wrote."
    ),
]


def inspect(
    model: ModelFile,
    data: Data = None,
    picture: Picture = None,
    part: PartOption = "auto",
    limits: Limits = "",
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Tell what a model file holds, and draw the bins that rows fall into.

    The class, the parameters, what was chosen, and what the bins say about
    learning: nu, kappa, the law of parallel speed-up and an estimate of the
    error by Theorem 1 of the 2016 paper. --data and --picture together draw
    some 200 rows. Of a streamed model, or a checkpoint: how its run went, which
    --picture draws.
    """
    if data is not None and picture is None:
        raise typer.BadParameter(_TOGETHER)
    with reporting(as_json, debug) as report:
        from gramless.estimators.persistence import describe, load

        document = describe(model)
        with report.stage("load", "loading"):
            loaded = load(model)
        lines = {
            "class": document["class"],
            "written by": f"gramless {document['gramless_version']}, format {document['format']}",
            "size": sized(document["bytes"]),
        }
        if is_streamed(loaded):
            lines |= _run_lines(report, loaded, document, data, picture)
        else:
            if picture is not None and data is None:
                raise typer.BadParameter(_TOGETHER)
            lines |= _fitted(document["fitted"]) | _bin_lines(loaded, document)
            if data is not None and picture is not None:
                lines["picture"] = _draw_bins(report, model, loaded, data, part, limits, picture)
                document["picture"] = picture
        report.result(document, facts(lines | _params(document["params"])))


def _run_lines(
    report: Report,
    model: StreamedMachine,
    document: dict[str, Any],
    data: Path | None,
    picture: Path | None,
) -> dict[str, Any]:
    """Return lines about the run of a streamed model, draw it if asked to, and document both."""
    if data is not None:
        raise InputError(f"--data {data}: a {type(model).__name__} has no bins; leave it out.")
    fitted, lines = vars(model), run_in_words(model)
    for name, attribute in {"names": "feature_names_in_", "classes": "classes_"}.items():
        lines[name] = _brief(fitted[attribute].tolist()) if attribute in fitted else None
    if "run_" in fitted:
        lines["checkpoint"] = "gramless stream --checkpoint goes on from this file"
    document["run"] = run_of(model)
    if picture is not None:
        from gramless.inspection.pictures import check_picture, write_picture

        check_picture(picture)
        from gramless.cli.figures import draw_run

        with report.stage("draw", "drawing"):
            write_picture(draw_run(model), picture)
        document["picture"], lines["picture"] = picture, str(picture)
    return lines


def _bin_lines(model: KernelMachine | FeatureMap, document: dict[str, Any]) -> dict[str, Any]:
    """Return lines about the bins of the training rows, if there are any, and document them."""
    from gramless import KernelClassifier
    from gramless.estimators.base import KernelMachine
    from gramless.features.binning import BinningMap
    from gramless.inspection.diagnostics import summarise

    estimator = model if isinstance(model, KernelMachine) else None
    features = _bins_of(model if estimator is None else estimator.features_)
    if not isinstance(features, BinningMap):
        return {}
    diagnostics, estimate = summarise(features.nu_, features.offsets_[-1]), None
    # The weights are in the model's own units of the target. The estimate scales with their
    # square, as most losses do; a quantile loss does not, and the file does not hold its unit.
    if estimator is not None and estimator.loss_.name != "quantile":
        coef = estimator.coef_[: features._n_features_out]
        estimate = diagnostics.error_estimate(estimator.loss_, coef)
    document["diagnostics"] = _document(diagnostics, estimate)
    return _in_words(diagnostics, estimate, isinstance(model, KernelClassifier))


def _bins_of(features: FeatureMap) -> FeatureMap:
    """Return the grids of joined maps, which come first, or the features themselves."""
    from gramless.features.hybrid import parts_of

    return parts_of(features)[0]


def _document(diagnostics: Diagnostics, estimate: float | None) -> dict[str, Any]:
    return {
        "nu": diagnostics.nu,
        "kappa": diagnostics.kappa,
        "kappa_bar": diagnostics.kappa_bar,
        "speedup": {str(tau): diagnostics.speedup(tau) for tau in THREADS},
        "speedup_limit": diagnostics.speedup_limit,
        "error_estimate": estimate,
    }


def _in_words(
    diagnostics: Diagnostics, estimate: float | None, has_classes: bool
) -> dict[str, str | None]:
    threads = ", ".join(map(str, THREADS))
    times = ", ".join(number(diagnostics.speedup(tau)) for tau in THREADS)
    limit, unit = (
        number(diagnostics.speedup_limit),
        "" if has_classes else " in units of the target squared",
    )
    return {
        "fullest bin": f"{diagnostics.nu:.1%} of the rows, mean over grids (nu)",
        "kappa": f"{number(diagnostics.kappa)}, one over that share, mean over grids",
        "bins a grid": f"{number(diagnostics.kappa_bar)} (kappa bar)",
        "parallel law": f"{threads} threads: coordinate descent {times} times as fast; "
        f"at most {limit}",
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
    from gramless.estimators.base import KernelMachine
    from gramless.inspection.explanation import sampled_rows
    from gramless.inspection.pictures import ROWS, check_picture, write_picture

    check_picture(picture)
    if not isinstance(model, KernelMachine):
        raise InputError(
            f"{path} holds a {type(model).__name__} alone, which does not know the columns of a "
            "file; --picture needs a model that gramless fit wrote."
        )
    with report.stage("read", f"reading {data}"):
        rows = model.inputs_.transform(model, rows_for(model, read_for(model, data, part, limits)))
    with report.stage("draw", "drawing"):
        shown = rows[sampled_rows(rows.shape[0], ROWS)]
        write_picture(_figure(model, model.scaler_.rows(shown, model.n_jobs)), picture)
    return f"{picture}, {shown.shape[0]:,} of {rows.shape[0]:,} rows"


def _figure(model: KernelMachine, rows: Rows) -> Figure:
    from sklearn.base import clone

    from gramless.features.binning import BinningMap, RandomBinning
    from gramless.inspection.kernel_errors import exact_gram
    from gramless.inspection.pictures import draw_matrix

    features = _bins_of(model.features_)
    if not isinstance(features, BinningMap):
        raise InputError(f"--picture draws plain bins; a {type(features).__name__} has none.")
    exact = None
    if isinstance(features, RandomBinning):
        template = clone(features).set_params(bandwidth=features.bandwidth_)

        def exact(chosen: AnyArray) -> FloatArray:
            return exact_gram(template, rows[chosen])

    return draw_matrix(features.rows_matrix(rows), exact=exact)


def _fitted(fitted: dict[str, Any]) -> dict[str, Any]:
    """Return lines about the fitted values that a file describes."""
    features = fitted.get("features_", {}).get("fitted", fitted)
    # Of joined maps the grids come first.
    joined = "maps_" in features and "bandwidth_" not in features
    bins = features["maps_"][0]["fitted"] if joined else features
    names = fitted.get("feature_names_in_")
    settings = fitted.get("settings_", {})
    alpha = fitted.get("alpha_")
    has_bins = "keys" in bins
    relevance = solver = None
    if settings and settings.get("grids", "random") == "random":
        relevance = "learned" if settings.get("relevance") else "equal"
    if "status_" in fitted:
        solver = f"{fitted['status_']} after {fitted['n_iter_']} iterations"
    return {
        "inputs": _brief(names) if names else _n_inputs(bins),
        "classes": _brief(fitted.get("classes_")),
        "scaling": settings.get("scaling"),
        "bandwidth": _brief(fitted.get("bandwidth_")),
        "relevance": relevance,
        "kind of grids": settings.get("grids"),
        "alpha": None if alpha is None else number(alpha),
        "grids": f"{bins['widths_']['shape'][0]:,}" if has_bins else None,
        "bins": f"{bins['keys']['shape'][0]:,}" if has_bins else None,
        "trials": len(fitted["search_"]) if "search_" in fitted else None,
        "solver": solver,
    }


def _n_inputs(features: dict[str, Any]) -> int:
    """Return the number of inputs of a feature map's fitted state."""
    arrays = (features[name]["shape"] for name in ("widths_", "bandwidth_") if name in features)
    return int(next(arrays)[-1])


def _params(params: dict[str, Any]) -> dict[str, Any]:
    nested = {f"parameter {name}": _brief(value) for name, value in sorted(params.items())}
    return {name: value for name, value in nested.items() if value is not None}


def _brief(value: Any) -> str | None:
    """Return a value in one short line."""
    if isinstance(value, dict) and set(value) == {"dtype", "shape"}:
        size = " x ".join(str(n) for n in value["shape"])
        return f"{size} values of {value['dtype']}" if size else f"one value of {value['dtype']}"
    if isinstance(value, dict):
        inner = value.get("params", value)
        parts = [f"{key}={_brief(item)}" for key, item in inner.items() if key != "class"]
        name = value.get("class", "")
        return f"{name}({', '.join(parts)})" if name else ", ".join(parts)
    if isinstance(value, list):
        return first_few(value)
    if isinstance(value, float):
        return number(value)
    return None if value is None else str(value)
