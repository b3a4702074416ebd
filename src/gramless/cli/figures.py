"""Matplotlib figures of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from sklearn.base import clone, is_classifier

from gramless.base.errors import InputError
from gramless.base.state import Json
from gramless.base.types import AnyArray, BoolArray, FloatArray
from gramless.cli.summaries import run_of
from gramless.features.binning import BinningMap, RandomBinning
from gramless.features.exact import exact_gram
from gramless.features.hybrid import parts_of
from gramless.inspection import pictures
from gramless.inspection.explanation import sample_rows

if TYPE_CHECKING:
    from gramless.cli.demo_methods import Digits, Entry, Photograph
    from gramless.estimators.base import KernelMachine
    from gramless.estimators.classifier import KernelClassifier
    from gramless.estimators.streamed import StreamedMachine
    from gramless.preprocessing.rows import Rows

Style: TypeAlias = dict[str, Any]  # keyword arguments of a matplotlib method

_N_ROWS, _N_COLUMNS = 3, 5  # layout of the pictures of digits
_BLUE, _LIGHT_GREY, _RED = "#1b6ca8", "#b8b8b8", "#b3261e"
_MAX_POINTS = 5000
_DIAGONAL: Style = {"color": "0.4", "lw": 0.9, "ls": "--"}
_BATCH: Style = {"color": "#e9a13b", "lw": 0.8, "alpha": 0.8}
_VALIDATION: Style = {"color": "#222222", "marker": "o", "ms": 3, "lw": 1.3}
_BEST: Style = {"color": "#222222", "marker": "o", "mfc": "none", "ms": 9, "ls": "none"}
# Points of new blocks are smaller and in front, so that both kinds are visible if they coincide.
_NEW: Style = {"color": "#d1495b", "ms": 2.5, "mew": 0, "zorder": 3, "rasterized": True}
_OLD: Style = {"color": "#1b6ca8", "ms": 4.0, "mew": 0, "zorder": 2, "rasterized": True}
_SO_FAR: Style = {"color": "0.75", "lw": 1.0, "zorder": 1, "label": "blocks so far"}
_WIDE_RATIO = 5.0  # if largest / smallest exceeds this, an axis is logarithmic


def draw_photograph(photograph: Photograph, entries: Sequence[Entry]) -> Figure:
    first = entries[0]
    titles = {
        f"{len(photograph.known):,} known pixels": photograph.fill_unknown(1.0),
        f"{first.name}: {first.psnr:.2f} dB": photograph.fill_unknown(first.predicted),
        "the photograph": photograph.colours,
    }
    figure = Figure(figsize=(13, 3.1), layout="constrained")
    for axes, (title, colours) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        axes.imshow(colours)
        axes.set_axis_off()
        axes.set_title(title, size=11)
    return figure


def draw_digits(digits: Digits, entries: Sequence[Entry]) -> Figure:
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=[1.1, 1.0])
    _draw_digits(parts[0], digits, entries[0].model)
    _draw_bars(parts[1], entries)
    return figure


def _draw_digits(figure: SubFigure, digits: Digits, model: KernelClassifier) -> None:
    responses = np.sort(model.decision_function(digits.X_test), axis=1)
    predicted, truth = model.predict(digits.X_test), digits.y_test
    wrong = predicted != truth
    # Mistakes first, then the narrowest margins between the two best classes.
    hardest = np.lexsort((responses[:, -1] - responses[:, -2], ~wrong))
    figure.suptitle(f"{wrong.sum()} of {len(wrong)} digits wrong, then the least certain ones")
    for axes, row in zip(figure.subplots(_N_ROWS, _N_COLUMNS).flat, hardest, strict=False):
        axes.imshow(digits.X_test[row].reshape(8, 8), cmap="gray_r")
        axes.set_axis_off()
        mistake = f", predicted {predicted[row]}" if wrong[row] else ""
        axes.set_title(f"{truth[row]}{mistake}", color=_RED if wrong[row] else "black", size=9)


def _draw_bars(figure: SubFigure, entries: Sequence[Entry]) -> None:
    names = [entry.name for entry in entries]
    colours = [_BLUE] + [_LIGHT_GREY] * (len(entries) - 1)
    values = {
        "Test error, %": [100 * entry.error for entry in entries],
        "Seconds to fit, with model selection": [entry.fit_seconds for entry in entries],
        "Seconds to predict": [entry.predict_seconds for entry in entries],
    }
    for axes, (title, lengths) in zip(figure.subplots(3, 1), values.items(), strict=True):
        bars = axes.barh(names, lengths, color=colours)
        axes.bar_label(bars, fmt="%.3g", padding=3, size=9)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.set_title(title, loc="left", size=10)
        axes.tick_params(axis="y", length=0, labelsize=9)
        axes.xaxis.set_visible(False)
        axes.spines[:].set_visible(False)


def draw_reliability(metrics: Mapping[str, Json]) -> Figure:
    """Draw the accuracy of a classifier against the probability of the predicted class.

    The upper panel has one point per tenth of the probability; grey bars span two standard errors
    around the diagonal, and contain the points of calibrated probabilities in about 95 % of
    samples. The lower panel shows the rows per point.
    """
    figure = Figure(figsize=(5.2, 6.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3.0, 1.0])
    names = ("low", "high", "rows", "predicted", "observed")
    table = np.array([[part[name] for name in names] for part in metrics["reliability"]])
    low, high, rows, predicted, observed = table.T
    spread = 2.0 * np.sqrt(predicted * (1.0 - predicted) / rows)
    upper.plot([0, 1], [0, 1], label="calibrated", **_DIAGONAL)
    bar_style: Style = {"fmt": "none", "ecolor": "0.82", "elinewidth": 7, "zorder": 0}
    upper.errorbar(predicted, predicted, spread, label="two standard errors", **bar_style)
    upper.plot(predicted, observed, "o-", color=_BLUE, ms=5, lw=1.2, label="this model")
    lowest = min(low.min(), observed.min(), (predicted - spread).min())
    bottom = max(0.0, np.floor(10.0 * lowest) / 10.0)
    upper.set(ylabel="share of correct predictions", ylim=(bottom - 0.01, 1.01))
    scores = f"log loss {metrics['log_loss']:.4g}, Brier score {metrics['brier']:.4g}"
    upper.set_title(scores, size=11)
    # The legend is outside, because points and bars can be anywhere in the upper panel.
    figure.legend(frameon=False, loc="outside lower center", ncols=3, fontsize=9)
    bars = lower.bar(low, rows, high - low, align="edge", color=_BLUE, edgecolor="white")
    lower.bar_label(bars, [f"{n:,.0f}" for n in rows], padding=2, size=7)
    lower.margins(y=0.2)
    lower.set(xlabel="probability of the predicted class", ylabel="rows")
    lower.set_xlim(low.min() - 0.01, 1.01)
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_predictions(y: AnyArray, predicted: AnyArray, metrics: Mapping[str, float]) -> Figure:
    figure = Figure(figsize=(5.2, 5.2), layout="constrained")
    axes, rows = figure.subplots(), sample_rows(len(y), _MAX_POINTS)
    ends = [min(y.min(), predicted.min()), max(y.max(), predicted.max())]
    axes.plot(ends, ends, zorder=3, **_DIAGONAL)
    axes.plot(y[rows], predicted[rows], "o", color=_BLUE, ms=3, alpha=0.4, mew=0)
    of_all = "" if len(rows) == len(y) else f"of {len(y):,} "
    axes.set(xlabel=f"true, {len(rows):,} {of_all}rows", ylabel="predicted", aspect="equal")
    axes.set_title(f"RMSE {metrics['rmse']:.4g}, R2 {metrics['r2']:.4g}", size=11)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_run(model: StreamedMachine, max_points: int = 20_000) -> Figure:
    figure = Figure(figsize=(11.0, 7.4), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col", height_ratios=[1.3, 1.0])
    run, history = run_of(model), model.history_
    times, unit = np.asarray(history["seconds"]), "seconds"
    if times.min() == 0:
        # partial_fit records the time 0 for every step.
        times, unit = np.arange(1.0, len(times) + 1.0), "step"
    evaluations = {name: np.asarray(values) for name, values in model.evaluations_.items()}
    at = times[evaluations["iteration"] - 1] if evaluations else np.zeros(0)
    _draw_losses(panels[0, 0], times, history["objective"], at, evaluations.get("loss"))
    _draw_errors(panels[1, 0], at, evaluations.get("error"), is_classifier(model))
    use_log_if_wide(panels[1, 0].xaxis, times)
    panels[1, 0].set_xlabel(unit)
    is_new = np.diff(history["n_blocks"], prepend=0) > 0
    _draw_blocks(panels[0, 1], history, is_new, model.block_size_, max_points)
    _draw_steps(panels[1, 1], history["step"], is_new, max_points)
    panels[1, 1].set_xlabel("step")
    for axes in panels.flat:
        axes.grid(color="0.92", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    title = f"{run['strategy']}, {run['kernel']} kernel, {run['loss']} loss"
    figure.suptitle(f"{title}: {run['steps']:,} steps of {run['batch_rows']:,} rows", size=12)
    return figure


def _draw_losses(
    axes: Axes, times: AnyArray, objective: AnyArray, at: AnyArray, loss: AnyArray | None
) -> None:
    axes.plot(times, objective, label="objective on each batch: loss and penalty", **_BATCH)
    values = objective
    if loss is not None:
        best = int(np.argmin(loss))
        axes.plot(at, loss, label="loss on validation rows", **_VALIDATION)
        axes.plot(at[best], loss[best], label=f"the lowest: {loss[best]:.4g}", **_BEST)
        values = np.append(objective, loss)
    use_log_if_wide(axes.yaxis, values)
    axes.set(ylabel="loss")
    axes.set_title("Objective and loss", loc="left", size=10)
    axes.legend(frameon=False, fontsize=8)


def _draw_errors(axes: Axes, at: AnyArray, error: AnyArray | None, has_classes: bool) -> None:
    name = "Share of wrong classes" if has_classes else "Root mean squared error"
    axes.set_title(f"{name} on validation rows", loc="left", size=10)
    if error is None:
        middle: Style = {"ha": "center", "va": "center", "transform": axes.transAxes}
        axes.text(0.5, 0.5, "no evaluations", color="0.5", **middle)
        return
    shown = 100.0 * error if has_classes else error
    axes.plot(at, shown, **_VALIDATION)
    use_log_if_wide(axes.yaxis, shown)
    axes.set(ylabel="%" if has_classes else "standard deviations of the target")


def _draw_blocks(
    axes: Axes, history: dict[str, AnyArray], is_new: BoolArray, block_size: int, max_points: int
) -> None:
    axes.step(np.arange(1, len(is_new) + 1), history["n_blocks"], where="post", **_SO_FAR)
    _draw_points(axes, history["block"] + 1, is_new, max_points)
    axes.set(ylabel="block that the step changed", ylim=(0, None))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    n_new = int(is_new.sum())
    title = f"Blocks: {n_new:,} in the end, {n_new * block_size:,} frequencies"
    axes.set_title(title, loc="left", size=10)
    axes.legend(frameon=False, fontsize=8, loc="upper left", markerscale=2)


def _draw_steps(axes: Axes, lengths: AnyArray, is_new: BoolArray, max_points: int) -> None:
    _draw_points(axes, lengths, is_new, max_points)
    axes.set(ylabel="length of the step, eta")
    if not use_log_if_wide(axes.yaxis, lengths):
        axes.set_ylim(0.0, 1.08 * lengths.max())
    axes.set_title("Lengths of the steps", loc="left", size=10)


def _draw_points(axes: Axes, values: AnyArray, is_new: BoolArray, max_points: int) -> None:
    """Draw one value per step, in one colour for new and in another for old blocks.

    At most ``max_points`` values of each colour are drawn.
    """
    for is_kind, name, style in ((is_new, "a new block", _NEW), (~is_new, "an old block", _OLD)):
        steps = np.flatnonzero(is_kind)
        drawn = steps[:: max(1, -(-len(steps) // max_points))]
        axes.plot(drawn + 1, values[drawn], "o", label=f"{name}: {len(steps):,} steps", **style)


def use_log_if_wide(axis: Axis, values: AnyArray, ratio: float = _WIDE_RATIO) -> bool:
    """Make an axis logarithmic if its values are positive and span a factor above ``ratio``.

    Values that are not finite are ignored. Ticks are at 1, 2 and 5 times powers of ten. Returns
    whether the axis is logarithmic.
    """
    finite = values[np.isfinite(values)]
    if not len(finite) or not 0.0 < ratio * finite.min() < finite.max():
        return False
    if axis is axis.axes.xaxis:
        axis.axes.set_xscale("log")
    else:
        axis.axes.set_yscale("log")
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
    return True


def draw_bins(model: KernelMachine, rows: Rows) -> Figure:
    features = parts_of(model.features_)[0]
    if not isinstance(features, BinningMap):
        raise InputError(f"--picture draws bins, and a {type(features).__name__} has none.")
    exact = None
    if isinstance(features, RandomBinning):
        template = clone(features).set_params(bandwidth=features.bandwidth_)

        def exact(indices: AnyArray) -> FloatArray:
            return exact_gram(template, rows[indices])

    return pictures.draw_matrix(features.rows_matrix(rows), exact=exact)
