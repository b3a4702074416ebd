"""Backfitting of grids: one pass over all weights of one model, for one output and for several.

A unit is a row in one grid, times the outputs. A pass reads the bin number of each row twice, once
to sum and once to predict, reads and writes slopes and raw predictions, and reads curvatures twice;
the sums and the weights of a grid's bins stay in the caches. The weights are fitted to half of the
rows. Where all outputs of a row have one curvature, it is read once a row. NumPy does the same for
one output: two ``bincount`` and a gather for each grid. In growth two models are fitted at once,
one in each of two threads; here one thread works.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from _timing import Case, memory_bandwidth, options, run

from gramless.loops import backfitting as loops

QUICK = {"rows": 3000, "grids": 8, "bins": 50, "outputs": 3}
RIDGE = np.float32(80.0)
PEER = "NumPy"


class Model:
    """Grids of random bins, and the state of a model over them."""

    def __init__(self, chosen: argparse.Namespace, n_outputs: int | None) -> None:
        rng = np.random.default_rng(0)
        self.codes = rng.integers(1, chosen.bins + 1, (chosen.grids, chosen.rows), np.uint16)
        self.offsets = chosen.bins * np.arange(chosen.grids + 1)
        self.order, self.half = rng.permutation(chosen.grids), chosen.rows // 2
        shape = () if n_outputs is None else (n_outputs,)
        self.slopes = rng.normal(size=(chosen.rows, *shape)).astype(np.float32)
        self.curvatures = np.ones((chosen.rows, *shape), np.float32)
        self.weights = np.zeros((chosen.bins * chosen.grids, *shape), np.float32)
        self.raw = np.zeros((chosen.rows, *shape), np.float32)
        self.sums = np.empty(2 * chosen.bins * (n_outputs or 1), np.float32)

    def pass_of(self, loop: Callable[..., None]) -> Callable[[], object]:
        arrays = self.slopes, self.curvatures, self.weights, self.raw, self.sums
        grids = self.codes, self.offsets, self.order
        return lambda: loop(*grids, 0, self.half, RIDGE, *arrays)

    def pass_alike(self) -> Callable[[], object]:
        curvatures, room = self.curvatures[:, 0].copy(), np.empty_like(self.sums)
        arrays = self.slopes, curvatures, self.weights, self.raw, self.sums, room
        grids = self.codes, self.offsets, self.order
        return lambda: loops.backfit_shared_curvature(*grids, 0, self.half, RIDGE, *arrays)

    def by_numpy(self) -> None:
        for g in self.order:
            code, own = self.codes[g] - np.uint16(1), slice(self.offsets[g], self.offsets[g + 1])
            fitted, n_bins = code[: self.half], len(self.weights[own])
            slopes = np.bincount(fitted, self.slopes[: self.half], n_bins)
            curvatures = np.bincount(fitted, self.curvatures[: self.half], n_bins)
            step = (slopes - RIDGE * self.weights[own]) / (curvatures + RIDGE)
            step = step.astype(np.float32)
            self.weights[own] += step
            moved = step[code]
            self.slopes -= self.curvatures * moved
            self.raw += moved


def all_cases(chosen: argparse.Namespace) -> list[Case]:
    units = chosen.rows * chosen.grids

    def moved(k: int) -> float:
        # Sums read slopes and curvatures of half the rows; predictions read and write the rest.
        return (3.0 + 4.0 * k * (1.0 + 5.0)) * units

    cases = [
        Case(
            "backfit", Model(chosen, None).pass_of(loops.backfit), "row", units, moved(1), peer=PEER
        ),
        Case(PEER, Model(chosen, None).by_numpy, "row", units, moved(1)),
    ]
    for k in (1, chosen.outputs):
        name = f"backfit_outputs, {k} output{'s' * (k > 1)}"
        run_pass = Model(chosen, k).pass_of(loops.backfit_outputs)
        cases.append(Case(name, run_pass, "row", units * k, moved(k)))
    wide = -(-chosen.outputs // 4) * 4
    name = f"backfit_shared_curvature, {wide} outputs"
    cases.append(Case(name, Model(chosen, wide).pass_alike(), "row", units * wide, moved(wide)))
    return cases


def main() -> None:
    chosen = options(__doc__, QUICK, rows=60_000, grids=64, bins=200, outputs=3, jobs=2)
    run(all_cases(chosen), chosen, {"memory": memory_bandwidth(chosen.jobs, chosen.quick)})


if __name__ == "__main__":
    main()
