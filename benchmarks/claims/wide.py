"""Tables of hundreds of inputs: default fits compared with random grids and LightGBM.

Generated tables get ``--noise`` more inputs of normal noise; in a second version of each table the
inputs are replaced by ``--mixed`` noisy combinations, each of which matters a little. At most
``--rows`` rows are fitted. Errors are those of 4,000 other rows. Ratios are over the errors and
seconds of the first method. The rule that lets grids of so many inputs grow was chosen on the
tables of ``--chosen``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import geometric_mean
from typing import Any, ClassVar

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Report, Row, fit_and_evaluate, options, parse, part_of, print_progress
from gramless.base.random import stream
from harness.data_sets import Dataset
from harness.peers import find_peer
from harness.peers.base import Peer
from harness.peers.gramless import Gramless
from harness.synthetic import synthetic_table

CHOSEN = (0, 5, 9, 13, 15, 18, 24, 26, 30, 42)
OTHERS = (4, 6, 10, 14, 16, 20, 22, 27, 33, 40)
# Noise added to each combination, in its standard deviations.
NOISE = 0.1


class RandomGrids(Gramless):
    """Random grids, whose number is selected by a search."""

    name: ClassVar[str] = "random"
    settings: ClassVar[dict[str, Any]] = {"grids": "random"}


def method(name: str) -> type[Peer]:
    return RandomGrids if name == RandomGrids.name else find_peer(name)


def with_noise(data: Dataset, n_more: int) -> Dataset:
    """Return a table with additional inputs of noise."""

    def widened(X: NDArray[np.floating], part: str) -> NDArray[np.floating]:
        more = stream(data.X_train.shape[1], part).normal(size=(len(X), n_more))
        return np.column_stack([X, more])

    return replace(
        data,
        X_train=widened(data.X_train, "training"),
        X_test=widened(data.X_test, "test"),
        name=f"{data.name}, noise",
    )


def mixed(data: Dataset, n_inputs: int) -> Dataset:
    """Return a table whose inputs are noisy combinations of the inputs of another."""
    deviation = data.X_train.std(axis=0) + 1e-9
    mix = stream(data.X_train.shape[1], "mix").normal(size=(data.X_train.shape[1], n_inputs))
    mix /= deviation[:, None] * np.sqrt(data.X_train.shape[1])

    def combined(X: NDArray[np.floating], part: str) -> NDArray[np.floating]:
        noise = stream(data.X_train.shape[1], part).normal(size=(len(X), n_inputs))
        return X @ mix + NOISE * noise

    return replace(
        data,
        X_train=combined(data.X_train, "training"),
        X_test=combined(data.X_test, "test"),
        name=f"{data.name}, mixed",
    )


def tables(numbers: tuple[int, ...], n_rows: int, n_more: int, n_mixed: int) -> Iterator[Dataset]:
    for number in numbers:
        data = part_of(synthetic_table(number), n_rows, 4000)
        yield with_noise(data, n_more)
        yield mixed(data, n_mixed)


def evaluate(data: Dataset, methods: list[str], jobs: int | None) -> Row:
    """Return errors and seconds of each method on one table."""
    row: Row = {"table": data.name, "rows": len(data.y_train), "inputs": data.X_train.shape[1]}
    for name in methods:
        outcome = fit_and_evaluate(method(name)(0, jobs).make(data.task, len(data.y_train)), data)
        row |= {f"{name} error": outcome.error, f"{name} s": outcome.fit_seconds}
    print_progress(f"{data.name}: " + ", ".join(f"{key} {row[key]:.3g}" for key in [*row][3:]))
    return row


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--rows", type=int, default=8000, help="rows to fit to, at most")
    parser.add_argument("--noise", type=int, default=300, help="number of inputs of noise")
    parser.add_argument("--mixed", type=int, default=320, help="combinations of the inputs")
    parser.add_argument(
        "--chosen", action="store_true", help="the tables on which rules were chosen"
    )
    methods = ["random", "gramless", "lightgbm"]
    about = "random grids and names of harness.peers"
    parser.add_argument("--methods", nargs="+", default=methods, help=about)
    args = parse(parser)
    report = Report(args)
    numbers = CHOSEN if args.chosen else OTHERS
    n_rows, numbers = (1000, numbers[:1]) if args.quick else (args.rows, numbers)
    data_sets = tables(numbers, n_rows, args.noise, args.mixed)
    rows = [evaluate(data, args.methods, args.jobs) for data in data_sets]
    report.add("errors and seconds", rows)
    first, *others = args.methods
    over: list[Row] = []
    for kind in ("noise", "mixed"):
        group = [row for row in rows if row["table"].endswith(kind)]
        for name in others:
            errors = [row[f"{name} error"] / row[f"{first} error"] for row in group]
            seconds = [row[f"{name} s"] / row[f"{first} s"] for row in group]
            over.append(
                {
                    "tables": kind,
                    "method": name,
                    "error": geometric_mean(errors),
                    "worst": max(errors),
                    "s": geometric_mean(seconds),
                    "better": sum(error < 1.0 for error in errors),
                    "of": len(group),
                }
            )
    report.add(f"over {first}: geometric means", over)
    report.close()


if __name__ == "__main__":
    main()
