"""The page that explains a model: one file of HTML, with everything in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

import gramless
from gramless.base.axes import Axis, linear_axis, log_axis
from gramless.base.markup import escape
from gramless.base.words import sized
from gramless.cli.report import number
from gramless.cli.svg import (
    COLOURS,
    WIDTH,
    Panel,
    Series,
    bars,
    lines,
)
from gramless.cli.told import bandwidth_of, features_of

if TYPE_CHECKING:
    from gramless.cli.explain import Findings, Stage
    from gramless.estimators.explain import Dependence

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff;
       max-width: 780px; margin: 2em auto; padding: 0 1em; }
h1 { line-height: 1.2; margin-bottom: 0; } h2 { margin-top: 2em; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; font-size: 14px; margin: 1em 0; }
th, td { text-align: left; padding: 3px 14px 3px 0; border-bottom: 1px solid #eee;
         vertical-align: top; }
td { overflow-wrap: anywhere; }
.note { color: #666; font-size: 14px; } .pair { display: flex; flex-wrap: wrap; gap: 16px;
         align-items: flex-start; }
svg { max-width: 100%; height: auto; margin: 0.6em 0; }
"""
_BEST, _PAIRS = 5, 12
_TOO_FAR_APART = 4.0
"""Between the least and the largest score: a picture needs a logarithmic axis."""
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
_NARROW, _GREY = 372.0, "#999999"


def page(found: Findings) -> str:
    """Return a page of HTML that is also well-formed XML.

    Parameters
    ----------
    found : Findings

    Returns
    -------
    str
        The same text for the same findings.
    """
    title = f"What {found.places['model'].name} has learned"
    sections = {
        "What was chosen, and why": _choices(found),
        "The learning curve": _learning_curve(found.model, found.stages),
        "Which inputs matter": _inputs(found),
        "Inputs that grids use together": _together(found),
        "How predictions depend on an input": _dependences(found),
        "Error on these rows, and size": _error_and_size(found),
    }
    body = "\n".join(f"<h2>{escape(name)}</h2>\n{text}" for name, text in sections.items())
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8" />'
        '<meta name="viewport" content="width=device-width" />'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>"
        f"<h1>{escape(title)}</h1>\n{_summary(found)}\n{body}\n</body></html>\n"
    )


def _summary(found: Findings) -> str:
    kind, rows, places = type(found.model).__name__, found.metrics["rows"], found.places
    aim = f" for {places['target']}" if places["target"] else ""
    top = [found.names[j] for j in found.shuffled.columns[:3]]
    matter = f" What matters most: {', '.join(top)}."
    return _note(
        f"{kind}{aim}, looked at with {rows:,} rows of {places['data'].name} by gramless "
        f"{gramless.__version__}."
    ) + _p(f"{_verdict(found)}{matter}")


def _verdict(found: Findings) -> str:
    metrics = found.metrics
    if "rmse" in metrics:
        return (
            f"Predictions are off by {number(metrics['rmse'])} (RMSE), "
            f"{number(metrics['rmse_std'])} of the target's standard deviation."
        )
    return (
        f"{metrics['error']:.2%} of the predicted classes are wrong. Always naming the most "
        f"frequent class would be wrong in {metrics['guess_error']:.2%}."
    )


def _choices(found: Findings) -> str:
    model, settings, counts = found.model, found.model.settings_, found.use.counts
    best = "best on held-back rows" if model.search_ else "by rule: too few rows to compare"
    each = f"{counts.mean():.1f} inputs on average" if found.use.selective else "all inputs"
    equal = "weights were not tried, or did not help enough"
    rows = [
        ("scaling", settings.scaling, best if model.scaling == "auto" else _GIVEN),
        ("bandwidth", bandwidth_of(model), best if model.bandwidth == "auto" else _GIVEN),
        ("alpha", number(model.alpha_), best if model.alpha == "auto" else _GIVEN),
        ("inputs", "all alike", _GIVEN if model.relevance == "equal" else equal)
        if settings.relevance is None
        else ("inputs", "weighed by relevance", best),
        ("features", features_of(model), f"each of {each}"),
        ("loss", model.loss_.name, f"{_GIVEN}; squared by default"),
        ("solver", f"{model.status_} after {model.n_iter_} iterations", model.solver_reason_),
    ]
    return _table(("what", "choice", "why"), rows) + _search(model, found.stages)


def _search(model: Any, stages: Sequence[Stage]) -> str:
    if not stages:
        return _p("Nothing was searched, so there are no trials to show.")
    score = (
        "the share of wrong classes and a tenth of the squared hinge"
        if hasattr(model, "classes_")
        else "the mean squared error, in variances of the target"
    )
    told = (
        f"{len(model.search_)} trials were judged on held-back rows. The score is {score}; smaller "
        "is better. Trials have fewer features than the final fit, which does better. Bandwidths "
        "are in mean distances between rows here. A ring is around the best trial of what was "
        "chosen; where there are more rows in the end, alpha is made smaller in proportion."
    )
    if stages[-1][0].endswith(" loss"):
        told += f" The last stage is about alpha alone: its score is the {model.loss_.name} loss."
    pictures = "\n".join(_trials(*stage, model.settings_) for stage in stages)
    return _p(told) + pictures + _p("The best of the last stage:") + _best_trials(stages[-1][1])


def _best_trials(trials: Sequence[dict[str, Any]]) -> str:
    cells = [
        (
            trial["scaling"],
            "as given" if trial["bandwidth"] is None else number(trial["bandwidth"]),
            *(number(trial["alpha"]), trial["relevance"], number(trial["score"])),
            *(f"{trial['n_rows']:,}", trial["size"], f"{trial['seconds']:.2f}"),
        )
        for trial in sorted(trials, key=lambda trial: trial["score"])[:_BEST]
    ]
    names = ("scaling", "bandwidth", "alpha", "relevance", "score", "rows", "size", "seconds")
    return _table(names, cells)


def _trials(name: str, trials: Sequence[dict[str, Any]], settings: Any) -> str:
    """Draw a stage of the search: scores by bandwidth, or by alpha where that alone changes."""
    several = len({trial["bandwidth"] for trial in trials}) > 1
    key = "bandwidth" if several else "alpha"
    groups: dict[str, list[tuple[float, float]]] = {}
    for trial in trials:
        group = f"{trial['scaling']} scaling, {trial['relevance']} relevance"
        groups.setdefault(group, []).append((_rounded(trial[key]), trial["score"]))
    series = []
    for colour, (group, points) in zip(cycle(COLOURS), groups.items(), strict=False):
        best = {at: min(score for place, score in points if place == at) for at, _ in points}
        series.append(Series("", points, "points", colour))
        series.append(Series(group, sorted(best.items()), "both", colour))
    relevance = "equal" if settings.relevance is None else "learned"
    chosen = (settings.scaling, settings.bandwidth, relevance)
    scores = [
        (trial["score"], trial[key])
        for trial in trials
        if (trial["scaling"], trial["bandwidth"], trial["relevance"]) == chosen
    ]
    series.append(Series("", [(at, score) for score, at in sorted(scores)[:1]], "rings", "#000000"))
    places = sorted({_rounded(trial[key]) for trial in trials})
    x = log_axis("bandwidth; the best alpha of each is joined" if several else "alpha", places)
    # Tried along a geometric path: there is room for the names of all.
    x = replace(x, ticks=[(at, f"{at:.3g}") for at in places[:: 1 + len(places) // 14]])
    return lines(name, x, _score_axis([trial["score"] for trial in trials]), series)


def _rounded(value: float) -> float:
    """Return a bandwidth or alpha alike, whichever way the search came to it."""
    return float(f"{value:.6g}")


def _score_axis(scores: Sequence[float], title: str = "score on held-back rows") -> Axis:
    apart = min(scores) > 0 and max(scores) > _TOO_FAR_APART * min(scores)
    return log_axis(title, scores) if apart else linear_axis(title, scores)


def _learning_curve(model: Any, stages: Sequence[Stage]) -> str:
    growth = getattr(model, "growth_", None)
    if growth:
        return _growth(growth)
    best = min(stages[-1][1], key=lambda trial: trial["score"]) if stages else {"curve": []}
    if len(best["curve"]) > 2:
        steps = [4.0 * (k + 1) for k in range(len(best["curve"]) - 1)] + [float(best["n_iter"])]
        points = list(zip(steps, best["curve"], strict=True))
        told = "The score of the best trial on held-back rows, along the solver's iterations."
        return _p(told) + _curve("iteration", points, "score on held-back rows")
    objective = [(float(k), step["objective"]) for k, step in enumerate(model.history_)]
    told = "The objective on the training rows, along the iterations of the final solve."
    return _p(told) + _curve("iteration", objective, "objective")


def _growth(growth: Sequence[dict[str, Any]]) -> str:
    points = [(float(stage["n_grids"]), stage["score"]) for stage in growth]
    rows = [
        (f"{s['n_grids']:,}", number(s["score"]), number(s["alpha"]), f"{s['seconds']:.1f}")
        for s in growth
    ]
    told = (
        f"Grids were added in {len(growth)} stages. The error on held-back rows went from "
        f"{number(points[0][1])} to {number(points[-1][1])}."
    )
    table = _table(("grids", "held-back error", "alpha", "seconds"), rows)
    return _p(told) + _curve("grids", points, "error on held-back rows") + table


def _curve(along: str, points: Sequence[tuple[float, float]], what: str) -> str:
    x = linear_axis(along, [place for place, _ in points])
    return lines("", x, _score_axis([value for _, value in points], what), [Series("", points)])


def _inputs(found: Findings) -> str:
    shuffled = found.shuffled
    names = [found.names[j] for j in shuffled.columns]
    mean, spread = shuffled.increases.mean(axis=1), shuffled.increases.std(axis=1)
    texts = [f"{m:.3g} ± {s:.2g}" for m, s in zip(mean, spread, strict=True)]
    panels = [Panel(f"{shuffled.error_name} grows by", mean.tolist(), texts)]
    relevance, share = found.relevance[shuffled.columns], found.use.share[shuffled.columns]
    if np.ptp(found.relevance) > 0:
        shown = [number(weight) for weight in relevance]
        panels.append(Panel("learned relevance", relevance.tolist(), shown, colour=COLOURS[1]))
    if found.use.selective:
        shown = [f"{part:.0%}" for part in share]
        panels.append(Panel("weight of its grids", share.tolist(), shown, colour=COLOURS[2]))
    few = (
        f" Of {len(found.names):,} inputs the {len(names)} most promising were shuffled."
        if len(names) < len(found.names)
        else ""
    )
    told = (
        f"Shuffling a column among {shuffled.n_rows:,} rows takes away what it says. The first "
        f"bars show how much the {shuffled.error_name} then grows, from {number(shuffled.error)}: "
        f"mean and spread of {shuffled.increases.shape[1]} shuffles.{few}"
    )
    return (
        _p(told + _about_relevance(found))
        + bars("input", names, panels)
        + _note(
            "Two inputs that say the same can each be shuffled at little loss: judge them together."
        )
    )


def _about_relevance(found: Findings) -> str:
    if np.ptp(found.relevance) == 0:
        return " The fit itself weighed all inputs alike."
    return (
        " Learned relevance is the weight that the fit gave to an input: the larger, the finer "
        "its cells. It says how fast predictions change with it, not how much they owe to it."
    )


def _together(found: Findings) -> str:
    use = found.use
    if not use.selective:
        return _p("Every grid of this model divides all inputs, so no pair stands out.")
    told = (
        f"A grid of this model divides {use.counts.mean():.1f} inputs on average, from "
        f"{use.counts.min()} to {use.counts.max()}. Inputs that share a grid can act together "
        "there. The bars show the weight of the grids that two inputs share, of all grids' weight. "
        "A grid weighs as much as its part of the prediction varies."
    )
    pairs = use.pairs[:_PAIRS]
    if not pairs:
        return _p(told + " No small grid divides two inputs.")
    labels = [f"{found.names[i]} × {found.names[j]}" for i, j, _ in pairs]
    weights = [weight for _, _, weight in pairs]
    panel = Panel("weight of shared grids", weights, [f"{weight:.1%}" for weight in weights])
    return _p(told) + bars("inputs", labels, [panel])


def _dependences(found: Findings) -> str:
    if not found.dependence:
        return _p("No input takes more than one value in these rows.")
    told = (
        f"Mean {found.response} when all rows are given the same value of one input. Values stand "
        "by rank: every stretch of an axis holds as many rows. Where inputs depend on each other, "
        "the means are also of rows that never occur."
    )
    ends = [float(value) for one in found.dependence for value in one.means.ravel()]
    y = linear_axis("", ends)
    pictures = "\n".join(_dependence(one, y, found.outputs) for one in found.dependence)
    return _p(told) + f'<div class="pair">{pictures}</div>'


def _dependence(one: Dependence, y: Axis, outputs: Sequence[str]) -> str:
    if one.values.dtype.kind != "f":
        middle = np.average(one.means, axis=0, weights=one.shares)
        panels = [
            Panel(name or "mean", m, [f"{v:.3g}" for v in m], b, one.means.ravel().tolist(), colour)
            for name, m, b, colour in zip(
                outputs, one.means.T.tolist(), middle.tolist(), cycle(COLOURS), strict=False
            )
        ]
        labels = [value or "(missing)" for value in one.values]
        return bars(one.name, labels, panels, _NARROW if len(outputs) == 1 else WIDTH)
    series = [
        Series(name, list(zip(one.shares.tolist(), means.tolist(), strict=True)))
        for name, means in zip(outputs, one.means.T, strict=True)
    ]
    # The values nearest to the quartiles are named.
    named = {int(np.abs(one.shares - quarter).argmin()) for quarter in np.linspace(0, 1, 5)}
    ticks = [(float(one.shares[k]), number(float(one.values[k]))) for k in sorted(named)]
    x = Axis("", -0.03, 1.03, ticks, float)
    return lines(one.name, x, y, series, width=_NARROW, height=150)


def _error_and_size(found: Findings) -> str:
    model, metrics = found.model, found.metrics
    size = {
        "features": features_of(model),
        "weights": f"{model.coef_.size:,}",
        "left out": f"{model.sparsity_:.1%} of the columns" if model.sparsity_ > 0 else None,
        "model file": sized(found.places["model"].stat().st_size),
    }
    shown = [(name, number(metrics[key])) for key, name in _METRICS.items() if key in metrics]
    told = _table(("error", ""), [("rows", f"{metrics['rows']:,}"), *shown])
    if "classes" in metrics:
        told += _classes(metrics["classes"])
    sizes = _table(("size", ""), [(name, value) for name, value in size.items() if value])
    return told + _scatter(found) + sizes


def _classes(classes: Sequence[dict[str, Any]]) -> str:
    names = ("class", "rows", "precision", "recall", "F1")
    rows = [
        (
            one["class"],
            f"{one['rows']:,}",
            *(f"{one[k]:.3f}" for k in ("precision", "recall", "f1")),
        )
        for one in classes
    ]
    return _table(names, rows)


def _scatter(found: Findings) -> str:
    if not found.scatter:
        return ""
    true, predicted = zip(*found.scatter, strict=True)
    ends = [min(true + predicted), max(true + predicted)]
    series = [
        Series("", [(end, end) for end in ends], "dashes", _GREY),
        Series("", found.scatter, "points"),
    ]
    title = f"Predicted against true numbers, {len(true):,} rows"
    x, y = linear_axis("true", ends), linear_axis("predicted", ends)
    return lines(title, x, y, series, width=460, height=380)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines_of = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "\n".join(f"<tr>{cells}</tr>" for cells in lines_of)
    return f"<table><thead><tr>{names}</tr></thead>\n<tbody>{body}</tbody></table>\n"


def _p(text: str) -> str:
    return f"<p>{escape(text)}</p>\n"


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>\n'
