"""Products with weighted bins, against those with plain bins and SciPy's CSR; values in cells.

A unit is a non-zero, times the columns of the operand. Bytes are those that must move at least
once: codes and values (or SciPy's values and indices), the operand and the result. Codes are
uniform over the bins, the worst case for the caches. ``row_gram`` multiplies some rows with each
other; its unit is a pair of codes.

``window_values`` computes the values of windows over the cells of ``--inputs`` inputs: a
unit is an input of a row in a grid. It is bound by arithmetic.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from _timing import Case, draw_codes, memory_bandwidth, options, run

from gramless.kernels.windowed import Windowed
from gramless.loops.windows import window_values
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.weighted import WeightedBinnedMatrix

QUICK = {"rows": 2000, "grids": 16, "bins": 50, "sample": 50}
BLOCK_ROWS = 4096

Binned = BinnedMatrix | WeightedBinnedMatrix


def draw_matrices(args: argparse.Namespace) -> dict[str, Binned]:
    """Return the same codes without values, and with values of both precisions."""
    codes, offsets = draw_codes(args)
    values = np.random.default_rng(0).random(codes.shape, np.float32)
    options = {"has_unseen": False, "n_jobs": args.jobs}
    return {
        "plain": BinnedMatrix(codes, offsets, **options),
        "float32": WeightedBinnedMatrix(codes, values, offsets, **options),
        "float16": WeightedBinnedMatrix(codes, values.astype(np.float16), offsets, **options),
    }


def product_cases(matrices: dict[str, Binned], n_columns: int) -> list[Case]:
    """Return both products, with one column and with several."""
    csr = matrices["float32"].tocsr()
    transposed, rng, cases = csr.T, np.random.default_rng(1), []
    stored = csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes

    def add(name: str, run: Callable[[], object], held: int, k: int, peer: str | None) -> None:
        moved = held + 8 * k * sum(csr.shape)
        cases.append(Case(name, run, "non-zero x column", csr.nnz * k, moved, peer=peer))

    for k in (1, n_columns):
        tail, label = ((), "") if k == 1 else ((k,), f" K={k}")
        w, v = rng.normal(size=(csr.shape[1], *tail)), rng.normal(size=(csr.shape[0], *tail))
        add(f"scipy Z @ w{label}", lambda w=w: csr @ w, stored, k, None)
        for kind, matrix in matrices.items():
            peer = f"matvec plain{label}" if kind != "plain" else f"scipy Z @ w{label}"
            call = lambda matrix=matrix, w=w: matrix.matvec(w)  # noqa: E731
            add(f"matvec {kind}{label}", call, matrix.nbytes, k, peer)
        add(f"scipy Z.T @ v{label}", lambda v=v: transposed @ v, stored, k, None)
        for kind, matrix in matrices.items():
            peer = f"rmatvec plain{label}" if kind != "plain" else f"scipy Z.T @ v{label}"
            call = lambda matrix=matrix, v=v: matrix.rmatvec(v)  # noqa: E731
            add(f"rmatvec {kind}{label}", call, matrix.nbytes, k, peer)
    return cases


def sample_cases(matrices: dict[str, Binned], n_rows: int) -> list[Case]:
    """Return the Gram matrix of a few rows."""
    cases = []
    for kind, matrix in matrices.items():
        few = matrix.take_rows(np.arange(n_rows))
        n_compared = n_rows * (n_rows + 1) // 2 * matrix.n_grids
        moved, peer = few.nbytes + 8 * n_rows**2, None if kind == "plain" else "row_gram plain"
        case = Case(f"row_gram {kind}", few.row_gram, "comparison", n_compared, moved, peer=peer)
        cases.append(case)
    return cases


def window_cases(args: argparse.Namespace) -> list[Case]:
    rng, n_grids, n_inputs = np.random.default_rng(2), args.grids, args.inputs
    columns = rng.normal(size=(n_inputs, min(BLOCK_ROWS, args.rows)))
    inverse, shifts = rng.gamma(2.0, size=(n_grids, n_inputs)), rng.random((n_grids, n_inputs))
    out = np.empty((n_grids, columns.shape[1]), np.float32)
    units, moved = float(out.size * n_inputs), columns.nbytes + out.nbytes
    cases = []
    for window in ("parabola", "cosine"):
        rule = Windowed(window).coefficients
        call = lambda rule=rule: window_values(columns, inverse, shifts, rule, 3e38, out)  # noqa: E731
        cases.append(Case(f"window_values {window}", call, "cell", units, moved))
    return cases


def main() -> None:
    args = options(
        __doc__,
        QUICK,
        rows=169_472,
        grids=256,
        bins=2000,
        columns=10,
        sample=1000,
        inputs=8,
        jobs=1,
    )
    matrices = draw_matrices(args)
    cases = product_cases(matrices, args.columns)
    cases += sample_cases(matrices, args.sample) + window_cases(args)
    run(cases, args, {"memory": memory_bandwidth(args.jobs, args.quick)})


if __name__ == "__main__":
    main()
