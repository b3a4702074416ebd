"""``gramless cluster``: a table in, the cluster of each row out, and a page about them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import BadParameter, Option

from gramless.base.formatting import sized
from gramless.cli import options
from gramless.cli.outputs import Output, check_outputs
from gramless.cli.report import reporting

if TYPE_CHECKING:
    from gramless.base.types import AnyArray, IntArray
    from gramless.cli.cluster_page import Clustering
    from gramless.datasets.table import Matrix, Table

_MOST_COMPARED, _ROWS_A_CLUSTER = 2000, 20
"""Rows by which methods are compared, and how many there must be for each cluster."""

Page = Annotated[Path | None, Option(metavar="OUT.html", help="A page about them.")]
NClusters = Annotated[
    str,
    Option(
        "--clusters",
        "-k",
        metavar="auto|NUMBER",
        help="auto takes the number, up to 20, after which the eigenvalues of the graph jump.",
    ),
]
Method = Annotated[
    Literal["auto", "spectral", "kmeans"],
    Option(
        help="spectral follows chains of neighbours; kmeans finds rows that are all similar to "
        "each other, and needs the number of clusters. auto takes spectral, unless clusters that "
        "kmeans finds in halves of the rows agree much better."
    ),
]
Features = Annotated[
    str | None, Option(metavar="A,B,...", help="Columns to cluster by; by default all.")
]
Bandwidth = Annotated[
    str,
    Option(
        metavar="auto|NUMBER",
        help="Width of the kernel, in scaled inputs; with a number spectral clustering joins rows "
        "by a kernel, not by neighbors.",
    ),
]
Scaling = Annotated[
    Literal["auto", "standard", "quantile", "both", "none"],
    Option(help="Of the inputs; auto is standard."),
]
Seed = Annotated[int, Option(min=0, help="Of all random draws.")]


def cluster(
    data: options.DataFile,
    output: options.Output = None,
    page: Page = None,
    n_clusters: NClusters = "auto",
    method: Method = "auto",
    features: Features = None,
    ignored: options.Ignore = None,
    categorical: options.Categorical = None,
    ids: options.Ids = None,
    bandwidth: Bandwidth = "auto",
    scaling: Scaling = "auto",
    seed: Seed = 0,
    force: options.Force = False,
    part: options.PartOption = "train",
    limits: options.Limits = "",
    n_jobs: options.Jobs = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Find clusters of rows, without labels.

    Writes the number of each row's cluster as CSV, 1 for the largest cluster.
    With --page also a page: how large the clusters are, where they lie, what
    sets each apart. Columns given by --id are no inputs. Labels that the file
    keeps apart are not looked at.
    """
    kept = options.names(ids, "--id")
    left_out = [*kept, *options.names(ignored, "--ignore")]
    width = options.auto_or_number(bandwidth, "--bandwidth")
    shared = {"bandwidth": width, "scaling": scaling, "random_state": seed, "n_jobs": n_jobs}
    with reporting(as_json, debug) as report:
        outputs = [Output("-o", output, "table"), Output("--page", page, "page")]
        check_outputs(outputs, {"the data itself": data}, force)
        with report.stage("read", f"reading {data}"):
            from gramless.cli.reading import beside, read_data, unlabelled_rows

            declared = [*options.names(categorical, "--categorical"), *kept]
            table = read_data(data, categorical=declared, part=part, limits=limits)
            for name in left_out:
                table.index_of(name)
            X, used = unlabelled_rows(table, options.names(features, "--features"), left_out)
        with report.stage("cluster", "clustering"):
            machine, stability = _fitted(method, n_clusters, shared, X)
            labels, sizes = _by_size(machine.labels_)
            unused = _ignored_columns(machine, used)
        name = type(machine).__name__
        document: dict[str, object] = {"rows": len(labels), "sizes": sizes, "ignored": unused}
        document |= {"method": name, "stability": stability}
        told = {"rows": len(labels), "method": name, "clusters": len(sizes)}
        lines = told | {"sizes": ", ".join(f"{size:,}" for size in sizes)}
        if stability:
            lines["stability"] = ", ".join(f"{each} {s:.2f}" for each, s in stability.items())
        if unused:
            lines["ignored"] = f"{', '.join(unused)} (noise)"
        if page is not None:
            from gramless.cli.cluster_page import cluster_page

            fitted = machine, stability, labels, sizes, X, used, unused
            report.write_page(page, "--page", cluster_page, *fitted, {"data": data})
            document |= {"page": page, "bytes": page.stat().st_size}
            lines |= {"page": f"{page} ({sized(page.stat().st_size)})"}
        columns = beside(table, kept, {"cluster": labels + 1})
        report.rows(columns, output, document | {"seconds": report.seconds}, lines)


def _ignored_columns(machine: Clustering, names: Sequence[str]) -> list[str]:
    """Return the names of the columns that spectral clustering ignores as noise."""
    from gramless import SpectralClustering

    if not isinstance(machine, SpectralClustering):
        return []
    return [names[j] for j in machine.ignored_columns_]


def _fitted(
    method: str, n_clusters: str, shared: dict[str, Any], X: Matrix | Table
) -> tuple[Clustering, dict[str, float]]:
    """Return a fitted clustering, and the stability of each method if methods were compared."""
    from gramless import KernelKMeans, SpectralClustering, choose_clustering
    from gramless.unsupervised.stability import LEAST_ROWS

    number: Any = options.auto_or_number(n_clusters, "--clusters", number=int)
    if method == "kmeans":
        if number == "auto":
            raise BadParameter("--method kmeans needs the number of clusters: --clusters NUMBER.")
        return KernelKMeans(number, **shared).fit(X), {}
    spectral = SpectralClustering("eigengap" if number == "auto" else number, **shared).fit(X)
    number = spectral.n_clusters_
    n_compared = min(len(spectral.labels_), _MOST_COMPARED)
    if method == "spectral" or n_compared < max(LEAST_ROWS, _ROWS_A_CLUSTER * number):
        return spectral, {}
    candidates = [kind(number, **shared) for kind in (SpectralClustering, KernelKMeans)]
    given = {"max_rows": _MOST_COMPARED, "random_state": shared["random_state"]}
    choice = choose_clustering(candidates, X, **given)
    machine = spectral if choice.best is candidates[0] else choice.best.fit(X)
    names = [type(candidate).__name__ for candidate in candidates]
    return machine, dict(zip(names, choice.stability.tolist(), strict=True))


def _by_size(labels: AnyArray) -> tuple[IntArray, list[int]]:
    """Return clusters numbered from 0, the largest first, and their sizes; none is empty."""
    import numpy as np

    _, own, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    return np.argsort(order)[own], sizes[order].tolist()
