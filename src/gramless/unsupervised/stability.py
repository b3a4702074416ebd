"""How far clusters learned from different rows agree, and which clustering that chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from gramless.base.errors import InputError
from gramless.base.random import RandomState, seed_from, stream
from gramless.base.types import FloatArray, IntArray, TableLike
from gramless.datasets.table import take_rows

LEAST_ROWS = 100
"""Halves of fewer rows say nothing."""


class Clustering(Protocol):
    """An estimator of scikit-learn's kind that clusters rows, and new ones too."""

    def fit(self, X: Any) -> Self:
        """Learn clusters."""
        ...

    def predict(self, X: Any) -> IntArray:
        """Return the cluster of each row."""
        ...


@dataclass(frozen=True)
class ClusteringChoice:
    """The clustering that :func:`choose_clustering` takes.

    Attributes
    ----------
    best : estimator
        The clustering that was chosen, as it was given: it is not fitted.
    stability : array (n_clusterings,)
        Of each clustering, in the order in which they were given; NaN if there are fewer than 100
        rows.
    """

    best: Any
    stability: FloatArray


def clustering_stability(
    clustering: Clustering,
    X: TableLike,
    *,
    n_splits: int = 3,
    max_rows: int = 2000,
    random_state: RandomState = None,
) -> FloatArray:
    """Return how far the clusters that are learned from one half and the other of the rows agree.

    Rows are split in two at random. A clustering is learned from each half, and both tell the
    clusters of all these rows: the adjusted Rand index of the two is 1 if they are the same, and
    around 0 if they have nothing to do with each other (Lange et al. 2004, "Stability-based
    validation of clustering solutions"; von Luxburg 2010, "Clustering stability: an overview").

    Parameters
    ----------
    clustering : estimator
        With ``fit`` and ``predict``, as :class:`~gramless.SpectralClustering`; copies are fitted.
    X : array-like, sparse matrix or data frame (n_samples, n_features)
        At least 100 rows.
    n_splits : int, default=3
        How many times rows are split.
    max_rows : int, default=2000
        The most rows of a split, drawn at random.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the splits. The clustering has its own.

    Returns
    -------
    array (n_splits,)

    Raises
    ------
    InputError
        If there are fewer than 100 rows, or if the clustering refuses half of them.

    Notes
    -----
    Time is that of ``2 * n_splits`` fits to at most ``max_rows / 2`` rows: it does not grow with
    the table. Clusters of fewer rows are a little less stable than those of all.

    Examples
    --------
    >>> from gramless import KernelKMeans, clustering_stability
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2)) + 8 * rng.integers(0, 3, 400)[:, None]
    >>> three, five = (KernelKMeans(k, n_grids=64, random_state=0) for k in (3, 5))
    >>> clustering_stability(three, X, random_state=0)
    array([1., 1., 1.])
    >>> bool(clustering_stability(five, X, random_state=0).mean() < 0.9)
    True
    """
    return _stability(clustering, X, _splits(X, n_splits, max_rows, random_state))


def choose_clustering(
    clusterings: Sequence[Clustering],
    X: TableLike,
    *,
    margin: float = 0.2,
    n_splits: int = 3,
    max_rows: int = 2000,
    random_state: RandomState = None,
) -> ClusteringChoice:
    """Choose the first clustering for a table, or another one whose clusters are much more stable.

    The stability of each is the mean of :func:`clustering_stability` over the same splits.

    Parameters
    ----------
    clusterings : sequence of estimators
        The one that is taken unless another is better comes first: for tables
        :class:`~gramless.SpectralClustering`, and then :class:`~gramless.KernelKMeans`. They stay
        as they are: copies are fitted to halves of the rows.
    X : array-like, sparse matrix or data frame (n_samples, n_features)
        Rows to cluster. Of fewer than 100 the first clustering is taken.
    margin : float, default=0.2
        By how much the most stable clustering must be more stable than the first.
    n_splits, max_rows, random_state
        As in :func:`clustering_stability`.

    Returns
    -------
    ClusteringChoice
        The clustering, still to be fitted, and the stability of each.

    Raises
    ------
    InputError
        If there is no clustering, or if one refuses half of the rows.

    Notes
    -----
    A stable clustering need not be a good one: two means cut moons in the same wrong place each
    time. That is why spectral clustering, where it fits, comes first, and has a margin.

    Examples
    --------
    >>> from gramless import KernelKMeans, SpectralClustering, choose_clustering
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 8)) * np.repeat([1.0, 4.0], 200)[:, None]  # one within the other
    >>> candidates = [SpectralClustering(2, random_state=0), KernelKMeans(2, random_state=0)]
    >>> choice = choose_clustering(candidates, X, n_splits=1, random_state=0)
    >>> choice.best
    KernelKMeans(n_clusters=2, random_state=0)
    >>> labels = choice.best.fit_predict(X)
    """
    if not clusterings:
        raise InputError("choose_clustering: there is no clustering to choose.")
    best, stability = 0, np.full(len(clusterings), np.nan)
    if _n_rows(X) >= LEAST_ROWS:
        splits = _splits(X, n_splits, max_rows, random_state)
        stability[:] = [_stability(one, X, splits).mean() for one in clusterings]
        if stability.max() > stability[0] + margin:
            best = int(stability.argmax())
    return ClusteringChoice(clusterings[best], stability)


def _splits(
    X: TableLike, n_splits: int, max_rows: int, random_state: RandomState
) -> list[tuple[IntArray, IntArray]]:
    """Return the rows of two halves, of at most ``max_rows`` random rows, for each split."""
    n_rows, seed = _n_rows(X), seed_from(random_state)
    if n_rows < LEAST_ROWS:
        raise InputError(
            f"clustering_stability: needs at least {LEAST_ROWS} rows to split, got "
            f"n_samples={n_rows}."
        )
    if n_splits < 1 or max_rows < LEAST_ROWS:
        raise InputError(
            f"clustering_stability: needs n_splits of at least 1 and max_rows of at least "
            f"{LEAST_ROWS}, got {n_splits} and {max_rows}."
        )
    found = []
    for split in range(n_splits):
        rows = stream(seed, "splits", split).permutation(n_rows)[:max_rows]
        found.append((rows[: len(rows) // 2], rows[len(rows) // 2 :]))
    return found


def _stability(
    clustering: Clustering, X: TableLike, splits: list[tuple[IntArray, IntArray]]
) -> FloatArray:
    found = np.empty(len(splits))
    for split, halves in enumerate(splits):
        rows = take_rows(X, np.concatenate(halves))
        labels = [clone(clustering).fit(take_rows(X, half)).predict(rows) for half in halves]
        found[split] = adjusted_rand_score(*labels)
    return found


def _n_rows(X: TableLike) -> int:
    shape = np.shape(X)  # type: ignore[arg-type]
    if not shape:
        raise InputError(f"clustering_stability: needs a table of rows, got {type(X).__name__}.")
    return shape[0]
