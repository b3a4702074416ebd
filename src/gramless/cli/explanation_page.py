"""The HTML page of ``gramless explain``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from gramless.base.formatting import format_bytes
from gramless.base.types import AnyArray, FloatArray
from gramless.cli.explanation_findings import Findings, Model, Stage, Trial, levels_of, value_text
from gramless.cli.figures import use_log_if_wide
from gramless.cli.pages import (
    COLOURS,
    GREY,
    Card,
    Cell,
    Chart,
    Columns,
    Grid,
    Heading,
    Note,
    Part,
    Section,
    ShadedTable,
    align_numbers,
    bar_cells,
    chart_style,
    heat_map,
    readable,
    render_page,
)
from gramless.cli.summaries import bandwidth_of, features_of
from gramless.estimators.classifier import KernelClassifier
from gramless.inspection.explanation import Dependence, JointDependence, sample_rows

_MAX_BARS, _INPUTS_PER_ROW, _MAX_CLASSES = 15, 6, 12
_N_GROUPS, _N_POINTS = 10, 500  # groups of rows in charts of means, rows in scatter charts
_MIN_IMPORTANCE = 0.01  # share of the largest importance; the text names only inputs above it
_N_BEST_TRIALS, _MAX_GRID_PAIRS = 5, 6
_GIVEN = "as given"
_LINE: dict[str, Any] = {"marker": "o", "markersize": 4.5, "linewidth": 1.6}


@chart_style
def render_explanation_page(findings: Findings) -> str:
    places, n_rows = findings.places, findings.metrics["rows"]
    target = f" for {places['target']}" if places["target"] else ""
    title = f"What {places['model'].name} has learned"
    note = (
        f"{type(findings.model).__name__}{target}, evaluated on {n_rows:,} rows of "
        f"{places['data'].name}. Errors on training rows are smaller than on new rows. "
        "Written by"
    )
    sections = [
        _performance_section(findings),
        _drivers_section(findings),
        _dependences_section(findings),
        _failures_section(findings),
        _rows_section(findings),
        _history_section(findings),
    ]
    return render_page(title, title, note, sections)


def _performance_section(findings: Findings) -> Section:
    measure, scores, metrics = findings.measure.name, findings.scores.values(), findings.metrics
    errors = [score[measure] for score in scores]
    columns: Columns = {"predicted by": list(findings.scores)}
    for metric in findings.scores["this model"]:
        columns[metric] = [readable(score[metric]) for score in scores]
    columns[measure] = bar_cells(errors, list(map(readable, errors)))
    text = ""
    if isinstance(findings.model, KernelClassifier):
        text = (
            f"{metrics['error']:.2%} of the predicted classes are wrong. Always predicting the "
            f"most frequent class would be wrong in {metrics['guess_error']:.2%}. "
        )
    else:
        deviations = np.abs(findings.y - _middle_quantile(findings.model, findings.predicted))
        median, tail = map(readable, np.quantile(deviations, [0.5, 0.9]).tolist())
        text = (
            f"Half of the predictions are off by less than {median}, nine of ten by less than "
            f"{tail}. "
        )
    comparisons = []
    for name, error in zip(list(findings.scores)[1:], errors[1:], strict=True):
        if error > 0.0 and np.isfinite(error):
            change = errors[0] / error - 1.0
            less_or_more = "less" if change < 0.0 else "more"
            comparisons.append(f"{abs(change):.0%} {less_or_more} than that of {name}")
        else:
            # No share of such an error can be stated.
            comparisons.append(f"against {readable(error)} of {name}")
    text += f"The {measure} is {readable(errors[0])}: {', and '.join(comparisons)}."
    note = "The constant is the best one for these rows."
    if len(comparisons) > 1:
        note += " The linear model is evaluated by five-fold cross-validation on these rows."
    pictures = Grid([*_draw_errors(findings), *_error_tables(findings)])
    parts: list[Part] = [text, ShadedTable.of(columns), Note(note), pictures]
    return Section("good", "How good are the predictions?", parts)


def _draw_errors(findings: Findings) -> list[Chart]:
    y, predicted = findings.y, findings.predicted
    if isinstance(findings.model, KernelClassifier):
        if predicted.ndim == 1:
            return []
        if predicted.shape[1] == 2:
            title = f"Share of {findings.model.classes_[1]} by predicted probability"
            groups = _group_by_prediction(predicted[:, 1], y == 1)
        else:
            title = "Share of correct predictions by probability of the predicted class"
            bins = findings.metrics["reliability"]
            x, observed, n_rows = (
                np.array([bin_[key] for bin_ in bins]) for key in ("predicted", "observed", "rows")
            )
            groups = x, observed, np.sqrt(x * (1.0 - x) / n_rows)
        return _draw_against_diagonal(title, "predicted probability", "share", *groups)
    if predicted.ndim == 2:
        levels = levels_of(findings.model)
        below = np.mean(y[:, None] <= predicted, axis=0)
        title = "Share of rows below each predicted quantile"
        zeros = np.zeros(len(levels))
        return _draw_against_diagonal(
            title, "quantile", "share of the rows below it", levels, below, zeros
        )
    if len(np.unique(predicted)) < 3:
        return []
    sample = sample_rows(len(y), _N_POINTS)
    of_all = "" if len(sample) == len(y) else f" of {len(y):,}"
    title = f"Actual against predicted values, {len(sample):,}{of_all} rows"
    scatter = Chart(title, "predicted", "actual")
    _draw_diagonal(scatter.axes, np.append(y[sample], predicted[sample]))
    scatter.axes.plot(predicted[sample], y[sample], ".", color=COLOURS[0], alpha=0.45)
    title = "Mean actual value by tenths of the predictions"
    means = _draw_against_diagonal(
        title, "predicted", "actual", *_group_by_prediction(predicted, y)
    )
    return [scatter, *means]


def _draw_diagonal(axes: Axes, values: AnyArray) -> None:
    ends = [float(values.min()), float(values.max())]
    axes.plot(ends, ends, "--", color=GREY, label="as predicted")


def _group_by_prediction(
    predicted: FloatArray, observed: AnyArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean predictions and targets of ten groups of rows with similar predictions.

    The third array has the standard errors of the mean targets.
    """
    order = np.argsort(predicted, kind="stable")
    groups = np.array_split(order, min(_N_GROUPS, len(observed)))
    statistics = [
        (predicted[rows].mean(), observed[rows].mean(), observed[rows].std() / len(rows) ** 0.5)
        for rows in groups
    ]
    x, y, errors = np.array(statistics, dtype=float).T
    return x, y, errors


def _draw_against_diagonal(
    title: str, x_label: str, y_label: str, x: FloatArray, y: FloatArray, errors: FloatArray
) -> list[Chart]:
    """Return a chart of ``y`` with its standard errors against ``x``, or none for two points."""
    if len(np.unique(x)) < 3:
        return []
    chart = Chart(title, x_label, y_label)
    _draw_diagonal(chart.axes, x)
    low, high = y - 2.0 * errors, y + 2.0 * errors
    if y_label == "share":
        low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    if errors.any():
        style: dict[str, Any] = {"color": COLOURS[0], "alpha": 0.45, "linewidth": 4.0}
        chart.axes.vlines(x, low, high, label="two standard errors", **style)
    chart.axes.plot(x, y, color=COLOURS[0], **_LINE)
    chart.axes.legend()
    return [chart]


def _error_tables(findings: Findings) -> list[ShadedTable]:
    if findings.coverage:
        expected, observed, widths = zip(*findings.coverage, strict=True)
        intervals: Columns = {
            "nominal coverage": [f"{share:.0%}" for share in expected],
            "observed coverage": list(map(_share_cell, observed)),
            "mean width": list(map(readable, widths)),
        }
        return [ShadedTable.of(intervals, "Prediction intervals")]
    if not isinstance(findings.model, KernelClassifier):
        return []
    classes, tables = findings.metrics["classes"], []
    if "confusion" in findings.metrics:
        names = [str(class_metrics["class"]) for class_metrics in classes]
        rows = []
        for k, counts in enumerate(findings.metrics["confusion"]):
            total = max(1, sum(counts))
            cells = []
            for predicted, count in enumerate(counts):
                colour = COLOURS[int(predicted != k)]  # mistakes have the second colour
                # The root keeps rare mistakes visible.
                strength = (count / total) ** 0.5
                cells.append(Cell(f"{count:,}", 0.0, float(count > 0), colour, strength))
            rows.append((names[k], cells))
        caption = "Actual class (rows) by predicted class"
        tables.append(ShadedTable(caption, ["", *names], rows, is_map=True))
    worst = sorted(classes, key=lambda class_metrics: class_metrics["f1"])[:_MAX_CLASSES]
    columns: Columns = {
        "class": [str(class_metrics["class"]) for class_metrics in worst],
        "rows": [f"{class_metrics['rows']:,}" for class_metrics in worst],
        "recall": [_share_cell(class_metrics["recall"]) for class_metrics in worst],
        "precision": [_share_cell(class_metrics["precision"]) for class_metrics in worst],
    }
    has_all = len(worst) == len(classes)
    title = "Classes" if has_all else f"The {len(worst)} worst of {len(classes)} classes"
    return [*tables, ShadedTable.of(columns, title)]


def _share_cell(value: float) -> Cell:
    return Cell(f"{value:.1%}", 0.0, value)


def _middle_quantile(model: Model, predicted: FloatArray) -> FloatArray:
    if predicted.ndim == 1:
        return predicted
    return np.asarray(predicted[:, np.abs(levels_of(model) - 0.5).argmin()])


def _drivers_section(findings: Findings) -> Section:
    shuffled, measure = findings.shuffled, findings.measure.name
    increase, spread = shuffled.increases.mean(axis=1), shuffled.increases.std(axis=1)
    names = [findings.names[j] for j in shuffled.columns]
    texts = [f"{readable(m, 3)} ± {readable(s, 2)}" for m, s in zip(increase, spread, strict=True)]
    increases = bar_cells(np.maximum(increase, 0.0).tolist(), texts)
    columns: Columns = {"input": names, f"increase of the {measure} when shuffled": increases}
    important = [
        name
        for name, mean in zip(names, increase, strict=True)
        if mean > max(0.0, _MIN_IMPORTANCE * increase[0])
    ]
    text = (
        f"Shuffling a column among {shuffled.n_rows:,} rows removes its information. The bars show "
        f"how much the {measure} then increases from {readable(shuffled.error)}: mean and standard "
        f"deviation of {shuffled.increases.shape[1]} shuffles."
    )
    if findings.attributions is not None:
        effects = np.abs(findings.attributions.values[: -len(findings.rows)])
        means = effects.reshape(*effects.shape[:2], -1).mean(axis=(0, 2))[shuffled.columns].tolist()
        texts = [readable(value, 3) for value in means]
        columns["mean effect on a prediction"] = bar_cells(means, texts, COLOURS[2])
        raw = _raw_quantity(findings.model)
        text += " The last column shows how far an input moves predictions from their mean"
        text += "." if raw == "prediction" else f", in units of the {raw}."
    if len(names) < len(findings.names):
        text += (
            f" Of {len(findings.names):,} inputs, only the {len(names)} most promising were "
            "shuffled."
        )
    note = (
        "If two inputs carry the same information, shuffling either of them changes the error "
        "little: consider them together."
    )
    if len(names) > _MAX_BARS:
        note = f"{len(names) - _MAX_BARS} more inputs matter less. {note}"
    shown = {head: cells[:_MAX_BARS] for head, cells in columns.items()}
    top = f"Most of all {', '.join(important[:3])}." if important else ""
    parts: list[Part] = [top, text, ShadedTable.of(shown), Note(note)]
    return Section("drivers", "Which inputs drive them?", parts)


def _dependences_section(findings: Findings) -> Section:
    heading = "How do they depend on the inputs?"
    if not findings.dependence:
        return Section("how", heading, ["No important input has more than one value here."])
    inner = [_drop_extremes(effect) for effect in findings.dependence]
    means = np.concatenate(
        [effect.means.ravel() for effect in inner if _is_numeric(effect)] or [np.zeros(1)]
    )
    limits = float(means.min()), float(means.max())
    shown = [
        _draw_dependence(effect, findings.outputs, limits)
        if _is_numeric(effect)
        else _category_table(effect, findings.outputs, findings.response)
        for effect in inner
    ]
    n_outputs, which_classes = len(findings.outputs), ""
    if isinstance(findings.model, KernelClassifier) and n_outputs > 1:
        which_classes = f" (for the {n_outputs} classes that are predicted most often)"
    text = (
        f"Mean {findings.response}{which_classes} if all rows are given the same value of one "
        "input, from the 5th to the 95th percentile; marks along the axis divide the rows into "
        "tenths. If inputs depend on each other, the means include combinations that never occur."
    )
    maps = [_pair_map(pair, findings.outputs) for pair in findings.pairs]
    if maps:
        interactions = (
            "These pairs of inputs interact: their joint effect is more than the sum of both. The "
            f"cells show the mean {findings.response}."
        )
    else:
        interactions = "No two of the main inputs interact much."
    return Section("how", heading, [text, Grid(shown), interactions, Grid(maps)])


def _is_numeric(effect: Dependence) -> bool:
    return effect.values.dtype.kind == "f"


def _drop_extremes(effect: Dependence) -> Dependence:
    """Drop the smallest and the largest value, which few rows come close to, if there are many."""
    if not _is_numeric(effect) or len(effect.values) < _N_GROUPS:
        return effect
    return Dependence(effect.name, effect.values[1:-1], effect.shares[1:-1], effect.means[1:-1])


def _category_table(effect: Dependence, outputs: Sequence[str], response: str) -> ShadedTable:
    labels = list(map(value_text, effect.values))
    if len(outputs) > 1:
        return heat_map(effect.name, labels, outputs, effect.means)
    mean = float(np.average(effect.means[:, 0], weights=effect.shares))
    columns: Columns = {
        "": labels,
        "rows": [f"{share:.0%}" for share in effect.shares],
        f"mean {response}": align_numbers(effect.means[:, 0]),
        "difference from average": bar_cells((effect.means[:, 0] - mean).tolist()),
    }
    return ShadedTable.of(columns, effect.name)


def _draw_dependence(
    effect: Dependence, outputs: Sequence[str], limits: tuple[float, float]
) -> Chart:
    chart, values = Chart(effect.name, "", "", height=220.0), effect.values
    for name, means, colour in zip(outputs, effect.means.T, cycle(COLOURS), strict=False):
        chart.axes.plot(values, means, color=colour, label=name or None, **_LINE)
    tenths = values[1::2] if len(values) > _N_GROUPS else values
    chart.axes.plot(tenths, np.full(len(tenths), limits[0]), "|", color=GREY)
    chart.axes.update_datalim([(float(values[0]), limit) for limit in limits])
    chart.axes.autoscale_view()
    use_log_if_wide(chart.axes.xaxis, values, 30.0)
    if len(outputs) > 1:
        chart.axes.legend()
    return chart


def _pair_map(pair: JointDependence, outputs: Sequence[str]) -> ShadedTable:
    output = int(pair.interaction.argmax())
    down, across = ([value_text(value) for value in values] for values in pair.values)
    of_output = f": {outputs[output]}" if outputs[output] else ""
    caption = f"{pair.names[0]} (down) and {pair.names[1]} (across){of_output}"
    return heat_map(caption, down, across, pair.means[:, :, output])


def _failures_section(findings: Findings) -> Section:
    heading, n_rows = "Where do they fail?", len(findings.y)
    if not findings.groups:
        text = (
            "No group of rows, defined by one input or two, has significantly larger errors than "
            "the other rows."
        )
        return Section("failures", heading, [text])
    groups = {"all rows": np.arange(n_rows)}
    groups |= {group.words: group.rows for group in findings.groups}
    measure = findings.measure
    errors = [
        findings.scores["this model"][measure.name],
        *(measure.shown(group.loss) for group in findings.groups),
    ]
    bias = "wrong" if isinstance(findings.model, KernelClassifier) else "off on average"
    columns: Columns = {
        "group": list(groups),
        measure.name: bar_cells(errors, list(map(readable, errors)), COLOURS[1]),
        "rows": [f"{len(rows):,} ({len(rows) / n_rows:.0%})" for rows in groups.values()],
        bias: [_bias_text(findings, rows) for rows in groups.values()],
    }
    text = (
        "These groups have larger errors than the other rows. The groups were found on one half "
        "of the rows; the errors were measured on the other half."
    )
    return Section("failures", heading, [text, ShadedTable.of(columns)])


def _bias_text(findings: Findings, rows: AnyArray) -> str:
    y, predicted = findings.y[rows], findings.predicted[rows]
    if isinstance(findings.model, KernelClassifier):
        classes = predicted if predicted.ndim == 1 else predicted.argmax(axis=1)
        return f"{np.mean(classes != y):.1%}"
    gap = float(np.mean(y - _middle_quantile(findings.model, predicted)))
    return f"{readable(abs(gap), 3)} too {'low' if gap > 0 else 'high'}"


def _rows_section(findings: Findings) -> Section:
    text, attributions = "", findings.attributions
    if attributions is not None:
        raw, base = _raw_quantity(findings.model), ""
        if not isinstance(findings.model, KernelClassifier):
            mean = np.ravel(attributions.base_values[-1])[findings.rows[-1].output]
            base = f", {readable(float(mean))}"
        text = (
            f"An effect (Shapley value) is how far an input moves the {raw} from its mean{base}. "
            f"The mean plus all effects of a row equals its {raw}."
        )
    cards = [
        Card(
            f"Row {row.number + 1:,}: {row.kind}",
            f"predicted {row.predicted}, actually {row.true}",
            _row_table(findings, k),
        )
        for k, row in enumerate(findings.rows)
    ]
    return Section("rows", "Some rows, one by one", [text, Grid(cards)])


def _row_table(findings: Findings, k: int) -> ShadedTable:
    row, attributions = findings.rows[k], findings.attributions
    if attributions is None:
        rows = [(name, [Cell(text)]) for name, text in row.inputs[:_INPUTS_PER_ROW]]
        return ShadedTable("", [], rows)
    at = k - len(findings.rows)  # the shown rows are the last ones with attributions
    effects = attributions.values[at].reshape(len(findings.names), -1)[:, row.output]
    order = np.argsort(-np.abs(effects), kind="stable")
    # A single input that is left over is shown by its name.
    n_shown = len(order) if len(order) == _INPUTS_PER_ROW + 1 else _INPUTS_PER_ROW
    chosen, others = order[:n_shown], order[n_shown:]
    shown, names = effects[chosen].tolist(), [findings.names[j] for j in chosen]
    values = [value_text(attributions.data[at, j]) for j in chosen]
    if len(others):
        shown.append(float(effects[others].sum()))
        names.append(f"{len(others)} more")
        values.append("")
    texts = [f"{'+' if effect > 0 else ''}{readable(effect, 3)}" for effect in shown]
    columns: Columns = {"input": names, "value": values, "effect": texts, "": bar_cells(shown)}
    return ShadedTable.of(columns)


def _raw_quantity(model: Model) -> str:
    """Return the name of the quantity that effects add up to."""
    if isinstance(model, KernelClassifier):
        if model.loss_.name == "logistic":
            return f"log odds of {model.classes_[1]}"
        if model.weights_.ndim == 1:
            return f"raw prediction, which is larger for {model.classes_[-1]}"
        return "raw prediction of the named class"
    if model.loss_.has_positive_means:
        return "logarithm of the prediction"
    return "prediction" if model.weights_.ndim == 1 else "predicted middle quantile"


def _history_section(findings: Findings) -> Section:
    model, use = findings.model, findings.use
    parts: list[Part] = [_hyperparameter_table(findings), *model.limits_]
    if use.is_selective:
        low, high, mean = use.counts.min(), use.counts.max(), use.counts.mean()
        text = f"A grid of this model divides {mean:.1f} inputs on average, from {low} to {high}. "
        pairs = [
            f"{findings.names[i]} × {findings.names[j]} ({weight:.0%})"
            for i, j, weight in use.pairs[:_MAX_GRID_PAIRS]
        ]
        parts.append(
            f"{text}Most often together, by the weight of the grids, are {', '.join(pairs)}."
            if pairs
            else f"{text}No grid of few inputs divides two of them."
        )
    parts.append(Heading("Trials"))
    if not findings.stages:
        parts.append("Nothing was searched, so there are no trials to show.")
    else:
        n_trials = len(model.search_)
        scorer = "" if model.scorer_ == "loss" else f"The scorer is {model.scorer_}. "
        parts.append(
            f"{n_trials} trial{'s were' if n_trials > 1 else ' was'} scored on validation rows. "
            f"{scorer}Smaller scores are better. Squared errors are computed for targets scaled to "
            "a variance of 1, or for classes coded as -1 and 1. The score of wrong classes is "
            "their share plus a tenth of the squared hinge loss. A scorer whose best value is 1 "
            "is subtracted from 1. Trials have fewer features than the final fit, which predicts "
            "better. Bandwidths in this table are multiples of the mean distance between rows."
        )
        parts += [_best_trials(*stage) for stage in findings.stages]
    parts += _learning_curve_parts(model, findings.stages)
    return Section("history", "How was the model selected?", parts, is_folded=True)


def _hyperparameter_table(findings: Findings) -> ShadedTable:
    model, settings, counts = findings.model, findings.model.settings_, findings.use.counts
    by = "" if model.scorer_ == "loss" else f", by {model.scorer_}"
    best = f"best on validation rows{by}" if model.search_ else "by rule: too few rows to compare"
    each = f"{counts.mean():.1f} inputs on average" if findings.use.is_selective else "all inputs"
    equal = "relevances were not tried, or did not help enough"
    by_rule = "by rule: logistic for classes if grids are grown, else squared"
    choices = [
        ("scaling", settings.scaling, best if model.scaling == "auto" else _GIVEN),
        ("bandwidth", bandwidth_of(model), best if model.bandwidth == "auto" else _GIVEN),
        ("alpha", readable(model.alpha_), best if model.alpha == "auto" else _GIVEN),
        ("inputs", "equal relevance", _GIVEN if model.relevance == "equal" else equal)
        if settings.relevance is None
        else ("inputs", "weighted by relevance", best),
        ("features", features_of(model), f"each over {each}"),
        ("loss", model.loss_.name, by_rule if model.loss == "auto" else _GIVEN),
        ("solver", f"{model.status_} after {model.n_iter_} iterations", model.solver_reason_),
        ("weights", f"{model.weights_.size:,}", ""),
        ("model file", format_bytes(findings.places["model"].stat().st_size), ""),
    ]
    heads = ("setting", "value", "reason")
    return ShadedTable.of(dict(zip(heads, zip(*choices, strict=True), strict=True)))


def _best_trials(name: str, trials: Sequence[Trial]) -> ShadedTable:
    best = sorted(trials, key=lambda trial: trial["score"])[:_N_BEST_TRIALS]
    columns: Columns = {
        "score": [readable(trial["score"]) for trial in best],
        "scaling": [trial["scaling"] for trial in best],
        "bandwidth": [
            _GIVEN if trial["bandwidth"] is None else readable(trial["bandwidth"]) for trial in best
        ],
        "alpha": [readable(trial["alpha"]) for trial in best],
        "relevance": [trial["relevance"] for trial in best],
        "seconds": [f"{trial['seconds']:.2f}" for trial in best],
    }
    return ShadedTable.of(columns, f"The best of {len(trials)}: {name}")


def _learning_curve_parts(model: Model, stages: Sequence[Stage]) -> list[Part]:
    growth = vars(model).get("growth_") or []
    trials = stages[-1][1] if stages else [{"curve": [], "score": 0.0}]
    best = min(trials, key=lambda trial: trial["score"])
    x_label, y_label = "iteration", "score on validation rows"
    if growth:
        x_label, y_label = "grids", "error on validation rows"
        x = [float(stage["n_grids"]) for stage in growth]
        y = [stage["score"] for stage in growth]
        text = (
            f"Grids were added in {len(growth)} stages. The error on validation rows went from "
            f"{readable(y[0])} to {readable(y[-1])}."
        )
    elif len(best["curve"]) > 2:
        y = best["curve"]
        # The search scores the weights every four iterations and at the end.
        x = [4.0 * (k + 1) for k in range(len(y) - 1)] + [float(best["n_iter"])]
        text = "The score of the best trial on validation rows after each check of the solver."
    else:
        y_label, y = "objective", [step["objective"] for step in model.history_]
        x = list(map(float, range(len(y))))
        text = "The objective on the training rows after each iteration of the final solve."
    if len(set(x)) < 3:
        return []
    chart = Chart("", x_label, y_label)
    chart.axes.plot(x, y, color=COLOURS[0], **_LINE)
    use_log_if_wide(chart.axes.yaxis, np.array(y))
    return [Heading("The learning curve"), text, Grid([chart])]
