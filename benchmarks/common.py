"""Options, data sets, tables and pictures shared by all benchmarks."""

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
# In mean distances between rows: the first bandwidth that the estimators' search tries.
BANDWIDTH = 0.25

_QUICK_TRAINING, _QUICK_TEST = 800, 400

Row = dict[str, Any]


def options(
    about: str | None, *, repeats: int, quick_repeats: int = 1, sets: Iterable[str] = ()
) -> argparse.ArgumentParser:
    """Return a parser with the options that every script has; parse with :func:`parse`.

    Scripts that load known data sets list their names in ``sets`` and get the option ``--only``.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    folder = os.environ.get("GRAMLESS_DATA") or ROOT.parent / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(folder), help="folder of data sets")
    parser.add_argument("--repeats", type=int, help=f"default {repeats}")
    parser.add_argument("--jobs", type=int, help="threads, by default every processor")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, to check that the script runs"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    if sets:
        about = "these data sets and no others"
        parser.add_argument("--only", nargs="*", default=tuple(sets), help=about)
    parser.set_defaults(_repeats=(repeats, quick_repeats))
    return parser


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line; with ``--quick`` the default number of repeats is small."""
    args = parser.parse_args()
    usual, quick = args._repeats
    del args._repeats
    args.repeats = args.repeats or (quick if args.quick else usual)
    if args.quick:
        # Peers warn that there are too few rows.
        warnings.simplefilter("ignore")
    return args


def print_progress(line: str) -> None:
    """Print to standard error, so that tables on standard output stay readable."""
    print(line, file=sys.stderr, flush=True)


class Report:
    """Prints tables as they are added, or all of them as JSON at the end.

    Parameters
    ----------
    args : argparse.Namespace
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
        """Print all tables if JSON was requested."""
        if self.args.json:
            option_values = {k: v for k, v in vars(self.args).items() if k != "json"}
            report = {"machine": summary(), "options": option_values, "tables": self.tables}
            print(json.dumps(report, indent=1, default=_to_json_value))


def table(rows: list[Row]) -> list[str]:
    """Return the lines of a plain text table: text to the left, numbers to the right."""
    if not rows:
        return []
    headings = list(rows[0])
    cells = [[_cell(row.get(heading)) for heading in headings] for row in rows]
    widths = [max(len(line[k]) for line in [headings, *cells]) for k in range(len(headings))]
    is_text = [
        all(isinstance(row.get(heading), str | None) for row in rows) for heading in headings
    ]
    return [
        "  ".join(
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(line, widths, is_text, strict=True)
        ).rstrip()
        for line in [headings, *cells]
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


def _to_json_value(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def load_sets(names: Iterable[str], args: argparse.Namespace) -> Iterator[Dataset]:
    """Yield the data sets that are in the folder, and print the names of those that are missing.

    With ``--quick`` each has a few hundred rows.
    """
    present = {info.name for info in available(args.data) if info.present}
    for name in names:
        if name not in present:
            print_progress(f"{name}: not in {args.data}, skipped")
            continue
        data = load(name, folder=args.data, download=False)
        yield part_of(data, _QUICK_TRAINING, _QUICK_TEST) if args.quick else data


def part_of(data: Dataset, n_training: int, n_test: int) -> Dataset:
    """Return a random sample of the training rows and of the test rows."""
    rows = stream(0, "training rows").permutation(len(data.y_train))[:n_training]
    test = stream(0, "test rows").permutation(len(data.y_test))[:n_test]
    X, y, X_test, y_test = data.X_train, data.y_train, data.X_test, data.y_test
    return Dataset(X[rows], y[rows], X_test[test], y_test[test], data.task, data.name)


def rows_to_time(data: Dataset) -> tuple[Rows, NDArray[Any]]:
    """Return the training rows and targets, or all rows if the data set has no official split."""
    known = KNOWN.get(data.name)
    if known is not None and (known.test is not None or known.n_test_rows):
        return data.X_train, data.y_train
    stack = sp.vstack if sp.issparse(data.X_train) else np.concatenate
    return stack([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])


def made_up(n_rows: int, n_columns: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a generated regression table; the first rows do not depend on ``n_rows``."""
    return make_regression_like(n_rows, n_columns, seed=0)


def numeric_targets(y: NDArray[Any]) -> NDArray[np.float64]:
    """Return -1 and 1 for two classes, else standardised numbers."""
    values = np.unique(y)
    if len(values) == 2:
        return np.where(y == values[1], 1.0, -1.0)
    return (y - y.mean()) / y.std()


def bandwidths(X: Rows, share: float = BANDWIDTH) -> NDArray[np.float64]:
    """Return one bandwidth per input, in the units of the rows.

    Each is ``share`` times the mean distance between standardised rows.
    """
    scaler = Scaler.fit("standard", X)
    return np.asarray(share * scaler.spread * scaler.unit)


def scalar_bandwidth(X: Rows, share: float = BANDWIDTH) -> float:
    """Return the bandwidth to pass to an estimator with ``scaling="standard"``."""
    return share * Scaler.fit("standard", X).spread


def binned_map(
    X: Rows, n_grids: int, n_jobs: int | None, share: float = BANDWIDTH, seed: int = 0
) -> RandomBinning:
    """Return an unfitted map to random bins with the bandwidths of :func:`bandwidths`."""
    return RandomBinning(
        bandwidth=bandwidths(X, share), n_grids=n_grids, random_state=seed, n_jobs=n_jobs
    )


def scipy_csr(matrix: BinnedMatrix) -> sp.csr_array:
    """Return ``matrix.tocsr()`` with float64 values and int32 indices, using less memory.

    All bins of the matrix must be known.
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
    """Seconds and error of one fit: the error rate, or RMSE / standard deviation of the targets."""

    error: float
    fit_seconds: float
    predict_seconds: float


def fit_and_evaluate(estimator: Any, data: Dataset) -> Outcome:
    """Fit to the training rows and compute the error on all test rows."""
    started = perf_counter()
    estimator.fit(data.X_train, data.y_train)
    fitted = perf_counter()
    predicted = estimator.predict(data.X_test)
    done = perf_counter()
    return Outcome(test_error(data, predicted), fitted - started, done - fitted)


def stopped_lightgbm(
    X: Rows, y: NDArray[Any], n_jobs: int | None, objective: str, **parameters: Any
) -> Any:
    """Fit at most 1,000 of LightGBM's trees, with early stopping on the last 15 % of the rows."""
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
    """Return the index of each label in sorted classes, or -1 if it is not among them."""
    places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return np.where(classes[places] == y, places, -1)


def summary_of_ratios(rows: Iterable[Row]) -> Row:
    """Return the number of tables with a ``ratio``, how many are at most 1, and their mean."""
    known = [row["ratio"] for row in rows if row["ratio"]]
    return {
        "tables": len(known),
        "no worse": sum(ratio <= 1.0 for ratio in known),
        "mean ratio": geometric_mean(known) if known else None,
    }


def means(rows: Sequence[Row]) -> Row:
    """Return the mean of each column of rows with the same columns."""
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def log_slope(x: Iterable[float], y: Iterable[float]) -> float:
    """Return the exponent p of the power law ``y ~ x**p`` that fits best."""
    return float(np.polyfit(np.log(list(x)), np.log(list(y)), 1)[0])


def save_picture(figure: Any, path: Path) -> None:
    """Save a figure, creating the folder if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    print_progress(f"picture: {path}")
