"""The vector operations of conjugate gradients, compared with NumPy and the memory bandwidth.

A unit is a column of the matrix, times the outputs. Bytes are those that must move at least once:
each array that is read, and again if it is written; arrays in the last-level cache can be faster
than memory. The arrays are divided into blocks as in the solver. NumPy computes the same on whole
arrays, with arrays for intermediate results, in one thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from _timing import Case, memory_bandwidth, options, run

from gramless.base.threads import map_blocks, row_blocks
from gramless.loops import conjugate as loops

QUICK = {"columns": 2000, "outputs": 3}
_BLOCK_NUMBERS = 1 << 16
# Steps this short do not let numbers grow over many calls.
_SMALL = 1e-9


class Vectors:
    """The vectors of a solver with some columns and outputs."""

    def __init__(self, n_columns: int, n_outputs: int, n_jobs: int) -> None:
        rng = np.random.default_rng(0)
        shape = (n_columns, n_outputs)
        self.direction, self.product, self.residual = rng.normal(size=(3, *shape))
        self.weights, self.scratch = np.zeros(shape), np.empty(shape)
        self.shares = np.full(shape, 1.0 / n_outputs)
        self.ridge = np.full(n_columns, _SMALL)
        self.inverse = rng.random(n_columns)
        self.length, self.ratio = np.full(n_outputs, _SMALL), np.full(n_outputs, 0.5)
        self.parts = row_blocks(n_columns, max(1, _BLOCK_NUMBERS // n_outputs))
        self.sums = np.zeros((len(self.parts), n_outputs))
        self.n_jobs = n_jobs

    def over_rows(self, function: Callable[..., None], *arrays: np.ndarray) -> np.ndarray:
        """Call a loop on blocks of rows, as the solver does."""
        calls = [
            (*(array[a:b] for array in arrays), self.sums[k]) for k, (a, b) in enumerate(self.parts)
        ]
        map_blocks(function, calls, self.n_jobs)
        return self.sums.sum(axis=0)

    def add_ridge(self) -> None:
        self.over_rows(loops.add_ridge, self.direction, self.ridge, self.product)

    def advance(self) -> None:
        arrays = (self.direction, self.product, self.inverse, self.weights, self.residual)
        self.over_rows(partial(loops.advance, self.length), *arrays)

    def redirect(self) -> None:
        self.over_rows(
            lambda residual, inverse, direction, _: loops.redirect(
                self.ratio, residual, inverse, direction
            ),
            self.residual,
            self.inverse,
            self.direction,
        )

    def add_multiple(self) -> None:
        self.over_rows(
            lambda other, target, _: loops.add_multiple(self.length, other, target),
            self.direction,
            self.weights,
        )

    def apply_softmax_curvature(self) -> None:
        self.over_rows(
            lambda row_weights, shares, responses, _: loops.apply_softmax_curvature(
                row_weights, shares, responses
            ),
            self.inverse,
            self.shares,
            self.product,
        )

    def numpy_add_ridge(self) -> None:
        np.multiply(self.direction, self.ridge[:, None], out=self.scratch)
        self.product += self.scratch
        np.einsum("dk,dk->k", self.direction, self.product)

    def numpy_advance(self) -> None:
        np.multiply(self.direction, self.length, out=self.scratch)
        self.weights += self.scratch
        np.multiply(self.product, self.length, out=self.scratch)
        self.residual -= self.scratch
        np.einsum("d,dk,dk->k", self.inverse, self.residual, self.residual)

    def numpy_redirect(self) -> None:
        self.direction *= self.ratio
        np.multiply(self.residual, self.inverse[:, None], out=self.scratch)
        self.direction += self.scratch

    def numpy_add_multiple(self) -> None:
        np.multiply(self.direction, self.length, out=self.scratch)
        self.weights += self.scratch

    def numpy_apply_softmax_curvature(self) -> None:
        self.product -= np.einsum("dk,dk->d", self.shares, self.product)[:, None]
        self.product *= self.shares
        self.product *= self.inverse[:, None]


def make_cases(n_columns: int, n_outputs: int, n_jobs: int) -> list[Case]:
    """Return the loops and NumPy's equivalents."""
    state = Vectors(n_columns, n_outputs, n_jobs)
    label = "" if n_outputs == 1 else f" K={n_outputs}"
    units = n_columns * n_outputs
    cases = []
    # Passes over arrays of n_columns x n_outputs, and over arrays of n_columns.
    passes = {
        "add_ridge": (3, 1),
        "advance": (6, 1),
        "redirect": (3, 1),
        "add_multiple": (3, 0),
        "apply_softmax_curvature": (3, 1),
    }
    for name, (wide, narrow) in passes.items():
        moved = 8 * (wide * units + narrow * n_columns)
        peer = f"numpy {name}{label}"
        numpy_run, our_run = getattr(state, f"numpy_{name}"), getattr(state, name)
        cases.append(Case(peer, numpy_run, "column x output", units, moved))
        cases.append(Case(f"{name}{label}", our_run, "column x output", units, moved, peer=peer))
    return cases


def all_cases(args: argparse.Namespace) -> list[Case]:
    """Make the cases with one output and with several."""
    return [
        case
        for n_outputs in dict.fromkeys((1, args.outputs))
        for case in make_cases(args.columns, n_outputs, args.jobs)
    ]


def main() -> None:
    args = options(__doc__, QUICK, columns=1_000_000, outputs=10, jobs=1)
    run(all_cases(args), args, {"memory": memory_bandwidth(args.jobs, args.quick)})


if __name__ == "__main__":
    main()
