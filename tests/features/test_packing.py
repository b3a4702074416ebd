"""Packed rows: which layout columns get, and that every layout holds the same numbers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gramless.features.packing import (
    BLOCK_CELLS,
    MAX_PATTERNS,
    ColumnPlan,
    block_rows,
    pack_block,
    plan_columns,
)
from gramless.loops.packing import TILE
from tests.solvers.pairwise import each_value

NONE = np.empty(0, np.int64)
LARGEST = np.finfo(np.float64).max


def rows_of_every_kind(n_rows=1500, seed=0):
    """Continuous columns 0-2, few values in 3-11, zero-heavy ones in 12-31, constant 32."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 33))
    X[:, 3:12] = rng.integers(0, 4, (n_rows, 1)) == np.arange(9) % 4
    X[:, 11] *= -0.0
    X[:, 12:32] *= rng.random((n_rows, 20)) < 0.05
    X[:, 32] = 7.0
    return X


def unpacked(block, n_features):
    """Put the numbers of a packed block back where they came from; NaN if one came twice."""
    X = np.zeros((block.n_rows, n_features))
    counts = np.zeros(n_features, np.int64)
    for k, column in enumerate(block.tiled):
        X[:, column] = block.tiles[:, k].reshape(-1)[: block.n_rows]
        counts[column] += 1
    first = 0
    for ids, (columns, values) in zip(block.ids, block.patterns, strict=True):
        X[:, columns] = values.T[ids[: block.n_rows] - first]
        counts[columns] += 1
        first += values.shape[1]
    at = np.repeat(np.arange(block.n_rows), np.diff(block.indptr))
    np.add.at(X, (at, block.sparse[block.indices]), block.values)
    counts[block.sparse] += 1
    assert (counts == 1).all()
    return X


def limits_for(X):
    return np.full(X.shape[1], LARGEST)


def plans(n_features):
    """Return plans by hand: one layout alone, and all three mixed."""
    everything = np.arange(n_features)
    mixed = np.array_split(np.random.default_rng(0).permutation(n_features), 4)
    return {
        "tiles": ColumnPlan(everything, (), NONE),
        "patterns": ColumnPlan(NONE, (everything,), NONE),
        "nonzeros": ColumnPlan(NONE, (), everything),
        "mixed": ColumnPlan(mixed[0], (mixed[1], mixed[2]), mixed[3]),
    }


def test_plan_gives_each_kind_its_layout():
    plan = plan_columns(rows_of_every_kind())
    assert plan.tiled.tolist() == [0, 1, 2]
    assert [group.tolist() for group in plan.patterned] == [[*range(3, 12), 32]]
    assert plan.sparse.tolist() == list(range(12, 32))


def test_few_rows_or_columns_are_tiled():
    for n_rows, n_columns in ((1, 40), (1023, 40), (5000, 5)):
        plan = plan_columns(np.zeros((n_rows, n_columns)))
        assert plan.tiled.tolist() == list(range(n_columns))
        assert (plan.patterned, len(plan.sparse)) == ((), 0)


def test_independent_columns_split_into_several_groups():
    X = np.random.default_rng(0).integers(0, 2, (4000, 30))
    plan = plan_columns(X)
    assert len(plan.patterned) > 1
    sample = X[::3][:1024]
    for group in plan.patterned:
        assert len(group) >= 6
        assert len(np.unique(sample[:, group], axis=0)) <= 256


@pytest.mark.parametrize(
    ("dtype", "n_rows"),
    each_value([np.float64, np.float32, np.int8, np.uint8, np.int64, bool], [1024, 5001]),
)
def test_plan_holds_every_column_once(dtype, n_rows):
    X = (3 * rows_of_every_kind(n_rows)).astype(dtype)
    plan = plan_columns(X)
    columns = np.concatenate([plan.tiled, *plan.patterned, plan.sparse])
    assert sorted(columns.tolist()) == list(range(33))
    assert columns.dtype == np.int64


@pytest.mark.parametrize(
    ("divided", "n_rows"),
    each_value([[], [4], [0, 1, 5, 6], [*range(2, 33, 2)], [*range(33)]], [5001, 300]),
)
def test_plan_omits_undivided_columns(divided, n_rows):
    X, columns = rows_of_every_kind(n_rows), np.array(divided, np.int64)
    plan = plan_columns(X, columns)
    held = np.concatenate([plan.tiled, *plan.patterned, plan.sparse])
    assert sorted(held.tolist()) == divided
    alone = plan_columns(X[:, columns])
    assert columns[alone.tiled].tolist() == plan.tiled.tolist()
    groups = [group.tolist() for group in plan.patterned]
    assert [columns[group].tolist() for group in alone.patterned] == groups
    assert plan.width == alone.width <= len(divided)


def test_block_rows_are_whole_tiles_of_bounded_size():
    for n_columns in (1, 28, 500, 1954, 10**5, 10**8):
        rows = block_rows(n_columns)
        assert rows % TILE == 0
        assert TILE <= rows <= 65_536
        assert rows == TILE or rows * n_columns <= BLOCK_CELLS


@pytest.mark.parametrize(
    ("layout", "order"),
    each_value(["chosen", "tiles", "patterns", "nonzeros", "mixed"], ["C", "F"]),
)
def test_every_layout_stores_the_rows(layout, order):
    for start, stop in [(0, 3000), (100, 103), (1024, 3000), (7, 2056)]:
        X = np.asarray(rows_of_every_kind(3000), order=order)
        plan = plan_columns(X) if layout == "chosen" else plans(33)[layout]
        block = pack_block(X, start, stop, plan, limits_for(X))
        assert block.n_rows == stop - start
        np.testing.assert_array_equal(unpacked(block, 33), X[start:stop])


@given(
    hnp.arrays(
        np.int8, st.tuples(st.integers(1, 60), st.integers(4, 9)), elements=st.integers(-1, 1)
    ),
    st.sampled_from([np.int8, np.int64, np.float32, np.float64]),
    st.data(),
)
def test_random_plans_store_random_rows(X, dtype, data):
    layout = data.draw(st.lists(st.integers(0, 3), min_size=X.shape[1], max_size=X.shape[1]))
    parts = [np.flatnonzero(np.array(layout) == k) for k in range(4)]
    groups = tuple(part for part in parts[1:3] if len(part) > 0)
    start = data.draw(st.integers(0, len(X) - 1))
    stop = data.draw(st.integers(start + 1, len(X)))
    plan = ColumnPlan(parts[0], groups, parts[3])
    block = pack_block(X.astype(dtype), start, stop, plan, limits_for(X))
    np.testing.assert_array_equal(unpacked(block, X.shape[1]), X[start:stop])


def test_tail_of_the_last_tile_is_defined():
    X = rows_of_every_kind(1030)
    block = pack_block(X, 0, 1030, plans(33)["tiles"], limits_for(X))
    n_tiles = -(-1030 // TILE)
    assert block.tiles.shape == (n_tiles, 33, TILE)
    tail = block.tiles.transpose(0, 2, 1).reshape(-1, 33)[1030:]
    np.testing.assert_array_equal(tail, np.tile(X[-1:], (n_tiles * TILE - 1030, 1)))


def test_many_patterns_fall_back_to_tiles():
    X = np.random.default_rng(0).integers(0, 2, (5000, 13)).astype(float)
    block = pack_block(X, 0, len(X), plans(13)["patterns"], limits_for(X))
    assert len(block.ids) == 0
    assert block.tiled.tolist() == list(range(13))
    np.testing.assert_array_equal(unpacked(block, 13), X)


def test_patterns_beyond_a_table_fall_back_to_tiles():
    X = np.arange(MAX_PATTERNS + 1, dtype=float).repeat(4)[:, None]
    assert len(pack_block(X, 0, len(X), plans(1)["patterns"], limits_for(X)).ids) == 0
    fewer = X[4:]
    block = pack_block(fewer, 0, len(fewer), plans(1)["patterns"], limits_for(fewer))
    assert block.patterns[0][1].shape == (1, MAX_PATTERNS)
    np.testing.assert_array_equal(unpacked(block, 1), fewer)


@pytest.mark.parametrize("layout", ["tiles", "patterns", "nonzeros", "mixed"])
def test_values_are_clipped_in_every_layout(layout):
    X = np.random.default_rng(0).choice([0.0, 1.0, -1.0, 1e300, -LARGEST], (400, 8))
    X[:, 4:] = X[:, :4]
    X[:, 1:4] = X[:, :1]
    limits = np.array([0.5, 1.0, 2.0, LARGEST] * 2)
    block = pack_block(X, 3, 400, plans(8)[layout], limits)
    np.testing.assert_array_equal(unpacked(block, 8), np.clip(X[3:], -limits, limits))


@pytest.mark.parametrize(
    ("dtype", "index", "rows"),
    each_value(
        [np.float64, np.float32, np.int64, bool],
        [np.int32, np.int64],
        [(0, 1500), (10, 11), (1400, 1500)],
    ),
)
def test_sparse_rows_are_packed(dtype, index, rows):
    start, stop = rows
    dense = (4 * rows_of_every_kind()).astype(dtype)
    X = sp.csr_array(dense)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    limits = np.full(33, 3.0)
    block = pack_block(X, start, stop, plan_columns(X), limits)
    expected = np.clip(dense[start:stop].astype(float), -3.0, 3.0)
    np.testing.assert_array_equal(unpacked(block, 33), expected)


def test_stored_zeros_and_order_do_not_change_packing():
    X = sp.csr_array((np.array([5.0, 0.0, 2.0]), np.array([2, 0, 1]), np.array([0, 2, 2, 3])))
    block = pack_block(X, 0, 3, plan_columns(X), np.full(3, LARGEST))
    np.testing.assert_array_equal(unpacked(block, 3), X.toarray())


@pytest.mark.parametrize("layout", ["tiles", "patterns", "nonzeros", "mixed"])
def test_number_of_threads_does_not_change_packing(layout):
    X = rows_of_every_kind(10_000)
    X[:, :3] = np.round(X[:, :3])
    X[:, 12:32] = np.round(X[:, 12:32] / 4)
    blocks = [pack_block(X, 0, len(X), plans(33)[layout], limits_for(X), n) for n in (1, 2, 3)]
    for block in blocks[1:]:
        assert pickle.dumps(block) == pickle.dumps(blocks[0])
