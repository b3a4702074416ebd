"""Data files: random damage to every format and compression, and decompression bombs."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import struct
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from gramless.base.errors import DataFileError, InputError
from gramless.base.notation import MISSING_WORDS
from gramless.datasets import ReadLimits, Table, open_chunks, read_table

PROMISE = (
    "Reading a data file with any content raises DataFileError, or gives the same table as another "
    "parser of the same bytes, whole and in chunks, in seconds and within 2 GB."
)
FULL = 5000
SHORT = 300
SECONDS = 60.0
MEMORY = 2 << 30
ENVIRONMENTS: dict[str, dict[str, str]] = {"plain": {}}

GIB = 1 << 30
LIMITS = ReadLimits(max_memory=GIB)
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
WORDS = ("cat", "dog", "big dog", "großer Hund", "a,b", "NA", "?", "", "x" * 300)
TOKENS = [
    *(b"1e999", b"-0", b"nan", b"inf", b"2147483648", b"99999999999999999999", b"1_0", b"0x1"),
    *(b'"', b"'", b"{", b"}", b"%", b"#", b",", b"\t", b" ", b"\n", b"\r", b"\0", b":", b"1:"),
    *(b"qid:", b"@data", b"@attribute a real\n", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"1,2\n"),
    *(b"\x93NUMPY", b"PK\x03\x04", b"PAR1", b"\x1f\x8b", bytes(8), b"\xff" * 8, b"\x7f" * 4),
]


def check(number: int, seed: int) -> str:
    """Read a randomly damaged file, or for the first numbers a decompression bomb."""
    rng = np.random.default_rng([seed, number])
    with tempfile.TemporaryDirectory() as folder:
        if number < len(BOMBS):
            return BOMBS[number](Path(folder))
        return _damaged(Path(folder), rng)


# ---- Random damage.


def _damaged(folder: Path, rng: np.random.Generator) -> str:
    suffix = str(rng.choice(list(MAKERS)))
    compression = str(rng.choice(list(PACKERS)))
    original = MAKERS[suffix](rng)
    content = _mutated(original, rng)
    packed = PACKERS[compression](content)
    damaged = packed
    if compression and rng.random() < 0.3:
        content, packed = original, PACKERS[compression](original)
        damaged = _mutated(packed, rng)
    path = folder / f"a{suffix}{compression}"
    path.write_bytes(damaged)
    options: dict[str, Any] = {"header": True, "delimiter": ","} if suffix == ".csv" else {}
    # Small blocks make the reader use polars, and split rows and lines anywhere.
    options["limits"] = replace(LIMITS, block_bytes=int(rng.choice([8, 64, 512, 1 << 22])))
    table = _outcome(lambda: read_table(path, **options))
    chunks = _outcome(lambda: _read_in_chunks(path, options))
    prefix = f"{suffix}: "
    if isinstance(chunks, InputError) and not isinstance(chunks, DataFileError):
        _check_input_error(chunks)
    if isinstance(table, Exception):
        if not isinstance(table, DataFileError):
            raise table
        assert str(path) in str(table), table
        assert isinstance(chunks, Exception), f"read in chunks, but refused as a whole: {table}"
        return prefix + "refused"
    _check_form(table)
    if damaged == packed:
        REREADERS[suffix](table, content)
    elif suffix not in (".parquet", ".arrow"):
        # If the damaged file can be decompressed, the result is read like an undamaged file.
        REREADERS[suffix](table, _unpacked(damaged, compression))
    if isinstance(chunks, Exception):
        return prefix + "read, not in chunks"
    X, y, _ = table.split_target(_target(table))
    if isinstance(X, Table):
        X = np.column_stack([_without_words(X.column(name)) for name in X.names])
    assert _same(X, chunks[0]), (X, chunks[0])
    y = _without_words(y) if chunks[1].dtype.kind == "f" else y
    assert _same(y, chunks[1]), (y, chunks[1])
    return prefix + "read"


def _outcome(read: Callable[[], Any]) -> Any:
    """Return the result of reading, or an allowed error."""
    try:
        return read()
    except (DataFileError, InputError) as error:
        return error


def _check_input_error(error: InputError) -> None:
    known = ("holds text", "one column only", "as a whole", "by rows", "not read in chunks")
    assert any(part in str(error) for part in (*known, "text in others")), error


def _target(table: Table) -> int | None:
    return None if table.target is not None else -1


def _read_in_chunks(path: Path, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return the rows of a file and their labels, read in chunks."""
    chunks = list(open_chunks(path, chunk_rows=7, **options))
    join = sparse.vstack if sparse.issparse(chunks[0][0]) else np.concatenate
    return join([X for X, _ in chunks]), np.concatenate([y for _, y in chunks])


def _unpacked(content: bytes, packing: str) -> bytes:
    return {".gz": gzip, ".bz2": bz2, ".xz": lzma}[packing].decompress(content)


def _check_form(table: Table) -> None:
    assert min(table.shape) > 0, table
    if table.columns is None:
        assert table.matrix.dtype.kind == "f", table
        return
    for values in table.columns.values():
        if values.dtype.kind == "O":
            assert all(type(value) is str for value in values), table
        else:
            assert values.dtype.kind == "f", table


def _without_words(values: np.ndarray) -> np.ndarray:
    """Return a column as read in chunks, where a column of missing-value words is numeric."""
    words = values.dtype.kind == "O" and set(values) <= MISSING_WORDS
    return np.full(len(values), np.nan) if words else values


def _same(a: Any, b: Any) -> bool:
    """Return whether two arrays or matrices are equal; NaN equals NaN."""
    a, b = (x.toarray() if sparse.issparse(x) else np.asarray(x) for x in (a, b))
    if a.shape != b.shape:
        return False
    return bool(((a == b) | ((a != a) & (b != b))).all())


def _mutated(content: bytes, rng: np.random.Generator) -> bytes:
    raw = bytearray(content)
    for _ in range(int(rng.integers(0, 5))):
        at = int(rng.integers(0, len(raw) + 1))
        size = int(rng.integers(1, 12)) if rng.random() < 0.8 else int(rng.integers(1, 400))
        token = TOKENS[int(rng.integers(0, len(TOKENS)))]
        kind = int(rng.integers(0, 8))
        if kind == 0 and at < len(raw):
            raw[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            del raw[at : at + size]
        elif kind == 2:
            raw[at:at] = token
        elif kind == 3:
            raw[at : at + len(token)] = token
        elif kind == 4:
            raw[at:at] = rng.bytes(size)
        elif kind == 5:
            raw[at:at] = raw[at : at + size] * int(rng.integers(1, 4))
        elif kind == 6 and rng.random() < 0.5:
            del raw[at:]
        elif kind == 7:
            raw = _with_other_digits(raw, at, rng)
    return bytes(raw)


def _with_other_digits(raw: bytearray, at: int, rng: np.random.Generator) -> bytearray:
    """Replace the next digit, which keeps the file well-formed."""
    for k in range(at, len(raw)):
        if chr(raw[k]).isdigit():
            raw[k] = ord(b"0") + int(rng.integers(0, 10))
            break
    return raw


# ---- Files of every format.


def _numbers(rng: np.random.Generator) -> np.ndarray:
    shape = int(rng.integers(1, 60)), int(rng.integers(1, 9))
    rows = np.round(rng.normal(size=shape), 3)
    rows[rng.random(shape) < 0.4] = 0.0
    return rows


def _cells(rng: np.random.Generator, missing: str) -> list[list[str]]:
    rows = [[f"{value:g}" for value in row] for row in _numbers(rng)]
    for row in rows:
        if rng.random() < 0.1:
            row[0] = missing
        if rng.random() < 0.9:
            row.append(str(rng.choice(WORDS[:3])))
        else:
            row.append(str(rng.choice(WORDS)))
    return rows


def make_csv(rng: np.random.Generator) -> bytes:
    rows = _cells(rng, "NA")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([f"c{j}" for j in range(len(rows[0]))])
    writer.writerows(rows if rng.random() < 0.5 else [[*row[:-1], "1"] for row in rows])
    return text.getvalue().encode(str(rng.choice(["cp1252", "utf-16", *["utf-8"] * 4])))


def make_arff(rng: np.random.Generator) -> bytes:
    rows = [row[:-1] for row in _cells(rng, "?")]
    kinds = ["{cat, 'big dog', dog}" if rng.random() < 0.3 else "real" for _ in rows[0]]
    for row in rows:
        for j, kind in enumerate(kinds):
            if kind != "real":
                row[j] = str(rng.choice(["cat", "'big dog'", "?"]))
    head = [f"@attribute a{j} {kind}" for j, kind in enumerate(kinds)]
    return "\n".join(["% pets", "@relation r", *head, "@data", *map(",".join, rows), ""]).encode()


def make_libsvm(rng: np.random.Generator) -> bytes:
    lines = []
    for row in _numbers(rng):
        pairs = " ".join(f"{j}:{value:g}" for j, value in enumerate(row, 1) if value)
        lines.append(f"{int(rng.integers(0, 3))} {pairs}")
    return ("\n".join(lines) + "\n").encode()


def make_npy(rng: np.random.Generator) -> bytes:
    file = io.BytesIO()
    np.save(file, _numbers(rng).astype(str(rng.choice(["f8", "f4", "i2", "u1", ">f8"]))))
    return file.getvalue()


def make_npz(rng: np.random.Generator) -> bytes:
    rows = _numbers(rng)
    if rng.random() < 0.5:
        X = sparse.csr_matrix(rows)
        arrays = {"X_data": X.data, "X_indices": X.indices, "X_indptr": X.indptr}
        arrays["X_shape"] = np.array(X.shape)
    else:
        arrays = {"X": rows}
    if rng.random() < 0.3:
        # Change values before compression, because the checksum detects changed bytes.
        name = str(rng.choice(list(arrays)))
        part = arrays[name].copy().ravel().astype(str(rng.choice(["f8", "i8", "i4", "u1", "U3"])))
        if len(part) and part.dtype.kind != "U":
            part[int(rng.integers(0, len(part)))] = rng.choice([0, 0.5, 1, 1.5, 2, 100])
        arrays[name] = part.reshape(arrays[name].shape)
    file = io.BytesIO()
    save = np.savez_compressed if rng.random() < 0.5 else np.savez
    save(file, **arrays, y=np.arange(len(rows) + int(rng.random() < 0.05)))
    return file.getvalue()


def _frame(rng: np.random.Generator) -> Any:
    import polars as pl

    rows = _numbers(rng)
    columns: dict[str, Any] = {f"c{j}": column for j, column in enumerate(rows.T)}
    columns["whole"] = [None if k % 5 == 0 else k for k in range(len(rows))]
    columns["word"] = [str(rng.choice(WORDS)) for _ in rows]
    return pl.DataFrame(columns)


def make_parquet(rng: np.random.Generator) -> bytes:
    file = io.BytesIO()
    _frame(rng).write_parquet(file, compression=rng.choice(["zstd", "uncompressed"]))
    return file.getvalue()


def make_ipc(rng: np.random.Generator) -> bytes:
    file = io.BytesIO()
    _frame(rng).write_ipc(file, compression=rng.choice(["zstd", "lz4", "uncompressed"]))
    return file.getvalue()


# ---- The same bytes read in another way.


def reread_npy(table: Table, content: bytes) -> None:
    expected = np.load(io.BytesIO(content))
    assert _same(table.matrix, expected.reshape(len(expected), -1)), (table.matrix, expected)


def reread_npz(table: Table, content: bytes) -> None:
    arrays = np.load(io.BytesIO(content))
    ending = "_train" if any(name.startswith("X_train") for name in arrays.files) else ""
    if f"y{ending}" in arrays.files:
        assert _same(table.target, arrays[f"y{ending}"].reshape(-1)), table
    if f"X{ending}" in arrays.files:
        assert _same(table.matrix, arrays[f"X{ending}"]), table
        return
    data, indices, indptr, shape = (
        arrays[f"X{ending}_{part}"] for part in ("data", "indices", "indptr", "shape")
    )
    assert table.shape == tuple(shape.tolist()), (table, shape)
    for k in range(table.shape[0]):
        row = table.matrix[k]
        expected: dict[float, float] = {}
        for place in range(indptr.tolist()[k], indptr.tolist()[k + 1]):
            j = indices.tolist()[place]
            expected[j] = expected.get(j, 0.0) + float(data[place])
        actual: dict[float, float] = {}
        for j, value in zip(row.indices.tolist(), row.data.tolist(), strict=True):
            actual[j] = actual.get(j, 0.0) + value
        assert repr(actual) == repr(dict(sorted(expected.items()))), (actual, expected)


def reread_libsvm(table: Table, content: bytes) -> None:
    rows: list[dict[int, float]] = []
    labels = []
    for line in content.split(b"\n"):
        words = line.split(b"#")[0].split()
        if words:
            labels.append(float(words[0]))
            pairs = [word.split(b":") for word in words[1:] if not word.startswith(b"qid:")]
            rows.append({int(index): float(value) for index, value in pairs})
    first = 0 if any(0 in row for row in rows) else 1
    assert _same(table.target, labels), (table.target, labels)
    for k, expected in enumerate(rows):
        row = table.matrix[k]
        actual = {
            int(j) + first: v for j, v in zip(row.indices.tolist(), row.data.tolist(), strict=True)
        }
        assert repr(actual) == repr(expected), (actual, expected)


def reread_csv(table: Table, content: bytes) -> None:
    rows = _parsed(_decoded(content), '"')
    while not _is_filled(rows[0]):
        del rows[0]
    header, *rows = rows
    if len(header) > 1:
        rows = list(filter(_is_filled, rows))
    elif rows[-1] == [""]:
        del rows[-1]
    if not header[0].strip() and len(table.names or ()) < len(header) and rows[0][-1]:
        # The reader drops an unnamed first column that counts the rows.
        assert sorted(float(row[0]) for row in rows)[0] in (0, 1), rows
        rows = [row[1:] for row in rows]
    _check_cells(table, rows, {""})


def reread_arff(table: Table, content: bytes) -> None:
    lines = _decoded(content).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    declared = [line for line in lines if line.strip().lower().startswith("@attribute")]
    for name, line in zip(table.names or (), declared, strict=False):
        if "{" in line:
            assert all(value in line for value in table.column(name)), (line, table.column(name))
    start = next(k for k, line in enumerate(lines) if line.strip().lower().split()[:1] == ["@data"])
    rows = [line for line in lines[start + 1 :] if not line.lstrip().startswith("%")]
    if '"' not in "".join(rows):
        cells = filter(_is_filled, _parsed("\n".join(rows), "'"))
        _check_cells(table, list(cells), {"", "?"})


def reread_parquet(table: Table, content: bytes) -> None:
    import pyarrow.parquet as pq

    _check_frame(table, pq.ParquetFile(io.BytesIO(content)).read().to_pylist())


def reread_ipc(table: Table, content: bytes) -> None:
    import pyarrow.ipc as ipc

    _check_frame(table, ipc.open_file(io.BytesIO(content)).read_all().to_pylist())


def _check_frame(table: Table, rows: list[dict[str, Any]]) -> None:
    assert len(rows) == len(table)
    for name in table.names or ():
        for value, row in zip(table.column(name).tolist(), rows, strict=True):
            expected = "" if isinstance(value, str) and row[name] is None else row[name]
            same = value == (float(expected) if isinstance(expected, int) else expected)
            assert same or value != value, (name, value, expected)


def _decoded(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16")
    if content[1::2].count(0) > len(content) / 4:
        return content.decode("utf-16-le")
    if content[::2].count(0) > len(content) / 4:
        return content.decode("utf-16-be")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252")


def _parsed(text: str, quote: str) -> list[list[str]]:
    """Parse comma-separated text character by character, and return its rows."""
    rows: list[list[str]] = [[]]
    cell, quoted, begun = "", False, False
    k = 0
    while k < len(text):
        letter = text[k]
        if quoted:
            if letter == quote and text[k + 1 : k + 2] == quote:
                cell += quote
                k += 1
            elif letter == quote:
                quoted = False
            else:
                cell += letter
        elif letter == quote and not begun and not cell:
            quoted = begun = True
        elif letter == ",":
            rows[-1].append(cell)
            cell, begun = "", False
        elif letter in "\r\n":
            rows[-1].append(cell)
            rows.append([])
            cell, begun = "", False
        elif letter != " " or cell or begun:
            cell += letter
        k += 1
    rows[-1].append(cell)
    return rows


def _is_filled(row: list[str]) -> bool:
    return len(row) > 1 or bool(row[0].strip())


def _check_cells(table: Table, rows: list[list[str]], missing: set[str]) -> None:
    assert len(rows) == len(table), (len(rows), table)
    for j, name in enumerate(table.names or ()):
        values = table.column(name)
        for value, row in zip(values.tolist(), rows, strict=True):
            cell = row[j].strip()
            if values.dtype.kind == "O":
                assert value == ("" if cell in missing else cell), (name, value, cell)
            elif cell in MISSING_WORDS:
                assert value != value, (name, value, cell)
            else:
                assert value == float(cell) or value != value, (name, value, cell)


# ---- Decompression bombs.


def _repeated(packing: str, start: bytes, piece: bytes, n_bytes: int) -> bytes:
    """Return compressed data that decompresses to ``start`` and many repetitions of ``piece``."""
    pack = PACKERS[packing]
    many = piece * ((1 << 20) // len(piece))
    return pack(start) + pack(many) * (n_bytes // len(many))


def _claim(shape: tuple[int, ...]) -> bytes:
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head


def _refused(path: Path, content: bytes, reason: str, limits: ReadLimits = LIMITS) -> str:
    """Check that reading a file, whole and in chunks, fails for the given reason."""
    path.write_bytes(content)
    reads: list[Callable[[], Any]] = [lambda: read_table(path, limits=limits)]
    if ".arff" not in path.name and ".parquet" not in path.name and reason != "max_memory":
        reads.append(lambda: list(open_chunks(path, limits=limits)))
    for read in reads:
        error = _outcome(read)
        assert isinstance(error, DataFileError), f"{path.name} was read"
        assert reason in str(error), error
    return f"bomb: refused by {reason}"


def _line(
    name: str, start: bytes, piece: bytes, limits: ReadLimits | None = None
) -> Callable[[Path], str]:
    """Return a bomb with one line of 4 GiB, with the default limits unless others are given."""

    def bomb(folder: Path) -> str:
        content = _repeated(Path(name).suffix, start, piece, 4 * GIB)
        assert len(content) < 5_000_000
        return _refused(folder / name, content, "max_line_bytes", limits or ReadLimits())

    return bomb


def _rows(name: str, start: bytes, piece: bytes) -> Callable[[Path], str]:
    """Return a bomb with too many short lines for 16 MB."""

    def bomb(folder: Path) -> str:
        content = _repeated(Path(name).suffix, start, piece, 4 * GIB)
        return _refused(folder / name, content, "max_memory", ReadLimits(max_memory=1 << 24))

    return bomb


def _zeros(folder: Path) -> str:
    content = gzip.compress(_claim((1 << 29,))) + _repeated(".gz", b"", bytes(1 << 20), 4 * GIB)
    return _refused(folder / "a.npy.gz", content, "max_memory", ReadLimits(max_memory=1 << 28))


def _claimed(folder: Path) -> str:
    path = folder / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", _claim((1, 2**40)) + bytes(64))
    return _refused(path, path.read_bytes(), "max_memory")


def _wide_libsvm(folder: Path) -> str:
    path = folder / "a.libsvm"
    path.write_text("1 1:2 2147483640:1\n-1 2:1\n")
    return _wide_is_right(path, 2_147_483_640)


def _wide_npz(folder: Path) -> str:
    path = folder / "a.npz"
    parts = {"data": [2.0, 1.0, 1.0], "indices": [0, 2**40 - 1, 1], "indptr": [0, 2, 3]}
    arrays = {f"X_{part}": np.array(values) for part, values in parts.items()}
    np.savez(path, **arrays, X_shape=np.array([2, 2**40]), y=np.array([1, -1]))
    return _wide_is_right(path, 2**40)


def _wide_is_right(path: Path, width: int) -> str:
    table = read_table(path, limits=LIMITS)
    assert table.shape == (2, width)
    assert table.select() is table.matrix
    assert table.column(width - 1).tolist() == [1.0, 0.0]
    X, y, _ = table.split_target("x2")
    assert X.shape == (2, width - 1)
    assert y.tolist() == [0.0, 1.0]
    assert sum(rows.nnz for rows, _ in open_chunks(path, limits=LIMITS)) == 3
    return "bomb: read"


def _wide_csv(folder: Path) -> str:
    path = folder / "a.csv"
    n_columns = 800_000
    names = ",".join(f"c{j}" for j in range(n_columns))
    path.write_text(names + "\n" + ",".join(["1.5"] * (n_columns - 1) + ["red"]) + "\n")
    table = read_table(path, limits=LIMITS)
    assert table.shape == (1, n_columns)
    assert table.column(n_columns - 1).tolist() == ["red"]
    return "bomb: read"


def _nothing(folder: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table({"nothing": pa.nulls(1 << 28)}), file)
    return _refused(folder / "a.parquet", file.getvalue(), "max_memory")


BOMBS: list[Callable[[Path], str]] = [
    _line("a.csv.gz", b"a,b\n1,2\n", b"0"),
    _line("b.csv.gz", b"", b"0,"),
    _line("c.csv.xz", "a,b\n1,2\n".encode("utf-16"), "\u0a0a".encode("utf-16-le")),
    _line("d.csv.bz2", b"a,b\n1,2\n", b'"\n",', ReadLimits(max_line_bytes=1 << 23)),
    _line("a.libsvm.gz", b"1 1:2\n", b"1"),
    _line("b.libsvm.gz", b"1 1:2\n", b"\r"),
    _line("a.arff.gz", b"@attribute a real\n@data\n", b"0"),
    _rows("e.csv.bz2", b"a,b\n", b"1,2\n"),
    _rows("c.libsvm.xz", b"", b"1 1:2\n"),
    _rows("b.arff.xz", b"@attribute a real\n@data\n", b"1\n"),
    _zeros,
    _claimed,
    _wide_libsvm,
    _wide_npz,
    _wide_csv,
    _nothing,
]

MAKERS: dict[str, Callable[[np.random.Generator], bytes]] = {
    ".csv": make_csv,
    ".arff": make_arff,
    ".libsvm": make_libsvm,
    ".npy": make_npy,
    ".npz": make_npz,
    ".parquet": make_parquet,
    ".arrow": make_ipc,
}
REREADERS: dict[str, Callable[[Table, bytes], None]] = {
    ".csv": reread_csv,
    ".arff": reread_arff,
    ".libsvm": reread_libsvm,
    ".npy": reread_npy,
    ".npz": reread_npz,
    ".parquet": reread_parquet,
    ".arrow": reread_ipc,
}
