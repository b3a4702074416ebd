"""Densities: held-out log likelihood and seconds beside scikit-learn's kernel density estimate.

Made-up distributions of 1, 2, 4 and 6 inputs, and tables of real data of few inputs, in standard
deviations; several seeds. The kernel density has a Gaussian kernel, whose bandwidth is the best of
nine by the likelihood of five folds, as scikit-learn's user guide recommends; its seconds hold that
search. Constants were chosen on the made-up distributions of 1, 2 and 4 inputs; the real tables
judge them.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity

from benchmarks.common import Report, Row, load_sets, means, options, parse
from gramless import Density
from gramless.base.random import stream

Array = NDArray[Any]
N_TRAINING, N_TEST, N_MANY = 3000, 2000, 1_000_000
BANDWIDTHS = 2.0 ** -np.arange(0.0, 6.3, 0.75)
COLUMNS = {"cadata": (0, 6, 7), "cod-rna": (0, 1, 2, 3), "uci_kin40k": (0, 1, 2)}
"""Columns of real tables: places and incomes, energies and counts of bases, angles."""


def clusters(d: int, n: int, rng: np.random.Generator) -> Array:
    own = rng.integers(0, 3, n)
    centres, widths = np.array([-3.0, 0.0, 4.0]), np.array([0.3, 1.0, 0.1])
    return centres[own][:, None] + widths[own][:, None] * rng.normal(size=(n, d))


def skewed(d: int, n: int, rng: np.random.Generator) -> Array:
    return np.exp(rng.normal(size=(n, d)))


def curved(d: int, n: int, rng: np.random.Generator) -> Array:
    """Rows along a curve."""
    along = rng.uniform(-1.0, 1.0, (n, 1))
    return np.sin(3.0 * along * np.arange(1, d + 1)) + 0.1 * rng.normal(size=(n, d))


def tables(chosen: Any, seed: int) -> Iterator[tuple[str, Array]]:
    n = 400 if chosen.quick else N_TRAINING + N_TEST
    for d in (1, 2) if chosen.quick else (1, 2, 4, 6):
        for draw in (clusters, skewed, curved):
            yield f"{draw.__name__}, {d}", draw(d, n, np.random.default_rng([seed, d]))
    for data in load_sets(COLUMNS, chosen):
        own = [j for j in COLUMNS[data.name] if j < data.X_train.shape[1]]
        rows = stream(seed, "density").permutation(len(data.X_train))[:n]
        X = np.asarray(data.X_train[rows][:, own], np.float64)
        yield f"{data.name}, {len(own)}", X


def compared(X: Array, seed: int, jobs: int | None) -> dict[str, float]:
    """Return mean log densities of held-out rows, and seconds."""
    n = len(X) * N_TRAINING // (N_TRAINING + N_TEST)
    X = X / X[:n].std(axis=0)
    begun = perf_counter()
    density = Density(random_state=seed, n_jobs=jobs).fit(X[:n])
    own = density.score_samples(X[n:])
    ended = perf_counter()
    search = GridSearchCV(KernelDensity(), {"bandwidth": BANDWIDTHS}).fit(X[:n])
    other = search.best_estimator_.score_samples(X[n:])
    return {
        "gramless": float(own.mean()),
        "KernelDensity": float(other.mean()),
        "gain": float(own.mean() - other.mean()),
        "seconds": ended - begun,
        "KernelDensity s": perf_counter() - ended,
    }


def timed(d: int, n: int, jobs: int | None) -> Row:
    X = clusters(d, n, np.random.default_rng(0))
    Density(random_state=0, n_jobs=jobs).fit(X[:2000]).score_samples(X[:10])
    begun = perf_counter()
    density = Density(random_state=0, n_jobs=jobs).fit(X)
    fitted = perf_counter()
    density.score_samples(X)
    return {"rows": n, "inputs": d, "fit s": fitted - begun, "scores s": perf_counter() - fitted}


def main() -> None:
    chosen = parse(options(__doc__, repeats=3))
    report, found = Report(chosen), {}
    for seed in range(100, 100 + chosen.repeats):
        for name, X in tables(chosen, seed):
            found.setdefault(name, []).append(compared(X, seed, chosen.jobs))
    rows = [{"table": name} | means(own) for name, own in found.items()]
    report.add("mean log density of held-out rows", rows)
    n = 5000 if chosen.quick else N_MANY
    report.add("many rows", [timed(d, n, chosen.jobs) for d in (1, 3)])
    report.close()


if __name__ == "__main__":
    main()
