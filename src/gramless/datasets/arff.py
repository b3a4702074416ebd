"""ARFF: a header that declares the columns, then comma-separated rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from gramless.base.errors import DataFileError
from gramless.base.types import AnyArray
from gramless.datasets.delimited import DelimitedRows, read_columns, require_polars
from gramless.datasets.files import lines_of, plain_path, shortened
from gramless.datasets.limits import ReadLimits
from gramless.datasets.table import Table

_ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|[^\s{]+)\s*(.+)""", re.IGNORECASE)

_NUMERIC = ("numeric", "real", "integer")

_WORD = r"""\s*+(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|[^,{}'"]*+)\s*+"""
_NOMINAL = re.compile(rf"{{({_WORD}(?:,{_WORD})*+)}}\s*(?:%.*)?")

_ATTRIBUTE_BYTES = 500  # memory of a column in addition to its values


def read_arff(path: str | Path, *, limits: ReadLimits | None = None) -> Table:
    r"""Read an ARFF file with numeric, nominal, string and date columns.

    Sparse rows and relational columns are refused, and so are values that their column does not
    declare.

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
    kinds, n_lines, quote = _header(where, limits)
    rows = DelimitedRows(
        where, limits, tuple(kinds), quotechar=quote, skip_lines=n_lines, comment="%"
    )
    text = {j for j, kind in enumerate(kinds.values()) if kind.lower() not in _NUMERIC}
    columns = read_columns(rows, text, stray_share=1.0)
    for name in (rows.names[j] for j in text):
        columns[name][columns[name] == "?"] = ""
    for name, kind in kinds.items():
        if kind.startswith("{"):
            _check_declared(rows, name, columns[name], kind)
    nominal = tuple(name for name, kind in kinds.items() if kind.startswith("{"))
    return Table(columns, source=str(where), declared=nominal)


def _check_declared(rows: DelimitedRows, name: str, values: AnyArray, kind: str) -> None:
    """Refuse values of a nominal column that its declaration does not list."""
    declared = {_plain_word(word) for word in re.findall(_WORD, kind[1:])} | {""}
    unknown = {value for value in set(values) - declared if _plain_word(value) not in declared}
    if unknown:
        row = next(row for row, value in enumerate(values) if value in unknown)
        raise DataFileError(
            f"{rows.path}, line {rows.line_of(row)}, column {name!r}: {shortened(values[row])} is "
            "not among the values that @attribute declares; add it there, or correct it."
        )


def _plain_word(word: str) -> str:
    bare = word.strip()
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "'\"":
        bare = bare[1:-1].strip()
    return re.sub(r"\\(.)", r"\1", bare)


def _header(path: Path, limits: ReadLimits) -> tuple[dict[str, str], int, str]:
    """Return the declared kind of each column, the number of lines, and the quote of the rows."""
    kinds: dict[str, str] = {}
    n_bytes = 0
    lines = lines_of(path, limits)
    for number, line in enumerate(lines, start=1):
        word = line.strip().split(None, 1)[0].lower() if line.strip() else ""
        if word == "@data":
            if not kinds:
                raise DataFileError(f"{path}, line {number}: @data before any @attribute.")
            # Of more rows than this the table would be beyond the limits, quotes or not.
            most = int(limits.max_memory) // (8 * len(kinds))
            return kinds, number, _quote(path, islice(lines, most), number)
        if word == "@attribute":
            name, kind = _attribute(path, number, line)
            if name in kinds:
                raise DataFileError(f"{path}, line {number}: a second column {name!r}.")
            kinds[name] = kind
            n_bytes += len(line) + _ATTRIBUTE_BYTES
            limits.check_memory(path, f"a table of {len(kinds):,} columns", n_bytes)
        elif word and not word.startswith(("%", "@relation")):
            raise DataFileError(
                f"{path}, line {number}: {line.strip()[:40]!r} is no ARFF declaration; "
                "@relation, @attribute or @data is expected."
            )
    raise DataFileError(f"{path} has no @data line; it is cut off or not ARFF.")


def _attribute(path: Path, number: int, line: str) -> tuple[str, str]:
    found = _ATTRIBUTE.match(line.strip())
    if found:
        name, kind = found[1].strip("'\""), found[2].split("%")[0].strip()
        if nominal := _NOMINAL.fullmatch(found[2]):
            return name, "{" + nominal[1]
        if kind.lower() in _NUMERIC or kind.lower().startswith(("string", "date")):
            return name, kind
    raise DataFileError(
        f"{path}, line {number}: {line.strip()[:60]!r} declares no column of kind numeric, "
        "real, integer, string, date or {...}."
    )


def _quote(path: Path, lines: Iterable[str], number: int) -> str:
    """Return the quote character of the first row that has one; both kinds are in use."""
    for offset, line in enumerate(lines, start=1):
        body = line.strip()
        if body.startswith("{"):
            raise DataFileError(
                f"{path}, line {number + offset}: sparse ARFF rows are not supported; "
                "convert the file to LIBSVM."
            )
        quoted = "'" in body or '"' in body
        if quoted and (found := re.search(r"(?:^|,)\s*(['\"])", body)):
            return found[1]
    return '"'
