"""A frozen suite of synthetic tables, drawn from a prior over structural functions.

Rules of the library are chosen on these tables, and never on those that a figure is quoted for.
Each table has a number; everything about it - rows, inputs, function, noise - follows from that
number alone, so that a table is the same on every machine. :func:`synthetic_table` makes one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.data_sets import Dataset
from harness.known_sets import Task

N_TABLES = 48
"""Number of tables of the suite."""

_N_TEST = 4000
_SIZES = (1_000, 2_000, 4_000, 8_000, 12_000, 20_000)
_LARGE_SIZES = (50_000, 100_000, 200_000)
_LARGE_EVERY = 12
"""Every so many tables one has many rows."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Description:
    """What a synthetic table holds.

    Attributes
    ----------
    number : int
    n_rows, n_inputs, n_relevant : int
    task : {"regression", "binary", "multiclass"}
    terms : tuple of str
        Kinds of the functions that are added up.
    noise : float
        Standard deviation of the noise, that of the noiseless target being 1; for classes, of
        the noise added to the scores before the largest wins.
    """

    number: int
    n_rows: int
    n_inputs: int
    n_relevant: int
    task: Task
    terms: tuple[str, ...]
    noise: float


def describe(number: int) -> Description:
    """Return what the table of a number holds, without making it.

    Examples
    --------
    >>> describe(0) == describe(0), describe(0).n_rows >= 1000
    (True, True)
    """
    return _describe(number, np.random.default_rng([20261124, number]))


def synthetic_table(number: int) -> Dataset:
    """Make a table of the suite.

    Parameters
    ----------
    number : int
        0 to ``N_TABLES - 1``.

    Returns
    -------
    Dataset
        4,000 test rows from the same distribution beside the training rows.

    Examples
    --------
    >>> table = synthetic_table(3)
    >>> len(table.y_test)
    4000
    """
    rng = np.random.default_rng([20261124, number])
    return _made(rng, _describe(number, rng), None, f"synthetic_{number:02d}")


def table_of_classes(number: int, n_rows: int, n_classes: int) -> Dataset:
    """Make a table of several classes, of a number, a size and as many classes as are asked for.

    It has the inputs, terms and noise of the table of that number in the suite, which need not be
    below ``N_TABLES``; everything else is drawn anew.

    Examples
    --------
    >>> table = table_of_classes(100, n_rows=300, n_classes=6)
    >>> table.X_train.shape[0], len(table.y_test), int(table.y_train.max()) < 6
    (300, 4000, True)
    """
    plan = replace(describe(number), n_rows=n_rows, task="multiclass")
    rng = np.random.default_rng([20261125, number, n_rows, n_classes])
    return _made(rng, plan, n_classes, f"classes_{number}_{n_rows}_{n_classes}")


def _describe(number: int, rng: np.random.Generator) -> Description:
    sizes = _LARGE_SIZES if number % _LARGE_EVERY == _LARGE_EVERY - 1 else _SIZES
    n_inputs = int(np.round(np.exp(rng.uniform(np.log(3), np.log(60)))))
    n_relevant = int(rng.integers(min(2, n_inputs), n_inputs + 1))
    task: Task = rng.choice(["regression", "binary", "multiclass"], p=[0.55, 0.3, 0.15])
    n_terms = int(rng.integers(1, 5))
    terms = tuple(str(name) for name in rng.choice(sorted(_TERMS), n_terms))
    noise = float(rng.choice([0.0, 0.02, 0.1, 0.3, 0.6, 1.2]))
    return Description(number, int(rng.choice(sizes)), n_inputs, n_relevant, task, terms, noise)


def _made(rng: np.random.Generator, plan: Description, n_classes: int | None, name: str) -> Dataset:
    """Make a table; the number of several classes is drawn unless it is given."""
    n_all = plan.n_rows + _N_TEST
    X = _inputs(rng, n_all, plan.n_inputs)
    relevant = rng.permutation(plan.n_inputs)[: plan.n_relevant]
    drawn = int(rng.integers(3, 8))
    n_scores = (n_classes or drawn) if plan.task == "multiclass" else 1
    uniform = _ranks(X[:, relevant])
    scores = np.column_stack([_function(rng, plan.terms, uniform) for _ in range(n_scores)])
    y = _targets(rng, plan, scores)
    first, rest = slice(0, plan.n_rows), slice(plan.n_rows, n_all)
    return Dataset(X[first], y[first], X[rest], y[rest], plan.task, name)


def _inputs(rng: np.random.Generator, n_rows: int, n_inputs: int) -> Array:
    """Draw inputs that depend on each other, each with a distribution of its own."""
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
    """Unordered categories as whole numbers."""
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
    """Return each column's values spread evenly over -1 to 1, ties kept together."""
    spread = np.empty_like(X)
    for j in range(X.shape[1]):
        values, place = np.unique(X[:, j], return_inverse=True)
        counts = np.bincount(place.reshape(-1))
        middle = np.cumsum(counts) - 0.5 * counts
        spread[:, j] = 2.0 * (middle / len(X))[place.reshape(-1)] - 1.0
        if len(values) > 0.5 * len(X) and j % 2:
            # Half of the continuous inputs act by their own values, tails cut off.
            own = (X[:, j] - np.median(X[:, j])) / (X[:, j].std() or 1.0)
            spread[:, j] = np.clip(own / 2.0, -1.5, 1.5)
    return spread


def _function(rng: np.random.Generator, terms: tuple[str, ...], U: Array) -> Array:
    total = np.zeros(len(U))
    for name in terms:
        term = _TERMS[name](rng, U)
        deviation = term.std()
        if deviation > 0:
            total += rng.uniform(0.4, 1.0) * (term - term.mean()) / deviation
    deviation = total.std()
    return total / deviation if deviation > 0 else total


def _few(rng: np.random.Generator, U: Array, most: int) -> Array:
    """Return some of the columns."""
    n = int(rng.integers(1, min(most, U.shape[1]) + 1))
    return U[:, rng.permutation(U.shape[1])[:n]]


def _linear(rng: np.random.Generator, U: Array) -> Array:
    return U @ (rng.normal(size=U.shape[1]) * rng.random(U.shape[1]))


def _quadratic(rng: np.random.Generator, U: Array) -> Array:
    V = _few(rng, U, 6)
    Q = rng.normal(size=(V.shape[1], V.shape[1]))
    return np.asarray(np.einsum("ni,ij,nj->n", V, Q, V) + V @ rng.normal(size=V.shape[1]))


def _waves(rng: np.random.Generator, U: Array) -> Array:
    """A sample of a Gaussian process with a smooth kernel of its own width for each input."""
    V = _few(rng, U, 12)
    widths = np.exp(rng.uniform(np.log(0.4), np.log(3.0), V.shape[1])) * np.sqrt(V.shape[1])
    frequencies = rng.normal(size=(V.shape[1], 200)) / widths[:, None]
    phases = rng.uniform(0, 2 * np.pi, 200)
    return np.asarray(np.cos(V @ frequencies + phases) @ rng.normal(size=200))


def _rough(rng: np.random.Generator, U: Array) -> Array:
    """A sample of a Gaussian process with a peaked kernel: Cauchy frequencies."""
    V = _few(rng, U, 6)
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
    """The mean of a few random trees."""
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
        V = _few(rng, U, 3)
        total += rng.normal() * np.prod(np.sin(2.0 * V + rng.uniform(-1, 1)), axis=1)
    return total


def _ratio(rng: np.random.Generator, U: Array) -> Array:
    V = U[:, rng.integers(U.shape[1], size=2)]
    return np.asarray((V[:, 0] + 1.5) / (V[:, 1] + 1.6))


def _rotated(rng: np.random.Generator, U: Array) -> Array:
    """A function of a few directions through all inputs."""
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


def _targets(rng: np.random.Generator, plan: Description, scores: Array) -> NDArray[np.generic]:
    noise = plan.noise * rng.normal(size=scores.shape)
    if plan.task == "regression":
        if rng.random() < 0.2:  # Heavy tails.
            noise = plan.noise * rng.standard_t(2.5, size=scores.shape) / np.sqrt(5.0)
        elif rng.random() < 0.2:  # The noise depends on the row.
            noise *= np.exp(0.5 * scores)
        target = (scores + noise)[:, 0]
        return np.exp(target) if rng.random() < 0.15 else target
    if plan.task == "binary":
        share = rng.choice([0.5, 0.5, 0.2, 0.05])
        found = (scores + noise)[:, 0]
        return (found > np.quantile(found, 1.0 - share)).astype(np.int64)
    return (scores + 0.5 * noise).argmax(axis=1)
