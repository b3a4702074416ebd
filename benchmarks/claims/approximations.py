"""The cost at which other approximations reach the error of 4,096 Fourier features (RB16, 5.2).

Each method searches scaling, bandwidth and alpha once on the training rows. With these settings its
size doubles until its test error is at most that of Fourier features, or until a fit takes four
times as long. The search uses 1,024 Fourier features; because 4,096 allow a smaller bandwidth and a
smaller alpha, the best of six neighbouring settings is selected on a fifth of the training rows.
Seconds are those of the features and the solve, medians over the seeds. Bytes are those of the
features of all training rows. Errors are means of the error rate, or of the RMSE over the targets'
standard deviation. "times less" is the cost of Fourier features over that of the method: RB16
claims one to three orders of magnitude.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from statistics import geometric_mean

import _repository  # noqa: F401
import numpy as np
import threadpoolctl

from benchmarks.common import Report, Row, load_sets, options, parse, print_progress
from gramless.base.random import stream
from harness.approximations import (
    Outcome,
    Split,
    TunedMethod,
    measure,
    measure_sizes,
    template,
    tune,
)
from harness.data_sets import Dataset

SETS = ("covtype_1vs2_169k", "ijcnn1", "letter", "cod-rna")
METHODS = ("binning", "smooth", "nystrom")
COLUMNS, QUICK_COLUMNS = 4096, 128
# Settings of Fourier features at their full size, as multiples of the result of the search.
BANDWIDTHS, ALPHAS = (1.0, 0.5**0.5, 0.5), (1.0, 0.1)
# A method stops when a fit takes this many times as long as with Fourier features.
PATIENCE = 4.0


def split_of(data: Dataset) -> Split:
    task = "regression" if data.task == "regression" else "classification"
    return Split(data.X_train, data.y_train, data.X_test, data.y_test, task)


def search_settings(method: str, split: Split, jobs: int | None) -> TunedMethod:
    print_progress(f"  {method}: search")
    return tune(method, template(method, split, 0, jobs), split)


def refine_settings(settings: TunedMethod, split: Split, columns: int) -> TunedMethod:
    """Return the best of the neighbouring settings for this number of columns."""
    order = stream(0, "held-back rows").permutation(len(split.y))
    cut = len(order) // 5
    validation, training = order[:cut], order[cut:]
    inner = Split(
        split.X[training], split.y[training], split.X[validation], split.y[validation], split.task
    )
    candidates = [
        replace(
            settings,
            bandwidth=settings.bandwidth * bandwidth_factor,
            alpha=settings.alpha * alpha_factor,
        )
        for bandwidth_factor in BANDWIDTHS
        for alpha_factor in ALPHAS
    ]
    errors = [measure(candidate, columns, inner, 1).error for candidate in candidates]
    best = candidates[int(np.argmin(errors))]
    print_progress(f"  fourier: bandwidth {best.bandwidth:.4g}, alpha {best.alpha:.2g}")
    return best


def grow_until_as_good(
    settings: TunedMethod, split: Split, reference: Outcome, repeats: int
) -> Outcome:
    """Return the first outcome as good as the reference, or else the best."""
    outcomes: list[Outcome] = []
    for outcome in measure_sizes(settings, split, repeats, "time", PATIENCE * reference.seconds):
        outcomes.append(outcome)
        print_progress(
            f"  {outcome.method}, {outcome.size:,} {outcome.unit}: error {outcome.error:.4f}"
        )
        if outcome.error <= reference.error:
            return outcome
    return min(outcomes, key=lambda outcome: outcome.error)


def result_row(data: Dataset, settings: TunedMethod, outcome: Outcome, reference: Outcome) -> Row:
    reached = outcome.error <= reference.error
    return {
        "data set": data.name,
        "method": outcome.method,
        "reached": reached,
        "size": outcome.size,
        "columns": outcome.n_columns,
        "error": outcome.error,
        "s": outcome.seconds,
        "MB": outcome.n_bytes / 1e6,
        "times less s": reference.seconds / outcome.seconds if reached else None,
        "times less bytes": reference.n_bytes / outcome.n_bytes if reached else None,
        "predict s": outcome.predict_seconds,
        "search s": settings.seconds,
    }


def compare_methods(data: Dataset, args: argparse.Namespace) -> Iterator[Row]:
    split = split_of(data)
    settings = search_settings("fourier", split, args.jobs)
    columns = QUICK_COLUMNS if args.quick else COLUMNS
    settings = refine_settings(settings, split, columns)
    reference = measure(settings, columns, split, args.repeats)
    yield result_row(data, settings, reference, reference)
    for method in args.methods:
        settings = search_settings(method, split, args.jobs)
        outcome = grow_until_as_good(settings, split, reference, args.repeats)
        yield result_row(data, settings, outcome, reference)


def summary(rows: Iterable[Row], methods: Iterable[str]) -> Iterator[Row]:
    """Return geometric means over the data sets on which a method reached the error."""
    rows = list(rows)
    for method in methods:
        outcomes = [outcome for outcome in rows if outcome["method"] == method]
        good = [outcome for outcome in outcomes if outcome["reached"]]
        means = [
            geometric_mean(outcome[name] for outcome in good) if good else None
            for name in ("times less s", "times less bytes")
        ]
        yield {
            "method": method,
            "reached": f"{len(good)} of {len(outcomes)}",
            "times less s": means[0],
            "times less bytes": means[1],
        }


def main() -> None:
    parser = options(__doc__, repeats=3, sets=SETS)
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=METHODS, help="these and Fourier features"
    )
    args = parse(parser)
    report = Report(args)
    rows: list[Row] = []
    with threadpoolctl.threadpool_limits(args.jobs):
        for data in load_sets(args.only, args):
            print_progress(data.name)
            results = list(compare_methods(data, args))
            rows += results
            report.add(data.name, results)
    report.add("Geometric means where the error was reached", summary(rows, args.methods))
    report.close()


if __name__ == "__main__":
    main()
