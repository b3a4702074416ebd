"""Pictures of predictions: the demonstration, probabilities, numbers, approximations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from gramless.inspection.pictures import sampled_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gramless.cli.contest import Digits, Entry
    from gramless.inspection.kernel_errors import KernelErrors
    from gramless.inspection.outcomes import Comparison, Outcome

_ROWS, _COLUMNS = 3, 5
_OWN, _RIVAL, _WRONG = "#1b6ca8", "#b8b8b8", "#b3261e"
_POINTS = 5000
_COLOURS = {
    "binning": _OWN,
    "smooth": "#5fa8d3",
    "fourier": "#d1495b",
    "nystrom": "#e9a13b",
    "blocks": "#6a994e",
    "exact": "#222222",
}
_ERROR_LINES: dict[str, dict[str, Any]] = {
    "sup": {"ls": "-", "marker": "o", "ms": 3.5},
    "mean": {"ls": "-", "lw": 0.8},
    "hoeffding": {"ls": "--", "lw": 1.0},
    "claim": {"ls": ":", "lw": 1.4},
}
_ERROR_NAMES = ("largest of the pairs", "mean", "Hoeffding's bound on the largest", "Claim 1 or 2")
_VOID, _HIGHEST = 1.0, 10.0
"""A bound above the one says nothing of a kernel between 0 and 1; above the other none is drawn."""


def draw(path: Path, digits: Digits, entries: list[Entry]) -> None:
    """Draw the hardest digits of the first method, and errors and times of all.

    Parameters
    ----------
    path : Path
        A PNG file.
    digits : Digits
    entries : list of Entry
    """
    figure: Any = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.1, 1.0])
    _draw_digits(left, digits, entries[0].model)
    _draw_bars(right, entries)
    figure.savefig(path, dpi=150)


def _draw_digits(figure: Any, digits: Digits, model: Any) -> None:
    responses = np.sort(model.decision_function(digits.X_test), axis=1)
    predicted = model.predict(digits.X_test)
    wrong = predicted != digits.y_test
    # Mistakes first, then the narrowest margins between the two best classes.
    hardest = np.lexsort((responses[:, -1] - responses[:, -2], ~wrong))
    figure.suptitle(f"{wrong.sum()} mistakes in {len(wrong)} digits, then the least certain")
    for axes, row in zip(figure.subplots(_ROWS, _COLUMNS).flat, hardest, strict=False):
        axes.imshow(digits.X_test[row].reshape(8, 8), cmap="gray_r")
        axes.set_axis_off()
        if wrong[row]:
            axes.set_title(
                f"{digits.y_test[row]}, taken for {predicted[row]}", color=_WRONG, size=9
            )
        else:
            axes.set_title(f"{digits.y_test[row]}", size=9)


def _draw_bars(figure: Any, entries: list[Entry]) -> None:
    names = [entry.name for entry in entries]
    colours = [_OWN] + [_RIVAL] * (len(entries) - 1)
    values = {
        "Test error, %": [100 * entry.error for entry in entries],
        "Seconds to fit, choices included": [entry.fit_seconds for entry in entries],
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


def draw_reliability(found: dict[str, Any]) -> Any:
    """Draw how often a classifier was right, against how sure it was.

    Parameters
    ----------
    found : dict
        What :func:`gramless.cli.metrics.probability_metrics` returns.

    Returns
    -------
    matplotlib.figure.Figure
        Above, a point a tenth of confidence; grey bars reach two standard errors
        to both sides of the diagonal, where honest probabilities would lie in
        some 95 % of samples of that size. Below, the rows in each tenth.
    """
    figure: Any = Figure(figsize=(5.2, 6.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3.0, 1.0])
    names = ("low", "high", "rows", "predicted", "observed")
    low, high, rows, said, right = (
        np.array([part[name] for part in found["reliability"]]) for name in names
    )
    spread = 2.0 * np.sqrt(said * (1.0 - said) / rows)
    upper.plot([0, 1], [0, 1], color="0.4", lw=0.9, ls="--", label="as sure as right")
    honest = {"fmt": "none", "ecolor": "0.82", "elinewidth": 7, "zorder": 0}
    upper.errorbar(said, said, spread, label="two standard errors", **honest)
    upper.plot(said, right, "o-", color=_OWN, ms=5, lw=1.2, label="this model")
    least = np.floor(10.0 * min(low.min(), right.min(), (said - spread).min())) / 10.0
    upper.set(ylabel="share that was right", ylim=(max(0.0, least) - 0.01, 1.01))
    upper.set_title(f"log loss {found['log_loss']:.4g}, Brier score {found['brier']:.4g}", size=11)
    # Below both: points and bars may lie anywhere in the upper panel.
    figure.legend(frameon=False, loc="outside lower center", ncols=3, fontsize=9)
    bars = lower.bar(low, rows, high - low, align="edge", color=_OWN, edgecolor="white")
    lower.bar_label(bars, [f"{n:,}" for n in rows], padding=2, size=7)
    lower.margins(y=0.2)
    lower.set(xlabel="probability of the predicted class", ylabel="rows")
    lower.set_xlim(low.min() - 0.01, 1.01)
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_predictions(y: NDArray[Any], predicted: NDArray[Any], found: dict[str, float]) -> Any:
    """Draw predicted numbers against true ones.

    Parameters
    ----------
    y, predicted : ndarray (n_rows,)
        Of more than 5,000 rows so many are drawn, evenly, the same ones each time.
    found : dict
        What :func:`gramless.cli.metrics.regression_metrics` returns for all rows.

    Returns
    -------
    matplotlib.figure.Figure
        On the diagonal predictions are right.
    """
    figure: Any = Figure(figsize=(5.2, 5.2), layout="constrained")
    axes = figure.subplots()
    rows = sampled_rows(len(y), _POINTS)
    both = np.concatenate([y, predicted])
    ends = [both.min(), both.max()]
    axes.plot(ends, ends, color="0.4", lw=0.9, ls="--", zorder=3)
    axes.plot(y[rows], predicted[rows], "o", color=_OWN, ms=3, alpha=0.4, mew=0)
    of_all = "" if len(rows) == len(y) else f"of {len(y):,} "
    axes.set(xlabel=f"true, {len(rows):,} {of_all}rows", ylabel="predicted", aspect="equal")
    axes.set_title(f"RMSE {found['rmse']:.4g}, R2 {found['r2']:.4g}", size=11)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_comparison(found: Comparison, kernels: Mapping[str, Sequence[KernelErrors]]) -> Any:
    """Draw errors of approximations against size, seconds and bytes, as RB16's Figure 5.

    Parameters
    ----------
    found : Comparison
    kernels : mapping of str to sequence of KernelErrors
        Of each method by rising size; methods without any are left out.

    Returns
    -------
    matplotlib.figure.Figure
        The fourth panel has the errors of the kernel itself, with the bounds of RR07.
    """
    figure: Any = Figure(figsize=(11.0, 8.0), layout="constrained")
    panels = figure.subplots(2, 2).flat
    budget = {"time": "seconds", "memory": "n_bytes"}[found.by]
    axes_of = {
        "size": "grids, columns, landmarks or rows a block",
        "seconds": "seconds to fit",
        "n_bytes": "bytes of features",
    }
    for axes, (quantity, label) in zip(panels, axes_of.items(), strict=False):
        for one in found.chosen:
            _draw_outcomes(axes, one.method, found.of(one.method), quantity)
        if quantity == budget:
            axes.axvline(found.budget, color="0.6", lw=0.9, ls="--", zorder=0)
        axes.set(xscale="log", xlabel=label, ylabel="error on held-back rows")
        axes.grid(color="0.92", which="both", lw=0.6)
        if any(outcome.error > 0.0 for outcome in found.outcomes):
            _log_errors(axes, (1.0, 2.0, 5.0))
    if any(kernels.values()):
        _draw_kernel_errors(panels[3], kernels)
    else:
        panels[3].set_axis_off()
    names = [one.method for one in found.chosen]
    marks = [Line2D([], [], color=_COLOURS[name], marker="o", ms=4, label=name) for name in names]
    figure.legend(handles=marks, loc="outside upper center", ncols=len(marks), frameon=False)
    return figure


def _log_errors(axes: Any, labelled: Sequence[float]) -> None:
    """Give errors a logarithmic axis, with some multiples of powers of ten as people write them."""
    axes.set(yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=labelled))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _draw_outcomes(axes: Any, method: str, outcomes: Sequence[Outcome], quantity: str) -> None:
    x = [getattr(outcome, quantity) for outcome in outcomes]
    y = [outcome.error for outcome in outcomes]
    axes.plot(x, y, "o-", color=_COLOURS[method], ms=4, lw=1.3)


def _draw_kernel_errors(axes: Any, kernels: Mapping[str, Sequence[KernelErrors]]) -> None:
    for method, errors in kernels.items():
        sizes = [one.size for one in errors]
        for name, style in _ERROR_LINES.items():
            values = [getattr(one, name) for one in errors]
            shown = [np.nan if value is None or value > _HIGHEST else value for value in values]
            axes.plot(sizes, shown, color=_COLOURS[method], **style)
    axes.axhline(_VOID, color="0.6", lw=0.9, zorder=0)
    axes.set(xscale="log", xlabel="grids, columns, landmarks or rows a block")
    axes.set(ylabel="inner products of features less the kernel")
    axes.grid(color="0.92", which="both", lw=0.6)
    _log_errors(axes, (1.0,))
    kinds = zip(_ERROR_LINES.values(), _ERROR_NAMES, strict=True)
    lines = [Line2D([], [], color="0.35", label=name, **style) for style, name in kinds]
    axes.legend(handles=lines, frameon=False, fontsize=8, loc="lower left")
