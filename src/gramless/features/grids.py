"""Random grids and their known bins: rows in, bin numbers out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.arrays import padded_rows, writable_flat_rows
from gramless.base.cached import cached_property
from gramless.base.errors import InputError
from gramless.base.lazy_rows import LazyRows, OrderedRows
from gramless.base.mapped import MappedBlock
from gramless.base.numeric import in_range
from gramless.base.random import streams
from gramless.base.state import State, array_in, number_in, require
from gramless.base.threads import map_blocks, row_blocks, thread_count
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.features.packing import ColumnPlan, PackedBlock, block_rows, pack_block, plan_columns
from gramless.kernels import BinningKernel
from gramless.loops import binning as loops
from gramless.loops.binning import FIRST_BITS, GROUP
from gramless.loops.packing import TILE
from gramless.matrices.codes import bytes_of_codes
from gramless.matrices.stored import code_file, rows_of_block
from gramless.preprocessing.rows import Rows, check_width

_LEAST_BITS = 4
"""Bits of an index whose bins are all known."""
_FIRST_ROOM = 2048
# Not a multiple of a large power of two, so that differences of far cells are none either.
_MAX_CELL = 1e18
SHORT_HASH = 24
"""Lowest bits of the keys of grown grids that are zero: of 5 bytes, two bins share one with
probability 2^-39, and a bin never seen has that of a known one with some 2^-40 a bin."""
_MAX_SHORT_CELL = float(0x5555555555)
"""Below 2^39, because short hashes know cells modulo 2^40. No power of two is near: in hashes of
two columns, differences of cells that are multiples of 2^39 would cancel out."""
_MAX_LONG_CELL = 2.0**62
_FARTHEST = 1e100
"""The largest term of a combination of inputs, lest sums overflow."""
_MOST_REMEMBERED = 4
"""Sets of columns whose parameters a group of grids keeps beside its own."""

_COLLIDING = (
    "the rows fall into bins whose hashes collide more than 500 times: rows do so only if they are "
    "made for this random_state; use another one."
)

_NO_PARAMETERS = np.empty((0, loops.GROUP))
_NO_CONTRIBUTIONS = np.empty((0, loops.GROUP), np.int64)
_NO_SPARSE: tuple[tuple[AnyArray, ...], AnyArray] = (
    (_NO_PARAMETERS, _NO_PARAMETERS, _NO_CONTRIBUTIONS, _NO_PARAMETERS),
    _NO_CONTRIBUTIONS,
)

BlockArguments: TypeAlias = tuple[
    int,
    FloatArray,
    NDArray[np.int32],
    IntArray,
    tuple[IntArray, IntArray, FloatArray],
    tuple[AnyArray, ...],
    tuple[tuple[AnyArray, ...], AnyArray],
    IntArray,
]
"""Number of rows, tiles, patterns and what these add, CSR parts; parameters of dense and of sparse
columns; offsets."""


@dataclass(frozen=True)
class GridGroup:
    """Up to eight grids: inverse widths, shifts, the multipliers and offsets of their hash."""

    inverse_widths: FloatArray
    shifts: FloatArray
    multipliers: IntArray
    offsets: IntArray

    def prepare(self, block: PackedBlock) -> BlockArguments:
        """Return the arguments of :mod:`gramless.loops.binning` for a block."""
        sparse, offsets, n_sparse = _NO_SPARSE, self._wide_offsets, len(block.sparse)
        if n_sparse == self.shifts.shape[1]:
            sparse = self._wide, self._zero_keys
        elif n_sparse > 0:
            sparse = self._columns(block.sparse), self._zero_keys[block.sparse]
        if n_sparse > 0:
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
    def _wide(self) -> tuple[AnyArray, ...]:
        """The parameters as (n_features, GROUP), padded with grids of a single cell."""
        limits = limits_of_cells(self.inverse_widths, self.shifts, self.multipliers)
        parts = (self.inverse_widths, self.shifts, self.multipliers, limits)
        return tuple(_filled_up(part.T) for part in parts)

    @cached_property
    def _wide_offsets(self) -> IntArray:
        return _filled_up(self.offsets)

    @cached_property
    def _zero_keys(self) -> IntArray:
        """What the zeros of each column add to the keys."""
        inverse, shifts, multipliers, limits = self._wide
        cells = np.floor(np.clip((0.0 - shifts) * inverse, -limits, limits))
        return multipliers * cells.astype(np.int64)

    def _columns(self, columns: IntArray) -> tuple[AnyArray, ...]:
        # Rows that come one by one ask for the same columns.
        known, key = self._of_columns, columns.tobytes()
        found = known.get(key)
        if found is None:
            found = tuple(part[columns] for part in self._wide)
            if len(known) >= _MOST_REMEMBERED:
                known.clear()
            known[key] = found
        return found

    @cached_property
    def _of_columns(self) -> dict[bytes, tuple[AnyArray, ...]]:
        return {}

    def _contributions(self, block: PackedBlock) -> IntArray:
        """Tabulate what each pattern adds to the keys of each grid."""
        parts = []
        for columns, values in block.patterns:
            none = np.zeros((len(values), loops.GROUP), np.int64)
            parts.append(np.empty(none.T.shape, np.int64))
            loops.add_cells(values, self._columns(columns), none, parts[-1])
        return np.ascontiguousarray(np.concatenate(parts, axis=1).T)


@dataclass
class BinTables:
    """The known bins of a group of grids, found by their keys: some 20 bytes a bin.

    Row g of ``table`` lists the keys of the bins of grid g in order of first appearance (entry 0
    stands for "never seen"); the first ``2**bits[g]`` entries of row g of ``slots`` are an
    open-addressing index into it.
    """

    counts: IntArray
    bits: IntArray
    table: IntArray = field(repr=False)
    slots: AnyArray = field(repr=False)

    @classmethod
    def empty(cls, n_grids: int, n_rows: int = _FIRST_ROOM) -> BinTables:
        """Return tables that know no bin, with room for those of some rows, if these are few."""
        room = min(_FIRST_ROOM, n_rows + 1 + TILE)
        first_bits = min(FIRST_BITS, loops.slot_bits(n_rows, _LEAST_BITS))
        table, slots = _room(n_grids, room, loops.slot_bits(room - 1, first_bits))
        slots[:, : 1 << first_bits] = 0
        bits = np.full(n_grids, first_bits, np.int64)
        return cls(np.zeros(n_grids, np.int64), bits, table, slots)

    @classmethod
    def from_keys(cls, keys: list[IntArray]) -> BinTables:
        """Rebuild the tables from the keys of each grid's bins, in bin order."""
        counts = np.array([len(own) for own in keys], np.int64)
        bits = np.array([_fewest_bits(len(own)) for own in keys], np.int64)
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

    def keys(self, g: int) -> IntArray:
        """Return the keys of the bins of grid ``g`` of the group, in bin order."""
        return self.table[g, 1 : self.counts[g] + 1]

    def learn(self, group: GridGroup, block: PackedBlock, codes: AnyArray) -> bool:
        """Number the bins of ``block`` into ``codes`` (n_grids, n_rows), adding new ones.

        Returns False when a bin number did not fit the type of ``codes``: the new bins are known
        then, and :meth:`find` into a wider type gives them.
        """
        arguments, room = group.prepare(block), room_for_keys(block)
        tile, most, flat = 0, np.full(len(self.counts), _MOST_BINS), writable_flat_rows(codes)
        while tile < len(block.tiles):
            if tile > 0 or int(self.counts.max()) + block.tiles.shape[1] >= self.table.shape[1]:
                self._enlarge()
            tables = self.slots, self.bits, self.table, self.counts
            tile = loops.number_block(tile, *arguments, *tables, most, *flat, *room)
            if tile < 0:
                raise InputError(_COLLIDING)
        return bool(self.counts.max() <= np.iinfo(codes.dtype).max)

    def find(
        self,
        group: GridGroup,
        block: PackedBlock,
        codes: AnyArray,
        room: tuple[IntArray, IntArray],
    ) -> None:
        """Look up the bins of ``block`` into ``codes`` (n_grids, n_rows); 0 if never seen."""
        tables = self.slots, self.bits, self.table, self.counts
        flat = writable_flat_rows(codes)
        loops.number_block(0, *group.prepare(block), *tables, self.counts, *flat, *room)

    def _enlarge(self) -> None:
        """Make room for twice as many bins."""
        n_bins = 2 * self.table.shape[1]
        table, slots = _room(len(self.counts), n_bins, loops.slot_bits(n_bins - 1, FIRST_BITS))
        for g, count in enumerate(self.counts):
            table[g, : count + 1] = self.table[g, : count + 1]
            slots[g, : 1 << self.bits[g]] = self.slots[g, : 1 << self.bits[g]]
        self.table, self.slots = table, slots


def numbered_keys(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Return the numbers of keys in order of first appearance, from 1, and the distinct keys."""
    slots = np.empty(1 << loops.slot_bits(len(keys), FIRST_BITS), np.int32)
    found, numbers = np.empty(len(keys) + 1, np.int64), np.empty(len(keys), np.int64)
    count = loops.number_keys(keys, slots, found, numbers)
    if count < 0:
        raise InputError(_COLLIDING)
    return numbers, found[1 : count + 1]


def _fewest_bits(n_bins: int) -> int:
    """Return the bits of an index that does not grow: half full at most.

    A model from a file takes half the memory so, and its look-ups some 3 % longer.
    """
    return max(_LEAST_BITS, n_bins.bit_length() + 1)


def room_for_keys(block: PackedBlock) -> tuple[IntArray, IntArray]:
    """Return room for the keys of a tile of the block's rows in a group of grids."""
    width = block.tiles.shape[1]
    return np.empty((width, GROUP), np.int64), np.empty((GROUP, width), np.int64)


def cell_limits(inverse_widths: FloatArray) -> FloatArray:
    """Return the largest input of each column whose cell number fits 63 bits in every grid."""
    finest = inverse_widths.max(axis=0, initial=0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return in_range(_MAX_CELL / finest)


def limits_of_cells(
    inverse_widths: FloatArray, shifts: FloatArray, multipliers: IntArray
) -> FloatArray:
    """Return the largest number of a cell, in either direction, of each grid and column.

    Cells of categories are not clipped: in files up to version 0.2 these may have large numbers.
    """
    is_category = (inverse_widths == 1.0) & (shifts == 0.5)
    is_short = (multipliers & ((1 << SHORT_HASH) - 1)) == 0
    return np.where(is_short & ~is_category, _MAX_SHORT_CELL, _MAX_LONG_CELL)


def _room(n_grids: int, n_bins: int, bits: int) -> tuple[IntArray, AnyArray]:
    """Return an empty table for ``n_bins`` entries a grid, and uninitialised room for its index."""
    table = np.empty((n_grids, n_bins), np.int64)
    table[:, 0] = 0
    return table, np.empty((n_grids, 1 << bits), np.int32)


def _filled_up(part: AnyArray) -> AnyArray:
    """Return a copy with ``GROUP`` entries in the last axis, padded with zeros."""
    wide = np.zeros((*part.shape[:-1], loops.GROUP), part.dtype)
    wide[..., : part.shape[-1]] = part
    return wide


_WORTH_THREADS, _WORTH_A_PLAN = 1 << 15, 1 << 24
"""Codes that several threads look up; rows times columns times grids that are worth a plan,
which takes a millisecond or two of one thread."""
CodeType = type[np.unsignedinteger]

_MOST_BINS, _MOST_SCALE = 2**31 - 2, 1e3
_WORTH_8_BITS = 1 << 20
"""Number of codes from which 8 bits pay; fewer stay in 16, which spares a compilation."""
_SIGN = np.uint64(1 << 63)
_ALL_ROWS = 2**63 - 1


@dataclass(frozen=True)
class Grids:
    """R random grids over d inputs, with the hashes that name their bins.

    A point lies in cell ``floor((x - shift) / width)``, see :func:`limits_of_cells`; an infinite
    width makes the grid ignore the input. Widths, shifts and the odd multipliers have the shape
    (n_grids, n_columns), offsets (n_grids,): these two are the linear hash of a cell, see
    :mod:`gramless.loops.binning`. Columns are the inputs and, behind them, the linear combinations
    of these that a ``projection`` of shape (n_features, n_directions) has; without one inputs
    alone.
    """

    widths: FloatArray
    shifts: FloatArray
    multipliers: IntArray = field(repr=False)
    offsets: IntArray = field(repr=False)
    projection: FloatArray | None = field(default=None, repr=False)

    @classmethod
    def draw(
        cls,
        kernel: BinningKernel,
        bandwidth: FloatArray,
        n_grids: int,
        seed: int,
        categorical: BoolArray | None = None,
    ) -> Grids:
        """Draw grids whose bins represent ``kernel`` (RR07, section 4).

        Grid r depends on ``(seed, r)`` alone, and another bandwidth stretches the same grids. In
        categorical inputs a grid separates all categories with probability ``1 - profile(1 /
        bandwidth)``, else it ignores the input.
        """
        raw = np.empty((n_grids, len(bandwidth) + 1), np.uint64)
        for own, cells in zip(raw, streams(seed, "cells", n_grids), strict=True):
            own[:] = cells.bit_generator.random_raw(len(own))
        hashes = (raw ^ _SIGN).view(np.int64)
        grids = streams(seed, "grids", n_grids)
        widths, shifts = kernel.sample_grids(grids, n_grids, bandwidth)
        if categorical is not None and categorical.any():
            # A grid parts 0 and 1 with the probability wanted, and then parts all numbers.
            parted = np.isfinite(widths) & (shifts <= 1.0)
            separate_categories(widths, shifts, categorical, parted[:, categorical])
        return cls(widths, shifts, hashes[:, 1:] | 1, hashes[:, 0].copy())

    @classmethod
    def joined(cls, parts: Sequence[Grids]) -> Grids:
        """Concatenate grids over the same columns."""
        return cls(
            np.concatenate([part.widths for part in parts]),
            np.concatenate([part.shifts for part in parts]),
            np.concatenate([part.multipliers for part in parts]),
            np.concatenate([part.offsets for part in parts]),
            parts[0].projection,
        )

    def __len__(self) -> int:
        return len(self.widths)

    @property
    def n_features(self) -> int:
        """Number of inputs."""
        return self.widths.shape[1] if self.projection is None else len(self.projection)

    def take(self, kept: BoolArray) -> Grids:
        """Return some of the grids."""
        return replace(
            self,
            widths=self.widths[kept],
            shifts=self.shifts[kept],
            multipliers=self.multipliers[kept],
            offsets=self.offsets[kept],
        )

    def projected(self, projection: FloatArray) -> Grids:
        """Return the same grids over inputs, with combinations of these that none divides."""
        shape = len(self), projection.shape[1]
        return replace(
            self,
            widths=np.hstack([self.widths, np.full(shape, np.inf)]),
            shifts=np.hstack([self.shifts, np.zeros(shape)]),
            multipliers=np.hstack([self.multipliers, np.full(shape, 1 << SHORT_HASH)]),
            projection=projection,
        )

    def columns(self, X: Rows) -> Rows:
        """Return the columns of rows: their inputs, and combinations of these if there are any."""
        if self.projection is None:
            return X
        check_width("Grids", X, self.n_features)
        widened = partial(with_combinations, projection=self.projection)
        if isinstance(X, LazyRows):
            width, dtype = self.widths.shape[1], np.dtype(np.float64)
            return OrderedRows(X, transform=widened, width=width, dtype=dtype)
        return widened(X.toarray() if sp.issparse(X) else X)

    @property
    def divides_combinations(self) -> BoolArray:
        """Which grids divide a combination of the inputs (n_grids,)."""
        return np.asarray(np.isfinite(self.widths[:, self.n_features :]).any(axis=1))

    def over_inputs(self) -> Grids:
        """Return grids that divide no combination, without the projection."""
        n_inputs = self.n_features
        return replace(
            self,
            widths=self.widths[:, :n_inputs],
            shifts=self.shifts[:, :n_inputs],
            multipliers=self.multipliers[:, :n_inputs],
            projection=None,
        )

    def learn(self, X: Rows, n_jobs: int | None = None) -> tuple[AnyArray, KnownBins]:
        """Bin the rows and number the bins of each grid in order of first appearance.

        Returns codes (n_grids, n_samples), bin numbers from 1 in the smallest of uint8, uint16 and
        uint32 that holds them (below a million codes at least uint16), and the known bins. Costs
        about ``0.14 * n_features + 1.5`` ns a row, grid and core on dense rows, less with columns
        of few values or on CSR; beside the codes 16 MB and 24 bytes a bin.
        """
        known = self._without_bins(X.shape[0], n_jobs)
        shape = len(self), X.shape[0]
        codes: AnyArray = padded_rows(shape, np.uint16)
        for start, stop, block in known.blocks(X, n_jobs):
            if not known.learn_block(block, codes[:, start:stop], n_jobs):
                # To look all rows up again takes time, but not the memory of both.
                del codes
                codes = padded_rows(shape, np.uint32)
                known.find_rows(X, codes, n_jobs, stop)
        codes = _narrowest(codes, known.n_bins)
        return codes, replace(known, code_type=codes.dtype.type)

    def learn_on_disk(
        self, X: Rows, n_jobs: int | None = None
    ) -> tuple[list[MappedBlock], KnownBins]:
        """Bin rows as :meth:`learn` does, and write the codes to a temporary file.

        A block of rows has its codes in the type that the bins need which were known after it.
        """
        n_rows, n_grids = X.shape[0], len(self)
        known = self._without_bins(n_rows, n_jobs)
        file = code_file(bytes_of_codes(n_rows, n_grids))
        kind: CodeType = np.uint16
        for start, stop, block in known.blocks(X, n_jobs, rows_of_block(n_grids)):
            codes = padded_rows((n_grids, stop - start), kind)
            if not known.learn_block(block, codes, n_jobs):
                kind = np.uint32
                codes = padded_rows(codes.shape, kind)
                known.find_block(block, codes, n_jobs)
            needed = _code_type(known.n_bins, n_rows * n_grids)
            own = min(needed, kind, key=lambda one: np.iinfo(one).bits)
            file.append(codes.astype(own, copy=False))
        kind = _code_type(known.n_bins, n_rows * n_grids)
        offsets = np.append(0, np.cumsum(known.n_bins))
        # Without the room for more bins, which takes 24 kB a grid.
        return file.blocks(), KnownBins.from_keys(self, known.keys(), offsets, kind)

    def _without_bins(self, n_rows: int, n_jobs: int | None) -> KnownBins:
        # A few grids are shared out among all threads.
        together = min(GROUP, max(1, -(-len(self) // thread_count(n_jobs))))
        groups = row_blocks(len(self), together)
        return KnownBins(self, [BinTables.empty(b - a, n_rows) for a, b in groups])


@dataclass(frozen=True)
class KnownBins:
    """The bins that training rows fell into, ready for look-up."""

    grids: Grids
    tables: list[BinTables] = field(repr=False)
    code_type: CodeType | None = None
    """Of the training rows, which new rows share; None if unknown."""

    @classmethod
    def from_keys(
        cls, grids: Grids, keys: IntArray, offsets: IntArray, code_type: CodeType | None = None
    ) -> KnownBins:
        """Rebuild the tables from the keys of all bins, grid after grid."""
        tables = [
            BinTables.from_keys([keys[offsets[r] : offsets[r + 1]] for r in range(a, b)])
            for a, b in row_blocks(len(grids), GROUP)
        ]
        return cls(grids, tables, code_type)

    @classmethod
    def from_arrays(
        cls, state: dict[str, Any], keys_of: Callable[[Grids, IntArray], IntArray] | None = None
    ) -> KnownBins:
        """Rebuild bins from arrays of a fitted map, of which some are taken out.

        Keys are among them, or follow from the grids and where each one's bins start.
        """
        offsets, own = state["offsets_"], (state["widths_"], state["shifts_"])
        hashes = state.pop("multipliers"), state.pop("cell_offsets")
        grids = Grids(*own, *hashes, projection=state.pop("projection", None))
        keys = state.pop("keys") if keys_of is None else keys_of(grids, offsets)
        return cls.from_keys(grids, keys, offsets)

    @staticmethod
    def check_state(state: State) -> int:
        """Check arrays of grids and their bins from a file; return the number of inputs."""
        widths = array_in(state, "widths_", np.float64, (None, None))
        require(widths.size > 0 and (widths > 0).all(), "widths_ are no widths of grids")
        array_in(state, "shifts_", np.float64, widths.shape, finite=True)
        array_in(state, "multipliers", np.int64, widths.shape)
        array_in(state, "cell_offsets", np.int64, (len(widths),))
        offsets = array_in(state, "offsets_", np.int64, (len(widths) + 1,))
        # Compared, not subtracted: differences of hostile numbers overflow.
        rising = (offsets[1:] > offsets[:-1]).all() and offsets[0] == 0
        require(rising and offsets[-1] <= len(widths) * _MOST_BINS, "offsets_ do not rise from 0")
        require(np.diff(offsets).max() <= _MOST_BINS, "a grid has too many bins")
        if "cells" not in state:
            array_in(state, "keys", np.int64, (int(offsets[-1]),))
        if "scale_" in state:
            require(number_in(state, "scale_", float, 0.0, _MOST_SCALE) > 0.0, "scale_ is 0")
        if "projection" not in state:
            return widths.shape[1]
        projection = array_in(state, "projection", np.float64, (None, None), finite=True)
        require(projection.size > 0, "projection is empty")
        require(sum(projection.shape) == widths.shape[1], "projection does not fit widths_")
        return len(projection)

    @property
    def n_bins(self) -> IntArray:
        """Number of known bins of each grid."""
        return np.concatenate([tables.counts for tables in self.tables])

    def keys(self) -> IntArray:
        """Return the keys of all bins, grid after grid: 8 bytes a bin."""
        return np.concatenate([t.keys(g) for t in self.tables for g in range(len(t.counts))])

    def find(self, X: Rows, n_jobs: int | None = None) -> AnyArray:
        """Look up the bins of rows as codes (n_grids, n_samples); 0 for a bin never seen."""
        shape = len(self.grids), X.shape[0]
        kind = self.code_type or _code_type(self.n_bins, shape[0] * shape[1])
        codes = padded_rows(shape, kind)
        self.find_rows(X, codes, 1 if codes.size < _WORTH_THREADS else n_jobs)
        return codes

    def find_rows(
        self, X: Rows, codes: AnyArray, n_jobs: int | None, n_rows: int | None = None
    ) -> None:
        """Look up the bins of all rows, or of the first, into the first columns of ``codes``."""
        for start, stop, block in self.blocks(X, n_jobs):
            if n_rows is not None and start >= n_rows:
                break
            self.find_block(block, codes[:, start:stop], n_jobs)

    def blocks(
        self, X: Rows, n_jobs: int | None, most: int = _ALL_ROWS
    ) -> Iterator[tuple[int, int, PackedBlock]]:
        """Yield ``(start, stop, packed block)`` over the rows, at most so many at a time."""
        check_width("Grids", X, self.grids.n_features)
        X = self.grids.columns(X)
        plan = self._plan(X)
        for start, stop in row_blocks(X.shape[0], min(block_rows(plan.width), most)):
            yield start, stop, pack_block(X, start, stop, plan, self._limits, n_jobs)

    def _plan(self, X: Rows) -> ColumnPlan:
        """Return the layout of the rows; a plain one where a plan would take longer than it saves.

        Growth bins a dozen grids a round.
        """
        n_cells = X.shape[0] * len(self._divided) * len(self.grids)
        if n_cells < _WORTH_A_PLAN and not sp.issparse(X):
            return ColumnPlan(self._divided, (), np.empty(0, np.int64))
        return plan_columns(X, self._divided)

    def learn_block(self, block: PackedBlock, codes: AnyArray, n_jobs: int | None) -> bool:
        """Number the bins of one packed block, see :meth:`BinTables.learn`."""
        if block.clipped:
            raise InputError(
                "rows hold numbers more than 1e18 cells away from 0: use a larger bandwidth, "
                "scaling='quantile', or remove the outliers."
            )

        def learn(tables: BinTables, group: GridGroup, a: int, b: int) -> bool:
            return tables.learn(group, block, codes[a:b])

        return all(map_blocks(learn, self._groups, n_jobs))

    def find_block(self, block: PackedBlock, codes: AnyArray, n_jobs: int | None) -> None:
        """Look up one packed block."""

        def find(first: int, last: int) -> None:
            room = room_for_keys(block)
            for tables, group, a, b in self._groups[first:last]:
                tables.find(group, block, codes[a:b], room)

        n_groups = len(self._groups)
        # One thread makes room once: for a few rows that takes as long as to look them up.
        together = n_groups if thread_count(n_jobs) == 1 else 1
        map_blocks(find, row_blocks(n_groups, together), n_jobs)

    @cached_property
    def _groups(self) -> list[tuple[BinTables, GridGroup, int, int]]:
        """Each group's tables and grids, and the range of its grids."""
        own = self.grids
        parts: list[AnyArray] = [1.0 / own.widths, own.shifts, own.multipliers, own.offsets]
        ends = np.cumsum([0, *(len(tables.counts) for tables in self.tables)]).tolist()
        return [
            (tables, GridGroup(*(part[a:b] for part in parts)), a, b)
            for tables, (a, b) in zip(self.tables, pairwise(ends), strict=True)
        ]

    @cached_property
    def _divided(self) -> IntArray:
        """The columns that some grid divides."""
        return np.flatnonzero(np.isfinite(self.grids.widths).any(axis=0))

    @cached_property
    def _limits(self) -> FloatArray:
        """The largest input of each column whose cells can be numbered."""
        return cell_limits(1.0 / self.grids.widths)


def divided_inputs(widths: FloatArray, projection: FloatArray | None) -> BoolArray:
    """Return which inputs each grid divides, alone or in combinations (n_grids, n_features)."""
    divided = np.isfinite(widths)
    if projection is None:
        return divided
    n_inputs = len(projection)
    parts: BoolArray = divided[:, n_inputs:] @ (projection != 0.0).T
    return divided[:, :n_inputs] | parts


def with_combinations(X: AnyArray, projection: FloatArray) -> FloatArray:
    """Return rows in float64, and behind their inputs the combinations that a projection has.

    Terms are added one after the other, so that a row has the same bits wherever it is computed;
    none counts beyond 1e100.

    Examples
    --------
    >>> with_combinations(np.array([[1.0, 2.0]]), np.array([[1.0], [-1.0]]))
    array([[ 1.,  2., -1.]])
    """
    n_inputs = X.shape[1]
    out = np.zeros((len(X), n_inputs + projection.shape[1]), order="F")
    out[:, :n_inputs] = X
    with np.errstate(over="ignore"):
        for j in np.flatnonzero((projection != 0.0).any(axis=1)):
            for k, factor in enumerate(projection[j].tolist(), n_inputs):
                if factor != 0.0:
                    out[:, k] += np.clip(out[:, j] * factor, -_FARTHEST, _FARTHEST)
    return out


def separate_categories(
    widths: FloatArray, shifts: FloatArray, categorical: BoolArray, parted: BoolArray
) -> None:
    """Give each category a cell of its own where grids are ``parted``, else all the same one."""
    widths[:, categorical] = np.where(parted, 1.0, np.inf)
    shifts[:, categorical] = np.where(parted, 0.5, 0.0)


def _code_type(n_bins: IntArray, n_codes: int) -> CodeType:
    largest = int(n_bins.max(initial=0))
    if largest < 2**8 and n_codes >= _WORTH_8_BITS:
        return np.uint8
    return np.uint16 if largest < 2**16 else np.uint32


def _narrowest(codes: AnyArray, n_bins: IntArray) -> AnyArray:
    wanted = _code_type(n_bins, codes.size)
    if codes.dtype == wanted:
        return codes
    narrow = padded_rows(codes.shape, wanted)
    narrow[...] = codes
    return narrow
