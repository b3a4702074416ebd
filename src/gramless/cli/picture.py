"""Pictures of predictions: the demonstration, probabilities, numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from gramless.features.pictures import sampled_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gramless.cli.contest import Digits, Entry

_ROWS, _COLUMNS = 3, 5
_OWN, _RIVAL, _WRONG = "#1b6ca8", "#b8b8b8", "#b3261e"
_POINTS = 5000


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
