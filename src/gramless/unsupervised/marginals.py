"""How surprising the cells of single coordinates are, in each grid that divides them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from gramless.base.numeric import in_range
from gramless.base.state import Stateful, array_in, require
from gramless.base.types import FloatArray, IntArray
from gramless.features.grids import Grids
from gramless.preprocessing.rows import Rows, dense_columns

_MOST_CELLS = 1000  # to either side of the middle: cells beyond are taken for one
_LEAST = 1e-3  # a surprise of none: where no coordinate is surprising all share alike


@dataclass(frozen=True, repr=False)
class MarginalCells(Stateful):
    """Minus the logarithm of the share of some rows in each cell of a grid along one coordinate.

    For each pair of a grid and a coordinate that it divides, in the order of the grids: ``first``
    is the first cell that holds rows, ``starts`` where its surprises lie. ``unseen`` is the
    surprise of a cell of no row.
    """

    first: IntArray
    starts: IntArray
    surprises: FloatArray
    unseen: float

    @classmethod
    def of(cls, sample: Rows, grids: Grids) -> Self:
        """Count the cells of a sample of the rows."""
        n_rows = sample.shape[0]
        grid, column = np.nonzero(np.isfinite(grids.widths))
        first, surprises = np.zeros(len(grid), np.int64), [np.zeros(0)] * len(grid)
        chosen = np.asarray(np.isfinite(grids.widths).any(axis=0))
        for j, values in dense_columns(sample, chosen):
            for at in np.flatnonzero(column == j):
                cells = cells_of(values, grids, grid[at], j)
                middle = np.median(cells)
                low, high = middle - _MOST_CELLS, middle + _MOST_CELLS
                numbers = np.clip(cells, low, high).astype(np.int64)
                first[at] = numbers.min()
                counts = np.bincount(numbers - first[at])
                surprises[at] = -np.log((counts + 1.0) / (n_rows + 1.0))
        starts = np.concatenate([[0], np.cumsum([len(own) for own in surprises])])
        unseen = float(np.log(n_rows + 1.0))
        return cls(first, starts, np.concatenate([np.zeros(0), *surprises]), unseen)

    def check(self) -> None:
        """Check that the parts from a file fit each other."""
        first = array_in(vars(self), "first", np.int64, (None,))
        starts = array_in(vars(self), "starts", np.int64, (len(first) + 1,))
        surprises = array_in(vars(self), "surprises", np.float64, (None,), finite=True)
        rising = (starts[1:] >= starts[:-1]).all() and starts[0] == 0
        require(bool(rising) and starts[-1] == len(surprises), "starts do not fit the surprises")

    def shares(self, X: FloatArray, grids: Grids, r: int, at: int) -> tuple[IntArray, FloatArray]:
        """Return the columns that a grid divides, and the share (n_samples, n_divided) of each.

        ``at`` is the number of pairs of earlier grids.
        """
        divided = np.flatnonzero(np.isfinite(grids.widths[r]))
        found = np.full((len(X), len(divided)), self.unseen)
        for k, j in enumerate(divided):
            own = self.surprises[self.starts[at + k] : self.starts[at + k + 1]]
            places = cells_of(X[:, j], grids, r, int(j)) - self.first[at + k]
            known = (places >= 0) & (places < len(own))
            found[known, k] = own[places[known].astype(np.int64)]
        found = np.maximum(found, _LEAST)
        return divided, found / found.sum(axis=1, keepdims=True)


def cells_of(values: FloatArray, grids: Grids, r: int, j: int) -> FloatArray:
    """Return the cells of values along one coordinate in one grid."""
    with np.errstate(over="ignore"):
        distances = in_range(values - grids.shifts[r, j])
    found: FloatArray = np.floor(distances / grids.widths[r, j])
    return found
