"""Selection of rows of codes, without a copy of all codes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from gramless.base.arrays import padded_rows
from gramless.matrices.codes import take_grid_rows

N_GRIDS, N_ROWS = 24, 50_000


@pytest.mark.parametrize("n_taken", [0, 1, 300, N_ROWS // 8, N_ROWS // 2, N_ROWS])
def test_rows_match_plain_indexing(n_taken: int) -> None:
    rng = np.random.default_rng(n_taken)
    rows = rng.integers(-N_ROWS, N_ROWS, n_taken)
    for dtype in (np.uint8, np.uint16, np.uint32):
        codes = padded_rows((N_GRIDS, N_ROWS), dtype)
        codes[:] = rng.integers(0, 200, codes.shape)
        for n_jobs in (1, 3):
            np.testing.assert_array_equal(take_grid_rows(codes, rows, n_jobs), codes[:, rows])


@pytest.mark.parametrize("n_taken", [10, N_ROWS // 2])
@pytest.mark.parametrize("row", [N_ROWS, -N_ROWS - 1])
def test_missing_rows_are_rejected(n_taken: int, row: int) -> None:
    rows = np.zeros(n_taken, np.int64)
    rows[-1] = row
    with pytest.raises(IndexError):
        take_grid_rows(padded_rows((N_GRIDS, N_ROWS), np.uint16), rows, 1)


def test_few_rows_are_taken_without_copying_all() -> None:
    codes = padded_rows((N_GRIDS, N_ROWS), np.uint16)
    rows = np.arange(0, N_ROWS, 100)
    take_grid_rows(codes, rows, 1)
    tracemalloc.start()
    try:
        result = take_grid_rows(codes, rows, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * result.nbytes < codes.nbytes / 10
