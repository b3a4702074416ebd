"""Vector instructions that no other test covers alone."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from gramless.loops.simd import codes_4, deposit_4, deposit_8


# Not cached on disk: the cache would not notice that the lanes have changed.
@numba.njit
def deposit_all_4(sums, places, values):
    for i in range(len(places)):
        deposit_4(sums, places[i], values, i * 4)


@numba.njit
def deposit_all_8(sums, places, values):
    for i in range(len(places)):
        deposit_8(sums, places[i], values, i * 8)


@numba.njit
def codes_from(codes, at):
    return codes_4(codes, at)


DEPOSITS = {4: deposit_all_4, 8: deposit_all_8}


@pytest.mark.parametrize(
    ("lanes", "dtype"), [(4, np.float32), (4, np.float64), (8, np.float32), (8, np.float64)]
)
def test_deposits_accept_every_offset(lanes: int, dtype: type) -> None:
    """Places need no alignment and may overlap; nothing beside them changes."""
    rng = np.random.default_rng(lanes)
    places = rng.integers(3, 50 - lanes - 3, 40)
    values = rng.integers(-100, 100, (40, lanes)).astype(dtype)
    sums = rng.integers(-9, 9, 50).astype(dtype)
    expected = sums.copy()
    for place, row in zip(places, values, strict=True):
        expected[place : place + lanes] += row
    DEPOSITS[lanes](sums, places, values.reshape(-1))
    np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize("lanes", DEPOSITS)
def test_deposits_need_contiguous_arrays(lanes: int) -> None:
    flat, places = np.zeros(64, np.float32), np.zeros(1, np.int64)
    for sums, values in ((flat[::2], flat), (flat, flat[::2]), (flat.reshape(8, 8).T, flat)):
        with pytest.raises(TypingError, match="contiguous arrays"):
            DEPOSITS[lanes](sums, places, values)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_four_codes_accept_every_offset(dtype: type) -> None:
    """In the order of memory, whatever the alignment, the largest code included."""
    codes = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, 40, dtype, endpoint=True)
    codes[7] = np.iinfo(dtype).max
    for at in range(37):
        assert codes_from(codes, np.uint64(at)) == tuple(codes[at : at + 4].tolist())


def test_four_codes_need_contiguous_arrays() -> None:
    with pytest.raises(TypingError, match="contiguous arrays"):
        codes_from(np.zeros(64, np.uint16)[::2], np.uint64(0))
