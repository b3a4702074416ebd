"""The page that explains a model: one file of HTML, with everything in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np

import gramless
from gramless.base.formatting import sized
from gramless.cli.bars import WIDE, Bars, bar_chart
from gramless.cli.charts import Chart, Series, key, line_chart
from gramless.cli.findings import Findings, Stage
from gramless.cli.report import number
from gramless.cli.svg import COLOURS, LIGHT, variables
from gramless.cli.templating import environment
from gramless.cli.told import bandwidth_of, features_of
from gramless.inspection.explanation import Dependence

_BEST, _PAIRS, _MOST_TICKS = 5, 12, 14
_TOO_FAR_APART = 4.0
"""Between the least and the largest score: a chart needs a logarithmic axis."""
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
_NARROW = 372.0


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
        is_classifier=hasattr(model, "classes_"),
        choices=_choices(found),
        dependences=_dependences(found),
    )


def _choices(found: Findings) -> list[tuple[str, str, str]]:
    """Return what was chosen: the parameter, its value and the reason."""
    model, settings, counts = found.model, found.model.settings_, found.use.counts
    best = "best on held-back rows" if model.search_ else "by rule: too few rows to compare"
    each = f"{counts.mean():.1f} inputs on average" if found.use.selective else "all inputs"
    equal = "weights were not tried, or did not help enough"
    return [
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


def _searched(found: Findings) -> dict[str, Any]:
    """Return the trials of the search, and the learning curve."""
    model, growth = found.model, getattr(found.model, "growth_", None) or []
    return {
        "stages": [_trials(*stage, model.settings_) for stage in found.stages],
        "best_trials": _best_trials(found.stages[-1][1]) if found.stages else [],
        "growth": growth,
        "growth_rows": [
            (f"{s['n_grids']:,}", number(s["score"]), number(s["alpha"]), f"{s['seconds']:.1f}")
            for s in growth
        ],
        "curve": _learning_curve(model, growth, found.stages),
    }


def _best_trials(trials: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [
        (
            trial["scaling"],
            "as given" if trial["bandwidth"] is None else number(trial["bandwidth"]),
            *(number(trial["alpha"]), trial["relevance"], number(trial["score"])),
            *(f"{trial['n_rows']:,}", trial["size"], f"{trial['seconds']:.2f}"),
        )
        for trial in sorted(trials, key=lambda trial: trial["score"])[:_BEST]
    ]


def _trials(name: str, trials: Sequence[dict[str, Any]], settings: Any) -> Chart:
    """Chart a stage of the search: scores by bandwidth, or by alpha where that alone changes."""
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
    """Return a bandwidth or alpha alike, whichever way the search came to it."""
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


def _learning_curve(model: Any, growth: Sequence[dict[str, Any]], stages: Sequence[Stage]) -> Chart:
    """Chart growth; else the best trial of the search; else the final solve."""
    best = min(stages[-1][1], key=lambda trial: trial["score"]) if stages else {"curve": []}
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


def _inputs(found: Findings) -> dict[str, Any]:
    """Return the bars of the inputs that were shuffled, and of pairs that share grids."""
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


def _dependences(found: Findings) -> list[dict[str, Any]]:
    """Return charts of the inputs that are numbers, and bars of those that are categories."""
    means = [float(value) for one in found.dependence for value in one.means.ravel()]
    return [
        {"chart": None, **_category_bars(one, found.outputs)}
        if one.values.dtype.kind != "f"
        else {"chart": _dependence_chart(one, found.outputs, min(means), max(means))}
        for one in found.dependence
    ]


def _category_bars(one: Dependence, outputs: Sequence[str]) -> dict[str, Any]:
    middle = np.average(one.means, axis=0, weights=one.shares)
    reach = one.means.ravel().tolist()
    columns = [
        Bars(name or "mean", means, [f"{value:.3g}" for value in means], base, reach, colour)
        for name, means, base, colour in zip(
            outputs, one.means.T.tolist(), middle.tolist(), cycle(COLOURS), strict=False
        )
    ]
    return {
        "name": one.name,
        "labels": [value or "(missing)" for value in one.values],
        "bars": columns,
        "width": _NARROW if len(outputs) == 1 else WIDE,
    }


def _dependence_chart(one: Dependence, outputs: Sequence[str], low: float, high: float) -> Chart:
    series = [
        _joined(name, list(zip(one.shares.tolist(), means.tolist(), strict=True)), colour)
        for name, means, colour in zip(outputs, one.means.T, cycle(COLOURS), strict=False)
    ]
    # The values nearest to the quartiles are named.
    named = sorted({int(np.abs(one.shares - part).argmin()) for part in np.linspace(0, 1, 5)})
    ticks = {float(one.shares[k]): number(float(one.values[k])) for k in named}
    return Chart(one.name, "", "", series, x_held=(0.0, 1.0), y_held=(low, high), x_ticks=ticks)


def _error_and_size(found: Findings) -> dict[str, Any]:
    model, metrics = found.model, found.metrics
    sizes = {
        "features": features_of(model),
        "weights": f"{model.coef_.size:,}",
        "left out": f"{model.sparsity_:.1%} of the columns" if model.sparsity_ > 0 else None,
        "model file": sized(found.places["model"].stat().st_size),
    }
    shown = [(name, number(metrics[key])) for key, name in _METRICS.items() if key in metrics]
    return {
        "errors": [("rows", f"{metrics['rows']:,}"), *shown],
        "classes": [
            (
                one["class"],
                f"{one['rows']:,}",
                *(f"{one[k]:.3f}" for k in ("precision", "recall", "f1")),
            )
            for one in metrics.get("classes", ())
        ],
        "scatter": _scatter(found.scatter),
        "sizes": [(name, value) for name, value in sizes.items() if value],
    }


def _scatter(points: Sequence[tuple[float, float]]) -> Chart | None:
    if not points:
        return None
    true, predicted = zip(*points, strict=True)
    ends = [min(true + predicted), max(true + predicted)]
    diagonal = Series(ends, ends, {"color": LIGHT["base"], "dashes": (4.0, 3.0)})
    title = f"Predicted against true numbers, {len(true):,} rows"
    return Chart(title, "true", "predicted", [diagonal, _dots(points, COLOURS[0])])
