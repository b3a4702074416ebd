"""``gramless inspect``: what a model file holds, and what its bins look like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gramless.base.errors import InputError
from gramless.base.formatting import sized
from gramless.cli.loading import is_streamed, read_for
from gramless.cli.options import AsJson, Debug, Limits, ModelFile, PartOption
from gramless.cli.reading import rows_for
from gramless.cli.report import Report, facts, number, reporting
from gramless.cli.summaries import run_in_words, run_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gramless.inspection.diagnostics import Diagnostics

THREADS = (2, 8, 64)
"""Where the law of speed-up is told."""
_TOGETHER = "--data and --picture need each other: rows, and where to draw."

Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DATA", help="Rows to draw, in any format.", show_default=False),
]
Picture = Annotated[
    Path | None,
    typer.Option(
        "--picture",
        metavar="OUT.png|svg|pdf",
        help="Draw the bins of --data and the kernel that they imply; or, without --data, the run "
        "of a model that gramless stream wrote.",
        show_default=False,
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

        found = describe(model)
        with report.stage("load", "loading"):
            loaded = load(model)
        head = {
            "class": found["class"],
            "written by": f"gramless {found['gramless_version']}, format {found['format']}",
            "size": sized(found["bytes"]),
        }
        if is_streamed(loaded):
            _tell_run(report, loaded, found, head, data, picture)
            return
        if picture is not None and data is None:
            raise typer.BadParameter(_TOGETHER)
        told = head | _fitted(found["fitted"])
        diagnostics = _diagnostics(loaded)
        if diagnostics is not None:
            estimate = _estimate(diagnostics, loaded)
            found["diagnostics"] = _document(diagnostics, estimate)
            told |= _in_words(diagnostics, estimate, hasattr(loaded, "classes_"))
        if data is not None and picture is not None:
            told["picture"] = _draw(report, model, loaded, data, part, limits, picture)
            found["picture"] = picture
        report.result(found, facts(told | _params(found["params"])))


def _tell_run(
    report: Report,
    model: Any,
    found: dict[str, Any],
    head: dict[str, Any],
    data: Path | None,
    picture: Path | None,
) -> None:
    if data is not None:
        raise InputError(f"--data {data}: a {type(model).__name__} has no bins; leave it out.")
    lists = {"names": "feature_names_in_", "classes": "classes_"}
    brief = {name: _brief(_listed(model, attribute)) for name, attribute in lists.items()}
    told = head | run_in_words(model) | brief
    found["run"] = run_of(model)
    if hasattr(model, "run_"):
        told["checkpoint"] = "gramless stream --checkpoint goes on from this file"
    if picture is not None:
        from gramless.inspection.pictures import check_picture, write_picture

        check_picture(picture)
        from gramless.cli.figures import draw_run

        with report.stage("draw", "drawing"):
            write_picture(draw_run(model), picture)
        told["picture"] = found["picture"] = picture
    report.result(found, facts(told | _params(found["params"])))


def _listed(model: Any, attribute: str) -> list[Any] | None:
    found = getattr(model, attribute, None)
    return None if found is None else found.tolist()


def _diagnostics(model: Any) -> Diagnostics | None:
    """Return what the training rows' bins say, if the features are bins."""
    from gramless.inspection.diagnostics import summarise

    features = getattr(model, "features_", model)
    if not hasattr(features, "nu_"):
        return None
    return summarise(features.nu_, features.offsets_[-1])


def _estimate(diagnostics: Diagnostics, model: Any) -> float | None:
    """Return the estimate of Theorem 1, in squared units of the target in regression."""
    if not hasattr(model, "coef_"):
        return None
    # Weights are kept in units of the target. A loss that grows as its square is the same in
    # them but for a factor; a quantile's is not, and its own units are not in the file.
    if model.loss_.name == "quantile":
        return None
    return diagnostics.error_estimate(model.loss_, model.coef_)


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


def _draw(
    report: Report, path: Path, model: Any, data: Path, part: str, limits: str, picture: Path
) -> str:
    """Draw a sample of the rows of a file; return a line about it."""
    from gramless.inspection.pictures import ROWS, check_picture, sampled_rows, write_picture

    check_picture(picture)
    if not hasattr(model, "scaler_"):
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


def _figure(model: Any, rows: Any) -> Any:
    from gramless.inspection.pictures import draw_matrix
    from gramless.preprocessing.categories import category_mask

    binning = model.features_

    def exact(chosen: NDArray[Any]) -> NDArray[Any]:
        some, used = _dense(rows[chosen])
        categorical = category_mask(binning.categorical, rows.shape[1])[used]
        kernel, bandwidth = binning.check_parameters(), binning.bandwidth_[used]
        return kernel.gram(some, bandwidth=bandwidth, categorical=categorical)

    is_kernel = hasattr(binning, "check_parameters")
    return draw_matrix(binning.rows_matrix(rows), exact=exact if is_kernel else None)


def _dense(rows: Any) -> tuple[NDArray[Any], Any]:
    """Return rows as an array, sparse ones without the inputs that are zero in all, and which."""
    import numpy as np

    if not hasattr(rows, "toarray"):
        return rows, slice(None)
    # One input more, of zeros, says nothing, and serves rows that have no others.
    used = np.union1d(rows.indices, [0])
    return rows[:, used].toarray(), used


def _fitted(fitted: dict[str, Any]) -> dict[str, Any]:
    bins = fitted.get("features_", {}).get("fitted", fitted)
    names = fitted.get("feature_names_in_")
    settings = fitted.get("settings_", {})
    alpha = fitted.get("alpha_")
    has_bins = "keys" in bins
    return {
        "inputs": _brief(names) if names else _n_inputs(bins),
        "classes": _brief(fitted.get("classes_")),
        "scaling": settings.get("scaling"),
        "bandwidth": _brief(fitted.get("bandwidth_")),
        "relevance": _relevance(settings),
        "kind of grids": settings.get("grids"),
        "alpha": None if alpha is None else number(alpha),
        "grids": f"{bins['widths_']['shape'][0]:,}" if has_bins else None,
        "bins": f"{bins['keys']['shape'][0]:,}" if has_bins else None,
        "trials": len(fitted["search_"]) if "search_" in fitted else None,
        "solver": _solver(fitted),
    }


def _n_inputs(features: dict[str, Any]) -> int:
    """Return the number of inputs of a feature map's fitted state."""
    arrays = (features[name]["shape"] for name in ("widths_", "bandwidth_") if name in features)
    return int(next(arrays)[-1])


def _relevance(settings: dict[str, Any]) -> str | None:
    if not settings or settings.get("grids", "random") != "random":
        return None
    return "learned" if settings.get("relevance") else "equal"


def _params(params: dict[str, Any]) -> dict[str, Any]:
    nested = {f"parameter {name}": _brief(value) for name, value in sorted(params.items())}
    return {name: value for name, value in nested.items() if value is not None}


def _solver(fitted: dict[str, Any]) -> str | None:
    if "status_" not in fitted:
        return None
    return f"{fitted['status_']} after {fitted['n_iter_']} iterations"


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
        shown = ", ".join(map(str, value[:8]))
        return f"{len(value)}: {shown}{', ...' if len(value) > 8 else ''}"
    if isinstance(value, float):
        return number(value)
    return None if value is None else str(value)
