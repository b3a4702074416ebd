"""Direct solutions and descent over columns: Gram matrices, their factors, and sweeps over them.

A unit of a Gram matrix or a factor is a multiplication with its addition, for one half of the
symmetric matrix. The limit is the rate of a large product of two matrices of that precision, by
BLAS, with as many threads. A unit of a sweep is an entry of the Gram matrix: if all weights move,
each is read once, and if none moves, only the diagonal. The peer of a Gram matrix is NumPy's ``Z.T
@ Z``, whose sums are float32 for float32 matrices; that of a sweep is NumPy's ``G @ w``.
"""

from __future__ import annotations

import argparse

import numpy as np
from _timing import Case, memory_bandwidth, options, product_rate, run

from gramless.base.threads import one_blas_thread
from gramless.loops import coordinate_descent as loops
from gramless.matrices.dense import DenseMatrix
from gramless.solvers.factor import factorise

QUICK = {"rows": 500, "columns": 40, "sweeps": 2}
_SQUARE, _QUICK_SQUARE = 2048, 128
NEVER_ZERO, ALWAYS_ZERO = 0.0, 1e9


def gram_cases(args: argparse.Namespace) -> list[Case]:
    """Return Gram matrices of float32 and float64, with and without row weights."""
    n, d, cases = args.rows, args.columns, []
    weights = np.full(n, 1.0 / n)
    for dtype in (np.float32, np.float64):
        name, size = np.dtype(dtype).name, np.dtype(dtype).itemsize
        array = np.random.default_rng(0).normal(size=(n, d)).astype(dtype)
        units, moved = n * d * (d + 1) / 2, size * n * d + 8 * d * d
        peer = f"numpy Z.T @ Z, {name}"

        def numpy_gram(array: np.ndarray = array) -> None:
            with one_blas_thread():
                array.T @ array

        limit = {"limit": f"{name} products, 1 thread", "work": units}
        cases.append(Case(peer, numpy_gram, "product", units, moved, **limit))
        for n_threads in sorted({1, args.jobs}):
            matrix = DenseMatrix(array, n_jobs=n_threads)
            threads = f"{n_threads} thread{'s' * (n_threads > 1)}"
            limit = {"limit": f"{name} products, {threads}", "work": units, "peer": peer}
            cases += [
                Case(label, call, "product", units, moved, **limit)
                for label, call in (
                    (f"column_gram, {name}, {threads}", matrix.column_gram),
                    (
                        f"column_gram, {name}, weights, {threads}",
                        lambda matrix=matrix: matrix.column_gram(weights),
                    ),
                )
            ]
    return cases


def factor_case(args: argparse.Namespace) -> Case:
    """Return the factorisation of a Gram matrix."""
    d = args.columns
    rows = np.random.default_rng(1).normal(size=(2 * d, d))
    gram, ridge = rows.T @ rows, np.ones(d)

    def factor() -> None:
        with one_blas_thread():
            factorise(gram, ridge)

    limit = {"limit": "float64 products, 1 thread", "work": d**3 / 6}
    return Case("factorised", factor, "product", d**3 / 6, 16 * d * d, **limit)


def sweep_cases(args: argparse.Namespace) -> list[Case]:
    """Return sweeps that move all weights, and sweeps that move none."""
    d, rng = args.columns, np.random.default_rng(2)
    rows = rng.normal(size=(2 * d, d))
    gram = rows.T @ rows / (2 * d)
    orders = rng.permuted(np.tile(np.arange(d), (args.sweeps, 1)), axis=1)
    gradient, units = rng.normal(size=d), float(args.sweeps * d * d)
    ones = np.ones(d)

    def sweep(l1: float) -> None:
        loops.sweep(gram, gradient.copy(), np.zeros(d), l1 * ones, ones, orders, -1.0)

    def numpy_products() -> None:
        with one_blas_thread():
            for _ in range(args.sweeps):
                gram @ ones

    peer = "numpy G @ w"
    return [
        Case(peer, numpy_products, "entry", units, 8 * units),
        Case("sweep, all move", lambda: sweep(NEVER_ZERO), "entry", units, 8 * units, peer=peer),
        Case("sweep, none moves", lambda: sweep(ALWAYS_ZERO), "entry", units, 8 * units / d),
    ]


def main() -> None:
    args = options(__doc__, QUICK, rows=50_000, columns=1024, sweeps=5, jobs=2)
    cases = [*gram_cases(args), factor_case(args), *sweep_cases(args)]
    limits = {"memory": memory_bandwidth(1, args.quick)}
    square = _QUICK_SQUARE if args.quick else _SQUARE
    for dtype in (np.float32, np.float64):
        for n_threads in sorted({1, args.jobs}):
            name = f"{np.dtype(dtype).name} products, {n_threads} thread{'s' * (n_threads > 1)}"
            limits[name] = product_rate(dtype, square, n_threads)
    run(cases, args, limits)


if __name__ == "__main__":
    main()
