"""Default fits compared with LightGBM on every table of at most 130 inputs.

Only the seed is set; LightGBM has at most 1,000 trees, a learning rate of 0.1, and early stopping.
Errors are error rates, or the RMSE over the standard deviation of the test targets. Ratios are ours
over LightGBM's, of the means over the seeds; seconds are medians. For classification the tables
show the log loss of the test rows and the share of rows whose class is in ``predict_set``; for
regression the share of targets in ``predict_interval``. Both should be 90 %. The size is the mean
number of classes in a set, or the mean length of an interval over the standard deviation of the
test targets. ``--picture`` draws errors and seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean, mean, median
from typing import Any

import _repository  # noqa: F401
import numpy as np
import threadpoolctl
from numpy.typing import NDArray

from benchmarks.common import (
    Outcome,
    Report,
    Row,
    class_numbers,
    fit_and_evaluate,
    load_sets,
    options,
    parse,
    print_progress,
    save_picture,
)
from benchmarks.versus.turns import find_methods, take_turns
from harness.data_sets import Dataset

SETS = (
    "cpu_act",
    "cadata",
    "electricity",
    "house_16H",
    "uci_pol",
    "uci_kin40k",
    "protein_casp",
    "letter",
    "covtype_first20k",
    "a9a",
    "ijcnn1",
    "cod-rna",
    "covtype_1vs2_169k",
    "nyc_taxi_green_349k",
    "cifar10_pca100",
    "kddcup99_10pct",
)
MAX_INPUTS = 130
OURS, THEIRS = "gramless", "lightgbm"
COVERAGE = 0.9
BETTER, WORSE, OTHER = "#1b6ca8", "#d1495b", "#8a8a8a"
# Lower limit in logarithms, because trees can predict a probability of zero.
MIN_PROBABILITY = 1e-15


@dataclass(frozen=True)
class UncertaintyOutcome(Outcome):
    """An outcome with the quality of predicted uncertainty; None if the method predicts none."""

    log_loss: float | None = None
    covered: float | None = None
    size: float | None = None


def evaluate_uncertainty(estimator: Any, data: Dataset) -> UncertaintyOutcome:
    """Fit, and evaluate predictions, probabilities, and intervals or sets on the test rows."""
    outcome = asdict(fit_and_evaluate(estimator, data))
    if data.task == "regression":
        return UncertaintyOutcome(**outcome, **intervals(estimator, data))
    return UncertaintyOutcome(
        **outcome, log_loss=log_loss(estimator, data), **sets(estimator, data)
    )


def intervals(estimator: Any, data: Dataset) -> dict[str, float]:
    if not hasattr(estimator, "predict_interval"):
        return {}
    lower, upper = estimator.predict_interval(data.X_test, coverage=COVERAGE)
    inside = (lower <= data.y_test) & (data.y_test <= upper)
    return {
        "covered": float(inside.mean()),
        "size": float((upper - lower).mean() / data.y_test.std()),
    }


def sets(estimator: Any, data: Dataset) -> dict[str, float]:
    if not hasattr(estimator, "predict_set"):
        return {}
    inside = estimator.predict_set(data.X_test, coverage=COVERAGE)
    is_covered = of_true_class(inside, estimator.classes_, data.y_test)
    return {"covered": float(is_covered.mean()), "size": float(inside.sum(axis=1).mean())}


def log_loss(estimator: Any, data: Dataset) -> float | None:
    if not hasattr(estimator, "predict_proba"):
        return None
    probabilities = estimator.predict_proba(data.X_test)
    of_class = of_true_class(probabilities, estimator.classes_, data.y_test)
    return float(-np.log(np.maximum(of_class, MIN_PROBABILITY)).mean())


def of_true_class(values: NDArray[Any], classes: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Return the values of each row's true class, or zero if no training row has that class."""
    at = class_numbers(classes, y)
    return np.where(at >= 0, values[np.arange(len(y)), at], 0)


def compare(data: Dataset, args: argparse.Namespace) -> Row:
    methods = {method.name: method for method in find_methods((OURS, THEIRS))}
    turns = take_turns(methods.values(), data, args.repeats, args.jobs, evaluate_uncertainty)
    ours, theirs = turns[OURS], turns.get(THEIRS, [])
    errors = [average(outcome.error for outcome in runs) for runs in (ours, theirs)]
    times = [
        median(outcome.fit_seconds for outcome in runs) if runs else None for runs in (ours, theirs)
    ]
    losses = [average(outcome.log_loss for outcome in runs) for runs in (ours, theirs)]
    return {
        "data set": data.name,
        "task": data.task,
        "rows": data.X_train.shape[0],
        "inputs": data.X_train.shape[1],
        "error": errors[0],
        "its error": errors[1],
        "ratio": ratio(*errors),
        "fit s": times[0],
        "its fit s": times[1],
        "time ratio": ratio(*times),
        "log loss": losses[0],
        "its log loss": losses[1],
        "covered": average(outcome.covered for outcome in ours),
        "size": average(outcome.size for outcome in ours),
    }


def average(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """Return ours over theirs, or None if one is missing or theirs is zero."""
    return ours / theirs if ours is not None and theirs else None


def summary(rows: list[Row]) -> Row:
    known = [row for row in rows if row["ratio"]]
    worst = max(known, key=lambda row: row["ratio"], default=None)
    with_log_loss = [row for row in rows if None not in (row["log loss"], row["its log loss"])]
    is_no_worse = [row["log loss"] <= row["its log loss"] for row in with_log_loss]
    timed = [row for row in rows if row["its fit s"] is not None]
    seconds = [sum(row[name] for row in timed) for name in ("fit s", "its fit s")]
    return {
        "tables": len(rows),
        "mean ratio": geometric_mean(row["ratio"] for row in known) if known else None,
        "worst table": worst["data set"] if worst else None,
        "worst ratio": worst["ratio"] if worst else None,
        "fit s": seconds[0],
        "its fit s": seconds[1],
        "total time ratio": ratio(*seconds),
        "tables with log loss": len(with_log_loss),
        "share no worse": average(is_no_worse),
    }


def draw(rows: list[Row], path: Path) -> None:
    """Draw each table's error over LightGBM's, the best first, and the seconds of both."""
    from matplotlib.figure import Figure

    known = sorted((row for row in rows if row["ratio"]), key=lambda row: -row["ratio"])
    places = range(len(known))
    figure = Figure(figsize=(9, 1.2 + 0.27 * len(known)), layout="constrained")
    errors, times = figure.subplots(1, 2, sharey=True)
    ratios = [row["ratio"] for row in known]
    colours = [BETTER if ratio <= 1.0 else WORSE for ratio in ratios]
    errors.hlines(places, 1.0, ratios, colors=colours, lw=3)
    errors.scatter(ratios, places, c=colours, s=40, zorder=3)
    errors.axvline(1.0, color="0.3", lw=1)
    errors.set(xlabel="error, over LightGBM's", xlim=(0.0, max(1.3, *ratios)))
    errors.set_yticks(places, [f"{row['data set']}, {row['rows']:,} rows" for row in known])
    both = [[row[name] for row in known] for name in ("fit s", "its fit s")]
    times.hlines(places, *both, colors="0.8", lw=1)
    for seconds, colour, label in zip(both, (BETTER, OTHER), ("gramless", "LightGBM"), strict=True):
        times.scatter(seconds, places, c=colour, s=40, zorder=3, label=label)
    times.set(xscale="log", xlabel="seconds of a fit")
    times.xaxis.set_major_formatter("{x:g}")
    times.minorticks_off()
    times.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    for axes in (errors, times):
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    save_picture(figure, path)


def main() -> None:
    parser = options(__doc__, repeats=3, sets=SETS)
    parser.add_argument("--picture", type=Path, help="where to draw it, as PNG or SVG")
    args = parse(parser)
    report = Report(args)
    rows: list[Row] = []
    with threadpoolctl.threadpool_limits(args.jobs):
        for data in load_sets(args.only, args):
            if data.X_train.shape[1] > MAX_INPUTS:
                print_progress(f"{data.name}: more than {MAX_INPUTS} inputs, skipped")
                continue
            rows.append(compare(data, args))
            report.add(data.name, rows[-1:])
    report.add("All tables, ours and LightGBM's", rows)
    report.add("Geometric mean of the ratios, and sums", [summary(rows)] if rows else [])
    report.close()
    if args.picture and any(row["ratio"] for row in rows):
        draw(rows, args.picture)


if __name__ == "__main__":
    main()
