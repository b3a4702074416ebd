"""Layouts of rows for binning. The columns of a block of rows have one of three layouts each.

- *Tiles* are blocks of rows as float64 columns, of which each grid reads those that it divides.
- *Patterns* are the distinct combinations of values of columns that have few, such as one-hot
  columns and small integers. Each pattern is binned once, and a row adds one tabulated number.
- *Non-zeros* of columns with mostly zeros are added to the key of a row of zeros.

The layout affects speed only; keys are equal to the last bit.
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

# Columns of a group, and their values in each pattern (n_columns, n_patterns).
Pattern: TypeAlias = tuple[IntArray, FloatArray]

BLOCK_CELLS = 2_000_000
MAX_PATTERNS = 4096
_MAX_BLOCK_ROWS = 65_536
_SAMPLE_ROWS = 1024
_SAMPLE_PATTERNS = 256
_MIN_PATTERN_COLUMNS = 6
_MAX_SPARSE_DENSITY = 0.2
_MIN_SPARSE_COLUMNS = 16
_PACKED_COLUMNS_PER_TILED = 4  # pattern or sparse columns that take as much memory as a tiled one


@dataclass(frozen=True)
class ColumnPlan:
    """The columns in tiles, in each group of patterns, and in non-zeros."""

    tiled: IntArray
    patterned: tuple[IntArray, ...]
    sparse: IntArray

    @property
    def width(self) -> int:
        """Approximate number of stored values per row."""
        n_packed = sum(map(len, self.patterned)) + len(self.sparse)
        return len(self.tiled) + n_packed // _PACKED_COLUMNS_PER_TILED


@dataclass(frozen=True)
class PackedBlock:
    """A block of rows in the layout of :mod:`gramless.loops.binning`.

    Attributes
    ----------
    n_rows : int
    tiled, sparse : arrays of int
        Columns in ``tiles``, and in the CSR parts ``indptr, indices, values``.
    tiles : array (n_tiles, len(tiled), width)
    largest : array (n_tiles, len(tiled))
        The largest absolute value of each column in each tile.
    patterns : tuple of patterns
        Columns and their values (len(columns), n_patterns), padded to the number of patterns that
        :func:`gramless.loops.binning.add_cells` needs.
    ids : array (n_groups, n_tiles * width) of int32
        The pattern of each row, numbered through all groups.
    indptr, indices, values : arrays
        The CSR parts.
    clipped : bool
        True if some numbers were beyond the limits.
    """

    n_rows: int
    tiled: IntArray
    sparse: IntArray
    tiles: FloatArray
    largest: FloatArray
    patterns: tuple[Pattern, ...]
    ids: NDArray[np.int32]
    indptr: IntArray
    indices: IntArray
    values: FloatArray
    clipped: bool


def plan_columns(X: Rows, divided: IntArray | None = None) -> ColumnPlan:
    """Return the layout of columns, by default of all, chosen on a sample of the rows."""
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
    """Return the number of rows of a packed block, of about 16 MB of float64."""
    rows = BLOCK_CELLS // max(1, n_columns)
    return int(np.clip(rows, loops.TILE, _MAX_BLOCK_ROWS)) // loops.TILE * loops.TILE


def pack_block(
    X: Rows, start: int, stop: int, plan: ColumnPlan, limits: FloatArray, n_jobs: int | None = None
) -> PackedBlock:
    """Pack rows ``start:stop``, with values clipped to ``+-limits`` (n_columns,)."""
    if sp.issparse(X):
        rows = np.empty((stop - start, 0))
        part = slice(X.indptr[start], X.indptr[stop])
        indptr = X.indptr[start : stop + 1].astype(np.int64) - int(X.indptr[start])
        nonzeros = indptr, X.indices[part].astype(np.int64), X.data[part].astype(np.float64)
    else:
        rows = X[start:stop]
        if not (rows.flags.c_contiguous or rows.flags.f_contiguous):
            rows = rows.copy(order="F" if rows.strides[0] < rows.strides[1] else "C")
        nonzeros = _nonzeros(rows, plan.sparse)
    tiled = plan.tiled
    groups: list[tuple[IntArray, NDArray[np.int32], FloatArray]] = []
    for columns in plan.patterned:
        numbered = _number_patterns(rows, columns, n_jobs) if len(columns) > 0 else None
        if numbered is None:
            tiled = np.concatenate([tiled, columns])
        else:
            groups.append((columns, *numbered))
    tiles, largest, clipped = _tiles(rows, tiled, limits[tiled], n_jobs)
    is_beyond = [np.abs(values) > limits[columns] for columns, _, values in groups]
    bound = limits[plan.sparse][nonzeros[1]]
    is_beyond.append(np.abs(nonzeros[2]) > bound)
    np.clip(nonzeros[2], -bound, bound, out=nonzeros[2])
    patterns, ids = _join_patterns(groups, limits, stop - start)
    return PackedBlock(
        n_rows=stop - start,
        tiled=tiled,
        sparse=plan.sparse,
        tiles=tiles,
        largest=largest,
        patterns=patterns,
        ids=ids,
        indptr=nonzeros[0],
        indices=nonzeros[1],
        values=nonzeros[2],
        clipped=clipped or any(part.any() for part in is_beyond),
    )


def _tile_width(n_rows: int) -> int:
    return min(loops.TILE, -(-n_rows // CELL_ROWS) * CELL_ROWS)


def _tiles(
    rows: AnyArray, columns: IntArray, limits: FloatArray, n_jobs: int | None
) -> tuple[FloatArray, FloatArray, bool]:
    width = _tile_width(len(rows))
    n_tiles = -(-len(rows) // width)
    tiles, largest = np.empty((n_tiles, len(columns), width)), np.empty((n_tiles, len(columns)))
    parts = row_blocks(n_tiles, -(-n_tiles // 8)) if len(columns) > 0 else []
    strides = tuple(stride // rows.itemsize for stride in rows.strides)
    matrix = readonly(rows.reshape(-1, order="A")), strides, len(rows)
    clipped = map_blocks(
        loops.pack_rows,
        [(*matrix, a, columns, limits, tiles[a:b], largest[a:b]) for a, b in parts],
        n_jobs,
    )
    return tiles, largest, any(clipped)


def _pattern_groups(sample: AnyArray) -> list[IntArray]:
    """Return groups of columns that have few combinations of values on a sample."""
    multipliers = _odd_multipliers(sample.shape[1])
    bits = readonly(sample.view(f"i{sample.itemsize}"))
    column_hashes = np.empty(len(sample), np.int64)
    groups: list[IntArray] = []
    open_group: list[int] = []
    total = np.zeros(len(sample), np.int64)
    for column in range(sample.shape[1]):
        multiplier = multipliers[column : column + 1]
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
    """Return the numbers of distinct hashes and their first rows; None beyond ``limit``."""
    ids = np.empty(len(hashes), np.int32)
    first_rows = np.empty(limit, np.int32)
    count = loops.number_patterns(hashes, ids, first_rows, np.full(4 * limit, -1, np.int32))
    return None if count < 0 else (ids, first_rows[:count])


def _number_patterns(
    rows: AnyArray, columns: IntArray, n_jobs: int | None
) -> tuple[NDArray[np.int32], FloatArray] | None:
    """Return the pattern of each row and the patterns, or None if there are too many."""
    n_rows = len(rows)
    hashes = np.empty(n_rows, np.int64)
    first = int(columns.min())
    multipliers = np.zeros(int(columns.max()) - first + 1, np.int64)
    multipliers[columns - first] = _odd_multipliers(len(columns))
    bits = readonly(rows.view(f"i{rows.itemsize}"))
    hash_part = loops.hash_rows if rows.flags.c_contiguous else loops.hash_columns
    parts = row_blocks(n_rows, max(4096, n_rows // 8))
    map_blocks(hash_part, [(bits, first, multipliers, a, b, hashes) for a, b in parts], n_jobs)
    counted = _count(hashes, MAX_PATTERNS)
    if counted is None or 4 * len(counted[1]) > n_rows:
        return None
    ids, first_rows = counted
    return ids, rows[np.ix_(first_rows, columns)].astype(np.float64)


def _join_patterns(
    groups: list[tuple[IntArray, NDArray[np.int32], FloatArray]], limits: FloatArray, n_rows: int
) -> tuple[tuple[Pattern, ...], NDArray[np.int32]]:
    """Return padded patterns of the groups, and the pattern of each row."""
    width = _tile_width(n_rows)
    ids = np.zeros((len(groups), -(-n_rows // width) * width), np.int32)
    patterns: list[Pattern] = []
    total = 0
    for k, (columns, group_ids, values) in enumerate(groups):
        ids[k, :n_rows] = group_ids + np.int32(total)
        bound = limits[columns]
        padded = np.zeros((len(columns), -(-len(values) // CELL_ROWS) * CELL_ROWS))
        padded[:, : len(values)] = np.clip(values, -bound, bound).T
        patterns.append((columns, padded))
        total += padded.shape[1]
    return tuple(patterns), ids


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
