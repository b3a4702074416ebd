"""Responses of doubly stochastic training: blocks of features, computed at each use.

A unit is a row with one frequency: a projection, a cosine and a sine, and both times the weights of
K outputs, ``2 d + 4 K`` additions and multiplications. The limit is the rate of BLAS with large
square float32 matrices on as many threads, in additions and multiplications per second; cosines and
sines count as no work. ``matrix products`` are the same products by BLAS: of rows with frequencies,
and of stored features with weights. ``numpy`` computes ``cos`` and ``sin`` of ``X @ W.T`` times
weights, block by block, with as many threads for BLAS: in float32 like ours, and in float64,
NumPy's default.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _timing import Case, options, product_rate, run
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from gramless.kernels import Gaussian
from gramless.streaming.feature_blocks import CpuProducts, FrequencyBlocks

QUICK = {"rows": 200, "frequencies": 32, "blocks": 3, "jobs": 1, "square": 64}
INPUTS, OUTPUTS = (20, 100), (1, 10)

BLAS = ThreadpoolController()


class Setting:
    """Rows, frequencies and weights for a number of inputs and of outputs."""

    def __init__(self, args: argparse.Namespace, n_inputs: int, n_outputs: int) -> None:
        self.jobs, self.n_blocks = args.jobs, args.blocks
        self.blocks = FrequencyBlocks(Gaussian(), 0, args.frequencies, n_inputs)
        self.products = CpuProducts(
            self.blocks, np.zeros(n_inputs), np.ones(n_inputs), 1 << 30, args.jobs
        )
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(args.rows, n_inputs)).astype(np.float32)
        self.rows = self.products.prepare(self.X)
        groups = -(-args.blocks // self.blocks.group_blocks)
        shape = groups, self.blocks.group_columns, n_outputs
        self.weights = list(rng.normal(size=shape).astype(np.float32))
        size = 2 * args.frequencies
        joined = np.concatenate(self.weights)
        self.by_block = [joined[k * size : (k + 1) * size] for k in range(args.blocks)]
        self.frequencies = [self.blocks.draw(k).T.copy() for k in range(args.blocks)]
        self.features = rng.normal(size=(args.rows, size)).astype(np.float32)
        self.typed = {char: self.arrays(char) for char in "fd"}

    def arrays(self, char: str) -> tuple[NDArray[Any], list[tuple[NDArray[Any], NDArray[Any]]]]:
        """Return rows, and the frequencies and weights of each block, in a precision."""
        by_block = zip(self.frequencies, self.by_block, strict=True)
        return self.X.astype(char), [(f.astype(char), w.astype(char)) for f, w in by_block]

    def ours(self) -> NDArray[np.float64]:
        return self.products.responses(self.rows, self.weights, self.n_blocks)

    def matrix_products(self) -> None:
        X, by_block = self.typed["f"]
        with BLAS.limit(limits=self.jobs, user_api="blas"):
            for frequencies, weights in by_block:
                X @ frequencies
                self.features @ weights

    def by_numpy(self, char: str) -> NDArray[Any]:
        X, by_block = self.typed[char]
        total = np.zeros((len(X), by_block[0][1].shape[1]), char)
        scale = X.dtype.type(1.0 / np.sqrt(self.blocks.size))
        with BLAS.limit(limits=self.jobs, user_api="blas"):
            for frequencies, weights in by_block:
                angles = X @ frequencies
                total += np.cos(angles) @ weights[0::2]
                total += np.sin(angles, out=angles) @ weights[1::2]
        return scale * total


def make_cases(args: argparse.Namespace, n_inputs: int, n_outputs: int) -> list[Case]:
    setting = Setting(args, n_inputs, n_outputs)
    expected = setting.by_numpy("d")
    np.testing.assert_allclose(setting.ours(), expected, atol=1e-4 * args.blocks)
    units = float(args.rows * args.frequencies * args.blocks)
    moved = 4.0 * (n_inputs + 2 * n_outputs) * args.frequencies * args.blocks
    label = f"{n_inputs} inputs, {n_outputs} output{'s' * (n_outputs > 1)}"

    def case(name: str, call: Callable[[], object], peer: str | None = None) -> Case:
        peer_with_label = f"{peer}, {label}" if peer else None
        work = (2.0 * n_inputs + 4.0 * n_outputs) * units
        return Case(
            f"{name}, {label}", call, "row x frequency", units, moved, "BLAS", work, peer_with_label
        )

    return [
        case("numpy float64", partial(setting.by_numpy, "d")),
        case("numpy float32", partial(setting.by_numpy, "f")),
        case("matrix products", setting.matrix_products),
        case("responses against float64", setting.ours, "numpy float64"),
        case("responses against float32", setting.ours, "numpy float32"),
        case("responses against products", setting.ours, "matrix products"),
    ]


def main() -> None:
    args = options(__doc__, QUICK, rows=4096, frequencies=256, blocks=32, jobs=2, square=2000)
    cases = [case for d in INPUTS for k in OUTPUTS for case in make_cases(args, d, k)]
    run(cases, args, {"BLAS": 2.0 * product_rate(np.float32, args.square, args.jobs)})


if __name__ == "__main__":
    main()
