"""What all benchmarks share: options, data, tables and pictures."""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless import RandomBinning
from gramless.base.random import stream
from gramless.matrices.binned import BinnedMatrix
from gramless.preprocessing.rows import Rows
from gramless.preprocessing.scaling import Scaler
from harness.data_sets import Dataset, available, load
from harness.known_sets import KNOWN
from harness.machine import summary
from harness.waves import make_regression_like

ROOT = Path(__file__).resolve().parents[1]
BANDWIDTH = 0.25
"""In mean distances between rows: where a search for the bandwidth starts."""

_QUICK_TRAINING, _QUICK_TEST = 800, 400

Row = dict[str, Any]


def options(
    about: str | None, *, repeats: int, quick_repeats: int = 1, sets: Iterable[str] = ()
) -> argparse.ArgumentParser:
    """Return a parser of what every script takes; parse with :func:`parse`.

    Scripts that load known data sets name these in ``sets``, and take ``--only`` some of them.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    folder = os.environ.get("GRAMLESS_DATA") or ROOT.parent / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(folder), help="folder of data sets")
    parser.add_argument("--repeats", type=int, help=f"default {repeats}")
    parser.add_argument("--jobs", type=int, help="threads, by default every processor")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that all runs")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    if sets:
        about = "these data sets and no others"
        parser.add_argument("--only", nargs="*", default=tuple(sets), help=about)
    parser.set_defaults(_repeats=(repeats, quick_repeats))
    return parser


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line; the repeats are few when ``--quick``."""
    args = parser.parse_args()
    usual, quick = args._repeats
    del args._repeats
    args.repeats = args.repeats or (quick if args.quick else usual)
    if args.quick:
        # Peers complain of too few rows.
        warnings.simplefilter("ignore")
    return args


def print_progress(line: str) -> None:
    """Print progress where it does not mix with the tables."""
    print(line, file=sys.stderr, flush=True)


class Report:
    """Tables, printed as soon as they are known, or all at the end as JSON.

    Parameters
    ----------
    chosen : argparse.Namespace
        From :func:`parse`.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.tables: dict[str, list[Row]] = {}
        if not args.json:
            print(", ".join(f"{name} {value}" for name, value in summary().items()))
            print(f"repeats {args.repeats}" + (", quick: no measurement" if args.quick else ""))

    def add(self, title: str, rows: Iterable[Row]) -> None:
        """Add a table; its columns are the keys of the first row."""
        self.tables[title] = list(rows)
        if not self.args.json:
            print(f"\n{title}")
            print("\n".join(table(self.tables[title])) or "nothing", flush=True)

    def close(self) -> None:
        """Print the JSON, if asked for."""
        if self.args.json:
            told = {k: v for k, v in vars(self.args).items() if k != "json"}
            report = {"machine": summary(), "options": told, "tables": self.tables}
            print(json.dumps(report, indent=1, default=_plain))


def table(rows: list[Row]) -> list[str]:
    """Return the lines of a plain text table: text to the left, numbers to the right."""
    if not rows:
        return []
    heads = list(rows[0])
    cells = [[_cell(row.get(head)) for head in heads] for row in rows]
    widths = [max(len(line[k]) for line in [heads, *cells]) for k in range(len(heads))]
    left = [all(isinstance(row.get(head), str | None) for row in rows) for head in heads]
    return [
        "  ".join(
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(line, widths, left, strict=True)
        ).rstrip()
        for line in [heads, *cells]
    ]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def load_sets(names: Iterable[str], args: argparse.Namespace) -> Iterator[Dataset]:
    """Load the data sets that are there; say which are not.

    A quick run takes some hundred rows of each.
    """
    present = {info.name for info in available(args.data) if info.present}
    for name in names:
        if name not in present:
            print_progress(f"{name}: not in {args.data}, skipped")
            continue
        data = load(name, folder=args.data, download=False)
        yield part_of(data, _QUICK_TRAINING, _QUICK_TEST) if args.quick else data


def part_of(data: Dataset, n_training: int, n_test: int) -> Dataset:
    """Return a data set of some random rows, never more than there are."""
    rows = stream(0, "training rows").permutation(len(data.y_train))[:n_training]
    test = stream(0, "test rows").permutation(len(data.y_test))[:n_test]
    X, y, X_test, y_test = data.X_train, data.y_train, data.X_test, data.y_test
    return Dataset(X[rows], y[rows], X_test[test], y_test[test], data.task, data.name)


def rows_to_time(data: Dataset) -> tuple[Rows, NDArray[Any]]:
    """Return the training rows and labels, or all where the split is our own."""
    known = KNOWN.get(data.name)
    if known is not None and (known.test is not None or known.n_test_rows):
        return data.X_train, data.y_train
    stack = sp.vstack if sp.issparse(data.X_train) else np.concatenate
    return stack([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])


def made_up(n_rows: int, n_columns: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a made-up regression table; a longer one begins with the rows of a shorter one."""
    return make_regression_like(n_rows, n_columns, seed=0)


def numeric_targets(y: NDArray[Any]) -> NDArray[np.float64]:
    """Return -1 and 1 for two classes, else standardised numbers."""
    values = np.unique(y)
    if len(values) == 2:
        return np.where(y == values[1], 1.0, -1.0)
    return (y - y.mean()) / y.std()


def bandwidths(X: Rows, share: float = BANDWIDTH) -> NDArray[np.float64]:
    """Return bandwidths, one an input, in units of the rows.

    Each is ``share`` mean distances between rows, measured in standard deviations.
    """
    scaler = Scaler.fit("standard", X)
    return np.asarray(share * scaler.spread * scaler.unit)


def scalar_bandwidth(X: Rows, share: float = BANDWIDTH) -> float:
    """Return the bandwidth that an estimator with ``scaling="standard"`` takes."""
    return share * Scaler.fit("standard", X).spread


def binned_map(
    X: Rows, n_grids: int, n_jobs: int | None, share: float = BANDWIDTH, seed: int = 0
) -> RandomBinning:
    """Return random bins, not fitted, whose bandwidths are those of :func:`bandwidths`."""
    return RandomBinning(
        bandwidth=bandwidths(X, share), n_grids=n_grids, random_state=seed, n_jobs=n_jobs
    )


def scipy_csr(matrix: BinnedMatrix) -> sp.csr_array:
    """Return what ``matrix.tocsr()`` does, without its temporaries: float64 and int32.

    For a matrix whose bins have all been seen.
    """
    n_rows, n_grids = matrix.shape[0], matrix.n_grids
    columns = np.empty((n_rows, n_grids), np.int32)
    for r, codes in enumerate(matrix.codes):
        np.add(codes, np.int32(matrix.offsets[r] - 1), out=columns[:, r], casting="unsafe")
    indptr = np.arange(n_rows + 1, dtype=np.int32) * np.int32(n_grids)
    values = np.full(columns.size, matrix.scale)
    return sp.csr_array((values, columns.reshape(-1), indptr), shape=matrix.shape)


@dataclass(frozen=True)
class Outcome:
    """What one fit came to: an error rate or RMSE / standard deviation, and seconds."""

    error: float
    fit_seconds: float
    predict_seconds: float


def fit_and_evaluate(estimator: Any, data: Dataset) -> Outcome:
    """Fit to the training rows and judge on all test rows."""
    started = perf_counter()
    estimator.fit(data.X_train, data.y_train)
    fitted = perf_counter()
    predicted = estimator.predict(data.X_test)
    done = perf_counter()
    return Outcome(test_error(data, predicted), fitted - started, done - fitted)


def stopped_lightgbm(
    X: Rows, y: NDArray[Any], n_jobs: int | None, objective: str, **parameters: Any
) -> Any:
    """Return LightGBM's trees of another loss, at most 1,000; the last 15 % of the rows stop it."""
    from lightgbm import LGBMRegressor, early_stopping

    model = LGBMRegressor(
        objective=objective, n_estimators=1000, verbose=-1, n_jobs=n_jobs, **parameters
    )
    cut, stop = int(0.85 * len(y)), early_stopping(50, verbose=False)
    return model.fit(X[:cut], y[:cut], eval_X=X[cut:], eval_y=y[cut:], callbacks=[stop])


def test_error(data: Dataset, predicted: NDArray[Any]) -> float:
    """Return the share of wrong classes, or the RMSE over the targets' standard deviation."""
    if data.task == "regression":
        return rmse(predicted, data.y_test) / float(data.y_test.std())
    # CatBoost returns labels as a column.
    return float(np.mean(predicted.ravel() != data.y_test))


def rmse(predicted: NDArray[Any], truth: NDArray[Any]) -> float:
    """Return the root of the mean squared difference."""
    return float(np.sqrt(np.mean((predicted - truth) ** 2)))


def class_numbers(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Return the place of each label among sorted classes, -1 for one that is none of them."""
    places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return np.where(classes[places] == y, places, -1)


def summary_of_ratios(rows: Iterable[Row]) -> Row:
    """Return on how many tables the ``ratio`` to a peer is known, and how often it is at most 1."""
    known = [row["ratio"] for row in rows if row["ratio"]]
    return {
        "tables": len(known),
        "no worse": sum(ratio <= 1.0 for ratio in known),
        "mean ratio": geometric_mean(known) if known else None,
    }


def means(rows: Sequence[Row]) -> Row:
    """Return the mean of each figure over rows that have the same ones."""
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def log_slope(x: Iterable[float], y: Iterable[float]) -> float:
    """Return the exponent p of the power law ``y ~ x**p`` that fits best."""
    return float(np.polyfit(np.log(list(x)), np.log(list(y)), 1)[0])


def save_picture(figure: Any, path: Path) -> None:
    """Write a figure, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    print_progress(f"picture: {path}")
