"""Delimited text and LIBSVM text, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gramless.base.errors import DataFileError
from gramless.datasets.columns import CHUNK_ROWS, is_number, to_numbers, to_text
from gramless.datasets.csv_reader import Layout, check_delimiter, find_layout
from gramless.datasets.files import read_head, text_encodings
from gramless.datasets.libsvm import (
    ZeroBased,
    check_parameters,
    find_columns,
    read_blocks,
    shift_columns,
)
from gramless.datasets.limits import ReadLimits
from gramless.datasets.pieces import Pieces
from gramless.datasets.table import Table

_STRAY_SHARE = 0.01


def libsvm_pieces(
    path: Path, n_features: int | None, zero_based: ZeroBased, limits: ReadLimits
) -> Pieces:
    """Open LIBSVM text; read it through first where the columns are not fully told.

    Parameters
    ----------
    path : Path
    n_features : int or None
    zero_based : bool or "auto"
    limits : ReadLimits

    Returns
    -------
    Pieces
    """
    check_parameters(n_features, zero_based)
    n_rows = None
    if n_features is None or zero_based == "auto":
        first, width, n_rows = find_columns(path, read_blocks(path, limits), n_features, zero_based)
    else:
        first, width = int(not zero_based), n_features

    def read() -> Iterator[Table]:
        for X, y in read_blocks(path, limits):
            yield Table(matrix=shift_columns(path, X, first, width), target=y, source=str(path))

    head = Table(matrix=sparse.csr_matrix((1, width)), target=np.zeros(1), source=str(path))
    return Pieces(head, read, n_rows)


def delimited_pieces(
    path: Path, delimiter: str | None, header: bool | None, limits: ReadLimits
) -> Pieces:
    """Open delimited text; its first 200 lines say which columns are text.

    Parameters
    ----------
    path : Path
    delimiter : str or None
    header : bool or None
    limits : ReadLimits

    Returns
    -------
    Pieces

    Raises
    ------
    DataFileError
        If it has no rows, is in no known encoding, or is beyond the limits.
    """
    check_delimiter(delimiter)
    encodings = text_encodings(path, read_head(path))
    for k, encoding in enumerate(encodings):
        try:
            layout = find_layout(path, encoding, delimiter, header, limits)
        except UnicodeDecodeError as fault:
            wrong = fault
            continue
        text = _DelimitedText(layout, encodings[k + 1 :])
        return Pieces(text.head(), text.read)
    raise _undecodable(path, wrong)


class _DelimitedText:
    """The tables of a delimited text file, columns of numbers and of text told apart at once."""

    def __init__(self, layout: Layout, other_encodings: Sequence[str]) -> None:
        self._source, self._names = layout.source, layout.names
        self._path = layout.source.path
        self._other_encodings = list(other_encodings)
        rows = [row for row in layout.sample if len(row) == len(layout.names)]
        columns = list(zip(*rows, strict=True)) or self._fail_without_rows()
        self._text = {j for j, cells in enumerate(columns) if _is_text(cells)}
        last = to_numbers(columns[-1])
        unused = layout.unnamed_end and last is not None and bool(np.isnan(last).all())
        # A delimiter at the end of every line is not a column.
        self._n_used = len(columns) - int(unused and len(columns) > 1)
        self._sample = columns

    def head(self) -> Table:
        """Return the well-formed rows among the first, strays as NaN."""
        names = self._names[: self._n_used]
        columns = {name: self._lenient(j) for j, name in enumerate(names)}
        return Table(columns, source=str(self._path))

    def _lenient(self, j: int) -> NDArray[Any]:
        if j in self._text:
            return to_text(self._sample[j])
        cells = [cell if is_number(cell) else "" for cell in self._sample[j]]
        return np.asarray(to_numbers(cells))

    def read(self) -> Iterator[Table]:
        """Yield the rows; from the first byte on that is not UTF-8, as Latin-1."""
        done = 0
        while True:
            rest = replace(self._source, skip_rows=self._source.skip_rows + done)
            try:
                for chunk in filter(None, rest.chunks(CHUNK_ROWS)):
                    yield self._table(chunk, done)
                    done += len(chunk)
                return
            except UnicodeDecodeError as fault:
                if not self._other_encodings:
                    raise _undecodable(self._path, fault) from fault
                self._source = replace(self._source, encoding=self._other_encodings.pop(0))

    def _table(self, rows: list[list[str]], done: int) -> Table:
        columns = list(zip(*rows, strict=True))
        values = {
            name: to_text(columns[j]) if j in self._text else self._numbers(j, columns[j], done)
            for j, name in enumerate(self._names)
        }
        for name in self._names[self._n_used :]:
            given = np.flatnonzero(~np.isnan(values.pop(name)))
            if len(given):
                line = self._source.line_of(done + int(given[0]))
                raise DataFileError(
                    f"{self._path}, line {line}: a value in the last column, which has no name "
                    "and is empty in the first rows. Name the column, or drop it."
                )
        return Table(values, source=str(self._path))

    def _numbers(self, j: int, cells: Sequence[str], done: int) -> NDArray[np.float64]:
        numbers = to_numbers(cells)
        if numbers is not None:
            return numbers
        row = next(i for i, cell in enumerate(cells) if not is_number(cell))
        shown = cells[row] if len(cells[row]) <= 40 else cells[row][:40] + "..."
        raise DataFileError(
            f"{self._path}, line {self._source.line_of(done + row)}, column {self._names[j]!r}: "
            f"{shown!r} is not a number, as the first rows of this column are. Correct it, or "
            "encode the column as numbers."
        )

    def _fail_without_rows(self) -> NoReturn:
        next(self._source.chunks(CHUNK_ROWS), None)
        raise DataFileError(f"{self._path} has no data rows; copy or download it again.")


def _is_text(cells: Sequence[str]) -> bool:
    strays = sum(not is_number(cell) for cell in cells)
    return strays > _STRAY_SHARE * len(cells)


def _undecodable(path: Path, fault: UnicodeDecodeError) -> DataFileError:
    return DataFileError(f"{path} is not valid {fault.encoding}; save it as UTF-8.")
