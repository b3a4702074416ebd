"""Parquet and Arrow IPC files, through pyarrow or polars, whichever is installed."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gramless.base.columns import PlainColumn, is_declared, labels, plain_column
from gramless.base.errors import DataFileError, InputError, MissingDependencyError
from gramless.base.types import AnyArray
from gramless.datasets.files import faults, plain_path, read_unpacked, refuse_compressed
from gramless.datasets.limits import ReadLimits
from gramless.datasets.pieces import Pieces
from gramless.datasets.table import Table

if TYPE_CHECKING:
    import pyarrow

_Columns = dict[str, object]
_MOST_BATCH_ROWS = 2**31 - 1
_NAMES = {"parquet": "a Parquet", "ipc": "an Arrow IPC"}


def read_parquet(path: str | Path, *, limits: ReadLimits | None = None) -> Table:
    """Read a Parquet file; the compressed file and the decoded columns are held.

    Parameters
    ----------
    path : str or Path
        Plain or wrapped in ``.gz``, ``.bz2`` or ``.xz``.
    limits : ReadLimits, default=None
        What reading may take; by default ``ReadLimits()``.

    Returns
    -------
    Table
        Numbers as float32 or float64 with NaN for missing values; dates, times and durations as
        float64 seconds (since 1970 or midnight); booleans, text and categories as object arrays of
        str with ``""``. Nested and binary columns are refused. Categories are ``declared``.

    Raises
    ------
    MissingDependencyError
        If neither polars nor pyarrow is installed.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pl.DataFrame({"age": [3.0, 5.0]}).write_parquet(Path(folder, "pets.parquet"))
    ...     read_parquet(Path(folder, "pets.parquet")).shape
    (2, 1)
    """
    return _read(path, "parquet", limits)


def read_ipc(path: str | Path, *, limits: ReadLimits | None = None) -> Table:
    """Read an Arrow IPC file, also known as Feather version 2.

    Parameters
    ----------
    path : str or Path
        Plain or wrapped in ``.gz``, ``.bz2`` or ``.xz``.
    limits : ReadLimits, default=None
        What reading may take; by default ``ReadLimits()``.

    Returns
    -------
    Table
        With columns as those of :func:`read_parquet`.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pl.DataFrame({"age": [3.0, 5.0]}).write_ipc(Path(folder, "pets.arrow"))
    ...     read_ipc(Path(folder, "pets.arrow")).shape
    (2, 1)
    """
    return _read(path, "ipc", limits)


def frame_pieces(path: Path, format: str, limits: ReadLimits) -> Pieces:
    """Open a plain Parquet or Arrow IPC file; its first 200 rows say which columns are text."""
    refuse_compressed(path)
    file = _Frames(path, format, path)
    file.check_chunks(limits)
    most = limits.rows_of_block(8 * file.n_columns)
    head = _first(path, file.tables(min(most, 200), limits))
    return Pieces(head, lambda: file.tables(most, limits), file.n_rows)


def _read(path: str | Path, format: str, limits: ReadLimits | None) -> Table:
    where, limits = plain_path(path), limits or ReadLimits()
    file = _Frames(where, format, read_unpacked(where, limits))
    what = f"a table of {file.n_rows:,} rows and {file.n_columns:,} columns"
    needed = 8 * file.n_rows * file.n_columns
    limits.check_memory(where, what, needed, "Read it by open_chunks.")
    file.check_chunks(limits)
    with faults(where):
        return _first(where, file.tables(None, limits))


def _first(path: Path, tables: Iterator[Table]) -> Table:
    for table in tables:
        return table
    raise DataFileError(f"{path} has no rows or no columns; copy or make it again.")


class _Frames:
    """A columnar file, read by whichever library is installed.

    pyarrow holds one compressed row group and one table; polars decodes every row group again for
    each table.
    """

    def __init__(self, path: Path, format: str, source: Path | io.BytesIO) -> None:
        self._path, self._format = path, format
        self._texts: list[str] = []
        # pyarrow first: a damaged file can make polars end the whole process.
        for package in ("pyarrow", "polars"):
            with suppress(ImportError):
                self._library = importlib.import_module(package)
                break
        else:
            raise MissingDependencyError(
                f"Reading {path} needs polars or pyarrow: pip install gramless[cli]."
            )
        self._polars = package == "polars"
        with self._faults():
            if self._polars:
                self._frame = vars(self._library)[f"scan_{format}"](source)
                self.n_rows = int(self._frame.select(self._library.len()).collect().item())
                self.n_columns = len(self._frame.collect_schema())
                return
            dataset = importlib.import_module("pyarrow.dataset")
            if isinstance(source, Path):
                local = importlib.import_module("pyarrow.fs").LocalFileSystem()
                opened = {"file": str(source.absolute()), "filesystem": local}
            else:
                opened = {"file": self._library.BufferReader(source.getbuffer())}
            if format == "ipc":
                self._fragment = dataset.IpcFileFormat().make_fragment(**opened)
            else:
                self._texts = self._text_names(dataset.ParquetFileFormat().make_fragment(**opened))
                # A dictionary page of a few bytes can decode to gigabytes of text.
                options = dataset.ParquetReadOptions(dictionary_columns=self._texts)
                parquet = dataset.ParquetFileFormat(read_options=options)
                self._fragment = parquet.make_fragment(**opened)
            self.n_rows = self._fragment.count_rows()
            self.n_columns = len(self._fragment.physical_schema)

    def check_chunks(self, limits: ReadLimits) -> None:
        """Refuse a column chunk that its footer declares to unpack beyond the limits.

        polars and Arrow IPC files do not tell the sizes of compressed buffers in advance.
        """
        if self._polars or self._format != "parquet":
            return
        with self._faults():
            metadata = self._fragment.metadata
            groups = map(metadata.row_group, range(metadata.num_row_groups))
            chunks = (group.column(j) for group in groups for j in range(group.num_columns))
            sizes = [chunk.total_uncompressed_size for chunk in chunks]
        limits.check_memory(self._path, "its largest column chunk", max(sizes, default=0))

    def _text_names(self, fragment: pyarrow.dataset.Fragment) -> list[str]:
        types = self._library.types
        return [
            field.name
            for field in fragment.physical_schema
            if types.is_string(field.type) or types.is_large_string(field.type)
        ]

    def tables(self, most_rows: int | None, limits: ReadLimits) -> Iterator[Table]:
        """Yield the rows in order, at most ``most_rows`` at a time, or all at once.

        A column without any value in one of the tables is float64 there.
        """
        read = self._by_polars(most_rows) if self._polars else self._by_pyarrow(most_rows, limits)
        with self._faults():
            for raw in read:
                plain = {name: _plain(self._path, name, values) for name, values in raw.items()}
                columns = {name: _stored(column) for name, column in plain.items()}
                if columns and len(next(iter(columns.values()))):
                    declared = tuple(name for name, values in raw.items() if is_declared(values))
                    types = {
                        name: column.type
                        for name, column in plain.items()
                        if column.type not in ("number", "text", "category")
                    }
                    yield Table(columns, source=str(self._path), declared=declared, types=types)

    def _by_polars(self, most_rows: int | None) -> Iterator[_Columns]:
        for start in range(0, self.n_rows, most_rows or max(1, self.n_rows)):
            frame = self._frame.slice(start, most_rows).collect()
            yield {column.name: column for column in frame.iter_columns()}

    def _by_pyarrow(self, most_rows: int | None, limits: ReadLimits) -> Iterator[_Columns]:
        for table in self._arrow_tables(most_rows):
            # Offsets of damaged text lead anywhere in memory.
            table.validate(full=True)
            for start in range(0, table.num_rows, most_rows or max(1, table.num_rows)):
                rows = table.slice(start, most_rows)
                columns = dict(zip(rows.schema.names, rows.columns, strict=True))
                yield {
                    name: self._checked_text(name, column, limits)
                    for name, column in columns.items()
                }

    def _checked_text(
        self, name: str, column: pyarrow.Array | pyarrow.ChunkedArray, limits: ReadLimits
    ) -> pyarrow.Array | pyarrow.ChunkedArray:
        """Return a column; raise DataFileError if its text would take too much memory."""
        types = self._library.types
        if not types.is_dictionary(column.type):
            return column
        chunks = column.chunks if isinstance(column, self._library.ChunkedArray) else [column]
        words = column.type.value_type
        if types.is_string(words) or types.is_large_string(words) or types.is_binary(words):
            compute = importlib.import_module("pyarrow.compute")
            n_bytes = sum(
                compute.sum(compute.binary_length(chunk.dictionary).take(chunk.indices)).as_py()
                or 0
                for chunk in chunks
            )
            limits.check_memory(self._path, f"the text of column {name!r}", n_bytes)
        return column.cast(self._library.large_string()) if name in self._texts else column

    def _arrow_tables(self, most_rows: int | None) -> Iterator[pyarrow.Table | pyarrow.RecordBatch]:
        """Return one table of all rows, or batches as they are validated."""
        if most_rows is None:
            return iter([self._fragment.to_table(use_threads=False)])
        if self._format == "ipc":
            # Slices count their missing values anew and hide a wrong count of the whole batch,
            # which is in memory in any case.
            most_rows = _MOST_BATCH_ROWS
        return iter(
            self._fragment.to_batches(batch_size=most_rows, batch_readahead=0, use_threads=False)
        )

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Turn what the libraries raise for a damaged file into DataFileError."""
        kinds: tuple[type[BaseException], ...]
        if self._polars:
            # Damaged pages end in a panic, which is no Exception.
            kinds = (self._library.exceptions.PolarsError, self._library.exceptions.PanicException)
        else:
            kinds = (self._library.ArrowException, RuntimeError)
        try:
            yield
        except DataFileError:
            raise
        except MemoryError as fault:
            raise DataFileError(
                f"{self._path} takes more memory than there is; if it is no larger than others, it "
                "is damaged: copy or download it again."
            ) from fault
        except (*kinds, OSError, ValueError) as fault:
            what = str(fault).splitlines()[0][:200] if str(fault) else type(fault).__name__
            raise DataFileError(
                f"{self._path} is damaged or not {_NAMES[self._format]} file ({what}); copy or "
                "download it again."
            ) from fault


def _plain(path: Path, name: str, column: object) -> PlainColumn:
    try:
        plain = plain_column(name, column)
    except InputError as fault:
        raise DataFileError(f"{path}: {fault}") from fault
    if plain.is_category and any(isinstance(value, bytes) for value in plain.values):
        raise DataFileError(f"{path}: column {name!r} holds bytes; drop the column or convert it.")
    return plain


def _stored(column: PlainColumn) -> AnyArray:
    if not column.is_category:
        return column.values
    cells = labels(column.values) if column.is_text else column.category_labels()
    return np.array([*cells], dtype=object)
