"""Pinball losses of the quantiles 0.05, 0.5 and 0.95, and intervals of varying width.

One fit of ours predicts all three quantiles. LightGBM needs one model each, of at most 1,000 trees
with a learning rate of 0.1 and early stopping. Ratios are means over the quantiles. Intervals of 90
% come from ``intervals="quantiles"``, by either method, with one fit per draw of rows
(``--repeats``). Figures are means over the draws, and the standard deviation of the coverage, which
calibration on a few hundred rows changes by a percent. ``least group`` is the smallest coverage in
five groups of test rows by predicted width.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean, pstdev
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import (
    Report,
    Row,
    load_sets,
    means,
    options,
    parse,
    stopped_lightgbm,
    summary_of_ratios,
)
from gramless import KernelRegressor
from gramless.inspection.coverage import conditional_coverage

LEVELS = 0.05, 0.5, 0.95
REAL = "cadata", "house_16H", "protein_casp", "nyc_taxi_green_349k", "cpu_act", "uci_kin40k"
MAX_ROWS, N_TEST = 10_000, 4_000

Array = NDArray[Any]


def made_up(n_rows: int, seed: int) -> Iterator[tuple[str, Array, Array]]:
    """Yield tables with noise that varies with the inputs."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows, 8))
    mean_of = np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2]
    normal, tail = rng.normal(size=n_rows), rng.exponential(size=n_rows)
    yield "noise of one input", X, mean_of + 1.5 * (0.05 + X[:, 3] ** 2) * normal
    yield "noise of a corner", X, mean_of + (0.1 + 2.0 * (X[:, 3] > 0) * (X[:, 4] > 0)) * normal
    yield "skewed noise", X, mean_of + np.exp(1.5 * X[:, 5]) * tail
    yield "noise of the mean", X, np.exp(mean_of) * (1.0 + 0.3 * normal)
    yield "waves of noise", X, mean_of + (0.1 + np.sin(4 * X[:, 6]) ** 2) * normal


def pinball(y: Array, quantiles: Array) -> list[float]:
    return [
        float(np.mean(np.maximum(q * (y - z), (q - 1) * (y - z))))
        for q, z in zip(LEVELS, quantiles.T, strict=True)
    ]


def lightgbm(X: Array, y: Array, new: Array, n_jobs: int | None) -> Array | None:
    try:
        models = [stopped_lightgbm(X, y, n_jobs, "quantile", alpha=level) for level in LEVELS]
    except ImportError:
        return None
    return np.column_stack([model.predict(new) for model in models])


def compare(name: str, parts: tuple[Array, ...], n_jobs: int | None) -> Row:
    X, y, new, truth = parts
    started = perf_counter()
    model = KernelRegressor(loss="quantile", quantile=LEVELS, random_state=0, n_jobs=n_jobs)
    predicted = model.fit(X, y).predict(new)
    seconds, started = perf_counter() - started, perf_counter()
    theirs = lightgbm(X, y, new, n_jobs)
    ours = pinball(truth, predicted)
    row: Row = {
        "table": name,
        "rows": len(y),
        **{f"pinball {level}": loss for level, loss in zip(LEVELS, ours, strict=True)},
        "crossing rows": int((np.diff(predicted, axis=1) < 0).any(axis=1).sum()),
        "s": seconds,
        "its s": None if theirs is None else perf_counter() - started,
        "ratio": None,
    }
    if theirs is not None:
        pairs = zip(ours, pinball(truth, theirs), strict=True)
        row["ratio"] = mean(one / other for one, other in pairs)
        row["its crossing rows"] = int((np.diff(theirs, axis=1) < 0).any(axis=1).sum())
    return row


def coverage(parts: tuple[Array, ...], seed: int, n_jobs: int | None) -> Row:
    X, y, new, truth = parts
    model = KernelRegressor(intervals="quantiles", random_state=seed, n_jobs=n_jobs).fit(X, y)
    row: Row = {}
    for method in ("split", "quantiles"):
        lower, upper = model.predict_interval(new, 0.9, method=method)
        groups = conditional_coverage(truth, lower, upper)
        row[f"{method} covered"] = float(((lower <= truth) & (truth <= upper)).mean())
        row[f"{method} least group"] = min(group.covered for group in groups)
        row[f"{method} width"] = float((upper - lower).mean())
    row["width ratio"] = row["quantiles width"] / row["split width"]
    return row


def average_draws(name: str, draws: list[Row]) -> Row:
    row: Row = {"table": name} | means(draws)
    for method in ("split", "quantiles"):
        row[f"{method} covered, std"] = pstdev(draw[f"{method} covered"] for draw in draws)
    return row


def tables(args: Any, seed: int) -> Iterator[tuple[str, tuple[Array, ...]]]:
    n_rows, n_test = (800, 400) if args.quick else (6000, N_TEST)
    for name, X, y in made_up(n_rows + n_test, seed):
        yield name, (X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])
    for data in load_sets(REAL, args):
        training = np.random.default_rng(seed).permutation(len(data.y_train))[:MAX_ROWS]
        test = np.random.default_rng(seed).permutation(len(data.y_test))[:N_TEST]
        X, new = np.asarray(data.X_train)[training], np.asarray(data.X_test)[test]
        y, truth = (np.asarray(part, float) for part in (data.y_train, data.y_test))
        yield data.name, (X, y[training], new, truth[test])


def main() -> None:
    args = parse(options(__doc__, repeats=3))
    report, rows = Report(args), []
    draws: dict[str, list[Row]] = {}
    for name, parts in tables(args, seed=0):
        rows.append(compare(name, parts, args.jobs))
        report.add(name, [rows[-1]])
    for seed in range(args.repeats):
        for name, parts in tables(args, seed):
            draws.setdefault(name, []).append(coverage(parts, seed, args.jobs))
    report.add("Pinball losses", rows)
    widths = [average_draws(name, rows_of_draws) for name, rows_of_draws in draws.items()]
    report.add("Intervals of 90 %, means over draws", widths)
    summary = {
        **summary_of_ratios(rows),
        "crossing rows": sum(row["crossing rows"] for row in rows),
    }
    report.add("Compared with LightGBM", [summary])
    report.close()


if __name__ == "__main__":
    main()
