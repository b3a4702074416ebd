"""Tables of bins of several blocks of rows, merged so that bins have the numbers of one pass."""

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
    """The keys of bins, grid after grid, those of a grid in order of first appearance."""

    keys: IntArray = field(repr=False)
    offsets: IntArray = field(repr=False)

    @classmethod
    def of_counts(cls, keys: IntArray, n_bins: IntArray) -> BinKeys:
        """Return the keys of grids with so many bins."""
        return cls(keys, np.append(0, np.cumsum(n_bins)))

    @classmethod
    def merged(cls, parts: Sequence[BinKeys]) -> BinKeys:
        """Return all keys in order of first appearance, if the rows of the parts follow each other.

        Merging is associative: however parts are grouped, the result is the same.
        """
        found = []
        for ranges in zip(*(pairwise(part.offsets) for part in parts), strict=True):
            own = [part.keys[a:b] for part, (a, b) in zip(parts, ranges, strict=True)]
            found.append(numbered_keys(np.concatenate(own))[1])
        return cls.of_counts(np.concatenate(found), np.array([len(own) for own in found]))

    @property
    def n_bins(self) -> IntArray:
        """Number of bins of each grid."""
        return np.diff(self.offsets)

    def columns(self, others: BinKeys) -> BinColumns:
        """Return which of the columns of these bins are those of others, which are among them."""
        found = []
        for (a, b), (c, d) in zip(pairwise(self.offsets), pairwise(others.offsets), strict=True):
            numbers, _ = numbered_keys(np.concatenate([self.keys[a:b], others.keys[c:d]]))
            found.append(numbers[b - a :] + (a - 1))
        return BinColumns(others.offsets, np.concatenate(found), self.offsets)


@dataclass(frozen=True)
class BinColumns:
    """The columns of the bins of a block of rows, among those of the bins of all rows.

    Bin b of grid r of the block has the column ``columns[offsets[r] + b - 1]``; those of the grid
    start at ``starts[r]``. These are 8 bytes a bin, and the codes of rows stay as they were found.
    """

    offsets: IntArray = field(repr=False)
    columns: IntArray = field(repr=False)
    starts: IntArray = field(repr=False)

    def renumbered(self, codes: AnyArray) -> AnyArray:
        """Return codes (n_grids, n_rows) by the numbers of all bins, given those by the block's."""
        kind = code_type(self.starts)
        result = padded_rows(codes.shape, kind)
        grids = zip(result, codes, pairwise(self.offsets), self.starts[:-1], strict=True)
        for row, old, (a, b), start in grids:
            numbers = np.zeros(b - a + 1, kind)
            numbers[1:] = self.columns[a:b] - start + 1
            renumber(old, numbers, row)
        return result


class SomeColumns(FeatureMatrix):
    """The features of a block's bins among those of all bins, given their matrix at scale 1.

    Copies of weights and sums, one number a bin of the block, are arrays of the workspace. Numbers
    are scaled as in a matrix of all bins: iterations make much of a difference in the last bit.
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
        own = self._room("own weights", w)
        # NumPy fills an array directly where it need not report places that do not exist.
        np.take(_flat(w), self.columns.columns, axis=0, out=_flat(own), mode="clip")
        self.matrix.matvec(own, out)
        out *= self.scale

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        own = self._room("own sums", v)
        scaled = np.multiply(v, self.scale, out=self.work.empty("scaled", v.shape))
        self.matrix.rmatvec(scaled, own)
        out[:] = 0.0
        _flat(out)[self.columns.columns] = _flat(own)

    def _room(self, name: str, like: Vector) -> Vector:
        return self.work.empty(name, (self.matrix.shape[1], *like.shape[1:]))

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        wide = np.zeros(self.shape[1])
        wide[self.columns.columns] = self.matrix.gram_diagonal(weights) * self.scale**2
        return wide

    def take_rows(self, rows: Rows) -> SomeColumns:
        return SomeColumns(self.matrix.take_rows(rows), self.columns, self.scale, self.work)


def _flat(values: Vector) -> Vector:
    """Return a single column as a vector, which NumPy indexes three times as fast."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def code_type(offsets: IntArray) -> CodeType:
    """Return the smallest type of codes for the bins of grids, whose columns start there."""
    most = int(np.diff(offsets).max(initial=0))
    return np.uint8 if most < 2**8 else np.uint16 if most < 2**16 else np.uint32
