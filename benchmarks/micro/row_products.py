"""Rows of float32 times a few vectors, in one thread, compared with BLAS.

The rows are those of the Gram matrix of a small table. A unit is a number times a vector.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from _timing import Case, memory_bandwidth, options, run

from gramless.base.threads import one_blas_thread
from gramless.loops.dense import responses_to_few

QUICK = {"rows": 100}
VECTORS = (3, 6, 10, 12, 16)
BLOCK_ROWS = 256


def by_loop(rows: np.ndarray, vectors: np.ndarray, out: np.ndarray) -> None:
    for first in range(0, len(rows), BLOCK_ROWS):
        block = slice(first, first + BLOCK_ROWS)
        responses_to_few(rows[block], vectors, out[block])


def make_cases(n_rows: int, n_vectors: int) -> list[Case]:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_rows, n_rows)).astype(np.float32)
    v = rng.normal(size=(n_rows, n_vectors)).astype(np.float32)
    filled = np.zeros((-(-n_vectors // 3) * 3, n_rows), np.float32)
    filled[:n_vectors] = v.T
    out = np.empty((n_rows, len(filled)))
    units, blas = float(n_vectors * rows.size), f"BLAS, {n_vectors} vectors"
    run_loop = partial(by_loop, rows, filled, out)
    return [
        Case(blas, partial(np.matmul, rows, v), "product", units, float(rows.nbytes)),
        Case(f"{n_vectors} vectors", run_loop, "product", units, float(rows.nbytes), peer=blas),
    ]


def all_cases(args: argparse.Namespace) -> list[Case]:
    return [case for k in VECTORS for case in make_cases(args.rows, k)]


def main() -> None:
    args = options(__doc__, QUICK, rows=1600)
    with one_blas_thread():
        run(all_cases(args), args, {"memory": memory_bandwidth(1, args.quick)})


if __name__ == "__main__":
    main()
