"""Merge the bins of blocks of rows, so that they are numbered as in one pass over all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from gramless.base.arrays import padded_rows
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.distributed.workspace import Workspace
from gramless.features.grids import CodeType, numbered_keys
from gramless.loops.renumber import renumber
from gramless.matrices.base import FeatureMatrix, Rows, Vector


@dataclass(frozen=True)
class BinKeys:
    """The keys of the bins of each grid, in order of first appearance in the rows."""

    keys: IntArray = field(repr=False)
    offsets: IntArray = field(repr=False)

    @classmethod
    def of_counts(cls, keys: IntArray, n_bins: IntArray) -> BinKeys:
        """Return the keys of grids that have ``n_bins`` bins each."""
        return cls(keys, np.append(0, np.cumsum(n_bins)))

    @classmethod
    def merge(cls, parts: Sequence[BinKeys]) -> BinKeys:
        """Return the keys of consecutive parts of the rows, in order of first appearance.

        Merging is associative: the result does not depend on the grouping of the parts.
        """
        merged = []
        for ranges in zip(*(pairwise(part.offsets) for part in parts), strict=True):
            keys = [part.keys[a:b] for part, (a, b) in zip(parts, ranges, strict=True)]
            merged.append(numbered_keys(np.concatenate(keys))[1])
        return cls.of_counts(np.concatenate(merged), np.array([len(keys) for keys in merged]))

    @property
    def n_bins(self) -> IntArray:
        return np.diff(self.offsets)

    def columns_of(self, others: BinKeys) -> BinColumns:
        """Return the columns of a subset of these bins."""
        columns = []
        for (a, b), (c, d) in zip(pairwise(self.offsets), pairwise(others.offsets), strict=True):
            numbers, _ = numbered_keys(np.concatenate([self.keys[a:b], others.keys[c:d]]))
            columns.append(numbers[b - a :] + (a - 1))
        return BinColumns(others.offsets, np.concatenate(columns), self.offsets)


@dataclass(frozen=True)
class BinColumns:
    """The columns of the bins of a block of rows in the feature matrix of all rows.

    Bin b of grid r of the block has the column ``columns[offsets[r] + b - 1]``; the columns of grid
    r start at ``starts[r]``. This takes 8 bytes per bin, and the codes of the rows need no change.
    """

    offsets: IntArray = field(repr=False)
    columns: IntArray = field(repr=False)
    starts: IntArray = field(repr=False)

    def renumber(self, codes: AnyArray) -> AnyArray:
        """Convert codes (n_grids, n_rows) of the block's bins to codes of the bins of all rows."""
        kind = code_type(self.starts)
        result = padded_rows(codes.shape, kind)
        grids = zip(result, codes, pairwise(self.offsets), self.starts[:-1], strict=True)
        for row, old, (a, b), start in grids:
            numbers = np.zeros(b - a + 1, kind)
            numbers[1:] = self.columns[a:b] - start + 1
            renumber(old, numbers, row)
        return result


class SomeColumns(FeatureMatrix):
    """The features of a block in the columns of all bins, given the block's matrix at scale 1.

    Copies of weights and sums, one number per bin of the block, are arrays of the workspace. The
    products are scaled in the same order as in a matrix of all bins, because iterations amplify a
    difference in the last bit.
    """

    def __init__(
        self, matrix: FeatureMatrix, columns: BinColumns, scale: float, work: Workspace
    ) -> None:
        self.matrix, self.columns, self.scale, self.work = matrix, columns, scale, work
        self.n_jobs = matrix.n_jobs

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[0], int(self.columns.starts[-1])

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes + self.columns.columns.nbytes

    def _matvec(self, w: Vector, out: Vector) -> None:
        weights = self._workspace("block weights", w)
        # With the mode "clip", np.take writes to the output without a buffer.
        np.take(_flat(w), self.columns.columns, axis=0, out=_flat(weights), mode="clip")
        self.matrix.matvec(weights, out)
        out *= self.scale

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        sums = self._workspace("block sums", v)
        scaled = np.multiply(v, self.scale, out=self.work.empty("scaled", v.shape))
        self.matrix.rmatvec(scaled, sums)
        out[:] = 0.0
        _flat(out)[self.columns.columns] = _flat(sums)

    def _workspace(self, name: str, like: Vector) -> Vector:
        return self.work.empty(name, (self.matrix.shape[1], *like.shape[1:]))

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        result = np.zeros(self.shape[1])
        result[self.columns.columns] = self.matrix.gram_diagonal(weights) * self.scale**2
        return result

    def take_rows(self, rows: Rows) -> SomeColumns:
        return SomeColumns(self.matrix.take_rows(rows), self.columns, self.scale, self.work)


def _flat(values: Vector) -> Vector:
    """Return a single column as a vector, which NumPy indexes three times as fast."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def code_type(offsets: IntArray) -> CodeType:
    """Return the smallest type of codes for grids whose columns start at ``offsets``."""
    max_bins = int(np.diff(offsets).max(initial=0))
    return np.uint8 if max_bins < 2**8 else np.uint16 if max_bins < 2**16 else np.uint32
