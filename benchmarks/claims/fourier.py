"""Random Fourier features of rows, compared with scikit-learn's and with the matrix product alone.

scikit-learn's ``RBFSampler`` gets float32 rows, the same bandwidth and as many columns. Its product
uses all BLAS threads, and its other steps one. Both write a new array each time. Each is called
once right before it is timed, because BLAS threads stay busy for a while after a product. Errors
are root mean squares over pairs of a sample of the rows, compared with the exact Gaussian kernel.

Blocks are features of 1,024 rows at a time, written to one array in one thread. They are compared
with the product with the same number of frequencies, by BLAS in one thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from operator import call
from typing import Any

import _repository  # noqa: F401
import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import RBFSampler

from benchmarks.common import Report, Row, options, parse, print_progress
from gramless.base.memory import large_array_budget
from gramless.base.random import stream
from gramless.base.threads import one_blas_thread, row_blocks, thread_count
from gramless.features.fourier import RandomFourier
from gramless.kernels import Gaussian
from harness.timing import interleaved

BLOCK_ROWS = 1024
BLOCK_INPUTS = (20, 100, 784)
# Number of rows for the comparison with the exact kernel.
SAMPLE = 200
# Number of arrays as large as the features that must fit into memory at once.
_ARRAYS = 4


@dataclass(frozen=True)
class Case:
    """The size of a table of normal numbers, and the number of features."""

    n_rows: int
    n_inputs: int
    n_columns: int
    samplings: tuple[str, ...]

    def rows(self, quick: bool) -> NDArray[np.float32]:
        """Return the rows, or as many as fit into memory with their features."""
        max_rows = 2 * large_array_budget() // (4 * self.n_columns * _ARRAYS)
        n_rows = min(500 if quick else self.n_rows, max_rows)
        return stream(0, "rows").standard_normal((n_rows, self.n_inputs), dtype=np.float32)


CASES = (
    Case(100_000, 20, 1024, ("auto", "orthogonal")),
    Case(100_000, 784, 1024, ("auto", "iid")),
    Case(20_000, 784, 16_384, ("iid", "structured")),
)


def compare(case: Case, args: argparse.Namespace) -> Iterator[Row]:
    X, bandwidth = case.rows(args.quick), float(np.sqrt(2 * case.n_inputs))
    n_columns = 64 if args.quick else case.n_columns
    maps: dict[str, Any] = {
        sampling: RandomFourier(
            bandwidth=bandwidth,
            n_components=n_columns,
            sampling=sampling,
            random_state=0,
            n_jobs=args.jobs,
        ).fit(X)
        for sampling in case.samplings
    }
    gamma = 0.5 / bandwidth**2
    peer = RBFSampler(gamma=gamma, n_components=n_columns, random_state=0).fit(X)
    runs = {
        name: (lambda feature_map=feature_map: feature_map.transform(X))
        for name, feature_map in maps.items()
    }
    seconds = interleaved({**runs, "peer": lambda: peer.transform(X)}, args.repeats, before=call)
    for name, feature_map in maps.items():
        yield {
            "rows": len(X),
            "inputs": case.n_inputs,
            "columns": n_columns,
            "sampling": f"{name} ({feature_map.sampling_})" if name == "auto" else name,
            "ours ms": 1e3 * seconds[name],
            "RBFSampler ms": 1e3 * seconds["peer"],
            "ours ns/number": 1e9 * seconds[name] / (len(X) * n_columns),
            "ratio": seconds["peer"] / seconds[name],
            "our error": kernel_error(feature_map, X[:SAMPLE], bandwidth),
            "its error": kernel_error(peer, X[:SAMPLE], bandwidth),
        }


def kernel_error(feature_map: Any, X: NDArray[np.float32], bandwidth: float) -> float:
    Z = feature_map.transform(X).astype(np.float64)
    errors = Z @ Z.T - Gaussian().gram(X, bandwidth=bandwidth)
    return float(np.sqrt(np.mean(errors[np.triu_indices(len(X), 1)] ** 2)))


def compare_blocks(n_inputs: int, args: argparse.Namespace) -> Row:
    n_rows, n_columns = (2000, 64) if args.quick else (50_000, 1024)
    X = stream(0, "rows").standard_normal((n_rows, n_inputs), dtype=np.float32)
    fourier = RandomFourier(
        bandwidth=10.0, n_components=n_columns, sampling="iid", random_state=0
    ).fit(X)
    weights = np.ascontiguousarray(fourier.frequencies_.T, np.float32)
    features = np.empty((BLOCK_ROWS, n_columns), np.float32)
    angles = np.empty((BLOCK_ROWS, n_columns // 2), np.float32)
    parts = row_blocks(n_rows, BLOCK_ROWS)

    def compute() -> None:
        for a, b in parts:
            fourier.compute(X[a:b], features[: b - a])

    def multiply() -> None:
        for a, b in parts:
            np.matmul(X[a:b], weights, out=angles[: b - a])

    with one_blas_thread():
        seconds = interleaved({"ours": compute, "product": multiply}, args.repeats, before=call)
    return {
        "rows": n_rows,
        "inputs": n_inputs,
        "columns": n_columns,
        "ours ms": 1e3 * seconds["ours"],
        "product ms": 1e3 * seconds["product"],
        "ratio": seconds["ours"] / seconds["product"],
    }


def main() -> None:
    args = parse(options(__doc__, repeats=9))
    report = Report(args)
    for case in CASES:
        print_progress(f"{case.n_rows:,} x {case.n_inputs}, {case.n_columns:,} columns")
        title = f"Features of {case.n_inputs} inputs, {case.n_columns:,} columns, "
        report.add(title + f"threads of ours: {thread_count(args.jobs)}", compare(case, args))
    report.add(
        "Blocks compared with the product alone", (compare_blocks(d, args) for d in BLOCK_INPUTS)
    )
    report.close()


if __name__ == "__main__":
    main()
