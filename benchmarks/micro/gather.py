"""Products with a binned matrix, against SciPy's CSR and the memory bandwidth.

A unit is a non-zero, times the columns of the operand. Bytes are those that must move at least
once: the codes (or SciPy's values and indices), the operand and the result. Codes are uniform over
the bins, the worst case for the caches.

``count_shared_bins`` counts the bins that any two of a few rows share: a unit is a comparison of
two codes. It is bound by comparisons, not by memory. SciPy's product only visits shared bins; with
uniform codes there are far fewer of them than in real tables.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from _timing import Case, draw_codes, memory_bandwidth, options, run

from gramless.base.arrays import readonly
from gramless.loops import gather as loops
from gramless.matrices.binned import BinnedMatrix

QUICK = {"rows": 2000, "grids": 16, "bins": 50, "sample": 50}


def make_cases(matrix: BinnedMatrix, n_columns: int) -> list[Case]:
    """Return both products, by codes and by SciPy, with one column and with several."""
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
    single = matrix.to_single()
    add(f"single matvec{label}", lambda: single.matvec(w, out=out_rows), codes, k, f"matvec{label}")
    add(
        f"single rmatvec{label}",
        lambda: single.rmatvec(v, out=out_columns),
        codes,
        k,
        f"rmatvec{label}",
    )
    return cases


def sample_cases(matrix: BinnedMatrix) -> list[Case]:
    """Return the Gram matrix of a few rows, by codes and by SciPy."""
    csr, n_rows = matrix.tocsr(), matrix.shape[0]
    transposed = csr.T.tocsr()
    codes = readonly(np.ascontiguousarray(matrix.codes.T))
    counts = np.empty((n_rows, n_rows), np.float32)
    n_compared = n_rows * (n_rows + 1) // 2 * matrix.n_grids
    stored = 2 * (csr.data.nbytes + csr.indices.nbytes)

    def add(name: str, run: Callable[[], object], held: int, peer: str | None) -> Case:
        moved = held + counts.nbytes
        return Case(name, run, "comparison", n_compared, moved, peer=peer)

    scipy_name = "scipy Z @ Z.T"
    return [
        add(scipy_name, lambda: (csr @ transposed).toarray(), stored, None),
        add(
            "count_shared_bins",
            lambda: loops.count_shared_bins(codes, 0, n_rows, counts),
            codes.nbytes,
            scipy_name,
        ),
        add("row_gram", matrix.row_gram, codes.nbytes, scipy_name),
    ]


def main() -> None:
    args = options(
        __doc__, QUICK, rows=169_472, grids=256, bins=2000, columns=10, sample=1000, jobs=1
    )
    matrix = BinnedMatrix(*draw_codes(args), has_unseen=False, n_jobs=args.jobs)
    few = matrix.take_rows(np.arange(args.sample))
    cases = [*make_cases(matrix, args.columns), *sample_cases(few)]
    run(cases, args, {"memory": memory_bandwidth(args.jobs, args.quick)})


if __name__ == "__main__":
    main()
