"""Rows to tiles, patterns and non-zeros, against NumPy's transpose, SciPy and the memory.

A unit is a cell of the matrix, or a row where patterns are numbered. Bytes are those that must
move at least once: the cells read and what is written of them.
"""

from __future__ import annotations

import argparse

import numpy as np
import scipy.sparse as sp
from _timing import Case, memory_bandwidth, options, run
from numpy.typing import NDArray

from gramless.base.arrays import readonly
from gramless.loops import packing

QUICK = {"rows": 3000, "columns": 8}
N_PATTERNS = 256
DENSITY = 0.05


def tile_cases(n_rows: int, n_columns: int) -> list[Case]:
    """Pack all columns from rows in either order and in single precision."""
    X = np.random.default_rng(0).normal(size=(n_rows, n_columns))
    n_tiles = -(-n_rows // packing.TILE)
    tiles = np.empty((n_tiles, n_columns, packing.TILE))
    largest = np.empty((n_tiles, n_columns))
    columns, limits = np.arange(n_columns), np.full(n_columns, 1e6)
    flat = np.empty((n_columns, n_rows))
    transpose = "numpy transpose"
    cases = [Case(transpose, lambda: np.copyto(flat, X.T), "cell", X.size, 16 * X.size)]
    kinds = {"C float64": X, "F float64": np.asfortranarray(X), "C float32": X.astype(np.float32)}
    for label, rows in kinds.items():
        strides = tuple(stride // rows.itemsize for stride in rows.strides)
        matrix = readonly(rows.reshape(-1, order="A")), strides, n_rows
        cases.append(
            Case(
                f"pack_rows {label}",
                lambda matrix=matrix: packing.pack_rows(
                    *matrix, 0, columns, limits, tiles, largest
                ),
                "cell",
                X.size,
                rows.nbytes + tiles.nbytes,
                peer=transpose,
            )
        )
    return cases


def pattern_cases(n_rows: int, n_columns: int) -> list[Case]:
    """Hash the rows, and number the hashes."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, (N_PATTERNS, n_columns))[rng.integers(0, N_PATTERNS, n_rows)]
    X = X.astype(np.float64)
    odd = rng.integers(-(2**63), 2**63, n_columns) | 1
    bits, hashes = X.view(np.int64), np.empty(n_rows, np.int64)
    packing.hash_rows(bits, 0, odd, 0, n_rows, hashes)
    ids, first_rows = np.empty(n_rows, np.int32), np.empty(4096, np.int32)
    slots = np.empty(4 * len(first_rows), np.int32)

    def number() -> None:
        slots[:] = -1
        packing.number_patterns(hashes, ids, first_rows, slots)

    return [
        Case(
            "hash_rows",
            lambda: packing.hash_rows(bits, 0, odd, 0, n_rows, hashes),
            "cell",
            X.size,
            X.nbytes + hashes.nbytes,
        ),
        Case("number_patterns", number, "row", n_rows, hashes.nbytes + ids.nbytes + slots.nbytes),
    ]


def nonzeros_of(X: NDArray[np.float64], limits: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
    columns, indptr = np.arange(X.shape[1]), np.zeros(len(X) + 1, np.int64)
    packing.count_nonzeros(X, columns, indptr)
    np.cumsum(indptr, out=indptr)
    indices, values = np.empty(indptr[-1], np.int64), np.empty(indptr[-1])
    packing.fill_nonzeros(X, columns, indptr, indices, values)
    return indices, values


def nonzero_cases(n_rows: int, n_columns: int) -> list[Case]:
    """Find the non-zeros of mostly zero rows: count them, then write them."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < DENSITY)
    limits = np.full(n_columns, 1e6)
    n_nonzeros = np.count_nonzero(X)
    moved, peer = 2 * X.nbytes + 16 * n_nonzeros + 8 * n_rows, "scipy csr_array(X)"
    return [
        Case(peer, lambda: sp.csr_array(X), "cell", X.size, moved),
        Case(
            "count, fill_nonzeros", lambda: nonzeros_of(X, limits), "cell", X.size, moved, peer=peer
        ),
    ]


def make_cases(args: argparse.Namespace) -> list[Case]:
    families = (tile_cases, pattern_cases, nonzero_cases)
    return [case for family in families for case in family(args.rows, args.columns)]


def main() -> None:
    args = options(__doc__, QUICK, rows=169_472, columns=28)
    run(make_cases(args), args, {"memory": memory_bandwidth(1, args.quick)})


if __name__ == "__main__":
    main()
