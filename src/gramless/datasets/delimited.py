"""Delimited text: CSV, TSV and the .data files of older collections."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gramless.base.errors import DataFileError, InputError
from gramless.base.notation import MISSING_WORDS
from gramless.base.types import AnyArray, FloatArray
from gramless.datasets.files import (
    HEAD_BYTES,
    blocks_of_lines,
    decoded,
    lines_of,
    next_line,
    open_text,
    plain_path,
    shortened,
    undecodable,
)
from gramless.datasets.limits import ReadLimits
from gramless.datasets.pieces import Pieces
from gramless.datasets.table import Table

if TYPE_CHECKING:
    from _csv import Reader

STRAY_SHARE = 0.01
"""Share of cells that are no numbers above which a column is text; fewer are typing errors."""

_SAMPLE_ROWS, _MOST_PLAIN_COLUMNS = 200, 4096
_SAMPLE_CELL_BYTES = 200
"""Memory of a cell of the first rows, which are held both as text and as columns."""
_TEXT_BYTES = 57
"""Memory of a cell of text and of the pointer to it, without its characters."""
# The comma comes late: a file cut by semicolons may hold decimal commas in every row.
_DELIMITERS = ("\t", ";", "|", ",", " ")

Column: TypeAlias = AnyArray | Sequence[str]
"""Numbers as float64, text as an object array, or cells not yet classified."""


def read_csv(
    path: str | Path,
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    categorical: Sequence[str] = (),
    limits: ReadLimits | None = None,
) -> Table:
    r"""Read delimited text, plain or compressed.

    Parameters
    ----------
    path : str or Path
        ``.gz``, ``.bz2`` and ``.xz`` are decompressed while reading.
    delimiter : str, default=None
        One character; ``" "`` is any run of blanks and tabs. By default found from the first lines.
    header : bool, default=None
        Whether the first row holds the names. By default it does if no cell of it is a number and
        the rows below look different. Without a header the names are x1, x2, ...
    categorical : sequence of str, default=()
        Names of columns to keep as text though they look like numbers, and to take as categories.
    limits : ReadLimits, default=None
        What reading may take; by default ``ReadLimits()``.

    Returns
    -------
    Table
        Numeric columns as float64, ``"", ?, NA, N/A, nan, null`` as NaN; other columns as object
        arrays of str, the same cells as ``""``. A last column without a name and without any value
        is left out.

    Notes
    -----
    Where polars is installed, it parses blocks without quotes: a million cells take about 0.2
    seconds, without it or with quotes 1.5. Holds one block of text and the finished columns; a
    column that turns out to be text after numbers alone costs a second reading. A few cells that
    are not numbers in a column of numbers are a fault, and so are ragged rows and unclosed quotes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("kind,weight\ncat,4.5\ndog,NA\n")
    ...     read_csv(path).column("weight")
    array([4.5, nan])
    """
    _check_delimiter(delimiter)
    where, limits = plain_path(path), limits or ReadLimits()

    def read(encoding: str) -> Table:
        rows, unnamed_end, _ = _layout(where, encoding, delimiter, header, limits)
        names = rows.names
        if absent := [name for name in categorical if name not in names]:
            raise InputError(f"{where} has no column {absent[0]!r} to take as categorical.")
        columns = read_columns(rows, {names.index(name) for name in categorical})
        if len(names) > 1 and unnamed_end and _is_empty(columns[names[-1]]):
            del columns[names[-1]]
        return Table(columns, source=str(where), declared=tuple(categorical))

    return decoded(where, read)


def delimited_pieces(
    path: Path, delimiter: str | None, header: bool | None, limits: ReadLimits
) -> Pieces:
    """Open delimited text; its first 200 lines say which columns are text."""
    _check_delimiter(delimiter)
    rows, unnamed_end, sample = decoded(
        path, lambda encoding: _layout(path, encoding, delimiter, header, limits)
    )
    names = rows.names
    complete = [row for row in sample if len(row) == len(names)]
    if not complete:
        # What the rows lack is a fault with a line, if there are any.
        next(rows.blocks(), None)
        raise _no_data(path)
    columns: dict[str, AnyArray] = {}
    text: set[int] = set()
    for j, (name, cells) in enumerate(zip(names, zip(*complete, strict=True), strict=True)):
        numbers = [cell if is_number(cell) else None for cell in cells]
        if numbers.count(None) > STRAY_SHARE * len(cells):
            text.add(j)
            columns[name] = to_text(cells)
        else:
            columns[name] = np.asarray(to_numbers([cell or "" for cell in numbers]))
    if len(names) > 1 and unnamed_end and _is_empty(columns[names[-1]]):
        del columns[names[-1]]
    n_used = len(columns)
    return Pieces(Table(columns, source=str(path)), lambda: _typed_blocks(rows, text, n_used))


# Rows.


@dataclass(frozen=True)
class DelimitedRows:
    """The data rows of a delimited text file, read anew in every pass.

    polars parses blocks in which every line is a complete row without quotes whose numbers it
    understands; the csv module parses the others and locates faults.
    """

    path: Path
    encoding: str
    limits: ReadLimits
    names: tuple[str, ...]
    delimiter: str = ","
    quotechar: str = '"'
    skip_lines: int = 0
    skip_rows: int = 0
    comment: str | None = None

    def blocks(self, text: Collection[int] = ()) -> Iterator[list[Column]]:
        """Yield the columns of some rows at a time; those in ``text`` are known to be text.

        From its first block with a cell that is no number on, a column is yielded as raw cells.
        """
        doubtful = set(text)
        done = 0
        with open_text(self.path, self.encoding, self.limits) as file:
            n_lines = self.skip_lines + self._rows_of(file).line_num
            for block in blocks_of_lines(file, self.path, self.limits, "\n\r"):
                columns = self._plain_columns(block, doubtful)
                if columns is None:
                    rows, n_read = self._parsed(block, file, n_lines)
                    columns = list(zip(*self._complete(rows, done), strict=True))
                else:
                    n_read = block.count("\n")
                n_lines += n_read
                for j, cells in enumerate(columns):
                    if j in text:
                        columns[j] = to_text(cells)
                    elif j not in doubtful and not isinstance(cells, np.ndarray):
                        numbers = to_numbers(cells)
                        columns[j] = cells if numbers is None else numbers
                        if numbers is None:
                            doubtful.add(j)
                if columns:
                    done += len(columns[0])
                    yield columns

    def line_of(self, row: int) -> int:
        """Return the line in the file on which data row ``row`` ends, by reading again."""
        with open_text(self.path, self.encoding, self.limits) as file:
            reader = self._rows_of(file)
            next(islice(filter(_is_filled, reader), row, None), None)
            return self.skip_lines + reader.line_num

    def _rows_of(self, file: io.TextIOWrapper) -> Reader:
        """Return a reader of the lines of a file, behind those that hold no data."""
        for _ in range(self.skip_lines):
            next_line(file, self.path, self.limits)
        reader = self._split(lines_of(file, self.path, self.limits))
        filled = filter(_is_filled, self._checked(reader, self.skip_lines))
        for _ in range(self.skip_rows):
            next(filled, None)
        return reader

    def _split(self, lines: Iterable[str]) -> Reader:
        if self.comment is not None:
            # A comment becomes a blank line, not nothing, so that line numbers stay true.
            mark = self.comment
            lines = ("\n" if line.lstrip().startswith(mark) else line for line in lines)
        return split_lines(lines, self.delimiter, self.quotechar)

    def _plain_columns(self, block: str, doubtful: Collection[int]) -> list[Column] | None:
        """Parse a block by polars; None if it holds anything else than plain lines of cells."""
        n_columns, n_lines = len(self.names), block.count("\n") + (not block.endswith("\n"))
        if (
            not 1 < n_columns <= _MOST_PLAIN_COLUMNS
            # A small file is read before polars is imported.
            or len(block) < self.limits.block_bytes // 4
            or self.delimiter == " "
            or not self.delimiter.isascii()
            or any(mark in block for mark in (self.quotechar, self.comment, "\ufeff") if mark)
            or block.count("\r") != block.count("\r\n")
            or block.count(self.delimiter) != (n_columns - 1) * n_lines
        ):
            return None
        try:
            import polars as pl
        except ImportError:
            return None
        kinds = [pl.String if j in doubtful else pl.Float64 for j in range(n_columns)]
        try:
            frame = pl.read_csv(
                block.encode(),
                has_header=False,
                separator=self.delimiter,
                quote_char=None,
                schema={str(j): kind for j, kind in enumerate(kinds)},
                null_values=list(MISSING_WORDS),
                glob=False,
            )
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return None
        return [
            np.array(column.to_numpy(), dtype=np.float64)
            if kind is pl.Float64
            else column.fill_null("").to_list()
            for column, kind in zip(frame.iter_columns(), kinds, strict=True)
        ]

    def _parsed(
        self, block: str, file: io.TextIOWrapper, n_before: int
    ) -> tuple[list[list[str]], int]:
        """Return the rows of a block, read to the end of its last row, and their lines' number."""
        lines = list(io.StringIO(block, newline=""))
        reader = self._split(chain(lines, self._rest_of_row(file)))
        rows: list[list[str]] = []
        for row in self._checked(reader, n_before):
            rows.append(row)
            if reader.line_num >= len(lines):
                break
        return rows, reader.line_num

    def _rest_of_row(self, file: io.TextIOWrapper) -> Iterator[str]:
        n_characters = 0
        for line in lines_of(file, self.path, self.limits):
            n_characters += len(line)
            self.limits.check_line(self.path, n_characters)
            yield line

    def _complete(self, rows: list[list[str]], done: int) -> list[list[str]]:
        """Return the rows but blank ones; refuse those with more or fewer cells than columns."""
        n_columns = len(self.names)
        if n_columns > 1 and all(len(row) == n_columns for row in rows):
            return rows
        filled = list(filter(_is_filled, rows))
        for offset, row in enumerate(filled):
            if len(row) != n_columns:
                raise DataFileError(
                    f"{self.path}, line {self.line_of(done + offset)}: {len(row)} cells where "
                    f"the rows before have {n_columns}. Correct the line; a cell that "
                    f"holds the delimiter {self.delimiter!r} must be quoted."
                )
        return filled

    def _checked(self, reader: Reader, n_before: int) -> Iterator[list[str]]:
        """Yield rows; what the csv module raises becomes DataFileError."""
        try:
            yield from reader
        except csv.Error as fault:
            raise DataFileError(
                f"{self.path}, line {n_before + reader.line_num}: {fault}. A quote "
                f"({self.quotechar}) is probably opened and never closed, or not doubled inside "
                "quotes."
            ) from fault


def split_lines(lines: Iterable[str], delimiter: str, quotechar: str = '"') -> Reader:
    """Return a csv reader that also takes runs of blanks as one delimiter."""
    if delimiter == " ":
        lines = (line.replace("\t", " ").strip() + "\n" for line in lines)
    return csv.reader(
        lines, delimiter=delimiter, quotechar=quotechar, skipinitialspace=True, strict=True
    )


def _is_filled(row: Sequence[str]) -> bool:
    return len(row) > 1 or (len(row) == 1 and bool(row[0].strip()))


# Cells.


def to_numbers(cells: Sequence[str]) -> FloatArray | None:
    """Return cells as numbers, missing ones as NaN, or None if any cell is neither."""
    # Python reads 1_000 as a number; in a data file it is a name.
    if "_" in "".join(cells):
        return None
    with suppress(ValueError):
        return np.fromiter(map(float, cells), np.float64, len(cells))
    with suppress(ValueError):
        filled = ("nan" if cell.strip() in MISSING_WORDS else cell for cell in cells)
        return np.fromiter(map(float, filled), np.float64, len(cells))
    return None


def is_number(cell: str) -> bool:
    """Tell whether a cell is a number or missing."""
    try:
        float(cell)
    except ValueError:
        return cell.strip() in MISSING_WORDS
    return "_" not in cell


def to_text(cells: Column) -> AnyArray:
    """Return cells as an object array of stripped str, missing ones as ``""``."""
    stripped = map(str.strip, cells)
    return np.array(["" if cell in MISSING_WORDS else cell for cell in stripped], dtype=object)


def _is_numeric(column: Column) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind == "f"


def _is_empty(column: AnyArray) -> bool:
    """Tell whether no cell has a number: a delimiter that ends every line is not a column."""
    return column.dtype.kind == "f" and bool(np.isnan(column).all())


def _n_bytes(column: Column) -> int:
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        return column.nbytes
    return _TEXT_BYTES * len(column) + len("".join(column))


# Whole columns.


def read_columns(
    rows: DelimitedRows, text: Collection[int] = (), stray_share: float = STRAY_SHARE
) -> dict[str, AnyArray]:
    """Read all columns as float64 or object arrays, in two passes if text follows numbers.

    A column is text if more than ``stray_share`` of its cells are neither numbers nor missing.
    Fewer are reported as faults: one typing error must not turn numbers into categories.
    """
    known = set(text)
    while True:
        columns = [list(parts) for parts in zip(*_held(rows, known), strict=True)]
        n_rows = sum(map(len, columns[0]))
        strays: list[tuple[int, str, int, int]] = []
        late = False
        for j, parts in enumerate(columns):
            raw = [part for part in parts if not _is_numeric(part)]
            if j in known or not raw:
                continue
            found = list(islice(_strays(parts), int(stray_share * n_rows) + 1))
            if len(found) > stray_share * n_rows:
                known.add(j)
                late |= len(raw) < len(parts)
                columns[j] = [to_text(part) for part in raw]
            elif found:
                strays.append((*found[0], j, len(found)))
        if strays:
            row, cell, j, count = min(strays)
            remedy = f", or list the column in categorical=[{rows.names[j]!r}]"
            what = f"as all but {count} of the {n_rows:,} cells of this column are. Correct them"
            raise _stray(rows, row, cell, j, f"{what}{remedy if stray_share < 1 else ''}.")
        if not late:
            whole = [np.asarray(p[0]) if len(p) == 1 else np.concatenate(p) for p in columns]
            return dict(zip(rows.names, whole, strict=True))
        del columns


def _held(rows: DelimitedRows, text: Collection[int]) -> list[list[Column]]:
    pieces: list[list[Column]] = []
    done = n_bytes = 0
    for columns in rows.blocks(text):
        pieces.append(columns)
        done += len(columns[0])
        n_bytes += sum(map(_n_bytes, columns))
        # The pieces, and the columns that are put together from them.
        rows.limits.check_memory(rows.path, f"a table of the first {done:,} rows", 2 * n_bytes)
    if not pieces:
        raise _no_data(rows.path)
    return pieces


def _strays(parts: Iterable[Column]) -> Iterator[tuple[int, str]]:
    """Yield the cells of a column that are no numbers, and their rows."""
    row = 0
    for part in parts:
        if not _is_numeric(part):
            yield from ((k, cell) for k, cell in enumerate(part, row) if not is_number(cell))
        row += len(part)


def _stray(rows: DelimitedRows, row: int, cell: str, j: int, remedy: str) -> DataFileError:
    return DataFileError(
        f"{rows.path}, line {rows.line_of(row)}, column {rows.names[j]!r}: {shortened(cell)} is "
        f"not a number, {remedy}"
    )


def _no_data(path: Path) -> DataFileError:
    return DataFileError(f"{path} has no data rows; copy or download it again.")


# Chunks.


def _typed_blocks(rows: DelimitedRows, text: Collection[int], n_used: int) -> Iterator[Table]:
    """Yield the rows; from the block on whose bytes are not UTF-8, as Latin-1."""
    done = 0
    while True:
        rest = replace(rows, skip_rows=rows.skip_rows + done)
        try:
            for columns in rest.blocks(text):
                _check_kinds(rows, columns, text, n_used, done)
                named = zip(rows.names, columns[:n_used], strict=False)
                yield Table({name: np.asarray(c) for name, c in named}, source=str(rows.path))
                done += len(columns[0])
            return
        except UnicodeDecodeError as fault:
            if rows.encoding != "utf-8-sig":
                raise undecodable(rows.path, fault) from fault
            rows = replace(rows, encoding="latin-1")


def _check_kinds(
    rows: DelimitedRows, columns: list[Column], text: Collection[int], n_used: int, done: int
) -> None:
    """Refuse text in columns of numbers, and anything in a last column that is not used."""
    for j, cells in enumerate(columns):
        if j not in text and not _is_numeric(cells):
            k = next(k for k, cell in enumerate(cells) if not is_number(cell))
            remedy = "as the first rows of this column are. Correct it, or encode the column as "
            raise _stray(rows, done + k, cells[k], j, remedy + "numbers.")
    for cells in columns[n_used:]:
        given = np.flatnonzero(~np.isnan(np.asarray(cells)))
        if len(given):
            raise DataFileError(
                f"{rows.path}, line {rows.line_of(done + int(given[0]))}: a value in the last "
                "column, which has no name and is empty in the first rows. Name the column, or "
                "drop it."
            )


# Layout.


def _check_delimiter(delimiter: str | None) -> None:
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise InputError(f"delimiter must be one character, no quote, got {delimiter!r}.")


def _layout(
    path: Path, encoding: str, delimiter: str | None, header: bool | None, limits: ReadLimits
) -> tuple[DelimitedRows, bool, list[list[str]]]:
    """Return how to cut the text, whether the last column has no name, and its first rows."""
    lines = _sample_lines(path, encoding, limits)
    delimiter = delimiter or _find_delimiter(lines)
    sample = _sample_rows(lines, delimiter)
    if not sample:
        raise DataFileError(f"{path} has no rows; copy or download it again.")
    named = _has_header(sample) if header is None else header
    names = _names(path, sample[0]) if named else [f"x{j + 1}" for j in range(len(sample[0]))]
    rows = DelimitedRows(path, encoding, limits, tuple(names), delimiter, skip_rows=int(named))
    return rows, not named or not sample[0][-1].strip(), sample[int(named) :]


def _sample_lines(path: Path, encoding: str, limits: ReadLimits) -> list[str]:
    """Return the first lines, a few even where each is very long."""
    lines: list[str] = []
    size = n_cells = 0
    with open_text(path, encoding, limits) as text:
        for line in lines_of(text, path, limits):
            lines.append(line)
            size += len(line)
            n_cells += 1 + max(map(line.count, _DELIMITERS))
            what = f"a table whose first {len(lines)} rows have {n_cells:,} cells"
            limits.check_memory(path, what, _SAMPLE_CELL_BYTES * n_cells)
            few = 2 if size >= 1 << 24 else 10
            if len(lines) >= _SAMPLE_ROWS or (len(lines) >= few and size >= HEAD_BYTES):
                break
    return lines


def _sample_rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    # Only a sample: the reading proper meets the fault again and names its line.
    with suppress(csv.Error):
        for row in filter(_is_filled, split_lines(lines, delimiter)):
            rows.append(row)
    return rows


def _find_delimiter(lines: Sequence[str]) -> str:
    best, best_share = ",", 0.5
    for delimiter in _DELIMITERS:
        lengths = Counter(len(row) for row in _sample_rows(lines, delimiter))
        width, count = max(lengths.items(), key=lambda item: item[1], default=(0, 0))
        share = count / max(1, lengths.total())
        if width > 1 and share > best_share:
            best, best_share = delimiter, share
    return best


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    first = [cell.strip() for cell in rows[0]]
    if not any(first) or any(cell and is_number(cell) for cell in first):
        return False
    below = [row for row in rows[1:] if len(row) == len(first)]
    if not below:
        return True
    columns = list(zip(*below, strict=True))
    if any(to_numbers(column) is not None and set(column) - MISSING_WORDS for column in columns):
        return True
    unlike = all(name not in column for name, column in zip(first, columns, strict=True))
    return unlike and len(set(first)) == len(first)


def _names(path: Path, row: Sequence[str]) -> list[str]:
    names = [cell.strip() or f"x{j + 1}" for j, cell in enumerate(row)]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataFileError(
            f"{path}: the header names column {repeated[0]!r} more than once; rename one, or "
            "say header=False if the first row is data."
        )
    return names
