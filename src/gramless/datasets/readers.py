"""Readers of files of any format, as whole tables or in chunks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from scipy import sparse

from gramless.base.errors import DataFileError, InputError
from gramless.base.numeric import is_whole
from gramless.base.types import AnyArray
from gramless.datasets.arff import read_arff
from gramless.datasets.delimited import delimited_pieces, read_csv
from gramless.datasets.files import (
    convert_errors,
    detect_format,
    plain_path,
    shorten,
    strip_compression,
)
from gramless.datasets.frames import frame_pieces, read_ipc, read_parquet
from gramless.datasets.libsvm import ZeroBased, csr_bytes, libsvm_pieces, read_libsvm
from gramless.datasets.limits import ReadLimits
from gramless.datasets.numpy_files import npy_pieces, npz_pieces, read_npy, read_npz
from gramless.datasets.pieces import Chunk, Pieces, regroup
from gramless.datasets.table import Matrix, Table

CHUNK_ROWS = 65_536


def read_table(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    part: Literal["train", "test"] = "train",
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    delimiter: str | None = None,
    header: bool | None = None,
    categorical: Sequence[str] = (),
    limits: ReadLimits | None = None,
) -> Table:
    r"""Read a table from a file of any known format.

    The ending determines the format: ``.csv .tsv .tab .data .txt`` (delimited text), ``.arff``,
    ``.parquet .pq``, ``.arrow .feather .ipc`` (Arrow IPC), ``.libsvm .svm .svmlight`` (LIBSVM
    text), ``.npz`` or ``.npy``, each optionally followed by ``.gz``, ``.bz2`` or ``.xz``. LIBSVM
    text with another ending or none is recognised by its content.

    Parameters
    ----------
    path : str or path-like
        File to read.
    format : str, default=None
        One of csv, tsv, arff, parquet, ipc, libsvm, npz, npy; overrides the ending.
    part : {"train", "test"}, default="train"
        The part to read of an NPZ file that has both.
    n_features, zero_based
        For LIBSVM text, as in :func:`read_libsvm`.
    delimiter, header, categorical
        For delimited text, as in :func:`read_csv`.
    limits : ReadLimits, default=None
        Limits on memory and size; by default ``ReadLimits()``.

    Returns
    -------
    Table
        See :meth:`Table.split_target` for inputs and labels.

    Raises
    ------
    DataFileError
        If the file is invalid or exceeds the limits. The message locates the error.
    InputError
        If a parameter is invalid.
    MissingDependencyError
        If polars is not installed (for delimited text and ARFF), or neither polars nor pyarrow (for
        Parquet and Arrow IPC).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("weight,age,label\n4.5,3,cat\n30,7,dog\n")
    ...     X, y, names = read_table(path).split_target()
    >>> X.shape, y, names
    ((2, 2), array(['cat', 'dog'], dtype=object), ('weight', 'age'))
    """
    if part not in ("train", "test"):
        raise InputError(f"part must be 'train' or 'test', got {part!r}.")
    where, limits = plain_path(path), limits or ReadLimits()
    format = detect_format(where, format)
    with convert_errors(where):
        if format in ("csv", "tsv"):
            if format == "tsv" and delimiter is None:
                delimiter = "\t"
            return read_csv(
                where, delimiter=delimiter, header=header, categorical=categorical, limits=limits
            )
        if format == "libsvm":
            X, y = read_libsvm(where, n_features=n_features, zero_based=zero_based, limits=limits)
            return Table(matrix=X, target=y, source=str(where))
        if format == "npz":
            parts = read_npz(where, limits=limits)
            name = "all" if part == "train" and "all" in parts else part
            if name not in parts:
                raise DataFileError(f"{where} has no test part: X_test and y_test are not in it.")
            return parts[name]
        readers = {"arff": read_arff, "parquet": read_parquet, "ipc": read_ipc, "npy": read_npy}
        return readers[format](where, limits=limits)


class ChunkedTable:
    r"""The rows of a file, read in order and in chunks.

    Created by :func:`open_chunks`. Each iteration reads the file again.

    Attributes
    ----------
    n_features : int
    names : tuple of str or None
        Names of the features; None for sparse rows.
    target_name : str or None
        Name of the column of labels; None if the file stores the labels separately.
    n_rows : int or None
        None if the file does not store it and no iteration has reached the end.
    chunk_rows : int
    source : str
        Path of the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.csv")
    ...     _ = path.write_text("a,y\n" + "1.5,0\n" * 5)
    ...     [X.shape for X, y in open_chunks(path, target="y", chunk_rows=2)]
    [(2, 1), (2, 1), (1, 1)]
    """

    def __init__(
        self, pieces: Pieces, target: str | int | None, chunk_rows: int, limits: ReadLimits
    ) -> None:
        inputs, y, names = pieces.head.split_target(target)
        X = _require_numbers(inputs)
        self.n_features, self.names = int(X.shape[1]), names
        self.target_name = pieces.head.target_name(target)
        self.n_rows = pieces.n_rows
        self.chunk_rows = chunk_rows
        self.source = pieces.head.source
        self._pieces, self._target, self._limits = pieces, target, limits
        self._dtype, self._label_dtype = X.dtype, y.dtype

    def __repr__(self) -> str:
        rows = "?" if self.n_rows is None else f"{self.n_rows:,}"
        return f"ChunkedTable({rows} x {self.n_features:,}, from {self.source})"

    def __iter__(self) -> Iterator[Chunk]:
        """Yield inputs and labels of ``chunk_rows`` rows, fewer at the end."""
        n_rows = 0
        for X, y in regroup(self._split(), self.chunk_rows):
            n_rows += len(y)
            yield X, y
        self.n_rows = n_rows

    def _split(self) -> Iterator[Chunk]:
        n_waiting = 0
        for table in self._pieces.read():
            inputs, y, _ = table.split_target(self._target)
            X = _require_numbers(inputs)
            n_chunk = min(n_waiting + len(y), self.chunk_rows)
            n_bytes = csr_bytes(X) if sparse.issparse(X) else X.nbytes
            # Twice, for the pieces and their concatenation.
            needed = 2 * n_bytes * n_chunk // X.shape[0]
            what = f"a chunk of {n_chunk:,} rows"
            remedy = f"Say chunk_rows={max(1, n_chunk // 10)}."
            self._limits.check_memory(Path(self.source), what, needed, remedy)
            n_waiting = (n_waiting + len(y)) % self.chunk_rows
            yield X.astype(self._dtype, copy=False), self._convert_labels(y)

    def _convert_labels(self, y: AnyArray) -> AnyArray:
        """Convert labels to the type of the first rows."""
        is_text = self._label_dtype.kind == "O"
        if is_text == (y.dtype.kind == "O"):
            return y if is_text else y.astype(self._label_dtype, copy=False)
        # A piece without any label is read as numbers.
        if is_text and y.dtype.kind == "f" and np.isnan(y).all():
            return np.full(y.shape, "", dtype=object)
        raise InputError(
            f"{self.source}: the target holds numbers in some rows and text in others; give "
            "every label as text, or every one as a number."
        )


def open_chunks(
    path: str | os.PathLike[str],
    *,
    target: str | int | os.PathLike[str] | None = None,
    format: str | None = None,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    delimiter: str | None = None,
    header: bool | None = None,
    chunk_rows: int = CHUNK_ROWS,
    limits: ReadLimits | None = None,
) -> ChunkedTable:
    r"""Open a file of numbers to read it in chunks of rows.

    Formats, inputs and labels are those of :func:`~gramless.datasets.read_table`, without ARFF.
    NPZ, Parquet and Arrow files must not be compressed as a whole, as in ``.npz.gz``.

    Parameters
    ----------
    path : str or path-like
        File to read.
    target : str, int, path-like or None, default=None
        Name or position of the column of labels, as in :meth:`Table.split_target`. For a ``.npy``
        file, it can also be the path of another ``.npy`` file with the labels.
    format : str, default=None
        One of csv, tsv, parquet, ipc, libsvm, npz, npy; overrides the ending.
    n_features, zero_based
        For LIBSVM text, as in :func:`read_libsvm`. Unless both are given, the file is read once in
        advance.
    delimiter, header
        For delimited text, as in :func:`read_csv`.
    chunk_rows : int, default=65536
        Number of rows of a chunk; the last one may have fewer.
    limits : ReadLimits, default=None
        Limits on memory and size; by default ``ReadLimits()``.

    Returns
    -------
    ChunkedTable
        An iterable of ``(X, y)``. X is an array or a CSR matrix of float32 or float64, with NaN for
        missing numbers. y has numbers or is an object array of str.

    Raises
    ------
    InputError
        If an input is text, or a parameter is invalid.
    DataFileError, MissingDependencyError
        As in :func:`~gramless.datasets.read_table`, here or in an iteration.

    Notes
    -----
    Memory holds about two chunks and one block of the file with its numbers. A block has some
    megabytes, or is one compressed row group of a Parquet or Arrow file. Reading is as fast as with
    the readers of whole files.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("weight,age,label\n4.5,3,cat\n30,7,dog\n2,1,cat\n")
    ...     for X, y in open_chunks(path, chunk_rows=2):
    ...         print(X.tolist(), y.tolist())
    [[4.5, 3.0], [30.0, 7.0]] ['cat', 'dog']
    [[2.0, 1.0]] ['cat']
    """
    if not is_whole(chunk_rows, 1):
        raise InputError(f"chunk_rows must be a positive integer, got {chunk_rows!r}.")
    limits = limits or ReadLimits()
    pieces, column = open_pieces(
        path,
        target=target,
        format=format,
        n_features=n_features,
        zero_based=zero_based,
        delimiter=delimiter,
        header=header,
        limits=limits,
    )
    return ChunkedTable(pieces, column, int(chunk_rows), limits)


def open_pieces(
    path: str | os.PathLike[str],
    *,
    target: str | int | os.PathLike[str] | None,
    format: str | None,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    delimiter: str | None,
    header: bool | None,
    categorical: Sequence[str] = (),
    limits: ReadLimits,
) -> tuple[Pieces, str | int | None]:
    """Open a file to read it in pieces; its columns may hold text.

    The parameters are those of :func:`open_chunks`. Returns the pieces and the target column, which
    is None if the target is a file of labels.
    """
    where = plain_path(path)
    format = detect_format(where, format)
    column = os.fspath(target) if isinstance(target, os.PathLike) else target
    if format == "npy":
        labels = None
        if isinstance(column, str) and strip_compression(column).lower().endswith(".npy"):
            labels, column = plain_path(column), None
        pieces = npy_pieces(where, labels, limits)
    elif format == "libsvm":
        pieces = libsvm_pieces(where, n_features, zero_based, limits)
    elif format in ("csv", "tsv"):
        if format == "tsv" and delimiter is None:
            delimiter = "\t"
        pieces = delimited_pieces(where, delimiter, header, categorical, limits)
    elif format == "arff":
        raise InputError(
            f"{where}: ARFF is not read in chunks; read it by read_table, or save it as CSV."
        )
    elif format == "npz":
        pieces = npz_pieces(where, limits)
    else:
        pieces = frame_pieces(where, format, limits)
    return pieces, column


def _require_numbers(X: Matrix | Table) -> Matrix:
    if not isinstance(X, Table):
        return X
    if not X.categorical:
        return np.asarray(X)
    name = X.categorical[0]
    example = next((value for value in X.column(name) if value), "")
    raise InputError(
        f"{X.source}: column {name!r} holds text ({shorten(example)}), but inputs read in chunks "
        "must be numbers. Encode the column as numbers first; or, if the table fits into memory, "
        "give it to KernelRegressor or KernelClassifier, which encode text."
    )
