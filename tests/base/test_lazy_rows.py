"""Rows that are computed when they are read: as arrays are indexed."""

from __future__ import annotations

import numpy as np
import pytest

from gramless.base import lazy_rows
from gramless.base.lazy_rows import OrderedRows, take_rows
from gramless.preprocessing import scaling
from gramless.preprocessing.scaling import Scaler

ROWS = np.random.default_rng(0).normal(size=(50, 4))
ORDER = np.random.default_rng(1).permutation(50)[:37]
KEYS = [
    slice(3, 20),
    slice(None, None, 5),
    slice(30, 10),
    np.array([5, 2, 2, 36]),
    np.arange(37) % 3 == 0,
    (slice(None), 2),
    (slice(None), [0, 3]),
    (slice(2, 9), 1),
]


def test_lazy_rows_are_indexed_like_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_rows, "_NUMBERS_PER_BLOCK", 40)
    lazy, whole = OrderedRows(ROWS, ORDER, lambda rows: 2.0 * rows), 2.0 * ROWS[ORDER]
    assert (lazy.shape, lazy.dtype, lazy.ndim, lazy.size) == ((37, 4), ROWS.dtype, 2, 148)
    np.testing.assert_array_equal(np.asarray(lazy), whole)
    for key in KEYS:
        np.testing.assert_array_equal(lazy[key], whole[key])


def test_selected_lazy_rows_are_lazy() -> None:
    lazy = OrderedRows(ROWS, slice(10, None))
    for chosen in (np.array([3, 1]), np.arange(40) % 2 == 0):
        again = take_rows(lazy, chosen)
        assert isinstance(again, OrderedRows)
        np.testing.assert_array_equal(np.asarray(again), ROWS[10:][chosen])
    np.testing.assert_array_equal(take_rows(ROWS, ORDER), ROWS[ORDER])


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("none", np.int32), ("standard", np.float32), ("quantile", np.float64), ("both", np.int32)],
)
def test_ordered_scaled_rows_are_lazy_for_large_tables(
    kind, dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (10 * ROWS).astype(dtype)
    scaler = Scaler.fit(kind, rows)
    whole = scaler.ordered(rows, ORDER)
    monkeypatch.setattr(scaling, "_MAX_COPIED_NUMBERS", 10)
    lazy = scaler.ordered(rows, ORDER)
    assert isinstance(lazy, OrderedRows)
    assert (lazy.shape, lazy.dtype) == (whole.shape, whole.dtype)
    np.testing.assert_array_equal(lazy[4:9], whole[4:9])
