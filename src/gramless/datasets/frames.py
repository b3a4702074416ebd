"""Readers of Parquet and Arrow IPC files by pyarrow or, if it is not installed, polars."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gramless.base.columns import PlainColumn, has_categorical_type, labels, plain_column
from gramless.base.errors import DataFileError, InputError, MissingDependencyError
from gramless.base.types import AnyArray
from gramless.datasets.files import check_uncompressed, convert_errors, plain_path, read_unpacked
from gramless.datasets.limits import ReadLimits
from gramless.datasets.pieces import Pieces
from gramless.datasets.table import Table

if TYPE_CHECKING:
    import pyarrow

_Columns = dict[str, object]
_MAX_BATCH_ROWS = 2**31 - 1
_FORMAT_NAMES = {"parquet": "a Parquet", "ipc": "an Arrow IPC"}


def read_parquet(path: str | Path, *, limits: ReadLimits | None = None) -> Table:
    """Read a Parquet file.

    Memory holds the compressed file and the decoded columns.

    Parameters
    ----------
    path : str or Path
        Plain or wrapped in ``.gz``, ``.bz2`` or ``.xz``.
    limits : ReadLimits, default=None
        Limits on memory and size; by default ``ReadLimits()``.

    Returns
    -------
    Table
        Numbers are float32 or float64 with NaN for missing values. Dates, times and durations are
        float64 seconds (since 1970 or midnight). Booleans, text and categories are object arrays of
        str with ``""`` for missing values. ``declared`` lists the columns of categories.

    Raises
    ------
    DataFileError
        If the file is invalid or exceeds the limits, has no rows or no columns, or has nested or
        binary columns.
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
        Limits on memory and size; by default ``ReadLimits()``.

    Returns
    -------
    Table
        The columns have the same types as in :func:`read_parquet`.

    Raises
    ------
    DataFileError, MissingDependencyError
        As in :func:`read_parquet`.

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
    """Open an uncompressed Parquet or Arrow IPC file; ``head`` has at most its first 200 rows."""
    check_uncompressed(path)
    file = _ColumnarFile(path, format, path)
    file.check_chunks(limits)
    max_rows = limits.rows_of_block(8 * file.n_columns)
    head = _first_table(path, file.tables(min(max_rows, 200), limits))
    return Pieces(head, lambda: file.tables(max_rows, limits), file.n_rows)


def _read(path: str | Path, format: str, limits: ReadLimits | None) -> Table:
    where, limits = plain_path(path), limits or ReadLimits()
    file = _ColumnarFile(where, format, read_unpacked(where, limits))
    content = f"a table of {file.n_rows:,} rows and {file.n_columns:,} columns"
    needed = 8 * file.n_rows * file.n_columns
    limits.check_memory(where, content, needed, "Read it by open_chunks.")
    file.check_chunks(limits)
    with convert_errors(where):
        return _first_table(where, file.tables(None, limits))


def _first_table(path: Path, tables: Iterator[Table]) -> Table:
    for table in tables:
        return table
    raise DataFileError(f"{path} has no rows or no columns; copy or make it again.")


class _ColumnarFile:
    """A columnar file, read by pyarrow or polars.

    pyarrow holds one compressed row group and one table. polars decodes every row group again for
    each table.
    """

    def __init__(self, path: Path, format: str, source: Path | io.BytesIO) -> None:
        self._path, self._format = path, format
        self._text_names: list[str] = []
        # pyarrow comes first, because a damaged file can make polars end the whole process.
        for package in ("pyarrow", "polars"):
            with suppress(ImportError):
                self._library = importlib.import_module(package)
                break
        else:
            raise MissingDependencyError(
                f"Reading {path} needs polars or pyarrow: pip install gramless[cli]."
            )
        self._uses_polars = package == "polars"
        with self._convert_library_errors():
            if self._uses_polars:
                self._frame = vars(self._library)[f"scan_{format}"](source)
                self.n_rows = int(self._frame.select(self._library.len()).collect().item())
                self.n_columns = len(self._frame.collect_schema())
                return
            dataset = importlib.import_module("pyarrow.dataset")
            if isinstance(source, Path):
                local = importlib.import_module("pyarrow.fs").LocalFileSystem()
                location = {"file": str(source.absolute()), "filesystem": local}
            else:
                location = {"file": self._library.BufferReader(source.getbuffer())}
            if format == "ipc":
                self._fragment = dataset.IpcFileFormat().make_fragment(**location)
            else:
                schema = dataset.ParquetFileFormat().make_fragment(**location).physical_schema
                types = self._library.types
                self._text_names = [
                    field.name
                    for field in schema
                    if types.is_string(field.type) or types.is_large_string(field.type)
                ]
                # Text is read as dictionaries, because a dictionary page of a few bytes can decode
                # to gigabytes of text.
                options = dataset.ParquetReadOptions(dictionary_columns=self._text_names)
                parquet = dataset.ParquetFileFormat(read_options=options)
                self._fragment = parquet.make_fragment(**location)
            self.n_rows = self._fragment.count_rows()
            self.n_columns = len(self._fragment.physical_schema)

    def check_chunks(self, limits: ReadLimits) -> None:
        """Raise DataFileError if a column chunk, according to the footer, exceeds the limits.

        The sizes are not known in advance with polars and in Arrow IPC files.
        """
        if self._uses_polars or self._format != "parquet":
            return
        with self._convert_library_errors():
            metadata = self._fragment.metadata
            groups = map(metadata.row_group, range(metadata.num_row_groups))
            chunks = (group.column(j) for group in groups for j in range(group.num_columns))
            sizes = [chunk.total_uncompressed_size for chunk in chunks]
        limits.check_memory(self._path, "its largest column chunk", max(sizes, default=0))

    def tables(self, max_rows: int | None, limits: ReadLimits) -> Iterator[Table]:
        """Yield the rows in order, at most ``max_rows`` at a time, or all at once if None.

        A column that has no values in one of the tables is float64 there.
        """
        if self._uses_polars:
            blocks = self._read_with_polars(max_rows)
        else:
            blocks = self._read_with_pyarrow(max_rows, limits)
        with self._convert_library_errors():
            for raw in blocks:
                columns: dict[str, AnyArray] = {}
                types: dict[str, str] = {}
                for name, values in raw.items():
                    column = _read_column(self._path, name, values)
                    if column.is_category:
                        texts = (
                            labels(column.values) if column.is_text else column.category_labels()
                        )
                        columns[name] = np.array([*texts], dtype=object)
                    else:
                        columns[name] = column.values
                    # The values show the other types.
                    if column.type not in ("number", "text", "category"):
                        types[name] = column.type
                if columns and len(next(iter(columns.values()))):
                    declared = tuple(
                        name for name, values in raw.items() if has_categorical_type(values)
                    )
                    yield Table(columns, source=str(self._path), declared=declared, types=types)

    def _read_with_polars(self, max_rows: int | None) -> Iterator[_Columns]:
        for start in range(0, self.n_rows, max_rows or max(1, self.n_rows)):
            frame = self._frame.slice(start, max_rows).collect()
            yield {column.name: column for column in frame.iter_columns()}

    def _read_with_pyarrow(self, max_rows: int | None, limits: ReadLimits) -> Iterator[_Columns]:
        tables: Iterable[pyarrow.Table | pyarrow.RecordBatch]
        if max_rows is None:
            tables = [self._fragment.to_table(use_threads=False)]
        else:
            # Whole batches of IPC files are validated: a slice counts its missing values again,
            # which would hide a wrong count of the batch. The batch is in memory in any case.
            tables = self._fragment.to_batches(
                batch_size=_MAX_BATCH_ROWS if self._format == "ipc" else max_rows,
                batch_readahead=0,
                use_threads=False,
            )
        for table in tables:
            # Without validation, offsets of damaged text could point anywhere in memory.
            table.validate(full=True)
            for start in range(0, table.num_rows, max_rows or max(1, table.num_rows)):
                rows = table.slice(start, max_rows)
                columns = dict(zip(rows.schema.names, rows.columns, strict=True))
                yield {
                    name: self._decode_text(name, column, limits)
                    for name, column in columns.items()
                }

    def _decode_text(
        self, name: str, column: pyarrow.Array | pyarrow.ChunkedArray, limits: ReadLimits
    ) -> pyarrow.Array | pyarrow.ChunkedArray:
        """Return a column, with text that was read as a dictionary as plain text.

        Raise DataFileError if text would take too much memory.
        """
        types = self._library.types
        if not types.is_dictionary(column.type):
            return column
        chunks = column.chunks if isinstance(column, self._library.ChunkedArray) else [column]
        value_type = column.type.value_type
        is_text = types.is_string(value_type) or types.is_large_string(value_type)
        if is_text or types.is_binary(value_type):
            compute = importlib.import_module("pyarrow.compute")
            n_bytes = sum(
                compute.sum(compute.binary_length(chunk.dictionary).take(chunk.indices)).as_py()
                or 0
                for chunk in chunks
            )
            limits.check_memory(self._path, f"the text of column {name!r}", n_bytes)
        return column.cast(self._library.large_string()) if name in self._text_names else column

    @contextmanager
    def _convert_library_errors(self) -> Iterator[None]:
        classes: tuple[type[BaseException], ...]
        if self._uses_polars:
            # Damaged pages cause a panic, which does not derive from Exception.
            exceptions = self._library.exceptions
            classes = (exceptions.PolarsError, exceptions.PanicException)
        else:
            classes = (self._library.ArrowException, RuntimeError)
        try:
            yield
        except DataFileError:
            raise
        except MemoryError as error:
            raise DataFileError(
                f"{self._path} takes more memory than there is; if it is no larger than others, it "
                "is damaged: copy or download it again."
            ) from error
        except (*classes, OSError, ValueError) as error:
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise DataFileError(
                f"{self._path} is damaged or not {_FORMAT_NAMES[self._format]} file ({reason}); "
                "copy or download it again."
            ) from error


def _read_column(path: Path, name: str, column: object) -> PlainColumn:
    try:
        plain = plain_column(name, column)
    except InputError as error:
        raise DataFileError(f"{path}: {error}") from error
    if plain.is_category and any(isinstance(value, bytes) for value in plain.values):
        raise DataFileError(f"{path}: column {name!r} holds bytes; drop the column or convert it.")
    return plain
