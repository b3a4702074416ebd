"""The grids of a random binning map and the tables of their known bins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.cached import cached_property
from gramless.base.errors import InputError
from gramless.features.packing import PackedBlock
from gramless.loops import binning as loops

_FIRST_BITS, _LEAST_BITS = 12, 4
"""Of an index that is to grow, and of one whose bins are all known."""
_FIRST_ROOM = 2048
_MAX_CELL = 2.0**60

_NO_CONTRIBUTIONS = np.empty((0, loops.GROUP), np.int64)
_NO_SPARSE = (
    (np.empty((0, loops.GROUP)), np.empty((0, loops.GROUP)), _NO_CONTRIBUTIONS),
    _NO_CONTRIBUTIONS,
)


@dataclass(frozen=True)
class GridGroup:
    """Up to eight grids: their cells' widths and shifts, and their hash.

    Attributes
    ----------
    inverse_widths, shifts : arrays (n_grids, n_features) of float64
    multipliers : array (n_grids, n_features) of int64, odd
    offsets : array (n_grids,) of int64
    """

    inverse_widths: NDArray[np.float64]
    shifts: NDArray[np.float64]
    multipliers: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def prepare(self, block: PackedBlock) -> tuple[Any, ...]:
        """Return the arguments that :mod:`gramless.loops.binning` wants for ``block``."""
        sparse: tuple[Any, ...] = _NO_SPARSE
        offsets = self._wide_offsets
        if len(block.sparse) > 0:
            sparse = self._sparse(block.sparse)
            offsets = offsets + sparse[1].sum(axis=0)
        return (
            block.n_rows,
            block.tiles,
            block.ids,
            self._contributions(block) if block.patterns else _NO_CONTRIBUTIONS,
            (block.indptr, block.indices, block.values),
            self._wide if block.all_tiled else self._columns(block.tiled),
            sparse,
            offsets,
        )

    @cached_property
    def _wide(self) -> tuple[NDArray[Any], ...]:
        """The parameters as (n_features, GROUP), filled up with grids of one cell."""
        parts = (self.inverse_widths, self.shifts, self.multipliers)
        return tuple(_filled_up(part.T) for part in parts)

    @cached_property
    def _wide_offsets(self) -> NDArray[np.int64]:
        return _filled_up(self.offsets)

    def _sparse(self, columns: NDArray[np.int64]) -> tuple[tuple[NDArray[Any], ...], NDArray]:
        """Return the parameters of sparse columns, and what their zeros add to the keys."""
        if len(columns) == self.shifts.shape[1]:
            return self._all_sparse
        parts = self._columns(columns)
        return parts, _keys_of_zeros(*parts)

    @cached_property
    def _all_sparse(self) -> tuple[tuple[NDArray[Any], ...], NDArray]:
        # Of many columns, as sparse rows have: their blocks are many too.
        return self._wide, _keys_of_zeros(*self._wide)

    def _columns(self, columns: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        return tuple(part[columns] for part in self._wide)

    def _contributions(self, block: PackedBlock) -> NDArray[np.int64]:
        """Tabulate what each pattern adds to the keys of each grid."""
        parts = []
        for columns, values in block.patterns:
            none = np.zeros((len(values), loops.GROUP), np.int64)
            parts.append(np.empty(none.T.shape, np.int64))
            loops.add_cells(values, self._columns(columns), none, parts[-1])
        return np.ascontiguousarray(np.concatenate(parts, axis=1).T)


@dataclass
class BinTables:
    """The known bins of a group of grids, found by their keys.

    Row g of ``table`` lists the keys of the bins of grid g in order of first
    appearance (entry 0 stands for "never seen"); the first ``2**bits[g]``
    entries of row g of ``slots`` are an open-addressing index into it. Some 20
    bytes a bin.
    """

    counts: NDArray[np.int64]
    bits: NDArray[np.int64]
    table: NDArray[np.int64] = field(repr=False)
    slots: NDArray[np.int32] = field(repr=False)

    @classmethod
    def empty(cls, n_grids: int) -> BinTables:
        """Return tables that know no bin."""
        return cls(
            np.zeros(n_grids, np.int64),
            np.full(n_grids, _FIRST_BITS, np.int64),
            *_room(n_grids, _FIRST_ROOM, loops.slot_bits(_FIRST_ROOM - 1, _FIRST_BITS)),
        )

    @classmethod
    def from_keys(cls, keys: list[NDArray[np.int64]]) -> BinTables:
        """Rebuild the tables from the keys of each grid's bins, in bin order.

        Raises
        ------
        InputError
            If bins of a grid have one key, or keys that are made to collide.
        """
        counts = np.array([len(own) for own in keys], np.int64)
        bits = np.full(len(keys), _LEAST_BITS)
        loops.fewest_bits(counts, bits)
        tables = cls(counts, bits, *_room(len(keys), int(counts.max()) + 1, int(bits.max())))
        for own, row in zip(keys, tables.table, strict=True):
            row[1 : len(own) + 1] = own
        indexed = loops.index_bins(tables.table, counts, tables.slots, bits)
        if indexed < len(keys):
            raise InputError(
                f"of {counts[indexed]} bins of a grid two have the same key, or hundreds have "
                f"keys that collide; learn the bins from rows again."
            )
        return tables

    def keys(self, g: int) -> NDArray[np.int64]:
        """Return the keys of the bins of grid ``g`` of the group, in bin order."""
        return self.table[g, 1 : self.counts[g] + 1]

    def learn(self, group: GridGroup, block: PackedBlock, codes: NDArray) -> bool:
        """Number the bins of ``block`` into ``codes`` (n_grids, n_rows), adding new ones.

        Returns False when a bin number did not fit the type of ``codes``: the
        new bins are known then, and :meth:`find` into a wider type gives them.

        Raises
        ------
        InputError
            If hundreds of bins collide in the tables, as only keys made to do so do.
        """
        arguments = group.prepare(block)
        tile = 0
        while tile < len(block.tiles):
            if tile > 0 or int(self.counts.max()) + block.tiles.shape[1] >= self.table.shape[1]:
                self._enlarge()
            tile = loops.learn_block(
                tile, *arguments, self.slots, self.bits, self.table, self.counts, codes
            )
            if tile < 0:
                raise InputError(
                    f"the rows fall into bins whose hashes collide more than 500 times, "
                    f"{int(self.counts.max())} bins in: rows do so only if they are made for this "
                    f"random_state; use another one."
                )
        return bool(self.counts.max() <= np.iinfo(codes.dtype).max)

    def find(self, group: GridGroup, block: PackedBlock, codes: NDArray) -> None:
        """Look up the bins of ``block`` into ``codes`` (n_grids, n_rows); 0 if never seen."""
        loops.find_block(
            *group.prepare(block), self.slots, self.bits, self.table, self.counts, codes
        )

    def _enlarge(self) -> None:
        """Make room for twice as many bins; where pages are huge, unused room is held too."""
        n_bins = 2 * self.table.shape[1]
        table, slots = _room(len(self.counts), n_bins, loops.slot_bits(n_bins - 1, _FIRST_BITS))
        for g, count in enumerate(self.counts):
            table[g, : count + 1] = self.table[g, : count + 1]
            slots[g, : 1 << self.bits[g]] = self.slots[g, : 1 << self.bits[g]]
        self.table, self.slots = table, slots


def cell_limits(inverse_widths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest input of each column whose cell number fits 63 bits in every grid."""
    finest = inverse_widths.max(axis=0, initial=0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return np.minimum(_MAX_CELL / finest, np.finfo(np.float64).max)


def _keys_of_zeros(inverse: NDArray, shifts: NDArray, multipliers: NDArray) -> NDArray:
    return multipliers * np.floor((0.0 - shifts) * inverse).astype(np.int64)


def _room(n_grids: int, n_bins: int, bits: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return an empty table for ``n_bins`` entries a grid, one never used, and room for its index.

    Only what an empty index reads is set: what is not used yet costs neither
    time nor, mostly, memory.
    """
    table = np.empty((n_grids, n_bins), np.int64)
    slots = np.empty((n_grids, 1 << bits), np.int32)
    table[:, 0] = 0
    slots[:, : 1 << _FIRST_BITS] = 0
    return table, slots


def _filled_up(part: NDArray[Any]) -> NDArray[Any]:
    """Return a copy with ``GROUP`` entries in the last axis, zeros beyond the given ones."""
    wide = np.zeros((*part.shape[:-1], loops.GROUP), part.dtype)
    wide[..., : part.shape[-1]] = part
    return wide
