"""What a fitted model has learned, computed from it and some rows with known labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.cli.metrics import alike, class_metrics, regression_metrics
from gramless.inspection.explanation import (
    Dependence,
    GridUse,
    column_values,
    dependence_on,
    input_columns,
    main_effect,
    model_grid_use,
    permutation_importance,
    take_rows,
)
from gramless.inspection.pictures import sampled_rows

_MOST_INPUTS, _MOST_DRAWN, _MOST_OUTPUTS = 30, 6, 5
_ROWS, _LEAST_ROWS, _NUMBERS = 2000, 250, 200_000
"""Rows whose columns are shuffled; of wide tables fewer, for so many numbers."""
_DRAWN_ROWS = 500

Stage = tuple[str, list[dict[str, Any]]]
"""Of a search: its name and its trials."""


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


def findings(model: Any, X: Any, y: Any, places: dict[str, Any]) -> Findings:
    """Look at a model with rows and their labels.

    Parameters
    ----------
    model : KernelClassifier or KernelRegressor
    X, y : table or ndarray, ndarray
    places : dict
        As in :class:`Findings`.

    Returns
    -------
    Findings

    Raises
    ------
    InputError
        If the model predicts several numbers a row.
    """
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
    unit = model.features_.size_unit
    is_ridge = model.loss_.name == "squared" and model.l1_ratio == 0
    stages: dict[str, list[dict[str, Any]]] = {}
    for trial in model.search_:
        # Files of older versions do not name the stage.
        searched = trial.get("stage", "search") == "search"
        what = "least squares" if searched or is_ridge else f"{model.loss_.name} loss"
        name = f"{trial['n_rows']:,} rows, {trial['size']} {unit}, {what}"
        stages.setdefault(name, []).append(trial)
    return list(stages.items())


def _metrics(model: Any, X: Any, y: Any, predicted: Any) -> dict[str, Any]:
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
    if len(weights) <= _MOST_INPUTS:
        return list(range(len(weights)))
    if np.ptp(weights) == 0:
        responses = response(X)
        columns = [column_values(X, j)[0] for j in range(len(weights))]
        weights = np.array([main_effect(values, responses) for values in columns])
    return [int(j) for j in np.argsort(-weights, kind="stable")[:_MOST_INPUTS]]


def _shuffle(model: Any, X: Any, y: Any, columns: list[int]) -> Shuffled:

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
