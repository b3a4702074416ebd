"""Error against time: gramless at efforts 1 to 5 compared with boosted trees.

All other parameters have their defaults.

The library's rules are chosen on synthetic tables and on the choosing half of the real ones.
Published figures are those of the other half, which is the default here (``--half judging``).
Methods take turns on every table, each turn with another seed; those in ``ONCE`` have one turn. A
table's error and times are means over the seeds, and their ratios to LightGBM's are averaged
geometrically over tables. Errors are error rates, or the RMSE over the standard deviation of the
test targets; megabytes are those of the pickled model. For classification there are the log loss
and the Brier score of the test rows, and the number of tables on which a method's probabilities are
no worse than those of ``COMPARED_WITH``.
"""

from __future__ import annotations

import argparse
import pickle
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import (
    ROOT,
    Outcome,
    Report,
    Row,
    class_numbers,
    fit_and_evaluate,
    load_sets,
    options,
    parse,
    save_picture,
)
from benchmarks.versus.turns import find_methods, take_turns
from gramless.cli.metrics import probability_metrics
from harness.data_sets import Dataset
from harness.synthetic import N_TABLES, describe, synthetic_table

CHOOSING = (
    "a9a",
    "cifar10_pca100",
    "covtype_1vs2_169k",
    "cpu_act",
    "house_16H",
    "kddcup99_10pct",
    "nyc_taxi_green_349k",
    "uci_kin40k",
)
EVALUATION = (
    "cadata",
    "cod-rna",
    "covtype_first20k",
    "electricity",
    "ijcnn1",
    "letter",
    "protein_casp",
    "uci_pol",
)
METHODS = (
    "lightgbm",
    "effort_1",
    "effort_2",
    "effort_3",
    "effort_4",
    "effort_5",
    "catboost",
    "chimeraboost",
    "hist_gradient_boosting",
    "extra_trees",
)
# These have one seed, because they take long and similar methods have all seeds.
ONCE = ("xgboost", "lightgbm_tuned", "catboost_tuned")
REFERENCE = "lightgbm"
COMPARED_WITH = ("lightgbm", "catboost")
# With more classes, probabilities are compared by the Brier score, because each class has few rows.
MANY_CLASSES = 20
_MAX_SYNTHETIC_ROWS = 20_000
# Size of a label in the picture: a difference of errors, and a ratio of times.
_LABEL_HEIGHT, _LABEL_WIDTH = 0.01, 2.2


@dataclass(frozen=True)
class SizedOutcome(Outcome):
    """An outcome with the size of the pickled model and, for classification, two scores."""

    megabytes: float
    log_loss: float | None = None
    brier: float | None = None


def evaluate(estimator: Any, data: Dataset) -> SizedOutcome:
    """Fit, compute errors and scores on all test rows, and measure the size of the model."""
    outcome = asdict(fit_and_evaluate(estimator, data))
    megabytes = len(pickle.dumps(estimator)) / 1e6
    if data.task == "regression":
        return SizedOutcome(**outcome, megabytes=megabytes)
    known = class_numbers(np.asarray(estimator.classes_), data.y_test)
    metrics = probability_metrics(known, estimator.predict_proba(data.X_test))
    scores = {name: metrics[name] for name in ("log_loss", "brier")}
    return SizedOutcome(**outcome, megabytes=megabytes, **scores)


def tables(args: argparse.Namespace) -> Iterator[Dataset]:
    """Yield the tables of the selected half."""
    if args.half != "synthetic":
        names = args.sets or (EVALUATION if args.half == "judging" else CHOOSING)
        yield from load_sets(names, args)
        return
    numbers = [k for k in range(N_TABLES) if describe(k).n_rows <= _MAX_SYNTHETIC_ROWS]
    for number in numbers[:2] if args.quick else numbers:
        yield synthetic_table(number)


def ratios(rows: Iterable[Row], reference: str) -> list[Row]:
    """Return each method's figures over those of the reference, averaged over tables."""
    by_table: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_table.setdefault(row["table"], {})[row["method"]] = row
    methods = list(dict.fromkeys(row["method"] for row in rows))
    entries = []
    for method in methods:
        pairs = [
            (results[method], results[reference])
            for results in by_table.values()
            if method in results and reference in results
        ]
        entry: Row = {"method": method, "tables": len(pairs)}
        for figure in ("error", "fit s", "predict s", "MB"):
            logs = [np.log(result[figure] / other[figure]) for result, other in pairs]
            entry[figure] = float(np.exp(np.mean(logs)))
            if figure in ("error", "fit s"):
                entry[f"worst {figure}"] = float(np.exp(np.max(logs)))
        entry["wins"] = sum(result["error"] < other["error"] for result, other in pairs)
        entries.append(entry)
    return entries


def no_worse(rows: Iterable[Row]) -> list[Row]:
    """Return on how many classification tables each method's probabilities are no worse."""
    classification_rows = [row for row in rows if row["classes"] is not None]
    scores: dict[str, dict[str, float]] = {}
    for row in classification_rows:
        score = row["Brier" if row["classes"] > MANY_CLASSES else "log loss"]
        scores.setdefault(row["method"], {})[row["table"]] = score
    entries = []
    for method, method_scores in scores.items():
        entry: Row = {"method": method, "tables": len(method_scores)}
        for other in COMPARED_WITH:
            other_scores = scores.get(other, {})
            shared = method_scores.keys() & other_scores.keys()
            entry[f"no worse than {other}"] = sum(
                method_scores[name] <= other_scores[name] for name in shared
            )
        entries.append(entry)
    return entries


def _is_crowded(row: Row, others: list[Row]) -> bool:
    """Return whether a label to the right of a method's point would cover another point."""
    close = (other for other in others if abs(other["error"] - row["error"]) < _LABEL_HEIGHT)
    return any(1.0 < other["fit s"] / row["fit s"] < _LABEL_WIDTH for other in close)


def draw(rows: list[Row], path: Path) -> None:
    """Draw error ratios against time ratios, the efforts joined by a line."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    efforts = [row for row in rows if row["method"].startswith("effort")]
    ours = "#1b6ca8"
    times, errors = [r["fit s"] for r in efforts], [r["error"] for r in efforts]
    ax.plot(times, errors, "o-", color=ours, markersize=8, label="gramless")
    for row in rows:
        is_ours, is_reference = row in efforts, row["method"] == REFERENCE
        if not is_ours:
            ax.plot(row["fit s"], row["error"], "o", color="#8a8a8a", markersize=8)
        # Place the label away from the line and from other labels.
        left = {"xytext": (-7, -5), "ha": "right", "va": "top" if is_ours else "center"}
        below = {"xytext": (0, -16), "ha": "center"}
        right = {"xytext": (8, -4)}
        place = left if is_ours or is_reference else below if _is_crowded(row, rows) else right
        ax.annotate(
            row["method"], (row["fit s"], row["error"]), textcoords="offset points", **place
        )
    ax.legend(frameon=False)
    ax.set(
        xscale="log",
        xlabel="time of a fit over LightGBM's",
        ylabel="test error over LightGBM's",
        xticks=(1, 2, 5, 10, 20),
        xticklabels=("1 x", "2 x", "5 x", "10 x", "20 x"),
    )
    ax.minorticks_off()
    ax.margins(x=0.4, y=0.15)
    ax.grid(alpha=0.3)
    save_picture(figure, path)


def main() -> None:
    parser = options(__doc__, repeats=3)
    parser.add_argument("--half", choices=("judging", "choosing", "synthetic"), default="judging")
    parser.add_argument("--sets", nargs="+", help="names of tables instead of a half")
    parser.add_argument("--methods", nargs="+", default=[*METHODS, *ONCE])
    parser.add_argument("--picture", type=Path, default=ROOT / "build" / "pareto.png")
    args = parse(parser)
    report = Report(args)
    methods = find_methods(args.methods)
    often, once = ([m for m in methods if (m.name in ONCE) == is_once] for is_once in (False, True))
    rows: list[Row] = []
    for data in tables(args):
        outcomes = take_turns(often, data, args.repeats, args.jobs, evaluate)
        outcomes |= take_turns(once, data, 1, args.jobs, evaluate)
        n_classes = None if data.task == "regression" else len(np.unique(data.y_train))
        rows_of_table: list[Row] = [
            {
                "table": data.name,
                "method": name,
                "seeds": len(runs),
                "error": mean(outcome.error for outcome in runs),
                "std": stdev(outcome.error for outcome in runs) if len(runs) > 1 else None,
                "fit s": mean(outcome.fit_seconds for outcome in runs),
                "predict s": mean(outcome.predict_seconds for outcome in runs),
                "MB": mean(outcome.megabytes for outcome in runs),
                "classes": n_classes,
                "log loss": mean(outcome.log_loss for outcome in runs) if n_classes else None,
                "Brier": mean(outcome.brier for outcome in runs) if n_classes else None,
            }
            for name, runs in outcomes.items()
        ]
        report.add(f"{data.name}: {data.task}, {len(data.y_train):,} rows", rows_of_table)
        rows += rows_of_table
    if any(row["classes"] is not None for row in rows):
        title = f"probabilities: log loss, Brier of more than {MANY_CLASSES} classes"
        report.add(title, no_worse(rows))
    if any(row["method"] == REFERENCE for row in rows):
        summary = ratios(rows, REFERENCE)
        report.add(f"over {REFERENCE}'s: geometric means, and the worst table", summary)
        draw(summary, args.picture)
    report.close()


if __name__ == "__main__":
    main()
