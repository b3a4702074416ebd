"""Bins learned and found: the same in every layout, in parts or whole, and by brute force."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gramless.base.errors import InputError
from gramless.features.grids import BinTables, GridGroup, Grids, cell_limits, key_workspace
from gramless.features.packing import ColumnPlan, pack_block, plan_columns
from tests.solvers.pairwise import each_value

NONE = np.empty(0, np.int64)
N_FEATURES = 33


def draw_widths(seed, n_grids, n_features=N_FEATURES, ignored=0.2, mean=6.0):
    """Draw widths, some of them infinite, and shifts within them."""
    rng = np.random.default_rng(seed)
    widths = mean / 2 * rng.gamma(2.0, size=(n_grids, n_features))
    shifts = rng.random(widths.shape) * widths
    infinite = rng.random(widths.shape) < ignored
    widths[infinite], shifts[infinite] = np.inf, 0.0
    return widths, shifts


def group_of(widths, shifts, seed=0):
    n_grids, n_features = widths.shape
    hashes = np.random.default_rng(seed).integers(-(2**63), 2**63, (n_grids, n_features + 1))
    return GridGroup(1.0 / widths, shifts, hashes[:, 1:] | 1, hashes[:, 0].copy())


def rows_of_every_kind(n_rows=1500, seed=0):
    """Continuous columns 0-2, few values in 3-11, zero-heavy ones in 12-31, constant 32."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_FEATURES))
    X[:, 3:12] = 5 * (rng.integers(0, 4, (n_rows, 1)) == np.arange(9) % 4)
    X[:, 11] *= -0.0
    X[:, 12:32] *= 9 * (rng.random((n_rows, 20)) < 0.05)
    X[:, 32] = 7.0
    return X


def plan_of(layout, X):
    everything = np.arange(X.shape[1])
    if layout == "chosen":
        return plan_columns(X)
    if layout == "mixed":
        a, b, c, d = np.array_split(np.random.default_rng(0).permutation(everything), 4)
        return ColumnPlan(a, (b, c), d)
    return ColumnPlan(
        everything if layout == "tiles" else NONE,
        (everything,) if layout == "patterns" else (),
        everything if layout == "nonzeros" else NONE,
    )


def pack(X, group, layout="chosen", start=0, stop=None):
    limits = cell_limits(group.inverse_widths)
    stop = X.shape[0] if stop is None else stop
    return pack_block(X, start, stop, plan_of(layout, X), limits)


def learn(X, group, layout="chosen", dtype=np.uint16):
    """Return the codes, the tables and the key of every grid and row."""
    tables = BinTables.empty(len(group.offsets))
    codes = np.zeros((len(group.offsets), X.shape[0]), dtype)
    assert tables.learn(group, pack(X, group, layout), codes)
    keys = np.array([tables.keys(g)[row.astype(np.int64) - 1] for g, row in enumerate(codes)])
    return codes, tables, keys


def find(tables, X, group, dtype=np.uint16, layout="chosen"):
    codes = np.full((len(group.offsets), X.shape[0]), 99, dtype)
    block = pack(X, group, layout)
    tables.find(group, block, codes, key_workspace(block))
    return codes


def numbered(cells):
    """Number distinct rows of ``cells`` from 1 in order of first appearance."""
    _, first, inverse = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(1, len(first) + 1)
    return rank[inverse.reshape(-1)]


def codes_by_division(X, widths, shifts):
    X = np.asarray(X, np.float64)
    return np.array([numbered(np.floor((X - u) / w)) for w, u in zip(widths, shifts, strict=True)])


def expected_keys(X, group):
    """Return the keys by the definition of the hash, with the loops' own rounding."""
    limits = cell_limits(group.inverse_widths)
    X = np.clip(np.asarray(X, np.float64), -limits, limits)
    cells = np.floor((X - group.shifts[:, None]) * group.inverse_widths[:, None]).astype(np.int64)
    return group.offsets[:, None] + (cells * group.multipliers[:, None]).sum(axis=2)


LAYOUTS = ["chosen", "tiles", "patterns", "nonzeros", "mixed"]


@pytest.mark.parametrize(
    ("layout", "dtype", "order", "n_grids"),
    each_value(LAYOUTS, ["f8", "f8", "f8", "f4", "i1"], ["C", "F"], [8, 1, 5]),
)
def test_bins_do_not_depend_on_layout(layout, dtype, order, n_grids):
    X = rows_of_every_kind().astype(dtype, order=order)
    widths, shifts = draw_widths(n_grids, n_grids)
    group = group_of(widths, shifts)
    codes, tables, keys = learn(X, group, layout)
    np.testing.assert_array_equal(keys, expected_keys(X, group))
    np.testing.assert_array_equal(codes, codes_by_division(X, widths, shifts))
    np.testing.assert_array_equal(tables.counts, codes.max(axis=1))
    np.testing.assert_array_equal(keys, learn(X, group, "tiles")[2])
    np.testing.assert_array_equal(find(tables, X, group, layout=layout), codes)


@pytest.mark.parametrize(
    ("dtype", "index"), each_value([np.float64, np.float32, np.int8], [np.int32, np.int64])
)
def test_bins_of_sparse_rows_match_dense_ones(dtype, index):
    dense = rows_of_every_kind().astype(dtype)
    X = sp.csr_array(dense)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    group = group_of(*draw_widths(1, 8))
    codes, tables, keys = learn(X, group)
    expected_codes, _, expected_keys = learn(dense, group, "tiles")
    np.testing.assert_array_equal(keys, expected_keys)
    np.testing.assert_array_equal(codes, expected_codes)
    np.testing.assert_array_equal(find(tables, dense, group), codes)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 200), st.sampled_from(LAYOUTS))
def test_bins_of_random_grids_match_the_slow_implementation(seed, n_grids, n_rows, layout):
    rng = np.random.default_rng(seed)
    X = rng.choice([0.0, -0.0, 1.0, -1.0, 0.5, 3.0], (n_rows, 9))
    X[:, 7:] += rng.normal(size=(n_rows, 2)) * 10.0 ** rng.integers(-3, 300)
    widths, shifts = draw_widths(seed, n_grids, 9, mean=2.0)
    group = group_of(widths, shifts, seed)
    codes, _, keys = learn(X, group, layout)
    expected = expected_keys(X, group)
    np.testing.assert_array_equal(keys, expected)
    np.testing.assert_array_equal(codes, [numbered(k[:, None]) for k in expected])


@pytest.mark.parametrize("cuts", [[100, 101, 1100], list(range(0, 3000, 300))])
def test_learning_in_parts_equals_learning_at_once(cuts):
    X = rows_of_every_kind(3000)
    group = group_of(*draw_widths(2, 6, mean=1.0))
    expected, whole, _ = learn(X, group)
    tables, codes = BinTables.empty(6), np.zeros_like(expected)
    edges = [0, *cuts, len(X)]
    for start, stop in pairwise(edges):
        if stop > start:
            block = pack(X, group, start=start, stop=stop)
            assert tables.learn(group, block, codes[:, start:stop])
    assert tables.counts.max() > 1024
    np.testing.assert_array_equal(codes, expected)
    for g in range(6):
        np.testing.assert_array_equal(tables.keys(g), whole.keys(g))
    np.testing.assert_array_equal(find(tables, X, group), expected)


def test_unseen_bins_are_number_zero():
    X = rows_of_every_kind()
    other = np.concatenate([X[::-1], X + 1e4, np.zeros((1, N_FEATURES))])
    group = group_of(*draw_widths(5, 8, ignored=0.0))
    codes, tables, keys = learn(X, group)
    result = find(tables, other, group)
    np.testing.assert_array_equal(result[:, :1500], codes[:, ::-1])
    known = [
        np.isin(reference, group_keys)
        for reference, group_keys in zip(expected_keys(other, group), keys, strict=True)
    ]
    np.testing.assert_array_equal(result != 0, known)
    assert not result[:, 1500:3000].any()
    assert not find(BinTables.empty(8), X, group).any()


@pytest.mark.parametrize(
    ("narrow", "wide", "n_bins", "excess"),
    [
        (np.uint8, np.uint16, 255, 0),
        (np.uint8, np.uint16, 255, 1),
        (np.uint16, np.uint32, 65_535, 1),
    ],
)
def test_narrow_codes_are_widened(narrow, wide, n_bins, excess):
    X = np.arange(n_bins + excess, dtype=np.float64).repeat(2)[::-1, None]
    widths, shifts = np.array([[1.0], [50.0]]), np.array([[0.5], [3.0]])
    group = group_of(widths, shifts)
    tables, codes = BinTables.empty(2), np.zeros((2, len(X)), narrow)
    assert tables.learn(group, pack(X, group), codes) == (excess == 0)
    expected = codes_by_division(X, widths, shifts)
    assert tables.counts[0] == n_bins + excess
    np.testing.assert_array_equal(find(tables, X, group, wide), expected)
    np.testing.assert_array_equal(codes, expected.astype(narrow))


@pytest.mark.parametrize("mean", [0.2, 6.0])
def test_tables_are_restored_from_keys(mean):
    X = rows_of_every_kind(3000)
    group = group_of(*draw_widths(6, 4, mean=mean))
    codes, tables, _ = learn(X[:2000], group)
    again = BinTables.from_keys([tables.keys(g) for g in range(4)])
    np.testing.assert_array_equal(again.counts, tables.counts)
    np.testing.assert_array_equal(find(again, X[:2000], group), codes)
    np.testing.assert_array_equal(find(again, X, group), find(tables, X, group))
    more, expected = np.zeros((2, 4, 1000), np.uint16)
    assert again.learn(group, pack(X[2000:], group), more)
    assert tables.learn(group, pack(X[2000:], group), expected)
    np.testing.assert_array_equal(more, expected)
    for g in range(4):
        np.testing.assert_array_equal(again.keys(g), tables.keys(g))


def test_tables_of_grids_of_different_sizes_hold_their_keys():
    rng = np.random.default_rng(0)
    for sizes in ([0], [0, 3], [5000, 0, 254, 255, 256]):
        keys = [rng.integers(-(2**63), 2**63, size) for size in sizes]
        tables = BinTables.from_keys(keys)
        assert tables.counts.tolist() == sizes
        for g, group_keys in enumerate(keys):
            np.testing.assert_array_equal(tables.keys(g), group_keys)


def test_repeated_keys_are_rejected():
    for n_bins in (2, 100_000):
        keys = np.random.default_rng(0).integers(-(2**63), 2**63, n_bins)
        keys[-1] = keys[0]
        for repeated in (keys, np.zeros(n_bins, np.int64)):
            with pytest.raises(
                InputError, match=f"two of the {n_bins} bins of a grid have the same key"
            ):
                BinTables.from_keys([np.arange(5), repeated])


def test_rows_without_room_for_bins_are_rejected():
    X = rows_of_every_kind()
    group = group_of(*draw_widths(1, 3))
    tables = BinTables.empty(3)
    # A full index stands for keys that are made to collide in all that decides on their slots.
    tables.slots[:] = 1
    with pytest.raises(InputError, match=r"hashes of bins collide.*another"):
        tables.learn(group, pack(X, group), np.zeros((3, 1500), np.uint16))


def test_key_zero_is_valid():
    group = GridGroup(np.ones((1, 1)), np.zeros((1, 1)), np.ones((1, 1), int), np.zeros(1, int))
    X = np.array([[0.0], [5.5], [0.25], [7.0], [5.0], [-0.0]] * 4)
    for layout in LAYOUTS:
        codes, tables, _ = learn(X, group, layout)
        assert codes[0, :6].tolist() == [1, 2, 1, 3, 2, 1], layout
        assert tables.keys(0).tolist() == [0, 5, 7], layout


def test_huge_values_share_the_outermost_bins():
    largest = np.finfo(np.float64).max
    values = np.array([1.0, 1e19, 1e100, largest, -largest, -1e30, -1e19, 0.0])
    group = group_of(np.array([[1.0, 1.0], [8.0, np.inf]]), np.array([[0.5, 0.25], [1.0, 0.0]]))
    for layout in LAYOUTS:
        codes, _, _ = learn(np.repeat(values, 8)[:, None] * np.ones(2), group, layout)
        assert codes[0, ::8].tolist() == [1, 2, 2, 2, 3, 3, 3, 4], layout


def test_cell_limits_are_the_largest_that_fit():
    inverse = np.array([[1.0, 0.0, 1e-300, 0.0], [4.0, 0.0, 1e-310, 1e-3]])
    limits = cell_limits(inverse)
    assert limits.tolist() == [1e18 / 4, np.finfo(float).max, np.finfo(float).max, 1e18 / 1e-3]
    assert (limits * inverse <= 1e18 * (1 + 1e-15)).all()
    assert cell_limits(np.empty((0, 2))).tolist() == [np.finfo(float).max] * 2


def test_single_rows_have_the_same_bins() -> None:
    # No grid divides the last column; of how many others a block has tiles, its size decides.
    rng = np.random.default_rng(7)
    rows = rng.integers(0, 3, (60, 6)) * 1.5
    widths = np.where(rng.random((20, 6)) < 0.5, 1.0, np.inf)
    widths[:, -1] = np.inf
    hashes = rng.integers(-(2**63), 2**63, (20, 7))
    grids = Grids(widths, np.zeros_like(widths), hashes[:, 1:] | 1, hashes[:, 0].copy())
    codes, known = grids.learn(rows)
    for size in (1, 2, 1, 7):
        parts = [known.find(rows[start : start + size]) for start in range(0, 60, size)]
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), codes)
    assert all(1 <= len(group._cached_columns) <= 4 for _, group, *_ in known._groups)
