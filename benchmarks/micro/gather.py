"""Products with a binned matrix, against SciPy's CSR and the memory bandwidth.

A unit is a non-zero, times the columns of the operand. Bytes are those that must move at least
once: the codes (or SciPy's values and indices), the operand and the result. Codes are uniform over
the bins, the hardest case for the caches.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from _timing import Case, memory_bandwidth, options, run

from gramless.matrices.binned import BinnedMatrix

QUICK = {"rows": 2000, "grids": 16, "bins": 50}


def draw_matrix(chosen: argparse.Namespace) -> BinnedMatrix:
    rng = np.random.default_rng(0)
    dtype = np.uint8 if chosen.bins < 2**8 else np.uint16 if chosen.bins < 2**16 else np.uint32
    codes = np.empty((chosen.grids, chosen.rows), dtype)
    for row in codes:
        row[:] = rng.integers(1, chosen.bins, chosen.rows, endpoint=True)
    offsets = np.arange(chosen.grids + 1) * chosen.bins
    return BinnedMatrix(codes, offsets, has_unseen=False, n_jobs=chosen.jobs)


def make_cases(matrix: BinnedMatrix, n_columns: int) -> list[Case]:
    """Make both products, by codes and by SciPy, with one column and with several."""
    csr = matrix.tocsr()
    transposed = csr.T
    stored = csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes
    rng = np.random.default_rng(1)
    cases = []

    def add(name: str, run: Callable[[], object], held: int, k: int, peer: str | None) -> None:
        moved = held + 8 * k * sum(matrix.shape)
        cases.append(Case(name, run, "non-zero x column", csr.nnz * k, moved, peer=peer))

    for k in (1, n_columns):
        tail, label = ((), "") if k == 1 else ((k,), f" K={k}")
        w, v = rng.normal(size=(matrix.shape[1], *tail)), rng.normal(size=(matrix.shape[0], *tail))
        out_rows, out_columns = np.empty_like(v), np.empty_like(w)
        codes = matrix.codes.nbytes
        add(f"scipy Z @ w{label}", lambda w=w: csr @ w, stored, k, None)
        add(
            f"matvec{label}",
            lambda w=w, out=out_rows: matrix.matvec(w, out=out),
            codes,
            k,
            f"scipy Z @ w{label}",
        )
        add(f"scipy Z.T @ v{label}", lambda v=v: transposed @ v, stored, k, None)
        add(
            f"rmatvec{label}",
            lambda v=v, out=out_columns: matrix.rmatvec(v, out=out),
            codes,
            k,
            f"scipy Z.T @ v{label}",
        )
    return cases


def main() -> None:
    chosen = options(__doc__, QUICK, rows=169_472, grids=256, bins=2000, columns=10, jobs=1)
    cases = make_cases(draw_matrix(chosen), chosen.columns)
    run(cases, chosen, {"memory": memory_bandwidth(chosen.jobs, chosen.quick)})


if __name__ == "__main__":
    main()
