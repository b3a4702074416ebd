"""Rows made ready for binning, in three layouts mixed freely within one block of rows.

- *tiles*: rows of float64 numbers, 0.14 ns a cell and core;
- *patterns*: columns that have few distinct combinations of values (one-hot columns, small
  integers): each combination is binned once, and a row adds one tabulated number;
- *non-zeros*: columns of mostly zeros correct the key of the zero row.

The choice affects speed only: keys are the same to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.arrays import readonly
from gramless.base.random import stream
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.loops import packing as loops
from gramless.loops.simd import CELL_ROWS
from gramless.preprocessing.rows import Rows

Pattern: TypeAlias = tuple[IntArray, FloatArray]
"""Columns of a pattern group, and its patterns, one a row."""

BLOCK_CELLS = 2_000_000
MAX_PATTERNS = 4096
_MAX_BLOCK_ROWS = 65_536
_SAMPLE_ROWS = 1024
_SAMPLE_PATTERNS = 256
_MIN_PATTERN_COLUMNS = 6
_MAX_SPARSE_DENSITY = 0.2
_MIN_SPARSE_COLUMNS = 16
_COLUMNS_A_NUMBER = 4
"""Pattern or sparse columns that take the room of one column in tiles."""


@dataclass(frozen=True)
class ColumnPlan:
    """Which columns of a dense matrix go into tiles, patterns and non-zeros."""

    tiled: IntArray
    patterned: tuple[IntArray, ...]
    sparse: IntArray

    @property
    def width(self) -> int:
        """The approximate number of values packed for each row."""
        folded = sum(map(len, self.patterned)) + len(self.sparse)
        return len(self.tiled) + folded // _COLUMNS_A_NUMBER


@dataclass(frozen=True)
class PackedBlock:
    """A block of rows ready for :mod:`gramless.loops.binning`."""

    n_rows: int
    tiled: IntArray
    """Columns held in ``tiles``."""
    sparse: IntArray
    """Columns held in the CSR parts ``indptr, indices, values``."""
    tiles: FloatArray
    """(n_tiles, width, len(tiled))."""
    patterns: tuple[Pattern, ...]
    """Padded to the number that :func:`gramless.loops.binning.add_cells` takes."""
    ids: NDArray[np.int32]
    """The pattern of each row (n_groups, n_tiles * width), numbered through all groups."""
    indptr: IntArray
    indices: IntArray
    values: FloatArray
    clipped: bool
    """Whether some number lay beyond the limits."""
    all_tiled: bool
    """Whether the tiles hold every column, in order."""


def plan_columns(X: Rows, divided: IntArray | None = None) -> ColumnPlan:
    """Choose the layout of the columns that some grid divides from a sample of the rows."""
    n_rows, n_columns = X.shape
    columns = np.arange(n_columns) if divided is None else divided
    none = np.empty(0, np.int64)
    if sp.issparse(X):
        return ColumnPlan(none, (), np.arange(n_columns))
    if n_rows < _SAMPLE_ROWS or len(columns) < _MIN_PATTERN_COLUMNS:
        return ColumnPlan(columns, (), none)
    sample = np.asfortranarray(X[:: n_rows // _SAMPLE_ROWS][:_SAMPLE_ROWS, columns])
    groups = _pattern_groups(sample)
    rest = np.setdiff1d(np.arange(len(columns)), np.concatenate([*groups, none]))
    zero_heavy = rest[(sample[:, rest] != 0).mean(axis=0) < _MAX_SPARSE_DENSITY]
    if len(zero_heavy) < _MIN_SPARSE_COLUMNS:
        zero_heavy = none
    tiled = columns[np.setdiff1d(rest, zero_heavy)]
    return ColumnPlan(tiled, tuple(columns[group] for group in groups), columns[zero_heavy])


def block_rows(n_columns: int) -> int:
    """Return how many rows a packed block holds: about 16 MB of float64."""
    rows = BLOCK_CELLS // max(1, n_columns)
    return int(np.clip(rows, loops.TILE, _MAX_BLOCK_ROWS)) // loops.TILE * loops.TILE


def pack_block(
    X: Rows, start: int, stop: int, plan: ColumnPlan, limits: FloatArray, n_jobs: int | None = None
) -> PackedBlock:
    """Pack rows ``start:stop``; values beyond ``+-limits`` (n_columns,) are clipped to these."""
    if sp.issparse(X):
        rows = np.empty((stop - start, 0))
        nonzeros = _sparse_rows(X, start, stop)
    else:
        rows = X[start:stop]
        if not (rows.flags.c_contiguous or rows.flags.f_contiguous):
            rows = rows.copy(order="F" if rows.strides[0] < rows.strides[1] else "C")
        nonzeros = _nonzeros(rows, plan.sparse)
    tiled = plan.tiled
    groups: list[tuple[IntArray, NDArray[np.int32], FloatArray]] = []
    for columns in plan.patterned:
        found = _number_patterns(rows, columns, n_jobs) if len(columns) > 0 else None
        if found is None:
            tiled = np.concatenate([tiled, columns])
        else:
            groups.append((columns, *found))
    tiles, clipped = _tiles(rows, tiled, limits[tiled], n_jobs)
    beyond = [np.abs(values) > limits[columns] for columns, _, values in groups]
    bound = limits[plan.sparse][nonzeros[1]]
    beyond.append(np.abs(nonzeros[2]) > bound)
    np.clip(nonzeros[2], -bound, bound, out=nonzeros[2])
    patterns, ids = _join_patterns(groups, limits, stop - start)
    return PackedBlock(
        n_rows=stop - start,
        tiled=tiled,
        sparse=plan.sparse,
        tiles=tiles,
        patterns=patterns,
        ids=ids,
        indptr=nonzeros[0],
        indices=nonzeros[1],
        values=nonzeros[2],
        clipped=clipped or any(part.any() for part in beyond),
        all_tiled=len(plan.tiled) == X.shape[1],
    )


def _width(n_rows: int) -> int:
    return min(loops.TILE, -(-n_rows // CELL_ROWS) * CELL_ROWS)


def _tiles(
    rows: AnyArray, columns: IntArray, limits: FloatArray, n_jobs: int | None
) -> tuple[FloatArray, bool]:
    width = _width(len(rows))
    n_tiles = -(-len(rows) // width)
    tiles = np.empty((n_tiles, width, len(columns)))
    parts = row_blocks(n_tiles, -(-n_tiles // 8)) if len(columns) > 0 else []
    strides = tuple(stride // rows.itemsize for stride in rows.strides)
    matrix = readonly(rows.reshape(-1, order="A")), strides, len(rows)
    clipped = map_blocks(
        loops.pack_rows, [(*matrix, a, columns, limits, tiles[a:b]) for a, b in parts], n_jobs
    )
    return tiles, any(clipped)


def _pattern_groups(sample: AnyArray) -> list[IntArray]:
    """Group columns of few values while their combinations stay few on the sample."""
    odd = _odd_multipliers(sample.shape[1])
    bits = readonly(sample.view(f"i{sample.itemsize}"))
    column_hashes = np.empty(len(sample), np.int64)
    groups: list[IntArray] = []
    open_group: list[int] = []
    total = np.zeros(len(sample), np.int64)
    for column in range(sample.shape[1]):
        multiplier = odd[column : column + 1]
        loops.hash_columns(bits, column, multiplier, 0, len(sample), column_hashes)
        if _count(column_hashes, _SAMPLE_PATTERNS // 8) is None:
            continue
        added = total + column_hashes
        if _count(added, _SAMPLE_PATTERNS) is None:
            groups.append(np.array(open_group, np.int64))
            open_group, added = [], column_hashes.copy()
        open_group.append(column)
        total = added
    groups.append(np.array(open_group, np.int64))
    return [group for group in groups if len(group) >= _MIN_PATTERN_COLUMNS]


def _odd_multipliers(n: int) -> IntArray:
    return stream(0, "pattern hash").integers(-(2**63), 2**63, n) | 1


def _count(hashes: IntArray, limit: int) -> tuple[NDArray[np.int32], NDArray[np.int32]] | None:
    """Number equal hashes: (numbers, first row of each), or None beyond ``limit`` of them."""
    ids = np.empty(len(hashes), np.int32)
    first_rows = np.empty(limit, np.int32)
    count = loops.number_patterns(hashes, ids, first_rows, np.full(4 * limit, -1, np.int32))
    return None if count < 0 else (ids, first_rows[:count])


def _number_patterns(
    rows: AnyArray, columns: IntArray, n_jobs: int | None
) -> tuple[NDArray[np.int32], FloatArray] | None:
    """Return (ids, values) of the patterns of ``columns``, or None if there are too many."""
    n_rows = len(rows)
    hashes = np.empty(n_rows, np.int64)
    first = int(columns.min())
    multipliers = np.zeros(int(columns.max()) - first + 1, np.int64)
    multipliers[columns - first] = _odd_multipliers(len(columns))
    bits = readonly(rows.view(f"i{rows.itemsize}"))
    hash_part = loops.hash_rows if rows.flags.c_contiguous else loops.hash_columns
    parts = row_blocks(n_rows, max(4096, n_rows // 8))
    map_blocks(hash_part, [(bits, first, multipliers, a, b, hashes) for a, b in parts], n_jobs)
    found = _count(hashes, MAX_PATTERNS)
    if found is None or 4 * len(found[1]) > n_rows:
        return None
    return found[0], rows[np.ix_(found[1], columns)].astype(np.float64)


def _join_patterns(
    groups: list[tuple[IntArray, NDArray[np.int32], FloatArray]], limits: FloatArray, n_rows: int
) -> tuple[tuple[Pattern, ...], NDArray[np.int32]]:
    """Pad each group's patterns to whole steps of the loops and number them through."""
    ids = np.zeros((len(groups), -(-n_rows // _width(n_rows)) * _width(n_rows)), np.int32)
    patterns: list[Pattern] = []
    total = 0
    for k, (columns, group_ids, values) in enumerate(groups):
        ids[k, :n_rows] = group_ids + np.int32(total)
        bound = limits[columns]
        filled = np.zeros((-(-len(values) // CELL_ROWS) * CELL_ROWS, len(columns)))
        filled[: len(values)] = np.clip(values, -bound, bound)
        patterns.append((columns, filled))
        total += len(filled)
    return tuple(patterns), ids


def _sparse_rows(X: Rows, start: int, stop: int) -> tuple[IntArray, IntArray, FloatArray]:
    part = slice(X.indptr[start], X.indptr[stop])
    indptr = X.indptr[start : stop + 1].astype(np.int64) - int(X.indptr[start])
    return indptr, X.indices[part].astype(np.int64), X.data[part].astype(np.float64)


def _nonzeros(rows: AnyArray, columns: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    indptr = np.zeros(len(rows) + 1, np.int64)
    if len(columns) == 0:
        return indptr, np.empty(0, np.int64), np.empty(0)
    rows = readonly(rows)
    loops.count_nonzeros(rows, columns, indptr)
    np.cumsum(indptr, out=indptr)
    indices, values = np.empty(indptr[-1], np.int64), np.empty(indptr[-1])
    loops.fill_nonzeros(rows, columns, indptr, indices, values)
    return indptr, indices, values
