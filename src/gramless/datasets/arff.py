"""ARFF: a header that declares the columns, then comma-separated rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from gramless.base.errors import DataFileError
from gramless.base.types import AnyArray
from gramless.datasets.delimited import DelimitedRows, read_columns, require_polars
from gramless.datasets.files import iter_lines, plain_path, shorten
from gramless.datasets.limits import ReadLimits
from gramless.datasets.table import Table

_ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|[^\s{]+)\s*(.+)""", re.IGNORECASE)

_NUMERIC = ("numeric", "real", "integer")

# A quoted or plain word. Possessive quantifiers avoid backtracking in long lists of words.
_WORD = r"""\s*+(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|[^,{}'"]*+)\s*+"""
_NOMINAL = re.compile(rf"{{({_WORD}(?:,{_WORD})*+)}}\s*(?:%.*)?")

_COLUMN_BYTES = 500  # memory of a column in addition to its values


def read_arff(path: str | Path, *, limits: ReadLimits | None = None) -> Table:
    r"""Read an ARFF file with numeric, nominal, string and date columns.

    Parameters
    ----------
    path : str or Path
        Plain or compressed (``.gz``, ``.bz2``, ``.xz``).
    limits : ReadLimits, default=None
        Limits on memory and size; by default ``ReadLimits()``.

    Returns
    -------
    Table
        Numeric columns as float64 with NaN for ``?``; all others as object arrays of str.

    Raises
    ------
    DataFileError
        If the file is invalid or exceeds the limits, or for sparse rows, relational columns, and
        values that their column does not declare.
    MissingDependencyError
        If polars is not installed.

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
    where, limits = plain_path(path), limits or ReadLimits()
    require_polars(where)
    types, n_lines, quote = _read_header(where, limits)
    rows = DelimitedRows(
        where, limits, tuple(types), quotechar=quote, skip_lines=n_lines, comment="%"
    )
    text = {j for j, type_ in enumerate(types.values()) if type_.lower() not in _NUMERIC}
    # The header declares the types, so a numeric column stays one whatever its cells are.
    columns = read_columns(rows, text, stray_share=1.0)
    for name in (rows.names[j] for j in text):
        columns[name][columns[name] == "?"] = ""
    nominal = {name: type_ for name, type_ in types.items() if type_.startswith("{")}
    for name, declaration in nominal.items():
        _check_declared(rows, name, columns[name], declaration)
    return Table(columns, source=str(where), declared=tuple(nominal))


def _check_declared(rows: DelimitedRows, name: str, values: AnyArray, declaration: str) -> None:
    declared = {_unquote(word) for word in re.findall(_WORD, declaration[1:])} | {""}
    unknown = {value for value in set(values) - declared if _unquote(value) not in declared}
    if unknown:
        row = next(row for row, value in enumerate(values) if value in unknown)
        raise DataFileError(
            f"{rows.path}, line {rows.line_of(row)}, column {name!r}: {shorten(values[row])} is "
            "not among the values that @attribute declares; add it there, or correct it."
        )


def _unquote(word: str) -> str:
    text = word.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1].strip()
    return re.sub(r"\\(.)", r"\1", text)


def _read_header(path: Path, limits: ReadLimits) -> tuple[dict[str, str], int, str]:
    """Return the type of each column, the number of header lines, and the quote of the rows."""
    types: dict[str, str] = {}
    n_bytes = 0
    lines = iter_lines(path, limits)
    for number, line in enumerate(lines, start=1):
        word = line.strip().split(None, 1)[0].lower() if line.strip() else ""
        if word == "@data":
            if not types:
                raise DataFileError(f"{path}, line {number}: @data before any @attribute.")
            # A table with more rows exceeds the limits, whatever the quote.
            max_rows = int(limits.max_memory) // (8 * len(types))
            return types, number, _find_quote(path, islice(lines, max_rows), number)
        if word == "@attribute":
            name, type_ = _parse_attribute(path, number, line)
            if name in types:
                raise DataFileError(f"{path}, line {number}: a second column {name!r}.")
            types[name] = type_
            n_bytes += len(line) + _COLUMN_BYTES
            limits.check_memory(path, f"a table of {len(types):,} columns", n_bytes)
        elif word and not word.startswith(("%", "@relation")):
            raise DataFileError(
                f"{path}, line {number}: {line.strip()[:40]!r} is not an ARFF declaration; "
                "@relation, @attribute or @data is expected."
            )
    raise DataFileError(f"{path} has no @data line; it is cut off or not ARFF.")


def _parse_attribute(path: Path, number: int, line: str) -> tuple[str, str]:
    match = _ATTRIBUTE.match(line.strip())
    if match:
        name, type_ = match[1].strip("'\""), match[2].split("%")[0].strip()
        if nominal := _NOMINAL.fullmatch(match[2]):
            # The opening brace tags the type as nominal.
            return name, "{" + nominal[1]
        if type_.lower() in _NUMERIC or type_.lower().startswith(("string", "date")):
            return name, type_
    raise DataFileError(
        f"{path}, line {number}: {line.strip()[:60]!r} declares no column of kind numeric, "
        "real, integer, string, date or {...}."
    )


def _find_quote(path: Path, lines: Iterable[str], number: int) -> str:
    # Some writers use single quotes and others double quotes; the first row with a quote decides.
    for offset, line in enumerate(lines, start=1):
        body = line.strip()
        if body.startswith("%"):
            continue
        if body.startswith("{"):
            raise DataFileError(
                f"{path}, line {number + offset}: sparse ARFF rows are not supported; "
                "convert the file to LIBSVM."
            )
        has_quote = "'" in body or '"' in body
        if has_quote and (match := re.search(r"(?:^|,)\s*(['\"])", body)):
            return match[1]
    return '"'
