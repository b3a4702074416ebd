"""Anomalies: how well made-up outliers are ranked, beside scikit-learn; false alarms; time.

Eight kinds of tables of 2,500 usual rows and 75 strange ones, with 8, 20 and 50 inputs, several
seeds: the area under the ROC curve of scores of the training rows. Neighbours see inputs in
standard deviations. Then the fraction of usual new rows whose p-value is at most 0.05, and the
seconds of a fit and of the scores of all its rows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import Report, Row, options, parse
from gramless import AnomalyDetector

Array = NDArray[Any]
N_USUAL, N_STRANGE, ALPHA = 2500, 75, 0.05


def spread_evenly(d: int, rng: np.random.Generator, n: int, m: int) -> tuple[Array, Array]:
    centres = 3 * rng.normal(size=(5, d))
    usual = centres[rng.integers(5, size=n)] + rng.normal(size=(n, d)) * rng.uniform(0.3, 1, (n, 1))
    return usual, rng.uniform(usual.min(axis=0), usual.max(axis=0), size=(m, d))


def local(d: int, rng: np.random.Generator, n: int, m: int) -> tuple[Array, Array]:
    """Clusters of several widths; outliers lie twice as far out as the rows of theirs."""
    centres, widths = 4 * rng.normal(size=(4, d)), np.array([0.2, 0.5, 1.0, 2.0])
    own, other = rng.integers(4, size=n), rng.integers(4, size=m)
    usual = centres[own] + rng.normal(size=(n, d)) * widths[own, None]
    return usual, centres[other] + 2 * rng.normal(size=(m, d)) * widths[other, None]


def irrelevant(d: int, rng: np.random.Generator, n: int, m: int) -> tuple[Array, Array]:
    """Three inputs tell outliers, the others are noise."""
    usual, strange = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    centres = 3 * rng.normal(size=(3, 3))
    usual[:, :3] = centres[rng.integers(3, size=n)] + 0.5 * rng.normal(size=(n, 3))
    strange[:, :3] = rng.uniform(usual[:, :3].min(axis=0), usual[:, :3].max(axis=0), size=(m, 3))
    return usual, strange


def categories(d: int, rng: np.random.Generator, n: int, m: int) -> tuple[Array, Array]:
    """Half of the inputs are categories, rare ones more frequent in outliers."""
    usual, strange = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    shares = [0.5, 0.3, 0.15, 0.04, 0.01]
    for j in range(d // 2):
        usual[:, j] = rng.choice(5, p=shares, size=n)
        rare = rng.random(m) < 0.4
        strange[:, j] = np.where(rare, rng.integers(3, 5, size=m), rng.choice(5, p=shares, size=m))
    return usual, strange


def heavy_tails(d: int, rng: np.random.Generator, n: int, m: int) -> tuple[Array, Array]:
    mixed = rng.normal(size=(d, d)) / np.sqrt(d)
    usual, strange = (rng.standard_t(2, size=(k, d)) @ mixed for k in (n, m))
    for j in rng.integers(d, size=(2, m)):
        strange[np.arange(m), j] += rng.choice([-1, 1], size=m) * rng.uniform(5, 10, size=m)
    return usual, strange


def correlated(d: int, rng: np.random.Generator, n: int, m: int) -> tuple[Array, Array]:
    """Each input of an outlier is that of another row."""
    loads = rng.normal(size=(d, max(2, d // 4)))
    usual, strange = (
        rng.normal(size=(k, loads.shape[1])) @ loads.T + 0.3 * rng.normal(size=(k, d))
        for k in (n, m)
    )
    return usual, rng.permuted(strange, axis=0)


def a_cluster(d: int, rng: np.random.Generator, n: int, m: int) -> tuple[Array, Array]:
    """Outliers are a dense cluster of their own."""
    strange = 0.3 * rng.normal(size=(m, d)) + 1.8 * rng.choice([-1, 1], size=d)
    return rng.normal(size=(n, d)), strange


def skewed(d: int, rng: np.random.Generator, n: int, m: int) -> tuple[Array, Array]:
    return np.exp(rng.normal(size=(n, d))), np.exp(1.6 * rng.normal(size=(m, d)))


KINDS = (
    *(spread_evenly, local, irrelevant, categories),
    *(heavy_tails, correlated, a_cluster, skewed),
)


def ranked(kind: Any, seeds: range, sizes: tuple[int, ...], jobs: int | None) -> Row:
    found: dict[str, list[float]] = {}
    for seed in seeds:
        for d in sizes:
            usual, strange = kind(d, np.random.default_rng([seed, d]), N_USUAL, N_STRANGE)
            X, y = np.concatenate([usual, strange]), np.repeat([0, 1], [N_USUAL, N_STRANGE])
            grids = AnomalyDetector(random_state=seed, n_jobs=jobs).fit(X)
            forest = IsolationForest(random_state=seed).fit(X)
            neighbours = LocalOutlierFactor().fit(X / X.std(axis=0))
            scores = {
                "gramless": grids.score_samples(X),
                "IsolationForest": forest.score_samples(X),
                "LocalOutlierFactor": neighbours.negative_outlier_factor_,
            }
            for name, own in scores.items():
                found.setdefault(name, []).append(float(roc_auc_score(y, -own)))
    return {"rows": kind.__name__} | {name: float(np.mean(own)) for name, own in found.items()}


def false_alarms(n_rows: int, n_fits: int, jobs: int | None) -> Row:
    alarms = []
    for seed in range(n_fits):
        X, _ = skewed(8, np.random.default_rng(seed), n_rows + 500, 0)
        detector = AnomalyDetector(random_state=seed, n_jobs=jobs).fit(X[:n_rows])
        alarms.append(float(np.mean(detector.p_values(X[n_rows:]) <= ALPHA)))
    error = float(np.std(alarms) / np.sqrt(n_fits))
    return {"rows": n_rows, "alpha": ALPHA, "alarms": float(np.mean(alarms)), "error": error}


def timed(n_rows: int, jobs: int | None) -> Row:
    X, _ = spread_evenly(20, np.random.default_rng(0), n_rows, 1)
    AnomalyDetector(random_state=0, n_jobs=jobs).fit(X[:3000]).score_samples(X[:3000])
    begun = perf_counter()
    detector = AnomalyDetector(random_state=0, n_jobs=jobs).fit(X)
    fitted = perf_counter()
    detector.score_samples(X)
    scored = perf_counter()
    forest = IsolationForest(random_state=0, n_jobs=jobs).fit(X)
    forest.score_samples(X)
    return {
        "rows": n_rows,
        "fit s": fitted - begun,
        "scores s": scored - fitted,
        "IsolationForest s": perf_counter() - scored,
        "bins a grid": float(np.mean(detector.bin_counts_.bins.n_bins_)),
    }


def main() -> None:
    chosen = parse(options(__doc__, repeats=3))
    report = Report(chosen)
    sizes = (8,) if chosen.quick else (8, 20, 50)
    # Not the seeds that the rule was chosen with.
    seeds = range(100, 100 + chosen.repeats)
    rows = [ranked(kind, seeds, sizes, chosen.jobs) for kind in KINDS[: 2 if chosen.quick else 8]]
    report.add("area under the ROC curve", rows)
    fits = 5 if chosen.quick else 100
    report.add("false alarms", [false_alarms(n, fits, chosen.jobs) for n in (200, 1000)])
    report.add("time", [timed(2000 if chosen.quick else 1_000_000, chosen.jobs)])
    report.close()


if __name__ == "__main__":
    main()
