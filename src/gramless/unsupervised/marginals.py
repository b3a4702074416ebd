"""The surprise of cells along single coordinates, for each grid that divides them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from gramless.base.numeric import clip_infinities
from gramless.base.state import Stateful, array_in, require
from gramless.base.types import FloatArray, IntArray
from gramless.features.grids import Grids
from gramless.preprocessing.rows import Rows, dense_columns

_MAX_CELLS = 1000  # cells on either side of the median; all cells beyond count as one
_MIN_SURPRISE = 1e-3  # so that shares are equal if no coordinate is surprising


@dataclass(frozen=True, repr=False)
class MarginalCells(Stateful):
    """The surprise of cells: minus the logarithm of their share of a sample of rows.

    There is one entry for each pair of a grid and a coordinate that it divides, in the order of the
    grids. ``first`` is the first cell that holds rows, and ``starts`` is the start of the entry in
    ``surprises``. ``unseen`` is the surprise of an empty cell.
    """

    first: IntArray
    starts: IntArray
    surprises: FloatArray
    unseen: float

    @classmethod
    def of(cls, sample: Rows, grids: Grids) -> Self:
        """Return the surprises of the cells of a sample of rows."""
        n_rows = sample.shape[0]
        grid, column = np.nonzero(np.isfinite(grids.widths))
        first, surprises = np.zeros(len(grid), np.int64), [np.zeros(0)] * len(grid)
        is_divided = np.asarray(np.isfinite(grids.widths).any(axis=0))
        for j, values in dense_columns(sample, is_divided):
            for pair in np.flatnonzero(column == j):
                cells = cells_of(values, grids, grid[pair], j)
                median = np.median(cells)
                low, high = median - _MAX_CELLS, median + _MAX_CELLS
                numbers = np.clip(cells, low, high).astype(np.int64)
                first[pair] = numbers.min()
                counts = np.bincount(numbers - first[pair])
                surprises[pair] = -np.log((counts + 1.0) / (n_rows + 1.0))
        starts = np.concatenate([[0], np.cumsum([len(entry) for entry in surprises])])
        unseen = float(np.log(n_rows + 1.0))
        return cls(first, starts, np.concatenate([np.zeros(0), *surprises]), unseen)

    def check(self) -> None:
        first = array_in(vars(self), "first", np.int64, (None,))
        starts = array_in(vars(self), "starts", np.int64, (len(first) + 1,))
        surprises = array_in(vars(self), "surprises", np.float64, (None,), finite=True)
        is_sorted = (starts[1:] >= starts[:-1]).all() and starts[0] == 0
        require(bool(is_sorted) and starts[-1] == len(surprises), "starts do not fit the surprises")

    def shares(
        self, X: FloatArray, grids: Grids, r: int, first_pair: int
    ) -> tuple[IntArray, FloatArray]:
        """Return the columns that grid r divides, and their shares (n_samples, n_divided).

        The shares of a row are proportional to its surprises. ``first_pair`` is the number of pairs
        of the grids before r.
        """
        divided = np.flatnonzero(np.isfinite(grids.widths[r]))
        result = np.full((len(X), len(divided)), self.unseen)
        for k, j in enumerate(divided):
            pair = first_pair + k
            surprises = self.surprises[self.starts[pair] : self.starts[pair + 1]]
            cells = cells_of(X[:, j], grids, r, int(j)) - self.first[pair]
            is_known = (cells >= 0) & (cells < len(surprises))
            result[is_known, k] = surprises[cells[is_known].astype(np.int64)]
        result = np.maximum(result, _MIN_SURPRISE)
        return divided, result / result.sum(axis=1, keepdims=True)


def cells_of(values: FloatArray, grids: Grids, r: int, j: int) -> FloatArray:
    """Return the cell numbers of values along coordinate j in grid r."""
    with np.errstate(over="ignore"):
        distances = clip_infinities(values - grids.shifts[r, j])
    cells: FloatArray = np.floor(distances / grids.widths[r, j])
    return cells
