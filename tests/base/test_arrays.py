"""Views for loops: read-only, flat, and the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from gramless.base.arrays import contiguous_rows, flat_rows, padded_rows, readonly, softmax

WHOLE = np.arange(60, dtype=np.uint16).reshape(6, 10)
BESIDE = {
    "whole": WHOLE,
    "some columns": WHOLE[:, 3:8],
    "some rows": WHOLE[2:5],
    "every other row": WHOLE[::2, 1:],
    "one row": WHOLE[3:4, 2:5],
    "one number": WHOLE[3:4, 2:3],
    "one row many times": np.broadcast_to(WHOLE[1], (4, 10)),
    "no row": WHOLE[:0],
    "no column": WHOLE[:, :0],
}
APART = {
    "every other column": WHOLE[:, ::2],
    "backwards": WHOLE[:, ::-1],
    "rows backwards": WHOLE[::-1],
    "column-major": np.asfortranarray(WHOLE),
    "a field": np.zeros(5, [("a", "u2", 4), ("b", "u1")])["a"],
}


def test_flat_rows_copy_only_strided_arrays() -> None:
    for array in (*BESIDE.values(), *APART.values()):
        flat, apart = flat_rows(contiguous_rows(array))
        n, m = array.shape
        assert flat.ndim == 1
        assert flat.flags.c_contiguous
        assert not flat.flags.writeable
        assert [flat[i * apart : i * apart + m].tolist() for i in range(n)] == array.tolist()
    for array in BESIDE.values():
        assert contiguous_rows(array) is array
        assert array.size == 0 or np.shares_memory(flat_rows(array)[0], array)
    for array in APART.values():
        assert not np.shares_memory(contiguous_rows(array), array)


def test_flat_rows_end_with_the_last_number() -> None:
    flat, _ = flat_rows(WHOLE[2:4, 3:5])
    assert flat.tolist() == list(range(23, 35))


def test_readonly_view_follows_its_array() -> None:
    given = np.zeros(3)
    view = readonly(given)
    given[1] = 5.0
    assert view.tolist() == [0.0, 5.0, 0.0]
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1.0


@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_padded_rows_start_on_separate_cache_lines(dtype: type) -> None:
    """An odd number of lines apart; never contiguous, which would be another type to loops."""
    for n_columns in [0, 1, 255, 256, 511, 512, 1000, 2048, 65_536]:
        room = padded_rows((3, n_columns), dtype)
        assert room.shape == (3, n_columns)
        assert room.dtype == dtype
        apart = room.strides[0]
        if n_columns >= 256:
            assert apart % 128 == 64
            assert apart <= n_columns * room.itemsize + 128
        assert contiguous_rows(room) is room
        assert n_columns == 0 or not room.flags.c_contiguous


@pytest.mark.parametrize(("n_classes", "size"), [(1, 1.0), (2, 1e4), (7, 1e300), (40, 1.0)])
def test_softmax_matches_scipy(n_classes: int, size: float) -> None:
    scores = size * np.random.default_rng(0).normal(size=(30, n_classes))
    before, expected = scores.copy(), special.softmax(scores, axis=1)
    for order in "CF":
        given = np.asarray(scores, order=order)
        np.testing.assert_allclose(softmax(given), expected, rtol=1e-13, atol=1e-300)
        np.testing.assert_array_equal(given, before)
    assert softmax(scores[:0]).shape == (0, n_classes)
