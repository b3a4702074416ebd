"""A picture of a run of doubly stochastic steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from gramless.cli.told import run_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HELD, _BATCH = "#222222", "#e9a13b"
# Smaller and above: where steps of both kinds are as long as each other, both are seen.
_NEW: dict[str, Any] = {"color": "#d1495b", "ms": 2.5, "mew": 0, "zorder": 3, "rasterized": True}
_OLD: dict[str, Any] = {"color": "#1b6ca8", "ms": 4.0, "mew": 0, "zorder": 2, "rasterized": True}
_SO_FAR: dict[str, Any] = {"color": "0.75", "lw": 1.0, "zorder": 1, "label": "blocks so far"}
_MOST_POINTS = 20_000
_WIDE = 5.0
"""Numbers that differ by a larger factor have a logarithmic axis."""


def draw_run(model: Any) -> Any:
    """Draw how a run went: losses and errors by time, blocks and lengths of steps.

    Parameters
    ----------
    model : DoublyStochasticClassifier or DoublyStochasticRegressor
        Fitted, also in part.

    Returns
    -------
    matplotlib.figure.Figure
        Where no rows were held back, the panel of errors says so.
    """
    figure: Any = Figure(figsize=(11.0, 7.4), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col", height_ratios=[1.3, 1.0])
    run, history = run_of(model), model.history_
    times, unit = _times(history)
    judged = {name: np.asarray(values) for name, values in model.evaluations_.items()}
    at = times[judged["iteration"] - 1] if judged else np.zeros(0)
    _draw_losses(panels[0, 0], times, history["objective"], at, judged.get("loss"))
    _draw_errors(panels[1, 0], at, judged.get("error"), hasattr(model, "classes_"))
    _log_where_wide(panels[1, 0], "x", times)
    panels[1, 0].set_xlabel(unit)
    is_new = np.diff(history["n_blocks"], prepend=0) > 0
    _draw_blocks(panels[0, 1], history, is_new, model.block_size_)
    _draw_steps(panels[1, 1], history, is_new)
    panels[1, 1].set_xlabel("step")
    for axes in panels.flat:
        axes.grid(color="0.92", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    title = f"{run['strategy']}, {run['kernel']} kernel, {run['loss']} loss"
    figure.suptitle(f"{title}: {run['steps']:,} steps of {run['batch_rows']:,} rows", size=12)
    return figure


def _times(history: dict[str, NDArray[Any]]) -> tuple[NDArray[Any], str]:
    """Return when each step ended, and in which unit; partial fits know no seconds."""
    seconds = np.asarray(history["seconds"])
    if seconds.min() > 0:
        return seconds, "seconds"
    return np.arange(1.0, len(seconds) + 1.0), "step"


def _draw_losses(
    axes: Any, times: NDArray[Any], objective: NDArray[Any], at: NDArray[Any], held: Any
) -> None:
    axes.plot(
        times,
        objective,
        color=_BATCH,
        lw=0.8,
        alpha=0.8,
        label="objective on each batch: loss and penalty",
    )
    values = [objective]
    if held is not None:
        axes.plot(at, held, "o-", color=_HELD, ms=3, lw=1.3, label="loss on held-back rows")
        best = int(np.argmin(held))
        ring = {"mfc": "none", "mec": _HELD, "ms": 9, "ls": "none", "marker": "o"}
        axes.plot(at[best], held[best], label=f"the least: {held[best]:.4g}", **ring)
        values.append(held)
    _log_where_wide(axes, "y", np.concatenate(values))
    axes.set(ylabel="loss")
    axes.set_title("Objective and loss", loc="left", size=10)
    axes.legend(frameon=False, fontsize=8)


def _draw_errors(axes: Any, at: NDArray[Any], error: Any, has_classes: bool) -> None:
    name = "Share of wrong classes" if has_classes else "Root mean squared error"
    axes.set_title(f"{name} on held-back rows", loc="left", size=10)
    if error is None:
        middle = {"ha": "center", "va": "center", "transform": axes.transAxes}
        axes.text(0.5, 0.5, "nothing was judged", color="0.5", **middle)
        return
    shown = 100.0 * error if has_classes else error
    axes.plot(at, shown, "o-", color=_HELD, ms=3, lw=1.3)
    _log_where_wide(axes, "y", shown)
    axes.set(ylabel="%" if has_classes else "standard deviations of the target")


def _draw_blocks(
    axes: Any, history: dict[str, NDArray[Any]], is_new: NDArray[Any], block_size: int
) -> None:
    axes.step(np.arange(1, len(is_new) + 1), history["n_blocks"], where="post", **_SO_FAR)
    n_new = int(is_new.sum())
    _draw_kinds(axes, history["block"] + 1, is_new)
    axes.set(ylabel="number of the block that changed", ylim=(0, None))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    n_frequencies = f"{n_new * block_size:,} frequencies"
    axes.set_title(f"Blocks: {n_new:,} in the end, {n_frequencies}", loc="left", size=10)
    axes.legend(frameon=False, fontsize=8, loc="upper left", markerscale=2)


def _draw_steps(axes: Any, history: dict[str, NDArray[Any]], is_new: NDArray[Any]) -> None:
    _draw_kinds(axes, history["step"], is_new)
    axes.set(ylabel="length of the step, eta")
    if not _log_where_wide(axes, "y", history["step"]):
        axes.set_ylim(0.0, 1.08 * history["step"].max())
    axes.set_title("Lengths of the steps", loc="left", size=10)


def _draw_kinds(axes: Any, values: NDArray[Any], is_new: NDArray[Any]) -> None:
    """Draw a value a step, in two colours; of very many steps some, evenly."""
    steps = np.arange(1, len(is_new) + 1)
    for chosen, name, style in ((is_new, "a new block", _NEW), (~is_new, "an old block", _OLD)):
        points = np.flatnonzero(chosen)
        few = points[:: max(1, -(-len(points) // _MOST_POINTS))]
        axes.plot(steps[few], values[few], "o", label=f"{name}: {len(points):,} steps", **style)


def _log_where_wide(axes: Any, which: str, values: NDArray[Any]) -> bool:
    """Give positive numbers of wide range a logarithmic axis, labelled as people write them."""
    finite = values[np.isfinite(values)]
    if not len(finite) or not 0.0 < _WIDE * finite.min() < finite.max():
        return False
    axes.set(**{f"{which}scale": "log"})
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
    return True
