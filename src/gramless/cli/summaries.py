"""Summaries of fitted models and of training runs, as text and as data."""

from __future__ import annotations

import numpy as np
from sklearn.base import is_classifier

from gramless.base.state import Json
from gramless.cli.metrics import Classifier
from gramless.cli.reading import input_names
from gramless.cli.report import short_number
from gramless.estimators.base import KernelMachine
from gramless.estimators.streamed import StreamedMachine
from gramless.features.base import FeatureMap
from gramless.features.binning import BinningMap
from gramless.features.hybrid import parts_of
from gramless.features.smooth import SmoothBinning
from gramless.inspection.diagnostics import summarise

_THREADS = (2, 8, 64)  # thread counts for which the speed-up is shown
_KINDS = {"random": "random grids", "grown": "grown grids", "both": "grown and random grids"}
_STRATEGIES = {
    "checking": "checking (the blocks of CDSG)",
    "cdsg": "cdsg (CDSG)",
    "uniform": "uniform (UDSG)",
    "grow": "grow (DSG)",
}
_ENDS = {
    "patience": "converged: the loss on validation rows no longer decreases",
    "max_steps": "all steps done",
    "time": "out of time",
    "stopped": "interrupted",
    "diverged": "diverged: the steps led to infinite numbers",
    "running": "unfinished",
    "partial": "by partial_fit",
    "ended": "the stream had no more rows",
}


def choices_of(model: KernelMachine) -> dict[str, object]:
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
    if model.bandwidth_ is None:
        return "none, because each grid has its own widths"
    ends = (float(np.min(model.bandwidth_)), float(np.max(model.bandwidth_)))
    return " to ".join(dict.fromkeys(map(short_number, ends)))


def relevance_of(model: KernelMachine) -> str:
    if model.settings_.grids != "random":
        return "by selection of grids"
    return "equal" if model.settings_.relevance is None else "learned"


def grids_of(model: KernelMachine) -> int | None:
    """Return the number of a model's grids; None if its features have none."""
    counts = [n for n in map(_n_grids_of, parts_of(model.features_)) if n is not None]
    return sum(counts) if counts else None


def features_of(model: KernelMachine) -> str:
    kind, texts = _KINDS[model.settings_.grids], []
    for part in parts_of(model.features_):
        n_grids, n_columns = _n_grids_of(part), part.n_features_out
        if n_grids is None:
            texts.append(f"{type(part).__name__}, {n_columns:,} columns")
        else:
            texts.append(f"{n_grids:,} {kind}, {n_columns:,} bins")
    if model.sparsity_ > 0:
        texts.append(f"{model.sparsity_:.1%} of the columns have no weight")
    return "; ".join(texts)


def _n_grids_of(features: FeatureMap) -> int | None:
    return len(features.n_bins_) if isinstance(features, BinningMap | SmoothBinning) else None


def run_of(model: StreamedMachine) -> dict[str, Json]:
    """Return the run of a streamed model and its result as data.

    ``steps`` and ``blocks`` count those of the run. ``kept_steps`` and ``kept_blocks`` count those
    of the saved function: the best one, or the last one if the model has no patience.
    ``held_back_loss`` and ``held_back_error`` are from the evaluation of that function on
    validation rows. The error is the share of wrong classes, or the root mean squared error in
    standard deviations of the target. ``bandwidth`` is the text that says how it was chosen.
    """
    evaluations, history, strategy = model.evaluations_, model.history_, model.strategy
    keeps_best, shown = model.patience is not None, None
    if evaluations:
        shown = int(np.argmin(evaluations["loss"])) if keeps_best else -1
    # Each frequency has a cosine and a sine.
    n_kept_blocks = len(model.weights_) // (2 * model.block_size_)
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
        "kept_steps": int(evaluations["iteration"][shown])
        if evaluations and keeps_best
        else model.n_iter_,
        "kept_blocks": n_kept_blocks,
        "frequencies": n_kept_blocks * model.block_size_,
        "held_back_loss": None if shown is None else float(evaluations["loss"][shown]),
        "held_back_error": None if shown is None else float(evaluations["error"][shown]),
    }


def run_in_words(model: StreamedMachine) -> dict[str, object]:
    run = run_of(model)
    best = "" if run["kept_steps"] == run["steps"] else f"; the best after {run['kept_steps']:,}"
    loss, error = run["held_back_loss"], run["held_back_error"]
    unchanged = ("strategy", "kernel", "inputs", "components", "bandwidth", "loss", "alpha")
    return {
        **{name: run[name] for name in unchanged},
        "status": _ENDS[run["status"]],
        "steps": f"{run['steps']:,} with {run['batch_rows']:,} rows each{best}",
        "blocks": f"{run['kept_blocks']:,} of {model.block_size_:,} frequencies each, "
        f"{run['frequencies']:,} in all",
        "validation": None
        if loss is None
        else f"loss {short_number(loss)}, {error_of(model, error)}",
    }


def run_lines(model: StreamedMachine, document: dict[str, object]) -> dict[str, object]:
    """Return lines about a run, and add its data to ``document``."""
    document["run"] = run_of(model)
    lines = run_in_words(model)
    lines |= {"names": input_names(model) or None, "classes": classes_of(model)}
    if "run_" in vars(model):
        lines["checkpoint"] = "gramless stream --checkpoint can resume this file"
    return lines


def error_of(model: StreamedMachine, error: float) -> str:
    """Return a validation error of the model in words."""
    unit = "standard deviations of the target"
    return f"{error:.2%} wrong" if is_classifier(model) else f"RMSE {short_number(error)} {unit}"


def classes_of(model: KernelMachine | StreamedMachine) -> list[object] | None:
    return model.classes_.tolist() if isinstance(model, Classifier) else None


def fitted_lines(model: KernelMachine | FeatureMap) -> dict[str, object]:
    if not isinstance(model, KernelMachine):
        return {"inputs": model.n_inputs, "columns": model.n_features_out}
    inputs = input_names(model) or model.n_features_in_
    return {"inputs": inputs, "classes": classes_of(model), **choices_of(model)}


def bin_lines(model: KernelMachine | FeatureMap, document: dict[str, object]) -> dict[str, object]:
    """Return lines about the bins of the training rows, and add them to ``document``.

    There are none if the features are not bins.
    """
    estimator = model if isinstance(model, KernelMachine) else None
    # Grids come first in joint maps.
    features = parts_of(model if estimator is None else estimator.features_)[0]
    if not isinstance(features, BinningMap):
        return {}
    diagnostics, estimate = summarise(features.nu_, features.offsets_[-1]), None
    # The weights are in the model's units of the target. The estimate is proportional to the square
    # of these units, like most losses. A quantile loss is not, so there is no estimate for it.
    if estimator is not None and estimator.loss_.name != "quantile":
        coef = estimator.weights_[: features.n_features_out]
        estimate = diagnostics.error_estimate(estimator.loss_, coef)
    speedups = {str(threads): diagnostics.speedup(threads) for threads in _THREADS}
    document["diagnostics"] = {
        "nu": diagnostics.nu,
        "kappa": diagnostics.kappa,
        "kappa_bar": diagnostics.kappa_bar,
        "speedup": speedups,
        "speedup_limit": diagnostics.speedup_limit,
        "error_estimate": estimate,
    }
    unit = "" if estimator and classes_of(estimator) else " in units of the target squared"
    return {
        "fullest bin": f"{diagnostics.nu:.1%} of the rows, mean over grids (nu)",
        "kappa": f"{short_number(diagnostics.kappa)}, one over that share, mean over grids",
        "bins per grid": f"{short_number(diagnostics.kappa_bar)} (kappa bar)",
        "parallel law": f"{', '.join(speedups)} threads: coordinate descent "
        f"{', '.join(map(short_number, speedups.values()))} times as fast; "
        f"at most {short_number(diagnostics.speedup_limit)}",
        "theorem 1": None
        if estimate is None
        else f"objective at most about {short_number(estimate)}{unit} above that of infinitely "
        "many grids; an estimated bound",
    }
