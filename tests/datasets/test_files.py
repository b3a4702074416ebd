"""Errors for damaged, missing and unsupported files."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gramless.base.errors import DataFileError, InputError
from gramless.datasets import open_chunks, read_table

from .conftest import PACKERS, Writer

ENDINGS = [".csv", ".tsv", ".data", ".txt", ".arff", ".parquet", ".libsvm", ".npz", ".npy", ""]
STARTS = [b"", b"\x93NUMPY\x01\x00", b"PK\x03\x04", b"PAR1", b"1 1:2\n", b"a,b\n1,2\n"]
STARTS += [b"@attribute a real\n@data\n1\n", b"\xff\xfe", b"\x1f\x8b\x08"]


@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.sampled_from(STARTS), rest=st.binary(max_size=200), packed=st.booleans())
@example(start=b"", rest=b"(" * 150, packed=True)
@example(start=b"", rest=b"\xef\xbb\xbf", packed=True)
def test_random_bytes_end_in_one_kind_of_error(
    tmp_path: Path, ending: str, start: bytes, rest: bytes, packed: bool
) -> None:
    content = start + rest
    for packing, pack in PACKERS.items():
        path = tmp_path / f"a{ending}{packing}"
        path.write_bytes(pack(content) if packed else content)
        fault: DataFileError | None = None
        try:
            assert len(read_table(path)) > 0
        except DataFileError as raised:
            fault = raised
        assert fault is None or str(path) in str(fault)


@pytest.mark.parametrize("packing", [".gz", ".bz2", ".xz"])
def test_truncated_compression_is_rejected(write: Writer, packing: str) -> None:
    for name in ("a.csv", "a.libsvm", "a.arff", "a.npz", "a.parquet"):
        path = write(name + packing, "1,2,3\n" * 3000 + "4 5:6")
        path.write_bytes(path.read_bytes()[:-15])
        with pytest.raises(DataFileError, match="cut off"):
            read_table(path)


def test_wrong_compression_is_rejected(tmp_path: Path) -> None:
    for packing in (".gz", ".bz2", ".xz"):
        path = tmp_path / f"a.csv{packing}"
        path.write_bytes(b"a,b\n1,2\n" * 10)
        with pytest.raises(DataFileError, match="cannot be read"):
            read_table(path)


def test_empty_files_are_rejected(write: Writer) -> None:
    for ending, packing in product((".csv", ".libsvm", ".npz", ".parquet", ""), PACKERS):
        with pytest.raises(DataFileError, match="is empty|damaged"):
            read_table(write(f"a{ending}{packing}", b""))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"a\.csv does not exist"):
        read_table(tmp_path / "a.csv")
    with pytest.raises(DataFileError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(DataFileError, match="does not exist"):
        read_table("~/surely/not/here.csv")


def test_unreadable_files_are_named(write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.csv", "1,2\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gramless.datasets.files.open", refuse, raising=False)
    with pytest.raises(DataFileError, match="may not be read"):
        read_table(path, format="npy")


def test_unknown_endings_need_a_format(write: Writer) -> None:
    for name in ("a.xlsx", "a", "a.t", "a.zip"):
        path = write(name, "a,b\n1,2\n")
        with pytest.raises(DataFileError, match="names no known format.*format="):
            read_table(path)
        assert read_table(path, format="csv").shape == (1, 2)


def test_invalid_parameters_are_rejected(write: Writer) -> None:
    path = write("a.csv", "a,b\n1,2\n")
    with pytest.raises(InputError, match="format must be one of csv"):
        read_table(path, format="excel")
    with pytest.raises(InputError, match="part"):
        read_table(path, part="all")  # type: ignore[arg-type]


def test_binary_files_named_as_text_are_rejected(write: Writer) -> None:
    cases = [
        (PACKERS[".gz"](b"1,2"), "gzip"),
        (PACKERS[".bz2"](b"1,2"), "bzip2"),
        (PACKERS[".xz"](b"1,2"), "xz"),
        (b"PAR1abc", "Parquet"),
        (b"PK\x03\x04abc", "zip"),
        (b"\x93NUMPYabc", "NumPy"),
        (b"abc\x00", "byte 3 is 0x00"),
    ]
    for content, kind in cases:
        with pytest.raises(DataFileError, match=f"is not text.*{kind}"):
            read_table(write("a.csv", content))


def test_impossible_file_names_are_rejected() -> None:
    cases = [
        ("~nobody_of_this_name/a.csv", "there is no user 'nobody_of_this_name'"),
        ("a\0.csv", "NUL character"),
        ("a" * 300 + ".csv", "too long"),
    ]
    for (name, message), read in product(cases, (read_table, open_chunks)):
        with pytest.raises(DataFileError, match=message):
            read(name)


def test_too_many_open_files_are_reported(write: Writer) -> None:
    resource = pytest.importorskip("resource")
    path = write("a.npy", b"\x93NUMPY")
    message = r"a.npy cannot be read \(Too many open files\)"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for read in (read_table, open_chunks):
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            with pytest.raises(DataFileError, match=message):
                read(path)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
