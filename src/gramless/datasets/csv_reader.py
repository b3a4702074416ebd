"""Delimited text: CSV, TSV and the .data files of older collections."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gramless.base.errors import DataFileError, InputError
from gramless.datasets.columns import (
    CHUNK_CHARACTERS,
    MISSING,
    ColumnBuilder,
    RowSource,
    is_number,
    split_lines,
    to_numbers,
)
from gramless.datasets.files import HEAD_BYTES, open_text, plain_path, read_head, text_encodings
from gramless.datasets.limits import ReadLimits
from gramless.datasets.table import Table

SAMPLE_ROWS = 200

_SAMPLE_CELL_BYTES = 200
"""Of a cell of the first rows, which are held as text and as columns at once."""

# The comma comes late: a file cut by semicolons may hold decimal commas in every row.
_DELIMITERS = ("\t", ";", "|", ",", " ")


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
        One character; ``" "`` stands for any run of blanks and tabs. By
        default found from the first lines.
    header : bool, default=None
        Whether the first row holds the names. By default it does if no cell
        of it is a number and the rows below look different. Without a header
        the names are x1, x2, ...
    categorical : sequence of str, default=()
        Names of columns to keep as text though they look like numbers.
    limits : ReadLimits, default=None
        What reading may take; by default ``ReadLimits()``.

    Returns
    -------
    Table
        Numeric columns as float64, ``"", ?, NA, N/A, nan, null`` as NaN; other
        columns as object arrays of str, the same cells as ``""``. A last
        column without a name and without any value is left out.

    Raises
    ------
    DataFileError
        With the line of the fault: ragged rows, unclosed quotes, a few cells
        that are not numbers in a column of numbers, binary or empty files, or
        what is beyond the limits.
    InputError
        If ``delimiter`` is not one character, or ``categorical`` names a
        column that is not there.

    Notes
    -----
    About 0.3 microseconds a cell. Holds one chunk of text and the finished
    columns; a column that turns out to be text after 20,000 rows costs a
    second reading.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("kind,weight\ncat,4.5\ndog,NA\n")
    ...     read_csv(path).column("weight")
    array([4.5, nan])
    """
    check_delimiter(delimiter)
    where, limits = plain_path(path), limits or ReadLimits()
    for encoding in text_encodings(where, read_head(where)):
        try:
            layout = find_layout(where, encoding, delimiter, header, limits)
            return _read(layout, categorical)
        except UnicodeDecodeError as fault:
            wrong = fault
    raise DataFileError(f"{where} is not valid {wrong.encoding}; save it as UTF-8.") from wrong


@dataclass(frozen=True)
class Layout:
    """How delimited text is cut into named columns, as its first lines show it."""

    source: RowSource
    names: list[str]
    unnamed_end: bool
    sample: list[list[str]]


def check_delimiter(delimiter: str | None) -> None:
    """Refuse a delimiter that is not one character."""
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise InputError(f"delimiter must be one character, no quote, got {delimiter!r}.")


def find_layout(
    path: Path, encoding: str, delimiter: str | None, header: bool | None, limits: ReadLimits
) -> Layout:
    """Find delimiter, names and first rows of delimited text.

    Raises
    ------
    DataFileError
        If there is no row, a name occurs twice, or the first rows are beyond the limits.
    UnicodeDecodeError
        If the first lines are not in this encoding.
    """
    lines = _sample_lines(path, encoding, limits)
    delimiter = delimiter or _find_delimiter(lines)
    rows = _sample_rows(lines, delimiter)
    if not rows:
        raise DataFileError(f"{path} has no rows; copy or download it again.")
    named = _has_header(rows) if header is None else header
    names = _names(path, rows[0]) if named else [f"x{j + 1}" for j in range(len(rows[0]))]
    source = RowSource(
        path, encoding, limits, delimiter, skip_rows=int(named), n_columns=len(names)
    )
    return Layout(source, names, not named or not rows[0][-1].strip(), rows[int(named) :])


def _read(layout: Layout, categorical: Sequence[str]) -> Table:
    path = layout.source.path
    names = layout.names
    if absent := [name for name in categorical if name not in names]:
        raise InputError(f"{path} has no column {absent[0]!r} to take as categorical.")
    text = {names.index(name) for name in categorical}
    columns = ColumnBuilder(layout.source, names, text).build()
    last = columns[names[-1]]
    # A delimiter at the end of every line is not a column.
    if len(names) > 1 and layout.unnamed_end and last.dtype.kind == "f" and np.isnan(last).all():
        del columns[names[-1]]
    return Table(columns, source=str(path))


def _sample_lines(path: Path, encoding: str, limits: ReadLimits) -> list[str]:
    """Return the first lines, a few even where each is very long."""
    lines: list[str] = []
    size = n_cells = 0
    with open_text(path, encoding, limits, newline="") as text:
        for line in text:
            lines.append(line)
            size += len(line)
            n_cells += 1 + max(map(line.count, _DELIMITERS))
            what = f"a table whose first {len(lines)} rows have {n_cells:,} cells"
            limits.check_memory(path, what, _SAMPLE_CELL_BYTES * n_cells)
            few = 2 if size >= CHUNK_CHARACTERS else 10
            if len(lines) >= SAMPLE_ROWS or (len(lines) >= few and size >= HEAD_BYTES):
                break
    return lines


def _sample_rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        for row in split_lines(lines, delimiter):
            if row and (len(row) > 1 or row[0].strip()):
                rows.append(row)
    except csv.Error:
        # Only a sample: the reading proper meets the fault again and names its line.
        pass
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
    if any(to_numbers(column) is not None and set(column) - MISSING for column in columns):
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
