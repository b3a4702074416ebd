"""Codes of many rows, learned block by block: their type, and the memory that takes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.features.grids import Grids

N_ROWS = 140_000
MOST_16_BITS = 2**16 - 1


def one_fine_grid(n_grids: int) -> Grids:
    """Return grids of one input that have one bin, but for the last: it parts whole numbers."""
    rng = np.random.default_rng(0)
    widths = np.full((n_grids, 1), np.inf)
    widths[-1] = 1.0
    shifts = np.where(np.isfinite(widths), 0.5, 0.0)
    hashes = rng.integers(-(2**63), 2**63, (n_grids, 2))
    return Grids(widths, shifts, hashes[:, 1:] | 1, hashes[:, 0].copy())


def numbered(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number values in order of first appearance, from 1."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse] + 1


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("n_bins", [MOST_16_BITS, MOST_16_BITS + 1])
def test_codes_are_as_wide_as_their_largest_grid(n_bins: int, late: bool) -> None:
    rows = np.arange(N_ROWS, dtype=np.float64) % n_bins
    if late:
        rows = rows[::-1].copy()
        rows[: N_ROWS // 2] = rows[0]
    codes, known = one_fine_grid(2).learn(rows[:, None], 2)
    expected = numbered(rows)
    assert known.n_bins.tolist() == [1, expected.max()]
    assert codes.dtype == (np.uint32 if expected.max() > MOST_16_BITS else np.uint16)
    np.testing.assert_array_equal(codes[1], expected)
    assert (codes[0] == 1).all()
    np.testing.assert_array_equal(known.find(rows[:, None], 2), codes)


@pytest.mark.parametrize(("n_bins", "dtype"), [(60_000, np.uint16), (75_000, np.uint32)])
def test_narrow_and_wide_codes_are_not_held_at_once(n_bins: int, dtype: type) -> None:
    """Codes that might not fit 16 bits, and those that do not, but only the last ones."""
    rows = np.minimum(np.arange(N_ROWS, dtype=np.float64)[:, None], n_bins)
    rows[n_bins - 20_000 : -20_000] = 0.0
    rows[-20_000:, 0] = np.arange(n_bins - 20_000, n_bins)
    grids = one_fine_grid(256)
    grids.learn(rows, 2)
    tracemalloc.start()
    try:
        codes, _ = grids.learn(rows, 2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert codes.dtype == dtype
    # Besides, there are 16 MB of packed rows and the tables of bins.
    assert peak < 1.2 * codes.nbytes + 30e6


@pytest.mark.parametrize("n_bins", [255, 256, MOST_16_BITS + 1])
@pytest.mark.parametrize("late", [False, True])
def test_many_codes_have_the_smallest_type_by_eight_grids(
    n_bins: int, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.arange(N_ROWS, dtype=np.float64)[:, None] % n_bins
    if late:
        rows[: N_ROWS // 2] = 0.0
    grids = one_fine_grid(12)
    expected, known = grids.learn(rows, 2)
    monkeypatch.setattr("gramless.features.grids._MIN_MIXED_CODES", expected.size)
    parts, same = grids.learn_parts(rows, 2)
    types = [np.uint8, known.code_type] if n_bins > 255 else [np.uint8]
    assert [part.dtype for part in parts] == types
    np.testing.assert_array_equal(np.concatenate(parts), expected)
    np.testing.assert_array_equal(same.keys(), known.keys())
    assert same.code_type == known.code_type


def test_few_grids_are_binned_without_a_plan() -> None:
    rng = np.random.default_rng(1)
    # Columns of two values are patterns where a plan is made.
    rows = np.column_stack([rng.integers(0, 2, (5000, 8)).astype(float), rng.normal(size=5000)])
    widths = rng.uniform(0.5, 1.5, (600, 9))
    hashes = rng.integers(-(2**63), 2**63, (600, 10))
    grids = Grids(widths, 0.3 * widths, hashes[:, 1:] | 1, hashes[:, 0].copy())
    few = grids.take(np.arange(600) < 12)
    plans = [grids.learn(rows, 1)[1]._plan(rows), few.learn(rows, 1)[1]._plan(rows)]
    assert [len(plan.patterned) for plan in plans] == [1, 0]
    np.testing.assert_array_equal(few.learn(rows, 1)[0], grids.learn(rows, 1)[0][:12])
