"""Bins that all count alike, wherever their codes lie, and products of rows by sums in bins."""

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

_GRIDS_A_PASS = 4
"""Whose bins a pass over the rows sums in products of rows."""
_PRODUCT_PARTS, _PRODUCT_BYTES = 8, 1 << 26
"""Parts of the grids whose row products are summed side by side, and bytes of these sums."""
_JOINED_NUMBERS = 1 << 14
"""Numbers of such sums that are added up at a time: fewer are not worth a thread."""

CodePiece = tuple[NDArray[np.unsignedinteger], int, IntArray, int, int]
"""Flat codes of some grids, how far those of two are apart, their numbers of bins, and the first
and the last of those meant."""


class PlainBins(FeatureMatrix):
    """Bins of training rows or new ones whose non-zeros all have one value, wherever codes lie."""

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
        """Number of grids: non-zeros per row."""
        return len(self.offsets) - 1

    @abstractmethod
    def bin_counts(self) -> FloatArray:
        """Return how many rows each bin holds: exact whole numbers."""

    @abstractmethod
    def take_rows(self, rows: Rows) -> PlainBins:
        """Return the matrix of some rows, columns unchanged; a slice may share memory."""

    @abstractmethod
    def loaded(self) -> CodedMatrix:
        """Return the same matrix in memory."""

    def row_products(
        self, v: Vector, rows: NDArray[np.intp] | None = None, *, single: bool = False
    ) -> Vector:
        """Return ``Z @ Z[rows].T @ v``, by sums in the bins of four grids at a time."""
        n_rows, n_columns = self.shape[0], v.shape[1]
        kind: type[np.floating] = np.float32 if single else np.float64
        width, chosen = -(-n_columns // 4) * 4, np.arange(n_rows) if rows is None else rows
        values = np.zeros((len(v), width), kind)
        values[:, :n_columns] = v * self.scale**2
        given, most_bins = readonly(values), int(np.diff(self.offsets).max(initial=0))
        room = _GRIDS_A_PASS * (most_bins + 1) * width
        n_parts = _PRODUCT_BYTES // max(1, 4 * n_rows * width)

        def add_up(first: int, last: int) -> FloatArray:
            out, sums = np.zeros((n_rows, width), kind), np.empty(room, kind)
            for piece in self._code_pieces(first, last):
                add_row_products(*piece, chosen, given, sums, out)
            return out

        passes = -(-self.n_grids // (_GRIDS_A_PASS * min(max(1, n_parts), _PRODUCT_PARTS)))
        # Which grids go together does not depend on where codes lie.
        blocks = row_blocks(self.n_grids, _GRIDS_A_PASS * max(1, passes)) or [(0, 0)]
        parts = map_blocks(add_up, blocks, self.n_jobs)
        found = np.empty((n_rows, n_columns))

        def join(first: int, last: int) -> None:
            total = parts[0][first:last]
            for part in parts[1:]:
                total += part[first:last]
            found[first:last] = total[:, :n_columns]

        map_blocks(join, row_blocks(n_rows, max(1, _JOINED_NUMBERS // width)), self.n_jobs)
        return found

    @abstractmethod
    def _code_pieces(self, first: int, last: int) -> Iterator[CodePiece]:
        """Yield the codes of some grids, a multiple of four at a time but for the last ones."""

    @abstractmethod
    def first_grids(self, n_grids: int) -> PlainBins:
        """Return the matrix of the first grids."""
