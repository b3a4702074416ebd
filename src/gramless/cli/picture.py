"""The picture of the demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from gramless.cli.contest import Digits, Entry

_ROWS, _COLUMNS = 3, 5
_OWN, _RIVAL, _WRONG = "#1b6ca8", "#b8b8b8", "#b3261e"


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
