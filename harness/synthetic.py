"""A fixed suite of synthetic tables, drawn from a prior over structured functions.

The library's defaults are chosen on these tables, and its results are quoted on others. The number
of a table determines its rows, inputs, function and noise, so that it is the same on every machine.
:func:`synthetic_table` generates one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.data_sets import Dataset
from harness.known_sets import Task

N_TABLES = 48

_N_TEST = 4000
_SIZES = (1_000, 2_000, 4_000, 8_000, 12_000, 20_000)
_LARGE_SIZES = (50_000, 100_000, 200_000)
_LARGE_EVERY = 12  # One in 12 tables is large, which limits the time of the suite.

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Description:
    """The properties of a synthetic table.

    Attributes
    ----------
    number : int
    n_rows, n_inputs, n_relevant : int
        Training rows, inputs, and the inputs that the target depends on.
    task : {"regression", "binary", "multiclass"}
    terms : tuple of str
        Kinds of the functions that are summed.
    noise : float
        Standard deviation of the noise, relative to that of the noiseless target. For classes, the
        noise is added to scores, and the class with the largest score is the label.
    """

    number: int
    n_rows: int
    n_inputs: int
    n_relevant: int
    task: Task
    terms: tuple[str, ...]
    noise: float


def describe(number: int) -> Description:
    """Return the properties of a table without generating it.

    Examples
    --------
    >>> describe(0) == describe(0), describe(0).n_rows >= 1000
    (True, True)
    """
    return _describe(number, np.random.default_rng([20261124, number]))


def synthetic_table(number: int) -> Dataset:
    """Generate a table of the suite.

    Parameters
    ----------
    number : int
        0 to ``N_TABLES - 1``.

    Returns
    -------
    Dataset
        With 4,000 test rows from the same distribution.

    Examples
    --------
    >>> table = synthetic_table(3)
    >>> len(table.y_test)
    4000
    """
    rng = np.random.default_rng([20261124, number])
    return _generate(rng, _describe(number, rng), None, f"synthetic_{number:02d}")


def table_of_classes(number: int, n_rows: int, n_classes: int) -> Dataset:
    """Generate a table with the given numbers of rows and classes.

    The numbers of inputs, the terms and the noise are those of :func:`describe`; ``number`` may be
    ``N_TABLES`` or larger. All values are drawn from another random stream than the suite's.

    Examples
    --------
    >>> table = table_of_classes(100, n_rows=300, n_classes=6)
    >>> table.X_train.shape[0], len(table.y_test), int(table.y_train.max()) < 6
    (300, 4000, True)
    """
    description = replace(describe(number), n_rows=n_rows, task="multiclass")
    rng = np.random.default_rng([20261125, number, n_rows, n_classes])
    return _generate(rng, description, n_classes, f"classes_{number}_{n_rows}_{n_classes}")


def _describe(number: int, rng: np.random.Generator) -> Description:
    sizes = _LARGE_SIZES if number % _LARGE_EVERY == _LARGE_EVERY - 1 else _SIZES
    n_inputs = int(np.round(np.exp(rng.uniform(np.log(3), np.log(60)))))
    n_relevant = int(rng.integers(min(2, n_inputs), n_inputs + 1))
    task: Task = rng.choice(["regression", "binary", "multiclass"], p=[0.55, 0.3, 0.15])
    n_terms = int(rng.integers(1, 5))
    terms = tuple(str(name) for name in rng.choice(sorted(_TERMS), n_terms))
    noise = float(rng.choice([0.0, 0.02, 0.1, 0.3, 0.6, 1.2]))
    return Description(number, int(rng.choice(sizes)), n_inputs, n_relevant, task, terms, noise)


def _generate(
    rng: np.random.Generator, description: Description, n_classes: int | None, name: str
) -> Dataset:
    """Generate a table; a multiclass one draws its number of classes unless it is given."""
    n_rows, task = description.n_rows, description.task
    X = _inputs(rng, n_rows + _N_TEST, description.n_inputs)
    relevant = rng.permutation(description.n_inputs)[: description.n_relevant]
    # Drawn for every task, so that all later draws are independent of n_classes.
    drawn_classes = int(rng.integers(3, 8))
    n_scores = (n_classes or drawn_classes) if task == "multiclass" else 1
    ranks = _ranks(X[:, relevant])
    scores = np.column_stack([_function(rng, description.terms, ranks) for _ in range(n_scores)])
    y = _targets(rng, description, scores)
    return Dataset(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:], task, name)


def _inputs(rng: np.random.Generator, n_rows: int, n_inputs: int) -> Array:
    """Draw correlated inputs, each with a random kind of marginal distribution."""
    n_factors = max(1, n_inputs // 3)
    share = rng.uniform(0.0, 0.9)
    mixing = rng.normal(size=(n_factors, n_inputs)) / np.sqrt(n_factors)
    factors = rng.normal(size=(n_rows, n_factors)) @ mixing
    X = np.sqrt(share) * factors + np.sqrt(1 - share) * rng.normal(size=(n_rows, n_inputs))
    for j in range(n_inputs):
        X[:, j] = _MARGINALS[int(rng.integers(len(_MARGINALS)))](rng, X[:, j])
    return X


def _rounded(rng: np.random.Generator, x: Array) -> Array:
    return np.round(x * rng.choice([1.0, 2.0, 5.0]))


def _codes(rng: np.random.Generator, x: Array) -> Array:
    """Return unordered categories, coded as whole numbers."""
    n_codes = int(rng.integers(3, 15))
    edges = np.quantile(x, np.linspace(0, 1, n_codes + 1)[1:-1])
    return rng.permutation(n_codes)[np.searchsorted(edges, x)].astype(float)


_MARGINALS: list[Callable[[np.random.Generator, Array], Array]] = [
    lambda rng, x: x,
    lambda rng, x: x * rng.choice([0.01, 1.0, 1000.0]) + rng.normal(),
    lambda rng, x: np.exp(rng.uniform(0.3, 1.5) * x),
    lambda rng, x: np.sign(x) * np.abs(x) ** rng.uniform(1.5, 3.0),
    lambda rng, x: 1.0 / (1.0 + np.exp(-rng.uniform(1.0, 4.0) * x)),
    _rounded,
    _codes,
]


def _ranks(X: Array) -> Array:
    """Return the ranks of each column scaled to -1 to 1; some columns keep their values.

    Tied values share their mean rank.
    """
    result = np.empty_like(X)
    for j in range(X.shape[1]):
        values, index = np.unique(X[:, j], return_inverse=True)
        counts = np.bincount(index.reshape(-1))
        mean_ranks = np.cumsum(counts) - 0.5 * counts
        result[:, j] = 2.0 * (mean_ranks / len(X))[index.reshape(-1)] - 1.0
        if len(values) > 0.5 * len(X) and j % 2:
            # Half of the continuous inputs enter by value instead of rank, with clipped tails.
            standardised = (X[:, j] - np.median(X[:, j])) / (X[:, j].std() or 1.0)
            result[:, j] = np.clip(standardised / 2.0, -1.5, 1.5)
    return result


def _function(rng: np.random.Generator, terms: tuple[str, ...], U: Array) -> Array:
    total = np.zeros(len(U))
    for name in terms:
        term = _TERMS[name](rng, U)
        deviation = term.std()
        if deviation > 0:
            total += rng.uniform(0.4, 1.0) * (term - term.mean()) / deviation
    deviation = total.std()
    return total / deviation if deviation > 0 else total


def _draw_columns(rng: np.random.Generator, U: Array, max_columns: int) -> Array:
    n = int(rng.integers(1, min(max_columns, U.shape[1]) + 1))
    return U[:, rng.permutation(U.shape[1])[:n]]


def _linear(rng: np.random.Generator, U: Array) -> Array:
    return U @ (rng.normal(size=U.shape[1]) * rng.random(U.shape[1]))


def _quadratic(rng: np.random.Generator, U: Array) -> Array:
    V = _draw_columns(rng, U, 6)
    Q = rng.normal(size=(V.shape[1], V.shape[1]))
    return np.asarray(np.einsum("ni,ij,nj->n", V, Q, V) + V @ rng.normal(size=V.shape[1]))


def _waves(rng: np.random.Generator, U: Array) -> Array:
    """Return a sample of a Gaussian process with a smooth kernel and random widths."""
    V = _draw_columns(rng, U, 12)
    widths = np.exp(rng.uniform(np.log(0.4), np.log(3.0), V.shape[1])) * np.sqrt(V.shape[1])
    frequencies = rng.normal(size=(V.shape[1], 200)) / widths[:, None]
    phases = rng.uniform(0, 2 * np.pi, 200)
    return np.asarray(np.cos(V @ frequencies + phases) @ rng.normal(size=200))


def _rough(rng: np.random.Generator, U: Array) -> Array:
    """Return a sample of a Gaussian process whose kernel has a cusp: Cauchy frequencies."""
    V = _draw_columns(rng, U, 6)
    widths = np.exp(rng.uniform(np.log(0.5), np.log(4.0), V.shape[1])) * V.shape[1]
    frequencies = np.clip(rng.standard_cauchy((V.shape[1], 200)), -200, 200) / widths[:, None]
    phases = rng.uniform(0, 2 * np.pi, 200)
    return np.asarray(np.cos(V @ frequencies + phases) @ rng.normal(size=200))


def _additive(rng: np.random.Generator, U: Array) -> Array:
    total = np.zeros(len(U))
    for j in range(U.shape[1]):
        kind = int(rng.integers(4))
        u, a = U[:, j], rng.normal()
        shift = rng.uniform(-0.8, 0.8)
        total += (
            a
            * (
                np.sin(rng.uniform(1, 8) * u + shift),
                np.abs(u - shift),
                np.exp(-((u - shift) ** 2) / rng.uniform(0.02, 0.5)),
                (u > shift).astype(float),
            )[kind]
        )
    return total


def _tree(rng: np.random.Generator, U: Array) -> Array:
    """Return the sum of some random decision trees."""
    total = np.zeros(len(U))
    for _ in range(int(rng.integers(1, 20))):
        depth = int(rng.integers(2, 7))
        leaf = np.zeros(len(U), np.int64)
        for _ in range(depth):
            column = rng.integers(U.shape[1], size=1 << depth)
            threshold = rng.uniform(-0.8, 0.8, 1 << depth)
            leaf = 2 * leaf + (U[np.arange(len(U)), column[leaf]] > threshold[leaf])
            leaf %= 1 << depth
        total += rng.normal(size=1 << depth)[leaf]
    return total


def _products(rng: np.random.Generator, U: Array) -> Array:
    total = np.zeros(len(U))
    for _ in range(int(rng.integers(1, 8))):
        V = _draw_columns(rng, U, 3)
        total += rng.normal() * np.prod(np.sin(2.0 * V + rng.uniform(-1, 1)), axis=1)
    return total


def _ratio(rng: np.random.Generator, U: Array) -> Array:
    V = U[:, rng.integers(U.shape[1], size=2)]
    return np.asarray((V[:, 0] + 1.5) / (V[:, 1] + 1.6))


def _rotated(rng: np.random.Generator, U: Array) -> Array:
    """Return a function of two random linear combinations of all inputs."""
    directions = rng.normal(size=(U.shape[1], 2)) / np.sqrt(U.shape[1])
    V = U @ directions
    return np.asarray(np.sin(3.0 * V[:, 0]) + (V[:, 1] > 0.1) * V[:, 0])


_TERMS: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "linear": _linear,
    "quadratic": _quadratic,
    "waves": _waves,
    "rough": _rough,
    "additive": _additive,
    "tree": _tree,
    "products": _products,
    "ratio": _ratio,
    "rotated": _rotated,
}


def _targets(
    rng: np.random.Generator, description: Description, scores: Array
) -> NDArray[np.generic]:
    noise = description.noise * rng.normal(size=scores.shape)
    if description.task == "regression":
        if rng.random() < 0.2:  # heavy tails
            noise = description.noise * rng.standard_t(2.5, size=scores.shape) / np.sqrt(5.0)
        elif rng.random() < 0.2:  # heteroscedastic noise
            noise *= np.exp(0.5 * scores)
        target = (scores + noise)[:, 0]
        return np.exp(target) if rng.random() < 0.15 else target
    if description.task == "binary":
        positive_share = rng.choice([0.5, 0.5, 0.2, 0.05])
        noisy = (scores + noise)[:, 0]
        return (noisy > np.quantile(noisy, 1.0 - positive_share)).astype(np.int64)
    return (scores + 0.5 * noise).argmax(axis=1)
