"""What ``gramless explain`` finds out about a model with rows whose targets are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from gramless.base.errors import InputError
from gramless.base.state import Json
from gramless.base.types import AnyArray, FloatArray
from gramless.cli.measures import Measure, linear_predictions, measure_of
from gramless.cli.metrics import class_metrics, has_probabilities, regression_metrics
from gramless.cli.pages import readable
from gramless.datasets.table import take_rows
from gramless.estimators.classifier import KernelClassifier
from gramless.estimators.regressor import KernelRegressor
from gramless.features.hybrid import parts_of
from gramless.inspection.attributions import Attributions, shapley_values
from gramless.inspection.explanation import (
    Dependence,
    GridUse,
    JointDependence,
    Predictor,
    Rows,
    column_values,
    dependence_on,
    input_columns,
    joint_dependence_on,
    main_effect,
    model_grid_use,
    permutation_importance,
    sampled_rows,
    shape_of,
)
from gramless.inspection.slices import WorstGroup, worst_groups
from gramless.losses import SmoothPinball

Model: TypeAlias = KernelClassifier | KernelRegressor
Trial: TypeAlias = Mapping[str, Json]
"""A line of the record of a search."""
Stage: TypeAlias = tuple[str, Sequence[Trial]]
"""A stage of a search: its name and its trials."""

_MOST_INPUTS, _MOST_DRAWN, _MOST_OUTPUTS = 30, 6, 5
_ROWS, _LEAST_ROWS, _NUMBERS = 2000, 250, 200_000
"""Rows whose columns are shuffled: at most, at least, and by the numbers in them."""
_DRAWN_ROWS, _PAIR_ROWS, _COVERED_ROWS = 500, 200, 5000
_IN_PAIRS, _PAIRS, _LEAST_INTERACTION = 5, 3, 0.003
"""Inputs whose pairs are tried, pairs shown, and what they explain of the predictions at least."""
_MOST_ATTRIBUTED, _LEAST_ATTRIBUTED, _ATTRIBUTED_NUMBERS = 256, 30, 4000
"""Inputs up to which there are attributions; rows at least, and by the numbers in them."""
_COVERAGES = 0.5, 0.8, 0.9, 0.95


@dataclass(frozen=True)
class Shuffled:
    """Growth of the error when columns are shuffled, the most important column first.

    ``error`` is that of the ``n_rows`` rows as they are; ``increases`` has shape (n_columns,
    n_shuffles).
    """

    error: float
    n_rows: int
    columns: AnyArray
    increases: FloatArray


@dataclass(frozen=True)
class ShownRow:
    """One row: its number in the table, from 0, why it is shown, and what its inputs hold.

    ``output`` is the number of the raw prediction that is told of.
    """

    number: int
    kind: str
    true: str
    predicted: str
    output: int
    inputs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Findings:
    """Everything that the page shows.

    ``places`` has the files ``model`` and ``data`` and the name of the ``target``; ``metrics`` are
    those of ``gramless evaluate``, with ``rows``. ``y`` and ``predicted`` are as ``measure`` takes
    them, and ``scores`` has the figures of the model and of simple predictions. ``coverage`` lists
    how many intervals are asked for and hold, and their mean width. ``relevance`` is the largest
    among the inputs of a column. ``dependence`` has means of the ``response`` for each of the
    ``outputs``, whose name is empty if there is only one. ``attributions`` are those of a sample
    and of ``rows`` after it; None of very many inputs.
    """

    model: Model
    places: dict[str, Any]
    stages: Sequence[Stage]
    metrics: dict[str, Json]
    measure: Measure
    y: AnyArray
    predicted: FloatArray
    scores: Mapping[str, Mapping[str, float]]
    coverage: Sequence[tuple[float, float, float]]
    names: Sequence[str]
    relevance: FloatArray
    use: GridUse
    shuffled: Shuffled
    response: str
    outputs: Sequence[str]
    dependence: Sequence[Dependence]
    pairs: Sequence[JointDependence]
    groups: Sequence[WorstGroup]
    rows: Sequence[ShownRow]
    attributions: Attributions | None


def findings(model: Model, X: Rows, y: AnyArray, places: dict[str, Any]) -> Findings:
    """Examine a model with rows and their labels."""
    _check_outputs(model)
    measure, inputs = measure_of(model), input_columns(model)
    truth, predicted, names = measure.targets(y), measure.predict(X), list(inputs)
    losses = measure.losses(truth, predicted)
    n_rows = min(_ROWS, max(_LEAST_ROWS, _NUMBERS // len(model.relevance_)))
    rows, few = sampled_rows(len(y), n_rows), sampled_rows(len(y), _DRAWN_ROWS)
    some, drawn = take_rows(X, rows), take_rows(X, few)
    use = model_grid_use(model, some)
    relevance = np.array([model.relevance_[own].max(initial=0.0) for own in inputs.values()])
    what, outputs, response = _response(model, predicted)
    columns = _promising(some, response, relevance * use.share)
    shuffled = _shuffle(measure, some, truth[rows], columns)
    n_drawn = min(_MOST_DRAWN, max(1, int((shuffled.increases.mean(axis=1) > 0.0).sum())))
    top = [int(j) for j in shuffled.columns[:n_drawn]]
    dependence = [dependence_on(response, drawn, j, names[j]) for j in top]
    varied = [j for j, one in zip(top, dependence, strict=True) if len(one.values) > 1]
    values = {names[j]: column_values(X, j)[0] for j in map(int, shuffled.columns)}
    shown = _shown_rows(model, losses, predicted, y, values)
    return Findings(
        model,
        places,
        _stages(model),
        _metrics(model, X, y, truth, predicted),
        measure,
        truth,
        predicted,
        _scores(model, measure, X, truth, predicted),
        _coverage(model, X, y),
        names,
        relevance,
        use,
        shuffled,
        what,
        outputs,
        [one for one in dependence if len(one.values) > 1],
        _interactions(response, drawn, names, varied[:_IN_PAIRS]),
        worst_groups(losses, values),
        shown,
        _attributions(model, X, [row.number for row in shown]),
    )


def _check_outputs(model: Model) -> None:
    if isinstance(model, KernelClassifier):
        several = model.multilabel_
    else:
        several = model.weights_.ndim == 2 and model.loss_.name != "quantile"
    if several:
        raise InputError(
            f"This model predicts {model.weights_.shape[1]} numbers a row; explain takes models of "
            "one target."
        )


def levels_of(model: Model) -> FloatArray:
    """Return the quantiles of a model that predicts several."""
    loss = model.loss_
    assert isinstance(loss, SmoothPinball)
    return loss.levels


def _stages(model: Model) -> list[Stage]:
    unit = parts_of(model.features_)[0].size_unit
    is_ridge = model.loss_.name == "squared" and model.l1_ratio == 0
    stages: dict[str, list[Trial]] = {}
    for trial in model.search_:
        # Files of older versions name no measure, or not even the stage.
        searched = trial.get("stage", "search") == "search"
        what = "least squares" if searched or is_ridge else f"{model.loss_.name} loss"
        what = trial.get("measure", what)
        name = f"{trial['n_rows']:,} rows, {trial['size']} {unit}, {what}"
        stages.setdefault(name, []).append(trial)
    return list(stages.items())


def _metrics(
    model: Model, X: Rows, y: AnyArray, truth: AnyArray, predicted: FloatArray
) -> dict[str, Json]:
    """Return the metrics of ``gramless evaluate``, of which several quantiles have none."""
    if isinstance(model, KernelClassifier):
        likely = predicted if has_probabilities(model) else None
        found = class_metrics(model, y, model.predict(X), likely)
        _, counts = np.unique(y, return_counts=True)
        return {"rows": len(y), **found, "guess_error": float(1.0 - counts.max() / len(y))}
    return {"rows": len(y)} | ({} if predicted.ndim > 1 else regression_metrics(truth, predicted))


def _scores(
    model: Model, measure: Measure, X: Rows, y: AnyArray, predicted: FloatArray
) -> dict[str, dict[str, float]]:
    compared = {
        "this model": predicted,
        "a linear model": linear_predictions(measure, model, X, y),
        f"a constant ({measure.constant_words})": measure.all_constant(y),
    }
    return {
        name: {measure.name: measure.error(y, own)} | measure.scores(y, own)
        for name, own in compared.items()
        if own is not None
    }


def _coverage(model: Model, X: Rows, y: AnyArray) -> list[tuple[float, float, float]]:
    """Return the shares of targets that intervals should and do hold, and their mean widths."""
    if isinstance(model, KernelClassifier) or (model.quantile_model_ or model).errors_ is None:
        return []
    rows = sampled_rows(len(y), _COVERED_ROWS)
    some, own, found = take_rows(X, rows), y[rows], []
    for coverage in _COVERAGES:
        lower, upper = model.predict_interval(some, coverage)
        inside = float(np.mean((lower <= own) & (own <= upper)))
        found.append((coverage, inside, float(np.mean(upper - lower))))
    return found


def _response(model: Model, predicted: FloatArray) -> tuple[str, list[str], Predictor]:
    """Describe predictions, name the outputs shown, and return the function that gives them."""
    if not isinstance(model, KernelClassifier):
        if predicted.ndim == 1:
            return "prediction", [""], lambda X: model.predict(X)[:, None]
        levels = levels_of(model)
        shown = np.unique(np.round(np.linspace(0, len(levels) - 1, _MOST_OUTPUTS)).astype(int))
        names = [f"quantile {level:g}" for level in levels[shown]]
        return "predicted quantile", names, lambda X: model.predict(X)[:, shown]
    classes, likely = model.classes_, has_probabilities(model)
    if len(classes) == 2 and likely:
        return f"probability of {classes[1]}", [""], lambda X: model.predict_proba(X)[:, 1:]
    if len(classes) == 2:
        what = f"response (above 0 for {classes[1]}, below for {classes[0]})"
        return what, [""], lambda X: model.decision_function(X)[:, None]
    chosen = predicted.argmax(axis=1) if likely else predicted
    counts = np.bincount(chosen, minlength=len(classes))
    shown = np.sort(np.argsort(-counts, kind="stable")[:_MOST_OUTPUTS])
    names = [str(label) for label in classes[shown]]
    if likely:
        return "probability of a class", names, lambda X: model.predict_proba(X)[:, shown]
    return "response of a class", names, lambda X: model.decision_function(X)[:, shown]


def _promising(X: Rows, response: Predictor, weights: FloatArray) -> list[int]:
    """Return the columns to shuffle: all, or those of most weight or main effect."""
    if len(weights) <= _MOST_INPUTS:
        return list(range(len(weights)))
    if np.ptp(weights) == 0:
        responses = response(X)
        columns = [column_values(X, j)[0] for j in range(len(weights))]
        weights = np.array([main_effect(values, responses) for values in columns])
    return [int(j) for j in np.argsort(-weights, kind="stable")[:_MOST_INPUTS]]


def _shuffle(measure: Measure, X: Rows, y: AnyArray, columns: list[int]) -> Shuffled:
    def error(rows: Rows) -> float:
        return measure.error(y, measure.predict(rows))

    increases = permutation_importance(error, X, columns)
    order = np.argsort(-increases.mean(axis=1), kind="stable")
    return Shuffled(error(X), len(y), np.array(columns)[order], increases[order])


def _interactions(
    response: Predictor, X: Rows, names: Sequence[str], columns: Sequence[int]
) -> list[JointDependence]:
    """Return the pairs of columns whose joint effect differs most from the sum of both."""
    few = take_rows(X, sampled_rows(shape_of(X)[0], _PAIR_ROWS))
    variance = response(few).var(axis=0).max()
    found = [
        joint_dependence_on(response, few, pair, (names[pair[0]], names[pair[1]]))
        for pair in combinations(columns, 2)
    ]
    strong = [one for one in found if one.interaction.max() > _LEAST_INTERACTION * variance]
    return sorted(strong, key=lambda one: -one.interaction.max())[:_PAIRS]


def _shown_rows(
    model: Model,
    losses: FloatArray,
    predicted: FloatArray,
    y: AnyArray,
    values: Mapping[str, AnyArray],
) -> list[ShownRow]:
    """Choose two typical rows, the best and three of the worst."""
    order, n_rows = np.argsort(losses, kind="stable"), len(losses)
    middle = order[int(0.4 * n_rows) : int(0.6 * n_rows) + 1]
    height = predicted[middle].reshape(len(middle), -1)[:, -1]
    by_height = middle[np.argsort(height, kind="stable")]
    chosen = [(by_height[int(part * (len(by_height) - 1))], "typical") for part in (0.2, 0.8)]
    chosen += [(order[0], "best"), *((k, "worst") for k in order[:-4:-1])]
    seen: dict[int, str] = {}
    for row, kind in chosen:
        seen.setdefault(int(row), kind)
    return [
        ShownRow(
            row,
            kind,
            str(y[row]) if isinstance(model, KernelClassifier) else readable(float(y[row])),
            _told(model, predicted[row]),
            _raw_output(model, predicted[row]),
            [(name, value_text(own[row])) for name, own in values.items()],
        )
        for row, kind in seen.items()
    ]


def _told(model: Model, predicted: AnyArray) -> str:
    """Return the prediction of one row in words."""
    if not isinstance(model, KernelClassifier):
        return " to ".join(map(readable, dict.fromkeys(np.ravel(predicted)[[0, -1]].tolist())))
    if predicted.ndim == 0:
        return str(model.classes_[int(predicted)])
    best = int(predicted.argmax())
    return f"{model.classes_[best]} ({predicted[best]:.0%})"


def _raw_output(model: Model, predicted: AnyArray) -> int:
    """Return the number of the raw prediction of a row's class, or of the middle quantile."""
    if model.weights_.ndim == 1:
        return 0
    if isinstance(model, KernelClassifier):
        return int(predicted if predicted.ndim == 0 else predicted.argmax())
    return int(np.abs(levels_of(model) - 0.5).argmin())


def _attributions(model: Model, X: Rows, rows: Sequence[int]) -> Attributions | None:
    n_rows, n_columns = shape_of(X)
    if n_columns > _MOST_ATTRIBUTED:
        return None
    few = sampled_rows(
        n_rows, min(_PAIR_ROWS, max(_LEAST_ATTRIBUTED, _ATTRIBUTED_NUMBERS // n_columns))
    )
    return shapley_values(model, take_rows(X, np.append(few, rows)), take_rows(X, few))


def value_text(value: object) -> str:
    """Return what a row holds in a column, in words."""
    if isinstance(value, float | np.number):
        return "missing" if np.isnan(value) else readable(float(value))
    return str(value) or "missing"
