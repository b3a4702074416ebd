"""Gaps in arrays: what fills them, what marks them, and what is left alone."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gramless.preprocessing.imputer import Imputer


@pytest.fixture
def X() -> NDArray[np.float64]:
    rows = np.random.default_rng(0).normal(size=(101, 3))
    rows[::4, 1] = np.nan
    return rows


def test_missing_values_become_the_median_and_are_marked(X: NDArray) -> None:
    gaps = Imputer.fit(X)
    filled = gaps.transform(X)
    missing = np.isnan(X[:, 1])
    np.testing.assert_allclose(gaps.fill[[0, 2]], np.median(X[:, [0, 2]], axis=0))
    assert filled.shape == (101, 4)
    np.testing.assert_array_equal(filled[:, 3], missing)
    np.testing.assert_array_equal(filled[~missing, :3], X[~missing])
    assert set(filled[missing, 1]) == {gaps.fill[1]}
    present = X[~missing, 1]
    assert gaps.fill[1] in present
    assert abs((present < gaps.fill[1]).sum() - (present > gaps.fill[1]).sum()) <= 1


def test_complete_rows_are_not_copied(X: NDArray) -> None:
    whole = np.nan_to_num(X)
    gaps = Imputer.fit(whole)
    assert gaps.transform(whole) is whole
    integers = np.arange(6).reshape(2, 3)
    assert gaps.transform(integers) is integers
    assert len(gaps.marked) == 0


def test_missing_value_in_new_rows_becomes_the_median(X: NDArray) -> None:
    gaps = Imputer.fit(X)
    new = np.array([[np.nan, 1.0, np.nan]])
    np.testing.assert_array_equal(gaps.transform(new), [[gaps.fill[0], 1.0, gaps.fill[2], 0.0]])
    assert np.isnan(new[0, 0])


def test_empty_input_becomes_zero() -> None:
    rows = np.column_stack([np.full(5, np.nan), np.arange(5.0)])
    filled = Imputer.fit(rows).transform(rows)
    np.testing.assert_array_equal(filled[:, [0, 2]], [[0, 1]] * 5)


@pytest.mark.parametrize(("dtype", "order"), [(np.float32, "C"), (np.float64, "F")])
def test_precision_and_order_are_kept(X: NDArray, dtype: type, order: str) -> None:
    rows = np.asarray(X, dtype, order=order)
    gaps = Imputer.fit(rows)
    filled = gaps.transform(rows)
    assert filled.dtype == dtype
    assert filled.flags[f"{order}_CONTIGUOUS"]
    np.testing.assert_array_equal(filled, gaps.transform(rows.astype(np.float64)))


def test_missing_values_are_found_in_long_tables() -> None:
    rows = np.zeros((70_000, 2), np.float32)
    rows[69_999, 1] = np.nan
    gaps = Imputer.fit(rows)
    assert gaps.marked.tolist() == [1]
    assert gaps.transform(rows)[:, 2].sum() == 1
