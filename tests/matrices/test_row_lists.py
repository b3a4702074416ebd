"""The rows of every bin against a slow reference, with and without parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from gramless.matrices import row_lists
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.row_lists import RowLists, list_bins
from gramless.matrices.stacked import with_ones

CODES = (np.uint8, np.uint16, np.uint32)


def rows_of(lists: RowLists, group: int, column: int) -> list[int]:
    """Return the rows of a column, of all parts, and check that each part's ascend."""
    results: list[int] = []
    for p, start in enumerate(lists.parts[:-1]):
        first, last = lists.bounds[p, column + group : column + group + 2]
        listed = lists.rows[group, start : lists.parts[p + 1]][first:last].astype(int)
        assert (np.diff(listed) > 0).all()
        assert ((listed >= 0) & (listed < lists.parts[p + 1] - start)).all()
        results += (start + listed).tolist()
    return results


def assert_lists(lists: RowLists, codes: NDArray[Any], offsets: NDArray[np.int64]) -> None:
    n_grids, n_rows = codes.shape
    np.testing.assert_array_equal(lists.offsets, offsets)
    assert lists.rows.shape == (n_grids, n_rows)
    assert lists.bounds.shape == (len(lists.parts) - 1, offsets[-1] + n_grids)
    assert (lists.parts[0], lists.parts[-1]) == (0, n_rows)
    for g in range(n_grids):
        for b in range(offsets[g + 1] - offsets[g]):
            expected = np.flatnonzero(codes[g] == b + 1).tolist()
            assert rows_of(lists, g, int(offsets[g]) + b) == expected


@given(
    st.data(),
    st.lists(st.integers(0, 5), max_size=4),
    st.integers(0, 30),
    st.integers(1, 9),
    st.sampled_from(CODES),
    st.sampled_from([1, 2]),
)
def test_rows_of_each_bin_are_listed(
    data: st.DataObject, sizes: list[int], n_rows: int, part_rows: int, dtype: type, n_jobs: int
) -> None:
    codes = np.zeros((len(sizes), n_rows), dtype)
    for row, size in zip(codes, sizes, strict=True):
        row[:] = data.draw(hnp.arrays(dtype, n_rows, elements=st.integers(0, size)))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    lists = list_bins(codes, offsets, 0.5, n_jobs, part_rows)
    assert lists.values.tolist() == [0.5] * len(sizes)
    assert_lists(lists, codes, offsets)


@given(st.integers(0, 1 << 24))
def test_parts_are_of_equal_size_and_large(n_rows: int) -> None:
    parts = row_lists._part_bounds(n_rows, 1 << 15, 16)
    sizes = np.diff(parts)
    assert parts.dtype == np.int64
    assert len(sizes) in (1, 2, 4, 8, 16)
    assert (parts[0], parts[-1]) == (0, n_rows)
    assert sizes.max() - sizes.min() <= 1
    assert len(sizes) == 1 or sizes.min() >= 1 << 14
    assert len(sizes) == 16 or sizes.max() <= 1 << 15


@pytest.mark.parametrize(("n_rows", "n_parts"), [(1, 1), (32_768, 1), (32_769, 2), (65_537, 4)])
def test_more_rows_than_one_part_are_listed(n_rows: int, n_parts: int) -> None:
    codes = np.random.default_rng(0).integers(0, 3, (2, n_rows)).astype(np.uint8)
    lists = list_bins(codes, np.array([0, 2, 4]), 1.0, 2)
    assert len(lists.parts) == n_parts + 1
    assert lists.rows.dtype == np.uint16
    assert_lists(lists, codes, np.array([0, 2, 4]))


@pytest.mark.parametrize(
    ("n_rows", "dtype"), [(65_535, np.uint16), (65_536, np.uint32), (70_000, np.uint32)]
)
def test_long_parts_are_listed(n_rows: int, dtype: type) -> None:
    codes = np.random.default_rng(0).integers(0, 3, (2, n_rows)).astype(np.uint8)
    lists = list_bins(codes, np.array([0, 2, 4]), 1.0, 1, most_parts=1)
    assert len(lists.parts) == 2
    assert lists.rows.dtype == dtype
    assert_lists(lists, codes, np.array([0, 2, 4]))
    ones = lists.with_ones()
    assert ones.rows.dtype == dtype
    assert rows_of(ones, 2, 4) == list(range(n_rows))


def test_threads_and_memory_do_not_change_lists() -> None:
    codes = np.random.default_rng(1).integers(1, 9, (5, 500)).astype(np.uint16)
    offsets = 8 * np.arange(6)
    expected = list_bins(codes, offsets, 1.0, 1, part_rows=100)
    by_columns = np.asfortranarray(codes)
    for each in (codes, by_columns):
        each.flags.writeable = False
        for n_jobs in (1, 2, 3):
            lists = list_bins(each, offsets, 1.0, n_jobs, part_rows=100)
            np.testing.assert_array_equal(lists.rows, expected.rows)
            np.testing.assert_array_equal(lists.bounds, expected.bounds)


@pytest.mark.parametrize("part_rows", [4, 1000])
def test_last_group_of_ones_is_listed(part_rows: int) -> None:
    codes = np.random.default_rng(2).integers(0, 4, (3, 45)).astype(np.uint8)
    listed = list_bins(codes, 3 * np.arange(4), 0.25, 1, part_rows)
    lists = listed.with_ones()
    assert lists.offsets.tolist() == [0, 3, 6, 9, 10]
    assert lists.values.tolist() == [0.25, 0.25, 0.25, 1.0]
    assert lists.bounds.flags.c_contiguous
    assert lists.rows.dtype == listed.rows.dtype
    assert lists.bounds.dtype == listed.bounds.dtype
    assert rows_of(lists, 3, 9) == list(range(45))
    for column in range(9):
        assert rows_of(lists, column // 3, column) == rows_of(listed, column // 3, column)


@pytest.mark.parametrize("n_rows", [0, 1])
def test_few_rows_and_empty_grids_are_listed(n_rows: int) -> None:
    lists = list_bins(np.zeros((0, n_rows), np.uint8), np.array([0]), 1.0, 1).with_ones()
    assert rows_of(lists, 0, 0) == list(range(n_rows))


def test_matrices_cache_their_lists() -> None:
    codes = np.array([[1, 2, 0, 1]], np.uint8)
    matrix = BinnedMatrix(codes, np.array([0, 2]), scale=3.0)
    assert matrix.row_lists is matrix.row_lists
    assert matrix.row_lists.values.tolist() == [3.0]
    assert_lists(matrix.row_lists, codes, np.array([0, 2]))
    stacked = with_ones(matrix)
    assert stacked.row_lists is stacked.row_lists
    assert rows_of(stacked.row_lists, 1, 2) == [0, 1, 2, 3]
    taken = matrix.take_rows(np.array([0, 3]))
    assert rows_of(taken.row_lists, 0, 0) == [0, 1]
