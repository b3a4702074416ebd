"""The fast Walsh-Hadamard transform and projections by it, against NumPy and BLAS.

A unit is a number of a row, or a frequency of a row. NumPy transforms all rows at once, a stage of
additions and subtractions at a time. The projections of a block are compared with a product with
the same number of stored frequencies. All runs in one thread, in float32.
"""

from __future__ import annotations

import argparse
from functools import partial
from math import log2

import numpy as np
from _timing import Case, memory_bandwidth, options, run
from numpy.typing import NDArray

from gramless.base.threads import one_blas_thread
from gramless.features.fourier import HadamardBlocks
from gramless.kernels import Gaussian
from gramless.loops import hadamard

QUICK = {"rows": 8, "inputs": 64}
# Numbers of inputs in addition to ``--inputs``.
WIDTHS = (64, 256)


def by_numpy(rows: NDArray[np.float32]) -> None:
    n, width = rows.shape
    for stage in range(int(log2(width))):
        parts = rows.reshape(n, -1, 2, 1 << stage)
        first, second = parts[:, :, 0], parts[:, :, 1]
        total = first + second
        np.subtract(first, second, out=second)
        first[...] = total


def make_cases(n_rows: int, width: int) -> list[Case]:
    rng, units = np.random.default_rng(0), n_rows * width
    # Zeros, because other numbers would grow with each transform.
    zeros = np.zeros((n_rows, width), np.float32)
    rows = rng.normal(size=(n_rows, width)).astype(np.float32)
    blocks = HadamardBlocks.draw(Gaussian(), 0, width, width)
    weights = np.ascontiguousarray(blocks.frequencies(width).T, np.float32)
    starts, out = np.zeros(blocks.chunk_size, np.float32), np.empty_like(rows)
    sums = np.empty((n_rows, blocks.chunk_size), np.float32)
    project = partial(blocks.astype(np.float32).project, rows, 0, starts, sums)
    moved = 8.0 * units
    numpy_name, blas_name = f"numpy transform {width}", f"BLAS {width} inputs"
    return [
        Case(numpy_name, partial(by_numpy, zeros), "number", units, moved),
        Case(
            f"transform {width}",
            partial(hadamard.transform, zeros),
            *("number", units, moved),
            peer=numpy_name,
        ),
        Case(blas_name, partial(np.matmul, rows, weights, out), "frequency", units, moved),
        Case(f"project_blocks {width} inputs", project, "frequency", units, moved, peer=blas_name),
    ]


def all_cases(args: argparse.Namespace) -> list[Case]:
    widths = sorted({*WIDTHS, args.inputs})
    return [case for width in widths for case in make_cases(args.rows, width)]


def main() -> None:
    args = options(__doc__, QUICK, rows=96, inputs=1024)
    with one_blas_thread():
        run(all_cases(args), args, {"memory": memory_bandwidth(1, args.quick)})


if __name__ == "__main__":
    main()
