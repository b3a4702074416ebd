"""Bins whose codes lie in a file: the same bits as in memory, and nothing left behind."""

from __future__ import annotations

import shutil
import tempfile
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from gramless.base.errors import DataFileError, InputError
from gramless.base.memory import limit_fit_memory
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.stored import StoredBinnedMatrix, code_file, rows_of_block
from harness.memory import PeakMemory

N_GRIDS, N_ROWS = 150, 5003


@pytest.fixture(scope="module")
def both() -> tuple[BinnedMatrix, StoredBinnedMatrix]:
    """Return a matrix in memory, and the same one in a file of four blocks."""
    codes = np.random.default_rng(0).integers(1, 40, (N_GRIDS, N_ROWS)).astype(np.uint16)
    inside = BinnedMatrix(codes, 39 * np.arange(N_GRIDS + 1), has_unseen=False)
    file, parts = code_file(codes.nbytes), np.array_split(codes, 4, axis=1)
    for part in parts:
        file.append(part)
    return inside, StoredBinnedMatrix(file.blocks(), inside.offsets, scale=inside.scale)


@pytest.mark.parametrize("rows", [slice(None), slice(1000, 4801), np.arange(4000, 10, -3)], ids=str)
@pytest.mark.parametrize("tail", [(), (5,)])
def test_stored_matrix_has_the_same_products(both, rows, tail) -> None:
    rng = np.random.default_rng(1)
    inside, outside = (matrix.take_rows(rows) for matrix in both)
    w, v = (rng.normal(size=(n, *tail)) for n in inside.shape[::-1])
    np.testing.assert_array_equal(outside.matvec(w), inside.matvec(w))
    np.testing.assert_array_equal(outside.rmatvec(v), inside.rmatvec(v))
    np.testing.assert_array_equal(outside.gram_diagonal(), inside.gram_diagonal())
    np.testing.assert_array_equal(outside.bin_counts(), inside.bin_counts())
    few = np.arange(0, inside.shape[0], 50)
    grams = [matrix.take_rows(few).row_gram() for matrix in (outside, inside)]
    np.testing.assert_array_equal(*grams)


def test_many_taken_rows_stay_on_disk(both) -> None:
    rows = np.arange(1, N_ROWS, 2)
    with limit_fit_memory(20_000):
        taken = both[1].take_rows(rows)
    assert isinstance(taken, StoredBinnedMatrix)
    w = np.random.default_rng(2).normal(size=taken.shape[1])
    np.testing.assert_array_equal(taken.matvec(w), both[0].matvec(w)[rows])
    np.testing.assert_array_equal(taken.row_gram(), both[0].take_rows(rows).row_gram())


def test_first_grids_can_be_taken(both) -> None:
    w = np.random.default_rng(4).normal(size=5 * 39)
    padded = np.zeros(both[0].shape[1])
    padded[: len(w)] = w
    fewer = [matrix.first_grids(5) for matrix in both]
    assert isinstance(fewer[1], StoredBinnedMatrix)
    np.testing.assert_array_equal(*[matrix.matvec(w) for matrix in fewer])
    np.testing.assert_allclose(fewer[0].matvec(w), both[0].matvec(padded), atol=1e-12)


def test_row_lists_are_rejected(both) -> None:
    with pytest.raises(InputError, match="raise it, or use l1_ratio=0"):
        _ = both[1].row_lists


def test_products_hold_one_block_at_a_time() -> None:
    n_rows = rows_of_block(64)
    file = code_file(0)
    codes = np.ones((64, n_rows), np.uint16)
    for _ in range(6):
        file.append(codes)
    matrix = StoredBinnedMatrix(file.blocks(), np.arange(65), scale=1.0, n_jobs=1)
    del codes
    w = np.ones(64)
    matrix.matvec(w)
    peak = PeakMemory()
    responses = matrix.matvec(w)
    # One block's codes, and the responses.
    assert peak.bytes() < 1.5 * (2 * 64 * n_rows + responses.nbytes)


def test_stored_files_have_no_name(both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    file = code_file(100)
    file.append(np.ones((3, 10), np.uint8))
    blocks = file.blocks()
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(blocks[0].columns, np.ones((3, 10)))


def test_insufficient_disk_space_is_reported_first(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", ["free"])(10**6)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    with pytest.raises(DataFileError, match="2.0 MB of the disk, and 1.0 MB are free.*TMPDIR"):
        code_file(2 * 10**6)


def test_small_budgets_use_smaller_blocks() -> None:
    reference = rows_of_block(640)
    with limit_fit_memory(100_000_000):
        assert rows_of_block(640) == 8192 < reference
    with limit_fit_memory(2 * 10**9):
        assert rows_of_block(640) == reference
