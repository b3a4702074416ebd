"""``gramless cluster``: a table in, the cluster of each row out, and a page about them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import BadParameter, Option

from gramless.base.formatting import sized
from gramless.cli import options
from gramless.cli.fit import Categorical
from gramless.cli.predict import Force, Ids, Output, write_columns
from gramless.cli.reading import read_data, unlabelled_rows
from gramless.cli.report import facts, reporting

if TYPE_CHECKING:
    from gramless.cli.cluster_findings import Clustering
    from gramless.datasets.table import Matrix, Table

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
    Literal["spectral", "kmeans"],
    Option(
        help="spectral follows chains of neighbours; kmeans finds rows that are all similar to "
        "each other, and needs the number of clusters."
    ),
]
Features = Annotated[
    str | None, Option(metavar="A,B,...", help="Columns to cluster by; by default all.")
]
Ignored = Annotated[
    str | None,
    Option("--ignore", metavar="A,B,...", help="Columns to leave out, such as known labels."),
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
    output: Output = None,
    page: Page = None,
    n_clusters: NClusters = "auto",
    method: Method = "spectral",
    features: Features = None,
    ignored: Ignored = None,
    categorical: Categorical = None,
    ids: Ids = None,
    bandwidth: Bandwidth = "auto",
    scaling: Scaling = "auto",
    seed: Seed = 0,
    force: Force = False,
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
    output = None if str(output) == "-" else output
    kept = options.names(ids, "--id") or []
    left_out = [*kept, *(options.names(ignored, "--ignore") or [])]
    width = options.auto_or_number(bandwidth, "--bandwidth")
    shared = {"bandwidth": width, "scaling": scaling, "random_state": seed, "n_jobs": n_jobs}
    with reporting(as_json, debug) as report:
        _check_places(data, output, page, force)
        with report.stage("read", f"reading {data}"):
            declared = options.names(categorical, "--categorical") or []
            table = read_data(data, categorical=declared, part=part, limits=limits)
            for name in left_out:
                table.index_of(name)
            X, used = unlabelled_rows(table, options.names(features, "--features"), left_out)
        with report.stage("cluster", "clustering"):
            from gramless.cli.cluster_findings import by_size

            machine = _machine(method, n_clusters, shared).fit(X)
            labels, counts = by_size(machine.labels_)
        sizes: list[int] = counts.tolist()
        document: dict[str, object] = {"rows": len(labels), "sizes": sizes}
        told = {"rows": len(labels), "clusters": len(sizes)}
        lines = told | {"sizes": ", ".join(f"{size:,}" for size in sizes)}
        if page is not None:
            with report.stage("write", f"writing {page}"):
                _write_page(page, machine, X, used, data)
            document |= {"page": page, "bytes": page.stat().st_size}
            lines |= {"page": f"{page} ({sized(page.stat().st_size)})"}
        columns = {name: table.column(name) for name in kept} | {"cluster": labels + 1}
        document["seconds"] = report.seconds
        if output is not None:
            with open(output, "w", encoding="utf-8", newline="") as file:
                write_columns(file, columns)
            report.result(document | {"output": output}, facts(lines | {"output": output}))
        elif as_json:
            report.result(document | columns)
        else:
            write_columns(sys.stdout, columns)


def _write_page(
    page: Path, machine: Clustering, X: Matrix | Table, used: Sequence[str], data: Path
) -> None:
    """Write the page about the clusters of rows."""
    from gramless.cli.cluster_findings import cluster_findings
    from gramless.cli.cluster_page import cluster_page
    from gramless.cli.templating import write_page

    write_page(page, cluster_page(cluster_findings(machine, X, used, {"data": data})), "--page")


def _check_places(data: Path, output: Path | None, page: Path | None, force: bool) -> None:
    """Refuse files that cannot be written, or would replace others."""
    for option, place in (("-o", output), ("--page", page)):
        if place is not None:
            options.check_output(option, place, {"the data itself": data})
    if output is not None:
        options.check_replaced("-o", output, force)


def _machine(method: str, n_clusters: str, shared: Mapping[str, object]) -> Clustering:
    """Return the unfitted estimator."""
    from gramless import KernelKMeans, SpectralClustering

    if n_clusters == "auto":
        if method == "kmeans":
            raise BadParameter("--method kmeans needs the number of clusters: --clusters NUMBER.")
        return SpectralClustering("eigengap", **shared)  # type: ignore[arg-type]
    try:
        number = int(n_clusters)
    except ValueError:
        told = f"--clusters needs a number or auto, got {n_clusters!r}."
        raise BadParameter(told) from None
    machine = SpectralClustering if method == "spectral" else KernelKMeans
    return machine(number, **shared)  # type: ignore[arg-type]
