"""The page of ``gramless cluster``: one file of HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gramless.base.types import FloatArray, IntArray
from gramless.cli.charts import Chart, Columns, Series, ShadedTable, bar_cells, readable
from gramless.cli.cluster_findings import Clustering, Trait, map_of, traits_of
from gramless.cli.pages import render
from gramless.cli.svg import COLOURS, LIGHT
from gramless.datasets.table import Matrix, Table
from gramless.features.neighbours import NearestLandmarks

_MOST_COLOURS = 7
"""The largest clusters have colours of their own on the map."""


def cluster_page(
    machine: Clustering,
    labels: IntArray,
    sizes: Sequence[int],
    X: Matrix | Table,
    names: Sequence[str],
    places: Mapping[str, object],
) -> str:
    """Return a page about fitted clusters of rows, numbered from 0 by their sizes."""
    traits = traits_of(X, names, labels, len(sizes))
    numbered = enumerate(zip(sizes, traits, strict=True), start=1)
    return render(
        "cluster.html",
        places=places,
        kind=type(machine).__name__,
        n_rows=len(labels),
        n_clusters=len(sizes),
        sizes=_sizes(sizes),
        map=_map(labels, len(sizes), *map_of(X, len(labels))),
        cards=[(k, size, _traits(own)) for k, (size, own) in numbered],
        spectrum=_spectrum(machine.eigenvalues_) if machine.n_clusters == "eigengap" else None,
        rule=_rule(machine),
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


def _traits(traits: Sequence[Trait]) -> ShadedTable:
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
