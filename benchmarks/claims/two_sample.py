"""Two-sample tests: their level, their power compared with exact permutation tests, their time.

Level is the share of null draws with a p-value of at most 0.05. Power, at 5 %, is compared for the
same kernel, whose bandwidth is the median distance, by features and by its exact Gram matrix with
permutations of single rows. Further columns are the default test, a classifier two-sample test
(boosted trees fitted to half of the rows, and a rank-sum test of their scores of the others) and
Kolmogorov-Smirnov tests of each column (Bonferroni). Time is that of a million rows with 10 inputs.

The number of features of a test was chosen by the power on the first six kinds of tables. Nothing
was chosen on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp, mannwhitneyu
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import pairwise_distances

from benchmarks.common import Report, Row, options, parse, print_progress
from gramless import two_sample_test

Array = NDArray[Any]
Generator = np.random.Generator
ALPHA = 0.05


def shifted(n: int, rng: Generator) -> tuple[Array, Array]:
    """One of ten inputs has another mean."""
    X, Y = rng.normal(size=(2, n, 10))
    Y[:, 0] += 0.16
    return X, Y


def everywhere(n: int, rng: Generator) -> tuple[Array, Array]:
    X, Y = rng.normal(size=(2, n, 10))
    return X, Y + 0.045


def spread(n: int, rng: Generator) -> tuple[Array, Array]:
    X, Y = rng.normal(size=(2, n, 4))
    Y[:, 0] *= 1.18
    return X, Y


def correlated(n: int, rng: Generator) -> tuple[Array, Array]:
    """Two inputs of five depend on each other in the second table."""
    X, Y = rng.normal(size=(2, n, 5))
    Y[:, 1] = 0.3 * Y[:, 0] + np.sqrt(1 - 0.3**2) * Y[:, 1]
    return X, Y


def rippled(n: int, rng: Generator) -> tuple[Array, Array]:
    """The density of two inputs has bumps that no input shows by itself."""
    X, Y = rng.random((n, 2)), rng.random((6 * n, 2))
    bumps = np.sign(np.sin(4 * np.pi * Y)).prod(axis=1)
    return X, Y[rng.random(6 * n) < (1 + 0.35 * bumps) / 1.35][:n]


def heavy(n: int, rng: Generator) -> tuple[Array, Array]:
    X, Y = rng.standard_t(1.5, size=(2, n, 5))
    Y[:, 0] += 0.2
    return X, Y


def bimodal(n: int, rng: Generator) -> tuple[Array, Array]:
    """Mean and variance are the same."""
    X, Y = rng.normal(size=(2, n, 3))
    Y[:, 0] = np.sqrt(1 - 0.76**2) * Y[:, 0] + 0.76 * rng.choice([-1, 1], n)
    return X, Y


def skewed(n: int, rng: Generator) -> tuple[Array, Array]:
    X, Y = rng.normal(size=(2, n, 3))
    Y[:, 0] = (rng.gamma(9.0, size=n) - 9.0) / 3.0
    return X, Y


def turned(n: int, rng: Generator) -> tuple[Array, Array]:
    X, Y = rng.laplace(size=(2, n, 2))
    cos, sin = np.cos(0.5), np.sin(0.5)
    return X, Y @ np.array([[cos, -sin], [sin, cos]])


def rare(n: int, rng: Generator) -> tuple[Array, Array]:
    """One row of twenty is from elsewhere."""
    X, Y = rng.normal(size=(2, n, 5))
    Y[rng.random(n) < 0.05] += 1.5
    return X, Y


SEEN_TABLES = (shifted, everywhere, spread, correlated, rippled, heavy)
UNSEEN_TABLES = (bimodal, skewed, turned, rare)


def median(X: Array, metric: str) -> float:
    distances = pairwise_distances(X[:1000], metric=metric)
    return float(np.median(distances[np.triu_indices(len(distances), 1)]))


def exact_mmd(X: Array, Y: Array, bandwidth: float, rng: Generator, n_permutations: int) -> float:
    """Return the p-value of the MMD of a Laplacian kernel, permuting single rows."""
    both = np.concatenate([X, Y])
    gram = np.exp(-pairwise_distances(both / both.std(axis=0), metric="cityblock") / bandwidth)
    signs = np.repeat([1 / len(X), -1 / len(Y)], [len(X), len(Y)])
    permuted_signs = rng.permuted(np.tile(signs, (n_permutations, 1)), axis=1)
    permuted_signs = np.concatenate([signs[None], permuted_signs]).T
    statistics = ((gram @ permuted_signs) * permuted_signs).sum(axis=0)
    return float(np.mean(statistics >= statistics[0]))


def classifier_test(X: Array, Y: Array, seed: int) -> float:
    both, label = np.concatenate([X, Y]), np.repeat([0, 1], [len(X), len(Y)])
    model = HistGradientBoostingClassifier(max_iter=50, random_state=seed)
    scores = model.fit(both[::2], label[::2]).predict_proba(both[1::2])[:, 1]
    is_second = label[1::2] == 1
    return float(mannwhitneyu(scores[is_second], scores[~is_second], alternative="greater").pvalue)


def columns_test(X: Array, Y: Array) -> float:
    p_values = [ks_2samp(*columns).pvalue for columns in zip(X.T, Y.T, strict=True)]
    return float(min(1.0, len(p_values) * min(p_values)))


def power(kind: Any, n_rows: int, draws: int, jobs: int | None) -> Row:
    rejections: dict[str, list[bool]] = {}
    for seed in range(draws):
        rng = np.random.default_rng([seed, 7])
        X, Y = kind(n_rows // 2, rng)
        both = np.concatenate([X, Y])
        width = median((both / both.std(axis=0))[rng.permutation(len(both))], "cityblock")
        common: dict[str, Any] = {"random_state": seed, "n_jobs": jobs}
        result = two_sample_test(X, Y, scaling="standard", bandwidth=width, **common)
        p_values = {
            "features": result.kernels[0].p_value,
            "exact": exact_mmd(X, Y, width, rng, 999),
            "defaults": two_sample_test(X, Y, **common).p_value,
            "classifier": classifier_test(X, Y, seed),
            "KS": columns_test(X, Y),
        }
        for name, p in p_values.items():
            rejections.setdefault(name, []).append(p <= ALPHA)
    return summarise(kind.__name__, rejections)


def summarise(name: str, rejections: dict[str, list[bool]]) -> Row:
    """Return the powers, and the difference of the first two with its standard error."""
    print_progress(name)
    differences = np.subtract(
        *(np.asarray(rejections[key], float) for key in ("features", "exact"))
    )
    row: Row = {"tables": name}
    row |= {key: float(np.mean(values)) for key, values in rejections.items()}
    return row | {
        "features - exact": float(differences.mean()),
        "error": float(differences.std() / len(differences) ** 0.5),
    }


def mean_of(rows: list[Row]) -> list[Row]:
    keys = [key for key in rows[0] if key not in ("tables", "error")]
    means = {key: float(np.mean([row[key] for row in rows])) for key in keys}
    error = float(np.sqrt(sum(row["error"] ** 2 for row in rows)) / len(rows))
    return [*rows, {"tables": "mean", **means, "error": error}]


def level(name: str, draws: int, test: Callable[[Generator, int], float]) -> Row:
    alarms = [test(np.random.default_rng([seed, 9]), seed) <= ALPHA for seed in range(draws)]
    share = float(np.mean(alarms))
    print_progress(f"level of {name}: {share}")
    return {"test": name, "draws": draws, "alarms": share, "error": (0.05 * 0.95 / draws) ** 0.5}


def levels(draws: int, jobs: int | None) -> list[Row]:
    common: dict[str, Any] = {"n_permutations": 199, "n_grids": 32, "n_jobs": jobs}

    def tables(rng: Generator, seed: int) -> float:
        X, Y = rng.standard_t(2, size=(100, 3)), rng.standard_t(2, size=(150, 3))
        return two_sample_test(X, Y, random_state=seed, **common).p_value

    def smallest_p_value(rng: Generator, seed: int) -> float:
        X, Y = np.exp(rng.normal(size=(300, 4))), np.exp(rng.normal(size=(120, 4)))
        result = two_sample_test(X, Y, random_state=seed, **common)
        return min(input_test.p_value for input_test in result.inputs)

    named = {"two tables": tables, "any input": smallest_p_value}
    return [level(name, draws, test) for name, test in named.items()]


def time_test(n_rows: int, jobs: int | None) -> list[Row]:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, n_rows // 2, 10))
    two_sample_test(X[:2000], Y[:2000], random_state=0, n_jobs=jobs)
    started = perf_counter()
    two_sample_test(X, Y, random_state=0, n_jobs=jobs)
    return [{"rows": n_rows, "seconds": perf_counter() - started}]


def main() -> None:
    parser = options(__doc__, repeats=100)
    parser.add_argument("--only", choices=("level", "power", "time"), help="one part alone")
    args = parse(parser)
    report, quick, jobs = Report(args), args.quick, args.jobs
    if args.only in (None, "level"):
        report.add("share of null draws with p <= 0.05", levels(5 if quick else 1000, jobs))
    if args.only in (None, "power"):
        size, draws = (200, 2) if quick else (2000, args.repeats)
        for name, kinds in (
            ("used for choices", SEEN_TABLES),
            ("not used for choices", UNSEEN_TABLES),
        ):
            rows = [power(kind, size, draws, jobs) for kind in kinds[: 2 if quick else None]]
            report.add(f"power, {size} rows in all: {name}", mean_of(rows))
    if args.only in (None, "time"):
        report.add("time", time_test(4000 if quick else 1_000_000, jobs))
    report.close()


if __name__ == "__main__":
    main()
