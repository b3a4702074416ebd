"""Whether recommendations are good: what they say of a sample, beside fits to many rows.

Each table is recommended a method on at most 15,000 training rows; then every method that was tried
is fitted to all of these, support vector machines to as many as they take, and judged by the test
part, at most 10,000 rows. "regret" is the error of the recommended method over the least one.
``--half made-up`` takes tables whose truth is known: linear, smooth, with steps, noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from statistics import geometric_mean
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
import scipy.sparse as sp

from benchmarks.common import Report, Row, load_sets, options, parse, rmse, say
from benchmarks.pareto import CHOOSING, JUDGING
from gramless.datasets import Dataset
from gramless.inspection.recommendation import Recommendation, methods_for, recommend

ROWS, TEST_ROWS = 15_000, 10_000


def error(task: str, y: Any, predicted: Any) -> float:
    if task == "classification":
        return float(np.mean(predicted != y))
    return rmse(predicted, y) / float(y.std())


def all_fits(found: Recommendation, data: Dataset, rows: Any) -> dict[str, tuple[float, float]]:
    """Return errors and seconds of a fit by method."""
    X, y = data.X_train[rows], data.y_train[rows]
    X_test, y_test = data.X_test[:TEST_ROWS], data.y_test[:TEST_ROWS]
    none, fits = np.zeros(X.shape[1], bool), {}
    for method in methods_for(found.task, none, 0, None, sp.issparse(X)):
        model, own = method.estimator, slice(method.most_rows)
        started = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X[own], y[own])
        seconds = perf_counter() - started
        fits[method.name] = error(found.task, y_test, model.predict(X_test)), seconds
        say(f"{data.name}, {method.name}: {fits[method.name]}")
    return fits


def made_up(seed: int) -> Iterator[Dataset]:
    """Yield tables whose truth is known, some rows and 2,000 to judge by."""
    rng = np.random.default_rng(seed)
    for name, n_rows in (("linear", 2000), ("smooth", 500), ("steps", 8000), ("noise", 1000)):
        X = rng.uniform(-1.0, 1.0, size=(n_rows + 2000, 8))
        a, b, c, d = X[:, :4].T
        truth = {
            "linear": X @ rng.normal(size=8),
            "smooth": np.sin(4.0 * a) * np.cos(2.0 * b) + c * d,
            "steps": 2.0 * ((a > 0) & (b > -0.4)) + 1.5 * ((c > 0.4) ^ (d > -0.2)),
            "noise": np.zeros(len(X)),
        }[name]
        y = truth + (0.3 * truth.std() or 1.0) * rng.normal(size=len(X))
        parts = X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]
        yield Dataset(*parts, "regression", f"{name}, seed {seed}")


def judged(data: Dataset) -> Row:
    task = "regression" if data.task == "regression" else "classification"
    rows = np.random.default_rng(0).permutation(len(data.y_train))[:ROWS]
    started = perf_counter()
    found = recommend(data.X_train[rows], data.y_train[rows], task=task)
    seconds = perf_counter() - started
    fits = all_fits(found, data, rows)
    best = min(fits, key=lambda name: fits[name][0])
    own, trial = fits[found.method], next(t for t in found.trials if t.method == found.method)
    return {
        "set": data.name,
        "rows": len(rows),
        "recommended": found.method,
        "in s": seconds,
        "error": own[0],
        "best of all": best,
        "its error": fits[best][0],
        "regret": own[0] / max(fits[best][0], 1e-4),
        "fit s": own[1],
        "foretold s": trial.all_rows_seconds,
    }


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--half", choices=["judging", "choosing", "made-up"], default="judging")
    parser.add_argument("--sets", nargs="+", help="in place of a half")
    chosen = parse(parser)
    report = Report(chosen)
    names = chosen.sets or (JUDGING if chosen.half == "judging" else CHOOSING)
    sets: Iterable[Dataset] = load_sets(names, chosen)
    if chosen.half == "made-up":
        sets = [data for seed in range(chosen.repeats) for data in made_up(seed)]
    rows = [judged(data) for data in sets]
    report.add("Recommended, and the best of all that was tried", rows)
    if rows:
        mean = geometric_mean(row["regret"] for row in rows)
        report.add("All tables", [{"tables": len(rows), "regret, geometric mean": mean}])
    report.close()


if __name__ == "__main__":
    main()
