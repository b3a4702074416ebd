"""Shapley values of predictions: time, sums, and brute force over all subsets of inputs.

Default models of generated rows are explained with the 200 background rows that they keep. For all
rows the sum of the values and the base value is compared with the prediction. With at most 10
inputs the values of a few rows are also computed by brute force, from predictions of all mixed
rows. With ``--effort 4`` grids may divide combinations of inputs, and the values are sampled.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Report, Row, options, parse
from gramless import KernelClassifier, KernelRegressor
from gramless.features.hybrid import parts_of
from gramless.features.shapley import Subsets
from gramless.inspection import shapley_values

Array = NDArray[Any]
N_CHECKED, MAX_BRUTE = 3, 10


def made_up(n_rows: int, n_inputs: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_inputs))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + (X[:, 4] > 0) * X[:, 5]
    return X, y + 0.5 * X[:, -1] + 0.3 * rng.normal(size=n_rows)


def brute_force(predict: Any, row: Array, background: Array) -> Array:
    """Return the Shapley values of a row from their definition, one column per output."""
    d = len(row)
    members = (np.arange(1 << d)[:, None] >> np.arange(d)) & 1 == 1
    mixed = np.where(members[:, None], row, background).reshape(-1, d)
    payoffs = predict(mixed).reshape(1 << d, len(background), -1).mean(axis=1)
    return np.asarray(Subsets.all_of(d).factors.T @ payoffs)


def explain(kind: str, n_inputs: int, n_train: int, n_rows: int, args: Any) -> Row:
    X, y = made_up(n_train + n_rows, n_inputs)
    classes = kind == "2 classes"
    if classes:
        y = y > np.median(y)
    build = KernelClassifier if classes else KernelRegressor
    model = build(effort=args.effort, random_state=0, n_jobs=args.jobs)
    model.fit(X[:n_train], y[:n_train])
    predict = model.decision_function if classes else model.predict
    new = X[n_train:]
    shapley_values(model, new[:10])
    times = []
    for _ in range(args.repeats):
        started = perf_counter()
        explanation = shapley_values(model, new)
        times.append(perf_counter() - started)
    seconds = median(times)
    started = perf_counter()
    predicted = predict(new)
    to_predict = perf_counter() - started
    started = perf_counter()
    importances = model.feature_importances_
    to_rank = perf_counter() - started
    worst = np.nan
    if n_inputs <= MAX_BRUTE:
        exact = [brute_force(predict, row, model.background_) for row in new[:N_CHECKED]]
        worst = float(np.abs(np.stack(exact)[:, :, 0] - explanation.values[:N_CHECKED]).max())
    sums = explanation.base_values + explanation.values.sum(axis=1)
    return {
        "targets": kind,
        "inputs": n_inputs,
        "rows": len(new),
        "grids": len(parts_of(model.features_)[0].n_bins_),
        "parts": len(parts_of(model.features_)),
        "s": seconds,
        "predict s": to_predict,
        "importances s": to_rank,
        "off the sum": float(np.abs(sums - predicted).max()),
        "off brute force": worst,
        "importance of noise": float(importances[6:-1].sum()),
    }


def main() -> None:
    parser = options(__doc__, repeats=3)
    parser.add_argument("--effort", type=int, default=3, help="of the models; default 3")
    args = parse(parser)
    report = Report(args)
    n_train, n_rows = (2500, 1000) if args.quick else (20_000, 10_000)
    cases = [("numbers", d) for d in (8, 10, 12, 30)] + [("2 classes", 10)]
    for kind, n_inputs in cases[:2] if args.quick else cases:
        row = explain(kind, n_inputs, n_train, n_rows, args)
        report.add(f"{n_inputs} inputs, {kind}", [row])
    report.close()


if __name__ == "__main__":
    main()
