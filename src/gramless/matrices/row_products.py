"""Features of few rows, with the products of these rows with each other kept beside them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import FloatArray
from gramless.matrices.abilities import SupportsRowProducts
from gramless.matrices.base import FeatureMatrix, Rows, Vector
from gramless.matrices.chunked import ChunkedMatrix

Floats = NDArray[np.float32]

_BLOCK_ROWS = 256


class MatrixWithRowProducts(SupportsRowProducts):
    """A feature matrix and, in single precision, its ``gram``, ``Z @ Z.T`` (n_rows, n_rows).

    Examples
    --------
    >>> from gramless.matrices.dense import DenseMatrix
    >>> Z = DenseMatrix(np.array([[1.0, 2.0], [0.0, 1.0]]))
    >>> MatrixWithRowProducts(Z, single_row_gram(Z)).row_products(np.array([[1.0], [1.0]]))
    array([[7.],
           [3.]])
    """

    def __init__(self, matrix: FeatureMatrix, gram: Floats) -> None:
        self.matrix, self.gram, self.n_jobs = matrix, gram, matrix.n_jobs

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes + self.gram.nbytes

    def _matvec(self, w: Vector, out: Vector) -> None:
        self.matrix.matvec(w, out)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        self.matrix.rmatvec(v, out)

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        return self.matrix.gram_diagonal(weights)

    def take_rows(self, rows: Rows) -> MatrixWithRowProducts:
        gram = self.gram[rows, rows] if isinstance(rows, slice) else self.gram[rows][:, rows]
        return MatrixWithRowProducts(self.matrix.take_rows(rows), gram)

    def tocsr(self) -> sp.csr_array:
        return self.matrix.tocsr()

    def row_gram(self) -> FloatArray:
        return self.gram.astype(np.float64)

    def row_products(self, v: Vector, rows: NDArray[np.intp] | None = None) -> Vector:
        # The Gram matrix is symmetric, and its rows are contiguous.
        gram = self.gram if rows is None else self.gram[rows].T
        given, out = np.asarray(v, np.float32), np.empty((self.shape[0], v.shape[1]))

        def multiply(first: int, last: int) -> None:
            out[first:last] = gram[first:last] @ given

        with one_blas_thread():
            map_blocks(multiply, row_blocks(len(out), _BLOCK_ROWS), self.n_jobs)
        return out


def single_row_gram(matrix: FeatureMatrix) -> Floats:
    """Return ``Z @ Z.T`` in single precision: a comparison for each grid and pair of rows."""
    if not isinstance(matrix, ChunkedMatrix):
        return matrix.row_gram().astype(np.float32)
    n_rows = matrix.shape[0]
    values, gram = np.empty(matrix.shape, np.float32), np.empty((n_rows, n_rows), np.float32)

    def fill(first: int, last: int) -> None:
        values[first:last] = matrix.chunk(first, last)

    def multiply(first: int, last: int) -> None:
        gram[first:last] = values[first:last] @ values.T

    with one_blas_thread():
        map_blocks(fill, row_blocks(n_rows, matrix.chunk_rows), matrix.n_jobs)
        map_blocks(multiply, row_blocks(n_rows, _BLOCK_ROWS), matrix.n_jobs)
    return gram
