"""Codes of categories: small, consecutive, the same for every form of the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.preprocessing.categories import CategoryCodes

MASK = np.array([False, True])
VALUES = st.sampled_from([0.0, 1.0, -3.0, 7.0, 2.0**40, -(2.0**51), 2.0**52 - 1, np.nan])


def rows_of(values: list[float]) -> NDArray[np.float64]:
    return np.column_stack([np.full(len(values), 0.5), np.array(values, np.float64)])


@given(st.lists(VALUES, min_size=1), st.lists(VALUES, min_size=1))
def test_codes_number_the_categories_of_the_fit(fitted: list[float], new: list[float]) -> None:
    codes = CategoryCodes.fit(rows_of(fitted), MASK)
    known = sorted({value for value in fitted if not np.isnan(value)})
    expected = [-1 if np.isnan(v) else known.index(v) if v in known else len(known) for v in new]
    result = codes.transform(rows_of(new))
    np.testing.assert_array_equal(result[:, 1], expected)
    np.testing.assert_array_equal(result[:, 0], 0.5)


@given(st.lists(VALUES.filter(np.isfinite), min_size=1), st.lists(VALUES.filter(np.isfinite)))
def test_sparse_rows_have_the_codes_of_dense_ones(fitted: list[float], new: list[float]) -> None:
    for form in (np.asarray, sp.csr_array):
        codes = CategoryCodes.fit(form(rows_of(fitted)), MASK)
        rows = rows_of(new)
        expected = codes.transform(rows)
        np.testing.assert_array_equal(codes.transform(sp.csr_array(rows)).toarray(), expected)
    # The zeros of sparse rows are not stored: they keep their number.
    assert (expected[rows[:, 1] == 0, 1] == 0).all()


@given(st.lists(VALUES, min_size=1), st.lists(VALUES, min_size=1))
def test_extended_codes_keep_old_codes(first: list[float], second: list[float]) -> None:
    codes = CategoryCodes.fit(rows_of(first), MASK)
    more = codes.extend(rows_of(second))
    before, after = (each.transform(rows_of(first)) for each in (codes, more))
    np.testing.assert_array_equal(before, after)
    both = rows_of(first + second)
    result, given_ = more.transform(both)[:, 1], both[:, 1]
    assert len(np.unique(result)) == len(np.unique(given_))
    assert result.max() < len(np.unique(given_))


def test_codes_accept_every_number_type() -> None:
    for dtype in ("u1", "i4", "i8", "f4", "f8"):
        rows = np.array([[3, 9], [4, 2], [5, 9]], dtype)
        codes = CategoryCodes.fit(rows, MASK)
        np.testing.assert_array_equal(codes.transform(rows), [[3, 1], [4, 0], [5, 1]])
        assert rows[0, 1] == 9


def test_rows_that_hold_codes_are_not_copied() -> None:
    rows = np.array([[0.5, 1.0], [0.5, 0.0], [0.5, 2.0]])
    assert CategoryCodes.fit(rows, MASK).transform(rows) is rows


MISFITS: list[dict[str, Any]] = [
    {"columns": np.array([-1])},
    {"columns": np.array([1, 1])},
    {"starts": np.array([0, 9])},
    {"starts": np.array([0, -2])},
    {"values": np.array([np.nan, 1.0])},
    {"values": np.array([1, 2])},
]


def test_inconsistent_codes_are_rejected() -> None:
    codes = CategoryCodes.fit(rows_of([1.0, 2.0]), MASK)
    codes.check()
    for change in MISFITS:
        with pytest.raises((InputError, ValueError)):
            replace(codes, **change).check()
