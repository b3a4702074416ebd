"""RB16's coordinate descent across machines, beside conjugate gradients across rows.

Section 4 of the paper has threads that share one array of responses. Between machines the like is
this: a worker owns some of the grids, with the bins of all rows in these. In a round it passes once
over its grids and solves for the weights of each; the changes of the responses of all workers are
summed, with the best common length, and sent to everyone. What travels are responses, a number a
row. With conjugate gradients a worker owns rows instead, and what travels are weights, a number a
column. ``python -m studies.rb16.across_machines`` measures rounds and seconds to the same gap.
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

GAP, MOST_ROUNDS = 1e-3, 400
N_INPUTS, N_GRIDS, ALPHA = 10, 64, 1e-5
BANDWIDTHS = (2.0, 0.5)
"""Few columns, and more columns than rows."""
NUMBER = 4
"""Bytes of a number on its way."""
MACHINES, ROWS_THERE, BYTES_A_SECOND = 100, 10**9, 1.25e9


@dataclass
class Grids:
    """The grids of a worker: a matrix of each, its counts, and its weights."""

    parts: list[BinnedMatrix]
    counts: list[FloatArray]

    @classmethod
    def of(cls, X: NDArray[Any], bandwidth: float, first: int, last: int) -> Grids:
        """Bin all rows in some of the grids."""
        matrix = bins(X, bandwidth)
        own = matrix.offsets[first : last + 1] - matrix.offsets[first]
        few = BinnedMatrix(matrix.codes[first:last], own, scale=matrix.scale, has_unseen=False)
        parts = [block.matrix for block in few.blocks()]
        return cls(parts, [part.gram_diagonal() for part in parts])  # type: ignore[arg-type]


def bins(X: NDArray[Any], bandwidth: float) -> BinnedMatrix:
    """Return the bins of all rows in all grids."""
    grids = RandomBinning(bandwidth=bandwidth, n_grids=N_GRIDS, random_state=0, n_jobs=1)
    matrix = grids.fit_matrix(X, None)
    assert isinstance(matrix, BinnedMatrix)
    return matrix


def passed(
    grids: Grids, weights: list[FloatArray], residual: NDArray[np.float32]
) -> tuple[list[FloatArray], NDArray[np.float32], float, float]:
    """Pass once over some grids, given what the weights of all leave of the targets.

    Returns the steps, how they change the responses, and their inner products with the weights and
    with themselves.
    """
    n_rows, left, steps = len(residual), residual.astype(float), []
    for part, counts, own in zip(grids.parts, grids.counts, weights, strict=True):
        pull = part.rmatvec(left) / n_rows - ALPHA * own
        steps.append(pull / (counts / n_rows + ALPHA))
        left -= part.matvec(steps[-1])
    with_weights = sum(float(a @ b) for a, b in zip(weights, steps, strict=True))
    squares = sum(float(a @ a) for a in steps)
    return steps, (residual - left).astype(np.float32), with_weights, squares


def added(weights: list[FloatArray], steps: list[FloatArray], length: float) -> list[FloatArray]:
    """Return weights after steps of a length."""
    return [own + length * step for own, step in zip(weights, steps, strict=True)]


def descend(
    client: Client, X: Any, y: FloatArray, bandwidth: float, least: float
) -> tuple[int, float]:
    """Return rounds and seconds until the objective is within a gap of the least."""
    workers = sorted(client.nthreads())
    shared = client.scatter(X, broadcast=True)
    runs = row_blocks(N_GRIDS, -(-N_GRIDS // len(workers)))
    owned = {
        worker: client.submit(Grids.of, shared, bandwidth, a, b, workers=[worker], pure=False)
        for worker, (a, b) in zip(workers, runs, strict=True)
    }
    weights = {
        worker: client.submit(zeros, own, workers=[worker], pure=False)
        for worker, own in owned.items()
    }
    client.gather(list(weights.values()))
    residual, squares_of_weights = y.astype(np.float32), 0.0
    begun = perf_counter()
    n_rounds = 0
    while n_rounds < MOST_ROUNDS:
        n_rounds += 1
        found = {
            worker: client.submit(
                passed, own, weights[worker], residual, workers=[worker], pure=False
            )
            for worker, own in owned.items()
        }
        told = client.gather([client.submit(_told, own, pure=False) for own in found.values()])
        change = np.sum([own[0] for own in told], axis=0, dtype=float)
        with_weights, squares = (sum(own[k] for own in told) for k in (1, 2))
        slope = residual @ change / len(y) - ALPHA * with_weights
        curvature = change @ change / len(y) + ALPHA * squares
        length = slope / curvature
        residual = (residual - length * change).astype(np.float32)
        squares_of_weights += 2 * length * with_weights + length**2 * squares
        weights = {
            worker: _moved(client, worker, weights[worker], found[worker], length)
            for worker in owned
        }
        objective = 0.5 * np.mean(residual.astype(float) ** 2) + 0.5 * ALPHA * squares_of_weights
        if objective - least <= GAP * (0.5 * np.mean(y**2) - least):
            break
    return n_rounds, perf_counter() - begun


def zeros(grids: Grids) -> list[FloatArray]:
    """Return weights to start from."""
    return [np.zeros(part.shape[1]) for part in grids.parts]


def _told(found: tuple[Any, ...]) -> tuple[Any, ...]:
    return found[1:]


def _steps(found: tuple[Any, ...]) -> list[FloatArray]:
    steps: list[FloatArray] = found[0]
    return steps


def _moved(client: Client, worker: str, weights: Future, found: Future, length: float) -> Future:
    steps = client.submit(_steps, found, workers=[worker], pure=False)
    return client.submit(added, weights, steps, length, workers=[worker], pure=False)


def by_rows(matrix: BinnedMatrix, y: FloatArray) -> tuple[float, int]:
    """Return the least objective, and iterations of conjugate gradients to the gap."""
    problem = Problem(matrix, y, L2(ALPHA))
    solution = ConjugateGradient(tol=1e-7, n_jobs=1).solve(problem)
    objectives = [own["objective"] for own in solution.history]
    least, first = objectives[-1], objectives[0]
    near = [k for k, own in enumerate(objectives) if own - least <= GAP * (first - least)]
    return least, near[0]


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
        matrix = bins(X, bandwidth)
        n_columns, (least, n_iter) = matrix.shape[1], by_rows(matrix, y)
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
                n_rounds, seconds = descend(client, X, y, bandwidth, least)
            for way, rounds, length in (("grids", n_rounds, n_rows), ("rows", n_iter, n_columns)):
                each = 2 * NUMBER * length * n_workers / 1e6
                took = f"{seconds:.1f}" if way == "grids" else ""
                print(
                    f"| {n_columns:,} | {n_workers} | {way} | {rounds} | {each:.2f} | "
                    f"{each * rounds:.1f} | {took} |",
                    flush=True,
                )
        paper.append((n_columns, n_rounds, n_iter))
    print(f"\nOn paper, {MACHINES} machines, {ROWS_THERE:.0e} rows, 10 Gbit/s, the same columns:\n")
    print("| columns | GB a round and machine, grids | rows | s in all, grids | rows |")
    print("|--:|--:|--:|--:|--:|")
    for n_columns, n_rounds, n_iter in paper:
        grids, rows = 2 * NUMBER * ROWS_THERE / 1e9, 2 * NUMBER * n_columns / 1e9
        times = [own * 1e9 / BYTES_A_SECOND * k for own, k in ((grids, n_rounds), (rows, n_iter))]
        print(f"| {n_columns:,} | {grids:.1f} | {rows:.4f} | {times[0]:,.0f} | {times[1]:.3g} |")


if __name__ == "__main__":
    main()
