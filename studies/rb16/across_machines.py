"""RB16's coordinate descent on several machines, compared with conjugate gradients.

In section 4 of the paper, threads share one array of responses. On several machines, each worker
holds the bins of all rows in some of the grids. In each round it passes once over its grids and
solves for the weights of each. The changes of the responses of all workers are summed, scaled by
the best common step length, and sent to all workers. Workers exchange responses, one number per
row. With conjugate gradients, each worker holds some of the rows instead, and workers exchange
weights, one number per column.

``python -m studies.rb16.across_machines`` measures rounds and seconds to the same gap.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from distributed import Client, Future, LocalCluster
from numpy.typing import NDArray

from gramless import RandomBinning
from gramless.base.threads import row_blocks
from gramless.base.types import FloatArray
from gramless.matrices.binned import BinnedMatrix
from gramless.penalties import L2
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.objective import Problem
from harness.waves import make_regression_like

GAP, MAX_ROUNDS = 1e-3, 400
N_INPUTS, N_GRIDS, ALPHA = 10, 64, 1e-5
BANDWIDTHS = (2.0, 0.5)  # with few columns, and with more columns than rows
BYTES_PER_NUMBER = 4  # in messages
# The assumptions of the second table.
MACHINES, ROWS_THERE, BYTES_PER_SECOND = 100, 10**9, 1.25e9


@dataclass
class Grids:
    """The grids of a worker: the matrix of each, and the diagonal of its Gram matrix."""

    parts: list[BinnedMatrix]
    counts: list[FloatArray]

    @classmethod
    def of(cls, X: NDArray[Any], bandwidth: float, first: int, last: int) -> Grids:
        """Return the bins of all rows in the grids ``first`` to ``last - 1``."""
        matrix = bin_rows(X, bandwidth)
        offsets = matrix.offsets[first : last + 1] - matrix.offsets[first]
        codes = matrix.codes[first:last]
        part = BinnedMatrix(codes, offsets, scale=matrix.scale, has_unseen=False)
        parts = [block.matrix for block in part.blocks()]
        return cls(parts, [part.gram_diagonal() for part in parts])  # type: ignore[arg-type]


def bin_rows(X: NDArray[Any], bandwidth: float) -> BinnedMatrix:
    """Return the bins of all rows in all grids."""
    grids = RandomBinning(bandwidth=bandwidth, n_grids=N_GRIDS, random_state=0, n_jobs=1)
    matrix = grids.fit_matrix(X, None)
    assert isinstance(matrix, BinnedMatrix)
    return matrix


def pass_over_grids(
    grids: Grids, weights: list[FloatArray], residuals: NDArray[np.float32]
) -> tuple[list[FloatArray], NDArray[np.float32], float, float]:
    """Take one Newton step for each grid of a worker, one after the other.

    Returns the steps, the change of the responses, and the inner products of the steps with the
    weights and with themselves.
    """
    n_rows, remaining, steps = len(residuals), residuals.astype(float), []
    for part, counts, w in zip(grids.parts, grids.counts, weights, strict=True):
        negative_gradient = part.rmatvec(remaining) / n_rows - ALPHA * w
        steps.append(negative_gradient / (counts / n_rows + ALPHA))
        remaining -= part.matvec(steps[-1])
    with_weights = sum(float(a @ b) for a, b in zip(weights, steps, strict=True))
    squares = sum(float(a @ a) for a in steps)
    return steps, (residuals - remaining).astype(np.float32), with_weights, squares


def add_steps(
    weights: list[FloatArray], steps: list[FloatArray], length: float
) -> list[FloatArray]:
    return [w + length * step for w, step in zip(weights, steps, strict=True)]


def descend(
    client: Client, X: Any, y: FloatArray, bandwidth: float, minimum: float
) -> tuple[int, float]:
    """Return the rounds and seconds until the objective is within the gap of its minimum."""
    workers = sorted(client.nthreads())
    shared = client.scatter(X, broadcast=True)
    runs = row_blocks(N_GRIDS, -(-N_GRIDS // len(workers)))
    grids_of = {
        worker: client.submit(Grids.of, shared, bandwidth, a, b, workers=[worker], pure=False)
        for worker, (a, b) in zip(workers, runs, strict=True)
    }
    weights = {
        worker: client.submit(zero_weights, grids, workers=[worker], pure=False)
        for worker, grids in grids_of.items()
    }
    # Binning does not count as descent.
    client.gather(list(weights.values()))
    residuals, squared_weights = y.astype(np.float32), 0.0
    started = perf_counter()
    n_rounds = 0
    while n_rounds < MAX_ROUNDS:
        n_rounds += 1
        results = {
            worker: client.submit(
                pass_over_grids, grids, weights[worker], residuals, workers=[worker], pure=False
            )
            for worker, grids in grids_of.items()
        }
        messages = client.gather(
            [client.submit(_without_steps, result, pure=False) for result in results.values()]
        )
        change = np.sum([message[0] for message in messages], axis=0, dtype=float)
        with_weights, squares = (sum(message[k] for message in messages) for k in (1, 2))
        slope = residuals @ change / len(y) - ALPHA * with_weights
        curvature = change @ change / len(y) + ALPHA * squares
        length = slope / curvature
        residuals = (residuals - length * change).astype(np.float32)
        squared_weights += 2 * length * with_weights + length**2 * squares
        weights = {
            worker: _submit_update(client, worker, weights[worker], results[worker], length)
            for worker in grids_of
        }
        objective = 0.5 * np.mean(residuals.astype(float) ** 2) + 0.5 * ALPHA * squared_weights
        if objective - minimum <= GAP * (0.5 * np.mean(y**2) - minimum):
            break
    return n_rounds, perf_counter() - started


def zero_weights(grids: Grids) -> list[FloatArray]:
    return [np.zeros(part.shape[1]) for part in grids.parts]


def _without_steps(result: tuple[Any, ...]) -> tuple[Any, ...]:
    # The steps stay with their worker; only the rest is sent.
    return result[1:]


def _steps(result: tuple[Any, ...]) -> list[FloatArray]:
    steps: list[FloatArray] = result[0]
    return steps


def _submit_update(
    client: Client, worker: str, weights: Future, result: Future, length: float
) -> Future:
    steps = client.submit(_steps, result, workers=[worker], pure=False)
    return client.submit(add_steps, weights, steps, length, workers=[worker], pure=False)


def conjugate_gradients(matrix: BinnedMatrix, y: FloatArray) -> tuple[float, int]:
    """Return the minimal objective, and the iterations of conjugate gradients to the gap."""
    problem = Problem(matrix, y, L2(ALPHA))
    solution = ConjugateGradient(tol=1e-7, n_jobs=1).solve(problem)
    objectives = [record["objective"] for record in solution.history]
    minimum, first = objectives[-1], objectives[0]
    gap = GAP * (first - minimum)
    n_iter = next(k for k, objective in enumerate(objectives) if objective - minimum <= gap)
    return minimum, n_iter


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    n_rows = parser.parse_args().rows
    X, y = make_regression_like(n_rows, N_INPUTS, seed=0)
    y = (y - y.mean()) / y.std()
    print(f"{n_rows:,} rows, {N_GRIDS} grids, to {GAP:g} of the way from zero weights\n")
    print("| columns | workers | way | rounds | MB a round | MB in all | s |")
    print("|--:|--:|---|--:|--:|--:|--:|")
    paper = []
    for bandwidth in BANDWIDTHS:
        matrix = bin_rows(X, bandwidth)
        n_columns, (minimum, n_iter) = matrix.shape[1], conjugate_gradients(matrix, y)
        for n_workers in (2, 4):
            with (
                LocalCluster(
                    n_workers=n_workers,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                ) as cluster,
                Client(cluster) as client,
            ):
                n_rounds, seconds = descend(client, X, y, bandwidth, minimum)
            for way, rounds, length in (("grids", n_rounds, n_rows), ("rows", n_iter, n_columns)):
                megabytes = 2 * BYTES_PER_NUMBER * length * n_workers / 1e6
                time = f"{seconds:.1f}" if way == "grids" else ""
                print(
                    f"| {n_columns:,} | {n_workers} | {way} | {rounds} | {megabytes:.2f} | "
                    f"{megabytes * rounds:.1f} | {time} |",
                    flush=True,
                )
        paper.append((n_columns, n_rounds, n_iter))
    print(f"\nOn paper, {MACHINES} machines, {ROWS_THERE:.0e} rows, 10 Gbit/s, the same columns:\n")
    print("| columns | GB a round and machine, grids | rows | s in all, grids | rows |")
    print("|--:|--:|--:|--:|--:|")
    for n_columns, n_rounds, n_iter in paper:
        # A worker sends and receives each number.
        grids, rows = (2 * BYTES_PER_NUMBER * n / 1e9 for n in (ROWS_THERE, n_columns))
        times = [
            gigabytes * 1e9 / BYTES_PER_SECOND * n
            for gigabytes, n in ((grids, n_rounds), (rows, n_iter))
        ]
        print(f"| {n_columns:,} | {grids:.1f} | {rows:.4f} | {times[0]:,.0f} | {times[1]:.3g} |")


if __name__ == "__main__":
    main()
