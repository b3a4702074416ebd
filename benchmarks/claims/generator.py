"""Time to build the codes of training rows, against the published C++ generator (RB_GEN).

Both have the same widths, shifts and number of threads. The generator reads dense rows and CSR. Its
arrays are allocated and touched before it is timed; our time includes this. OpenMP threads spin for
a while after a call and would slow down the next one, so each function is called again, after a
pause, before it is timed. All bins are compared.

RB_GEN is not part of this repository. Get its sources, and put this file next to them as
``wrap.cpp``::

    #include <cmath>
    #include <cstdlib>
    #include "feature_matrix.c"
    static int fit(size_t R, Mat X, double *delta, double *mu, size_t *offset, size_t *row,
                   size_t *col, double *val) {
      Mat Z = {}; Z.type = Mat_type_CSR; Z.rowIndex = row; Z.colIndex = col; Z.val = val; Z.n = X.n;
      int *table = NULL, r = ComputeTrainFeatureMatrix(R, X, delta, mu, offset, &table, &Z);
      free(table); return r; }
    extern "C" int rb_train(size_t R, size_t n, size_t d, double *x, double *delta, double *mu,
                            size_t *offset, size_t *row, size_t *col, double *val) {
      Mat X = {}; X.type = Mat_type_dense; X.n = n; X.d = d; X.nnz = n * d; X.val = x;
      return fit(R, X, delta, mu, offset, row, col, val); }
    extern "C" int rb_train_csr(size_t R, size_t n, size_t d, size_t nnz, size_t *ri, size_t *ci,
                                double *x, double *delta, double *mu, size_t *offset, size_t *row,
                                size_t *col, double *val) {
      Mat X = {}; X.type = Mat_type_CSR; X.n = n; X.d = d; X.nnz = nnz;
      X.val = x; X.rowIndex = ri; X.colIndex = ci;
      return fit(R, X, delta, mu, offset, row, col, val); }

and build it with ``g++ -O3 -march=native -fopenmp -shared -fPIC -fpermissive wrap.cpp common.c -o
librb.so``. Then name it with ``--library`` or in the environment variable ``RB_GEN_LIBRARY``.
"""

from __future__ import annotations

import argparse
import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import _repository  # noqa: F401
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.common import Report, Row, load_sets, options, parse, print_progress, rows_to_time
from gramless.base.threads import thread_count
from gramless.features.grids import Grids
from gramless.kernels import Laplacian
from harness.timing import interleaved, settled

SETS = ("covtype_1vs2_169k", "ijcnn1")
# Bandwidths in units of a column's standard deviation times sqrt(number of columns).
FACTORS = (0.5, 1.0, 2.0)


class Generator:
    """Calls RB_GEN with arrays for one set of rows and grids."""

    def __init__(self, library: ctypes.CDLL, X: NDArray[Any], grids: Grids) -> None:
        self.library, self.grids = library, grids
        self.dense = np.ascontiguousarray(X, np.float64)
        csr = sp.csr_array(self.dense)
        self.csr = (csr.indptr.astype(np.uint64), csr.indices.astype(np.uint64), csr.data)
        n_grids, n_rows = len(grids), len(X)
        self.offsets = np.zeros(n_grids + 1, np.uint64)
        self.row_starts = np.zeros(n_rows + 1, np.uint64)
        self.columns = np.zeros(n_rows * n_grids, np.uint64)
        self.values = np.zeros(n_rows * n_grids)

    def from_dense(self) -> None:
        self._call("rb_train", (), (self.dense,))

    def from_csr(self) -> None:
        self._call("rb_train_csr", (len(self.csr[2]),), self.csr)

    def codes(self) -> NDArray[np.int64]:
        """Return the codes of the last call, numbered from 1 like ours."""
        columns = self.columns.reshape(-1, len(self.grids)).T.astype(np.int64)
        return columns - self.offsets[:-1, None].astype(np.int64) + 1

    def _call(self, name: str, counts: tuple[int, ...], rows: tuple[NDArray[Any], ...]) -> None:
        sizes = (len(self.grids), *self.dense.shape, *counts)
        grids = (self.grids.widths, self.grids.shifts)
        results = (self.offsets, self.row_starts, self.columns, self.values)
        arrays = [array.ctypes.data_as(ctypes.c_void_p) for array in (*rows, *grids, *results)]
        getattr(self.library, name)(*(ctypes.c_size_t(size) for size in sizes), *arrays)


def open_library(path: Path, n_threads: int) -> ctypes.CDLL:
    """Load RB_GEN with a number of threads, which OpenMP reads when it is loaded."""
    os.environ["OMP_NUM_THREADS"] = str(n_threads)
    return ctypes.CDLL(str(path.resolve()))


def compare(
    name: str, X: NDArray[Any], factor: float, library: ctypes.CDLL, args: argparse.Namespace
) -> Row:
    """Time our function and both of RB_GEN's on the same rows and grids, and compare the bins."""
    deviation = X.std(axis=0, dtype=np.float64)
    bandwidth = np.where(deviation > 0, deviation, 1.0) * factor * np.sqrt(X.shape[1])
    grids = Grids.draw(Laplacian(), bandwidth, 8 if args.quick else 64, seed=1)
    generator = Generator(library, X, grids)
    codes, known = grids.learn(X, args.jobs)
    same = []
    for run in (generator.from_dense, generator.from_csr):
        run()
        same.append(np.array_equal(generator.codes(), codes))
    runs: dict[str, Callable[[], object]] = {
        "ours": lambda: grids.learn(X, args.jobs),
        "dense": generator.from_dense,
        "csr": generator.from_csr,
    }
    seconds = interleaved(runs, args.repeats, before=settled)
    return {
        "data set": name,
        "rows": len(X),
        "grids": len(grids),
        "bandwidth": factor,
        "bins a grid": float(known.n_bins.mean()),
        "ours s": seconds["ours"],
        "RB_GEN dense s": seconds["dense"],
        "RB_GEN CSR s": seconds["csr"],
        "ratio dense": seconds["dense"] / seconds["ours"],
        "ratio CSR": seconds["csr"] / seconds["ours"],
        "ratio to its faster": min(seconds["dense"], seconds["csr"]) / seconds["ours"],
        "same bins": all(same),
    }


def timed_rows(library: ctypes.CDLL, args: argparse.Namespace) -> Iterator[Row]:
    for data in load_sets(SETS, args):
        X, _ = rows_to_time(data)
        for factor in FACTORS:
            print_progress(f"{data.name}, bandwidth {factor}")
            yield compare(data.name, X, factor, library, args)


def main() -> None:
    parser = options(__doc__, repeats=9)
    parser.add_argument("--library", default=os.environ.get("RB_GEN_LIBRARY"), type=Path)
    args = parse(parser)
    report = Report(args)
    if args.library is None or not args.library.is_file():
        print_progress("RB_GEN's compiled library was not found, skipped; see --help")
    else:
        n_threads = thread_count(args.jobs)
        library = open_library(args.library, n_threads)
        title = f"Building the codes of training rows, threads of each: {n_threads}"
        report.add(title, timed_rows(library, args))
    report.close()


if __name__ == "__main__":
    main()
