"""Products with a matrix without zeros, against NumPy on the stored array.

A unit is a number of the matrix, times the columns of the operand; for Gram matrices a
multiplication, of which there are half as many as in a product of two different matrices. NumPy
multiplies float32 with float32, in ``--jobs`` threads; our matrices have float64 sums. Computed
matrices copy their rows from an array, the cheapest possible features, and store nothing: the
difference to the product is the cost of passing them through. The limit of Gram matrices is a
product of two square float32 arrays.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from _timing import Case, memory_bandwidth, options, product_rate, run
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gramless.matrices.dense import ChunkedMatrix, ComputedMatrix, DenseMatrix

QUICK = {"rows": 3000, "features": 50, "square": 100}


def draw_rows(args: argparse.Namespace) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((args.rows, args.features), np.float32)


def matrices(rows: NDArray[np.float32], n_jobs: int) -> dict[str, ChunkedMatrix]:
    computed = ComputedMatrix(
        rows, lambda part, out: np.copyto(out, part), rows.shape[1], budget=0, n_jobs=n_jobs
    )
    return {"": DenseMatrix(rows, n_jobs), ", computed": computed}


def gram_cases(rows: NDArray[np.float32], n_jobs: int) -> list[Case]:
    """Return cases of the columns' Gram matrix, with and without row weights."""
    n_rows, n_columns = rows.shape
    weights = np.random.default_rng(1).random(n_rows)
    roots = np.sqrt(weights).astype(np.float32)[:, None]
    units, out = n_rows * n_columns**2 / 2, np.empty((n_columns, n_columns))
    cases = []

    def add(name: str, run: Callable[[], object], peer: str | None) -> None:
        moved = rows.nbytes + out.nbytes
        cases.append(
            Case(name, run, "multiplication", units, moved, limit="BLAS", work=units, peer=peer)
        )

    def weighted_by_numpy() -> NDArray[np.float32]:
        scaled = rows * roots
        return scaled.T @ scaled

    add("numpy Z.T @ Z", lambda: rows.T @ rows, None)
    add("numpy Z.T @ (s * Z)", weighted_by_numpy, None)
    for label, matrix in matrices(rows, n_jobs).items():
        add(f"column_gram{label}", lambda Z=matrix: Z.column_gram(out=out), "numpy Z.T @ Z")
        add(
            f"column_gram, weights{label}",
            lambda Z=matrix: Z.column_gram(weights, out=out),
            "numpy Z.T @ (s * Z)",
        )
    return cases


def product_cases(rows: NDArray[np.float32], k: int, n_jobs: int) -> list[Case]:
    """Return cases of products with one column or several."""
    tail, label = ((), "") if k == 1 else ((k,), f" K={k}")
    rng = np.random.default_rng(2)
    w, v = rng.normal(size=(rows.shape[1], *tail)), rng.normal(size=(rows.shape[0], *tail))
    w_single, v_single = w.astype(np.float32), v.astype(np.float32)
    by_numpy = {
        "matvec": ("Z @ w", lambda: rows @ w_single),
        "rmatvec": ("Z.T @ v", lambda: rows.T @ v_single),
        "pull_back": ("Z.T @ (s * Z @ w)", lambda: rows.T @ (v_single * (rows @ w_single))),
    }
    cases = []

    def add(name: str, run: Callable[[], object], peer: str | None) -> None:
        moved = rows.nbytes + w.nbytes + v.nbytes
        cases.append(Case(name, run, "number x column", rows.size * k, moved, peer=peer))

    for name, (formula, run_numpy) in by_numpy.items():
        peer = f"numpy {formula}{label}"
        add(peer, run_numpy, None)
        for source, matrix in matrices(rows, n_jobs).items():
            runs = {
                "matvec": lambda Z=matrix: Z.matvec(w),
                "rmatvec": lambda Z=matrix: Z.rmatvec(v),
                "pull_back": lambda Z=matrix: Z.pull_back(w, lambda rows, z: v[rows] * z),
            }
            add(f"{name}{label}{source}", runs[name], peer)
    return cases


def main() -> None:
    args = options(__doc__, QUICK, rows=65_536, features=2048, columns=10, square=2048, jobs=1)
    rows = draw_rows(args)
    cases = gram_cases(rows, args.jobs)
    for k in (1, args.columns):
        cases += product_cases(rows, k, args.jobs)
    with threadpool_limits(args.jobs, user_api="blas"):
        limits = {
            "memory": memory_bandwidth(args.jobs, args.quick),
            "BLAS": product_rate(np.float32, args.square, args.jobs),
        }
        run(cases, args, limits)


if __name__ == "__main__":
    main()
