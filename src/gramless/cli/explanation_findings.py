"""The analysis of a model on rows with known targets, for ``gramless explain``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from gramless.base.errors import InputError
from gramless.base.random import stream
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
    sample_rows,
    shape_of,
    with_column_from,
)
from gramless.inspection.slices import WorstGroup, worst_groups
from gramless.losses import SmoothPinball

Model: TypeAlias = KernelClassifier | KernelRegressor
Trial: TypeAlias = Mapping[str, Json]  # an entry of ``search_``
Stage: TypeAlias = tuple[str, Sequence[Trial]]  # the name of a stage of the search, its trials

_MAX_SHUFFLED, _MAX_DRAWN, _MAX_OUTPUTS = 30, 6, 5  # columns shuffled, columns drawn, outputs
_N_SHUFFLES = 3  # shuffles per column; all columns use the same permutations
# Maximum and minimum number of rows to shuffle. Between the two, the number of rows is limited by
# this number of cells.
_MAX_ROWS, _MIN_ROWS, _MAX_CELLS = 2000, 250, 200_000
# Samples of rows for the dependences, for the interactions and for the coverage. The second is also
# the maximum for the attributions.
_DEPENDENCE_ROWS, _PAIR_ROWS, _COVERAGE_ROWS = 500, 200, 5000
_MAX_PAIRED_INPUTS, _MAX_PAIRS = 5, 3
_MIN_INTERACTION = 0.003  # share of the variance of the predictions; weaker pairs are not shown
# Maximum number of columns and minimum number of rows for attributions. Between this and
# _PAIR_ROWS, the number of rows is limited by this number of cells.
_MAX_ATTRIBUTED, _MIN_ATTRIBUTED_ROWS, _MAX_ATTRIBUTED_CELLS = 256, 30, 4000
_COVERAGES = 0.5, 0.8, 0.9, 0.95


@dataclass(frozen=True)
class ShuffleResult:
    """Increases of the error when columns are shuffled, the most important column first.

    ``error`` is the error on the ``n_rows`` rows without shuffling; ``increases`` has shape
    (n_columns, n_shuffles).
    """

    error: float
    n_rows: int
    columns: AnyArray
    increases: FloatArray


@dataclass(frozen=True)
class ShownRow:
    """One row that the page explains.

    ``number`` is its index in the table, and ``kind`` says why it is shown, such as "worst".
    ``output`` is the index of the raw prediction that is explained. ``inputs`` has names and
    values.
    """

    number: int
    kind: str
    true: str
    predicted: str
    output: int
    inputs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Findings:
    """The results that the report page shows.

    ``places`` has the files ``model`` and ``data`` and the name of the ``target``. ``metrics`` are
    those of ``gramless evaluate``, with ``rows``. ``y`` are the targets as ``measure`` encodes
    them, and ``predicted`` its predictions: the arguments of ``measure.losses``. ``names`` are
    those of the columns of the table. ``response`` is the name of the quantity that is explained,
    such as a probability. ``scores`` has the metrics of the model and of simple predictions by
    name. ``coverage`` lists nominal coverage, observed coverage and mean width of prediction
    intervals. ``relevance`` is the largest among the inputs of a column. ``dependence`` has means
    of the ``response`` for each of the ``outputs``; their name is empty if there is only one.
    ``attributions`` has those of a sample, followed by those of ``rows``; it is None for tables
    with very many columns.
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
    shuffled: ShuffleResult
    response: str
    outputs: Sequence[str]
    dependence: Sequence[Dependence]
    pairs: Sequence[JointDependence]
    groups: Sequence[WorstGroup]
    rows: Sequence[ShownRow]
    attributions: Attributions | None


def explain_model(model: Model, X: Rows, y: AnyArray, places: dict[str, Any]) -> Findings:
    """Analyse a model on rows with known targets.

    Raises InputError if the model predicts several targets, or if a target is invalid.
    """
    _check_single_target(model)
    measure, inputs = measure_of(model), input_columns(model)
    truth, predicted, names = measure.targets(y), measure.predict(X), list(inputs)
    losses = measure.losses(truth, predicted)
    n_rows = min(_MAX_ROWS, max(_MIN_ROWS, _MAX_CELLS // len(model.relevance_)))
    rows = sample_rows(len(y), n_rows)
    X_shuffled = take_rows(X, rows)
    use = model_grid_use(model, X_shuffled)
    relevance = np.array(
        [model.relevance_[indices].max(initial=0.0) for indices in inputs.values()]
    )
    response_name, outputs, response = _describe_response(model, predicted)
    columns = _columns_to_shuffle(X_shuffled, response, relevance * use.share)
    shuffled = _shuffle_columns(measure, X_shuffled, truth[rows], columns)
    n_drawn = min(_MAX_DRAWN, max(1, int((shuffled.increases.mean(axis=1) > 0.0).sum())))
    top = [int(j) for j in shuffled.columns[:n_drawn]]
    X_dependence = take_rows(X, sample_rows(len(y), _DEPENDENCE_ROWS))
    dependence = [dependence_on(response, X_dependence, j, names[j]) for j in top]
    varied = [j for j, effect in zip(top, dependence, strict=True) if len(effect.values) > 1]
    values = {names[j]: column_values(X, j)[0] for j in map(int, shuffled.columns)}
    shown = _select_rows(model, losses, predicted, y, values)
    return Findings(
        model=model,
        places=places,
        stages=_group_trials(model),
        metrics=_compute_metrics(model, X, y, truth, predicted),
        measure=measure,
        y=truth,
        predicted=predicted,
        scores=_score_predictions(model, measure, X, truth, predicted),
        coverage=_measure_coverage(model, X, y),
        names=names,
        relevance=relevance,
        use=use,
        shuffled=shuffled,
        response=response_name,
        outputs=outputs,
        dependence=[effect for effect in dependence if len(effect.values) > 1],
        pairs=_find_interactions(response, X_dependence, names, varied[:_MAX_PAIRED_INPUTS]),
        groups=worst_groups(losses, values),
        rows=shown,
        attributions=_compute_attributions(model, X, [row.number for row in shown]),
    )


def _check_single_target(model: Model) -> None:
    if isinstance(model, KernelClassifier):
        has_several = model.multilabel_
    else:
        has_several = model.weights_.ndim == 2 and model.loss_.name != "quantile"
    if has_several:
        raise InputError(
            f"This model predicts {model.weights_.shape[1]} numbers a row; explain takes models of "
            "one target."
        )


def levels_of(model: Model) -> FloatArray:
    loss = model.loss_
    assert isinstance(loss, SmoothPinball)
    return loss.levels


def _group_trials(model: Model) -> list[Stage]:
    unit = parts_of(model.features_)[0].size_unit
    is_ridge = model.loss_.name == "squared" and model.l1_ratio == 0
    stages: dict[str, list[Trial]] = {}
    for trial in model.search_:
        # Files of older versions have no measure, or not even a stage.
        is_search = trial.get("stage", "search") == "search"
        measure = "least squares" if is_search or is_ridge else f"{model.loss_.name} loss"
        measure = trial.get("measure", measure)
        name = f"{trial['n_rows']:,} rows, {trial['size']} {unit}, {measure}"
        stages.setdefault(name, []).append(trial)
    return list(stages.items())


def _compute_metrics(
    model: Model, X: Rows, y: AnyArray, truth: AnyArray, predicted: FloatArray
) -> dict[str, Json]:
    """Return the number of rows and the metrics of ``gramless evaluate``.

    ``guess_error`` of a classifier is the error of always predicting the most frequent class. A
    model of several quantiles has no metrics besides the number of rows.
    """
    if isinstance(model, KernelClassifier):
        probabilities = predicted if has_probabilities(model) else None
        metrics = class_metrics(model, y, model.predict(X), probabilities)
        _, counts = np.unique(y, return_counts=True)
        return {"rows": len(y), **metrics, "guess_error": float(1.0 - counts.max() / len(y))}
    return {"rows": len(y)} | ({} if predicted.ndim > 1 else regression_metrics(truth, predicted))


def _score_predictions(
    model: Model, measure: Measure, X: Rows, y: AnyArray, predicted: FloatArray
) -> dict[str, dict[str, float]]:
    predictions = {
        "this model": predicted,
        "a linear model": linear_predictions(measure, model, X, y),
        f"a constant ({measure.constant_words})": measure.all_constant(y),
    }
    return {
        name: {measure.name: measure.error(y, values)} | measure.scores(y, values)
        for name, values in predictions.items()
        if values is not None
    }


def _measure_coverage(model: Model, X: Rows, y: AnyArray) -> list[tuple[float, float, float]]:
    """Return nominal coverage, observed coverage and mean width of prediction intervals.

    The result is empty if the model has no prediction intervals.
    """
    if isinstance(model, KernelClassifier) or (model.quantile_model_ or model).errors_ is None:
        return []
    rows = sample_rows(len(y), _COVERAGE_ROWS)
    X, y, results = take_rows(X, rows), y[rows], []
    for coverage in _COVERAGES:
        lower, upper = model.predict_interval(X, coverage)
        observed = float(np.mean((lower <= y) & (y <= upper)))
        results.append((coverage, observed, float(np.mean(upper - lower))))
    return results


def _describe_response(model: Model, predicted: FloatArray) -> tuple[str, list[str], Predictor]:
    """Return the name of the predicted quantity, the names of the outputs, and the predictor."""
    if not isinstance(model, KernelClassifier):
        if predicted.ndim == 1:
            return "prediction", [""], lambda X: model.predict(X)[:, None]
        levels = levels_of(model)
        shown = np.unique(np.round(np.linspace(0, len(levels) - 1, _MAX_OUTPUTS)).astype(int))
        names = [f"quantile {level:g}" for level in levels[shown]]
        return "predicted quantile", names, lambda X: model.predict(X)[:, shown]
    classes, is_probability = model.classes_, has_probabilities(model)
    if len(classes) == 2 and is_probability:
        return f"probability of {classes[1]}", [""], lambda X: model.predict_proba(X)[:, 1:]
    if len(classes) == 2:
        name = f"response (above 0 for {classes[1]}, below for {classes[0]})"
        return name, [""], lambda X: model.decision_function(X)[:, None]
    predicted_classes = predicted.argmax(axis=1) if is_probability else predicted
    counts = np.bincount(predicted_classes, minlength=len(classes))
    shown = np.sort(np.argsort(-counts, kind="stable")[:_MAX_OUTPUTS])
    names = [str(label) for label in classes[shown]]
    if is_probability:
        return "probability of a class", names, lambda X: model.predict_proba(X)[:, shown]
    return "response of a class", names, lambda X: model.decision_function(X)[:, shown]


def _columns_to_shuffle(X: Rows, response: Predictor, weights: FloatArray) -> list[int]:
    """Return the columns to shuffle: all of them if there are at most 30.

    Otherwise they are those with the largest weights or, if all weights are equal, those with the
    largest main effects.
    """
    if len(weights) <= _MAX_SHUFFLED:
        return list(range(len(weights)))
    if np.ptp(weights) == 0:
        responses = response(X)
        columns = [column_values(X, j)[0] for j in range(len(weights))]
        weights = np.array([main_effect(values, responses) for values in columns])
    return [int(j) for j in np.argsort(-weights, kind="stable")[:_MAX_SHUFFLED]]


def _shuffle_columns(measure: Measure, X: Rows, y: AnyArray, columns: list[int]) -> ShuffleResult:
    # scikit-learn's permutation_importance accepts neither sparse rows nor a Table, and shuffles
    # every column.
    def error(rows: Rows) -> float:
        return measure.error(y, measure.predict(rows))

    baseline = error(X)
    orders = [stream(0, "shuffled columns", k).permutation(len(y)) for k in range(_N_SHUFFLES)]
    increases = np.array(
        [
            [error(with_column_from(X, column, order)) - baseline for order in orders]
            for column in columns
        ]
    )
    by_mean = np.argsort(-increases.mean(axis=1), kind="stable")
    return ShuffleResult(baseline, len(y), np.array(columns)[by_mean], increases[by_mean])


def _find_interactions(
    response: Predictor, X: Rows, names: Sequence[str], columns: Sequence[int]
) -> list[JointDependence]:
    """Return the pairs of columns whose joint effects differ most from the sum of both effects."""
    X = take_rows(X, sample_rows(shape_of(X)[0], _PAIR_ROWS))
    variance = response(X).var(axis=0).max()
    pairs = [
        joint_dependence_on(response, X, pair, (names[pair[0]], names[pair[1]]))
        for pair in combinations(columns, 2)
    ]
    strong = [pair for pair in pairs if pair.interaction.max() > _MIN_INTERACTION * variance]
    return sorted(strong, key=lambda pair: -pair.interaction.max())[:_MAX_PAIRS]


def _select_rows(
    model: Model,
    losses: FloatArray,
    predicted: FloatArray,
    y: AnyArray,
    values: Mapping[str, AnyArray],
) -> list[ShownRow]:
    """Return two typical rows, the best and the three worst."""
    order, n_rows = np.argsort(losses, kind="stable"), len(losses)
    middle = order[int(0.4 * n_rows) : int(0.6 * n_rows) + 1]
    last_output = predicted[middle].reshape(len(middle), -1)[:, -1]
    by_prediction = middle[np.argsort(last_output, kind="stable")]
    chosen = [
        (by_prediction[int(part * (len(by_prediction) - 1))], "typical") for part in (0.2, 0.8)
    ]
    chosen += [(order[0], "best"), *((k, "worst") for k in order[:-4:-1])]
    kinds: dict[int, str] = {}
    for row, kind in chosen:
        kinds.setdefault(int(row), kind)
    has_one_output = model.weights_.ndim == 1
    rows = []
    for row, kind in kinds.items():
        value, output = predicted[row], 0
        if isinstance(model, KernelClassifier):
            class_index = int(value if value.ndim == 0 else value.argmax())
            true, text = str(y[row]), str(model.classes_[class_index])
            if value.ndim > 0:
                text += f" ({value[class_index]:.0%})"
            # Two classes have one raw prediction, others one for each class.
            output = 0 if has_one_output else class_index
        else:
            true = readable(float(y[row]))
            # Several quantiles are shown as a range, and explained by the middle one.
            ends = dict.fromkeys(np.ravel(value)[[0, -1]].tolist())
            text = " to ".join(map(readable, ends))
            if not has_one_output:
                output = int(np.abs(levels_of(model) - 0.5).argmin())
        inputs = [(name, value_text(column[row])) for name, column in values.items()]
        rows.append(ShownRow(row, kind, true, text, output, inputs))
    return rows


def _compute_attributions(model: Model, X: Rows, rows: Sequence[int]) -> Attributions | None:
    n_rows, n_columns = shape_of(X)
    if n_columns > _MAX_ATTRIBUTED:
        return None
    n_sampled = min(_PAIR_ROWS, max(_MIN_ATTRIBUTED_ROWS, _MAX_ATTRIBUTED_CELLS // n_columns))
    sample = sample_rows(n_rows, n_sampled)
    return shapley_values(model, take_rows(X, np.append(sample, rows)), take_rows(X, sample))


def value_text(value: object) -> str:
    if isinstance(value, float | np.number):
        return "missing" if np.isnan(value) else readable(float(value))
    return str(value) or "missing"
