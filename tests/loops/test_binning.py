"""The binning loops against slow NumPy references: cells, keys, patterns, non-zeros, blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.errors import TypingError
from numpy.typing import NDArray

from gramless.base.arrays import writable_flat_rows
from gramless.loops import binning
from gramless.loops.simd import CELL_ROWS
from harness.loops import entry
from tests.solvers.pairwise import each_value

SEEDS = st.integers(0, 2**32 - 1)

add_patterns, tile_keys = entry(binning.add_patterns), entry(binning.tile_keys)
add_sparse_cells = entry(binning.add_sparse_cells)


def make_grids(seed: int, n_grids: int, n_columns: int, ignored: float = 0.3):
    """Draw (inverse widths, shifts, multipliers, limits); a part has an infinite width."""
    rng = np.random.default_rng(seed)
    inverse = rng.gamma(2.0, size=(n_grids, n_columns))
    shifts = rng.uniform(0.0, 1.0, inverse.shape) / inverse
    infinite = rng.random(inverse.shape) < ignored
    inverse[infinite], shifts[infinite] = 0.0, 0.0
    limits = rng.choice([2.0, 2.0**39 - 1.0, 2.0**62], inverse.shape)
    return inverse, shifts, rng.integers(-(2**63), 2**63, inverse.shape) | 1, limits


def make_rows(seed: int, n_rows: int, n_columns: int) -> NDArray[np.float64]:
    """Draw rows with zeros of both signs, whole numbers and values near the clip limit."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, n_columns)) * rng.choice([1.0, 1e3, 2.0**57], n_columns)
    kind = rng.integers(0, 4, rows.shape)
    rows[kind == 0] = 0.0
    rows[kind == 1] = -0.0
    return np.where(kind == 2, np.round(rows), rows)


def expected_keys(rows, grids, offsets) -> NDArray[np.int64]:
    """Return the keys (n_grids, n_rows) by the definition of the linear hash."""
    inverse, shifts, multipliers, limits = (part[:, None] for part in grids)
    cells = np.floor(np.clip((rows[None] - shifts) * inverse, -limits, limits)).astype(np.int64)
    return offsets[:, None] + (cells * multipliers).sum(axis=2)


def numbered(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the keys of one grid from 1 in order of first appearance."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(1, len(first) + 1)
    return rank[inverse]


def nonzeros(rows: NDArray[np.float64]):
    """Return (indptr, indices, values) of dense rows."""
    at, columns = np.nonzero(rows)
    indptr = np.concatenate([[0], np.cumsum((rows != 0).sum(axis=1))])
    return indptr, np.ascontiguousarray(columns), rows[at, columns]


def eight_wide(grids):
    """Transpose parameters to (n_columns, GROUP)."""
    padded = tuple(np.zeros((part.shape[1], binning.GROUP), part.dtype) for part in grids)
    for out, part in zip(padded, grids, strict=True):
        out[:, : len(part)] = part.T
    return padded


def zero_keys_of(wide):
    cells = np.clip((0.0 - wide[1]) * wide[0], -wide[3], wide[3])
    return wide[2] * np.floor(cells).astype(np.int64)


def divided(grids):
    """Return the parameters of the columns that each grid divides, grid after grid."""
    at, columns = np.nonzero(grids[0])
    starts = np.searchsorted(at, np.arange(len(grids[0]) + 1))
    return starts, np.ascontiguousarray(columns), *(part[at, columns] for part in grids)


def add_cells(rows, grids, begun):
    """Call the loop on rows of any number, filled up with zeros."""
    n = -(-len(rows) // CELL_ROWS) * CELL_ROWS
    filled, keys = np.zeros((rows.shape[1], n)), np.zeros((binning.GROUP, n), np.int64)
    filled[:, : len(rows)], keys[:, : len(rows)] = rows.T, begun
    binning.add_cells(filled, np.abs(filled).max(axis=1, initial=0.0), divided(grids), keys)
    return keys[:, : len(rows)]


def part_of(grids, columns):
    return tuple(np.ascontiguousarray(part[:, columns]) for part in grids)


def block_arguments(rows, grids, offsets, width):
    """Pack rows by hand: a third of the columns in tiles, a third as patterns, a third sparse."""
    n_rows, n_columns = rows.shape
    tiled, patterned, sparse = np.array_split(np.arange(n_columns), 3)
    n_tiles = -(-n_rows // width)
    padded = rows[np.minimum(np.arange(n_tiles * width), n_rows - 1)]
    tiles = padded[:, tiled].reshape(n_tiles, width, len(tiled))
    tiles = np.ascontiguousarray(tiles.transpose(0, 2, 1))
    patterns, ids = np.unique(padded[:, patterned], axis=0, return_inverse=True)
    contributions = add_cells(patterns, part_of(grids, patterned), 0)
    sparse_grids = eight_wide(part_of(grids, sparse))
    zero_keys = zero_keys_of(sparse_grids)
    wide_offsets = np.zeros(binning.GROUP, np.int64)
    wide_offsets[: len(offsets)] = offsets
    return (
        n_rows,
        tiles,
        np.abs(tiles).max(axis=2),
        ids.reshape(1, -1).astype(np.int32),
        np.ascontiguousarray(contributions.T),
        nonzeros(rows[:, sparse]),
        divided(part_of(grids, tiled)),
        (sparse_grids, zero_keys),
        wide_offsets + zero_keys.sum(axis=0),
    )


TILE_ROWS = 32
NO_LIMIT = 2**31
ROOM = (
    np.empty((TILE_ROWS, binning.GROUP), np.int64),
    np.empty((binning.GROUP, TILE_ROWS), np.int64),
)


def number(packed, tables, n_more, codes):
    """Number the bins of a block, so many beyond those that are known."""
    flat = writable_flat_rows(codes)
    return binning.number_block(0, *packed, *tables, tables[3] + n_more, *flat, *ROOM)


def empty_tables(n_grids: int, n_bins: int):
    bits = max(10, (4 * (n_bins + TILE_ROWS + 1)).bit_length())
    return (
        np.zeros((n_grids, 1 << bits), np.int32),
        np.full(n_grids, 10, np.int64),
        np.zeros((n_grids, 1 << (bits - 2)), np.int64),
        np.zeros(n_grids, np.int64),
    )


@given(SEEDS, st.integers(1, 8), st.integers(0, 7), st.sampled_from([0, 8, 16, 56, 1024]))
def test_add_cells_matches_the_slow_implementation(seed, n_grids, n_columns, n_rows):
    grids = make_grids(seed, n_grids, n_columns)
    rows = make_rows(seed, n_rows, n_columns)
    begun = np.random.default_rng(seed).integers(-(2**63), 2**63, (binning.GROUP, n_rows))
    keys = add_cells(rows, grids, begun)
    expected = expected_keys(rows, grids, np.zeros(n_grids, np.int64))
    np.testing.assert_array_equal(keys[:n_grids], begun[:n_grids] + expected)
    np.testing.assert_array_equal(keys[n_grids:], begun[n_grids:])


@pytest.mark.parametrize("limit", [2.0**39 - 1.0, 2.0**50, 2.0**62])
def test_cells_of_any_size_are_exact(limit):
    sizes = np.array([1.0, 2.0**31, 2.0**39 - 2.0, 2.0**50 - 1.0, 2.0**51, 2.0**53, 2.0**62, 1e300])
    columns = np.concatenate([sizes, -sizes])[:, None] + np.array([0.0, 0.5, 1.0])
    grids = (
        np.ones((1, 1)),
        np.full((1, 1), 0.25),
        np.full((1, 1), 2**63 - 25),
        np.full((1, 1), limit),
    )
    for rows in columns:
        expected = expected_keys(rows[:, None], grids, np.array([3]))
        np.testing.assert_array_equal(add_cells(rows[:, None], grids, 3)[:1], expected)


@given(SEEDS, st.integers(1, 40), st.integers(0, 6), st.integers(1, 8), st.data())
def test_add_sparse_cells_corrects_the_zero_row(seed, n_rows, n_columns, n_grids, data):
    grids, rows = make_grids(seed, n_grids, n_columns), make_rows(seed, n_rows, n_columns)
    start = data.draw(st.integers(0, n_rows))
    stop = data.draw(st.integers(start, n_rows))
    offsets = np.random.default_rng(seed).integers(-(2**63), 2**63, n_grids)
    expected = expected_keys(rows, grids, offsets)[:, start:stop]
    zero_keys = expected_keys(np.zeros((1, n_columns)), grids, offsets)
    keys = np.zeros((48, binning.GROUP), np.int64)
    keys[:, :n_grids] = zero_keys.T
    wide = eight_wide(grids)
    add_sparse_cells(*nonzeros(rows), start, stop, wide, zero_keys_of(wide), keys)
    np.testing.assert_array_equal(keys[: stop - start, :n_grids], expected.T)
    assert (keys[stop - start :, :n_grids] == zero_keys.T).all()
    assert (keys[:, n_grids:] == 0).all()


def test_strided_arrays_are_rejected():
    keys, zeros = np.zeros((1, binning.GROUP), np.int64), np.zeros((4, binning.GROUP), np.int64)
    wide = eight_wide(make_grids(0, 8, 4))
    with pytest.raises(TypingError, match="contiguous"):
        add_sparse_cells(np.array([0, 2]), np.arange(4)[::2], np.ones(2), 0, 1, wide, zeros, keys)


@given(SEEDS, st.integers(0, 40), st.integers(1, 9))
def test_add_patterns_matches_the_slow_implementation(seed, n_rows, n_patterns):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, n_patterns, n_rows).astype(np.int32)
    contributions = rng.integers(-(2**63), 2**63, (n_patterns, binning.GROUP))
    before = rng.integers(-(2**63), 2**63, (n_rows, binning.GROUP))
    keys = before.copy()
    add_patterns(ids, contributions, keys)
    np.testing.assert_array_equal(keys, before + contributions[ids])


@given(SEEDS, st.integers(1, 70), st.integers(3, 10), st.integers(1, 8))
def test_tile_keys_sums_all_layouts(seed, n_rows, n_columns, n_grids):
    grids, rows = make_grids(seed, n_grids, n_columns), make_rows(seed, n_rows, n_columns)
    offsets = np.random.default_rng(seed).integers(-(2**63), 2**63, n_grids)
    _, *packed = block_arguments(rows, grids, offsets, 32)
    expected = expected_keys(rows, grids, offsets)
    for t in range(len(packed[0])):
        begun, keys = np.empty((2, 32 * binning.GROUP), np.int64)
        keys = keys.reshape(binning.GROUP, 32)
        tile_keys(t, *packed, begun.reshape(32, binning.GROUP), keys)
        inside = expected[:, 32 * t : 32 * t + 32]
        np.testing.assert_array_equal(keys[:n_grids, : inside.shape[1]], inside)


@pytest.mark.parametrize(
    ("size", "dtype"),
    each_value([(1, 1), (31, 3), (32, 8), (200, 5)], [np.uint8, np.uint16, np.uint32]),
)
def test_new_bins_are_numbered_and_then_found(size, dtype):
    n_rows, n_grids = size
    grids, rows = make_grids(1, n_grids, 7), make_rows(2, n_rows, 7)
    rows[n_rows // 2 :] = rows[: n_rows - n_rows // 2]
    offsets = np.arange(n_grids)
    packed = block_arguments(rows, grids, offsets, 32)
    slots, bits, table, counts = empty_tables(n_grids, n_rows)
    codes = np.zeros((n_grids, n_rows), dtype)
    assert number(packed, (slots, bits, table, counts), NO_LIMIT, codes) == len(packed[1])
    keys = expected_keys(rows, grids, offsets)
    expected = np.array([numbered(k) for k in keys])
    np.testing.assert_array_equal(codes, expected)
    np.testing.assert_array_equal(counts, expected.max(axis=1))
    for g in range(n_grids):
        np.testing.assert_array_equal(table[g, codes[g]], keys[g])
    result = np.zeros_like(codes)
    number(packed, (slots, bits, table, counts), 0, result)
    np.testing.assert_array_equal(result, codes)


def test_bins_beyond_the_limit_are_zero():
    grids, rows = make_grids(1, 4, 7, ignored=0.0), make_rows(2, 60, 7)
    offsets = np.arange(4)
    slots, bits, table, counts = empty_tables(4, 60)
    codes = np.zeros((4, 60), np.uint16)
    packed = block_arguments(rows, grids, offsets, 32)
    assert number(packed, (slots, bits, table, counts), NO_LIMIT, codes) == len(packed[1])
    other = np.concatenate([rows + 1e4, rows[:9]])
    codes = np.full((4, 69), 9999, np.uint16)
    packed = block_arguments(other, grids, offsets, 32)
    number(packed, (slots, bits, table, counts), 0, codes)
    known, keys = expected_keys(rows, grids, offsets), expected_keys(other, grids, offsets)
    known_key = np.array([np.isin(keys[g], known[g]) for g in range(4)])
    np.testing.assert_array_equal(codes != 0, known_key)
    assert known_key[:, 60:].all()
    assert not known_key[:, :60].all()
