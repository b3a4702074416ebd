"""Readers of delimited text: CSV, TSV and the .data files of older collections."""

from __future__ import annotations

import csv
import importlib.util
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gramless.base.errors import DataFileError, InputError, MissingDependencyError
from gramless.base.types import AnyArray, IntArray
from gramless.datasets.files import (
    HEAD_BYTES,
    cut_lines,
    iter_lines,
    iter_text_blocks,
    plain_path,
    shorten,
)
from gramless.datasets.limits import ReadLimits
from gramless.datasets.pieces import Pieces
from gramless.datasets.table import Table
from gramless.portable import MISSING_WORDS

if TYPE_CHECKING:
    from _csv import Reader

    import polars as pl

# Stray cells are neither numbers nor missing. A column with a larger share of them is text; fewer
# are typing errors.
STRAY_SHARE = 0.01

_SAMPLE_ROWS = 200  # first rows that determine the layout and the types of columns
_SAMPLE_CELL_BYTES = 200  # memory per cell of the first rows, held as text and as columns
_STR_BYTES = 49  # size of an empty str; ASCII characters add one byte each
_MAX_POLARS_COLUMNS = 4096  # polars needs a kilobyte for each column of each block
# The comma comes late, because a file with semicolons may have decimal commas in every row.
_DELIMITERS = ("\t", ";", "|", ",", " ")
_SEPARATOR_LINE = re.compile(r'"?sep=([^"\r\n])"?\s*')  # first line of files from Excel
_PANDAS_INDEX_NAME = "Unnamed: 0"  # pandas' name of a first column without a name


def read_csv(
    path: str | Path,
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    categorical: Sequence[str] = (),
    limits: ReadLimits | None = None,
) -> Table:
    r"""Read delimited text, plain or compressed.

    Text is UTF-8, UTF-16 or else Windows-1252. ``DataFileError`` is raised if only some lines are
    UTF-8.

    Parameters
    ----------
    path : str or Path
        ``.gz``, ``.bz2`` and ``.xz`` are decompressed while reading.
    delimiter : str, default=None
        One character; ``" "`` stands for any run of blanks and tabs. By default it is detected from
        the first lines. The very first line may be ``sep=;``.
    header : bool, default=None
        Whether the first row holds the names. By default it does if none of its cells is a number
        and the rows below look different. Without a header, the names are x1, x2, ...
    categorical : sequence of str, default=()
        Names of columns that are categories even if they look like numbers.
    limits : ReadLimits, default=None
        Limits on memory and size; by default ``ReadLimits()``.

    Returns
    -------
    Table
        Numeric columns are float64. Empty cells, pandas' words for missing values (``NA``, ``n/a``,
        ``None``, ``null``, ``#N/A``, ``nan``, ...) and ``?`` are NaN. Other columns are object
        arrays of str: the cells without surrounding blanks, with ``""`` for empty cells. In text,
        words for missing values stay, such as the country ``NA``; a column of nothing else is text.

    Raises
    ------
    DataFileError
        If the file is invalid or exceeds the limits.
    InputError
        If a parameter is invalid, or a column in ``categorical`` is not in the file.
    MissingDependencyError
        If polars is not installed.

    Warns
    -----
    UserWarning
        If a first column without a name is left out because it numbers the rows from 0 or 1, as
        the index that pandas writes does; or if it is kept, but may be such an index of some rows.

    Notes
    -----
    Empty lines are skipped, as in pandas, unless the table has only one column: then they are empty
    cells. Columns without a name and without any value are left out.

    A million numbers take about 0.2 seconds, or 1.5 seconds if quotes do not enclose whole cells or
    if there are empty lines. Memory holds one block of text and the finished columns. The file is
    read a second time if a column that starts with numbers turns out to be text.
    ``DataFileError`` is raised for ragged rows, for unclosed quotes, and for a numeric column in
    which a few cells are not numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("kind,weight\ncat,4.5\ndog,NA\n")
    ...     read_csv(path).column("weight")
    array([4.5, nan])
    """
    where, limits = plain_path(path), limits or ReadLimits()
    rows = _detect_layout(where, delimiter, header, limits)
    columns = read_columns(rows, _find_columns(rows, categorical))
    _drop_columns_without_data(rows, columns)
    return Table(columns, source=str(where), declared=tuple(categorical))


def delimited_pieces(
    path: Path,
    delimiter: str | None,
    header: bool | None,
    categorical: Sequence[str],
    limits: ReadLimits,
) -> Pieces:
    """Open delimited text.

    At most 200 first rows determine which columns are text, in addition to ``categorical``. The
    parameters and errors are those of :func:`read_csv`. Reading the pieces raises DataFileError if
    later rows are invalid.
    """
    rows = _detect_layout(path, delimiter, header, limits)
    n_columns, start = len(rows.names), rows.head()
    text = _find_columns(rows, categorical)
    max_strays = STRAY_SHARE * len(start) / n_columns
    text |= {*np.flatnonzero(_parse_columns(start, n_columns, text).n_strays > max_strays)}
    columns = dict(zip(rows.names, _parse_columns(start, n_columns, text).columns, strict=True))
    empty = {name for name in rows.nameless if _is_empty(columns[name])}
    _drop_columns_without_data(rows, columns)
    head = Table(columns, source=str(path), declared=tuple(categorical))
    return Pieces(head, lambda: _iter_tables(rows, text, tuple(columns), empty - {*columns}))


def _find_columns(rows: DelimitedRows, categorical: Sequence[str]) -> set[int]:
    """Return the positions of columns; raise InputError if the file lacks one of them."""
    if absent := [name for name in categorical if name not in rows.names]:
        names = ", ".join(rows.names[:20])
        raise InputError(
            f"{rows.path} has no column {absent[0]!r} to take as text; it has {names}."
        )
    return {rows.names.index(name) for name in categorical}


# Rows.


@dataclass(frozen=True)
class DelimitedRows:
    """The data rows of a delimited text file, which is read again in every pass.

    polars parses blocks in which every line is a complete row and quotes enclose whole cells. The
    csv module parses other blocks, because it allows more and locates errors.

    ``skip_lines`` lines precede the data. Lines that start with ``comment``, after any blanks, are
    not rows. ``nameless`` has those of the ``names`` that are not in the file.
    """

    path: Path
    limits: ReadLimits
    names: tuple[str, ...]
    delimiter: str = ","
    quotechar: str = '"'
    skip_lines: int = 0
    comment: str | None = None
    nameless: Collection[str] = ()

    def blocks(self) -> Iterator[pl.Series]:
        """Yield the cells of blocks of rows as text, in column-major order."""
        import polars as pl

        rest, n_lines, skip = "", self.skip_lines, self.skip_lines
        # The empty block at the end handles a row that the file leaves unfinished.
        for block in chain(iter_text_blocks(self.path, self.limits), [""]):
            while skip and block:
                block, skip = block.partition("\n")[2], skip - 1
            text = rest + block
            cells = self._parse_with_polars(text)
            if cells is None:
                rows, n_read = self._parse_with_csv(text, n_lines, is_last=not block)
                cells = pl.Series([*chain.from_iterable(zip(*rows, strict=True))], dtype=pl.String)
                rest = text.split("\n", n_read)[n_read]
                self.limits.check_line(self.path, len(rest))
            else:
                n_read, rest = text.count("\n"), ""
            n_lines += n_read
            if len(cells):
                yield cells

    def head(self) -> pl.Series:
        """Return the cells of the first rows, independent of the block size."""
        import polars as pl

        first = replace(self, limits=replace(self.limits, block_bytes=HEAD_BYTES))
        for cells in first.blocks():
            n_columns = len(self.names)
            row = np.tile(np.arange(len(cells) // n_columns), n_columns)
            return cells.filter(pl.Series(row < _SAMPLE_ROWS))
        raise DataFileError(f"{self.path} has no data rows; copy or download it again.")

    def line_of(self, row: int) -> int:
        """Return the number of the line on which a data row ends; this reads the file again."""
        lines = islice(iter_lines(self.path, self.limits), self.skip_lines, None)
        reader = self._split(lines)
        next(islice(filter(self._is_row, reader), row, None), None)
        return self.skip_lines + reader.line_num

    def _parse_with_polars(self, text: str) -> pl.Series | None:
        """Return the cells as polars reads them, or None if the csv module may differ."""
        import polars as pl

        n_columns = len(self.names)
        # polars takes only delimiters of one byte, does not merge runs of blanks, and drops a byte
        # order mark.
        if (
            not 1 < n_columns <= _MAX_POLARS_COLUMNS
            or self.delimiter == " "
            or not self.delimiter.isascii()
            or text.startswith("\ufeff")
            or (self.comment is not None and self.comment in text)
        ):
            return None
        unquoted = self._quoted_cell.sub("", text) if self.quotechar in text else text
        n_delimiters = (n_columns - 1) * unquoted.count("\n")
        if self.quotechar in unquoted or unquoted.count(self.delimiter) != n_delimiters:
            return None
        # polars raises an error for rows with too many cells. The total number is right, so if
        # none has too many, none has too few.
        with suppress(pl.exceptions.PolarsError, pl.exceptions.PanicException):
            frame = pl.read_csv(
                text.encode(),
                has_header=False,
                separator=self.delimiter,
                quote_char=self.quotechar,
                schema=dict.fromkeys(self.names, pl.String),
                glob=False,
            )
            return pl.concat(frame.get_columns())
        return None

    @cached_property
    def _quoted_cell(self) -> re.Pattern[str]:
        quote, delimiter = re.escape(self.quotechar), re.escape(self.delimiter)
        inside = f"[^{quote}]*+(?:{quote}{quote}[^{quote}]*+)*+"
        return re.compile(f"(?<![^{delimiter}\n]){quote}{inside}{quote}(?![^{delimiter}\n])")

    def _parse_with_csv(
        self, text: str, n_before: int, is_last: bool
    ) -> tuple[list[list[str]], int]:
        """Return the complete rows of a text and their number of lines.

        Raises DataFileError for ragged rows and invalid quotes. A quote that is still open at the
        end is invalid only if ``is_last``, because the next block may close it.
        """
        reader = self._split(cut_lines(text))
        rows, n_read = [], 0
        try:
            for row in reader:
                if self._is_row(row):
                    rows.append(row or [""])
                    if len(rows[-1]) != len(self.names):
                        raise self._ragged_error(n_before + reader.line_num, len(row))
                n_read = reader.line_num
        except csv.Error as error:
            if is_last or "unexpected end" not in str(error):
                raise DataFileError(
                    f"{self.path}, line {n_before + n_read + 1}: {error}. A quote "
                    f"({self.quotechar}) is probably opened and never closed, or not doubled "
                    "inside quotes."
                ) from error
        return rows, n_read

    def _is_row(self, cells: Sequence[str]) -> bool:
        # An empty line is a row only if the table has one column.
        has_one_column = len(self.names) == 1 and self.comment is None
        return has_one_column or len(cells) > 1 or any(cell.strip() for cell in cells)

    def _ragged_error(self, line: int, n_cells: int) -> DataFileError:
        if line == self.skip_lines + 1 and n_cells == len(self.names) + 1:
            return DataFileError(
                f"{self.path}, line {line}: {n_cells} cells, but the header names "
                f"{len(self.names)} columns. If the first cell is the name of the row, as R's "
                "write.table writes it, name that column; if the rows end with a delimiter, "
                "remove it."
            )
        return DataFileError(
            f"{self.path}, line {line}: {n_cells} cells where the rows before have "
            f"{len(self.names)}. Correct the line; a cell that holds the delimiter "
            f"{self.delimiter!r} must be quoted."
        )

    def _split(self, lines: Iterable[str]) -> Reader:
        if self.comment is not None:
            # Comments become blank lines, so that line numbers stay right.
            mark = self.comment
            lines = ("\n" if line.lstrip().startswith(mark) else line for line in lines)
        return split_lines(lines, self.delimiter, self.quotechar)


def split_lines(lines: Iterable[str], delimiter: str, quotechar: str = '"') -> Reader:
    """Return a csv reader; the delimiter " " stands for any run of blanks and tabs."""
    if delimiter == " ":
        lines = (line.replace("\t", " ").strip() + "\n" for line in lines)
    return csv.reader(
        lines, delimiter=delimiter, quotechar=quotechar, skipinitialspace=True, strict=True
    )


# Columns.


class TypedColumns(NamedTuple):
    columns: list[AnyArray]  # float64, or objects for text
    # For each column, the number of cells that are neither numbers nor missing, and the number of
    # words for missing values. Both are 0 for text.
    n_strays: IntArray
    n_words: IntArray
    first_strays: dict[int, tuple[int, str]]  # row and text, by the position of the column


def _parse_columns(cells: pl.Series, n_columns: int, text: Collection[int] = ()) -> TypedColumns:
    """Convert the cells of some rows to columns: numbers, or text for the positions in ``text``."""
    import polars as pl

    n_rows = len(cells) // n_columns
    is_numeric = np.repeat([j not in text for j in range(n_columns)], n_rows)
    # All columns at once, because each call of polars costs as much as a thousand cells.
    numeric_cells = cells.filter(pl.Series(is_numeric)) if text else cells
    numbers = numeric_cells.cast(pl.Float64, strict=False)
    values = numbers.to_numpy(writable=True)
    is_stray, is_word = np.zeros((2, n_columns, n_rows), bool)
    if numbers.null_count():
        is_null = numbers.is_null()
        # Blanks around numbers are valid but rare, so only the remaining cells are stripped.
        rest = _strip(numeric_cells.filter(is_null))
        numbers = rest.cast(pl.Float64, strict=False)
        is_missing = rest.is_in(list(MISSING_WORDS))
        positions = np.flatnonzero(is_null.to_numpy())
        values[positions] = numbers.to_numpy()
        positions = np.flatnonzero(is_numeric)[positions]
        is_stray.flat[positions] = (numbers.is_null() & ~is_missing).to_numpy()
        is_word.flat[positions] = (numbers.is_null() & is_missing & (rest != "")).to_numpy()
    numeric = iter(values.reshape(-1, n_rows))
    columns = [
        to_text(cells.slice(j * n_rows, n_rows)) if j in text else next(numeric)
        for j in range(n_columns)
    ]
    n_strays, rows = is_stray.sum(axis=1), is_stray.argmax(axis=1)
    first = {j: int(rows[j]) for j in np.flatnonzero(n_strays).tolist()}
    first_strays = {j: (row, cells[j * n_rows + row]) for j, row in first.items()}
    return TypedColumns(columns, n_strays, is_word.sum(axis=1), first_strays)


def to_text(cells: pl.Series) -> AnyArray:
    """Return cells as an object array of stripped str, with ``""`` for empty ones."""
    return np.array([*_strip(cells), None], dtype=object)[:-1]


def _strip(cells: pl.Series) -> pl.Series:
    return cells.fill_null("").str.strip_chars()


def read_columns(
    rows: DelimitedRows, text: Collection[int] = (), stray_share: float = STRAY_SHARE
) -> dict[str, AnyArray]:
    """Read all columns as float64 or object arrays.

    A column is text if more than ``stray_share`` of its cells are neither numbers nor missing, or
    if it holds words for missing values and no number. ``DataFileError`` is raised for fewer stray
    cells.
    """
    n_columns, head = len(rows.names), rows.head()
    stray_shares = _parse_columns(head, n_columns, text).n_strays * n_columns / len(head)
    # Columns that start with words are text from the beginning, which saves a second reading.
    text = {*text, *np.flatnonzero(stray_shares > max(0.5, stray_share))}
    while True:
        parts: list[list[AnyArray]] = [[] for _ in rows.names]
        n_strays, n_words = np.zeros((2, n_columns), np.int64)
        first_strays: dict[int, tuple[int, str]] = {}
        n_rows = n_bytes = 0
        for cells in rows.blocks():
            typed = _parse_columns(cells, n_columns, text)
            for pieces, column in zip(parts, typed.columns, strict=True):
                pieces.append(column)
                n_bytes += column.nbytes
                if column.dtype.kind != "f":
                    n_bytes += _STR_BYTES * len(column) + len("".join(column))
            for j, (row, cell) in typed.first_strays.items():
                first_strays.setdefault(j, (n_rows + row, cell))
            n_strays += typed.n_strays
            n_words += typed.n_words
            n_rows += len(cells) // n_columns
            # Twice, for the parts and their concatenation.
            what = f"a table of the first {n_rows:,} rows"
            rows.limits.check_memory(rows.path, what, 2 * n_bytes)
        columns = [pieces[0] if len(pieces) == 1 else np.concatenate(pieces) for pieces in parts]
        is_text = (n_strays > stray_share * n_rows) | (n_words > 0) & [*map(_is_empty, columns)]
        if is_text.any():
            # Cells of these columns were read as NaN, so the file is read again.
            text |= {*np.flatnonzero(is_text)}
            del parts, columns
        elif first_strays:
            # A typing error must not turn a column of numbers into categories.
            j = min(first_strays, key=first_strays.__getitem__)
            remedy = f", or list the column in categorical=[{rows.names[j]!r}]"
            explanation = (
                f"as all but {n_strays[j]} of the {n_rows:,} cells of this column are. Correct "
                f"them{remedy if stray_share < 1 else ''}."
            )
            raise _stray_error(rows, *first_strays[j], j, explanation)
        else:
            return dict(zip(rows.names, columns, strict=True))


def _stray_error(
    rows: DelimitedRows, row: int, cell: str, j: int, explanation: str
) -> DataFileError:
    return DataFileError(
        f"{rows.path}, line {rows.line_of(row)}, column {rows.names[j]!r}: {shorten(cell)} is "
        f"not a number, {explanation}"
    )


def _drop_columns_without_data(rows: DelimitedRows, columns: dict[str, AnyArray]) -> None:
    """Drop empty columns without a name, and a first column that is the index of the rows."""
    for name in rows.names:
        if len(columns) > 1 and name in rows.nameless and _is_empty(columns[name]):
            del columns[name]
    first = rows.names[0]
    if len(columns) == 1 or first not in rows.nameless or first not in columns:
        return
    index = columns[first]
    # A single number shows nothing.
    if index.dtype.kind != "f" or len(index) < 2 or index.min() < 0:
        return
    if not (index == np.floor(index)).all() or len(np.unique(index)) < len(index):
        return
    # The stack level of both warnings is that of the caller of read_table.
    # Distinct whole numbers: 0, 1, 2, ... or 1, 2, 3, ... in any order, or some rows of these.
    if index.min() in (0, 1) and np.ptp(index) == len(index) - 1:
        del columns[first]
        warnings.warn(
            f"{rows.path}: the first column has no name and counts the rows, so it is left out. "
            "If it is an input, name it.",
            stacklevel=4,
        )
    else:
        warnings.warn(
            f"{rows.path}: the first column has no name and a different whole number in each row, "
            f"as the index of some rows of a data frame has; it is read as {first!r}. If it is no "
            "input, drop it; if it is one, name it.",
            stacklevel=4,
        )


def _is_empty(column: AnyArray) -> bool:
    return column.dtype.kind == "f" and bool(np.isnan(column).all())


# Pieces.


def _iter_tables(
    rows: DelimitedRows, text: Collection[int], used: Sequence[str], empty: Collection[str]
) -> Iterator[Table]:
    """Yield blocks of rows as tables of the columns ``used``; those in ``empty`` stay empty."""
    n_rows = 0
    for cells in rows.blocks():
        typed = _parse_columns(cells, len(rows.names), text)
        for j, (row, cell) in typed.first_strays.items():
            explanation = (
                "as the first rows of this column are. Correct it, or encode the column as numbers."
            )
            raise _stray_error(rows, n_rows + row, cell, j, explanation)
        columns = dict(zip(rows.names, typed.columns, strict=True))
        for name in empty:
            if not _is_empty(columns[name]):
                row = int(np.flatnonzero(~np.isnan(columns[name]))[0])
                place = "the last column" if name == rows.names[-1] else f"column {name!r}"
                raise DataFileError(
                    f"{rows.path}, line {rows.line_of(n_rows + row)}: a value in {place}, which "
                    "has no name and is empty in the first rows. Name the column, or drop it."
                )
        yield Table({name: columns[name] for name in used}, source=str(rows.path))
        n_rows += len(cells) // len(rows.names)


# Layout.


def _detect_layout(
    path: Path, delimiter: str | None, header: bool | None, limits: ReadLimits
) -> DelimitedRows:
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise InputError(f"delimiter must be one character, no quote, got {delimiter!r}.")
    require_polars(path)
    lines = _sample_lines(path, limits)
    skip = 0
    if lines and (separator := _SEPARATOR_LINE.fullmatch(lines[0])):
        delimiter, skip = delimiter or separator[1], 1
    delimiter = delimiter or _find_delimiter(lines[skip:])
    sample = _sample_rows(lines[skip:], delimiter)
    if not sample:
        what = "holds no table of delimited text" if any(map(str.strip, lines)) else "has no rows"
        raise DataFileError(f"{path} {what}; copy or download it again.")
    cells = [row for _, row in sample]
    if not (_has_header(cells) if header is None else header):
        names = tuple(f"x{j + 1}" for j in range(len(cells[0])))
        # Rows that end with a delimiter have an empty last column, which is left out.
        return DelimitedRows(path, limits, names, delimiter, skip_lines=skip, nameless={names[-1]})
    names = _unique_names(path, cells[0])
    nameless = {name for name, cell in zip(names, cells[0], strict=True) if not cell.strip()}
    if names[0] == _PANDAS_INDEX_NAME:
        nameless.add(names[0])
    skip += sample[0][0]
    return DelimitedRows(path, limits, names, delimiter, skip_lines=skip, nameless=nameless)


def require_polars(path: Path) -> None:
    if importlib.util.find_spec("polars") is None:
        raise MissingDependencyError(f'Reading {path} needs polars: pip install "gramless[cli]".')


def _sample_lines(path: Path, limits: ReadLimits) -> list[str]:
    """Return the first lines: at most 200, and about 64 KiB.

    At least 10 lines are returned even if they are longer, or at least 2 if they exceed 16 MiB.
    """
    lines: list[str] = []
    size = n_cells = 0
    for line in iter_lines(path, replace(limits, block_bytes=HEAD_BYTES)):
        lines.append(line)
        size += len(line)
        n_cells += 1 + max(map(line.count, _DELIMITERS))
        what = f"a table whose first {len(lines)} rows have {n_cells:,} cells"
        limits.check_memory(path, what, _SAMPLE_CELL_BYTES * n_cells)
        min_lines = 2 if size >= 1 << 24 else 10
        if len(lines) >= _SAMPLE_ROWS or (len(lines) >= min_lines and size >= HEAD_BYTES):
            break
    return lines


def _sample_rows(lines: Sequence[str], delimiter: str) -> list[tuple[int, list[str]]]:
    """Return the rows that are not empty, with the number of the line on which each ends."""
    reader = split_lines(lines, delimiter)
    rows: list[tuple[int, list[str]]] = []
    # Errors are ignored in the sample, because reading the file raises them with their line.
    with suppress(csv.Error):
        for row in reader:
            if any(cell.strip() for cell in row) or len(row) > 1:
                rows.append((reader.line_num, row))
    return rows


def _find_delimiter(lines: Sequence[str]) -> str:
    best, best_share = ",", 0.5
    for delimiter in _DELIMITERS:
        lengths = Counter(len(row) for _, row in _sample_rows(lines, delimiter))
        width, count = max(lengths.items(), key=lambda item: item[1], default=(0, 0))
        share = count / max(1, lengths.total())
        if width > 1 and share > best_share:
            best, best_share = delimiter, share
    return best


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    import polars as pl

    first = [cell.strip() for cell in rows[0]]
    is_word = _parse_columns(pl.Series(first), len(first)).n_strays
    if not any(first) or any(cell and not word for cell, word in zip(first, is_word, strict=True)):
        return False
    below = [row for row in rows[1:] if len(row) == len(first)]
    if not below:
        return True
    columns = list(zip(*below, strict=True))
    typed = _parse_columns(pl.Series([*chain.from_iterable(columns)]), len(columns))
    if any(
        not n_strays and not _is_empty(column)
        for n_strays, column in zip(typed.n_strays, typed.columns, strict=True)
    ):
        return True
    # Without numbers below, the first row is a header if its words differ and no cell repeats them.
    is_distinct = all(name not in column for name, column in zip(first, columns, strict=True))
    return is_distinct and len(set(first)) == len(first)


def _unique_names(path: Path, row: Sequence[str]) -> tuple[str, ...]:
    names = [cell.strip() for cell in row]
    repeated = [name for name, count in Counter(filter(None, names)).items() if count > 1]
    if repeated:
        raise DataFileError(
            f"{path}: the header names column {repeated[0]!r} more than once; rename one, or "
            "say header=False if the first row is data."
        )
    used = set(names)
    for j, name in enumerate(names):
        if not name:
            names[j] = f"x{j + 1}"
            while names[j] in used:
                names[j] += "_"
            used.add(names[j])
    return tuple(names)
