"""Steps along random coordinates, by the number of non-zeros that they touch.

A unit is a non-zero of a drawn column. Its value and its row index must be read, 12 bytes, and once
more if the step is not zero. Columns are drawn at random, so that the time is bound by the latency
of memory and not by its bandwidth. ``shared_steps`` adds atomically and runs in one thread here;
its difference to ``simultaneous_steps`` is the cost of atomic additions. The peer is SciPy's
product with all columns, which reads the same numbers in order.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse as sp
from _timing import Case, memory_bandwidth, options, run

from gramless.loops import coordinate_descent as loops

QUICK = {"rows": 500, "grids": 4, "bins": 20}
LOSSES = {"squared": (loops.SQUARED, 0.0, 0.0), "logistic": (loops.LOGISTIC, 0.0, 0.0)}
NEVER_ZERO, OFTEN_ZERO = 0.0, 1e-3
AT_ONCE = (1, 64)
BYTES = 12


def draw_columns(args: argparse.Namespace) -> sp.csc_array:
    """Draw a matrix of bins, all of about the same size."""
    rng = np.random.default_rng(0)
    codes = rng.integers(args.bins, size=(args.rows, args.grids))
    indices = (codes + args.bins * np.arange(args.grids)).ravel().astype(np.int32)
    indptr = np.arange(args.rows + 1, dtype=np.int32) * np.int32(args.grids)
    values = np.full(len(indices), 1.0 / np.sqrt(args.grids))
    shape = (args.rows, args.grids * args.bins)
    return sp.csr_array((values, indices, indptr), shape=shape).tocsc()


class Descent:
    """The state of a run; every call starts from zero, so that calls do the same work."""

    def __init__(self, matrix: sp.csc_array, loss: tuple[int, float, float], l1: float) -> None:
        rng = np.random.default_rng(1)
        self.n_rows, self.n_columns = matrix.shape
        self.stored = (matrix.indptr, matrix.indices, matrix.data)
        self.row_weights = np.full(self.n_rows, 1.0 / self.n_rows)
        self.targets = np.sign(rng.normal(size=self.n_rows))
        self.curvatures = matrix.power(2).T @ self.row_weights
        self.loss, self.penalty = loss, (l1, 0.0, self.n_columns)
        self.drawn = rng.integers(self.n_columns, size=self.n_columns)
        self.uniforms = rng.random(self.n_columns)

    def arguments(self) -> tuple:
        return (
            self.stored,
            self.row_weights,
            self.targets,
            np.zeros(self.n_rows),
            self.curvatures,
            self.loss,
            self.penalty,
            np.zeros(self.n_columns),
        )

    def simultaneous(self, n_simultaneous: int) -> None:
        n_steps = self.n_columns // n_simultaneous
        uniforms = self.uniforms[: n_steps * n_simultaneous].reshape(n_steps, n_simultaneous)
        loops.simultaneous_steps(uniforms, np.arange(self.n_columns), *self.arguments())

    def shared(self) -> None:
        loops.shared_steps(self.drawn, *self.arguments())


def all_cases(matrix: sp.csc_array) -> list[Case]:
    """Return both loops for two losses, with penalties so that all or few steps move a weight."""
    v, peer = np.ones(matrix.shape[0]), "scipy Z.T @ v"
    transposed = matrix.T
    cases: list[Case] = []

    def add(name: str, call: Callable[[], object]) -> None:
        against = peer if cases else None
        cases.append(Case(name, call, "non-zero", matrix.nnz, BYTES * matrix.nnz, peer=against))

    add(peer, lambda: transposed @ v)
    for loss, coded in LOSSES.items():
        for l1, label in ((NEVER_ZERO, "all move"), (OFTEN_ZERO, "few move")):
            descent = Descent(matrix, coded, l1)
            for tau in AT_ONCE:
                name = f"simultaneous_steps {loss}, {label}, {tau} at once"
                add(name, partial(descent.simultaneous, tau))
            add(f"shared_steps {loss}, {label}", descent.shared)
    return cases


def main() -> None:
    args = options(__doc__, QUICK, rows=20_000, grids=64, bins=900)
    run(all_cases(draw_columns(args)), args, {"memory": memory_bandwidth(1, args.quick)})


if __name__ == "__main__":
    main()
