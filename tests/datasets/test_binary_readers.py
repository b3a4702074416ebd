"""Readers of NumPy, Parquet and IPC files."""

from __future__ import annotations

import datetime
import importlib
import io
from decimal import Decimal
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from gramless.base.errors import DataFileError, MissingDependencyError
from gramless.datasets import ReadLimits, open_chunks, read_ipc, read_npz, read_parquet, read_table

from .conftest import Writer

X, Y = np.arange(6, dtype=np.uint8).reshape(3, 2), np.array([1, 2, 1], dtype=np.int8)


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def parts(name: str, matrix: sparse.csr_matrix) -> dict[str, Any]:
    fields = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    return {f"{name}_{k}": v for k, v in {**fields, "shape": matrix.shape}.items()}


def test_npz_is_read_in_every_compression(write: Writer, packing: str) -> None:
    table = read_table(write(f"a.npz{packing}", npz(X=X, y=Y)))
    got, y, names = table.split_target()
    assert got.dtype == np.float32
    assert_array_equal(got, X)
    assert_array_equal(y, Y)
    assert names == ("x1", "x2")


def test_npz_parts_are_read_by_name(write: Writer) -> None:
    path = write("a.npz", npz(X_train=X, y_train=Y, X_test=X[:1], y_test=Y[:1], other=Y))
    assert len(read_table(path)) == 3
    assert len(read_table(path, part="test")) == 1
    assert set(read_npz(path)) == {"train", "test"}
    whole = write("b.npz", npz(X=X, y=Y[:, None]))
    assert read_table(whole).target.shape == (3,)
    with pytest.raises(DataFileError, match="no test part"):
        read_table(whole, part="test")


def test_sparse_npz_is_read(write: Writer) -> None:
    rows = sparse.csr_matrix(np.eye(3))
    table = read_table(write("a.npz", npz(**parts("X_train", rows), y_train=Y)))
    assert sparse.issparse(table.matrix)
    assert_array_equal(table.matrix.toarray(), np.eye(3))


def test_npz_may_have_text_or_no_labels(write: Writer) -> None:
    words = read_table(write("a.npz", npz(X=X, y=np.array(["b", "a", "b"]))))
    assert words.split_target()[1].tolist() == ["b", "a", "b"]
    assert read_table(write("b.npz", npz(X=X))).target is None


def test_invalid_npz_is_rejected(write: Writer) -> None:
    cases = [
        ({"A": X}, "holds A; X, y or X_train"),
        ({}, "holds nothing"),
        ({"X": X, "y": Y[:2]}, "2 labels for 3 rows"),
        ({"X": X[0], "y": Y}, "table of numbers"),
        ({"X": X.astype(str), "y": Y}, "table of numbers"),
        ({"X": X[:0], "y": Y[:0]}, "table of numbers"),
        ({"X": X, "y": np.ones((3, 1, 1))}, "one number or word"),
        ({"X": np.array([[None]], dtype=object)}, "objects are refused"),
        ({"X_train": X, "X_test": X[:, :1]}, "differ"),
        ({"X_data": Y}, "needs X_data, _indices"),
        ({**parts("X", sparse.csr_matrix(X)), "X_shape": [3]}, "not a CSR"),
        ({**parts("X", sparse.csr_matrix(X)), "X_indices": [9] * 5}, "not a CSR"),
        ({**parts("X", sparse.csr_matrix(X)), "X_indptr": [0, 4, 2, 5]}, "not a CSR"),
        ({**parts("X", sparse.csr_matrix(X)), "X_indices": [0.5] * 5}, "indices must hold whole"),
        ({**parts("X", sparse.csr_matrix(X)), "X_indptr": [0, 1.5, 3, 5]}, "indptr must hold"),
        ({**parts("X", sparse.csr_matrix(X)), "X_shape": [3.5, 2]}, "shape must hold whole"),
    ]
    for arrays, message in cases:
        with pytest.raises(DataFileError, match=message):
            read_table(write("a.npz", npz(**arrays)))


def test_damaged_npz_is_rejected(write: Writer) -> None:
    whole = npz(X=X, y=Y)
    for damaged in (whole[:-30], whole[:40], b"PK\x03\x04" + bytes(30)):
        with pytest.raises(DataFileError, match="damaged"):
            read_table(write("a.npz", damaged))


def test_npy_is_read_in_every_compression(write: Writer, packing: str) -> None:
    file = io.BytesIO()
    np.save(file, X)
    assert_array_equal(read_table(write(f"a.npy{packing}", file.getvalue())).select(), X)
    with pytest.raises(DataFileError, match=r"name it \.npz"):
        read_table(write("b.npy", npz(X=X)))
    with pytest.raises(DataFileError, match=r"name it \.npy"):
        read_table(write("b.npz", file.getvalue()))


def test_npy_may_be_a_column_but_not_objects(write: Writer) -> None:
    for array, fits in ((Y, True), (np.array([{}]), False), (np.array(3), False)):
        file = io.BytesIO()
        np.save(file, array, allow_pickle=True)
        path = write("a.npy", file.getvalue())
        if fits:
            assert read_table(path).shape == (3, 1)
        else:
            with pytest.raises(DataFileError):
                read_table(path)


FRAME = {
    "whole": [1, None, 3],
    "real": [1.5, 2.0, None],
    "text": ["a", None, "b"],
    "bool": [True, None, False],
    "day": [datetime.date(1970, 1, 2), None, None],
    "instant": [datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000), None, None],
    "clock": [datetime.time(1, 0, 2), None, None],
    "span": [datetime.timedelta(minutes=1), None, None],
    "money": [Decimal("1.25"), None, Decimal("2.00")],
    "nothing": [None, None, None],
}
NAN = np.nan
EXPECTED = {
    "whole": [1, NAN, 3],
    "real": [1.5, 2, NAN],
    "text": ["a", "", "b"],
    "bool": ["True", "", "False"],
    "day": [86_400, NAN, NAN],
    "instant": [1.5, NAN, NAN],
    "clock": [3602, NAN, NAN],
    "span": [60, NAN, NAN],
    "money": [1.25, NAN, 2],
    "nothing": [NAN, NAN, NAN],
    "kind": ["a", "", "b"],
}


def parquet(columns: dict[str, Any]) -> bytes:
    return frame_file(columns, "parquet")


def frame_file(columns: dict[str, Any], kind: str) -> bytes:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(columns)
    if "text" in columns:
        frame = frame.with_columns(pl.col("text").cast(pl.Categorical).alias("kind"))
    file = io.BytesIO()
    if kind == "parquet":
        frame.write_parquet(file)
    else:
        frame.write_ipc(file, compression="zstd")
    return file.getvalue()


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    real = importlib.import_module

    def limited(name: str, package: str | None = None) -> ModuleType:
        if name.split(".")[0] in packages:
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", limited)


@pytest.mark.parametrize("kind", ["parquet", "ipc"])
@pytest.mark.parametrize("engine", ["polars", "pyarrow"])
def test_parquet_and_ipc_are_read_by_every_engine(
    write: Writer, monkeypatch: pytest.MonkeyPatch, engine: str, kind: str
) -> None:
    pytest.importorskip(engine)
    path = write(f"a.{kind}", frame_file(FRAME, kind))
    numbers = write(f"b.{kind}", frame_file({"a": np.arange(50.0), "y": np.arange(50)}, kind))
    without(monkeypatch, *{"polars", "pyarrow"} - {engine})
    table = read_table(path)
    assert table.names == tuple(EXPECTED)
    assert table.categorical == ("text", "bool", "kind")
    for name, expected in EXPECTED.items():
        assert_array_equal(table.column(name), np.array(expected, dtype=table.column(name).dtype))
    chunks = list(open_chunks(numbers, chunk_rows=7))
    assert_array_equal(np.concatenate([X[:, 0] for X, _ in chunks]), np.arange(50))


def test_parquet_is_read_in_every_compression(write: Writer, packing: str) -> None:
    table = read_table(write(f"a.pq{packing}", parquet({"a": [1.0], "y": [2.0]})))
    assert_array_equal(table.split_target()[1], [2])


def test_missing_parquet_packages_are_named(write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.parquet", parquet({"a": [1]}))
    without(monkeypatch, "polars", "pyarrow")
    for read in (read_parquet, read_ipc):
        with pytest.raises(MissingDependencyError, match=r"pip install gramless\[cli\]"):
            read(path)


@pytest.mark.parametrize("engine", ["polars", "pyarrow"])
def test_invalid_parquet_is_rejected(
    write: Writer, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    pytest.importorskip(engine)
    nested, binary, empty = (parquet({"a": cells}) for cells in ([[1], [2]], [b"1", None], []))
    without(monkeypatch, *{"polars", "pyarrow"} - {engine})
    with pytest.raises(DataFileError, match="column 'a' holds"):
        read_table(write("a.parquet", nested))
    with pytest.raises(DataFileError, match="column 'a' holds bytes"):
        read_table(write("a.parquet", binary))
    with pytest.raises(DataFileError, match="no rows"):
        read_table(write("a.parquet", empty))
    with pytest.raises(DataFileError, match="damaged or not a Parquet file"):
        read_table(write("a.parquet", b"PAR1" + nested[4:-20] + b"PAR1"))


def test_ipc_with_a_wrong_null_count_is_rejected(write: Writer) -> None:
    arrow = pytest.importorskip("pyarrow")
    ipc = pytest.importorskip("pyarrow.ipc")
    missing = np.arange(40) % 4 == 0
    good = arrow.array(np.arange(40.0), mask=missing)
    for count in (10, 6):
        column = arrow.Array.from_buffers(good.type, 40, good.buffers(), null_count=count)
        batch = arrow.RecordBatch.from_arrays([column, column], names=["a", "y"])
        file = io.BytesIO()
        with ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        path = write("a.arrow", file.getvalue())
        if count == 10:
            X = np.concatenate([X for X, _ in open_chunks(path, chunk_rows=7)])
            assert_array_equal(np.isnan(X[:, 0]), missing)
            continue
        with pytest.raises(DataFileError, match="null_count"):
            read_table(path)
        with pytest.raises(DataFileError, match="null_count"):
            list(open_chunks(path, chunk_rows=7, limits=ReadLimits(block_bytes=64)))
