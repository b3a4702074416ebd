"""What ``gramless cluster`` tells: sizes of clusters, a map of the rows, what sets them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gramless import KernelKMeans, KernelPCA, SpectralClustering
from gramless.base.random import stream
from gramless.base.types import FloatArray, IntArray
from gramless.datasets import Table
from gramless.datasets.table import Matrix
from gramless.preprocessing.rows import Rows

Clustering = SpectralClustering | KernelKMeans

_MAP_ROWS = 2000
_MAP_FIT_ROWS = 20_000
_MOST_TRAITS, _MOST_LEVELS = 6, 20
_LEAST_EFFECT = 0.1
"""Standard deviations: smaller differences are not told."""


@dataclass(frozen=True)
class Trait:
    """An input of which the rows of a cluster have other values than all other rows.

    ``effect`` is the difference of the means in standard deviations; of a category, ``inside`` and
    ``outside`` are shares.
    """

    name: str
    inside: float
    outside: float
    effect: float
    is_share: bool


def by_size(labels: NDArray[np.integer]) -> tuple[IntArray, IntArray]:
    """Return clusters numbered from 0, the largest first, and their sizes; none is empty.

    Examples
    --------
    >>> numbers, sizes = by_size(np.array([5, 2, 2]))
    >>> numbers.tolist(), sizes.tolist()
    ([1, 0, 0], [2, 1])
    """
    _, own, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    return np.argsort(order)[own], sizes[order]


def map_of(X: Matrix | Table, n_rows: int) -> tuple[IntArray, FloatArray]:
    """Return some rows and their coordinates (m, 2) along the first kernel principal components."""
    drawn = stream(0, "map").permutation(n_rows)
    fitted, shown = np.sort(drawn[:_MAP_FIT_ROWS]), np.sort(drawn[:_MAP_ROWS])
    if n_rows < 2:
        return shown, np.zeros((n_rows, 2))
    pca = KernelPCA(2, tol=1e-2, random_state=0).fit(_rows(X, fitted))
    found = pca.transform(_rows(X, shown))
    return shown, np.pad(found, ((0, 0), (0, 2 - found.shape[1])))


def _rows(X: Matrix | Table, rows: IntArray) -> Matrix | Table:
    taken: Matrix | Table = X.take_rows(rows) if isinstance(X, Table) else X[rows]
    return taken


def traits_of(
    X: Matrix | Table, names: Sequence[str], labels: IntArray, n_clusters: int
) -> list[list[Trait]]:
    """Return the inputs that set each cluster apart, the largest differences first."""
    values, told, are_shares = _numbers(X, names)
    inside, outside, effects = _differences(values, labels, n_clusters)
    found = []
    for k in range(n_clusters):
        first = np.argsort(-np.abs(effects[k]), kind="stable")[:_MOST_TRAITS]
        found.append(
            [
                Trait(told[j], inside[k, j], outside[k, j], effects[k, j], are_shares[j])
                for j in first.tolist()
                if abs(effects[k, j]) >= _LEAST_EFFECT
            ]
        )
    return found


def _numbers(X: Matrix | Table, names: Sequence[str]) -> tuple[Matrix, list[str], list[bool]]:
    """Return numbers (n, p), what they are, and which are 1 for rows of a category, else 0."""
    if not isinstance(X, Table):
        return X, list(names), [False] * len(names)
    columns, told, are_shares = [], [], []
    for name in names:
        column = X.column(name)
        if not X.is_categorical(name):
            columns.append(column)
            told.append(name)
            are_shares.append(False)
            continue
        levels, counts = np.unique(column.astype(str), return_counts=True)
        for level in levels[np.argsort(-counts, kind="stable")][:_MOST_LEVELS].tolist():
            columns.append((column.astype(str) == level).astype(float))
            told.append(f"{name} is {level}" if level else f"{name} is missing")
            are_shares.append(True)
    return np.column_stack(columns), told, are_shares


def _differences(
    values: Rows, labels: IntArray, n_clusters: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means (K, p) inside and outside of clusters, and differences over deviations.

    ``values`` are dense or sparse (n, p); missing numbers are left out.
    """
    members = sparse.csr_array(
        (np.ones(len(labels)), (labels, np.arange(len(labels)))), (n_clusters, len(labels))
    )
    counts = np.repeat(np.bincount(labels)[:, None], values.shape[1], axis=1).astype(float)
    if not sparse.issparse(values):
        gaps = np.isnan(values)
        counts = counts - members @ gaps.astype(float)
        values = np.where(gaps, 0.0, values.astype(float))
    sums = _dense(members @ values)
    squared: Rows = values.multiply(values) if sparse.issparse(values) else values**2
    squares = _dense(members @ squared)
    total, n = sums.sum(axis=0), np.maximum(counts.sum(axis=0), 1.0)
    deviations = np.sqrt(np.maximum(squares.sum(axis=0) / n - (total / n) ** 2, 0.0))
    inside = sums / np.maximum(counts, 1.0)
    others = counts.sum(axis=0) - counts
    outside = np.where(others > 0, (total - sums) / np.maximum(others, 1.0), inside)
    # What rounding leaves of a constant column is no deviation.
    varies = deviations > 1e-9 * np.sqrt(squares.sum(axis=0) / n)
    effects = np.where(varies, (inside - outside) / np.where(varies, deviations, 1.0), 0.0)
    return inside, outside, effects


def _dense(values: Rows) -> FloatArray:
    return np.asarray(values.toarray() if sparse.issparse(values) else values)
