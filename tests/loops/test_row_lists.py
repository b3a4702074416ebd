"""Lists of rows against a slow reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramless.base.arrays import readonly
from gramless.loops.row_lists import last_rows, list_rows

CODES = (np.uint8, np.uint16, np.uint32)
ROWS = (np.uint16, np.uint32)


def listed(codes: Any, n_bins: int, dtype: type) -> tuple[list[int], list[int]]:
    """Call the loop with room that holds rubbish; returns the used rows and the bounds."""
    rows, bounds = np.full(len(codes), 7, dtype), np.full(n_bins + 1, 9, np.uint32)
    list_rows(readonly(codes), rows, bounds)
    return rows[: bounds[-1]].tolist(), bounds.tolist()


def reference(codes: list[int], n_bins: int) -> tuple[list[int], list[int]]:
    bins = [[i for i, code in enumerate(codes) if code == b + 1] for b in range(n_bins)]
    ends = [sum(map(len, bins[:b])) for b in range(n_bins + 1)]
    return [i for rows in bins for i in rows], ends


@given(st.data(), st.integers(0, 12), st.sampled_from(CODES), st.sampled_from(ROWS))
def test_rows_of_each_bin_are_listed_in_order(
    data: st.DataObject, n_bins: int, codes: type, rows: type
) -> None:
    drawn = data.draw(st.lists(st.integers(0, n_bins), max_size=60))
    assert listed(np.array(drawn, codes), n_bins, rows) == reference(drawn, n_bins)


@pytest.mark.parametrize(("dtype", "n_bins"), [(np.uint8, 255), (np.uint16, 65_535)])
def test_largest_code_is_listed(dtype: type, n_bins: int) -> None:
    codes = np.array([n_bins, 0, 1, n_bins], dtype)
    rows, bounds = listed(codes, n_bins, np.uint16)
    assert rows == [2, 0, 3]
    assert bounds == [0, *[1] * (n_bins - 1), 3]


@pytest.mark.parametrize("rows", ROWS)
def test_largest_row_number_is_listed(rows: type) -> None:
    n_rows = 65_535
    codes = np.random.default_rng(0).integers(0, 4, n_rows).astype(np.uint8)
    result, bounds = listed(codes, 3, rows)
    assert result == np.concatenate([np.flatnonzero(codes == b) for b in (1, 2, 3)]).tolist()
    assert bounds == [0, *np.cumsum(np.bincount(codes, minlength=4)[1:])]


@given(st.data(), st.lists(st.integers(0, 6), max_size=5), st.sampled_from(CODES))
def test_one_row_of_each_bin_is_found(data: st.DataObject, n_bins: list[int], kind: type) -> None:
    n_rows = data.draw(st.integers(0, 20))
    drawn = [
        data.draw(st.lists(st.integers(0, b), min_size=n_rows, max_size=n_rows)) for b in n_bins
    ]
    codes = np.array(drawn, kind).reshape(len(n_bins), n_rows)
    result = np.full(sum(n_bins), -1)
    last_rows(readonly(codes), np.cumsum([0, *n_bins]), result)
    numbers = [
        (row_bins, b + 1) for row_bins, n in zip(drawn, n_bins, strict=True) for b in range(n)
    ]
    expected = [
        max((i for i in range(n_rows) if row_bins[i] == b), default=-1) for row_bins, b in numbers
    ]
    assert result.tolist() == expected


def test_read_only_and_strided_codes_are_listed() -> None:
    drawn = np.random.default_rng(1).integers(0, 6, (40, 3)).astype(np.uint16)
    apart = drawn[:, 1]
    apart.flags.writeable = False
    assert listed(apart, 5, np.uint16) == reference(apart.tolist(), 5)


def test_parts_of_larger_arrays_are_written() -> None:
    codes = readonly(np.array([2, 1, 0, 2], np.uint8))
    rows, bounds = np.full((2, 4), 99, np.uint16), np.full(5, 99, np.uint32)
    list_rows(codes, rows[1], bounds[1:4])
    assert rows[0].tolist() == [99] * 4
    assert rows[1].tolist() == [1, 0, 3, 99]
    assert bounds.tolist() == [99, 0, 1, 3, 99]
