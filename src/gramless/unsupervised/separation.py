"""How well the table of a row can be told: the size of the difference between two tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm, rankdata

from gramless.base.errors import InputError
from gramless.base.lazy_rows import taken
from gramless.base.random import RandomState, seed_from, stream
from gramless.base.types import FloatArray, IntArray, TableLike
from gramless.estimators.classifier import KernelClassifier
from gramless.unsupervised.encoded_tables import EncodedTable, pooled

LEAST_ROWS = 20
_MOST_ROWS = 5000
"""Rows of either table that are used: half of them are fitted, the others judge."""


@dataclass(frozen=True)
class Separation:
    """How often a model tells which of two rows, one of each table, is of which.

    ``auc`` is this probability for rows that the model has not seen, the area under the ROC curve:
    1/2 is guessing. ``lower`` and ``upper`` bound it with a confidence of 95 % (DeLong et al.
    1988), given the model.
    """

    auc: float
    lower: float
    upper: float
    n_rows: int


def separation(
    X: TableLike,
    Y: TableLike,
    *,
    categorical_features: str | ArrayLike = "auto",
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> Separation:
    """Measure how well a model can tell the table of a row.

    A :class:`~gramless.KernelClassifier` is fitted to half of at most 5,000 random rows of either
    table, and judged on the others. Where two tables follow the same distribution, it can only
    guess; but :func:`~gramless.two_sample_test` finds smaller differences.

    Parameters
    ----------
    X, Y : array-like, sparse matrix or data frame (n_x, n_features), (n_y, n_features)
        Tables of the same columns, at least 20 rows each.
    categorical_features : "auto" or array-like, default="auto"
        As in :class:`~gramless.KernelClassifier`.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything that is drawn; None draws one from NumPy's global state.
    n_jobs : int or None, default=None
        Threads; None means every processor. Results do not depend on it.

    Returns
    -------
    Separation

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    >>> found = separation(X, Y + [1, 0], random_state=0)
    >>> 0.6 < found.lower < found.auc < 0.9  # 0.76 if the distributions were known
    True
    """
    owner = "separation"
    both, n_first = pooled(X, Y, owner)
    table = EncodedTable.of(both, categorical_features, owner)
    n_second = table.rows.shape[0] - n_first
    if min(n_first, n_second) < LEAST_ROWS:
        raise InputError(
            f"{owner}: needs at least {LEAST_ROWS} rows of each table, got {n_first} and "
            f"{n_second}."
        )
    seed = seed_from(random_state)
    fitted, judged = _halves(n_first, n_second, seed)
    classifier = KernelClassifier(
        categorical_features=table.categorical_mask, effort=1, random_state=seed, n_jobs=n_jobs
    )
    classifier.fit(taken(table.rows, fitted), fitted >= n_first)
    scores = classifier.decision_function(taken(table.rows, judged))
    return _separated(scores[judged < n_first], scores[judged >= n_first])


def _halves(n_first: int, n_second: int, seed: int) -> tuple[IntArray, IntArray]:
    """Draw rows to fit and rows to judge, half of them of each table."""
    draws = stream(seed, "separation")
    parts = [
        start + draws.permutation(n)[:_MOST_ROWS]
        for start, n in ((0, n_first), (n_first, n_second))
    ]
    fitted, judged = (np.concatenate([part[k::2] for part in parts]) for k in range(2))
    return np.sort(fitted), np.sort(judged)


def _separated(first: FloatArray, second: FloatArray) -> Separation:
    """Return how often scores of second rows are above those of first ones; ties count half."""
    m, n = len(first), len(second)
    ranks = rankdata(np.concatenate([first, second]))
    above = 1.0 - (ranks[:m] - rankdata(first)) / n
    below = (ranks[m:] - rankdata(second)) / m
    auc = float(below.mean())
    error = np.sqrt(above.var(ddof=1) / m + below.var(ddof=1) / n)
    spread = float(norm.ppf(0.975) * error)
    return Separation(auc, max(0.0, auc - spread), min(1.0, auc + spread), m + n)
