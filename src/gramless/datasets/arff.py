"""ARFF: a header that declares the columns, then comma-separated rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import IO

from gramless.base.errors import DataFileError
from gramless.datasets.columns import ColumnBuilder, RowSource
from gramless.datasets.files import open_text, plain_path, read_head, text_encodings
from gramless.datasets.table import Table

_ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|[^\s{]+)\s*(.+)""", re.IGNORECASE)

_NUMERIC = ("numeric", "real", "integer")


def read_arff(path: str | Path) -> Table:
    r"""Read an ARFF file with numeric, nominal, string and date columns.

    Parameters
    ----------
    path : str or Path
        Plain or compressed (``.gz``, ``.bz2``, ``.xz``).

    Returns
    -------
    Table
        Numeric columns as float64 with NaN for ``?``; all others as object
        arrays of str.

    Raises
    ------
    DataFileError
        With the line of the fault; also for sparse ARFF rows and relational
        columns, which are not supported.

    Notes
    -----
    Cost as :func:`~gramless.datasets.csv_reader.read_csv`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.arff")
    ...     _ = path.write_text(
    ...         "@attribute weight real\n@attribute kind {cat, dog}\n@data\n4.5, cat\n?, dog\n"
    ...     )
    ...     read_arff(path).column("kind")
    array(['cat', 'dog'], dtype=object)
    """
    where = plain_path(path)
    for encoding in text_encodings(where, read_head(where)):
        try:
            return _read(where, encoding)
        except UnicodeDecodeError as fault:
            wrong = fault
    raise DataFileError(f"{where} is not valid {wrong.encoding}; save it as UTF-8.") from wrong


def _read(path: Path, encoding: str) -> Table:
    names, text, n_lines, quotechar = _header(path, encoding)
    source = RowSource(
        path,
        encoding,
        quotechar=quotechar,
        skip_lines=n_lines,
        comment="%",
        n_columns=len(names),
    )
    columns = ColumnBuilder(source, names, text, stray_share=1.0).build()
    return Table(columns, source=str(path))


def _header(path: Path, encoding: str) -> tuple[list[str], set[int], int, str]:
    names: list[str] = []
    text: set[int] = set()
    with open_text(path, encoding) as lines:
        for number, line in enumerate(lines, start=1):
            word = line.strip().split(None, 1)[0].lower() if line.strip() else ""
            if word == "@data":
                if not names:
                    raise DataFileError(f"{path}, line {number}: @data before any @attribute.")
                return names, text, number, _quote(path, lines, number)
            if word == "@attribute":
                name, kind = _attribute(path, number, line)
                if name in names:
                    raise DataFileError(f"{path}, line {number}: a second column {name!r}.")
                if kind not in _NUMERIC:
                    text.add(len(names))
                names.append(name)
            elif word and not word.startswith(("%", "@relation")):
                raise DataFileError(
                    f"{path}, line {number}: {line.strip()[:40]!r} is no ARFF declaration; "
                    "@relation, @attribute or @data is expected."
                )
    raise DataFileError(f"{path} has no @data line; it is cut off or not ARFF.")


def _attribute(path: Path, number: int, line: str) -> tuple[str, str]:
    found = _ATTRIBUTE.match(line.strip())
    kind = found[2].split("%")[0].strip().lower() if found else ""
    if found and (kind in _NUMERIC or kind.startswith(("{", "string", "date"))):
        return found[1].strip("'\""), kind
    raise DataFileError(
        f"{path}, line {number}: {line.strip()[:60]!r} declares no column of kind numeric, "
        "real, integer, string, date or {...}."
    )


def _quote(path: Path, lines: IO[str], number: int) -> str:
    """Return the quote of the first data row that has one; both are in use."""
    for offset, line in enumerate(lines, start=1):
        body = line.strip()
        if body.startswith("{"):
            raise DataFileError(
                f"{path}, line {number + offset}: sparse ARFF rows are not supported; "
                "convert the file to LIBSVM."
            )
        if found := re.search(r"(?:^|,)\s*(['\"])", body):
            return found[1]
    return '"'
