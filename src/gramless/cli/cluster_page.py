"""The page of ``gramless cluster``: sizes of clusters, a map of the rows, what sets them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from gramless import KernelKMeans, KernelPCA, SpectralClustering
from gramless.base.random import stream
from gramless.base.types import FloatArray, IntArray
from gramless.cli.charts import Chart, Columns, Series, ShadedTable, bar_cells, readable
from gramless.cli.svg import COLOURS, LIGHT
from gramless.cli.templating import render
from gramless.datasets.table import Matrix, Table, take_rows
from gramless.features.neighbours import NearestLandmarks
from gramless.preprocessing.rows import Rows

Clustering = SpectralClustering | KernelKMeans

_MOST_COLOURS = 7
"""The largest clusters have colours of their own on the map."""
_MAP_ROWS, _MAP_FIT_ROWS = 2000, 20_000
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


def cluster_page(
    machine: Clustering,
    stability: Mapping[str, float],
    labels: IntArray,
    sizes: Sequence[int],
    X: Matrix | Table,
    names: Sequence[str],
    ignored: Sequence[str],
    places: Mapping[str, object],
) -> str:
    """Return a page about fitted clusters of rows, numbered from 0 by their sizes.

    ``stability`` says how far clusters of halves of the rows agree, for each method that was
    compared; ``ignored`` are the names of the columns that were ignored as noise.
    """
    traits = _traits(X, names, labels, len(sizes))
    numbered = enumerate(zip(sizes, traits, strict=True), start=1)
    return render(
        "cluster.html",
        places=places,
        kind=type(machine).__name__,
        stability=stability,
        n_rows=len(labels),
        n_clusters=len(sizes),
        sizes=_sizes(sizes),
        map=_map(labels, len(sizes), *_components(X, len(labels))),
        cards=[(k, size, _trait_table(own)) for k, (size, own) in numbered],
        spectrum=_spectrum(machine.eigenvalues_) if machine.n_clusters == "eigengap" else None,
        rule=_rule(machine),
        ignored=ignored,
    )


def _rule(machine: Clustering) -> str:
    """Return what makes rows similar."""
    if isinstance(machine.features_, NearestLandmarks):
        return f"{machine.features_.numbers_per_row} neighbours of a row"
    widths = np.atleast_1d(machine.bandwidth_)[:8]
    return f"bandwidth {', '.join(readable(float(b)) for b in widths)}"


def _sizes(sizes: Sequence[int]) -> ShadedTable:
    shares = np.divide(sizes, sum(sizes)).tolist()
    columns: Columns = {
        "": [f"cluster {k + 1}" for k in range(len(sizes))],
        "rows": [f"{size:,}" for size in sizes],
        "share": bar_cells(shares, [f"{share:.1%}" for share in shares]),
    }
    return ShadedTable.of(columns)


def _map(labels: IntArray, n_clusters: int, rows: IntArray, places: FloatArray) -> Chart:
    """Draw rows along the first two components, the clusters in colours."""
    labels, look = labels[rows], {"linewidth": 3.6, "solid_capstyle": "round", "alpha": 0.55}
    parts = {
        f"cluster {k + 1}": (places[labels == k], COLOURS[k])
        for k in range(min(_MOST_COLOURS, n_clusters))
    }
    others = places[labels >= _MOST_COLOURS]
    if len(others):
        parts = {"the others": (others, LIGHT["base"])} | parts
    series = [
        Series(at[:, 0].tolist(), at[:, 1].tolist(), look | {"color": colour}, name, True)
        for name, (at, colour) in parts.items()
    ]
    return Chart("Rows in two dimensions", "first component", "second component", series)


def _spectrum(values: FloatArray) -> Chart:
    """Draw the smallest eigenvalues of the Laplacian, which jump after the number of clusters."""
    numbers = list(range(1, len(values) + 1))
    look = {"marker": "o", "markersize": 5.6, "linewidth": 1.8, "color": COLOURS[0]}
    series = Series(numbers, np.maximum(values, 0.0).tolist(), look, "eigenvalue")
    return Chart("Eigenvalues of the graph's Laplacian", "number", "eigenvalue", [series])


def _trait_table(traits: Sequence[Trait]) -> ShadedTable:
    bars = bar_cells([one.effect for one in traits], [f"{one.effect:+.1f}" for one in traits])
    columns: Columns = {
        "": [one.name for one in traits],
        "difference": bars,
        "here": [_value(one, one.inside) for one in traits],
        "others": [_value(one, one.outside) for one in traits],
    }
    return ShadedTable.of(columns)


def _value(trait: Trait, value: float) -> str:
    return f"{value:.0%}" if trait.is_share else readable(value, 3)


def _components(X: Matrix | Table, n_rows: int) -> tuple[IntArray, FloatArray]:
    """Return some rows and their coordinates (m, 2) along the first kernel principal components."""
    drawn = stream(0, "map").permutation(n_rows)
    fitted, shown = np.sort(drawn[:_MAP_FIT_ROWS]), np.sort(drawn[:_MAP_ROWS])
    if n_rows < 2:
        return shown, np.zeros((n_rows, 2))
    pca = KernelPCA(2, tol=1e-2, random_state=0).fit(take_rows(X, fitted))
    found = pca.transform(take_rows(X, shown))
    return shown, np.pad(found, ((0, 0), (0, 2 - found.shape[1])))


def _traits(
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
