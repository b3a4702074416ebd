"""What ``gramless explain`` finds out about a model, and its page: one file of HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, TypeAlias

import numpy as np
from markupsafe import Markup

import gramless
from gramless.base.errors import InputError
from gramless.base.formatting import sized
from gramless.base.types import AnyArray, FloatArray
from gramless.cli.charts import Bars, Chart, Series, bar_chart, key, line_chart
from gramless.cli.metrics import (
    class_metrics,
    comparable_labels,
    has_probabilities,
    regression_metrics,
)
from gramless.cli.report import number
from gramless.cli.summaries import bandwidth_of, features_of
from gramless.cli.svg import COLOURS, LIGHT, variables
from gramless.cli.templating import environment
from gramless.estimators.classifier import KernelClassifier
from gramless.estimators.regressor import KernelRegressor
from gramless.features.hybrid import parts_of
from gramless.inspection.explanation import (
    Dependence,
    GridUse,
    Predictor,
    Rows,
    column_values,
    dependence_on,
    input_columns,
    main_effect,
    model_grid_use,
    permutation_importance,
    sampled_rows,
    take_rows,
)

Model: TypeAlias = KernelClassifier | KernelRegressor
Trial: TypeAlias = Mapping[str, Any]
"""A line of the record of a search."""
Stage: TypeAlias = tuple[str, Sequence[Trial]]
"""A stage of a search: its name and its trials."""

_MOST_INPUTS, _MOST_DRAWN, _MOST_OUTPUTS = 30, 6, 5
_ROWS, _LEAST_ROWS, _NUMBERS = 2000, 250, 200_000
"""Rows whose columns are shuffled: at most, at least, and by the numbers in them."""
_DRAWN_ROWS = 500
_BEST, _PAIRS, _MOST_TICKS = 5, 12, 14
_TOO_FAR_APART = 4.0
"""Above this ratio of the scores a chart gets a logarithmic axis."""
_METRICS = {
    "rmse": "RMSE",
    "rmse_std": "RMSE in standard deviations of the target",
    "mae": "mean absolute error",
    "r2": "R2",
    "error": "share of wrong classes",
    "guess_error": "the same, always naming the most frequent class",
    "balanced_accuracy": "balanced accuracy",
    "log_loss": "log loss",
    "brier": "Brier score",
}
_GIVEN = "as given"
_WIDE, _NARROW = 760.0, 372.0


@dataclass(frozen=True)
class Shuffled:
    """Growth of the error when columns are shuffled, the most important column first.

    ``error`` is that of the ``n_rows`` rows as they are; ``increases`` has shape (n_columns,
    n_shuffles).
    """

    error_name: str
    error: float
    n_rows: int
    columns: AnyArray
    increases: FloatArray


@dataclass(frozen=True)
class Findings:
    """Everything that the page shows.

    ``places`` has the files ``model`` and ``data`` and the name of the ``target``; ``metrics`` are
    those of ``gramless evaluate``, with ``rows``. ``relevance`` is the largest among the inputs of
    a column. ``dependence`` has means of the ``response`` for each of the ``outputs``, whose name
    is empty if there is only one. ``scatter`` has true and predicted numbers of some rows.
    """

    model: Model
    places: dict[str, Any]
    stages: Sequence[Stage]
    metrics: dict[str, Any]
    names: Sequence[str]
    relevance: FloatArray
    use: GridUse
    shuffled: Shuffled
    response: str
    outputs: Sequence[str]
    dependence: Sequence[Dependence]
    scatter: Sequence[tuple[float, float]]


def findings(model: Model, X: Rows, y: AnyArray, places: dict[str, Any]) -> Findings:
    """Examine a model with rows and their labels."""
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
    scatter = list(zip(y[few], predicted[few], strict=True))
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
        [] if isinstance(model, KernelClassifier) else scatter,
    )


def _stages(model: Model) -> list[Stage]:
    """Return the stages of a model's search in order."""
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


def _metrics(model: Model, X: Rows, y: AnyArray, predicted: AnyArray) -> dict[str, Any]:
    if predicted.ndim > 1:
        raise InputError(
            f"This model predicts {predicted.shape[1]} numbers a row; explain takes models of one."
        )
    if not isinstance(model, KernelClassifier):
        return {"rows": len(y), **regression_metrics(y, predicted)}
    found = class_metrics(model, X, y, predicted)
    _, counts = np.unique(y, return_counts=True)
    return {"rows": len(y), **found, "guess_error": float(1.0 - counts.max() / len(y))}


def _response(model: Model, predicted: AnyArray) -> tuple[str, list[str], Predictor]:
    """Describe predictions, name the outputs shown, and return the function that gives them."""
    if not isinstance(model, KernelClassifier):
        return "prediction", [""], lambda X: model.predict(X)[:, None]
    classes, likely = model.classes_, has_probabilities(model)
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


def _promising(X: Rows, response: Predictor, weights: FloatArray) -> list[int]:
    """Return the columns to shuffle: all, or those of most weight or main effect."""
    if len(weights) <= _MOST_INPUTS:
        return list(range(len(weights)))
    if np.ptp(weights) == 0:
        responses = response(X)
        columns = [column_values(X, j)[0] for j in range(len(weights))]
        weights = np.array([main_effect(values, responses) for values in columns])
    return [int(j) for j in np.argsort(-weights, kind="stable")[:_MOST_INPUTS]]


def _shuffle(model: Model, X: Rows, y: AnyArray, columns: list[int]) -> Shuffled:
    def error(rows: Rows) -> float:
        predicted = model.predict(rows)
        if not isinstance(model, KernelClassifier):
            return regression_metrics(y, predicted)["rmse"]
        truth, classes = comparable_labels(y, model.classes_)
        return float(np.mean(classes[np.searchsorted(model.classes_, predicted)] != truth))

    increases = permutation_importance(error, X, columns)
    order = np.argsort(-increases.mean(axis=1), kind="stable")
    name = "share of wrong classes" if isinstance(model, KernelClassifier) else "RMSE"
    return Shuffled(name, error(X), len(y), np.array(columns)[order], increases[order])


def page(found: Findings) -> str:
    """Return a page of HTML that is also well-formed XML."""
    templates = environment("gramless.cli")
    templates.filters["number"] = number
    templates.globals.update(
        bar_chart=bar_chart, line_chart=line_chart, key=key, variables=variables
    )
    model = found.model
    return templates.get_template("explain.html").render(
        **vars(found) | _searched(found) | _inputs(found) | _error_and_size(found),
        version=gramless.__version__,
        kind=type(model).__name__,
        is_classifier=isinstance(model, KernelClassifier),
        choices=_choices(found),
        dependences=_dependences(found),
    )


def _choices(found: Findings) -> list[tuple[str, str, str]]:
    """Return hyperparameters, their values and the reasons for them."""
    model, settings, counts = found.model, found.model.settings_, found.use.counts
    by = "" if model.scorer_ == "loss" else f", by {model.scorer_}"
    best = f"best on held-back rows{by}" if model.search_ else "by rule: too few rows to compare"
    each = f"{counts.mean():.1f} inputs on average" if found.use.selective else "all inputs"
    equal = "weights were not tried, or did not help enough"
    by_rule = "by rule: logistic for classes where grids are grown, else squared"
    return [
        ("scaling", settings.scaling, best if model.scaling == "auto" else _GIVEN),
        ("bandwidth", bandwidth_of(model), best if model.bandwidth == "auto" else _GIVEN),
        ("alpha", number(model.alpha_), best if model.alpha == "auto" else _GIVEN),
        ("inputs", "all alike", _GIVEN if model.relevance == "equal" else equal)
        if settings.relevance is None
        else ("inputs", "weighed by relevance", best),
        ("features", features_of(model), f"each of {each}"),
        ("loss", model.loss_.name, by_rule if model.loss == "auto" else _GIVEN),
        ("solver", f"{model.status_} after {model.n_iter_} iterations", model.solver_reason_),
    ]


def _searched(found: Findings) -> dict[str, object]:
    """Return the trials of the search and the learning curve."""
    model, growth = found.model, vars(found.model).get("growth_") or []
    last = found.stages[-1][1] if found.stages else []
    return {
        "stages": [_trials(*stage, model) for stage in found.stages],
        "best_trials": sorted(last, key=lambda trial: trial["score"])[:_BEST],
        "growth": growth,
        "curve": _learning_curve(model, growth, found.stages),
    }


def _trials(name: str, trials: Sequence[Trial], model: Model) -> Chart:
    """Chart the scores of one stage of the search by bandwidth, or by alpha if only it varies."""
    several = len({trial["bandwidth"] for trial in trials}) > 1
    key_of = "bandwidth" if several else "alpha"
    groups: dict[str, list[tuple[float, float]]] = {}
    for trial in trials:
        group = f"{trial['scaling']} scaling, {trial['relevance']} relevance"
        groups.setdefault(group, []).append((_rounded(trial[key_of]), trial["score"]))
    series = []
    for colour, (group, points) in zip(cycle(COLOURS), groups.items(), strict=False):
        best = {at: min(score for place, score in points if place == at) for at, _ in points}
        series.append(_dots(points, colour))
        series.append(_joined(group, sorted(best.items()), colour))
    settings = model.settings_
    relevance = "equal" if settings.relevance is None else "learned"
    chosen = (settings.scaling, settings.bandwidth, relevance)
    scores = [
        (trial["score"], trial[key_of])
        for trial in trials
        if (trial["scaling"], trial["bandwidth"], trial["relevance"]) == chosen
    ]
    if scores:
        score, at = min(scores)
        ring = {"marker": "o", "markersize": 14.0, "fillstyle": "none", "color": LIGHT["ink"]}
        series.append(Series([at], [score], ring))
    places = sorted({_rounded(trial[key_of]) for trial in trials})
    # Tried along a geometric path: there is room for the names of all.
    named = places[:: 1 + len(places) // _MOST_TICKS]
    return Chart(
        name,
        "bandwidth; the best alpha of each is joined" if several else "alpha",
        "score on held-back rows",
        series,
        x_log=True,
        y_log=_is_wide([trial["score"] for trial in trials]),
        x_ticks={at: f"{at:.3g}" for at in named},
    )


def _rounded(value: float) -> float:
    """Return a bandwidth or alpha without the rounding errors of how it was reached."""
    return float(f"{value:.6g}")


def _is_wide(scores: Sequence[float]) -> bool:
    return min(scores) > 0 and max(scores) > _TOO_FAR_APART * min(scores)


def _joined(name: str, points: Sequence[tuple[float, float]], colour: str = COLOURS[0]) -> Series:
    look = {"marker": "o", "markersize": 5.6, "markeredgewidth": 0.0, "linewidth": 1.8}
    x, y = zip(*points, strict=True)
    return Series(x, y, {**look, "color": colour}, name)


def _dots(points: Sequence[tuple[float, float]], colour: str) -> Series:
    look = {"color": colour, "alpha": 0.45, "linewidth": 4.4, "solid_capstyle": "round"}
    x, y = zip(*points, strict=True)
    return Series(x, y, look, is_dots=True)


def _learning_curve(model: Model, growth: Sequence[Trial], stages: Sequence[Stage]) -> Chart:
    """Chart the growth of grids, else the best trial of the search, else the final solve."""
    searched = stages[-1][1] if stages else [{"curve": [], "score": 0.0}]
    best = min(searched, key=lambda trial: trial["score"])
    if growth:
        along, what = "grids", "error on held-back rows"
        points = [(float(stage["n_grids"]), stage["score"]) for stage in growth]
    elif len(best["curve"]) > 2:
        along, what = "iteration", "score on held-back rows"
        steps = [4.0 * (k + 1) for k in range(len(best["curve"]) - 1)] + [float(best["n_iter"])]
        points = list(zip(steps, best["curve"], strict=True))
    else:
        along, what = "iteration", "objective"
        points = [(float(k), step["objective"]) for k, step in enumerate(model.history_)]
    wide = _is_wide([value for _, value in points])
    return Chart("", along, what, [_joined("", points)], y_log=wide)


def _inputs(found: Findings) -> dict[str, object]:
    """Return the bars of shuffled inputs and of pairs that share grids."""
    shuffled, use = found.shuffled, found.use
    mean, spread = shuffled.increases.mean(axis=1), shuffled.increases.std(axis=1)
    texts = [f"{m:.3g} ± {s:.2g}" for m, s in zip(mean, spread, strict=True)]
    columns = [Bars(f"{shuffled.error_name} grows by", mean.tolist(), texts)]
    relevance, share = found.relevance[shuffled.columns], use.share[shuffled.columns]
    is_learned = bool(np.ptp(found.relevance) > 0)
    if is_learned:
        shown = [number(weight) for weight in relevance]
        columns.append(Bars("learned relevance", relevance.tolist(), shown, colour=COLOURS[1]))
    if use.selective:
        shown = [f"{part:.0%}" for part in share]
        columns.append(Bars("weight of its grids", share.tolist(), shown, colour=COLOURS[2]))
    pairs = use.pairs[:_PAIRS]
    weights = [weight for _, _, weight in pairs]
    return {
        "shuffled_names": [found.names[j] for j in shuffled.columns],
        "input_bars": columns,
        "is_relevance_learned": is_learned,
        "pair_names": [f"{found.names[i]} × {found.names[j]}" for i, j, _ in pairs],
        "pair_bars": [Bars("weight of shared grids", weights, [f"{w:.1%}" for w in weights])],
    }


def _dependences(found: Findings) -> list[Chart | Markup]:
    """Return charts for numerical inputs and bars for categorical ones."""
    means = [float(value) for one in found.dependence for value in one.means.ravel()]
    return [
        _dependence_chart(one, found.outputs, min(means), max(means))
        if one.values.dtype.kind == "f"
        else _category_bars(one, found.outputs)
        for one in found.dependence
    ]


def _category_bars(one: Dependence, outputs: Sequence[str]) -> Markup:
    middle = np.average(one.means, axis=0, weights=one.shares)
    reach = one.means.ravel().tolist()
    columns = [
        Bars(name or "mean", means, [f"{value:.3g}" for value in means], base, reach, colour)
        for name, means, base, colour in zip(
            outputs, one.means.T.tolist(), middle.tolist(), cycle(COLOURS), strict=False
        )
    ]
    labels = [value or "(missing)" for value in one.values]
    return bar_chart(one.name, labels, columns, _NARROW if len(outputs) == 1 else _WIDE)


def _dependence_chart(one: Dependence, outputs: Sequence[str], low: float, high: float) -> Chart:
    series = [
        _joined(name, list(zip(one.shares.tolist(), means.tolist(), strict=True)), colour)
        for name, means, colour in zip(outputs, one.means.T, cycle(COLOURS), strict=False)
    ]
    # The values nearest to the quartiles are named.
    named = sorted({int(np.abs(one.shares - part).argmin()) for part in np.linspace(0, 1, 5)})
    ticks = {float(one.shares[k]): number(float(one.values[k])) for k in named}
    return Chart(one.name, "", "", series, x_held=(0.0, 1.0), y_held=(low, high), x_ticks=ticks)


def _error_and_size(found: Findings) -> dict[str, object]:
    model, metrics = found.model, found.metrics
    sizes = {
        "features": features_of(model),
        "weights": f"{model.coef_.size:,}",
        "model file": sized(found.places["model"].stat().st_size),
    }
    shown = [(name, number(metrics[key])) for key, name in _METRICS.items() if key in metrics]
    return {
        "errors": [("rows", f"{metrics['rows']:,}"), *shown],
        "scatter": _scatter(found.scatter),
        "sizes": list(sizes.items()),
    }


def _scatter(points: Sequence[tuple[float, float]]) -> Chart | None:
    if not points:
        return None
    true, predicted = zip(*points, strict=True)
    ends = [min(true + predicted), max(true + predicted)]
    diagonal = Series(ends, ends, {"color": LIGHT["base"], "dashes": (4.0, 3.0)})
    title = f"Predicted against true numbers, {len(true):,} rows"
    return Chart(title, "true", "predicted", [diagonal, _dots(points, COLOURS[0])])
