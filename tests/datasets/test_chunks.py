"""Files read in chunks, compared with whole tables."""

from __future__ import annotations

import io
import tracemalloc
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from gramless.base.errors import DataFileError, InputError
from gramless.datasets import (
    ChunkedTable,
    ReadLimits,
    open_chunks,
    read_table,
)

from .conftest import Writer
from .test_binary_readers import npz, parquet, parts, without

RNG = np.random.default_rng(0)
X = RNG.normal(size=(23, 3))
Y = RNG.integers(0, 3, size=23)
WORDS = np.array(["cat", "dog", "großer Hund"], dtype=object)[Y]
CHUNK_ROWS = (1, 7, 1000)
SMALL = ReadLimits(block_bytes=150)
"""Blocks smaller than the files of these tests."""


def dense(rows: Any) -> Any:
    return rows.toarray() if sparse.issparse(rows) else rows


def check_equal(chunked: ChunkedTable, X: Any, y: Any, chunk_rows: int) -> None:
    for _ in range(2):
        chunks = list(chunked)
        sizes = [len(labels) for _, labels in chunks]
        assert sizes[:-1] == [chunk_rows] * (len(sizes) - 1)
        assert 1 <= sizes[-1] <= chunk_rows
        assert {rows.dtype for rows, _ in chunks} == {chunks[0][0].dtype}
        assert_array_equal(np.concatenate([dense(rows) for rows, _ in chunks]), dense(X))
        labels = np.concatenate([labels for _, labels in chunks])
        assert_array_equal(labels, y)
        assert labels.dtype == y.dtype
        assert chunked.n_rows == X.shape[0]


def check_file(
    path: Path,
    target: str | int | None = None,
    sizes: tuple[int, ...] = CHUNK_ROWS,
    **options: Any,
) -> None:
    options = {"limits": SMALL, **options}
    X, y, names = read_table(path, **options).split_target(target)
    for chunk_rows in sizes:
        chunked = open_chunks(path, chunk_rows=chunk_rows, target=target, **options)
        assert chunked.names == names
        assert chunked.n_features == X.shape[1]
        check_equal(chunked, X, y, chunk_rows)


def csv_text(labels: Any = WORDS, delimiter: str = ",") -> str:
    rows = [delimiter.join(map(repr, row.tolist())) for row in X]
    lines = [f"{row}{delimiter}{label}" for row, label in zip(rows, labels, strict=True)]
    return "\n".join([delimiter.join(("a", "b", "c", "class")), *lines]) + "\n"


def saved(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_csv_chunks_equal_the_table(write: Writer, packing: str) -> None:
    check_file(write(f"a.csv{packing}", csv_text()))


def test_tsv_chunks_take_a_named_target(write: Writer) -> None:
    path = write("a.tsv", csv_text(Y, "\t"))
    check_file(path, "b")
    check_file(path, -1)
    check_file(path)


def test_csv_options_apply_to_chunks(write: Writer) -> None:
    path = write("a.csv", "1:2:3\n4:5:\n7:8:9\n")
    check_file(path, sizes=(2,), delimiter=":", header=False)
    check_file(path, sizes=(2,), delimiter=":", header=True)
    check_file(write("b.csv", "1,2,\n3,NA,\n"), sizes=(2,))


def test_encodings_of_chunks_are_detected(write: Writer) -> None:
    text = "n,s\n" + "1,a\n" * 6_000 + "2,ß\n3,b\n"
    check_file(write("a.csv", text.encode("latin-1")), sizes=(50, 1000))
    check_file(write("b.csv", "größe,s\n1,a\n".encode("latin-1")))
    check_file(write("c.csv", "n,s\n1,ß\n".encode("utf-16")))


def test_libsvm_chunks_equal_the_table(tmp_path: Path, write: Writer, packing: str) -> None:
    rows = sparse.random(23, 9, density=0.4, format="csr", random_state=1)
    dump_svmlight_file(rows, Y, str(tmp_path / "plain"), zero_based=False)
    path = write(f"a.libsvm{packing}", (tmp_path / "plain").read_bytes())
    check_file(path)
    if packing == "":
        check_file(path, n_features=12)
        check_file(path, zero_based=True)
        check_file(path, "x2")


def test_fully_specified_libsvm_is_not_read_first(write: Writer) -> None:
    path = write("a.libsvm", "1 1:5\n2 3:x\n")
    chunked = open_chunks(path, n_features=3, zero_based=False)
    assert chunked.n_rows is None
    with pytest.raises(DataFileError, match="line 2: '3:x'"):
        list(chunked)
    with pytest.raises(DataFileError, match="line 2: '3:x'"):
        open_chunks(path, n_features=3)
    with pytest.raises(InputError, match="n_features"):
        open_chunks(path, n_features=0)


@pytest.mark.parametrize("engine", ["polars", "pyarrow"])
def test_frame_chunks_equal_the_table(
    write: Writer, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    pytest.importorskip(engine)
    frame = {
        "real": X[:, 0].tolist(),
        "gaps": [None, None, *X[2:, 1].tolist()],
        "whole": Y.tolist(),
        "label": WORDS.tolist(),
    }
    path = write("a.parquet", parquet(frame))
    numbers = write("b.parquet", parquet({"f": Y.astype(np.float32), "y": X[:, 0]}))
    texts = write("c.parquet", parquet({"t": [None, None, *["b"] * 21], "y": X[:, 0]}))
    without(monkeypatch, *{"polars", "pyarrow"} - {engine})
    check_file(path)
    check_file(numbers)
    assert next(iter(open_chunks(numbers)))[0].dtype == np.float32
    assert open_chunks(numbers).n_rows == 23
    with pytest.raises(InputError, match="column 'label' holds text.*KernelRegressor"):
        open_chunks(path, target="real")
    with pytest.raises(InputError, match="column 't' holds text"):
        list(open_chunks(texts))
    with pytest.raises(DataFileError, match="damaged"):
        open_chunks(write("d.parquet", b"PAR1" + bytes(40) + b"PAR1"))


def test_parquet_labels_may_be_missing_in_pieces(write: Writer) -> None:
    frame = {"a": X[:, 0], "label": ["u", "v", *[None] * 12, *["w"] * 9]}
    check_file(write("a.parquet", parquet(frame)))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_chunks_equal_the_table(tmp_path: Path, save: Any) -> None:
    path = tmp_path / "a.npz"
    kinds = (np.float64, np.float32, np.uint8, ">f8", np.float16)
    targets = (Y, Y[:, None], WORDS.astype(str), np.column_stack([Y, Y + 1]), Y > 0)
    for rows, labels in (("X", "y"), ("X_train", "y_train")):
        for kind, y in zip(kinds, targets, strict=True):
            save(path, **{rows: np.abs(X).astype(kind), labels: y, "other": Y})
            check_file(path)
        save(path, **{rows: X})
        check_file(path)
        check_file(path, "x1")


def test_sparse_npz_chunks_equal_the_table(write: Writer) -> None:
    rows = sparse.random(23, 9, density=0.4, format="csr", random_state=1)
    check_file(write("a.npz", npz(**parts("X", rows), y=Y)))
    check_file(write("b.npz", npz(**parts("X_train", rows))))


def test_npy_chunks_equal_the_table(write: Writer, packing: str) -> None:
    for k, array in enumerate((X, np.arange(46, dtype=np.int8).reshape(23, 2))):
        path = write(f"{k}.npy{packing}", saved(array))
        check_file(path)
        check_file(path, 0)
    labels = write(f"y.npy{packing}", saved(WORDS.astype(str)))
    column = write(f"c.npy{packing}", saved(X[:, 0]))
    for chunk_rows in CHUNK_ROWS:
        for target in (labels, str(labels)):
            paired = open_chunks(path, target=target, chunk_rows=chunk_rows)
            check_equal(paired, array.astype(np.float32), WORDS, chunk_rows)
        one = open_chunks(column, target=labels, chunk_rows=chunk_rows)
        check_equal(one, X[:, :1], WORDS, chunk_rows)


def test_npz_stored_by_columns_is_rejected(write: Writer) -> None:
    by_columns = np.asfortranarray(X)
    check_file(write("a.npy", saved(by_columns)))
    with pytest.raises(InputError, match="X is stored column by column.*ascontiguousarray"):
        open_chunks(write("a.npz", npz(X=by_columns, y=Y)))
    check_file(write("b.npz", npz(X=by_columns[:, :1].reshape(1, -1), y=Y[:1])))


ROWS = sparse.csr_matrix(np.eye(3))


def test_invalid_npz_is_rejected(write: Writer) -> None:
    cases = [
        ({"A": X}, "holds A; X, y or X_train"),
        ({"X": X, "y": Y[:2]}, "2 labels for 23 rows"),
        ({"X": X[0], "y": Y}, "table of numbers"),
        ({"X": X.astype(str), "y": Y}, "table of numbers"),
        ({"X": X[:0], "y": Y[:0]}, "table of numbers"),
        ({"X": X, "y": np.ones((23, 1, 1))}, "one number or word"),
        ({"X": X, "y": np.array(3)}, "one number or word"),
        ({"X": np.array([[None]], dtype=object)}, "objects are refused"),
        ({"X_data": Y}, "needs X_data, _indices"),
        ({**parts("X", ROWS), "X_shape": [3]}, "not a CSR"),
        ({**parts("X", ROWS), "X_shape": [3, 2]}, "not a CSR"),
        ({**parts("X", ROWS), "X_indices": [9] * 3}, "not a CSR"),
        ({**parts("X", ROWS), "X_indices": [9] * 4}, "not a CSR"),
        ({**parts("X", ROWS), "X_indptr": [0, 3, 2, 3]}, "not a CSR"),
        ({**parts("X", ROWS), "X_indptr": [1, 2, 3, 3]}, "not a CSR"),
        ({**parts("X", ROWS), "X_indptr": [0, 2, 3, 4]}, "not a CSR"),
    ]
    for arrays, message in cases:
        with pytest.raises(DataFileError, match=message):
            list(open_chunks(write("a.npz", npz(**arrays))))


def test_damaged_arrays_are_rejected(write: Writer) -> None:
    file = io.BytesIO()
    np.savez(file, X=X, y=Y)
    flipped = bytearray(file.getvalue())
    flipped[400] ^= 1
    whole = npz(X=X, y=Y)
    for content in (whole[:-30], whole[:40], b"PK\x03\x04" + bytes(30), bytes(flipped)):
        with pytest.raises(DataFileError, match="damaged"):
            list(open_chunks(write("a.npz", content)))
    for name in ("a.npy", "a.npy.gz"):
        with pytest.raises(DataFileError, match="damaged|cut off"):
            list(open_chunks(write(name, saved(X)[:-9])))
    with pytest.raises(DataFileError, match=r"name it \.npz"):
        open_chunks(write("b.npy", whole))
    with pytest.raises(DataFileError, match=r"name it \.npy"):
        open_chunks(write("b.npz", saved(X)))
    with pytest.raises(DataFileError, match="damaged"):
        open_chunks(write("c.npy.gz", b"no array"))


def test_formats_that_cannot_be_chunked_are_rejected(write: Writer) -> None:
    for name, content in (("a.npz.gz", npz(X=X)), ("a.pq.xz", parquet({"a": [1], "y": [1]}))):
        with pytest.raises(InputError, match="unpack it first"):
            open_chunks(write(name, content))
    with pytest.raises(InputError, match="ARFF"):
        open_chunks(write("a.arff", "@attribute a real\n@data\n1\n"))


def test_invalid_chunk_rows_are_rejected(write: Writer) -> None:
    for chunk_rows in (0, -1, 2.5, True, "7"):
        with pytest.raises(InputError, match="chunk_rows"):
            open_chunks(write("a.csv", csv_text()), chunk_rows=chunk_rows)


def test_csv_faults_name_their_line(write: Writer) -> None:
    cases = [
        ("a,b\n1,2\n\n3,4\n5\n", "line 5: 1 cells where the rows before have 2"),
        ("a,b\n1\n", "line 2: 1 cells where"),
        ('a,b\n1,"2\n3,4\n', "never closed"),
        ("a,b\n", "no data rows"),
        ("\n\n", "no rows"),
        ("a,a\n1,2\n", "more than once"),
        ("a,b\n" + "1,2\n" * 300 + "1;2,3\n", "line 302, column 'a': '1;2' is not a number"),
        ("a,b\n" + "1,2\n" * 300 + "3,x\n", "line 302, column 'b': 'x' is not a number"),
        ("a,b,\n" + "1,2,\n" * 300 + "1,2,3\n", "line 302: a value in the last column"),
    ]
    for (text, message), limits in product(cases, (ReadLimits(), ReadLimits(block_bytes=16))):
        with pytest.raises(DataFileError, match=message):
            list(open_chunks(write("a.csv", text), limits=limits))


def test_text_inputs_are_rejected(write: Writer) -> None:
    path = write("pets.csv", "kind,weight,n\ncat,4.5,1\ndog,NA,2\n")
    with pytest.raises(InputError, match=r"column 'kind' holds text \('cat'\).*KernelClassifier"):
        open_chunks(path)
    assert [y.tolist() for _, y in open_chunks(write("b.csv", "1,a\n2,b\n"))] == [["a", "b"]]
    with pytest.raises(InputError, match="no column 'z'"):
        open_chunks(path, target="z")
    with pytest.raises(InputError, match="one column only"):
        open_chunks(write("c.csv", "v\n1\n2\n"))


def test_checksums_of_compressed_arrays_are_compared(write: Writer) -> None:
    for more in (b"", bytes(100)):
        path = write("a.npy.gz", saved(X) + more)
        assert len(list(open_chunks(path, chunk_rows=2))) == 12
        content = bytearray(path.read_bytes())
        content[-8] ^= 1
        path.write_bytes(content)
        with pytest.raises(DataFileError, match="CRC"):
            list(open_chunks(path))


def test_broken_utf_16_is_rejected(write: Writer) -> None:
    content = ("a,b\n" + "1,2\n" * 10_000).encode("utf-16") + b"\0"
    with pytest.raises(DataFileError, match="save it as UTF-8"):
        list(open_chunks(write("a.csv", content)))


@pytest.mark.parametrize("name", ["a.csv", "a.libsvm", "a.npz", "b.npz", "a.npy", "a.parquet"])
def test_memory_of_chunks_is_bounded(tmp_path: Path, write: Writer, name: str) -> None:
    text = name in ("a.csv", "a.libsvm")
    n_rows, few = (6_000, 100) if text else (40_000, 500)
    rows = np.random.default_rng(0).integers(1, 9, size=(n_rows, 10)).astype(float)
    bytes_of_all = rows.nbytes
    line = "," if name == "a.csv" else None
    if name == "a.csv":
        write(name, "\n".join(line.join(map(str, row)) for row in rows.tolist()) + "\n")
    elif name == "a.libsvm":
        pairs = [" ".join(f"{j}:{v}" for j, v in enumerate(row, 1)) for row in rows.tolist()]
        write(name, "\n".join("1 " + pair for pair in pairs) + "\n")
    elif name == "a.parquet":
        write(name, parquet({f"x{j}": rows[:, j] for j in range(10)}))
    elif name == "b.npz":
        np.savez_compressed(tmp_path / name, X=rows)
    else:
        content = saved(rows) if name == "a.npy" else npz(X=rows)
        write(name, content)
    del rows
    limits = ReadLimits(block_bytes=1 << 13)
    tracemalloc.start()
    try:
        n = sum(len(y) for _, y in open_chunks(tmp_path / name, chunk_rows=few, limits=limits))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n == n_rows
    assert peak < bytes_of_all / (1 if text else 4)
