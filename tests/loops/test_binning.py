"""The binning loops against slow NumPy twins: cells and their keys, patterns, non-zeros, blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.loops import binning

SEEDS = st.integers(0, 2**32 - 1)


def make_grids(seed: int, n_grids: int, n_columns: int, ignored: float = 0.3):
    """Draw (inverse widths, shifts, multipliers); a part of the columns has infinite width."""
    rng = np.random.default_rng(seed)
    inverse = rng.gamma(2.0, size=(n_grids, n_columns))
    shifts = rng.uniform(0.0, 1.0, inverse.shape) / inverse
    infinite = rng.random(inverse.shape) < ignored
    inverse[infinite], shifts[infinite] = 0.0, 0.0
    return inverse, shifts, rng.integers(-(2**63), 2**63, inverse.shape) | 1


def make_rows(seed: int, n_rows: int, n_columns: int) -> NDArray[np.float64]:
    """Draw rows with zeros of both signs, whole numbers and values near the clip limit."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, n_columns)) * rng.choice([1.0, 1e3, 2.0**57], n_columns)
    kind = rng.integers(0, 4, rows.shape)
    rows[kind == 0] = 0.0
    rows[kind == 1] = -0.0
    return np.where(kind == 2, np.round(rows), rows)


def keys_twin(rows, grids, offsets) -> NDArray[np.int64]:
    """Return the keys (n_grids, n_rows) by the definition of the linear hash."""
    inverse, shifts, multipliers = grids
    cells = np.floor((rows[None] - shifts[:, None]) * inverse[:, None]).astype(np.int64)
    return offsets[:, None] + (cells * multipliers[:, None]).sum(axis=2)


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
    return indptr, columns, rows[at, columns]


def eight_wide(grids):
    """Transpose sparse columns' parameters to (n_columns, GROUP) and add the cells of zero."""
    padded = [np.zeros((part.shape[1], binning.GROUP), part.dtype) for part in grids]
    for out, part in zip(padded, grids, strict=True):
        out[:, : len(part)] = part.T
    zero_cells = np.floor((0.0 - padded[1]) * padded[0]).astype(np.int64)
    return (*padded, zero_cells)


def part_of(grids, columns):
    return tuple(np.ascontiguousarray(part[:, columns]) for part in grids)


def block_arguments(rows, grids, offsets, width):
    """Pack rows by hand: a third of the columns in tiles, a third as patterns, a third sparse."""
    n_rows, n_columns = rows.shape
    tiled, patterned, sparse = np.array_split(np.arange(n_columns), 3)
    n_tiles = -(-n_rows // width)
    padded = rows[np.minimum(np.arange(n_tiles * width), n_rows - 1)]
    tiles = padded[:, tiled].reshape(n_tiles, width, len(tiled)).swapaxes(1, 2)
    patterns, ids = np.unique(padded[:, patterned], axis=0, return_inverse=True)
    contributions = np.empty((len(offsets), len(patterns)), np.int64)
    starts = np.array([[0, len(patterns)], [0, len(patterned)]])
    binning.pattern_contributions(
        np.ascontiguousarray(patterns.T), starts, patterned, grids, contributions
    )
    sparse_grids = eight_wide(part_of(grids, sparse))
    zero_keys = (sparse_grids[2] * sparse_grids[3]).sum(axis=0)[: len(offsets)]
    return (
        n_rows,
        np.ascontiguousarray(tiles),
        ids.reshape(1, -1).astype(np.int32),
        contributions,
        nonzeros(rows[:, sparse]),
        part_of(grids, tiled),
        sparse_grids,
        offsets + zero_keys,
    )


TILE_ROWS = 32


def empty_tables(n_grids: int, n_bins: int):
    bits = max(10, (4 * (n_bins + TILE_ROWS + 1)).bit_length())
    return (
        np.zeros((n_grids, 1 << bits), np.int32),
        np.full(n_grids, 10, np.int64),
        np.zeros((n_grids, 1 << (bits - 2)), np.int64),
        np.zeros(n_grids, np.int64),
    )


@given(SEEDS, st.integers(0, 7), st.sampled_from([0, 8, 16, 56, 1024]))
def test_add_cells(seed, n_columns, width):
    grids = make_grids(seed, 1, n_columns)
    rows = make_rows(seed, width, n_columns)
    before = np.random.default_rng(seed).integers(-(2**63), 2**63, width)
    keys = before.copy()
    binning.add_cells(np.ascontiguousarray(rows.T), *(part[0] for part in grids), keys)
    np.testing.assert_array_equal(keys, before + keys_twin(rows, grids, np.zeros(1, np.int64))[0])


def test_cells_are_those_of_the_division():
    # Dyadic widths have exact inverses, so that a boundary falls on the same side either way.
    rng = np.random.default_rng(0)
    widths = 2.0 ** rng.integers(-3, 4, 5)
    shifts = rng.integers(0, 16, 5) * widths / 16
    rows = rng.integers(-100, 100, (1024, 5)) / 16
    multipliers = rng.integers(-(2**63), 2**63, 5) | 1
    keys = np.zeros(1024, np.int64)
    binning.add_cells(np.ascontiguousarray(rows.T), 1 / widths, shifts, multipliers, keys)
    cells = np.floor((rows - shifts) / widths).astype(np.int64)
    np.testing.assert_array_equal(keys, (cells * multipliers).sum(axis=1))


@given(SEEDS, st.integers(1, 40), st.integers(0, 6), st.integers(1, 8), st.data())
def test_add_sparse_cells_corrects_the_zero_row(seed, n_rows, n_columns, n_grids, data):
    grids, rows = make_grids(seed, n_grids, n_columns), make_rows(seed, n_rows, n_columns)
    start = data.draw(st.integers(0, n_rows))
    stop = data.draw(st.integers(start, n_rows))
    offsets = np.random.default_rng(seed).integers(-(2**63), 2**63, n_grids)
    expected = keys_twin(rows, grids, offsets)[:, start:stop]
    zero_keys = keys_twin(np.zeros((1, n_columns)), grids, offsets)
    keys = np.zeros((binning.GROUP, 48), np.int64)
    keys[:n_grids] = zero_keys
    binning.add_sparse_cells(*nonzeros(rows), start, stop, *eight_wide(grids), keys)
    np.testing.assert_array_equal(keys[:n_grids, : stop - start], expected)
    assert (keys[:n_grids, stop - start :] == zero_keys).all()
    assert (keys[n_grids:] == 0).all()


@given(SEEDS, st.integers(0, 40), st.integers(1, 9))
def test_add_patterns(seed, n_rows, n_patterns):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, n_patterns, n_rows).astype(np.int32)
    contributions = rng.integers(-(2**63), 2**63, n_patterns)
    before = rng.integers(-(2**63), 2**63, n_rows)
    keys = before.copy()
    binning.add_patterns(ids, contributions, keys)
    np.testing.assert_array_equal(keys, before + contributions[ids])


@given(SEEDS, st.integers(1, 8), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5))))
def test_pattern_contributions(seed, n_grids, groups):
    n_columns = 12
    rng = np.random.default_rng(seed)
    grids = make_grids(seed, n_grids, n_columns)
    starts = np.zeros((2, len(groups) + 1), np.int64)
    starts[:, 1:] = np.cumsum(np.array(groups, np.int64).reshape(-1, 2), axis=0).T
    columns = rng.integers(0, n_columns, starts[1, -1])
    values = make_rows(seed, max([size for _, size in groups], default=0), starts[0, -1])
    contributions = np.full((n_grids, starts[0, -1]), -1)
    binning.pattern_contributions(values, starts, columns, grids, contributions)
    none = np.zeros(n_grids, np.int64)
    for k, (_, size) in enumerate(groups):
        patterns = slice(starts[0, k], starts[0, k + 1])
        own = columns[starts[1, k] : starts[1, k + 1]]
        expected = keys_twin(values[:size, patterns].T, part_of(grids, own), none)
        np.testing.assert_array_equal(contributions[:, patterns], expected)


@given(SEEDS, st.integers(1, 70), st.integers(3, 10), st.integers(1, 8))
def test_tile_keys_of_all_layouts_at_once(seed, n_rows, n_columns, n_grids):
    grids, rows = make_grids(seed, n_grids, n_columns), make_rows(seed, n_rows, n_columns)
    offsets = np.random.default_rng(seed).integers(-(2**63), 2**63, n_grids)
    _, *packed = block_arguments(rows, grids, offsets, 32)
    expected = keys_twin(rows, grids, offsets)
    for t in range(len(packed[0])):
        keys = np.empty((binning.GROUP, 32), np.int64)
        binning.tile_keys(t, n_grids, *packed, keys)
        inside = expected[:, 32 * t : 32 * t + 32]
        np.testing.assert_array_equal(keys[:n_grids, : inside.shape[1]], inside)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize(("n_rows", "n_grids"), [(1, 1), (31, 3), (32, 8), (200, 5)])
def test_learn_block_then_find_block(dtype, n_rows, n_grids):
    grids, rows = make_grids(1, n_grids, 7), make_rows(2, n_rows, 7)
    rows[n_rows // 2 :] = rows[: n_rows - n_rows // 2]
    offsets = np.arange(n_grids)
    packed = block_arguments(rows, grids, offsets, 32)
    slots, bits, table, counts = empty_tables(n_grids, n_rows)
    codes = np.zeros((n_grids, n_rows), dtype)
    assert binning.learn_block(0, *packed, slots, bits, table, counts, codes) == len(packed[1])
    keys = keys_twin(rows, grids, offsets)
    expected = np.array([numbered(k) for k in keys])
    np.testing.assert_array_equal(codes, expected)
    np.testing.assert_array_equal(counts, expected.max(axis=1))
    for g in range(n_grids):
        np.testing.assert_array_equal(table[g, codes[g]], keys[g])
    found = np.zeros_like(codes)
    binning.find_block(*packed, slots, bits, table, counts, found)
    np.testing.assert_array_equal(found, codes)


def test_find_block_gives_zero_to_bins_never_seen():
    grids, rows = make_grids(1, 4, 7, ignored=0.0), make_rows(2, 60, 7)
    offsets = np.arange(4)
    slots, bits, table, counts = empty_tables(4, 60)
    codes = np.zeros((4, 60), np.uint16)
    packed = block_arguments(rows, grids, offsets, 32)
    assert binning.learn_block(0, *packed, slots, bits, table, counts, codes) == len(packed[1])
    other = np.concatenate([rows + 1e4, rows[:9]])
    codes = np.full((4, 69), 9999, np.uint16)
    packed = block_arguments(other, grids, offsets, 32)
    binning.find_block(*packed, slots, bits, table, counts, codes)
    known, keys = keys_twin(rows, grids, offsets), keys_twin(other, grids, offsets)
    seen = np.array([np.isin(keys[g], known[g]) for g in range(4)])
    np.testing.assert_array_equal(codes != 0, seen)
    assert seen[:, 60:].all()
    assert not seen[:, :60].all()
