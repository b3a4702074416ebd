"""The page of ``gramless cluster``: one file of HTML."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import gramless
from gramless.base.types import FloatArray
from gramless.cli.charts import Cell, Chart, Series, ShadedTable, bar_cells, readable
from gramless.cli.cluster_findings import ClusterFindings, Clustering, Trait
from gramless.cli.pages import page_templates
from gramless.cli.svg import COLOURS, LIGHT
from gramless.features.neighbours import NearestLandmarks

_MOST_COLOURS = 7
"""The largest clusters have colours of their own on the map."""


def cluster_page(found: ClusterFindings) -> str:
    """Return a page of HTML that is also well-formed XML."""
    machine = found.machine
    return (
        page_templates()
        .get_template("cluster.html")
        .render(
            places=found.places,
            kind=type(machine).__name__,
            n_rows=len(found.labels),
            n_clusters=len(found.sizes),
            version=gramless.__version__,
            sizes=_sizes(found),
            map=_map(found),
            cards=[
                (k + 1, size, _traits(own))
                for k, (size, own) in enumerate(
                    zip(found.sizes.tolist(), found.traits, strict=True)
                )
            ],
            spectrum=_spectrum(machine.eigenvalues_) if machine.n_clusters == "eigengap" else None,
            rule=_rule(machine),
        )
    )


def _rule(machine: Clustering) -> str:
    """Return what makes rows similar."""
    if isinstance(machine.features_, NearestLandmarks):
        return f"{machine.features_.numbers_per_row} neighbours of a row"
    widths = np.atleast_1d(machine.bandwidth_)[:8]
    return f"bandwidth {', '.join(readable(float(b)) for b in widths)}"


def _sizes(found: ClusterFindings) -> ShadedTable:
    shares = found.sizes / found.sizes.sum()
    bars = bar_cells(shares.tolist(), [f"{share:.1%}" for share in shares])
    rows = [
        (f"cluster {k + 1}", [Cell(f"{size:,}"), bar])
        for k, (size, bar) in enumerate(zip(found.sizes.tolist(), bars, strict=True))
    ]
    return ShadedTable("", ["", "rows", "share"], rows)


def _map(found: ClusterFindings) -> Chart:
    """Draw rows along the first two components, the clusters in colours."""
    labels, look = found.labels[found.map_rows], {"linewidth": 3.6, "solid_capstyle": "round"}
    series = []
    for k in range(min(_MOST_COLOURS, len(found.sizes))):
        at = found.map_places[labels == k]
        colours = {"color": COLOURS[k], "alpha": 0.55}
        name = f"cluster {k + 1}"
        series.append(Series(at[:, 0].tolist(), at[:, 1].tolist(), look | colours, name, True))
    others = found.map_places[labels >= _MOST_COLOURS]
    if len(others):
        grey = {"color": LIGHT["base"], "alpha": 0.55}
        x, y = others.T.tolist()
        series.insert(0, Series(x, y, look | grey, "the others", True))
    return Chart("Rows in two dimensions", "first component", "second component", series)


def _spectrum(values: FloatArray) -> Chart:
    """Draw the smallest eigenvalues of the Laplacian, which jump after the number of clusters."""
    numbers = list(range(1, len(values) + 1))
    look = {"marker": "o", "markersize": 5.6, "linewidth": 1.8, "color": COLOURS[0]}
    series = Series(numbers, np.maximum(values, 0.0).tolist(), look, "eigenvalue")
    return Chart("Eigenvalues of the graph's Laplacian", "number", "eigenvalue", [series])


def _traits(traits: Sequence[Trait]) -> ShadedTable:
    bars = bar_cells([one.effect for one in traits], [f"{one.effect:+.1f}" for one in traits])
    rows = [
        (one.name, [bar, Cell(_value(one, one.inside)), Cell(_value(one, one.outside))])
        for one, bar in zip(traits, bars, strict=True)
    ]
    return ShadedTable("", ["", "difference", "here", "others"], rows)


def _value(trait: Trait, value: float) -> str:
    return f"{value:.0%}" if trait.is_share else readable(value, 3)
