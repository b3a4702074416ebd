"""The open-addressing tables of bin numbers against a dictionary."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.loops import binning
from harness.loops import entry

CODE_TYPES = [np.uint8, np.uint16, np.uint32]
FIRST_BITS, NO_LIMIT = 10, 2**31
SMALLEST, LARGEST = -(2**63), 2**63 - 1

number_codes, fill_slots = entry(binning.number_codes), entry(binning.fill_slots)

ANY_KEY = st.integers(SMALLEST, LARGEST)
EDGE_KEY = st.sampled_from([0, 1, -1, SMALLEST, SMALLEST + 1, LARGEST, LARGEST - 1])
# Keys with equal top bits want the same slot; those of -1 want the last one and wrap around.
CROWDED_KEY = st.builds(
    lambda top, low: (top << 40) + low, st.sampled_from([0, 1, -1, 7 << 13]), st.integers(0, 60)
)
KEYS = st.lists(ANY_KEY | EDGE_KEY | CROWDED_KEY, max_size=300).map(
    lambda keys: np.array(keys, np.int64)
)


@dataclass
class Bins:
    """The bins of one grid, with room for ``room`` of them."""

    room: int
    count: int = 0
    bits: int = FIRST_BITS
    table: NDArray[np.int64] = field(init=False)
    slots: NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        self.table = np.zeros(self.room + 2, np.int64)
        self.slots = np.zeros(1 << binning.slot_bits(self.room + 1, FIRST_BITS), np.int32)

    def learn(self, keys, dtype=np.uint32) -> NDArray[np.unsignedinteger]:
        codes = np.full(len(keys), 99, dtype)
        self.count, self.bits = number_codes(
            keys, len(keys), self.slots, self.bits, self.table, self.count, NO_LIMIT, codes
        )
        return codes

    def find(self, keys, dtype=np.uint32) -> NDArray[np.unsignedinteger]:
        codes = np.full(len(keys), 99, dtype)
        tables = self.slots, self.bits, self.table, self.count
        assert number_codes(keys, len(keys), *tables, self.count, codes) == (self.count, self.bits)
        return codes


def expected_number(keys: NDArray[np.int64]) -> dict[int, int]:
    known: dict[int, int] = {}
    for key in keys.tolist():
        known.setdefault(key, len(known) + 1)
    return known


def check_index(bins: Bins, keys: NDArray[np.int64]) -> None:
    """Check what look-ups rely on: every bin once in the index, and enough empty slots."""
    used = bins.slots[: 1 << bins.bits]
    assert sorted(used[used != 0].tolist()) == list(range(1, bins.count + 1))
    assert bins.table[1 : bins.count + 1].tolist() == list(expected_number(keys))
    assert bins.table[0] == 0
    assert bins.count < (1 << bins.bits) // (4 if bins.bits <= 16 else 2) + 1
    assert (bins.slots[1 << bins.bits :] == 0).all()


def check_learning(keys: NDArray[np.int64], dtype=np.uint32) -> Bins:
    bins = Bins(len(keys))
    known = expected_number(keys)
    expected = np.array([known[k] for k in keys.tolist()], np.int64).astype(dtype)
    np.testing.assert_array_equal(bins.learn(keys, dtype), expected)
    assert bins.count == len(known)
    check_index(bins, keys)
    np.testing.assert_array_equal(bins.find(keys, dtype), expected)
    return bins


def spread_keys(n: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(SMALLEST, LARGEST, n, endpoint=True)


@given(KEYS, st.sampled_from(CODE_TYPES))
@example(np.array([0, 5, 0, 7]), np.uint32)
@example(np.array([5, 0, 5, 0]), np.uint32)
def test_learn_numbers_in_order_of_first_appearance(keys, dtype):
    check_learning(keys, dtype)


@given(KEYS, KEYS)
def test_unseen_bin_is_number_zero(keys, others):
    bins = check_learning(keys)
    known = expected_number(keys)
    result = bins.find(others)
    assert result.tolist() == [known.get(key, 0) for key in others.tolist()]


@given(KEYS, st.lists(st.integers(0, 300), max_size=4))
def test_learning_in_parts_equals_learning_at_once(keys, cuts):
    whole, parts = Bins(len(keys)), Bins(len(keys))
    expected = whole.learn(keys)
    codes = [parts.learn(part) for part in np.split(keys, sorted(cuts))]
    np.testing.assert_array_equal(np.concatenate(codes), expected)
    assert (parts.count, parts.bits) == (whole.count, whole.bits)
    np.testing.assert_array_equal(parts.table, whole.table)
    np.testing.assert_array_equal(parts.slots, whole.slots)


@pytest.mark.parametrize("n_bins", [255, 256, 257, 1024, 20_000])
def test_index_grows_with_the_bins(n_bins):
    keys = spread_keys(n_bins)
    bins = check_learning(np.concatenate([keys, keys[::-1]]))
    assert bins.count == n_bins
    if n_bins >= 256:
        assert bins.bits > FIRST_BITS


@pytest.mark.parametrize(("n_bins", "top"), [(300, 0), (1200, -1), (1200, 2**23 - 1)])
def test_keys_of_one_slot_are_all_found(n_bins, top):
    # No growth pulls them apart: they differ far below the bits of any index.
    keys = (top << 40) + np.random.default_rng(0).permutation(n_bins)
    bins = check_learning(np.concatenate([keys, keys]))
    assert bins.find(keys + n_bins).tolist() == [0] * n_bins


@pytest.mark.parametrize("step", [1, 2**43 + 1])
def test_no_key_is_far_from_its_slot(step):
    # All in one run of slots, every search would have to walk along it.
    keys = (7 << 40) + step * np.random.default_rng(0).permutation(20_000)
    bins = check_learning(keys)
    empty = np.flatnonzero(bins.slots[: 1 << bins.bits] == 0)
    assert np.diff(empty).max() < 300


def test_search_in_a_full_index_ends():
    keys, others = np.split(spread_keys(128), 2)
    bins = Bins(200, bits=6)
    bins.slots = np.zeros(64, np.int32)
    assert bins.learn(keys).tolist() == list(range(1, 65))
    assert bins.find(others).tolist() == [0] * 64
    assert bins.learn(others[:1]).tolist() == [99]
    assert bins.bits == 0


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_narrow_codes_wrap_but_the_bins_are_known(dtype):
    n_bins = np.iinfo(dtype).max + 44
    keys = spread_keys(n_bins)
    bins = check_learning(keys, dtype)
    assert bins.find(keys, np.uint32).tolist() == list(range(1, n_bins + 1))


@given(st.lists(ANY_KEY | EDGE_KEY | CROWDED_KEY, max_size=250, unique=True), st.integers(10, 12))
def test_fill_slots_rebuilds_the_index(keys, bits):
    bins = Bins(1000, count=len(keys), bits=bits)
    bins.table[1 : len(keys) + 1] = keys
    bins.slots[:] = 7
    assert fill_slots(bins.table, bins.count, bins.slots, bins.bits)
    assert (bins.slots[1 << bits :] == 7).all()
    bins.slots[1 << bits :] = 0
    check_index(bins, np.array(keys, np.int64))
    assert bins.find(np.array(keys, np.int64)).tolist() == list(range(1, len(keys) + 1))


@given(KEYS)
def test_keys_of_one_call_are_numbered_by_first_appearance(keys):
    reference, codes = expected_number(keys), np.zeros(len(keys), np.int64)
    slots = np.full(1 << binning.slot_bits(len(keys), binning.FIRST_BITS), 7, np.int32)
    result = np.zeros(len(keys) + 1, np.int64)
    assert binning.number_keys(keys, slots, result, codes) == len(reference)
    assert codes.tolist() == [reference[key] for key in keys.tolist()]
    assert result[1 : len(reference) + 1].tolist() == list(reference)


def test_fill_slots_reports_a_full_index():
    table, slots = spread_keys(20), np.empty(16, np.int32)
    assert fill_slots(table, 16, slots, 4)
    assert not fill_slots(table, 17, slots, 4)


@pytest.mark.parametrize("n_crowded", [2, 30])
def test_fill_slots_reports_repeated_keys(n_crowded):
    # Few keys are neighbours in the index, and many are far from the slot that they want.
    table = np.append(0, (7 << 40) + np.arange(n_crowded))
    slots = np.empty(1 << FIRST_BITS, np.int32)
    assert fill_slots(table, n_crowded, slots, FIRST_BITS)
    for duplicate in (1, n_crowded - 1):
        assert not fill_slots(np.append(table, table[duplicate]), n_crowded + 1, slots, FIRST_BITS)


def test_bins_are_numbered_up_to_the_limit():
    bins, codes = Bins(6), np.full(6, 99, np.uint32)
    keys = np.array([5, 6, 5, 7, 8, 6])
    tables = bins.slots, bins.bits, bins.table
    assert number_codes(keys, 6, *tables, 0, 2, codes) == (2, FIRST_BITS)
    assert codes.tolist() == [1, 2, 1, 0, 0, 2]
    assert number_codes(keys, 6, *tables, 2, 3, codes) == (3, FIRST_BITS)
    assert codes.tolist() == [1, 2, 1, 3, 0, 2]
