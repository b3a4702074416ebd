"""The page of ``gramless explain``: one file of HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np

from gramless.base.formatting import sized
from gramless.base.types import AnyArray, FloatArray
from gramless.cli.charts import (
    Cell,
    Chart,
    Columns,
    Series,
    ShadedTable,
    aligned,
    bar_cells,
    heat_map,
    readable,
)
from gramless.cli.explanation_findings import Findings, Model, Stage, Trial, levels_of, value_text
from gramless.cli.summaries import bandwidth_of, features_of
from gramless.cli.svg import COLOURS, LIGHT, cut
from gramless.cli.templating import LONGEST_NAME, render
from gramless.estimators.classifier import KernelClassifier
from gramless.inspection.explanation import Dependence, JointDependence, sampled_rows

_MOST_BARS, _INPUTS_OF_ROW, _MOST_CLASSES = 15, 6, 12
_GROUPS, _POINTS = 10, 500
_SLIGHT = 0.01
"""Of the growth of the error by the most important input; the text names no input below this."""
_BEST, _MOST_TICKS, _GRID_PAIRS = 5, 14, 6
_TOO_FAR_APART = 4.0
"""Above this ratio of the scores a chart gets a logarithmic axis."""
_GIVEN = "as given"
_SHARE = "share"
_DIAGONAL = {"color": LIGHT["base"], "dashes": (4.0, 3.0)}


def page(found: Findings) -> str:
    """Return the page."""
    model = found.model
    return render(
        "explain.html",
        **vars(found) | _performance(found) | _drivers(found) | _searched(found),
        kind=type(model).__name__,
        is_classifier=isinstance(model, KernelClassifier),
        dependences=_dependences(found),
        maps=[_pair_map(one, found.outputs) for one in found.pairs],
        failures=_failures(found),
        cards=[(row, _row_table(found, k)) for k, row in enumerate(found.rows)],
        raw=_raw_words(model),
        base=_base(found),
        choices=_choices(found),
    )


def _performance(found: Findings) -> dict[str, object]:
    """Return how good the predictions are: a table, charts and further tables."""
    main, scores = found.measure.name, found.scores.values()
    error, *others = errors = [own[main] for own in scores]
    columns: Columns = {"predicted by": list(found.scores)}
    for metric in found.scores["this model"]:
        columns[metric] = [readable(own[metric]) for own in scores]
    columns[main] = bar_cells(errors, list(map(readable, errors)))
    charts = _error_charts(found)
    return {
        "comparison": ShadedTable.of(columns),
        "error": error,
        "compared": [
            f"{_compared(error, other)} {name}"
            for other, name in zip(others, list(found.scores)[1:], strict=True)
        ],
        "error_charts": [chart for chart in charts if chart.has_course],
        "error_tables": _error_tables(found),
        "spread": _spread(found),
    }


def _compared(error: float, other: float) -> str:
    if not other > 0.0 or not np.isfinite(other):
        return f"against {readable(other)} of"
    change = error / other - 1.0
    return f"{abs(change):.0%} {'less' if change < 0.0 else 'more'} than that of"


def _error_charts(found: Findings) -> list[Chart]:
    y, predicted = found.y, found.predicted
    if isinstance(found.model, KernelClassifier):
        if predicted.ndim == 1:
            return []
        if predicted.shape[1] == 2:
            label = str(found.model.classes_[1])
            title = f"How often it is {label}, by the probability told"
            return [_tenths(title, _SHARE, "predicted probability", predicted[:, 1], y == 1)]
        title = "How often the predicted class is right, by its probability"
        return [_reliability(title, found.metrics["reliability"])]
    if predicted.ndim == 2:
        levels = levels_of(found.model)
        below = np.mean(y[:, None] <= predicted, axis=0)
        line = _joined("", levels.tolist(), below.tolist())
        title = "Rows below each predicted quantile"
        return [Chart(title, "quantile", "share of the rows below it", [_diagonal([0, 1]), line])]
    return [
        _scatter(y, predicted),
        _tenths(
            "Mean of the actual values, by tenths of the rows", "actual", "predicted", predicted, y
        ),
    ]


def _diagonal(ends: Sequence[float]) -> Series:
    return Series(ends, ends, _DIAGONAL, "as predicted")


def _scatter(y: AnyArray, predicted: FloatArray) -> Chart:
    few = sampled_rows(len(y), _POINTS)
    across, up = predicted[few].tolist(), y[few].tolist()
    ends = [min(across + up), max(across + up)]
    of_all = "" if len(few) == len(y) else f" of {len(y):,}"
    title = f"Actual against predicted values, {len(few):,}{of_all} rows"
    points = _dots(across, up, COLOURS[0])
    return Chart(title, "predicted", "actual", [_diagonal(ends), points])


def _tenths(title: str, up: str, along: str, predicted: FloatArray, observed: AnyArray) -> Chart:
    """Chart what came true against what was predicted, in groups of rows of equal size."""
    parts = np.array_split(np.argsort(predicted, kind="stable"), min(_GROUPS, len(observed)))
    x = [float(predicted[own].mean()) for own in parts]
    y = [float(observed[own].mean()) for own in parts]
    errors = [float(observed[own].std()) / len(own) ** 0.5 for own in parts]
    return _against_diagonal(title, along, up, x, y, errors)


def _reliability(title: str, tenths: Sequence[Mapping[str, float]]) -> Chart:
    """Chart how often probabilities were right, in groups of rows of like probability."""
    x, y = ([own[key] for own in tenths] for key in ("predicted", "observed"))
    errors = [(at * (1.0 - at) / own["rows"]) ** 0.5 for at, own in zip(x, tenths, strict=True)]
    return _against_diagonal(title, "predicted probability", _SHARE, x, y, errors)


def _against_diagonal(
    title: str,
    along: str,
    up: str,
    x: Sequence[float],
    y: Sequence[float],
    errors: Sequence[float],
) -> Chart:
    """Chart what came true against what was predicted, with two standard errors to both sides."""
    bars = [
        (at, height + sign * error)
        for at, height, error in zip(x, y, errors, strict=True)
        for sign in (-2.0, 2.0, np.nan)
    ]
    across, heights = np.array(bars).T
    if up == _SHARE:
        heights = np.clip(heights, 0.0, 1.0)
    look = {"color": COLOURS[0], "alpha": 0.45, "linewidth": 4.0}
    spread = Series(across, heights, look, "two standard errors")
    line = _joined("", x, y)
    return Chart(title, along, up, [_diagonal([min(x), max(x)]), spread, line])


def _error_tables(found: Findings) -> list[ShadedTable]:
    """Return how often intervals hold, or which classes are taken for which."""
    if found.coverage:
        asked, held, widths = zip(*found.coverage, strict=True)
        intervals: Columns = {
            "intervals for": [f"{share:.0%}" for share in asked],
            "actual values inside": list(map(_share, held)),
            "mean width": list(map(readable, widths)),
        }
        return [ShadedTable.of(intervals, "Prediction intervals")]
    if not isinstance(found.model, KernelClassifier):
        return []
    classes = found.metrics["classes"]
    tables = []
    if "confusion" in found.metrics:
        tables.append(
            _confusion([str(own["class"]) for own in classes], found.metrics["confusion"])
        )
    worst = sorted(classes, key=lambda own: own["f1"])[:_MOST_CLASSES]
    columns: Columns = {
        "class": [str(own["class"]) for own in worst],
        "rows": [f"{own['rows']:,}" for own in worst],
        "found (recall)": [_share(own["recall"]) for own in worst],
        "right when named (precision)": [_share(own["precision"]) for own in worst],
    }
    is_all = len(worst) == len(classes)
    title = "Classes" if is_all else f"The {len(worst)} worst of {len(classes)} classes"
    return [*tables, ShadedTable.of(columns, title)]


def _share(value: float) -> Cell:
    return Cell(f"{value:.1%}", 0.0, value)


def _confusion(names: Sequence[str], counts: Sequence[Sequence[int]]) -> ShadedTable:
    """Return the actual by the predicted classes, mistakes in a colour of their own."""
    rows = []
    for k, (name, own) in enumerate(zip(names, counts, strict=True)):
        total = max(1, sum(own))
        cells = [
            Cell(
                f"{count:,}",
                0.0,
                float(count > 0),
                "c0" if j == k else "c1",
                (count / total) ** 0.5,
            )
            for j, count in enumerate(own)
        ]
        rows.append((name, cells))
    return ShadedTable("Actual class (rows) by predicted class", ["", *names], rows, is_map=True)


def _middle(model: Model, predicted: FloatArray) -> FloatArray:
    """Return predicted numbers, of several quantiles the one nearest to the median."""
    if predicted.ndim == 1:
        return predicted
    return np.asarray(predicted[:, np.abs(levels_of(model) - 0.5).argmin()])


def _spread(found: Findings) -> tuple[float, float] | None:
    """Return by how much half and nine tenths of predicted numbers are off at most."""
    if isinstance(found.model, KernelClassifier):
        return None
    off = np.abs(found.y - _middle(found.model, found.predicted))
    half, most = np.quantile(off, [0.5, 0.9])
    return float(half), float(most)


def _drivers(found: Findings) -> dict[str, object]:
    """Return the bars of shuffled inputs."""
    shuffled = found.shuffled
    mean, spread = shuffled.increases.mean(axis=1), shuffled.increases.std(axis=1)
    names = [found.names[j] for j in shuffled.columns]
    texts = [f"{readable(m, 3)} ± {readable(s, 2)}" for m, s in zip(mean, spread, strict=True)]
    columns: Columns = {"input": names}
    growth = bar_cells(np.maximum(mean, 0.0).tolist(), texts)
    columns[f"growth of the {found.measure.name} when shuffled"] = growth
    if found.attributions is not None:
        effects = np.abs(found.attributions.values[: -len(found.rows)])
        means = effects.reshape(*effects.shape[:2], -1).mean(axis=(0, 2))[shuffled.columns]
        texts = [readable(value, 3) for value in means.tolist()]
        columns["mean effect on a prediction"] = bar_cells(means.tolist(), texts, "c2")
    shown = {head: cells[:_MOST_BARS] for head, cells in columns.items()}
    return {
        "shuffled_names": names,
        "matter": [
            name for name, own in zip(names, mean, strict=True) if own > max(0.0, _SLIGHT * mean[0])
        ],
        "importance": ShadedTable.of(shown),
    }


def _dependences(found: Findings) -> list[Chart | ShadedTable]:
    """Return charts for numerical inputs and tables for categorical ones."""
    numbers = [one for one in found.dependence if one.values.dtype.kind == "f"]
    means = [float(value) for one in numbers for value in _inner(one).means.ravel()]
    return [
        _dependence_chart(_inner(one), found.outputs, [min(means), max(means)])
        if one.values.dtype.kind == "f"
        else _category_table(one, found.outputs, found.response)
        for one in found.dependence
    ]


def _inner(one: Dependence) -> Dependence:
    """Leave out the least and the largest of many numbers, which are hardly ever met."""
    if len(one.values) < _GROUPS:
        return one
    return Dependence(one.name, one.values[1:-1], one.shares[1:-1], one.means[1:-1])


def _category_table(one: Dependence, outputs: Sequence[str], response: str) -> ShadedTable:
    labels, caption = list(map(value_text, one.values)), cut(one.name, LONGEST_NAME)
    if len(outputs) > 1:
        return heat_map(caption, labels, outputs, one.means)
    middle = float(np.average(one.means[:, 0], weights=one.shares))
    columns: Columns = {
        "": labels,
        "rows": [f"{share:.0%}" for share in one.shares],
        f"mean {response}": aligned(one.means[:, 0]),
        "from the average": bar_cells((one.means[:, 0] - middle).tolist()),
    }
    return ShadedTable.of(columns, caption)


def _dependence_chart(one: Dependence, outputs: Sequence[str], held: Sequence[float]) -> Chart:
    values = one.values.tolist()
    series = [
        _joined(name, values, means.tolist(), colour)
        for name, means, colour in zip(outputs, one.means.T, cycle(COLOURS), strict=False)
    ]
    marks = {"marker": "|", "markersize": 8.0, "linestyle": "none", "color": LIGHT["base"]}
    tenths = values[1::2] if len(values) > _GROUPS else values
    series.append(Series(tenths, [held[0]] * len(tenths), marks))
    far = values[0] > 0.0 and values[-1] > 30.0 * values[0]
    return Chart(cut(one.name, LONGEST_NAME), "", "", series, x_log=far, y_held=held)


def _pair_map(one: JointDependence, outputs: Sequence[str]) -> ShadedTable:
    """Map the output of a pair of inputs in which they do most together."""
    output = int(one.interaction.argmax())
    down, across = ([value_text(value) for value in own] for own in one.values)
    of_what = f": {outputs[output]}" if outputs[output] else ""
    down_name, across_name = (cut(name, LONGEST_NAME) for name in one.names)
    caption = f"{down_name} (down) and {across_name} (across){of_what}"
    return heat_map(caption, down, across, one.means[:, :, output])


def _failures(found: Findings) -> ShadedTable | None:
    """Return the groups with the largest errors, and which way predictions are off there."""
    if not found.groups:
        return None
    groups = {group.words: group.rows for group in found.groups}
    groups = {"all rows": np.arange(len(found.y))} | groups
    overall = found.scores["this model"][found.measure.name]
    errors = [overall, *(found.measure.shown(group.loss) for group in found.groups)]
    off = "wrong" if isinstance(found.model, KernelClassifier) else "off on average"
    columns: Columns = {
        "group": list(groups),
        found.measure.name: bar_cells(errors, list(map(readable, errors)), "c1"),
        "rows": [f"{len(rows):,} ({len(rows) / len(found.y):.0%})" for rows in groups.values()],
        off: [_bias(found, rows) for rows in groups.values()],
    }
    return ShadedTable.of(columns)


def _bias(found: Findings, rows: AnyArray) -> str:
    """Tell which way predictions of some rows are off."""
    y, predicted = found.y[rows], found.predicted[rows]
    if isinstance(found.model, KernelClassifier):
        chosen = predicted if predicted.ndim == 1 else predicted.argmax(axis=1)
        return f"{np.mean(chosen != y):.1%}"
    gap = float(np.mean(y - _middle(found.model, predicted)))
    return f"{readable(abs(gap), 3)} too {'low' if gap > 0 else 'high'}"


def _row_table(found: Findings, k: int) -> ShadedTable:
    """Return what the inputs of a row hold, and how far they move its raw prediction."""
    row, told = found.rows[k], found.attributions
    if told is None:
        rows = [(name, [Cell(text)]) for name, text in row.inputs[:_INPUTS_OF_ROW]]
        return ShadedTable("", [], rows)
    at = k - len(found.rows)
    values = told.values[at].reshape(len(found.names), -1)[:, row.output]
    order = np.argsort(-np.abs(values), kind="stable")
    chosen, others = order[:_INPUTS_OF_ROW], order[_INPUTS_OF_ROW:]
    effects, names = values[chosen].tolist(), [found.names[j] for j in chosen]
    held = [value_text(told.data[at, j]) for j in chosen]
    if len(others):
        effects.append(float(values[others].sum()))
        names.append(f"{len(others)} more" if len(others) > 1 else found.names[others[0]])
        held.append("" if len(others) > 1 else value_text(told.data[at, others[0]]))
    texts = [f"{'+' if effect > 0 else ''}{readable(effect, 3)}" for effect in effects]
    columns: Columns = {"input": names, "value": held, "effect": texts, "": bar_cells(effects)}
    return ShadedTable.of(columns)


def _base(found: Findings) -> str:
    """Return the mean raw prediction that effects start from; empty where rows differ in it."""
    if found.attributions is None or isinstance(found.model, KernelClassifier):
        return ""
    return readable(float(np.ravel(found.attributions.base_values[-1])[found.rows[-1].output]))


def _raw_words(model: Model) -> str:
    """Say what effects add up to."""
    if isinstance(model, KernelClassifier):
        if model.loss_.name == "logistic":
            return f"log odds of {model.classes_[1]}"
        if model.weights_.ndim == 1:
            return f"raw prediction, which is larger for {model.classes_[-1]}"
        return "raw prediction of the named class"
    if model.loss_.has_positive_means:
        return "logarithm of the prediction"
    return "prediction" if model.weights_.ndim == 1 else "predicted middle quantile"


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
        ("alpha", readable(model.alpha_), best if model.alpha == "auto" else _GIVEN),
        ("inputs", "all alike", _GIVEN if model.relevance == "equal" else equal)
        if settings.relevance is None
        else ("inputs", "weighed by relevance", best),
        ("features", features_of(model), f"each of {each}"),
        ("loss", model.loss_.name, by_rule if model.loss == "auto" else _GIVEN),
        ("solver", f"{model.status_} after {model.n_iter_} iterations", model.solver_reason_),
        ("weights", f"{model.weights_.size:,}", ""),
        ("model file", sized(found.places["model"].stat().st_size), ""),
    ]


def _searched(found: Findings) -> dict[str, object]:
    """Return the trials of the search, the learning curve, and which inputs grids use together."""
    model, growth, use = found.model, vars(found.model).get("growth_") or [], found.use
    last = found.stages[-1][1] if found.stages else []
    names = [cut(name, LONGEST_NAME) for name in found.names]
    curve = _learning_curve(model, growth, found.stages)
    stages = [_trials(*stage, model) for stage in found.stages]
    return {
        "stages": [chart for chart in stages if chart.has_course],
        "best_trials": sorted(last, key=lambda trial: trial["score"])[:_BEST],
        "growth": growth,
        "curve": curve if curve.has_course else None,
        "grid_pairs": [
            f"{names[i]} × {names[j]} ({weight:.0%})" for i, j, weight in use.pairs[:_GRID_PAIRS]
        ],
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
        x, y = zip(*points, strict=True)
        series.append(_dots(x, y, colour))
        x, y = zip(*sorted(best.items()), strict=True)
        series.append(_joined(group, x, y, colour))
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


def _joined(name: str, x: Sequence[float], y: Sequence[float], colour: str = COLOURS[0]) -> Series:
    look = {"marker": "o", "markersize": 5.6, "markeredgewidth": 0.0, "linewidth": 1.8}
    return Series(x, y, {**look, "color": colour}, name)


def _dots(x: Sequence[float], y: Sequence[float], colour: str) -> Series:
    look = {"color": colour, "alpha": 0.45, "linewidth": 4.4, "solid_capstyle": "round"}
    return Series(x, y, look, is_dots=True)


def _learning_curve(model: Model, growth: Sequence[Trial], stages: Sequence[Stage]) -> Chart:
    """Chart the growth of grids, else the best trial of the search, else the final solve."""
    searched = stages[-1][1] if stages else [{"curve": [], "score": 0.0}]
    best = min(searched, key=lambda trial: trial["score"])
    if growth:
        along, what = "grids", "error on held-back rows"
        x = [float(stage["n_grids"]) for stage in growth]
        y = [stage["score"] for stage in growth]
    elif len(best["curve"]) > 2:
        along, what = "iteration", "score on held-back rows"
        x = [4.0 * (k + 1) for k in range(len(best["curve"]) - 1)] + [float(best["n_iter"])]
        y = best["curve"]
    else:
        along, what = "iteration", "objective"
        y = [step["objective"] for step in model.history_]
        x = list(map(float, range(len(y))))
    return Chart("", along, what, [_joined("", x, y)], y_log=_is_wide(y))
