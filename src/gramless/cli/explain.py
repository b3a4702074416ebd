"""``gramless explain``: a page that tells what a model has learned."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gramless.base.errors import InputError
from gramless.base.files import replacing
from gramless.base.words import sized
from gramless.cli.loading import is_streamed, load_predictor, read_for
from gramless.cli.metrics import alike, class_metrics, regression_metrics
from gramless.cli.options import AsJson, Debug, Jobs, Limits, ModelFile, PartOption, Target
from gramless.cli.reading import labels_for, rows_for
from gramless.cli.report import facts, number, reporting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gramless.estimators.explain import Dependence, GridUse

_MOST_INPUTS, _MOST_DRAWN, _MOST_OUTPUTS = 30, 6, 5
_ROWS, _LEAST_ROWS, _NUMBERS = 2000, 250, 200_000
"""Rows whose columns are shuffled; of wide tables fewer, for so many numbers."""
_DRAWN_ROWS = 500

Stage = tuple[str, list[dict[str, Any]]]
"""Of a search: its name and its trials."""

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
    Path,
    typer.Option("--output", "-o", metavar="OUT.html", help="The page.", show_default=False),
]


@dataclass(frozen=True)
class Shuffled:
    """What shuffling columns did to the error.

    Parameters
    ----------
    error_name : str
    error : float
        Before, on the rows that were shuffled.
    n_rows : int
        These rows.
    columns : array (n,) of int
        The most important first.
    increases : array (n, n_repeats)
        Of the error.
    """

    error_name: str
    error: float
    n_rows: int
    columns: NDArray[Any]
    increases: NDArray[Any]


@dataclass(frozen=True)
class Findings:
    """What the page tells.

    Parameters
    ----------
    model : KernelClassifier or KernelRegressor
    places : dict
        Files of the ``model`` and the ``data``, and the name of the ``target``, if it has one.
    stages : sequence of Stage
        None where nothing was searched.
    metrics : dict
        As ``gramless evaluate`` has them, and ``rows``.
    names : sequence of str
        Columns of the table.
    relevance : array (n_columns,)
        The largest of the inputs that a column became.
    use : GridUse
    shuffled : Shuffled
    response : str
        What ``dependence`` has the means of.
    outputs : sequence of str
        Their names; that of a single one may be empty.
    dependence : sequence of Dependence
    scatter : sequence of (float, float)
        True and predicted numbers of some rows.
    """

    model: Any
    places: dict[str, Any]
    stages: Sequence[Stage]
    metrics: dict[str, Any]
    names: Sequence[str]
    relevance: NDArray[Any]
    use: GridUse
    shuffled: Shuffled
    response: str
    outputs: Sequence[str]
    dependence: Sequence[Dependence]
    scatter: Sequence[tuple[float, float]]


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
        _check_place(output, (model, data))
        with report.stage("read", f"reading {data}"):
            predictor = load_predictor(model, n_jobs)
            _check_kind(model, predictor)
            table = read_for(predictor, data, part, limits)
            y, name = labels_for(predictor, table, target)
            X = rows_for(predictor, table, name)
        with report.stage("explain", "explaining"):
            found = _findings(predictor, X, y, {"model": model, "data": data, "target": name})
        with report.stage("write", f"writing {output}"):
            from gramless.cli.page import page

            _write(output, page(found))
        report.result(*_told(found, output, report.seconds))


def _check_place(output: Path, inputs: Sequence[Path]) -> None:
    """Refuse before, not after, the work a page that could not be written."""
    if not output.resolve().parent.is_dir():
        raise InputError(f"-o {output}: there is no folder {output.resolve().parent}; make it.")
    same = output.exists() and any(p.exists() and output.samefile(p) for p in inputs)
    if output.is_dir() or same:
        raise InputError(f"-o {output} is a folder, the model or the data; name another file.")


def _check_kind(path: Path, model: Any) -> None:
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


def _findings(model: Any, X: Any, y: Any, places: dict[str, Any]) -> Findings:
    import numpy as np

    from gramless.estimators.explain import dependence_on, input_columns, model_grid_use, take_rows
    from gramless.features.pictures import sampled_rows

    predicted, inputs = model.predict(X), input_columns(model)
    metrics, names = _metrics(model, X, y, predicted), list(inputs)
    n_rows = min(_ROWS, max(_LEAST_ROWS, _NUMBERS // len(model.relevance_)))
    rows, few = sampled_rows(len(y), n_rows), sampled_rows(len(y), _DRAWN_ROWS)
    some, drawn = take_rows(X, rows), take_rows(X, few)
    use = model_grid_use(model, some)
    relevance = np.array([model.relevance_[own].max() for own in inputs.values()])
    what, outputs, response = _response(model, predicted)
    columns = _promising(some, response, relevance * use.share)
    shuffled = _shuffle(model, some, y[rows], columns)
    top = [int(j) for j in shuffled.columns[:_MOST_DRAWN]]
    dependence = [dependence_on(response, drawn, j, names[j]) for j in top]
    scatter = [] if hasattr(model, "classes_") else list(zip(y[few], predicted[few], strict=True))
    return Findings(
        model,
        places,
        _stages(model),
        metrics,
        names,
        relevance,
        use,
        shuffled,
        what,
        outputs,
        [one for one in dependence if len(one.values) > 1],
        scatter,
    )


def _stages(model: Any) -> list[Stage]:
    """Return the stages of a model's search, in order."""
    trials, unit = model.search_, model.features_.size_unit
    least_squares = len(trials) - _trials_of_alpha(model)
    stages: dict[str, list[dict[str, Any]]] = {}
    for k, trial in enumerate(trials):
        what = "least squares" if k < least_squares else f"{model.loss_.name} loss"
        name = f"{trial['n_rows']:,} rows, {trial['size']} {unit}, {what}"
        stages.setdefault(name, []).append(trial)
    return list(stages.items())


def _trials_of_alpha(model: Any) -> int:
    """Count the last trials, which ask for alpha with the model's own loss and penalty."""
    if model.alpha != "auto" or (model.loss_.name == "squared" and model.l1_ratio == 0):
        return 0
    # A falling path of alphas, one score each.
    count, above = 0, 0.0
    for trial in reversed(model.search_):
        if len(trial["curve"]) > 1 or trial["alpha"] <= above:
            break
        count, above = count + 1, trial["alpha"]
    return count


def _metrics(model: Any, X: Any, y: Any, predicted: Any) -> dict[str, Any]:
    import numpy as np

    if predicted.ndim > 1:
        raise InputError(
            f"This model predicts {predicted.shape[1]} numbers a row; explain takes models of one."
        )
    if not hasattr(model, "classes_"):
        return {"rows": len(y), **regression_metrics(y, predicted)}
    found = class_metrics(model, X, y, predicted)
    _, counts = np.unique(y, return_counts=True)
    return {"rows": len(y), **found, "guess_error": float(1.0 - counts.max() / len(y))}


def _response(
    model: Any, predicted: NDArray[Any]
) -> tuple[str, list[str], Callable[[Any], NDArray[Any]]]:
    """Return what predictions are, the names of the outputs shown, and what gives them."""
    import numpy as np

    if not hasattr(model, "classes_"):
        return "prediction", [""], lambda X: model.predict(X)[:, None]
    classes, likely = model.classes_, hasattr(model, "predict_proba")
    if len(classes) == 2 and likely:
        return f"probability of {classes[1]}", [""], lambda X: model.predict_proba(X)[:, 1:]
    if len(classes) == 2:
        what = f"response (above 0 for {classes[1]}, below for {classes[0]})"
        return what, [""], lambda X: model.decision_function(X)[:, None]
    counts = np.bincount(np.searchsorted(classes, predicted), minlength=len(classes))
    shown = np.sort(np.argsort(-counts, kind="stable")[:_MOST_OUTPUTS])
    names = [str(label) for label in classes[shown]]
    if likely:
        return "probability of a class", names, lambda X: model.predict_proba(X)[:, shown]
    return "response of a class", names, lambda X: model.decision_function(X)[:, shown]


def _promising(X: Any, response: Callable[[Any], Any], weights: NDArray[Any]) -> list[int]:
    """Return the columns to be shuffled: all, or those of most weight or by what they explain."""
    import numpy as np

    from gramless.estimators.explain import column_values, main_effect

    if len(weights) <= _MOST_INPUTS:
        return list(range(len(weights)))
    if np.ptp(weights) == 0:
        responses = response(X)
        columns = [column_values(X, j)[0] for j in range(len(weights))]
        weights = np.array([main_effect(values, responses) for values in columns])
    return [int(j) for j in np.argsort(-weights, kind="stable")[:_MOST_INPUTS]]


def _shuffle(model: Any, X: Any, y: Any, columns: list[int]) -> Shuffled:
    import numpy as np

    from gramless.estimators.explain import permutation_importance

    if hasattr(model, "classes_"):
        name = "share of wrong classes"
        truth, classes = alike(y, model.classes_)

        def error(rows: Any) -> float:
            found = classes[np.searchsorted(model.classes_, model.predict(rows))]
            return float(np.mean(found != truth))
    else:
        name = "RMSE"

        def error(rows: Any) -> float:
            return regression_metrics(y, model.predict(rows))["rmse"]

    increases = permutation_importance(error, X, columns)
    order = np.argsort(-increases.mean(axis=1), kind="stable")
    return Shuffled(name, error(X), len(y), np.array(columns)[order], increases[order])


def _told(found: Findings, output: Path, seconds: dict[str, float]) -> tuple[dict[str, Any], Any]:
    """Return the document and what people are shown of it."""
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
    shown = {
        "rows": f"{found.metrics['rows']:,}",
        shuffled.error_name: number(found.metrics["rmse" if "rmse" in found.metrics else "error"]),
        "inputs that matter most": ", ".join(top[:5]) or None,
        "page": f"{output} ({sized(n_bytes)})",
    }
    return document, facts(shown)
