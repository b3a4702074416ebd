"""Limits of memory while files are read."""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
import zipfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gramless.base.errors import DataFileError, InputError
from gramless.cli.reading import read_data, training_rows
from gramless.datasets import ReadLimits, limits, open_chunks, read_csv, read_table

from .conftest import Writer
from .test_binary_readers import npz, parquet

SMALL = ReadLimits(max_line_bytes=1 << 16, max_memory=1 << 18)
WIDE = 2_147_483_640


def chunks(path: Path, **options: Any) -> list[Any]:
    return list(open_chunks(path, **options))


def claim(shape: tuple[int, ...]) -> bytes:
    """Return a file of 8 numbers that says it holds more."""
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(64)


def archived(**arrays: bytes) -> bytes:
    """Return an npz file of these files of arrays."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in arrays.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def test_endless_lines_are_rejected(write: Writer, packing: str) -> None:
    starts = {"a.csv": "1,2\n", "a.libsvm": "1 1:2\n", "a.arff": "@relation "}
    for name, start in starts.items():
        path = write(name + packing, start + "0" * (1 << 20))
        for read in (read_table,) if name == "a.arff" else (read_table, chunks):
            with pytest.raises(
                DataFileError, match=r"a row is longer than 65\.5 kB.*--limits max_line"
            ):
                read(path, limits=SMALL)


def test_endless_utf_16_lines_are_rejected(write: Writer) -> None:
    path = write("a.csv.gz", ("a,b\n1,2\n" + "\u0a0a" * (1 << 20)).encode("utf-16"))
    for read in (read_table, chunks):
        with pytest.raises(DataFileError, match="max_line_bytes"):
            read(path, limits=SMALL)


def test_endless_quoted_rows_are_rejected(write: Writer) -> None:
    path = write("a.csv", "a,b\n1,2\n" + '"\n",' * (1 << 18))
    for read in (read_table, chunks):
        with pytest.raises(DataFileError, match="max_line_bytes"):
            read(path, limits=SMALL)


def test_rows_of_many_lines_are_read(write: Writer) -> None:
    cell = '"' + "line\n" * 200 + '"'
    path = write("a.csv", "n,text\n" + "".join(f"{j},{cell}\n" for j in range(500)))
    assert len(read_table(path, limits=ReadLimits(max_line_bytes=1 << 20))) == 500


def test_tables_beyond_the_memory_limit_are_rejected(write: Writer, packing: str) -> None:
    cases = [
        ("a.csv", "1,2\n" * 50_000),
        ("a.arff", "@attribute a real\n@data\n" + "1\n" * 50_000),
        ("a.libsvm", "1 1:2\n" * 50_000),
        ("a.npy", claim((50_000, 1)) + bytes(400_000)),
        ("a.npz", npz(X=np.zeros((50_000, 1)))),
        ("b.csv", ",".join(f"x{j}" for j in range(2_000)) + "\n" + ",".join("1" * 2_000) + "\n"),
        ("b.arff", "".join(f"@attribute a{j} real\n" for j in range(1_000)) + "@data\n"),
    ]
    for name, content in cases:
        with pytest.raises(
            DataFileError, match="of memory, but the limit is 262.1 kB.*max_memory="
        ):
            read_table(write(name + packing, content), limits=SMALL)
    assert read_table(write("c.csv", "1,2\n" * 2_000), limits=SMALL).shape == (2_000, 2)


def test_compressed_arrays_are_held_once(write: Writer) -> None:
    path = write("a.npy.gz", claim((20_000,))[:-64] + bytes(160_000))
    assert read_table(path, limits=SMALL).shape == (20_000, 1)


def test_parquet_beyond_the_memory_limit_is_rejected(write: Writer) -> None:
    path = write("a.parquet", parquet({"a": np.zeros(100_000)}))
    with pytest.raises(DataFileError, match="100,000 rows and 1 columns takes 800.0 kB"):
        read_table(path, limits=SMALL)


def test_parquet_columns_that_unpack_beyond_the_limit_are_rejected(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    rows = arrow.table({"a": ["x" * 100_000 + str(k) for k in range(100)]})
    pytest.importorskip("pyarrow.parquet").write_table(rows, path, compression="zstd")
    assert path.stat().st_size < 100_000
    for read in (read_table, open_chunks):
        with pytest.raises(DataFileError, match="its largest column chunk takes 10"):
            read(path, limits=ReadLimits(max_memory=1_000_000))


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
def test_compression_ratio_is_limited(write: Writer, ending: str) -> None:
    tight = ReadLimits(max_ratio=2, unchecked_bytes=1 << 14)
    for name, line in (("a.csv", "1,2\n"), ("a.libsvm", "1 1:2\n")):
        path = write(name + ending, line * (1 << 14))
        assert len(read_table(path, limits=ReadLimits(max_ratio=2))) == 1 << 14
        for read in (read_table, chunks):
            with pytest.raises(DataFileError, match=r"unpack to more than.*max_ratio=\d"):
                read(path, limits=tight)
    array = write("a.npy" + ending, claim((8,)) + bytes(1 << 16))
    with pytest.raises(DataFileError, match="max_ratio"):
        read_table(array, limits=tight)
    with pytest.raises(DataFileError, match="max_ratio"):
        chunks(array, limits=tight, target=0)
    archive = write("a.npz" + ending, npz(X=np.eye(3)) + bytes(1 << 16))
    with pytest.raises(DataFileError, match="max_ratio"):
        read_table(archive, limits=tight)


def test_chunks_beyond_the_memory_limit_are_rejected(write: Writer) -> None:
    path = write("a.npy", claim((50_000, 2)) + bytes(800_000))
    with pytest.raises(DataFileError, match="a chunk of .* rows takes .* Say chunk_rows=") as info:
        chunks(path, limits=SMALL)
    assert "max_memory" in str(info.value)
    assert len(chunks(path, limits=SMALL, chunk_rows=5_000)) == 10


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.npy.gz", "a.npz.gz"])
def test_claims_of_arrays_are_checked_first(write: Writer, name: str) -> None:
    for shape in ((1, 2**40), (2**39, 2), (2**20, 2**20)):
        content = claim(shape)
        path = write(name, archived(X=content) if ".npz" in name else content)
        with pytest.raises(DataFileError, match="takes 8796.1 GB of memory"):
            read_table(path)
        if name != "a.npz.gz":
            with pytest.raises(DataFileError, match="takes|damaged|cut off"):
                chunks(path, target=0)


def test_wide_sparse_tables_cost_what_they_hold(write: Writer) -> None:
    path = write("a.libsvm", f"1 1:2 {WIDE}:1\n-1 2:1\n")
    tracemalloc.start()
    try:
        table = read_table(path)
        assert table.select() is table.matrix
        assert_array_equal(table.column(f"x{WIDE}"), [1, 0])
        X, y, _ = table.split_target("x2")
        assert X.shape == (2, WIDE - 1)
        assert_array_equal(y, [0, 1])
        assert [rows.shape for rows, _ in open_chunks(path)] == [(2, WIDE)]
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_wide_text_costs_what_it_holds(write: Writer) -> None:
    names = [f"c{j}" for j in range(20_000)]
    rows = [",".join([f"{k}.5"] * 19_999 + ["red"]) for k in range(3)]
    path = write("a.csv", "\n".join([",".join(names), *rows]))
    start = time.process_time()
    training = training_rows(read_data(path), None, None, None)
    assert time.process_time() - start < 3
    assert_array_equal(training.X.column("c19998"), [0.5, 1.5, 2.5])
    assert training.y.tolist() == ["red"] * 3


def test_wide_text_is_checked_like_narrow_text(write: Writer) -> None:
    rows = ["1,2,3"] * 300
    rows[1] = "1,2,x"
    path = write("b.csv", "a,b,c\n" + "\n".join(rows))
    for size in (8, 1 << 22):
        with pytest.raises(DataFileError, match="line 3, column 'c': 'x' is not a number"):
            read_csv(path, limits=ReadLimits(block_bytes=size))


def test_memory_error_names_the_file(write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    def runs_out(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("gramless.datasets.readers.read_csv", runs_out)
    with pytest.raises(DataFileError, match="more memory than there is"):
        read_table(write("a.csv", "1,2\n"))


def test_limits_are_positive_numbers() -> None:
    for wrong, name in product((0, -1, "8", True, float("nan")), limits.LIMITS):
        with pytest.raises(InputError, match=f"{name} must be a positive number"):
            ReadLimits(**{name: wrong})


def test_limits_are_parsed_from_text(write: Writer) -> None:
    assert limits.parse_limits("max_ratio=2.5, max_memory=8e3").max_memory == 8_000
    for wrong in ("max_rows=1", "max_ratio", "max_memory=-1", "max_ratio=inf"):
        with pytest.raises(InputError, match="NAME=NUMBER"):
            limits.parse_limits(wrong)
    with pytest.raises(DataFileError, match="max_memory"):
        read_data(write("a.csv", "1,2\n" * 50_000), limits="max_memory=1e5")


def test_impossible_array_shapes_are_rejected(write: Writer) -> None:
    shapes: list[tuple[int, ...]] = [
        (-1, 3),
        (-2, -4),
        (8, -1),
        (True, 8),
        (1 << 62, 4),
        (3, (1 << 63) - 1),
        (1 << 63, 1),
        (10**30, 2),
        (0, 1 << 63),
    ]
    for shape in shapes:
        content = claim(shape)
        array = write("a.npy", content)
        archive = write("a.npz", archived(X=content, y=claim((8,))))
        for path, read in product((array, archive), (read_table, chunks)):
            with pytest.raises(DataFileError, match=r"no array of float64|exceeds any memory"):
                read(path)


@pytest.mark.parametrize("form", ["parquet", "ipc"])
def test_dictionaries_that_expand_beyond_the_limit_are_rejected(form: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet_files, feather = (
        pytest.importorskip(f"pyarrow.{name}") for name in ("parquet", "feather")
    )
    codes = arrow.array(np.zeros(500, np.int32))
    column = arrow.DictionaryArray.from_arrays(codes, arrow.array(["a" * 20_000]))
    table = arrow.table({"word": column, "y": codes})
    if form == "ipc":
        path = tmp_path / "a.arrow"
        feather.write_feather(table, path, compression="zstd")
    else:
        path = tmp_path / "a.parquet"
        plain = table.set_column(0, "word", column.cast(arrow.string()))
        parquet_files.write_table(plain, path)
    assert path.stat().st_size < 20_000
    for read in (read_table, chunks):
        with pytest.raises(DataFileError, match=r"the text of column 'word' takes"):
            read(path, limits=ReadLimits(max_memory=2_000_000))


def test_memory_errors_in_frames_name_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polars = pytest.importorskip("polars")
    polars.DataFrame({"a": [1.0, 2.0], "y": [0.0, 1.0]}).write_ipc(tmp_path / "a.arrow")

    def refuse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("gramless.datasets.frames._ColumnarFile._decode_text", refuse)
    for read in (read_table, chunks):
        with pytest.raises(DataFileError, match="takes more memory than there is"):
            read(tmp_path / "a.arrow")
