"""Check that bins are exact and that their inner product estimates the kernel without bias.

First, bins are compared with a brute-force reference, which computes every cell ``floor((x - shift)
/ width)`` by division in float64 and puts rows into one bin if all their cells agree. Both sides
are numbered by first appearance. All training rows of every data set in the folder are compared: as
dense float32, as bytes if the values are bytes, and as CSR if the set is sparse.

Second, ``z(x)'z(y)`` is compared with the exact kernel on pairs in one dimension: the largest
deviation in standard errors, and the exponent at which the error falls with the number of grids.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import _repository  # noqa: F401
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import norm

from benchmarks.common import (
    Report,
    Row,
    binned_map,
    load_sets,
    log_slope,
    options,
    parse,
    print_progress,
)
from gramless import RandomBinning
from gramless.kernels import (
    BinningKernel,
    ExponentialPower,
    Hat,
    InversePower,
    Laplacian,
    Mixture,
    Profile,
    TabulatedProfile,
)
from harness.data_sets import available

SHARES = (0.25, 1.0)
KERNELS: dict[str, BinningKernel] = {
    "laplacian": Laplacian(),
    "exponential power 0.5": ExponentialPower(0.5),
    "inverse power 1": InversePower(1.0),
    "hat": Hat(),
    "mixture": Mixture([Laplacian(), Hat()], weights=[1.0, 2.0], scales=[0.2, 3.0]),
    "profile 1/sqrt(1+t)": Profile(lambda t: 1.0 / np.sqrt(1.0 + t)),
    "tabulated profile": TabulatedProfile([0.0, 0.5, 1.0, 4.0], [1.0, 0.5, 0.25, 0.0]),
}
# In units of the bandwidth.
DISTANCES = (0.003, 0.01, 0.03, 0.1, 0.3, 0.7, 1.5, 3.0)
KERNEL_BANDWIDTH = 0.7
GRIDS_AT_ONCE = 4096
_MANY_CELLS = 2**20
_LARGEST_KEY = 2**62


def first_appearance(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Renumber labels from 0 in order of first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def brute_force_bins(
    X: NDArray[Any], widths: NDArray[np.float64], shifts: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Number the bins of one grid by combining the exact cells column by column."""
    keys, n_keys = np.zeros(len(X), np.int64), 1
    for j, (width, shift) in enumerate(zip(widths, shifts, strict=True)):
        cells = np.floor((X[:, j].astype(np.float64) - shift) / width)
        lowest, highest = cells.min(), cells.max()
        if lowest == highest:
            continue
        if highest - lowest < _MANY_CELLS:
            numbers, n_numbers = (cells - lowest).astype(np.int64), int(highest - lowest) + 1
        else:
            values, numbers = np.unique(cells, return_inverse=True)
            n_numbers = len(values)
        if n_keys * n_numbers > _LARGEST_KEY:
            used, keys = np.unique(keys, return_inverse=True)
            n_keys = len(used)
        keys = keys * n_numbers + numbers
        n_keys *= n_numbers
    return first_appearance(keys)


def forms_of(X: Any) -> Iterator[tuple[str, Any]]:
    """Yield the same rows in each input format."""
    if sp.issparse(X):
        yield "CSR", X
        yield "dense", np.asarray(X.toarray())
        return
    yield str(X.dtype), X
    as_bytes = X.astype(np.uint8)
    if np.array_equal(as_bytes, X):
        yield "uint8", as_bytes


def compare_bins(name: str, X: Any, share: float, n_grids: int, n_jobs: int | None) -> list[Row]:
    """Compare the bins of every input format with the reference, grid by grid."""
    maps = {}
    for form, rows in forms_of(X):
        feature_map = binned_map(X, n_grids, n_jobs, share)
        maps[form] = (feature_map, feature_map.fit_matrix(rows).codes)
    # A column at a time is read below, so columns should be contiguous.
    dense = np.asfortranarray(X.toarray() if sp.issparse(X) else X)
    differing = dict.fromkeys(maps, 0)
    for r in range(n_grids):
        some_map = next(iter(maps.values()))[0]
        reference = brute_force_bins(dense, some_map.widths_[r], some_map.shifts_[r])
        for form, (_, codes) in maps.items():
            differing[form] += int(np.count_nonzero(first_appearance(codes[r]) != reference))
    return [
        {
            "data set": name,
            "given as": form,
            "rows": dense.shape[0],
            "columns": dense.shape[1],
            "bandwidth": share,
            "grids": n_grids,
            "bins a grid": float(maps[form][0].kappa_bar_),
            "rows x grids that differ": count,
            "identical": count == 0,
        }
        for form, count in differing.items()
    ]


def collisions(kernel: BinningKernel, n_grids: int, n_jobs: int | None) -> NDArray[np.bool_]:
    """Return whether each pair is in one bin, for each grid and distance."""
    origin = 3.7
    X = origin + KERNEL_BANDWIDTH * np.array([0.0, *DISTANCES])[:, None]
    parts = []
    # Many grids on few rows: a few thousand at once keep the bin tables small.
    for block in range(-(-n_grids // GRIDS_AT_ONCE)):
        feature_map = RandomBinning(
            kernel,
            bandwidth=KERNEL_BANDWIDTH,
            n_grids=min(GRIDS_AT_ONCE, n_grids - block * GRIDS_AT_ONCE),
            random_state=block,
            n_jobs=n_jobs,
        )
        codes = feature_map.fit_matrix(X).codes
        parts.append(codes[:, 1:] == codes[:, :1])
    return np.concatenate(parts)


def compare_kernel(name: str, kernel: BinningKernel, n_grids: int, n_jobs: int | None) -> Row:
    """Compare the estimates with the exact kernel at all distances."""
    hits = collisions(kernel, n_grids, n_jobs)
    distances = np.array(DISTANCES)
    exact = kernel.gram([[0.0]], distances[:, None])[0]
    error = hits.mean(axis=0) - exact
    deviation = np.sqrt(exact * (1.0 - exact) / n_grids)
    # If the kernel is 0, no pair may share a bin: any error is an infinite number of deviations.
    scores = np.divide(error, deviation, out=np.where(error == 0, 0.0, np.inf), where=deviation > 0)
    counts = [R for R in (16, 64, 256, 1024, 4096) if n_grids >= 8 * R]
    rms = []
    for R in counts:
        groups = hits[: n_grids // R * R].reshape(-1, R, len(distances)).mean(axis=1)
        rms.append(float(np.sqrt(np.mean((groups - exact) ** 2))))
    return {
        "kernel": name,
        "grids": n_grids,
        "pairs": len(distances),
        "largest error": float(np.abs(error).max()),
        "largest |z|": float(np.abs(scores).max()),
        "error falls as R to the": log_slope(counts, rms),
    }


def bin_rows(args: argparse.Namespace) -> Iterator[Row]:
    names = args.sets or [info.name for info in available(args.data) if info.present]
    n_grids = 3 if args.quick else 16
    for data in load_sets(names, args):
        for share in SHARES:
            print_progress(f"{data.name}, bandwidth {share}")
            yield from compare_bins(data.name, data.X_train, share, n_grids, args.jobs)


def main() -> None:
    parser = options(__doc__, repeats=1)
    parser.add_argument("--sets", nargs="*", help="by default every one in the folder")
    args = parse(parser)
    report = Report(args)
    rows = list(bin_rows(args))
    report.add("Bins against a brute-force twin in float64", rows)
    n_grids = 2048 if args.quick else 100_000
    kernel_rows = [compare_kernel(name, k, n_grids, args.jobs) for name, k in KERNELS.items()]
    report.add("z(x)'z(y) against the exact kernel", kernel_rows)
    n_pairs = len(DISTANCES) * len(KERNELS)
    summary = {
        "all bins identical": all(row["identical"] for row in rows),
        "worst |z|": max(row["largest |z|"] for row in kernel_rows),
        f"|z| of {n_pairs} pairs exceeds it in 1 % of runs": float(norm.isf(0.005 / n_pairs)),
    }
    report.add("Summary", [summary])
    report.close()


if __name__ == "__main__":
    main()
