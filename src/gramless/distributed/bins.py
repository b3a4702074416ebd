"""Tables of bins of several blocks of rows, merged so that bins have the numbers of one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from gramless.base.arrays import padded_rows
from gramless.base.types import AnyArray, IntArray
from gramless.features.grids import CodeType
from gramless.loops.renumber import renumber


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
            together = np.concatenate(own)
            _, first = np.unique(together, return_index=True)
            found.append(together[np.sort(first)])
        return cls.of_counts(np.concatenate(found), np.array([len(own) for own in found]))

    @property
    def n_bins(self) -> IntArray:
        """Number of bins of each grid."""
        return np.diff(self.offsets)

    @property
    def code_type(self) -> CodeType:
        """The smallest type of codes that holds the numbers of all bins."""
        most = int(self.n_bins.max(initial=0))
        return np.uint8 if most < 2**8 else np.uint16 if most < 2**16 else np.uint32

    def sorted(self) -> SortedKeys:
        """Return the keys in a form to look them up."""
        orders = [np.argsort(self.keys[a:b], kind="stable") for a, b in pairwise(self.offsets)]
        return SortedKeys(self, np.concatenate(orders).astype(np.uint32))


@dataclass(frozen=True)
class SortedKeys:
    """Keys of bins, and the order of the keys of each grid by size."""

    bins: BinKeys
    order: AnyArray = field(repr=False)

    def places(self, others: BinKeys) -> list[IntArray]:
        """Return, by grid, the places among these keys of others, all of which are among them."""
        found = []
        for (a, b), (c, d) in zip(
            pairwise(self.bins.offsets), pairwise(others.offsets), strict=True
        ):
            order = self.order[a:b]
            near = np.searchsorted(self.bins.keys[a:b], others.keys[c:d], sorter=order)
            found.append(order[near].astype(np.int64))
        return found

    def renumbered(self, codes: AnyArray, own: BinKeys) -> AnyArray:
        """Return codes (n_grids, n_rows) by these numbers of bins, given those by their own."""
        kind = self.bins.code_type
        result = padded_rows(codes.shape, kind)
        for row, old, places in zip(result, codes, self.places(own), strict=True):
            numbers = np.zeros(len(places) + 1, kind)
            numbers[1:] = places + 1
            renumber(old, numbers, row)
        return result
