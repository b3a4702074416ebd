"""Compact forms of arrays: every bit comes back, fewer bytes are kept, damaged ones are refused."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gramless.base.compact import (
    MOST_FILLED,
    CompactArray,
    FixedPoint,
    HighBytes,
    MostlyOne,
    SinglePrecision,
    compacted,
    rounded_to_multiples,
    rounded_to_single,
)

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=(60, 40))
SINGLE = NORMAL.astype(np.float32).astype(float)
KEYS = RNG.integers(-(2**63), 2**63, (60, 40))
FEW = RNG.random((60, 40)) < 0.1
ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-149, 2.0**127])


def same_bits(found, expected):
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.flags.c_contiguous
    assert found.tobytes() == expected.tobytes()


def restored(array):
    return array.restored() if isinstance(array, CompactArray) else array


FORMS = [
    (SINGLE, SinglePrecision, 0.5),
    (SINGLE.T, SinglePrecision, 0.5),
    (SINGLE[:, ::2], SinglePrecision, 0.5),
    (np.resize(ODD, 2000), SinglePrecision, 0.5),
    (KEYS << 8, HighBytes, 7 / 8),
    (KEYS << 24, HighBytes, 5 / 8),
    (KEYS << 40, HighBytes, 4 / 8),
    (np.where(FEW, NORMAL, np.inf), MostlyOne, 0.13),
    (np.where(FEW, NORMAL, -0.0), MostlyOne, 0.13),
    (np.where(FEW, KEYS, 1 << 24), MostlyOne, 0.13),
    (np.tril(np.outer(NORMAL[0], NORMAL[1])), MostlyOne, 0.55),
    (np.repeat(np.where(FEW, KEYS << 24, 7), 8, axis=0), MostlyOne, 0.09),
    (np.zeros((50, 50)), FixedPoint, 0.001),
    (np.full((50, 50), np.inf), MostlyOne, 0.02),
    (rounded_to_multiples(NORMAL, 0.125), FixedPoint, 0.11),
    (rounded_to_multiples(NORMAL, 2.0 ** -(np.arange(40) % 8.0)), FixedPoint, 0.2),
    (rounded_to_multiples(NORMAL * 2.0**-1065, 2.0**-1070), FixedPoint, 0.12),
    (rounded_to_multiples(NORMAL * 2.0**1000, 2.0**995), FixedPoint, 0.12),
    (KEYS >> 50, FixedPoint, 0.26),
    (KEYS >> 17, FixedPoint, 0.76),
    (np.arange(5000), FixedPoint, 0.2),
]


def test_all_bits_come_back_from_fewer_bytes():
    for number, (array, kind, share) in enumerate(FORMS):
        form = compacted(array)
        assert type(form) is kind, number
        assert form.n_bytes <= share * array.nbytes, number
        same_bits(form.restored(), np.ascontiguousarray(array))


OTHERS = [
    NORMAL,
    KEYS,
    np.append(SINGLE, np.full(9, 1e300)),
    np.append(SINGLE, 2.0**-150),
    np.append(np.full(2000, np.nan), 0.1),
    SINGLE[:5],
    SINGLE.astype(np.float32),
    np.zeros(2000, np.int32),
    np.zeros(2000, bool),
    np.empty((0, 3)),
    np.array(1.0),
]


def test_other_arrays_stay_as_they_are():
    for array in OTHERS:
        assert compacted(array) is array


def test_large_arrays_that_are_mostly_one_number_stay_as_they_are():
    infinite = np.full(2000, np.inf)
    assert type(compacted(infinite, infinite.nbytes)) is MostlyOne
    assert type(compacted(infinite, infinite.nbytes - 1)) is SinglePrecision
    # Deflated zeros too: they may be 64 times as long as their form.
    even = np.arange(10_000) % 2.0
    assert type(compacted(even, 79_000)) is FixedPoint
    assert type(compacted(even, 70_000)) is SinglePrecision
    assert type(compacted(np.zeros(MOST_FILLED // 8 + 1))) is SinglePrecision


NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 0.1, np.inf, np.nan]), st.floats(width=32), st.floats()
)


@given(
    arrays.arrays(np.float64, st.integers(1, 40), elements=NUMBERS),
    st.sampled_from([1024, 1031]),
    st.integers(0, 64),
)
def test_any_numbers_come_back(numbers, size, shift):
    floats = np.resize(numbers, size)
    same_bits(restored(compacted(floats)), floats)
    whole = floats.view(np.int64) << shift if shift < 64 else floats.view(np.int64)
    same_bits(restored(compacted(whole)), whole)


def deflated(array):
    return np.frombuffer(zlib.compress(array.astype(np.uint8)), np.uint8)


ZEROS, SHORT = deflated(np.zeros(2000)), deflated(np.arange(1999))
BITS = np.packbits(np.arange(2000) % 4 == 0)


DAMAGED = [
    SinglePrecision(SINGLE),
    SinglePrecision(None),
    SinglePrecision(np.array(1.0, np.float32)),
    HighBytes(KEYS),
    HighBytes(np.zeros((9, 3), np.uint8)),
    HighBytes(np.zeros((9, 8), np.uint8)),
    HighBytes(np.array(1, np.uint8)),
    MostlyOne(0.0, BITS, np.ones(499), (2000,)),
    MostlyOne(0.0, BITS[:-1], np.ones(500), (2000,)),
    MostlyOne(0.0, BITS, np.ones(500), (2001,)),
    MostlyOne(0.0, BITS, np.ones((500, 1)), (2000,)),
    MostlyOne(0.0, BITS, np.ones(500, np.float32), (2000,)),
    MostlyOne("x", BITS, np.ones(500), (2000,)),
    MostlyOne(2**70, BITS, np.ones(500, np.int64), (2000,)),
    MostlyOne(0.0, BITS, np.ones(500), (-2000, -1)),
    MostlyOne(0.0, BITS, np.ones(500), (True, 2000)),
    MostlyOne(0.0, BITS, np.ones(500), 2000),
    MostlyOne(0.0, BITS.astype(bool), np.ones(500), (2000,)),
    MostlyOne(0.0, BITS, None, (2000,)),
    FixedPoint([0], [SHORT], (2000,)),
    FixedPoint([0], [ZEROS], (1999,)),
    FixedPoint([0], [ZEROS[:-1]], (2000,)),
    FixedPoint([0], [np.append(ZEROS, ZEROS)], (2000,)),
    FixedPoint([0], [ZEROS[::-1]], (2000,)),
    FixedPoint([0], [ZEROS] * 7, (2000,)),
    FixedPoint([0], [ZEROS.astype(np.int8)], (2000,)),
    FixedPoint([0, 0], [ZEROS], (2000,)),
    FixedPoint([0], [ZEROS], (1000, 2)),
    FixedPoint([0], [ZEROS], (-2000, -1)),
    FixedPoint([0], [ZEROS], 2000),
    FixedPoint([0.0], [ZEROS], (2000,)),
    FixedPoint([True], [ZEROS], (2000,)),
    FixedPoint([2**70], [ZEROS], (2000,)),
    FixedPoint([4000], [ZEROS], (2000,)),
    FixedPoint(None, [ZEROS], (2000,)),
    FixedPoint([0], None, (2000,)),
]


def test_damaged_forms_are_refused():
    for form in DAMAGED:
        with pytest.raises((ValueError, TypeError, AttributeError, OverflowError)):
            form.restored()


@given(st.floats(-3e38, 3e38, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 2.0**-126))
def test_rounding_is_that_of_single_precision(number):
    assert rounded_to_single(np.array([number]))[0] == np.float64(np.float32(number))


def test_rounding_does_not_depend_on_the_unit():
    for unit in (2.0**-900, 2.0**900):
        np.testing.assert_array_equal(rounded_to_single(NORMAL * unit), SINGLE * unit)
