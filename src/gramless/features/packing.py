"""Rows made ready for binning: column tiles, shared patterns, non-zeros.

Three layouts, mixed freely within one block of rows:

- *tiles*: a column as float64 numbers, 0.08 ns a cell and core;
- *patterns*: columns of few distinct values taken together (one-hot columns,
  small integers): each distinct combination is binned once, a row adds one
  tabulated number;
- *non-zeros*: zero-heavy columns correct the key of the zero row.

The choice changes the speed only: keys are the same to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.random import stream
from gramless.base.threads import map_blocks, row_blocks
from gramless.features.inputs import Rows
from gramless.loops import packing as loops

BLOCK_CELLS = 2_000_000
MAX_PATTERNS = 4096
_SAMPLE_ROWS = 1024
_SAMPLE_PATTERNS = 256
_MIN_PATTERN_COLUMNS = 6
_MAX_SPARSE_DENSITY = 0.2
_MIN_SPARSE_COLUMNS = 16


@dataclass(frozen=True)
class ColumnPlan:
    """Which columns of a dense matrix go into tiles, patterns and non-zeros."""

    tiled: NDArray[np.int64]
    patterned: tuple[NDArray[np.int64], ...]
    sparse: NDArray[np.int64]


@dataclass(frozen=True)
class PackedBlock:
    """A block of rows ready for :mod:`gramless.loops.binning`.

    Attributes
    ----------
    n_rows : int
    tiled, sparse : arrays of int64
        Columns held in ``tiles`` and in the CSR parts ``indptr, indices, values``.
    tiles : array (n_tiles, len(tiled), width) of float64
    ids : array (n_pattern_groups, n_tiles * width) of int32
        Number of each row's pattern, counted through all pattern groups.
    pattern_values : array (largest group, n_patterns) of float64
    pattern_columns, pattern_starts : arrays of int64
        Columns of the pattern groups and (2, n_groups + 1) where each group's
        patterns and columns start.
    clipped : bool
        Whether some number lay beyond the limits.
    all_tiled : bool
        Whether the tiles hold every column, in order.
    """

    n_rows: int
    tiled: NDArray[np.int64]
    sparse: NDArray[np.int64]
    tiles: NDArray[np.float64]
    ids: NDArray[np.int32]
    pattern_values: NDArray[np.float64]
    pattern_columns: NDArray[np.int64]
    pattern_starts: NDArray[np.int64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    values: NDArray[np.float64]
    clipped: bool
    all_tiled: bool


def plan_columns(X: Rows) -> ColumnPlan:
    """Choose the layout of each column from a sample of the rows.

    Parameters
    ----------
    X : array (n_samples, n_features) or CSR
        Sparse input stays sparse as a whole.

    Returns
    -------
    ColumnPlan
    """
    n_rows, n_columns = X.shape
    everything = np.arange(n_columns)
    none = np.empty(0, np.int64)
    if sp.issparse(X):
        return ColumnPlan(none, (), everything)
    if n_rows < _SAMPLE_ROWS or n_columns < _MIN_PATTERN_COLUMNS:
        return ColumnPlan(everything, (), none)
    sample = np.asarray(X[:: n_rows // _SAMPLE_ROWS][:_SAMPLE_ROWS])
    patterned = _pattern_groups(sample)
    rest = np.setdiff1d(everything, np.concatenate([*patterned, none]))
    zero_heavy = rest[(sample[:, rest] != 0).mean(axis=0) < _MAX_SPARSE_DENSITY]
    if len(zero_heavy) < _MIN_SPARSE_COLUMNS:
        zero_heavy = none
    return ColumnPlan(np.setdiff1d(rest, zero_heavy), tuple(patterned), zero_heavy)


def block_rows(n_columns: int) -> int:
    """Return how many rows a packed block holds: about 16 MB of float64."""
    rows = BLOCK_CELLS // max(1, n_columns)
    return int(np.clip(rows // loops.TILE, 1, 64)) * loops.TILE


def pack_block(
    X: Rows,
    start: int,
    stop: int,
    plan: ColumnPlan,
    limits: NDArray[np.float64],
    n_jobs: int | None = None,
) -> PackedBlock:
    """Pack rows ``start:stop``.

    Parameters
    ----------
    X : array (n_samples, n_features) or CSR
    start, stop : int
        The rows.
    plan : ColumnPlan
    limits : array (n_features,)
        Values beyond ``+-limits`` are clipped, so that a cell's number fits 63 bits.
    n_jobs : int or None
        Threads, see :func:`gramless.base.threads.thread_count`.

    Returns
    -------
    PackedBlock
    """
    if sp.issparse(X):
        rows = np.empty((stop - start, 0))
        nonzeros = _sparse_rows(X, start, stop)
    else:
        rows = X[start:stop]
        if not (rows.flags.c_contiguous or rows.flags.f_contiguous):
            rows = rows.copy(order="F" if rows.strides[0] < rows.strides[1] else "C")
        nonzeros = _nonzeros(rows, plan.sparse)
    tiled, groups = plan.tiled, []
    for columns in plan.patterned:
        found = _number_patterns(rows, columns, n_jobs) if len(columns) > 0 else None
        if found is None:
            tiled = np.concatenate([tiled, columns])
        else:
            groups.append((columns, *found))
    tiles, clipped = _tiles(rows, tiled, limits[tiled], n_jobs)
    beyond = [np.abs(values) > limits[columns, None] for columns, _, values in groups]
    bound = limits[plan.sparse][nonzeros[1]]
    beyond.append(np.abs(nonzeros[2]) > bound)
    np.clip(nonzeros[2], -bound, bound, out=nonzeros[2])
    ids, pattern_values, pattern_columns, starts = _join_patterns(groups, limits, stop - start)
    return PackedBlock(
        n_rows=stop - start,
        tiled=tiled,
        sparse=plan.sparse,
        tiles=tiles,
        ids=ids,
        pattern_values=pattern_values,
        pattern_columns=pattern_columns,
        pattern_starts=starts,
        indptr=nonzeros[0],
        indices=nonzeros[1],
        values=nonzeros[2],
        clipped=clipped or any(part.any() for part in beyond),
        all_tiled=len(plan.tiled) == X.shape[1],
    )


def _width(n_rows: int) -> int:
    return min(loops.TILE, -(-n_rows // 8) * 8)


def _tiles(rows, columns, limits, n_jobs):  # type: ignore[no-untyped-def]
    width = _width(len(rows))
    n_tiles = -(-len(rows) // width)
    tiles = np.empty((n_tiles, len(columns), width))
    parts = row_blocks(n_tiles, -(-n_tiles // 8)) if len(columns) > 0 else []
    clipped = map_blocks(
        loops.pack_columns, [(rows, a, columns, limits, tiles[a:b]) for a, b in parts], n_jobs
    )
    return tiles, any(clipped)


def _pattern_groups(sample: NDArray) -> list[NDArray[np.int64]]:
    """Group columns of few values while their combinations stay few on the sample."""
    ordered = np.sort(sample, axis=0)
    n_values = 1 + (ordered[1:] != ordered[:-1]).sum(axis=0)
    weights: NDArray[np.float64] = stream(0, "pattern sample").random((sample.shape[1],))
    groups: list[NDArray[np.int64]] = []
    open_group: list[int] = []
    total = np.zeros(len(sample))
    for column in np.flatnonzero(n_values <= _SAMPLE_PATTERNS // 8):
        _, ranks = np.unique(sample[:, column], return_inverse=True)
        added = total + weights[column] * ranks
        if len(np.unique(added)) > _SAMPLE_PATTERNS:
            groups.append(np.array(open_group, np.int64))
            open_group, added = [], weights[column] * ranks
        open_group.append(int(column))
        total = added
    groups.append(np.array(open_group, np.int64))
    return [group for group in groups if len(group) >= _MIN_PATTERN_COLUMNS]


def _number_patterns(rows, columns, n_jobs):  # type: ignore[no-untyped-def]
    """Return (ids, values) of the patterns of ``columns``, or None when there are too many."""
    n_rows = len(rows)
    hashes = np.empty(n_rows, np.int64)
    first = int(columns.min())
    multipliers = np.zeros(int(columns.max()) - first + 1, np.int64)
    odd = stream(0, "pattern hash").integers(-(2**63), 2**63, len(columns)) | 1
    multipliers[columns - first] = odd
    bits = rows.view(f"i{rows.itemsize}")
    hash_part = loops.hash_rows if rows.flags.c_contiguous else loops.hash_columns
    parts = row_blocks(n_rows, max(4096, n_rows // 8))
    map_blocks(hash_part, [(bits, first, multipliers, a, b, hashes) for a, b in parts], n_jobs)
    ids = np.empty(n_rows, np.int32)
    first_rows = np.empty(MAX_PATTERNS, np.int32)
    slots = np.full(4 * MAX_PATTERNS, -1, np.int32)
    count = loops.number_patterns(hashes, ids, first_rows, slots)
    if count < 0 or 4 * count > n_rows:
        return None
    return ids, rows[np.ix_(first_rows[:count], columns)].astype(np.float64).T


def _join_patterns(groups, limits, n_rows):  # type: ignore[no-untyped-def]
    sizes = [values.shape for _, _, values in groups]
    joined = np.zeros((max([s[0] for s in sizes], default=0), sum(s[1] for s in sizes)))
    starts = np.zeros((2, len(groups) + 1), np.int64)
    ids = np.zeros((len(groups), -(-n_rows // _width(n_rows)) * _width(n_rows)), np.int32)
    for k, (columns, group_ids, values) in enumerate(groups):
        bound = limits[columns, None]
        starts[:, k + 1] = starts[:, k] + [values.shape[1], values.shape[0]]
        ids[k, :n_rows] = group_ids + np.int32(starts[0, k])
        joined[: len(columns), starts[0, k] : starts[0, k + 1]] = np.clip(values, -bound, bound)
    columns = np.concatenate([np.empty(0, np.int64), *(columns for columns, _, _ in groups)])
    return ids, joined, columns, starts


def _sparse_rows(X, start, stop):  # type: ignore[no-untyped-def]
    part = slice(X.indptr[start], X.indptr[stop])
    indptr = X.indptr[start : stop + 1].astype(np.int64) - int(X.indptr[start])
    return indptr, X.indices[part].astype(np.int64), X.data[part].astype(np.float64)


def _nonzeros(rows, columns):  # type: ignore[no-untyped-def]
    indptr = np.zeros(len(rows) + 1, np.int64)
    if len(columns) == 0:
        return indptr, np.empty(0, np.int64), np.empty(0)
    loops.count_nonzeros(rows, columns, indptr)
    np.cumsum(indptr, out=indptr)
    indices = np.empty(indptr[-1], np.int64)
    values = np.empty(indptr[-1])
    loops.fill_nonzeros(rows, columns, indptr, indices, values)
    return indptr, indices, values
