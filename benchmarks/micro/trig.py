"""Projections, cosines and sines of Fourier features, against BLAS and NumPy.

A unit is a row with one frequency. Rows come in the tiles of ``RandomFourier``, whose projections
stay in the caches; all runs in one thread. The limit of projections is the rate of BLAS with large
square matrices of the same precision, in additions and multiplications per second; the other limit
is the memory bandwidth. ``numpy cos, sin`` computes both, ``numpy cos`` one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from _timing import Case, memory_bandwidth, options, product_rate, run
from numpy.typing import DTypeLike, NDArray

from gramless.base.threads import one_blas_thread
from gramless.features.fourier import Panels
from gramless.loops import trig

QUICK = {"rows": 12, "frequencies": 64, "inputs": 20, "square": 64}
# Standard deviation of the angles, several full circles.
ANGLES = 30.0
# Numbers of inputs in addition to ``--inputs``.
INPUTS = (5, 20)


class Tile:
    """Rows, frequencies and angles of one precision."""

    def __init__(self, args: argparse.Namespace, dtype: DTypeLike) -> None:
        self.rng, self.dtype = np.random.default_rng(0), np.dtype(dtype)
        self.shape = args.rows, args.frequencies
        self.angles = self.normal(*self.shape, scale=ANGLES)
        self.units = args.rows * args.frequencies

    def normal(self, *shape: int, scale: float = 1.0) -> NDArray:
        return (scale * self.rng.normal(size=shape)).astype(self.dtype)

    def turned(self, loop: Callable[..., None], columns: int) -> Callable[[], object]:
        out = np.empty((self.shape[0], columns * self.shape[1]), self.dtype)
        return partial(loop, self.angles, len(out), self.dtype.type(1.0), out, 0, 0)

    def numpy_turned(self, *functions: np.ufunc) -> Callable[[], object]:
        outs = [np.empty_like(self.angles) for _ in functions]
        return lambda: [f(self.angles, out=out) for f, out in zip(functions, outs, strict=True)]

    def projected(self, n_inputs: int) -> tuple[Callable[[], object], Callable[[], object]]:
        """Return the loop and BLAS."""
        rows, weights = self.normal(self.shape[0], n_inputs), self.normal(n_inputs, self.shape[1])
        panels = Panels.of(weights.T.astype(np.float64), self.dtype).panels
        starts = np.zeros(panels.shape[0] * panels.shape[2], self.dtype)
        sums = np.empty((len(rows), len(starts)), self.dtype)
        out = np.empty(self.shape, self.dtype)
        return partial(trig.project, rows, panels, starts, sums), partial(
            np.matmul, rows, weights, out
        )

    def scaled(self, n_inputs: int) -> tuple[Callable[[], object], Callable[[], object]]:
        """Return the loop and NumPy's equivalent; a unit is a number."""
        rows, scaled = self.normal(self.shape[0], n_inputs), self.normal(self.shape[0], n_inputs)
        center, inverse = self.rng.random((2, n_inputs))

        def by_numpy() -> None:
            np.clip((rows - center) * inverse, -1e9, 1e9, out=scaled, casting="same_kind")

        return partial(trig.scale_rows, rows, center, inverse, 1e9, scaled), by_numpy


def make_cases(tile: Tile, inputs: list[int]) -> list[Case]:
    size, label = tile.dtype.itemsize, tile.dtype.name
    cases = []
    for name, loop, functions in (
        ("write_cosines_and_sines", trig.write_cosines_and_sines, (np.cos, np.sin)),
        ("write_cosines", trig.write_cosines, (np.cos,)),
    ):
        moved = size * (1 + len(functions)) * tile.units
        peer = f"numpy {', '.join(f.__name__ for f in functions)} {label}"
        run_loop = tile.turned(loop, len(functions))
        cases.append(Case(peer, tile.numpy_turned(*functions), "angle", tile.units, moved))
        cases.append(Case(f"{name} {label}", run_loop, "angle", tile.units, moved, peer=peer))
    for d in inputs:
        run_loop, blas = tile.projected(d)
        moved, work = size * (tile.units + d * sum(tile.shape)), 2.0 * d * tile.units
        measured = ("row x frequency", tile.units, moved, f"BLAS {label}", work)
        cases.append(Case(f"BLAS {d} inputs {label}", blas, *measured))
        peer = f"BLAS {d} inputs {label}"
        cases.append(Case(f"project {d} inputs {label}", run_loop, *measured, peer=peer))
    run_loop, by_numpy = tile.scaled(inputs[-1])
    numbers = tile.shape[0] * inputs[-1]
    peer = f"numpy scaled {label}"
    cases.append(Case(peer, by_numpy, "number", numbers, 2.0 * size * numbers))
    cases.append(
        Case(f"scale_rows {label}", run_loop, "number", numbers, 2.0 * size * numbers, peer=peer)
    )
    return cases


def main() -> None:
    args = options(__doc__, QUICK, rows=96, frequencies=528, inputs=100, square=2000)
    inputs = sorted({*INPUTS, args.inputs})
    tiles = [Tile(args, dtype) for dtype in (np.float32, np.float64)]
    with one_blas_thread():
        limits = {f"BLAS {t.dtype.name}": 2.0 * product_rate(t.dtype, args.square) for t in tiles}
        limits["memory"] = memory_bandwidth(1, args.quick)
        run([case for tile in tiles for case in make_cases(tile, inputs)], args, limits)


if __name__ == "__main__":
    main()
