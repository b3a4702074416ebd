"""Default fits of several classes before and after a change: errors, log loss and processor time.

``--write FILE`` fits generated tables of several classes in one thread and writes the scores;
``--compare FILE`` fits again and shows the ratios to these scores, for each table and as geometric
means. The default tables are small, below 2,000 rows, and rules for few rows were chosen on them.
``--others`` uses tables of the same sizes on which nothing was chosen, ``--large`` tables of 4,000
to 10,000 rows, and ``--sets`` real ones, of which at most ``--rows`` rows are fitted. Seconds are
processor time, which other work on the machine hardly changes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import (
    Report,
    Row,
    class_numbers,
    load_sets,
    means,
    options,
    parse,
    part_of,
    print_progress,
)
from gramless import KernelClassifier
from gramless.cli.metrics import probability_metrics
from harness.data_sets import Dataset
from harness.synthetic import table_of_classes

# The number (seed) of each table, its rows and its classes.
SMALL = tuple(
    (200 + k, n_rows, n_classes)
    for k, (n_rows, n_classes) in enumerate(
        zip(
            (600, 1000, 1000, 1500, 1500, 1500, 1900, 1900, 1900, 1900, 1200, 1900),
            (3, 4, 8, 3, 6, 10, 4, 6, 8, 10, 5, 12),
            strict=True,
        )
    )
)
OTHERS = tuple((number + 500, n_rows, n_classes) for number, n_rows, n_classes in SMALL)

LARGE = ((300, 4000, 5), (301, 4000, 12), (302, 6000, 8), (303, 8000, 20), (304, 10_000, 6))
_MAX_TEST = 10_000
Scores = dict[str, float]


def fit_and_score(data: Dataset, seed: int) -> Scores:
    """Fit the default in one thread; return error and log loss of the test rows, and seconds."""
    model = KernelClassifier(random_state=seed, n_jobs=1)
    started = time.process_time()
    model.fit(data.X_train, data.y_train)
    seconds = time.process_time() - started
    known = class_numbers(model.classes_, data.y_test)
    probabilities = model.predict_proba(data.X_test)
    metrics = probability_metrics(known, probabilities)
    error = float(np.mean(probabilities.argmax(axis=1) != known))
    return {"error": error, "log loss": float(metrics["log_loss"]), "cpu s": seconds}


def ratios(scores_by_table: dict[str, Scores], before: dict[str, Scores]) -> list[Row]:
    """Return each table's scores over the earlier ones, and their geometric means."""
    rows: list[Row] = []
    for name, scores in scores_by_table.items():
        if name in before:
            over = {key: scores[key] / max(before[name][key], 1e-9) for key in scores}
            rows.append({"table": name, **scores, **{f"{key} ratio": over[key] for key in scores}})
    mean: Row = {"table": "geometric mean"}
    for key in ("error ratio", "log loss ratio", "cpu s ratio"):
        mean[key] = geometric_mean(max(row[key], 1e-9) for row in rows)
    return [*rows, mean]


def main() -> None:
    parser = options(__doc__, repeats=2)
    parser.add_argument("--write", type=Path, help="file to keep the scores in")
    parser.add_argument("--compare", type=Path, help="file of scores to compare with")
    parser.add_argument("--large", action="store_true", help="the larger tables")
    parser.add_argument(
        "--others", action="store_true", help="small tables on which nothing was chosen"
    )
    parser.add_argument("--sets", nargs="+", help="real tables instead")
    parser.add_argument("--rows", type=int, default=20_000, help="of a real table at most")
    args = parse(parser)

    def tables() -> Iterator[Dataset]:
        if args.sets:
            for data in load_sets(args.sets, args):
                yield part_of(data, args.rows, _MAX_TEST)
            return
        plans = LARGE if args.large else OTHERS if args.others else SMALL
        for plan in plans[:2] if args.quick else plans:
            yield table_of_classes(*plan)

    fit_and_score(table_of_classes(100, 600, 4), 0)
    report, scores_by_table = Report(args), {}
    for data in tables():
        scores_by_table[data.name] = means(
            [fit_and_score(data, seed) for seed in range(args.repeats)]
        )
        print_progress(f"{data.name}: {scores_by_table[data.name]}")
    report.add(
        "default fits", [{"table": name, **scores} for name, scores in scores_by_table.items()]
    )
    if args.write:
        args.write.write_text(json.dumps(scores_by_table, indent=1) + "\n")
    if args.compare:
        report.add("over before", ratios(scores_by_table, json.loads(args.compare.read_text())))
    report.close()


if __name__ == "__main__":
    main()
