"""Base class of bins whose non-zeros are all equal, with codes in memory or in a file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import readonly
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import FloatArray, IntArray
from gramless.loops.gather import add_row_products
from gramless.matrices.base import FeatureMatrix, Rows, Vector
from gramless.matrices.codes import CodedMatrix

_PASS_GRIDS = 4  # grids that one pass over the rows sums in ``row_products``
_MAX_PARTS, _PARTS_BYTES = 8, 1 << 26  # partial sums of row products, and the bytes of all of them
_TASK_NUMBERS = 1 << 14  # numbers of partial sums that a task adds up

# Flat codes of some grids, the distance between the codes of two grids, their numbers of bins, and
# the first and the last (exclusive) of the grids to use.
CodePiece = tuple[NDArray[np.unsignedinteger], int, IntArray, int, int]


class PlainBins(FeatureMatrix):
    """Base class of matrices of bins whose non-zeros all have the value ``scale``."""

    offsets: IntArray
    scale: float

    @property
    def has_row_lists(self) -> bool:
        return True

    @property
    def has_row_products(self) -> bool:
        return True

    @property
    def n_grids(self) -> int:
        """Number of grids, which is the number of non-zeros per row."""
        return len(self.offsets) - 1

    @abstractmethod
    def bin_counts(self) -> FloatArray:
        """Return the exact number of rows in each bin."""

    @abstractmethod
    def take_rows(self, rows: Rows) -> PlainBins:
        """Return the matrix of some rows, columns unchanged; a slice may share memory."""

    @abstractmethod
    def loaded(self) -> CodedMatrix:
        """Return the same matrix in memory."""

    def row_products(
        self, v: Vector, rows: NDArray[np.intp] | None = None, *, single: bool = False
    ) -> Vector:
        """Return ``Z @ Z[rows].T @ v``, computed by sums over the bins of four grids at a time."""
        n_rows, n_columns = self.shape[0], v.shape[1]
        dtype: type[np.floating] = np.float32 if single else np.float64
        width, selected = -(-n_columns // 4) * 4, np.arange(n_rows) if rows is None else rows
        values = np.zeros((len(v), width), dtype)
        values[:, :n_columns] = v * self.scale**2
        values, max_bins = readonly(values), int(np.diff(self.offsets).max(initial=0))
        sums_size = _PASS_GRIDS * (max_bins + 1) * width
        n_parts = _PARTS_BYTES // max(1, 4 * n_rows * width)

        def add_up(first: int, last: int) -> FloatArray:
            out, sums = np.zeros((n_rows, width), dtype), np.empty(sums_size, dtype)
            for piece in self._code_pieces(first, last):
                add_row_products(*piece, selected, values, sums, out)
            return out

        n_passes = -(-self.n_grids // (_PASS_GRIDS * min(max(1, n_parts), _MAX_PARTS)))
        # Groups of grids must not depend on where codes are stored, so that sums are the same.
        blocks = row_blocks(self.n_grids, _PASS_GRIDS * max(1, n_passes)) or [(0, 0)]
        parts = map_blocks(add_up, blocks, self.n_jobs)
        result = np.empty((n_rows, n_columns))

        def join(first: int, last: int) -> None:
            total = parts[0][first:last]
            for part in parts[1:]:
                total += part[first:last]
            result[first:last] = total[:, :n_columns]

        map_blocks(join, row_blocks(n_rows, max(1, _TASK_NUMBERS // width)), self.n_jobs)
        return result

    @abstractmethod
    def _code_pieces(self, first: int, last: int) -> Iterator[CodePiece]:
        """Yield codes of grids ``first:last``, a multiple of four per piece except the last."""

    @abstractmethod
    def first_grids(self, n_grids: int) -> PlainBins:
        """Return the matrix of the first grids."""
