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

    def __init__(self, chosen: argparse.Namespace) -> None:
        rng, self.half = np.random.default_rng(0), chosen.rows // 2
        self.codes = rng.integers(1, chosen.bins + 1, (chosen.grids, chosen.rows), np.uint16)
        self.offsets = chosen.bins * np.arange(chosen.grids + 1)
        self.order = rng.permutation(chosen.grids)
        self.derivatives = np.ones((chosen.rows, 4), np.float32)
        self.derivatives[:, :2] = rng.normal(size=(chosen.rows, 2))
        self.weights = np.zeros((chosen.bins * chosen.grids, 2, 2), np.float32)
        self.changes = np.zeros((chosen.rows, 4), np.float32)
        self.scratch = [np.empty(k * chosen.bins, np.float32) for k in (4, 8)]

    def backfit(self) -> None:
        grids = self.codes, self.offsets, self.order, self.half, np.full(2, RIDGE)
        backfit(*grids, self.derivatives, self.weights, 0, self.changes, *self.scratch)

    def by_numpy(self) -> None:
        curvatures, slopes = np.ones(len(self.changes)), self.derivatives[:, 0].copy()
        for g in self.order:
            bins = slice(self.offsets[g], self.offsets[g + 1])
            code, weights = self.codes[g] - np.uint16(1), self.weights[bins, 0, 0]
            fitted = code[: self.half]
            slope = np.bincount(fitted, slopes[: self.half], len(weights))
            curvature = np.bincount(fitted, curvatures[: self.half], len(weights))
            steps = ((slope - RIDGE * weights) / (curvature + RIDGE)).astype(np.float32)
            weights += steps
            slopes -= curvatures * steps[code]


def all_cases(chosen: argparse.Namespace) -> list[Case]:
    units = chosen.rows * chosen.grids
    # Two codes, four changes that are read and written, and four derivatives.
    moved = (2 * 2.0 + 4.0 * (2 * 4 + 4)) * units
    return [
        Case("backfit", Models(chosen).backfit, "row", units, moved, peer=PEER),
        Case(PEER, Models(chosen).by_numpy, "row", units, (2 * 2.0 + 4.0 * 4) * units),
    ]


def main() -> None:
    chosen = options(__doc__, QUICK, rows=60_000, grids=64, bins=200, jobs=2)
    run(all_cases(chosen), chosen, {"memory": memory_bandwidth(chosen.jobs, chosen.quick)})


if __name__ == "__main__":
    main()
