"""Error against time: gramless at efforts 1 to 5 beside boosted trees, with nothing else given.

Rules of the library are chosen on synthetic tables and on the choosing half of the real ones;
figures are quoted for the judging half, which is the default here (``--half choosing`` and ``--half
synthetic`` show the others). Each method takes turns on every table, each turn with another seed;
those named in ``ONCE`` have one. A table's error and times are means over the seeds, and their
ratios to LightGBM's are averaged geometrically over tables. Errors are the share of wrong classes,
or the RMSE over the standard deviation of the test targets; megabytes are those of the pickled
model. Of classes there are the log loss and the Brier score of the test rows, and on how many
tables a method's probabilities are no worse than those of the trees it is held against.
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
JUDGING = (
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
ONCE = ("xgboost", "lightgbm_tuned", "catboost_tuned")
"""They have one seed, as they take long and others of their kind have all."""
REFERENCE = "lightgbm"
HELD_AGAINST = ("lightgbm", "catboost")
MANY_CLASSES = 20
"""With more, probabilities are compared by the Brier score: few rows say much of each class."""
_MAX_SYNTHETIC_ROWS = 20_000
_LABEL_HEIGHT, _LABEL_WIDTH = 0.01, 2.2
"""Of the picture's labels: a difference of errors, a ratio of times."""


@dataclass(frozen=True)
class SizedOutcome(Outcome):
    """An outcome with the size of the pickled model, and of classes two scores of probabilities."""

    megabytes: float
    log_loss: float | None = None
    brier: float | None = None


def judge(estimator: Any, data: Dataset) -> SizedOutcome:
    """Fit, judge on all test rows and weigh the model."""
    outcome = asdict(fit_and_evaluate(estimator, data))
    megabytes = len(pickle.dumps(estimator)) / 1e6
    if data.task == "regression":
        return SizedOutcome(**outcome, megabytes=megabytes)
    known = class_numbers(np.asarray(estimator.classes_), data.y_test)
    told = probability_metrics(known, estimator.predict_proba(data.X_test))
    scores = {name: told[name] for name in ("log_loss", "brier")}
    return SizedOutcome(**outcome, megabytes=megabytes, **scores)


def tables(args: argparse.Namespace) -> Iterator[Dataset]:
    """Yield the tables of the half that was asked for."""
    if args.half != "synthetic":
        names = args.sets or (JUDGING if args.half == "judging" else CHOOSING)
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
    found = []
    for method in methods:
        pairs = [
            (own[method], own[reference])
            for own in by_table.values()
            if method in own and reference in own
        ]
        entry: Row = {"method": method, "tables": len(pairs)}
        for figure in ("error", "fit s", "predict s", "MB"):
            logs = [np.log(own[figure] / other[figure]) for own, other in pairs]
            entry[figure] = float(np.exp(np.mean(logs)))
            if figure in ("error", "fit s"):
                entry[f"worst {figure}"] = float(np.exp(np.max(logs)))
        entry["wins"] = sum(own["error"] < other["error"] for own, other in pairs)
        found.append(entry)
    return found


def no_worse(rows: Iterable[Row]) -> list[Row]:
    """Return on how many tables of classes a method's probabilities are no worse than others'."""
    of_classes = [row for row in rows if row["classes"] is not None]
    scores: dict[str, dict[str, float]] = {}
    for row in of_classes:
        score = row["Brier" if row["classes"] > MANY_CLASSES else "log loss"]
        scores.setdefault(row["method"], {})[row["table"]] = score
    found = []
    for method, own in scores.items():
        entry: Row = {"method": method, "tables": len(own)}
        for other in HELD_AGAINST:
            theirs = scores.get(other, {})
            both = own.keys() & theirs.keys()
            entry[f"no worse than {other}"] = sum(own[name] <= theirs[name] for name in both)
        found.append(entry)
    return found


def _is_crowded(row: Row, others: list[Row]) -> bool:
    """Tell whether another point lies where a label to the right of a method's point would be."""
    close = (own for own in others if abs(own["error"] - row["error"]) < _LABEL_HEIGHT)
    return any(1.0 < own["fit s"] / row["fit s"] < _LABEL_WIDTH for own in close)


def draw(found: list[Row], path: Path) -> None:
    """Draw error ratios against time ratios, the efforts joined by a line."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    efforts = [row for row in found if row["method"].startswith("effort")]
    ours = "#1b6ca8"
    times, errors = [r["fit s"] for r in efforts], [r["error"] for r in efforts]
    ax.plot(times, errors, "o-", color=ours, markersize=8, label="gramless")
    for row in found:
        own, first = row in efforts, row["method"] == REFERENCE
        if not own:
            ax.plot(row["fit s"], row["error"], "o", color="#8a8a8a", markersize=8)
        # On the side where neither the line nor another label is.
        left = {"xytext": (-7, -5), "ha": "right", "va": "top" if own else "center"}
        below = {"xytext": (0, -16), "ha": "center"}
        right = {"xytext": (8, -4)}
        place = left if own or first else below if _is_crowded(row, found) else right
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
    often, once = ([own for own in methods if (own.name in ONCE) == yes] for yes in (False, True))
    rows: list[Row] = []
    for data in tables(args):
        outcomes = take_turns(often, data, args.repeats, args.jobs, judge)
        outcomes |= take_turns(once, data, 1, args.jobs, judge)
        n_classes = None if data.task == "regression" else len(np.unique(data.y_train))
        found: list[Row] = [
            {
                "table": data.name,
                "method": name,
                "seeds": len(own),
                "error": mean(one.error for one in own),
                "std": stdev(one.error for one in own) if len(own) > 1 else None,
                "fit s": mean(one.fit_seconds for one in own),
                "predict s": mean(one.predict_seconds for one in own),
                "MB": mean(one.megabytes for one in own),
                "classes": n_classes,
                "log loss": mean(one.log_loss for one in own) if n_classes else None,
                "Brier": mean(one.brier for one in own) if n_classes else None,
            }
            for name, own in outcomes.items()
        ]
        report.add(f"{data.name}: {data.task}, {len(data.y_train):,} rows", found)
        rows += found
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
