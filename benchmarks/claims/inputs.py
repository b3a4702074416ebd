"""Irrelevant inputs, and inputs that all matter equally.

In Friedman's first function five inputs matter, of 50 or 200, and the noise has a standard
deviation of 1. The five should have the largest ``relevance_``. The RMSE against the noise-free
targets is compared with that of the same model fitted to the five inputs alone.

If all inputs matter equally, grids that divide only a few of them can only lose. On normal rows the
default is compared with ``grids="random"`` for a radial function, a sum of sines of random
projections, and a draw of a Gaussian process with a Laplacian kernel. The noise has a tenth of the
targets' standard deviation. Errors are RMSE against the noise-free targets, over their standard
deviation. All figures are means over random tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from statistics import geometric_mean, mean
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Report, Row, binned_map, options, parse, print_progress, rmse
from gramless import KernelRegressor
from gramless.base.random import stream
from gramless.datasets import friedman1

Values = NDArray[np.float64]

# Training and test rows with irrelevant inputs, and with equally relevant ones.
QUICK_TO_GROW, QUICK = (1100, 300), (500, 300)
N_RELEVANT = 5
NOISE = 0.1
PROJECTIONS, FREQUENCY = 10, 2.0
PROCESS_GRIDS, GRIDS_AT_ONCE = 2048, 64
# In mean distances between rows.
PROCESS_BANDWIDTH = 1.0
# Larger than all seeds of training rows and models.
TEST_SEED = 1000


def radial(X: Values, seed: int) -> Values:
    return np.exp(-2.0 * np.linalg.norm(X, axis=1) / np.sqrt(X.shape[1]))


def sines(X: Values, seed: int) -> Values:
    rng = stream(seed, "projections")
    directions = rng.normal(size=(X.shape[1], PROJECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    phases = rng.uniform(0.0, 2.0 * np.pi, PROJECTIONS)
    return np.sin(FREQUENCY * (X @ directions) + phases).sum(axis=1)


def process(X: Values, seed: int) -> Values:
    """Draw a Gaussian process at the rows: a normal weight for each bin of many random grids."""
    rng, total = stream(seed, "process"), np.zeros(len(X))
    for k in range(PROCESS_GRIDS // GRIDS_AT_ONCE):
        grid_seed = TEST_SEED * (seed + 1) + k
        Z = binned_map(X, GRIDS_AT_ONCE, None, PROCESS_BANDWIDTH, grid_seed).fit_matrix(X)
        total += Z.matvec(rng.normal(size=Z.shape[1]))
    return total / np.sqrt(PROCESS_GRIDS // GRIDS_AT_ONCE)


TRUTHS: dict[str, Callable[[Values, int], Values]] = {
    "radial": radial,
    "sines of projections": sines,
    "Laplacian process": process,
}


def irrelevant(n_inputs: int, args: argparse.Namespace) -> Row:
    """Fit to all inputs and to the five relevant ones, and rank the five by relevance."""
    n_training, n_test = QUICK_TO_GROW if args.quick else (20_000, 10_000)
    ranks, errors = [], []
    for seed in range(args.repeats):
        X, y = friedman1(n_training, n_inputs, seed=seed, noise=1.0)
        X_test, truth = friedman1(n_test, n_inputs, seed=TEST_SEED + seed, noise=0.0)
        model = KernelRegressor(random_state=seed, n_jobs=args.jobs).fit(X, y)
        model_of_five = KernelRegressor(random_state=seed, n_jobs=args.jobs).fit(
            X[:, :N_RELEVANT], y
        )
        ranks.append(ranks_of_first(model.relevance_))
        predicted = model.predict(X_test), model_of_five.predict(X_test[:, :N_RELEVANT])
        errors.append([rmse(each, truth) for each in predicted])
        print_progress(
            f"{n_inputs} inputs, seed {seed}: ranks {ranks[-1]}, RMSE {errors[-1][0]:.4f}"
        )
    error, error_of_five = np.mean(errors, axis=0).tolist()
    return {
        "inputs": n_inputs,
        "rows": n_training,
        "tables": args.repeats,
        "five on top": sum(max(each) <= N_RELEVANT for each in ranks),
        "worst ranks": " ".join(map(str, max(ranks, key=max))),
        "RMSE": error,
        "five alone": error_of_five,
        "ratio": error / error_of_five,
    }


def ranks_of_first(relevance: Values) -> list[int]:
    """Return the ranks of the relevant inputs, in increasing order; 1 is the largest relevance.

    In a tie the irrelevant input ranks first.
    """
    others = relevance[N_RELEVANT:]
    relevant = np.sort(relevance[:N_RELEVANT])[::-1]
    return [k + int((others >= value).sum()) for k, value in enumerate(relevant, 1)]


def models(seed: int, n_jobs: int | None) -> dict[str, Any]:
    """Return an unfitted default estimator and one with random grids."""
    make = partial(KernelRegressor, random_state=seed, n_jobs=n_jobs)
    return {"default": make(), "random grids": make(grids="random")}


def equally_relevant(name: str, n_inputs: int, args: argparse.Namespace) -> Row:
    n_training, n_test = QUICK if args.quick else (10_000, 5000)
    errors: dict[str, list[float]] = {}
    for seed in range(args.repeats):
        rng = stream(seed, "rows", n_inputs)
        X = rng.normal(size=(n_training + n_test, n_inputs))
        truth = TRUTHS[name](X, seed)
        training, test = slice(0, n_training), slice(n_training, None)
        y = truth[training] + NOISE * truth.std() * rng.normal(size=n_training)
        for kind, model in models(seed, args.jobs).items():
            predicted = model.fit(X[training], y).predict(X[test])
            errors.setdefault(kind, []).append(rmse(predicted, truth[test]) / truth.std())
        summary = ", ".join(f"{kind} {values[-1]:.4f}" for kind, values in errors.items())
        print_progress(f"{name}, {n_inputs} inputs, seed {seed}: {summary}")
    means = {kind: mean(values) for kind, values in errors.items()}
    return {
        "truth": name,
        "inputs": n_inputs,
        "rows": n_training,
        "tables": args.repeats,
        "error": means["default"],
        "random grids": means["random grids"],
        "ratio": means["default"] / means["random grids"],
    }


def summary(rows: list[Row]) -> Row:
    worst = max(rows, key=lambda row: row["ratio"])
    return {
        "mean ratio": geometric_mean(row["ratio"] for row in rows),
        "worst ratio": worst["ratio"],
        "worst": f"{worst['truth']}, {worst['inputs']} inputs",
    }


def main() -> None:
    args = parse(options(__doc__, repeats=3))
    report = Report(args)
    many = (8,) if args.quick else (50, 200)
    few = (3,) if args.quick else (5, 10, 20, 40)
    rows_of_irrelevant = [irrelevant(n_inputs, args) for n_inputs in many]
    report.add("Five inputs that matter among others, ours and the five alone", rows_of_irrelevant)
    rows = []
    for name in TRUTHS:
        rows += [equally_relevant(name, n_inputs, args) for n_inputs in few]
        report.add(f"All inputs matter alike: {name}", rows[-len(few) :])
    report.add("Geometric mean of the ratios", [summary(rows)])
    report.close()


if __name__ == "__main__":
    main()
