"""Random grids, and look-up of the bins that contain rows."""

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
from gramless.base.errors import InputError
from gramless.base.lazy_rows import LazyRows, MappedBlock, OrderedRows
from gramless.base.numeric import clip_infinities
from gramless.base.random import streams
from gramless.base.state import State, array_in, number_in, require
from gramless.base.threads import cached_property, map_blocks, row_blocks, thread_count
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.features.packing import ColumnPlan, PackedBlock, block_rows, pack_block, plan_columns
from gramless.kernels import BinningKernel
from gramless.loops import binning as loops
from gramless.loops.binning import FIRST_BITS, GROUP
from gramless.loops.packing import TILE
from gramless.matrices.codes import bytes_of_codes
from gramless.matrices.stored import code_file, rows_of_block
from gramless.preprocessing.rows import Rows, check_width

_MIN_INDEX_BITS = 4
_INITIAL_CAPACITY = 2048  # bins of a grid in new tables
# Not a multiple of a large power of two: differences between far cells would be multiples too, and
# their hashes would collide.
_MAX_CELL = 1e18
# Number of lowest bits of the keys of grown grids that are zero. With the other 40 bits, two bins
# have the same key with probability 2^-39, and an unseen bin has the key of a known bin with
# probability 2^-40 per known bin.
SHORT_HASH = 24
# Below 2^39, because short hashes are of cells modulo 2^40, and not near a power of two: in hashes
# of two columns, differences of cells that are multiples of 2^39 would cancel.
_MAX_SHORT_CELL = float(0x5555555555)
_MAX_LONG_CELL = 2.0**62
# Terms of combinations of inputs are clipped to this size; sums of larger terms could overflow.
_MAX_TERM = 1e100
_MAX_CACHED_COLUMNS = 4  # sets of columns whose parameters a group of grids caches
_MIN_THREADED_CODES = 1 << 15
# Grids that divide fewer columns each are faster from tiles, of which they read only these columns.
_MIN_PLANNED_COLUMNS = 6
# Cells from which a plan of the columns saves more than the one or two milliseconds that it takes.
_MIN_PLANNED_CELLS = 1 << 24
# Fewer codes stay in 16 bits, because the loops for 8 bits would have to be compiled first.
_MIN_8_BIT_CODES = 1 << 20
# From here on, the codes of a fit have several types if that saves memory.
_MIN_MIXED_CODES = 1 << 27
_MAX_BINS, _MAX_SCALE = 2**31 - 2, 1e3
_SIGN = np.uint64(1 << 63)
_ALL_ROWS = 2**63 - 1

_COLLISIONS = (
    "more than 500 hashes of bins collide, which happens only if rows are constructed for this "
    "random_state; use another one."
)

_NO_PARAMETERS = np.empty((0, loops.GROUP))
_NO_CONTRIBUTIONS = np.empty((0, loops.GROUP), np.int64)
_NO_SPARSE: tuple[tuple[AnyArray, ...], AnyArray] = (
    (_NO_PARAMETERS, _NO_PARAMETERS, _NO_CONTRIBUTIONS, _NO_PARAMETERS),
    _NO_CONTRIBUTIONS,
)

CodeType = type[np.unsignedinteger]
# Number of rows; tiles and their largest values; pattern of each row; keys of the patterns; CSR
# parts; parameters of dense and of sparse columns; offsets of the hashes.
BlockArguments: TypeAlias = tuple[
    int,
    FloatArray,
    FloatArray,
    NDArray[np.int32],
    IntArray,
    tuple[IntArray, IntArray, FloatArray],
    tuple[AnyArray, ...],
    tuple[tuple[AnyArray, ...], AnyArray],
    IntArray,
]


@dataclass(frozen=True)
class GridGroup:
    """A group of at most eight grids, whose keys are computed together by SIMD."""

    inverse_widths: FloatArray
    shifts: FloatArray
    multipliers: IntArray
    offsets: IntArray

    def prepare(self, block: PackedBlock) -> BlockArguments:
        """Return the arguments of :mod:`gramless.loops.binning` for a block."""
        sparse, offsets, n_sparse = _NO_SPARSE, self._padded_offsets, len(block.sparse)
        if n_sparse == self.shifts.shape[1]:
            sparse = self._padded, self._zero_keys
        elif n_sparse > 0:
            sparse = (
                tuple(part[block.sparse] for part in self._padded),
                self._zero_keys[block.sparse],
            )
        if n_sparse > 0:
            offsets = offsets + sparse[1].sum(axis=0)
        return (
            block.n_rows,
            block.tiles,
            block.largest,
            block.ids,
            self._pattern_keys(block) if block.patterns else _NO_CONTRIBUTIONS,
            (block.indptr, block.indices, block.values),
            self._divided(block.tiled),
            sparse,
            offsets,
        )

    @cached_property
    def _padded(self) -> tuple[AnyArray, ...]:
        """The parameters (n_features, GROUP), padded with grids of a single cell."""
        limits = limits_of_cells(self.inverse_widths, self.shifts, self.multipliers)
        parts = (self.inverse_widths, self.shifts, self.multipliers, limits)
        return tuple(_padded_group(part.T) for part in parts)

    @cached_property
    def _zero_keys(self) -> IntArray:
        """Contribution of a zero in each column to the keys (n_features, GROUP)."""
        inverse, shifts, multipliers, limits = self._padded
        cells = np.floor(np.clip((0.0 - shifts) * inverse, -limits, limits))
        return multipliers * cells.astype(np.int64)

    def _divided(self, columns: IntArray) -> tuple[AnyArray, ...]:
        """Return the parameters of the columns that each grid divides, grid after grid.

        They are the start of each grid's parameters, the positions in ``columns``, inverse widths,
        shifts, multipliers and limits.
        """
        # Predictions of single rows use the same columns each time.
        cache, key = self._cached_columns, columns.tobytes()
        parameters = cache.get(key)
        if parameters is None:
            grids, positions = np.nonzero(self.inverse_widths[:, columns])
            starts = np.searchsorted(grids, np.arange(len(self.offsets) + 1))
            at = grids, columns[positions]
            parts = self.inverse_widths[at], self.shifts[at], self.multipliers[at]
            positions = np.ascontiguousarray(positions)
            parameters = starts, positions, *parts, limits_of_cells(*parts)
            if len(cache) >= _MAX_CACHED_COLUMNS:
                cache.clear()
            cache[key] = parameters
        return parameters

    @cached_property
    def _cached_columns(self) -> dict[bytes, tuple[AnyArray, ...]]:
        return {}

    def _pattern_keys(self, block: PackedBlock) -> IntArray:
        """Return the contribution of each pattern to the keys of each grid."""
        n_patterns = sum(values.shape[1] for _, values in block.patterns)
        contributions, start = np.zeros((n_patterns, GROUP), np.int64), 0
        for columns, values in block.patterns:
            keys = np.zeros((GROUP, values.shape[1]), np.int64)
            largest = np.abs(values).max(axis=1)
            loops.add_cells(values, largest, self._divided(columns), keys)
            contributions[start : start + len(keys.T)] = keys.T
            start += len(keys.T)
        return contributions

    @cached_property
    def _padded_offsets(self) -> IntArray:
        return _padded_group(self.offsets)


@dataclass
class BinTables:
    """Hash tables of the known bins of a group of grids; a bin takes about 20 bytes.

    Row g of ``table`` has the keys of the bins of grid g in order of first appearance. Entry 0
    stands for unseen bins. The first ``2**bits[g]`` entries of row g of ``slots`` are an
    open-addressing index into the row.
    """

    counts: IntArray
    bits: IntArray
    table: IntArray = field(repr=False)
    slots: AnyArray = field(repr=False)

    @classmethod
    def empty(cls, n_grids: int, n_rows: int = _INITIAL_CAPACITY) -> BinTables:
        """Return empty tables, with less capacity if there are only ``n_rows`` rows."""
        capacity = min(_INITIAL_CAPACITY, n_rows + 1 + TILE)
        first_bits = min(FIRST_BITS, loops.slot_bits(n_rows, _MIN_INDEX_BITS))
        bits = loops.slot_bits(capacity - 1, first_bits)
        table, slots = _allocate_tables(n_grids, capacity, bits)
        slots[:, : 1 << first_bits] = 0
        all_bits = np.full(n_grids, first_bits, np.int64)
        return cls(np.zeros(n_grids, np.int64), all_bits, table, slots)

    @classmethod
    def from_keys(cls, keys: list[IntArray]) -> BinTables:
        """Return the tables of the bins with these keys, grid by grid and in bin order."""
        counts = np.array([len(grid_keys) for grid_keys in keys], np.int64)
        # These indexes do not grow. Half full, they take half of the memory of those in a fit, and
        # look-ups take 3 % longer.
        bits = np.array(
            [max(_MIN_INDEX_BITS, n.bit_length() + 1) for n in counts.tolist()], np.int64
        )
        arrays = _allocate_tables(len(keys), int(counts.max()) + 1, int(bits.max()))
        tables = cls(counts, bits, *arrays)
        for grid_keys, row in zip(keys, tables.table, strict=True):
            row[1 : len(grid_keys) + 1] = grid_keys
        indexed = loops.index_bins(tables.table, counts, tables.slots, bits)
        if indexed < len(keys):
            raise InputError(
                f"two of the {counts[indexed]} bins of a grid have the same key, or hundreds have "
                f"keys that collide; learn the bins from rows again."
            )
        return tables

    def keys(self, g: int) -> IntArray:
        """Return the keys of the bins of grid ``g`` of the group, in bin order."""
        return self.table[g, 1 : self.counts[g] + 1]

    def learn(self, group: GridGroup, block: PackedBlock, codes: AnyArray) -> bool:
        """Write the codes of the rows of ``block`` to ``codes`` (n_grids, n_rows).

        New bins are added to the tables. Return False if the type of ``codes`` is too small for a
        bin number. The new bins are in the tables then, so :meth:`find` can write their numbers to
        codes of a larger type.
        """
        arguments, workspace = group.prepare(block), key_workspace(block)
        tile, most, flat = 0, np.full(len(self.counts), _MAX_BINS), writable_flat_rows(codes)
        while tile < len(block.tiles):
            if tile > 0 or int(self.counts.max()) + block.tiles.shape[2] >= self.table.shape[1]:
                self._enlarge()
            tables = self.slots, self.bits, self.table, self.counts
            tile = loops.number_block(tile, *arguments, *tables, most, *flat, *workspace)
            if tile < 0:
                raise InputError(_COLLISIONS)
        return bool(self.counts.max() <= np.iinfo(codes.dtype).max)

    def find(
        self,
        group: GridGroup,
        block: PackedBlock,
        codes: AnyArray,
        workspace: tuple[IntArray, IntArray],
    ) -> None:
        """Write the codes of ``block`` to ``codes`` (n_grids, n_rows); 0 for unseen bins."""
        tables = self.slots, self.bits, self.table, self.counts
        flat = writable_flat_rows(codes)
        loops.number_block(0, *group.prepare(block), *tables, self.counts, *flat, *workspace)

    def _enlarge(self) -> None:
        n_bins = 2 * self.table.shape[1]
        bits = loops.slot_bits(n_bins - 1, FIRST_BITS)
        table, slots = _allocate_tables(len(self.counts), n_bins, bits)
        for g, count in enumerate(self.counts):
            table[g, : count + 1] = self.table[g, : count + 1]
            slots[g, : 1 << self.bits[g]] = self.slots[g, : 1 << self.bits[g]]
        self.table, self.slots = table, slots


def numbered_keys(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Return the number of each key and the distinct keys.

    Keys are numbered in order of first appearance, from 1.
    """
    slots = np.empty(1 << loops.slot_bits(len(keys), FIRST_BITS), np.int32)
    distinct, numbers = np.empty(len(keys) + 1, np.int64), np.empty(len(keys), np.int64)
    count = loops.number_keys(keys, slots, distinct, numbers)
    if count < 0:
        raise InputError(_COLLISIONS)
    return numbers, distinct[1 : count + 1]


def key_workspace(block: PackedBlock) -> tuple[IntArray, IntArray]:
    """Return work arrays for the keys of a tile of the block's rows in a group of grids."""
    width = block.tiles.shape[2]
    return np.empty((width, GROUP), np.int64), np.empty((GROUP, width), np.int64)


def cell_limits(inverse_widths: FloatArray) -> FloatArray:
    """Return the largest number of each column whose cell has at most 63 bits in all grids."""
    finest = inverse_widths.max(axis=0, initial=0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return clip_infinities(_MAX_CELL / finest)


def limits_of_cells(
    inverse_widths: FloatArray, shifts: FloatArray, multipliers: IntArray
) -> FloatArray:
    """Return the bounds ``limit`` of cell numbers, clipped to ``+-limit``, by grid and column."""
    # Numbers of categories are not clipped at short hashes, because they can be large in files of
    # version 0.2.0.
    is_category = (inverse_widths == 1.0) & (shifts == 0.5)
    is_short = (multipliers & ((1 << SHORT_HASH) - 1)) == 0
    return np.where(is_short & ~is_category, _MAX_SHORT_CELL, _MAX_LONG_CELL)


def _allocate_tables(n_grids: int, n_bins: int, bits: int) -> tuple[IntArray, AnyArray]:
    table = np.empty((n_grids, n_bins), np.int64)
    table[:, 0] = 0
    return table, np.empty((n_grids, 1 << bits), np.int32)


def _padded_group(part: AnyArray) -> AnyArray:
    """Return a copy whose last axis is padded with zeros to the size of a group."""
    padded = np.zeros((*part.shape[:-1], loops.GROUP), part.dtype)
    padded[..., : part.shape[-1]] = part
    return padded


@dataclass(frozen=True)
class Grids:
    """Random grids over rows, with hash functions of their bins.

    Attributes
    ----------
    widths, shifts : arrays (n_grids, n_columns)
        A row is in the cell ``floor((x - shift) / width)``, clipped by :func:`limits_of_cells`.
        A grid ignores columns of infinite width.
    multipliers, offsets : arrays (n_grids, n_columns) and (n_grids,) of int64
        The key of a cell is their linear hash, see :mod:`gramless.loops.binning`. Multipliers are
        odd, or odd multiples of a power of two.
    projection : array (n_features, n_directions), optional
        The columns are the inputs, followed by ``X @ projection`` if there is a projection.
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

        Grid r depends on ``(seed, r)`` only, and another bandwidth stretches the same grids. A grid
        separates all categories of a categorical input with probability ``1 - profile(1 /
        bandwidth)``, else it ignores the input.
        """
        raw = np.empty((n_grids, len(bandwidth) + 1), np.uint64)
        for row, cells in zip(raw, streams(seed, "cells", n_grids), strict=True):
            row[:] = cells.bit_generator.random_raw(len(row))
        hashes = (raw ^ _SIGN).view(np.int64)
        grids = streams(seed, "grids", n_grids)
        widths, shifts = kernel.sample_grids(grids, n_grids, bandwidth)
        if categorical is not None and categorical.any():
            # A grid separates 0 and 1 with the right probability.
            is_separated = np.isfinite(widths) & (shifts <= 1.0)
            separate_categories(widths, shifts, categorical, is_separated[:, categorical])
        return cls(widths, shifts, hashes[:, 1:] | 1, hashes[:, 0].copy())

    @classmethod
    def joined(cls, parts: Sequence[Grids]) -> Grids:
        """Return the concatenation of grids over the same columns."""
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
        """Return the grids with a projection, whose directions no grid divides."""
        shape = len(self), projection.shape[1]
        return replace(
            self,
            widths=np.hstack([self.widths, np.full(shape, np.inf)]),
            shifts=np.hstack([self.shifts, np.zeros(shape)]),
            multipliers=np.hstack([self.multipliers, np.full(shape, 1 << SHORT_HASH)]),
            projection=projection,
        )

    def columns(self, X: Rows) -> Rows:
        """Return the columns of rows: the inputs, followed by their projection if there is one."""
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
        """Mask of the grids that divide a direction of the projection (n_grids,)."""
        return np.asarray(np.isfinite(self.widths[:, self.n_features :]).any(axis=1))

    def over_inputs(self) -> Grids:
        """Return the grids without the projection, whose directions no grid may divide."""
        n_inputs = self.n_features
        return replace(
            self,
            widths=self.widths[:, :n_inputs],
            shifts=self.shifts[:, :n_inputs],
            multipliers=self.multipliers[:, :n_inputs],
            projection=None,
        )

    def learn(self, X: Rows, n_jobs: int | None = None) -> tuple[AnyArray, KnownBins]:
        """Return the codes (n_grids, n_samples) of rows, and the bins that they occupy.

        Codes number the bins of each grid from 1, in order of first appearance. Their type is the
        smallest of uint8, uint16 and uint32, but not uint8 for less than a million codes. On one
        core this takes about ``0.14 * k + 1.5`` ns per dense row and grid that divides k columns,
        and less for many columns of few values and for CSR. In addition to the codes it takes 16 MB
        and 24 bytes per bin.
        """
        known = self._empty_bins(X.shape[0], n_jobs)
        shape = len(self), X.shape[0]
        codes: AnyArray = padded_rows(shape, np.uint16)
        for start, stop, block in known.blocks(X, n_jobs):
            if not all(known.learn_block(block, known.split(codes[:, start:stop]), n_jobs)):
                # A second look-up of all rows takes time, but less memory than a wider copy.
                del codes
                codes = padded_rows(shape, np.uint32)
                known.find_rows(X, codes, n_jobs, stop)
        narrow_type = _code_type(known.n_bins, codes.size)
        if codes.dtype != narrow_type:
            narrow = padded_rows(codes.shape, narrow_type)
            narrow[...] = codes
            codes = narrow
        return codes, replace(known, code_type=codes.dtype.type)

    def learn_parts(self, X: Rows, n_jobs: int | None = None) -> tuple[list[AnyArray], KnownBins]:
        """Do as :meth:`learn`, but return several arrays if there are many codes of several types.

        From 134 million codes on, the codes of eight grids at a time have the smallest type.
        """
        shape = len(self), X.shape[0]
        if shape[0] * shape[1] < _MIN_MIXED_CODES:
            codes, known = self.learn(X, n_jobs)
            return [codes], known
        # With one job, groups have eight grids, so products add up whole groups of four or eight.
        known = self._empty_bins(X.shape[0], 1)
        codes = padded_rows(shape, np.uint8)
        parts = known.split(codes)
        for start, stop, block in known.blocks(X, n_jobs):
            fits = known.learn_block(block, [part[:, start:stop] for part in parts], n_jobs)
            for k in np.flatnonzero(~np.array(fits)).tolist():
                parts[k] = known.widened(parts[k], k, block, start)
        widest = max(part.dtype for part in parts)
        known = replace(known, code_type=widest.type)
        return [codes] if widest == codes.dtype else parts, known

    def learn_on_disk(
        self, X: Rows, n_jobs: int | None = None
    ) -> tuple[list[MappedBlock], KnownBins]:
        """Do as :meth:`learn`, but write the codes to a temporary file.

        The type of the codes of a block of rows is the smallest for the bins that are known after
        the block.
        """
        n_rows, n_grids = X.shape[0], len(self)
        known = self._empty_bins(n_rows, n_jobs)
        file = code_file(bytes_of_codes(n_rows, n_grids))
        dtype: CodeType = np.uint16
        for start, stop, block in known.blocks(X, n_jobs, rows_of_block(n_grids)):
            codes = padded_rows((n_grids, stop - start), dtype)
            if not all(known.learn_block(block, known.split(codes), n_jobs)):
                dtype = np.uint32
                codes = padded_rows(codes.shape, dtype)
                known.find_block(block, codes, n_jobs)
            needed = _code_type(known.n_bins, n_rows * n_grids)
            narrow_type = min(needed, dtype, key=lambda code_type: np.iinfo(code_type).bits)
            file.append(codes.astype(narrow_type, copy=False))
        dtype = _code_type(known.n_bins, n_rows * n_grids)
        offsets = np.append(0, np.cumsum(known.n_bins))
        # The capacity for more bins, which takes 24 kB a grid, is not needed any more.
        return file.blocks(), KnownBins.from_keys(self, known.keys(), offsets, dtype)

    def _empty_bins(self, n_rows: int, n_jobs: int | None) -> KnownBins:
        # Groups are smaller if there are too few grids for all threads.
        group_size = min(GROUP, max(1, -(-len(self) // thread_count(n_jobs))))
        groups = row_blocks(len(self), group_size)
        return KnownBins(self, [BinTables.empty(b - a, n_rows) for a, b in groups])


@dataclass(frozen=True)
class KnownBins:
    """The bins that training rows occupy, indexed for look-up."""

    grids: Grids
    tables: list[BinTables] = field(repr=False)
    # The type of the codes of training rows. Codes of new rows have the same type, because loops
    # are compiled for each type.
    code_type: CodeType | None = None

    @classmethod
    def from_keys(
        cls, grids: Grids, keys: IntArray, offsets: IntArray, code_type: CodeType | None = None
    ) -> KnownBins:
        """Return the bins with these keys, those of grid r from ``offsets[r]`` on."""
        tables = [
            BinTables.from_keys([keys[offsets[r] : offsets[r + 1]] for r in range(a, b)])
            for a, b in row_blocks(len(grids), GROUP)
        ]
        return cls(grids, tables, code_type)

    @classmethod
    def from_arrays(
        cls, state: dict[str, Any], keys_of: Callable[[Grids, IntArray], IntArray] | None = None
    ) -> KnownBins:
        """Return the bins in the state of a map, and remove the arrays of their hashes.

        Keys are in the state, or ``keys_of`` returns them for the grids and the first bin of each.
        """
        offsets = state["offsets_"]
        hashes = state.pop("multipliers"), state.pop("cell_offsets")
        projection = state.pop("projection", None)
        grids = Grids(state["widths_"], state["shifts_"], *hashes, projection=projection)
        keys = state.pop("keys") if keys_of is None else keys_of(grids, offsets)
        return cls.from_keys(grids, keys, offsets)

    @staticmethod
    def check_state(state: State) -> int:
        """Check the arrays of grids and bins in a file, and return the number of inputs."""
        widths = array_in(state, "widths_", np.float64, (None, None))
        require(widths.size > 0 and (widths > 0).all(), "widths_ must be positive")
        array_in(state, "shifts_", np.float64, widths.shape, finite=True)
        array_in(state, "multipliers", np.int64, widths.shape)
        array_in(state, "cell_offsets", np.int64, (len(widths),))
        offsets = array_in(state, "offsets_", np.int64, (len(widths) + 1,))
        # Differences could overflow if the file is invalid; comparisons cannot.
        is_valid = (offsets[1:] > offsets[:-1]).all() and offsets[0] == 0
        is_valid = is_valid and offsets[-1] <= len(widths) * _MAX_BINS
        require(is_valid, "offsets_ do not increase from 0")
        require(np.diff(offsets).max() <= _MAX_BINS, "a grid has too many bins")
        if "cells" not in state:
            array_in(state, "keys", np.int64, (int(offsets[-1]),))
        if "scale_" in state:
            require(number_in(state, "scale_", float, 0.0, _MAX_SCALE) > 0.0, "scale_ is 0")
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
        """Return the keys of all bins, grid after grid."""
        return np.concatenate([t.keys(g) for t in self.tables for g in range(len(t.counts))])

    def find(self, X: Rows, n_jobs: int | None = None) -> AnyArray:
        """Return the codes (n_grids, n_samples) of rows; 0 for unseen bins."""
        shape = len(self.grids), X.shape[0]
        dtype = self.code_type or _code_type(self.n_bins, shape[0] * shape[1])
        codes = padded_rows(shape, dtype)
        self.find_rows(X, codes, 1 if codes.size < _MIN_THREADED_CODES else n_jobs)
        return codes

    def find_rows(
        self, X: Rows, codes: AnyArray, n_jobs: int | None, n_rows: int | None = None
    ) -> None:
        """Write the codes of all rows, or at least of the first ``n_rows``, to ``codes``."""
        for start, stop, block in self.blocks(X, n_jobs):
            if n_rows is not None and start >= n_rows:
                break
            self.find_block(block, codes[:, start:stop], n_jobs)

    def blocks(
        self, X: Rows, n_jobs: int | None, most: int = _ALL_ROWS
    ) -> Iterator[tuple[int, int, PackedBlock]]:
        """Yield ``(start, stop, packed block)`` for blocks of at most ``most`` rows."""
        check_width("Grids", X, self.grids.n_features)
        X = self.grids.columns(X)
        plan = self._plan(X)
        for start, stop in row_blocks(X.shape[0], min(block_rows(plan.width), most)):
            yield start, stop, pack_block(X, start, stop, plan, self._limits, n_jobs)

    def _plan(self, X: Rows) -> ColumnPlan:
        n_divided = np.count_nonzero(np.isfinite(self.grids.widths))
        is_planned = n_divided >= _MIN_PLANNED_COLUMNS * len(self.grids)
        is_planned = is_planned and X.shape[0] * n_divided >= _MIN_PLANNED_CELLS
        if is_planned or sp.issparse(X):
            return plan_columns(X, self._divided)
        return ColumnPlan(self._divided, (), np.empty(0, np.int64))

    def split(self, codes: AnyArray) -> list[AnyArray]:
        """Return a view of the codes of each group of grids."""
        return [codes[a:b] for _, _, a, b in self._groups]

    def learn_block(
        self, block: PackedBlock, parts: list[AnyArray], n_jobs: int | None
    ) -> list[bool]:
        """Write the codes of a block by group and add new bins, see :meth:`BinTables.learn`."""
        if block.clipped:
            raise InputError(
                "rows have numbers more than 1e18 cells away from 0: use a larger bandwidth, "
                "scaling='quantile', or remove the outliers."
            )

        def learn(tables: BinTables, group: GridGroup, codes: AnyArray) -> bool:
            return tables.learn(group, block, codes)

        tasks = [(*group[:2], codes) for group, codes in zip(self._groups, parts, strict=True)]
        return map_blocks(learn, tasks, n_jobs)

    def widened(self, codes: AnyArray, k: int, block: PackedBlock, start: int) -> AnyArray:
        """Return the codes of group ``k`` in a larger type, up to a block from row ``start`` on."""
        tables, group, *_ = self._groups[k]
        wide = padded_rows(codes.shape, _code_type(tables.counts, n_codes=0))
        wide[:, :start] = codes[:, :start]
        of_block = wide[:, start : start + block.n_rows]
        tables.find(group, block, of_block, key_workspace(block))
        return wide

    def find_block(self, block: PackedBlock, codes: AnyArray, n_jobs: int | None) -> None:
        """Write the codes of a block."""

        def find(first: int, last: int) -> None:
            workspace = key_workspace(block)
            for tables, group, a, b in self._groups[first:last]:
                tables.find(group, block, codes[a:b], workspace)

        n_groups = len(self._groups)
        # One thread allocates the work arrays once: for few rows this takes as long as the look-up.
        task_groups = n_groups if thread_count(n_jobs) == 1 else 1
        map_blocks(find, row_blocks(n_groups, task_groups), n_jobs)

    @cached_property
    def _groups(self) -> list[tuple[BinTables, GridGroup, int, int]]:
        """Tables, grids and range of the grid numbers of each group."""
        grids = self.grids
        parts: list[AnyArray] = [1.0 / grids.widths, grids.shifts, grids.multipliers, grids.offsets]
        ends = np.cumsum([0, *(len(tables.counts) for tables in self.tables)]).tolist()
        return [
            (tables, GridGroup(*(part[a:b] for part in parts)), a, b)
            for tables, (a, b) in zip(self.tables, pairwise(ends), strict=True)
        ]

    @cached_property
    def _divided(self) -> IntArray:
        """Columns that at least one grid divides."""
        return np.flatnonzero(np.isfinite(self.grids.widths).any(axis=0))

    @cached_property
    def _limits(self) -> FloatArray:
        return cell_limits(1.0 / self.grids.widths)


def divided_inputs(widths: FloatArray, projection: FloatArray | None) -> BoolArray:
    """Return a mask of the inputs that each grid divides, directly or in a projection."""
    divided = np.isfinite(widths)
    if projection is None:
        return divided
    n_inputs = len(projection)
    parts: BoolArray = divided[:, n_inputs:] @ (projection != 0.0).T
    return divided[:, :n_inputs] | parts


def with_combinations(X: AnyArray, projection: FloatArray) -> FloatArray:
    """Return ``[X, X @ projection]`` in float64, with terms clipped to ``+-1e100``.

    Terms are added in a fixed order, so that the result for a row does not depend on other rows.

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
                    out[:, k] += np.clip(out[:, j] * factor, -_MAX_TERM, _MAX_TERM)
    return out


def separate_categories(
    widths: FloatArray, shifts: FloatArray, categorical: BoolArray, is_separated: BoolArray
) -> None:
    """Give each category its own cell where ``is_separated``, else all categories the same cell.

    ``is_separated`` has the shape (n_grids, n_categorical).
    """
    widths[:, categorical] = np.where(is_separated, 1.0, np.inf)
    shifts[:, categorical] = np.where(is_separated, 0.5, 0.0)


def _code_type(n_bins: IntArray, n_codes: int) -> CodeType:
    largest = int(n_bins.max(initial=0))
    if largest < 2**8 and n_codes >= _MIN_8_BIT_CODES:
        return np.uint8
    return np.uint16 if largest < 2**16 else np.uint32
