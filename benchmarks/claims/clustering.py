"""Clusters compared with the classes of labelled tables, by our and scikit-learn's methods; time.

Methods get standardised inputs and the number of classes, but no labels. Tables have at most
``--rows`` rows, sampled from the training and test rows. For each table the normalised mutual
information with the classes, the accuracy with clusters matched to classes (Hungarian method), and
seconds are means over seeds. scikit-learn's spectral clustering (ten nearest neighbours) gets at
most ``--neighbour-rows`` rows, because its time grows fast, and is evaluated on these.

The number of neighbours was chosen on usps and mnist, but not on letter, ijcnn1, cod-rna and
covtype. Further tables compare the number of clusters by the eigengap with that of the largest mean
silhouette of k-means on generated rows, and show the clusters of such rows with six more inputs of
noise, and the seconds of fits to blobs of up to a million rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.cluster import SpectralClustering as GraphClustering
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import normalized_mutual_info_score, silhouette_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.preprocessing import StandardScaler

from benchmarks.common import Report, Row, load_sets, log_slope, options, parse, print_progress
from gramless import SpectralClustering
from gramless.base.random import stream

Array = NDArray[Any]
SETS = ("usps", "mnist", "letter", "ijcnn1", "cod-rna", "covtype_first20k")
LARGE_SET = "covtype_1vs2_169k"


def methods(k: int, seed: int, jobs: int | None) -> dict[str, Any]:
    """Return unfitted clusterings by name."""
    ours = {"random_state": seed, "n_jobs": jobs}
    return {
        "spectral": SpectralClustering(k, **ours),
        "spectral bins": SpectralClustering(k, features="binning", **ours),
        "spectral Nyström": SpectralClustering(k, features="nystrom", **ours),
        "spectral Fourier": SpectralClustering(k, features="fourier", **ours),
        "k-means": KMeans(k, n_init=10, random_state=seed),
        "mini-batch k-means": MiniBatchKMeans(k, n_init=10, random_state=seed),
        "scikit-learn spectral": GraphClustering(
            k, affinity="nearest_neighbors", random_state=seed, n_jobs=jobs
        ),
    }


def accuracy(classes: Array, labels: Array) -> float:
    """Return the share of rows in the cluster that is matched to their class."""
    counts = contingency_matrix(classes, labels)
    return float(counts[linear_sum_assignment(-counts)].sum() / len(classes))


def rows_of(name: str, max_rows: int, args: Any) -> tuple[Array, Array] | None:
    """Return standardised inputs and classes of random rows of a table."""
    for data in load_sets([name], args):
        stack: Callable[..., Any] = sparse.vstack if sparse.issparse(data.X_train) else np.vstack
        X, y = stack([data.X_train, data.X_test]), np.append(data.y_train, data.y_test)
        rows = stream(0, "clustering rows").permutation(len(y))[:max_rows]
        dense = X.tocsr()[rows].toarray() if sparse.issparse(X) else X[rows]
        return StandardScaler().fit_transform(np.asarray(dense, float)), y[rows]
    return None


def evaluate_table(name: str, args: Any) -> list[Row]:
    """Return one row per method for a table."""
    table = rows_of(name, args.rows, args)
    if table is None:
        return []
    X, y = table
    rows = []
    for method in methods(2, 0, None):
        n_rows = min(len(y), args.neighbour_rows if method.startswith("scikit") else len(y))
        scores: list[tuple[float, float, float]] = []
        for seed in range(args.repeats):
            model = methods(len(np.unique(y)), seed, args.jobs)[method]
            started = perf_counter()
            try:
                with warnings.catch_warnings():
                    # A disconnected graph of neighbours, or slow convergence.
                    warnings.simplefilter("ignore")
                    labels = model.fit(X[:n_rows]).labels_
            except ValueError as error:
                print_progress(f"{name}, {method}: {error}")
                break
            seconds = perf_counter() - started
            classes = y[:n_rows]
            nmi = normalized_mutual_info_score(classes, labels)
            scores.append((float(nmi), accuracy(classes, labels), seconds))
        means, spread = (np.mean(scores, axis=0), np.std(scores, axis=0)) if scores else ((), ())
        keys = ("NMI", "accuracy", "seconds")
        row: Row = {"table": name, "method": method, "rows": n_rows}
        row |= dict(zip(keys, map(float, means), strict=False)) if scores else dict.fromkeys(keys)
        row["NMI spread"] = float(spread[0]) if scores else None
        rows.append(row)
        print_progress(str(row))
    return rows


def count_near_best(rows: list[Row]) -> list[Row]:
    """Return on how many tables each method is within 1 % of the best."""
    shares = []
    for method in dict.fromkeys(row["method"] for row in rows):
        row: Row = {"method": method}
        for measure in ("NMI", "accuracy"):
            near = 0
            for name in dict.fromkeys(row["table"] for row in rows):
                results = [r for r in rows if r["table"] == name and r[measure] is not None]
                best = max(r[measure] for r in results)
                near += any(r["method"] == method and r[measure] >= 0.99 * best for r in results)
            row[f"{measure} within 1 %"] = near
        shares.append(row)
    return shares


def made_up_clusters(seed: int, n_rows: int) -> dict[str, tuple[Array, Array]]:
    """Return generated tables: rows and the cluster of each row."""
    rng = np.random.default_rng(seed)
    tables: dict[str, tuple[Array, Array]] = {
        "moons": make_moons(n_rows, noise=0.06, random_state=seed),
        "circles": make_circles(n_rows, noise=0.04, factor=0.5, random_state=seed),
    }
    for k in (3, 6, 12):
        for d in (2, 10):
            # The centres are at least five standard deviations apart.
            cells = rng.permutation(64)[:k]
            centres = np.zeros((k, d))
            centres[:, :2] = 5.0 * np.column_stack([cells // 8, cells % 8])
            tables[f"{k} blobs in {d} inputs"] = make_blobs(
                n_rows, d, centers=centres, random_state=seed
            )
    return tables


def count_clusters(args: Any) -> list[Row]:
    """Return the selected numbers of clusters for each seed."""
    n_rows = 300 if args.quick else 2000
    rows: dict[str, Row] = {}
    for seed in range(args.repeats):
        for name, (X, y) in made_up_clusters(seed, n_rows).items():
            known: Row = {"rows": name, "true": len(np.unique(y)), "eigengap": "", "silhouette": ""}
            row = rows.setdefault(name, known)
            model = SpectralClustering("eigengap", random_state=seed, n_jobs=args.jobs).fit(X)
            row["eigengap"] += f" {model.n_clusters_}"
            scaled = StandardScaler().fit_transform(X)[:1000]
            scores = {
                m: silhouette_score(
                    scaled, KMeans(m, n_init=3, random_state=seed).fit(scaled).labels_
                )
                for m in range(2, 21)
            }
            row["silhouette"] += f" {max(scores, key=lambda m: scores[m])}"
    return list(rows.values())


def evaluate_with_noise(args: Any) -> list[Row]:
    """Return the mean scores of clusters in two inputs with six more inputs of noise."""
    rows: list[Row] = []
    kinds = [name for name, (X, _) in made_up_clusters(0, 100).items() if X.shape[1] == 2]
    for n_rows in (300,) if args.quick else (500, 5000):
        for name in kinds:
            scores: dict[str, list[float]] = {}
            for seed in range(args.repeats):
                X, y = made_up_clusters(seed, n_rows)[name]
                noise = stream(seed, "noise").standard_normal((n_rows, 6))
                table = StandardScaler().fit_transform(np.hstack([X, noise]))
                known = methods(len(np.unique(y)), seed, args.jobs)
                models = {
                    "spectral": known["spectral"],
                    "spectral, min_correlation=0": clone(known["spectral"]).set_params(
                        min_correlation=0
                    ),
                    "k-means": known["k-means"],
                    "scikit-learn spectral": known["scikit-learn spectral"],
                }
                for method, model in models.items():
                    labels = model.fit(table).labels_
                    score = float(normalized_mutual_info_score(y, labels))
                    scores.setdefault(method, []).append(score)
            means = {method: float(np.mean(values)) for method, values in scores.items()}
            rows.append({"clusters": name, "rows": n_rows, **means})
            print_progress(str(rows[-1]))
    return rows


def time_fits(args: Any) -> list[Row]:
    """Return the seconds of fits to blobs; each size is four times the one before."""
    max_rows = 4000 if args.quick else args.most_rows
    sizes = [max_rows // 4**k for k in (3, 2, 1, 0)]
    rows: list[Row] = []
    SpectralClustering(10, random_state=0, n_jobs=args.jobs).fit(np.eye(20))
    for n in sizes:
        X, _ = make_blobs(n, 10, centers=10, random_state=0)
        row: Row = {"rows": n}
        started = perf_counter()
        SpectralClustering(10, random_state=0, n_jobs=args.jobs).fit(X)
        row["spectral s"] = perf_counter() - started
        rows.append(row)
        print_progress(str(row))
    slopes = {key: log_slope(sizes, [row[key] for row in rows]) for key in rows[0] if key != "rows"}
    return [*rows, {"rows": "slope", **slopes}]


def main() -> None:
    parser = options(__doc__, repeats=3)
    parser.add_argument("--rows", type=int, default=20_000, help="of a table at most")
    parser.add_argument("--neighbour-rows", type=int, default=5000, help="for scikit-learn's graph")
    parser.add_argument("--most-rows", type=int, default=1_000_000, help="of blobs")
    parser.add_argument("--large", action="store_true", help=f"{LARGE_SET} as well")
    parser.add_argument("--sets", nargs="*", default=list(SETS), help="tables")
    parser.add_argument("--no-count", action="store_true", help="leave out numbers of clusters")
    parser.add_argument("--no-noise", action="store_true", help="leave out inputs of noise")
    parser.add_argument("--no-time", action="store_true", help="leave out the blobs")
    args = parse(parser)
    report = Report(args)
    rows = []
    if not args.no_count:
        report.add("numbers of clusters", count_clusters(args))
    if not args.no_noise:
        report.add("NMI with six more inputs of noise", evaluate_with_noise(args))
    for name in [*args.sets, *([LARGE_SET] if args.large else [])]:
        rows += evaluate_table(name, args)
    if rows:
        report.add("clusters and classes", rows)
        title = "tables on which a method is within 1 % of the best"
        report.add(title, count_near_best(rows))
    if not args.no_time:
        report.add("time of blobs", time_fits(args))
    report.close()


if __name__ == "__main__":
    main()
