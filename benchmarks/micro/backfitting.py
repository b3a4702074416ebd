"""Backfitting of grids: one pass over the weights of two models, each with two columns.

A unit is a row in one grid. The pass reads the bin numbers of each row twice: once to change the
predictions by the previous grid's steps, and once to sum the derivatives. It reads and writes the
changes of the predictions of both models, and reads the derivatives of one; the sums and the
weights of a grid's bins stay in the caches. Each model is fitted to half of the rows. NumPy does
the same for one column of one model: two ``bincount`` and a gather for each grid.
"""

from __future__ import annotations

import argparse

import numpy as np
from _timing import Case, memory_bandwidth, options, run

from gramless.loops.backfitting import backfit

QUICK = {"rows": 3000, "grids": 8, "bins": 50}
RIDGE = np.float32(80.0)
PEER = "NumPy"


class Models:
    """Grids of random bins, and the state of both models over them."""

    def __init__(self, args: argparse.Namespace) -> None:
        rng, self.half = np.random.default_rng(0), args.rows // 2
        self.codes = rng.integers(1, args.bins + 1, (args.grids, args.rows), np.uint16)
        self.offsets = args.bins * np.arange(args.grids + 1)
        self.order = rng.permutation(args.grids)
        self.derivatives = np.ones((args.rows, 4), np.float32)
        self.derivatives[:, :2] = rng.normal(size=(args.rows, 2))
        self.weights = np.zeros((args.bins * args.grids, 2, 2), np.float32)
        self.changes = np.zeros((args.rows, 4), np.float32)
        self.scratch = [np.empty(k * args.bins, np.float32) for k in (4, 8)]

    def backfit(self) -> None:
        grids = self.codes, self.offsets, self.order, self.half, np.full(2, RIDGE)
        backfit(*grids, self.derivatives, self.weights, 0, self.changes, *self.scratch)

    def by_numpy(self) -> None:
        curvatures, negative_gradient = np.ones(len(self.changes)), self.derivatives[:, 0].copy()
        for g in self.order:
            bins = slice(self.offsets[g], self.offsets[g + 1])
            code, weights = self.codes[g] - np.uint16(1), self.weights[bins, 0, 0]
            fitted = code[: self.half]
            gradient_sums = np.bincount(fitted, negative_gradient[: self.half], len(weights))
            curvature_sums = np.bincount(fitted, curvatures[: self.half], len(weights))
            steps = ((gradient_sums - RIDGE * weights) / (curvature_sums + RIDGE)).astype(
                np.float32
            )
            weights += steps
            negative_gradient -= curvatures * steps[code]


def all_cases(args: argparse.Namespace) -> list[Case]:
    units = args.rows * args.grids
    # Two codes, four changes that are read and written, and four derivatives.
    moved = (2 * 2.0 + 4.0 * (2 * 4 + 4)) * units
    return [
        Case("backfit", Models(args).backfit, "row", units, moved, peer=PEER),
        Case(PEER, Models(args).by_numpy, "row", units, (2 * 2.0 + 4.0 * 4) * units),
    ]


def main() -> None:
    args = options(__doc__, QUICK, rows=60_000, grids=64, bins=200, jobs=2)
    run(all_cases(args), args, {"memory": memory_bandwidth(args.jobs, args.quick)})


if __name__ == "__main__":
    main()
