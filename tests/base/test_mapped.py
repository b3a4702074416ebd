"""Mapped arrays: rows as numpy reads them, and few of them held."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gramless.base.errors import DataFileError
from gramless.base.lazy_rows import BlockFile, MappedRows
from harness.memory import PeakMemory

ARRAY = np.random.default_rng(0).normal(size=(400_000, 12))
"""38 MB."""


@pytest.fixture(scope="module", params=["C", "F"])
def mapped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MappedRows:
    path = tmp_path_factory.mktemp("mapped") / "rows.npy"
    np.save(path, np.asarray(ARRAY, order=request.param))
    return MappedRows(np.load(path, mmap_mode="r"))


def test_mapped_rows_are_indexed_like_arrays(mapped: MappedRows) -> None:
    numbers = np.random.default_rng(1).integers(len(ARRAY), size=5000)
    assert (mapped.shape, mapped.dtype) == (ARRAY.shape, ARRAY.dtype)
    np.testing.assert_array_equal(mapped[numbers], ARRAY[numbers])
    np.testing.assert_array_equal(mapped[100:7000], ARRAY[100:7000])
    np.testing.assert_array_equal(mapped[::1000], ARRAY[::1000])
    np.testing.assert_array_equal(mapped[:, 3], ARRAY[:, 3])


def test_only_whole_mapped_arrays_can_be_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ARRAY[:10])
    array = np.load(tmp_path / "rows.npy", mmap_mode="r")
    private = np.load(tmp_path / "rows.npy", mmap_mode="c")
    assert MappedRows.can_map(array)
    for other in (array[2:], array.T, array[:, 0], private, ARRAY, None):
        assert not MappedRows.can_map(other)


def test_pass_over_mapped_rows_holds_one_block(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ARRAY)
    rows = MappedRows(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    peak = PeakMemory()
    total = sum(float(rows[a : a + 20_000].sum()) for a in range(0, len(rows), 20_000))
    assert total == pytest.approx(ARRAY.sum())
    # A block, its copy, and what the system maps around what is read.
    assert peak.bytes() < 0.75 * ARRAY.nbytes


def test_written_blocks_are_read_back() -> None:
    file = BlockFile("numbers", "write fewer")
    parts = [np.arange(6.0).reshape(2, 3), np.arange(4, dtype=np.uint8).reshape(2, 2)]
    for part in parts:
        file.append(part)
    blocks = file.blocks()
    for block, part in zip(blocks, parts, strict=True):
        assert (block.n_rows, block.dtype) == (part.shape[1], part.dtype)
        np.testing.assert_array_equal(block.columns, part)
        block.release_pages()
        np.testing.assert_array_equal(block.columns, part)
    np.testing.assert_array_equal(blocks[0].part(1, 3).part(1, 2).columns, parts[0][:, 2:])
    assert BlockFile("nothing", "write more").blocks() == []


def test_missing_temporary_folder_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    with pytest.raises(DataFileError, match=r"rows cannot be written to a temp.*TMPDIR, or wait"):
        BlockFile("rows", "wait")
