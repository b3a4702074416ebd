"""Products of bins with several columns in single precision: 16 numbers, a cache line, at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gramless.base.arrays import flat_rows, on_cache_line, readonly
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray
from gramless.loops.gather import gather_rows_16, scatter_add_rows_16
from gramless.matrices.base import Rows, Vector, WrappedMatrix
from gramless.matrices.codes import CodedMatrix

_LANES = 16
_GRIDS = 8
"""Whose bins a thread sums at a time, those of a row in one pass."""
_GATHERED_ROWS = 8192
"""Whose sums over the grids stay in the cache of a core."""
_SUMMED_ROWS, _SUMMED_PER_BIN = 4096, 32
"""Rows that are summed in single precision, at least, and for each bin of a grid.

Sums of more equal numbers would lose digits. Of fewer it would take long to add those of all bins
to sums in double precision.
"""
_COPIED_ROWS = 1 << 14


class SingleBins(WrappedMatrix):
    """A matrix of bins of training rows, whose products with several columns are single precision.

    They take less than half of the time, in steps of 16 columns. Operands and results are float64.
    Errors are some 1e-6 of the largest number, 1e-4 where thousands of numbers in a bin are equal.
    """

    matrix: CodedMatrix

    def __init__(self, matrix: CodedMatrix) -> None:
        super().__init__(matrix)
        self._flat, self._stride = flat_rows(matrix.codes)
        self._starts = (matrix.offsets[:-1] - 1).astype(np.uint64)

    def _matvec(self, w: Vector, out: Vector) -> None:
        if w.ndim == 1:
            super()._matvec(w, out)
            return
        for columns in _column_groups(w):
            weights = readonly(self._lines(w[:, columns], self.matrix.scale).reshape(-1))

            def gather(
                a: int, b: int, columns: slice = columns, weights: AnyArray = weights
            ) -> None:
                sums = on_cache_line((b - a) * _LANES, np.float32)
                sums[:] = 0.0
                gather_rows_16(self._flat[a:], self._stride, self._starts, weights, sums)
                target = out[a:b, columns]
                target[...] = sums.reshape(-1, _LANES)[:, : target.shape[1]]

            map_blocks(gather, row_blocks(len(out), _GATHERED_ROWS), self.n_jobs)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        if v.ndim == 1:
            super()._rmatvec(v, out)
            return
        offsets, n_grids = self.matrix.offsets, self.matrix.n_grids
        at_once = max(_SUMMED_ROWS, _SUMMED_PER_BIN * self.shape[1] // max(1, n_grids))
        rows = row_blocks(len(v), at_once)
        for columns in _column_groups(v):
            values = self._lines(v[:, columns], self.matrix.scale)

            def scatter(
                a: int, b: int, columns: slice = columns, values: AnyArray = values
            ) -> None:
                first, last = int(offsets[a]), int(offsets[b])
                total, sums = (on_cache_line((last - first) * _LANES, np.float32) for _ in range(2))
                total[:] = 0.0
                starts = self._starts[a:b] - np.uint64(first)
                for i, j in rows:
                    sums[:] = 0.0
                    codes, own = self._flat[a * self._stride + i :], values[i:j].reshape(-1)
                    scatter_add_rows_16(codes, self._stride, starts, own, sums)
                    total += sums
                target = out[first:last, columns]
                target[...] = total.reshape(-1, _LANES)[:, : target.shape[1]]

            map_blocks(scatter, row_blocks(n_grids, _GRIDS), self.n_jobs)

    def take_rows(self, rows: Rows) -> SingleBins:
        matrix = self.matrix.take_rows(rows)
        assert isinstance(matrix, CodedMatrix)
        return SingleBins(matrix)

    def _lines(self, values: Vector, scale: float) -> AnyArray:
        """Return columns times ``scale`` in single precision, (n, 16): zeros beside them."""
        lines = on_cache_line(len(values) * _LANES, np.float32).reshape(-1, _LANES)
        n_columns = values.shape[1]

        def fill(a: int, b: int) -> None:
            lines[a:b, n_columns:] = 0.0
            np.multiply(values[a:b], scale, out=lines[a:b, :n_columns], casting="same_kind")

        map_blocks(fill, row_blocks(len(values), _COPIED_ROWS), self.n_jobs)
        return lines


def _column_groups(values: Vector) -> Iterator[slice]:
    return (slice(a, b) for a, b in row_blocks(values.shape[1], _LANES))
