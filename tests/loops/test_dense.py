"""Products of float32 rows with vectors against NumPy, exact for integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.base.arrays import readonly
from gramless.loops import dense

SHAPES = st.tuples(st.integers(0, 20), st.integers(0, 70))


def whole_numbers(*shape: int) -> NDArray[np.float64]:
    """Return small whole numbers: sums of their products are exact in any order."""
    return np.random.default_rng(sum(shape)).integers(-50, 50, shape).astype(np.float64)


@given(SHAPES)
def test_responses_match_numpy(shape: tuple[int, int]) -> None:
    rows, w = whole_numbers(*shape), whole_numbers(shape[1])
    out = np.full(shape[0], np.nan)
    dense.responses(readonly(rows.astype(np.float32)), readonly(w), out)
    np.testing.assert_array_equal(out, rows @ w)


@given(SHAPES, st.integers(1, 3))
def test_responses_to_few_match_numpy(shape: tuple[int, int], n_threes: int) -> None:
    rows, vectors = whole_numbers(*shape), whole_numbers(3 * n_threes, shape[1])
    out = np.full((shape[0], len(vectors)), np.nan)
    single = readonly(rows.astype(np.float32)), readonly(vectors.astype(np.float32))
    dense.responses_to_few(*single, out)
    np.testing.assert_array_equal(out, rows @ vectors.T)


@given(SHAPES)
def test_add_rows_matches_numpy(shape: tuple[int, int]) -> None:
    rows, v, out = whole_numbers(*shape), whole_numbers(shape[0]), whole_numbers(shape[1])
    expected = out + rows.T @ v
    dense.add_rows(readonly(rows.astype(np.float32)), readonly(v), out)
    np.testing.assert_array_equal(out, expected)


def test_sums_are_double_precision() -> None:
    """A sum of float32 would lose the ones beside 1e8, one of float64 keeps them."""
    rows = np.ones((9, 33), np.float32)
    large = np.full(33, 1.0)
    large[0], large[-1] = 1e8, -1e8
    out = np.empty(9)
    dense.responses(readonly(rows), readonly(large), out)
    np.testing.assert_array_equal(out, 31.0)
    total = np.zeros(33)
    dense.add_rows(readonly(rows), readonly(np.array([1e8, *[1.0] * 7, -1e8])), total)
    np.testing.assert_array_equal(total, 7.0)
