"""Rows of text cells into columns of numbers or of text, a chunk at a time."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import DataFileError
from gramless.datasets.files import open_text

CHUNK_ROWS = 20_000

MISSING = frozenset({"", "?", "NA", "N/A", "nan", "NaN", "NAN", "null", "NULL"})


@dataclass(frozen=True)
class RowSource:
    """The data rows of a delimited text file, read anew at every pass."""

    path: Path
    encoding: str
    delimiter: str = ","
    quotechar: str = '"'
    skip_lines: int = 0
    skip_rows: int = 0
    comment: str | None = None
    n_columns: int = 0

    def chunks(self, most: int | None = None) -> Iterator[list[list[str]]]:
        """Yield lists of at most ``most`` (CHUNK_ROWS) rows, no blank ones, all of one length."""
        done = 0
        size = CHUNK_ROWS if most is None else most
        with open_text(self.path, self.encoding, newline="") as text:
            reader = self._reader(text)
            try:
                while chunk := list(islice(reader, size)):
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
        with open_text(self.path, self.encoding, newline="") as text:
            reader = self._reader(text)
            rows = (cells for cells in reader if not _is_blank(cells))
            next(islice(rows, row, None), None)
            return self.skip_lines + int(reader.line_num)

    def _reader(self, text: IO[str]) -> Any:
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


def to_text(cells: Sequence[str]) -> NDArray[Any]:
    """Return cells as an object array of stripped str, missing ones as ``""``."""
    stripped = map(str.strip, cells)
    return np.array(["" if cell in MISSING else cell for cell in stripped], dtype=object)


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

    def build(self) -> dict[str, NDArray[Any]]:
        """Read the file, once or, if a column shows late that it is text, twice.

        Returns
        -------
        dict of str to ndarray of shape (n_rows,)
            float64 or object arrays.

        Raises
        ------
        DataFileError
            On stray cells, ragged rows, bad quotes, or no rows at all.
        """
        pieces = self._pass()
        if self._late:
            pieces = self._pass()
        if not pieces:
            raise DataFileError(f"{self.source.path} has no data rows; copy or download it again.")
        parts = zip(*pieces, strict=True)
        return {name: np.concatenate(part) for name, part in zip(self.names, parts, strict=True)}

    def _pass(self) -> list[list[NDArray[Any]]]:
        pieces: list[list[NDArray[Any]]] = []
        done = 0
        for chunk in filter(None, self.source.chunks()):
            columns = zip(*chunk, strict=True)
            pieces.append([self._piece(j, cells, done) for j, cells in enumerate(columns)])
            done += len(chunk)
        if self._strays:
            self._report(done)
        return pieces

    def _piece(self, j: int, cells: Sequence[str], done: int) -> NDArray[Any]:
        if j in self.text:
            return to_text(cells)
        numbers = to_numbers(cells)
        if numbers is not None:
            return numbers
        allowed = self.stray_share * (done + len(cells))
        for row, cell in enumerate(cells, start=done):
            if to_numbers((cell,)) is None:
                count, first, value = self._strays.get(j, (0, row, cell))
                self._strays[j] = (count + 1, first, value)
                if count + 1 > allowed:
                    del self._strays[j]
                    self.text.add(j)
                    self._late |= done > 0
                    return to_text(cells)
        return np.full(len(cells), np.nan)

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
