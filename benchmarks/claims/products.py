"""Products with the binned matrix and its transpose, compared with SciPy's CSR.

SciPy stores float64 values and int32 indices. For the transpose the faster of ``csr.T @ v`` and a
stored CSR of the transpose is shown. Ours uses ``--jobs`` threads, SciPy one. The bandwidth is a
quarter of the mean distance between rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import _repository  # noqa: F401
import numpy as np

from benchmarks.common import (
    Report,
    Row,
    binned_map,
    load_sets,
    made_up,
    options,
    parse,
    print_progress,
    rows_to_time,
    scipy_csr,
)
from gramless.base.memory import large_array_budget
from gramless.base.random import stream
from gramless.base.threads import thread_count
from gramless.matrices.base import Vector
from gramless.matrices.binned import BinnedMatrix
from harness.timing import interleaved

SETS = ("covtype_1vs2_169k", "ijcnn1")
MADE_UP = "made-up"
GRIDS = 256
OUTPUTS = (1, 10)
# Per non-zero: a value and an index in the matrix and in its stored transpose.
_SCIPY_BYTES = 2 * 12


def affordable_grids(n_rows: int, max_grids: int, n_outputs: int) -> int:
    """Halve the number of grids until SciPy's matrices take at most half of the free memory.

    The conversion to the stored transpose needs no more memory than both matrices.
    """
    n_grids = max_grids
    operand_bytes = 6 * 8 * n_outputs * n_rows
    while n_grids > 8 and _SCIPY_BYTES * n_rows * n_grids + operand_bytes > large_array_budget():
        n_grids //= 2
    return n_grids


def operands(matrix: BinnedMatrix, n_outputs: int) -> tuple[Vector, Vector]:
    """Return normal numbers for ``Z @ w`` and for ``Z.T @ v``."""
    tail = () if n_outputs == 1 else (n_outputs,)
    rng = stream(0, "operands")
    n_rows, n_columns = matrix.shape
    return rng.standard_normal((n_columns, *tail)), rng.standard_normal((n_rows, *tail))


def compare(name: str, matrix: BinnedMatrix, repeats: int) -> Iterator[Row]:
    """Time both products with one and with ten columns, and compare the results."""
    csr = scipy_csr(matrix)
    transpose = csr.T
    stored = transpose.tocsr()
    for n_outputs in OUTPUTS:
        w, v = operands(matrix, n_outputs)
        runs: dict[str, Callable[[], Any]] = {
            "matvec": lambda w=w: matrix.matvec(w),
            "csr": lambda w=w: csr @ w,
            "rmatvec": lambda v=v: matrix.rmatvec(v),
            "csr.T": lambda v=v: transpose @ v,
            "stored": lambda v=v: stored @ v,
        }
        seconds = interleaved(runs, repeats)
        for product, forms in {"matvec": ["csr"], "rmatvec": ["csr.T", "stored"]}.items():
            best = min(forms, key=lambda form: seconds[form])
            units = csr.nnz * n_outputs
            yield {
                "data set": name,
                "rows": matrix.shape[0],
                "grids": matrix.n_grids,
                "bins a grid": matrix.shape[1] / matrix.n_grids,
                "bytes a code": matrix.codes.itemsize,
                "product": product,
                "K": n_outputs,
                "ours ms": 1e3 * seconds[product],
                "SciPy ms": 1e3 * seconds[best],
                "SciPy's form": best,
                "ours ns/non-zero": 1e9 * seconds[product] / units,
                "ratio": seconds[best] / seconds[product],
                "largest difference": float(np.abs(runs[product]() - runs[best]()).max()),
            }


def tables(args: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    names = [name for name in args.only if name != MADE_UP]
    for data in load_sets(names, args):
        yield data.name, rows_to_time(data)[0]
    if MADE_UP in args.only:
        yield MADE_UP, made_up(3000 if args.quick else 1_000_000, 20)[0]


def rows_of(args: argparse.Namespace) -> Iterator[Row]:
    for name, X in tables(args):
        max_grids = 8 if args.quick else GRIDS
        n_grids = affordable_grids(len(X), max_grids, max(OUTPUTS))
        if n_grids < max_grids:
            print_progress(
                f"{name}: SciPy's matrices leave room for {n_grids} grids, not {max_grids}"
            )
        feature_map = binned_map(X, n_grids, args.jobs)
        print_progress(f"{name}, {n_grids} grids")
        yield from compare(name, feature_map.fit_matrix(X), args.repeats)


def main() -> None:
    args = parse(options(__doc__, repeats=11, sets=[*SETS, MADE_UP]))
    report = Report(args)
    title = f"Products, threads of ours: {thread_count(args.jobs)}"
    report.add(title, rows_of(args))
    report.close()


if __name__ == "__main__":
    main()
