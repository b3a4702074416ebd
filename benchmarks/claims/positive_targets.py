"""Deviances of counts and amounts, compared with LightGBM, histogram trees and linear models.

All methods have the same loss. Ours has no other parameters than the loss and the seed. LightGBM
and scikit-learn's histogram trees have at most 1,000 trees, a learning rate of 0.1, and early
stopping. Three quarters of a table are fitted. ``squares s`` is the time of our fit with the
squared loss. ``randhie``, visits to doctors, comes with statsmodels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import geometric_mean, mean
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import (
    Report,
    Row,
    load_sets,
    options,
    parse,
    print_progress,
    stopped_lightgbm,
    summary_of_ratios,
)
from gramless import KernelRegressor

POWERS = {"poisson": 1.0, "tweedie": 1.5, "gamma": 2.0}
REAL = {
    "cadata": "gamma",
    "house_16H": "tweedie",
    "nyc_taxi_green_349k": "tweedie",
    "protein_casp": "tweedie",
    "cpu_act": "poisson",
}
MAX_ROWS = 20_000
# Lower limit of predictions as a share of the mean, for methods without a log link.
MIN_PREDICTION = 1e-9

Array = NDArray[Any]
Table = tuple[str, str, Array, Array]


def made_up(n_rows: int) -> Iterator[Table]:
    """Yield counts with small, medium and large means, amounts, and sums of claims."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_rows, 8))
    log_mean = 1.2 * np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2] + 0.5 * (X[:, 3] > 0) * X[:, 4]
    risk = np.exp(log_mean)
    for name, level in (("few", 0.1), ("some", 2.0), ("many", 50.0)):
        yield f"{name} counts", "poisson", X, rng.poisson(level * risk).astype(float)
    for shape in (0.5, 2.0):
        yield f"amounts, shape {shape}", "gamma", X, rng.gamma(shape, risk / shape) + 1e-6
    counts = rng.poisson(0.5 * risk)
    sums = np.where(counts > 0, rng.gamma(np.maximum(2.0 * counts, 1.0), 0.5), 0.0)
    yield "sums of claims", "tweedie", X, sums


def tables(args: Any) -> Iterator[Table]:
    yield from made_up(1200 if args.quick else 8000)
    try:
        from statsmodels.datasets import randhie
    except ImportError:
        print_progress("statsmodels is not installed: randhie skipped")
    else:
        frame = randhie.load_pandas().data
        X = frame.drop(columns="mdvis").to_numpy(float)
        yield "randhie", "poisson", X, frame["mdvis"].to_numpy(float)
    for data in load_sets(REAL, args):
        X, y = np.asarray(data.X_train)[:MAX_ROWS], np.asarray(data.y_train, float)[:MAX_ROWS]
        usable = y > 0 if REAL[data.name] == "gamma" else y >= 0
        yield data.name, REAL[data.name], X[usable], y[usable]


def deviance(loss: str, y: Array, predicted: Array) -> float:
    from sklearn.metrics import mean_tweedie_deviance

    predicted = np.maximum(predicted, MIN_PREDICTION * y.mean())
    return float(mean_tweedie_deviance(y, predicted, power=POWERS[loss]))


def lightgbm(loss: str, X: Array, y: Array, n_jobs: int | None) -> Any:
    return stopped_lightgbm(X, y, n_jobs, loss)


def histogram_trees(loss: str, X: Array, y: Array, n_jobs: int | None) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    peer_loss = "poisson" if loss == "tweedie" else loss
    return HistGradientBoostingRegressor(loss=peer_loss, max_iter=1000, early_stopping=True).fit(
        X, y
    )


def linear(loss: str, X: Array, y: Array, n_jobs: int | None) -> Any:
    from sklearn.linear_model import TweedieRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    glm = TweedieRegressor(power=POWERS[loss], link="log", alpha=1e-4, max_iter=1000)
    return make_pipeline(StandardScaler(), glm).fit(X, y)


PEERS: dict[str, Callable[..., Any]] = {
    "lightgbm": lightgbm,
    "histogram trees": histogram_trees,
    "linear": linear,
}


def compare(table: Table, repeats: int, n_jobs: int | None) -> Row:
    name, loss, X, y = table
    measurements: dict[str, list[float]] = {
        key: [] for key in ("gramless", "s", "squares s", *PEERS)
    }
    for seed in range(repeats):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = np.split(order, [int(0.75 * len(y))])
        for key, our_loss in (("s", loss), ("squares s", "squared")):
            started = perf_counter()
            model = KernelRegressor(loss=our_loss, random_state=seed, n_jobs=n_jobs)
            model.fit(X[train], y[train])
            measurements[key].append(perf_counter() - started)
            if our_loss == loss:
                measurements["gramless"].append(deviance(loss, y[test], model.predict(X[test])))
        for peer, fit in PEERS.items():
            try:
                model = fit(loss, X[train], y[train], n_jobs)
            except ImportError:
                continue
            measurements[peer].append(deviance(loss, y[test], model.predict(X[test])))
    averages = {key: mean(values) if values else None for key, values in measurements.items()}
    of_lightgbm = averages["lightgbm"]
    ratio = (
        averages["gramless"] / of_lightgbm
        if averages["gramless"] is not None and of_lightgbm
        else None
    )
    return {"table": name, "loss": loss, "rows": len(y), **averages, "ratio": ratio}


def main() -> None:
    args = parse(options(__doc__, repeats=2))
    report, rows = Report(args), []
    for table in tables(args):
        rows.append(compare(table, args.repeats, args.jobs))
        report.add(table[0], rows[-1:])
    report.add("All tables: mean deviance of the test rows", rows)
    summary = {
        **summary_of_ratios(rows),
        "time over squares": geometric_mean([row["s"] / row["squares s"] for row in rows]),
    }
    report.add("Compared with LightGBM", [summary])
    report.close()


if __name__ == "__main__":
    main()
