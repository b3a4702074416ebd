"""The packing loops against slow NumPy reference implementations."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from gramless.base.arrays import readonly
from gramless.loops import packing
from tests.solvers.pairwise import each_value

# Every pair of type and order costs a compilation: each type and each order occurs, not all pairs.
KINDS = [
    ("f8", "C"),
    ("f8", "F"),
    ("f4", "C"),
    ("f4", "F"),
    ("i1", "C"),
    ("u1", "F"),
    ("i8", "C"),
]
LARGEST = np.finfo(np.float64).max


def elements(dtype: str, infinite: bool) -> st.SearchStrategy[Any]:
    """Return values with many zeros of either sign, or None for everything the type holds."""
    if dtype not in ("f8", "f4"):
        return hnp.from_dtype(np.dtype(dtype))
    width = 64 if dtype == "f8" else 32
    some = st.sampled_from([0.0, -0.0, 1.0, -1.5])
    return some | st.floats(width=width, allow_nan=False, allow_infinity=infinite)


@st.composite
def matrices(draw: st.DrawFn, infinite: bool = False) -> NDArray[Any]:
    dtype, order = draw(st.sampled_from(KINDS))
    shape = draw(st.tuples(st.integers(1, 70), st.integers(1, 6)))
    X = draw(hnp.arrays(dtype, shape, elements=elements(dtype, infinite)))
    return np.asarray(X, order=order)


@st.composite
def some_columns(draw: st.DrawFn, n_columns: int) -> NDArray[np.int64]:
    chosen = draw(st.lists(st.integers(0, n_columns - 1), unique=True))
    return np.array(chosen, np.int64)


def clipped(values: NDArray[np.float64], limits: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.minimum(np.maximum(values, -limits), limits)


def expected_tiles(X, first_tile, columns, limits, n_tiles, width):
    rows = np.minimum(np.arange(n_tiles * width) + first_tile * width, len(X) - 1)
    values = clipped(X[np.ix_(rows, columns)].astype(np.float64), limits)
    return values.reshape(n_tiles, width, len(columns)).transpose(0, 2, 1)


def odd_multipliers(n: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(-(2**63), 2**63, n) | 1


def expected_hash(row: NDArray[Any], multipliers: NDArray[np.int64]) -> int:
    """Return the hash of one row in Python's own integers, as a signed 64-bit number."""
    total = 0
    for value, multiplier in zip(row, multipliers, strict=True):
        bits = int(value) % 2**64
        total += int(multiplier) * (bits ^ (bits >> 16) ^ (bits >> 44))
    return (total + 2**63) % 2**64 - 2**63


def pack(X, first_tile, columns, limits, tiles) -> bool:
    """Pack a matrix of either order as the library gives it to the loop: flat, and its strides."""
    strides = tuple(stride // X.itemsize for stride in X.strides)
    flat, largest = readonly(X.reshape(-1, order="A")), np.full(tiles.shape[:2], -1.0)
    matrix = flat, strides, len(X)
    is_clipped = packing.pack_rows(*matrix, first_tile, columns, limits, tiles, largest)
    np.testing.assert_array_equal(largest, np.abs(tiles).max(axis=2))
    return is_clipped


def expected_number(hashes: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    known: dict[int, int] = {}
    ids = [known.setdefault(int(h), len(known)) for h in hashes]
    return ids, [ids.index(k) for k in range(len(known))]


def number(hashes: NDArray[np.int64], room: int) -> tuple[int, NDArray, NDArray]:
    ids = np.full(len(hashes), -7, np.int32)
    first_rows = np.full(room, -7, np.int32)
    slots = np.full(1 << (2 * room).bit_length(), -1, np.int32)
    count = packing.number_patterns(hashes, ids, first_rows, slots)
    return count, ids, first_rows


@given(matrices(infinite=True), st.sampled_from([8, 16, 24, 40]), st.data())
def test_pack_rows_matches_the_slow_implementation(X, width, data):
    columns = data.draw(some_columns(X.shape[1]))
    limits = np.array(data.draw(st.lists(st.sampled_from([1.0, 2.5e7, LARGEST]), min_size=6)))
    limits = limits[: len(columns)]
    first_tile = data.draw(st.integers(0, (len(X) - 1) // width))
    n_tiles = -(-len(X) // width) - first_tile
    tiles = np.full((n_tiles, len(columns), width), np.nan)
    is_clipped = pack(X, first_tile, columns, limits, tiles)
    expected = expected_tiles(X, first_tile, columns, limits, n_tiles, width)
    inside = X[first_tile * width :, columns].astype(np.float64)
    assert is_clipped == (np.abs(inside) > limits).any()
    np.testing.assert_array_equal(tiles, expected)
    np.testing.assert_array_equal(np.signbit(tiles), np.signbit(expected))


@pytest.mark.parametrize("n_rows", [1, 17, packing.TILE, 2500])
def test_pack_rows_fills_tiles_of_the_usual_width(n_rows):
    X = np.random.default_rng(n_rows).normal(size=(n_rows, 3))
    columns, limits = np.array([2, 0]), np.array([0.5, LARGEST])
    n_tiles = -(-n_rows // packing.TILE)
    tiles = np.full((n_tiles, 2, packing.TILE), np.nan)
    pack(X, 0, columns, limits, tiles)
    expected = expected_tiles(X, 0, columns, limits, n_tiles, packing.TILE)
    np.testing.assert_array_equal(tiles, expected)


def test_pack_rows_accepts_empty_tiles_and_columns():
    X = np.ones((5, 2))
    none, everything = np.empty(0, np.int64), np.arange(2)
    assert not pack(X, 0, everything, np.zeros(2), np.empty((0, 2, 8)))
    assert not pack(X, 0, none, np.ones(0), np.empty((1, 0, 8)))


@pytest.mark.parametrize("hash_part", [packing.hash_rows, packing.hash_columns])
@given(matrices(), st.data())
def test_hashes_of_rows_match_the_slow_implementation(hash_part, X, data):
    columns = np.sort(data.draw(some_columns(X.shape[1]).filter(len)))
    start = data.draw(st.integers(0, len(X)))
    stop = data.draw(st.integers(start, len(X)))
    odd = np.zeros(columns[-1] - columns[0] + 1, np.int64)
    odd[columns - columns[0]] = odd_multipliers(len(columns))
    bits = readonly(X.view(f"i{X.itemsize}"))
    hashes = np.full(len(X), 77, np.int64)
    hash_part(bits, columns[0], odd, start, stop, hashes)
    rows = bits[start:stop, columns[0] : columns[-1] + 1]
    assert hashes[start:stop].tolist() == [expected_hash(row, odd) for row in rows]
    assert (hashes[:start] == 77).all()
    assert (hashes[stop:] == 77).all()


@pytest.mark.parametrize(
    ("values", "dtype", "hash_part"),
    each_value(
        [(0.0, 1.0), (0.0, 2.0), (-1.0, 1.0), (0.0, 2.0**-100)],
        [np.float64, np.float32],
        [packing.hash_rows, packing.hash_columns, packing.hash_columns],
    ),
)
def test_binary_patterns_have_distinct_hashes(values, dtype, hash_part):
    X = np.array(list(product(values, repeat=10)), dtype)
    hashes = np.empty(len(X), np.int64)
    hash_part(readonly(X.view(f"i{X.itemsize}")), 0, odd_multipliers(10), 0, len(X), hashes)
    assert len(np.unique(hashes)) == len(X)


# The second list differs in the high bits alone, so that all its hashes want the same few slots.
HASHES = st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1), max_size=60)
CROWDED = st.lists(st.integers(0, 40).map(lambda k: (k << 33) ^ (k << 1)), max_size=60)


@given(HASHES | CROWDED, st.integers(0, 30))
def test_number_patterns_by_first_appearance(hashes, room):
    keys = np.array(hashes, np.int64)
    expected_ids, expected_first = expected_number(keys)
    count, ids, first_rows = number(keys, room)
    if len(expected_first) > room:
        assert count == -1
    else:
        assert count == len(expected_first)
        assert ids.tolist() == expected_ids
        assert first_rows[:count].tolist() == expected_first


@pytest.mark.parametrize("excess", [0, 1])
def test_number_patterns_reports_excess(excess):
    room = 4096
    keys = np.random.default_rng(1).integers(-(2**63), 2**63, room + excess)
    count, _, _ = number(keys, room)
    assert count == (-1 if excess else room)


@pytest.mark.parametrize(("n", "expected"), [(256, 256), (257, -1)])
def test_number_patterns_gives_up_on_one_slot(n, expected):
    assert number(np.arange(n) << 50, 4096)[0] == expected


@given(matrices(), st.data())
def test_nonzeros_match_numpy(X, data):
    columns = data.draw(some_columns(X.shape[1]))
    X, indptr = readonly(X), np.zeros(len(X) + 1, np.int64)
    packing.count_nonzeros(X, columns, indptr)
    part = X[:, columns].astype(np.float64)
    assert indptr[0] == 0
    np.testing.assert_array_equal(indptr[1:], (part != 0).sum(axis=1))
    indptr = np.cumsum(indptr)
    indices, values = np.full(indptr[-1], -1), np.full(indptr[-1], np.nan)
    packing.fill_nonzeros(X, columns, indptr, indices, values)
    rows, expected = np.nonzero(part)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values, part[rows, expected])
