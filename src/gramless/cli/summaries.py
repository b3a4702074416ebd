"""What a fitted model chose, and how its run went, in words and as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gramless.cli.report import number

if TYPE_CHECKING:
    from gramless.base.state import Json
    from gramless.estimators.base import KernelMachine
    from gramless.estimators.streamed import StreamedMachine
    from gramless.features.base import FeatureMap

_KINDS = {"random": "random grids", "grown": "grown grids", "both": "grown and random grids"}
_STRATEGIES = {"checking": "checking (CDSG)", "uniform": "uniform (UDSG)", "grow": "grow (DSG)"}
_ENDS = {
    "patience": "settled: the loss on held-back rows hardly falls any more",
    "max_steps": "all steps taken",
    "time": "the time was up",
    "stopped": "interrupted",
    "diverged": "diverged: steps led to numbers beyond all bounds",
    "running": "in the middle of a run",
    "partial": "by partial_fit, batch by batch",
    "ended": "the stream had no more rows",
}


def choices_of(model: KernelMachine) -> dict[str, object]:
    """Return what a model chose, in words."""
    return {
        "scaling": model.scaler_.kind,
        "bandwidth": bandwidth_of(model),
        "relevance": relevance_of(model),
        "alpha": model.alpha_,
        "features": features_of(model),
        "loss": model.loss_.name,
        "trials": len(model.search_) or None,
        "solver": f"{model.status_} after {model.n_iter_} iterations",
    }


def bandwidth_of(model: KernelMachine) -> str:
    """Return the bandwidths of a model's random grids."""
    if model.bandwidth_ is None:
        return "none, each grid has its own widths"
    import numpy as np

    ends = (float(np.min(model.bandwidth_)), float(np.max(model.bandwidth_)))
    return " to ".join(dict.fromkeys(map(number, ends)))


def relevance_of(model: KernelMachine) -> str:
    """Return how a model weighs its inputs."""
    if model.settings_.grids != "random":
        return "by choice of grids"
    return "equal" if model.settings_.relevance is None else "learned"


def grids_of(model: KernelMachine) -> int | None:
    """Return the number of a model's grids; None if its features are no bins."""
    from gramless.features.hybrid import parts_of

    counts = [n for n in map(_grids_in, parts_of(model.features_)) if n is not None]
    return sum(counts) if counts else None


def features_of(model: KernelMachine) -> str:
    """Return what a model's features are, how many, and how many were left out."""
    from gramless.features.hybrid import parts_of

    kind, told = _KINDS[model.settings_.grids], []
    for part in parts_of(model.features_):
        n_grids, n_columns = _grids_in(part), part._n_features_out
        own = f"{type(part).__name__}, {n_columns:,} columns"
        told.append(own if n_grids is None else f"{n_grids:,} {kind}, {n_columns:,} bins")
    if model.sparsity_ > 0:
        told.append(f"{model.sparsity_:.1%} of the columns left out")
    return "; ".join(told)


def _grids_in(features: FeatureMap) -> int | None:
    from gramless.features.binning import BinningMap
    from gramless.features.smooth import SmoothBinning

    return len(features.n_bins_) if isinstance(features, BinningMap | SmoothBinning) else None


def run_of(model: StreamedMachine) -> dict[str, Json]:
    """Return the run of a streamed model and its result as plain data.

    ``steps`` and ``blocks`` are those of the run, ``kept_*`` those of its best function.
    ``held_back_error`` is the share of wrong classes, or the root mean squared error in
    standard deviations of the target.
    """
    import numpy as np

    judged, history, strategy = model.evaluations_, model.history_, model.strategy
    best = int(np.argmin(judged["loss"])) if judged else None
    kept = len(model.weights_) // (2 * model.block_size_)
    projection = model.preparation_.projection
    if not isinstance(strategy, str):
        strategy = f"{_STRATEGIES[type(strategy).__name__.lower()]}, {strategy}"
    return {
        "strategy": _STRATEGIES.get(strategy, strategy),
        "kernel": model.kernel_.name,
        "inputs": model.n_features_in_,
        "components": None if projection is None else projection.components.shape[1],
        "bandwidth": model.reason_,
        "loss": model.loss_.name,
        "alpha": model.alpha_,
        "batch_rows": model.batch_rows_,
        "status": model.status_,
        "steps": model.n_iter_,
        "blocks": int(history["n_blocks"][-1]) if history else 0,
        "kept_steps": model.n_iter_ if best is None else int(judged["iteration"][best]),
        "kept_blocks": kept,
        "frequencies": kept * model.block_size_,
        "held_back_loss": None if best is None else float(judged["loss"][best]),
        "held_back_error": None if best is None else float(judged["error"][best]),
    }


def run_in_words(model: StreamedMachine) -> dict[str, object]:
    """Return the same for people."""
    run = run_of(model)
    best = "" if run["kept_steps"] == run["steps"] else f"; the best after {run['kept_steps']:,}"
    loss, error = run["held_back_loss"], run["held_back_error"]
    same = ("strategy", "kernel", "inputs", "components", "bandwidth", "loss", "alpha")
    return {
        **{name: run[name] for name in same},
        "status": _ENDS[run["status"]],
        "steps": f"{run['steps']:,} with {run['batch_rows']:,} rows each{best}",
        "blocks": f"{run['kept_blocks']:,} of {model.block_size_:,} frequencies each, "
        f"{run['frequencies']:,} in all",
        "held back": None if loss is None else f"loss {number(loss)}, {error_of(model, error)}",
    }


def error_of(model: StreamedMachine, error: float) -> str:
    """Return an error on held-back rows of a streamed model in words."""
    from sklearn.base import is_classifier

    unit = "standard deviations of the target"
    return f"{error:.2%} wrong" if is_classifier(model) else f"RMSE {number(error)} {unit}"
