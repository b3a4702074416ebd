"""Indicators of the neighbours of each row, a few of many shared columns."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.types import FloatArray
from gramless.matrices.base import FeatureMatrix, Rows, Vector
from gramless.matrices.binned import BinnedMatrix


class NeighbourMatrix(FeatureMatrix):
    """The sparse matrix with ``1 / sqrt(k)`` in the columns of the k neighbours of each row.

    ``codes`` (k, n_rows) are column numbers from 1, different within each row. The products are
    those of a :class:`BinnedMatrix` with a grid for each of the k neighbours.
    """

    def __init__(
        self, codes: NDArray[np.unsignedinteger], n_columns: int, *, n_jobs: int | None = None
    ) -> None:
        self.n_jobs, self._n_columns = n_jobs, n_columns
        offsets = n_columns * np.arange(len(codes) + 1)
        self._bins = BinnedMatrix(codes, offsets, has_unseen=False, n_jobs=n_jobs)

    @property
    def codes(self) -> NDArray[np.unsignedinteger]:
        """Column numbers from 1, (k, n_rows)."""
        return self._bins.codes

    @property
    def shape(self) -> tuple[int, int]:
        return self._bins.shape[0], self._n_columns

    @property
    def nbytes(self) -> int:
        return self._bins.nbytes

    def _matvec(self, w: Vector, out: Vector) -> None:
        self._bins.matvec(np.concatenate([w] * len(self.codes)), out=out)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        out[...] = self._summed_over_grids(self._bins.rmatvec(v))

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        return self._summed_over_grids(self._bins.gram_diagonal(weights))

    def take_rows(self, rows: Rows) -> NeighbourMatrix:
        return NeighbourMatrix(self.codes[:, rows], self._n_columns, n_jobs=self.n_jobs)

    def tocsr(self) -> sp.csr_array:
        n_rows, (k, scale) = self.shape[0], (len(self.codes), self._bins.scale)
        columns = self.codes.T.reshape(-1).astype(np.int64) - 1
        csr = sp.csr_array(
            (np.full(k * n_rows, scale), columns, k * np.arange(n_rows + 1)), self.shape
        )
        csr.sort_indices()
        return csr

    def _summed_over_grids(self, sums: Vector) -> Vector:
        shape = len(self.codes), self._n_columns, *sums.shape[1:]
        result: Vector = sums.reshape(shape).sum(axis=0)
        return result
