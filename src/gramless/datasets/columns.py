"""Rows of text cells into columns of numbers or of text, a chunk at a time."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import DataFileError
from gramless.datasets.files import open_text
from gramless.datasets.limits import ReadLimits

CHUNK_ROWS = 20_000

# Cells are parsed as Python text, some 60 bytes each.
CHUNK_CELLS = 1 << 20
CHUNK_CHARACTERS = 1 << 24
_BATCH_CHARACTERS = 1 << 15
_PULLS_A_BATCH = 8

_TEXT_BYTES = 57
"""Of a cell of text and the pointer to it, besides its characters."""

MISSING = frozenset({"", "?", "NA", "N/A", "nan", "NaN", "NAN", "null", "NULL"})


@dataclass(frozen=True)
class RowSource:
    """The data rows of a delimited text file, read anew at every pass."""

    path: Path
    encoding: str
    limits: ReadLimits
    delimiter: str = ","
    quotechar: str = '"'
    skip_lines: int = 0
    skip_rows: int = 0
    comment: str | None = None
    n_columns: int = 0

    def chunks(self, most: int | None = None) -> Iterator[list[list[str]]]:
        """Yield lists of at most ``most`` (CHUNK_ROWS) rows, fewer where they are long.

        There are no blank rows, and all have ``n_columns`` cells. A list may be empty.
        """
        done = 0
        size = min(CHUNK_ROWS if most is None else most, CHUNK_CELLS // self.n_columns)
        with open_text(self.path, self.encoding, self.limits, newline="") as text:
            lines = _Batches(self, text)
            reader = self._reader(lines)
            try:
                while chunk := lines.pull(reader, max(1, size)):
                    if self.n_columns == 1 or any(len(row) != self.n_columns for row in chunk):
                        chunk = [row for row in chunk if not _is_blank(row)]
                        self._check_lengths(chunk, done)
                    done += len(chunk)
                    yield chunk
            except csv.Error as fault:
                line = self.skip_lines + reader.line_num
                raise DataFileError(
                    f"{self.path}, line {line}: {fault}. A quote ({self.quotechar}) is "
                    "probably opened and never closed, or not doubled inside quotes."
                ) from fault

    def line_of(self, row: int) -> int:
        """Return the line in the file on which data row ``row`` ends, by reading again."""
        with open_text(self.path, self.encoding, self.limits, newline="") as text:
            reader = self._reader(text)
            rows = (cells for cells in reader if not _is_blank(cells))
            next(islice(rows, row, None), None)
            return self.skip_lines + int(reader.line_num)

    def _reader(self, text: Iterable[str]) -> Any:
        lines = islice(text, self.skip_lines, None)
        reader = split_lines(self._prepared(lines), self.delimiter, self.quotechar)
        for _ in range(self.skip_rows):
            next((row for row in reader if not _is_blank(row)), None)
        return reader

    def _prepared(self, lines: Iterable[str]) -> Iterable[str]:
        if self.comment is None:
            return lines
        # A comment becomes a blank line, not nothing, so that line numbers stay true.
        return ("\n" if line.lstrip().startswith(self.comment) else line for line in lines)

    def _check_lengths(self, chunk: list[list[str]], done: int) -> None:
        for offset, row in enumerate(chunk):
            if len(row) != self.n_columns:
                raise DataFileError(
                    f"{self.path}, line {self.line_of(done + offset)}: {len(row)} cells where "
                    f"the rows before have {self.n_columns}. Correct the line; a cell that "
                    f"holds the delimiter {self.delimiter!r} must be quoted."
                )


class _Batches:
    """Lines of text, loaded some at a time, so that the rows made of them are known to be few."""

    def __init__(self, source: RowSource, text: IO[str]) -> None:
        self._source, self._text = source, text
        self._n_lines = self._n_characters = 0

    def __iter__(self) -> Iterator[str]:
        """Return the lines, at the speed of reading the text itself."""
        return chain.from_iterable(iter(self._load, []))

    def pull(self, reader: Any, most: int) -> list[list[str]]:
        """Return at most ``most`` rows of the csv reader of these lines."""
        rows: list[list[str]] = []
        n_characters = 0
        while len(rows) < most and n_characters < CHUNK_CHARACTERS:
            self._n_characters = 0
            # Rows may span lines: few are taken at once, so that all end within some batches.
            left = max(0, self._n_lines - self._source.skip_lines - reader.line_num)
            size = min(most - len(rows), 1 + left // _PULLS_A_BATCH)
            found = list(islice(reader, size))
            rows += found
            if len(found) < size:
                break
            n_characters += self._n_characters
        return rows

    def _load(self) -> list[str]:
        self._source.limits.check_line(self._source.path, self._n_characters)
        batch = self._text.readlines(_BATCH_CHARACTERS)
        self._n_lines += len(batch)
        self._n_characters += sum(map(len, batch))
        return batch


def split_lines(lines: Iterable[str], delimiter: str, quotechar: str = '"') -> Any:
    """Return a csv reader that also takes runs of blanks as one delimiter."""
    if delimiter == " ":
        lines = (line.replace("\t", " ").strip() + "\n" for line in lines)
    return csv.reader(
        lines, delimiter=delimiter, quotechar=quotechar, skipinitialspace=True, strict=True
    )


def _is_blank(row: Sequence[str]) -> bool:
    return not row or (len(row) == 1 and not row[0].strip())


def to_numbers(cells: Sequence[str]) -> NDArray[np.float64] | None:
    """Return cells as numbers, missing ones as NaN, or None if any is neither.

    Parameters
    ----------
    cells : sequence of str

    Returns
    -------
    ndarray of shape (n_cells,) or None

    Examples
    --------
    >>> to_numbers(["1", "?", " 2.5e1"])
    array([ 1., nan, 25.])
    >>> to_numbers(["1", "red"]) is None
    True
    """
    # Python reads 1_000 as a number; in a data file it is a name.
    if "_" in "".join(cells):
        return None
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        pass
    filled = ("nan" if cell.strip() in MISSING else cell for cell in cells)
    try:
        return np.fromiter(map(float, filled), np.float64, len(cells))
    except ValueError:
        return None


def is_number(cell: str) -> bool:
    """Tell whether one cell is a number or missing.

    Examples
    --------
    >>> is_number("2.5e1"), is_number("NA"), is_number("1_000")
    (True, True, False)
    """
    try:
        float(cell)
    except ValueError:
        return cell.strip() in MISSING
    return "_" not in cell


def to_text(cells: Sequence[str]) -> NDArray[Any]:
    """Return cells as an object array of stripped str, missing ones as ``""``."""
    stripped = map(str.strip, cells)
    return np.array(["" if cell in MISSING else cell for cell in stripped], dtype=object)


def _numbers_of(rows: Sequence[Sequence[str]], apart: Collection[int]) -> Any:
    """Return the cells of few rows column by column, NaN in those kept apart, if all are numbers.

    Columns of a few cells each cost far less together than one by one.
    """
    cells: Iterator[str] = chain.from_iterable(rows)
    if apart:
        cells = ("nan" if j in apart else cell for row in rows for j, cell in enumerate(row))
    numbers = to_numbers(list(cells))
    return None if numbers is None else numbers.reshape(len(rows), -1).T.copy()


@dataclass(frozen=True)
class _Piece:
    """The columns of some rows.

    Parameters
    ----------
    n_rows : int
    columns : dict of int to ndarray or sequence of str
        By position: numbers, text, or cells that are yet to be judged.
    numbers : ndarray of shape (n_columns, n_rows) or None
        The columns that are not in ``columns``.
    """

    n_rows: int
    columns: dict[int, Any]
    numbers: NDArray[np.float64] | None

    def __getitem__(self, j: int) -> Any:
        return self.columns[j] if self.numbers is None or j in self.columns else self.numbers[j]

    def is_number(self, j: int) -> bool:
        values = self[j]
        return isinstance(values, np.ndarray) and values.dtype.kind == "f"

    @property
    def n_bytes(self) -> int:
        """Return the memory that it takes."""
        total = 0 if self.numbers is None else self.numbers.nbytes
        for values in self.columns.values():
            if isinstance(values, np.ndarray) and values.dtype.kind == "f":
                total += values.nbytes
            else:
                total += _TEXT_BYTES * len(values) + len("".join(values))
        return total


@dataclass
class ColumnBuilder:
    """Collects the columns of a RowSource.

    A column is numeric if every cell is a number or missing. It is text if
    more than ``stray_share`` of its cells are neither; below that, the few
    strays are taken for faults and reported, because one typing error must not
    turn a million numbers into as many categories.

    Parameters
    ----------
    source : RowSource
    names : sequence of str
    text : set of int, default=set()
        Columns known to be text.
    stray_share : float, default=0.01
        1.0 makes every column outside ``text`` numeric or an error.
    """

    source: RowSource
    names: Sequence[str]
    text: set[int] = field(default_factory=set)
    stray_share: float = 0.01
    _strays: dict[int, tuple[int, int, str]] = field(default_factory=dict, init=False)
    _late: bool = field(default=False, init=False)
    _unsettled: set[int] = field(default_factory=set, init=False)

    def build(self) -> dict[str, NDArray[Any]]:
        """Read the file, once or, if a column shows late that it is text, twice.

        Returns
        -------
        dict of str to ndarray of shape (n_rows,)
            float64 or object arrays.

        Raises
        ------
        DataFileError
            On stray cells, ragged rows, bad quotes, no rows at all, or too many for the memory.
        """
        pieces = self._pass()
        if self._late:
            pieces = self._pass()
        if not pieces:
            raise DataFileError(f"{self.source.path} has no data rows; copy or download it again.")
        return {name: self._whole(pieces, j) for j, name in enumerate(self.names)}

    @staticmethod
    def _whole(pieces: Sequence[_Piece], j: int) -> NDArray[Any]:
        return pieces[0][j] if len(pieces) == 1 else np.concatenate([each[j] for each in pieces])

    def _pass(self) -> list[_Piece]:
        pieces: list[_Piece] = []
        first = begun = done = n_bytes = 0
        for chunk in filter(None, self.source.chunks()):
            pieces.append(self._piece(chunk))
            done += len(chunk)
            n_bytes += pieces[-1].n_bytes
            # The pieces, and the columns that are put together from them.
            what = f"a table of the first {done:,} rows"
            self.source.limits.check_memory(self.source.path, what, 2 * n_bytes)
            if done - begun >= CHUNK_ROWS:
                self._settle(pieces[first:], begun, done)
                first, begun = len(pieces), done
        self._settle(pieces[first:], begun, done)
        if self._strays:
            self._report(done)
        return pieces

    def _piece(self, rows: list[list[str]]) -> _Piece:
        """Return the columns of some rows; cells that may be text are kept to be judged later."""
        wide = len(rows) < len(self.names)
        if wide:
            self._unsettled |= {j for j, cell in enumerate(rows[0]) if not is_number(cell)}
            self._unsettled -= self.text
        apart = self.text | self._unsettled
        if wide and (numbers := _numbers_of(rows, apart)) is not None:
            columns: dict[int, Any] = {j: [row[j] for row in rows] for j in apart}
        else:
            columns, numbers = {}, None
            for j, cells in enumerate(zip(*rows, strict=True)):
                values = None if j in apart else to_numbers(cells)
                columns[j] = cells if values is None else values
                if values is None and j not in self.text:
                    self._unsettled.add(j)
        for j in self.text:
            columns[j] = to_text(columns[j])
        return _Piece(len(rows), columns, numbers)

    def _settle(self, pieces: Sequence[_Piece], begun: int, done: int) -> None:
        """Judge which of the columns whose cells were kept are text."""
        for j in self._unsettled:
            if is_text := self._count_strays(j, pieces, begun, self.stray_share * done):
                del self._strays[j]
                self.text.add(j)
                self._late |= begun > 0 or any(piece.is_number(j) for piece in pieces)
            for piece in pieces:
                if not piece.is_number(j):
                    cells = piece.columns[j]
                    piece.columns[j] = to_text(cells) if is_text else np.full(len(cells), np.nan)
        self._unsettled.clear()

    def _count_strays(self, j: int, pieces: Sequence[_Piece], row: int, allowed: float) -> bool:
        """Count the cells of a column that are no numbers; return whether they are too many."""
        for piece in pieces:
            for offset, cell in enumerate(() if piece.is_number(j) else piece.columns[j]):
                if not is_number(cell):
                    count, first, value = self._strays.get(j, (0, row + offset, cell))
                    self._strays[j] = (count + 1, first, value)
                    if count + 1 > allowed:
                        return True
            row += piece.n_rows
        return False

    def _report(self, n_rows: int) -> None:
        j, (count, row, cell) = min(self._strays.items(), key=lambda item: item[1][1])
        shown = cell if len(cell) <= 40 else cell[:40] + "..."
        remedy = "Correct them"
        if self.stray_share < 1:
            remedy += f", or list the column in categorical=[{self.names[j]!r}]"
        raise DataFileError(
            f"{self.source.path}, line {self.source.line_of(row)}, column {self.names[j]!r}: "
            f"{shown!r} is not a number, as all but {count} of the {n_rows:,} cells of this "
            f"column are. {remedy}."
        )
