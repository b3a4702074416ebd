"""Compact forms of arrays: exact, smaller, and damaged ones raise an error."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gramless.base.numeric import rounded_to_multiples, rounded_to_single
from gramless.base.state import MAX_FILLED, CompactArray, compact_array

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=(60, 40))
SINGLE = NORMAL.astype(np.float32).astype(float)
KEYS = RNG.integers(-(2**63), 2**63, (60, 40))
FEW = RNG.random((60, 40)) < 0.1
ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-149, 2.0**127])


def same_bits(actual, expected):
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.flags.c_contiguous
    assert actual.tobytes() == expected.tobytes()


def restored(array):
    return array.restored() if isinstance(array, CompactArray) else array


COMPACT = [
    (SINGLE, 0.51),
    (SINGLE.T, 0.51),
    (SINGLE[:, ::2], 0.51),
    (np.resize(ODD, 2000), 0.02),
    (KEYS << 24, 5 / 8 + 0.01),
    (KEYS << 40, 3 / 8 + 0.01),
    (np.where(FEW, NORMAL, np.inf), 0.15),
    (np.where(FEW, KEYS, 1 << 24), 0.15),
    (np.zeros((50, 50)), 0.004),
    (np.full((50, 50), np.inf), 0.004),
    (rounded_to_multiples(NORMAL, 0.125), 0.12),
    (rounded_to_multiples(NORMAL, 2.0 ** -(np.arange(40) % 8.0)), 0.2),
    (rounded_to_multiples(NORMAL * 2.0**1000, 2.0**995), 0.16),
    (KEYS >> 50, 0.4),
    (KEYS >> 17, 0.82),
    (np.arange(5000), 0.2),
]


def test_compacted_arrays_are_smaller_and_restored_exactly():
    for number, (array, share) in enumerate(COMPACT):
        compact = compact_array(array)
        assert compact.form == "Deflated", number
        assert compact.n_bytes <= share * array.nbytes, number
        same_bits(compact.restored(), np.ascontiguousarray(array))


OTHERS = [
    NORMAL,
    KEYS,
    KEYS << 8,
    SINGLE[:5],
    SINGLE.astype(np.float32),
    np.zeros(2000, np.int32),
    np.zeros(2000, bool),
    np.empty((0, 3)),
    np.array(1.0),
]


def test_incompressible_arrays_are_kept():
    for array in OTHERS:
        assert compact_array(array) is array


def test_extremely_compressible_large_arrays_are_kept():
    zeros = np.zeros(MAX_FILLED // 8 + 200_000)
    assert compact_array(zeros) is zeros
    even = np.arange(10_000) % 2.0
    n_filled = compact_array(even).n_filled
    assert 0 < n_filled < even.nbytes
    assert compact_array(even, n_filled - 1) is even


def test_arrays_with_an_incompressible_start_are_kept():
    numbers = np.append(np.random.default_rng(1).normal(size=1 << 14), np.zeros(1 << 14))
    assert compact_array(numbers) is numbers
    assert compact_array(numbers[::-1]).n_bytes < 0.6 * numbers.nbytes


NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 0.1, np.inf, np.nan]), st.floats(width=32), st.floats()
)


@given(
    arrays.arrays(np.float64, st.integers(1, 40), elements=NUMBERS),
    st.sampled_from([1024, 1031]),
    st.integers(0, 64),
)
def test_any_numbers_are_restored_exactly(numbers, size, shift):
    floats = np.resize(numbers, size)
    same_bits(restored(compact_array(floats)), floats)
    whole = floats.view(np.int64) << shift if shift < 64 else floats.view(np.int64)
    same_bits(restored(compact_array(whole)), whole)


def deflated(array):
    return np.frombuffer(zlib.compress(array.astype(np.uint8)), np.uint8)


ZEROS, SHORT = deflated(np.zeros(2000)), deflated(np.arange(1999))
BITS = np.packbits(np.arange(2000) % 4 == 0)


def deflated_form(data, dtype="float64", shape=(250,), n_planes=8):
    fields = {"data": data, "dtype": dtype, "shape": shape, "n_planes": n_planes}
    return CompactArray("Deflated", fields)


def single(values):
    return CompactArray("SinglePrecision", {"values": values})


def high_bytes(high):
    return CompactArray("HighBytes", {"high": high})


def mostly_one(fill, places, others, shape):
    fields = {"fill": fill, "places": places, "others": others, "shape": shape}
    return CompactArray("MostlyOne", fields)


def fixed_point(exponents, planes, shape):
    return CompactArray("FixedPoint", {"exponents": exponents, "planes": planes, "shape": shape})


DAMAGED = [
    deflated_form(SHORT),
    deflated_form(ZEROS, shape=(251,)),
    deflated_form(ZEROS, shape=(249,)),
    deflated_form(ZEROS, shape=(-250, -1)),
    deflated_form(ZEROS, shape=(True, 250)),
    deflated_form(ZEROS, shape=250),
    deflated_form(ZEROS, "float32"),
    deflated_form(ZEROS, "object"),
    deflated_form(ZEROS[:-1]),
    deflated_form(ZEROS[::-1]),
    deflated_form(np.append(ZEROS, ZEROS)),
    deflated_form(ZEROS.astype(np.int8)),
    deflated_form(None),
    deflated_form(ZEROS, n_planes=0),
    deflated_form(ZEROS, n_planes=2000),
    CompactArray("Zipped", {}),
    single(SINGLE),
    single(None),
    single(np.array(1.0, np.float32)),
    high_bytes(KEYS),
    high_bytes(np.zeros((9, 3), np.uint8)),
    high_bytes(np.zeros((9, 8), np.uint8)),
    high_bytes(np.array(1, np.uint8)),
    mostly_one(0.0, BITS, np.ones(499), (2000,)),
    mostly_one(0.0, BITS[:-1], np.ones(500), (2000,)),
    mostly_one(0.0, BITS, np.ones(500), (2001,)),
    mostly_one(0.0, BITS, np.ones((500, 1)), (2000,)),
    mostly_one(0.0, BITS, np.ones(500, np.float32), (2000,)),
    mostly_one("x", BITS, np.ones(500), (2000,)),
    mostly_one(2**70, BITS, np.ones(500, np.int64), (2000,)),
    mostly_one(0.0, BITS, np.ones(500), (-2000, -1)),
    mostly_one(0.0, BITS, np.ones(500), (True, 2000)),
    mostly_one(0.0, BITS, np.ones(500), 2000),
    mostly_one(0.0, BITS.astype(bool), np.ones(500), (2000,)),
    mostly_one(0.0, BITS, None, (2000,)),
    fixed_point([0], [SHORT], (2000,)),
    fixed_point([0], [ZEROS], (1999,)),
    fixed_point([0], [ZEROS[:-1]], (2000,)),
    fixed_point([0], [np.append(ZEROS, ZEROS)], (2000,)),
    fixed_point([0], [ZEROS[::-1]], (2000,)),
    fixed_point([0], [ZEROS] * 7, (2000,)),
    fixed_point([0], [ZEROS.astype(np.int8)], (2000,)),
    fixed_point([0, 0], [ZEROS], (2000,)),
    fixed_point([0], [ZEROS], (1000, 2)),
    fixed_point([0], [ZEROS], (-2000, -1)),
    fixed_point([0], [ZEROS], 2000),
    fixed_point([0.0], [ZEROS], (2000,)),
    fixed_point([True], [ZEROS], (2000,)),
    fixed_point([2**70], [ZEROS], (2000,)),
    fixed_point([4000], [ZEROS], (2000,)),
    fixed_point(None, [ZEROS], (2000,)),
    fixed_point([0], None, (2000,)),
]


def test_damaged_forms_are_rejected():
    for form in DAMAGED:
        with pytest.raises((ValueError, TypeError, AttributeError, OverflowError, KeyError)):
            form.restored()


@given(st.floats(-3e38, 3e38, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 2.0**-126))
def test_rounding_matches_single_precision(number):
    assert rounded_to_single(np.array([number]))[0] == np.float64(np.float32(number))


def test_rounding_does_not_depend_on_the_unit():
    for unit in (2.0**-900, 2.0**900):
        np.testing.assert_array_equal(rounded_to_single(NORMAL * unit), SINGLE * unit)
