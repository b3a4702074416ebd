"""Lists of the rows in each bin: a matrix of bins stored by columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import readonly
from gramless.base.threads import map_blocks
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.loops.row_lists import list_rows


@dataclass(frozen=True)
class RowLists:
    """The rows of every column of a matrix with one non-zero per row and group of columns.

    Groups are grids. The rows are divided into parts, whose bounds depend on their number alone.

    Parameters
    ----------
    offsets : array (n_groups + 1,) of int64
        First column of each group.
    values : array (n_groups,)
        Value of the non-zeros of each group.
    parts : array (n_parts + 1,) of int64
        First row of each part.
    rows : array (n_groups, n_rows) of uint16 or uint32
        ``rows[g, parts[p]:parts[p + 1]]`` are the rows of part p, counted from its start and
        sorted by their columns in group g.
    bounds : array (n_parts, n_columns + n_groups) of uint32
        Within part p, the rows of column j of group g are those from ``bounds[p, j + g]`` to
        ``bounds[p, j + g + 1]``.
    """

    offsets: IntArray
    values: FloatArray
    parts: IntArray
    rows: NDArray[np.unsignedinteger]
    bounds: NDArray[np.uint32]

    def with_ones(self) -> RowLists:
        """Return the lists with one more group, which is a column of ones."""
        sizes = np.diff(self.parts)
        positions = np.concatenate([np.arange(size) for size in sizes]).astype(self.rows.dtype)
        ends = np.column_stack([np.zeros_like(sizes), sizes]).astype(np.uint32)
        return replace(
            self,
            offsets=np.append(self.offsets, self.offsets[-1] + 1),
            values=np.append(self.values, 1.0),
            rows=np.concatenate([self.rows, positions[None]]),
            bounds=np.ascontiguousarray(np.concatenate([self.bounds, ends], axis=1)),
        )


def list_bins(
    codes: AnyArray,
    offsets: IntArray,
    scale: float,
    n_jobs: int | None,
    part_rows: int = 1 << 15,
    most_parts: int = 16,
) -> RowLists:
    """Return the lists of the rows of every bin, which takes some 2 ns per non-zero and core."""
    n_grids, n_rows = codes.shape
    codes = readonly(codes)
    parts = _part_bounds(n_rows, part_rows, most_parts)
    fits_16_bits = np.diff(parts).max(initial=0) < 1 << 16
    rows = np.empty((n_grids, n_rows), np.uint16 if fits_16_bits else np.uint32)
    bounds = np.empty((len(parts) - 1, int(offsets[-1]) + n_grids), np.uint32)

    def sort(r: int) -> None:
        columns = slice(int(offsets[r]) + r, int(offsets[r + 1]) + r + 1)
        for p in range(len(parts) - 1):
            part = slice(parts[p], parts[p + 1])
            list_rows(codes[r, part], rows[r, part], bounds[p, columns])

    map_blocks(sort, [(r,) for r in range(n_grids)], n_jobs)
    return RowLists(offsets, np.full(n_grids, scale), parts, rows, bounds)


def _part_bounds(n_rows: int, part_rows: int, most_parts: int) -> IntArray:
    """Return the bounds of 1, 2, 4, ... parts of equal size, at most ``most_parts``."""
    n_parts = 1
    while n_parts < most_parts and n_rows > n_parts * part_rows:
        n_parts *= 2
    return np.arange(n_parts + 1, dtype=np.int64) * n_rows // n_parts
