"""Tables larger than memory, stored as numbers in a temporary file."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from gramless.base.columns import labels
from gramless.base.errors import InputError
from gramless.base.lazy_rows import (
    BlockFile,
    Columns,
    LazyRows,
    MappedBlock,
    MappedRows,
    OrderedRows,
    take_rows,
)
from gramless.base.types import AnyArray, IntArray, RowTable
from gramless.datasets.files import is_compressed, plain_path
from gramless.datasets.limits import ReadLimits
from gramless.datasets.readers import open_pieces
from gramless.datasets.table import Table, with_text


def store_table(
    path: str | os.PathLike[str],
    *,
    target: str | int | os.PathLike[str] | None = None,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    categorical: Sequence[str] = (),
    limits: ReadLimits | None = None,
    report: Callable[[str], None] | None = None,
) -> StoredTable:
    r"""Read a table that is larger than memory, and store its numbers in a temporary file.

    The file has no name, so that the system deletes it with the table, however the process ends.
    It lies in the folder of the environment variable ``TMPDIR``. The rows of an uncompressed NPY
    file of floats are not copied.

    Parameters
    ----------
    path : str or path-like
        CSV or TSV (plain or compressed), Parquet, Arrow IPC, NPZ or NPY with dense rows. Columns
        may hold text.
    target : path-like, optional
        For an NPY file, another NPY file with the labels.
    format, delimiter, header, limits
        As in :func:`open_chunks`.
    categorical : sequence of str, default=()
        Names of columns that are categories even if they look like numbers.
    report : callable, optional
        Called with a line of text after every piece that has been read.

    Returns
    -------
    StoredTable
        Its method ``split_target`` returns inputs and labels for the ``fit`` of ``KernelRegressor``
        and ``KernelClassifier``.

    Raises
    ------
    InputError
        If the rows are sparse, if the file is ARFF, or if a parameter is invalid.
    DataFileError
        As in :func:`open_chunks`, and if the disk is full.

    Notes
    -----
    A number takes 4 or 8 bytes on the disk. Storing is as fast as reading in chunks.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("weight,age,label\n4.5,3,cat\n30,7,dog\n")
    ...     X, y, names = store_table(path).split_target()
    >>> X.column("age"), y, names
    (array([3., 7.]), array(['cat', 'dog'], dtype=object), ('weight', 'age'))
    """
    limits = limits or ReadLimits()
    pieces, _ = open_pieces(
        path,
        target=target,
        format=format,
        delimiter=delimiter,
        header=header,
        categorical=categorical,
        limits=limits,
    )
    # Columns in ``categorical`` become text, so their codes have to be stored.
    mapped = None if categorical else _map_rows(path, pieces.head)
    head = pieces.head
    if sparse.issparse(head.matrix):
        raise InputError(
            f"{head.source} holds sparse rows, which store_table does not take: give them to "
            f"open_stream and a DoublyStochastic estimator, or read_table where memory holds them."
        )
    if categorical:
        head = with_text(head, categorical)
    file, n_rows = BlockFile(f"a table of {head.source}", "give it more room"), 0
    text = set(head.categorical)
    columns = [_Column(name, name in text) for name in head.names or ()]
    targets: list[AnyArray] = []
    for piece in pieces.read():
        n_rows += len(piece)
        piece = with_text(piece, categorical) if categorical else piece
        if piece.target is not None:
            targets.append(piece.target)
        if mapped is None:
            file.append(np.stack([column.encode(piece.column(column.name)) for column in columns]))
        if report is not None:
            report(f"reading, {n_rows:,} rows")
    separate_target = np.concatenate(targets) if targets else None
    rows = StoredRows(file.blocks()) if mapped is None else mapped
    return StoredTable(head, n_rows, separate_target, rows, {c.name: c for c in columns})


def _map_rows(path: str | os.PathLike[str], head: Table) -> LazyRows | None:
    """Return the rows of an uncompressed NPY file of floats, or None for other files."""
    where = plain_path(path)
    if head.matrix is None or is_compressed(where) or where.suffix.lower() != ".npy":
        return None
    array = np.load(where, mmap_mode="r", allow_pickle=False)
    is_float = array.dtype.isnative and array.dtype in (np.float32, np.float64)
    return MappedRows(array) if is_float and MappedRows.can_map(array) else None


@dataclass
class _Column:
    """The encoding of a column on the disk."""

    name: str
    is_text: bool
    dtype: np.dtype[np.generic] | None = None  # type of the numbers; None before the first number
    code_of: dict[str, int] = field(default_factory=dict, repr=False)  # text: code

    def encode(self, values: AnyArray) -> AnyArray:
        """Return numbers, or the codes of text, which are numbered by first occurrence."""
        if self.is_text:
            code_of = self.code_of
            codes = (code_of.setdefault(text, len(code_of)) for text in labels(values))
            return np.fromiter(codes, np.float64, len(values))
        # The type of a piece without any value does not count.
        if not np.isnan(values).all():
            self.dtype = np.result_type(values.dtype, self.dtype or values.dtype)
        return np.asarray(values)

    def decode(self, numbers: AnyArray) -> AnyArray:
        if self.is_text:
            return np.array([*self.code_of, None], dtype=object)[:-1][numbers.astype(np.intp)]
        return numbers.astype(self.dtype or np.float64, copy=False)


class StoredRows(LazyRows):
    """Rows of numbers in a mapped file; rows that are read are in Fortran order."""

    def __init__(self, blocks: list[MappedBlock], columns: Sequence[int] | None = None) -> None:
        self._blocks = blocks
        self._columns = np.arange(blocks[0].stored[0]) if columns is None else np.array(columns)
        self._ends = np.cumsum([0, *(block.n_rows for block in blocks)])
        self.shape = int(self._ends[-1]), len(self._columns)
        self.dtype = np.result_type(*(block.dtype for block in blocks))

    def read(self, rows: slice | IntArray) -> AnyArray:
        positions = np.arange(len(self))[rows] if isinstance(rows, slice) else rows
        result = np.empty((len(positions), len(self._columns)), self.dtype, order="F")
        block_of_row = np.searchsorted(self._ends, positions, "right") - 1
        for k in np.unique(block_of_row):
            targets, block = np.flatnonzero(block_of_row == k), self._blocks[k]
            within_block = positions[targets] - self._ends[k]
            stored = block.columns
            for j, column in enumerate(self._columns):
                result[targets, j] = stored[column][within_block]
            block.release_pages()
        return result

    def read_columns(self, columns: Columns) -> AnyArray:
        stored, parts = self._columns[columns], []
        for block in self._blocks:
            parts.append(np.array(block.columns[stored].T))
            block.release_pages()
        return np.concatenate(parts).astype(self.dtype, copy=False)

    def of_columns(self, columns: Sequence[int]) -> StoredRows:
        return StoredRows(self._blocks, self._columns[list(columns)].tolist())


@dataclass(frozen=True, eq=False, repr=False)
class StoredTable(RowTable):
    r"""A table with numbers on a disk; created by :func:`store_table`.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    target : array (n_rows,) or None
        Labels that the file stores separately from its columns.
    rows : LazyRows (n_rows, n_columns)
        The numbers, and the codes of text, which are read on demand.
    head : Table
        The first rows, with the names and types of the columns.
    stored : dict
        The encoding of each column, by name.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from gramless.datasets import store_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.csv")
    ...     _ = path.write_text("a,b,price\n" + "1.5,2,3\n" * 5)
    ...     store_table(path).split_target("price")[2]
    ('a', 'b')
    """

    head: Table
    n_rows: int
    target: AnyArray | None
    rows: LazyRows
    stored: dict[str, _Column]

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the columns."""
        return tuple(self.stored)

    @property
    def declared(self) -> Collection[str]:  # type: ignore[override]
        """Names of columns that are categories even if their text looks like numbers or dates."""
        return self.head.declared

    @property
    def types(self) -> Mapping[str, str]:  # type: ignore[override]
        """Types of columns that their values do not show."""
        return self.head.types

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of the text, boolean and categorical columns."""
        return tuple(column.name for column in self.stored.values() if column.is_text)

    @property
    def source(self) -> str:
        """Origin of the table, for messages."""
        return self.head.source

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.n_rows, len(self.stored)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"StoredTable({self.n_rows:,} x {self.shape[1]:,}, from {self.source})"

    def column(self, name: str | int) -> AnyArray:
        """Return the column with a name or position as an array of numbers or str."""
        index = self.head.index_of(name)
        column = self.stored[self.names[index]]
        return column.decode(self.rows[:, index])

    def take_rows(self, rows: slice | AnyArray) -> Table:
        """Return some rows as a table in memory."""
        numbers, columns = self.rows[rows], self.stored.values()
        values = {c.name: c.decode(numbers[:, j]) for j, c in enumerate(columns)}
        return Table(values, source=self.source, declared=self.declared, types=self.types)

    def keep_rows(self, rows: IntArray) -> StoredTable:
        """Return the table of some rows without reading them."""
        target = None if self.target is None else self.target[rows]
        return replace(self, n_rows=len(rows), target=target, rows=take_rows(self.rows, rows))

    def select(self, features: Sequence[str | int] | None = None) -> StoredTable | LazyRows:
        """Return columns as the input of an estimator: numbers, or a table if any holds text."""
        head = self.head.select(features)
        selection = range(self.shape[1]) if features is None else features
        table = self.of_columns([self.head.index_of(name) for name in selection])
        return table if isinstance(head, Table) else table.rows

    def of_columns(self, positions: Sequence[int]) -> StoredTable:
        """Return the table of some columns."""
        names = [self.names[j] for j in positions]
        order, rows = list(positions), self.rows
        if order == list(range(self.shape[1])):
            selected: LazyRows = rows
        elif isinstance(rows, StoredRows):
            selected = rows.of_columns(order)
        else:
            selected = OrderedRows(rows, transform=lambda part: part[:, order], width=len(order))
        columns = {name: self.head.column(name) for name in names}
        types = {name: type_ for name, type_ in self.types.items() if name in columns}
        head = Table(columns, source=self.source, declared=self.declared, types=types)
        return replace(self, head=head, rows=selected, stored={n: self.stored[n] for n in names})

    def split_target(
        self, target: str | int | None = None, features: Sequence[str | int] | None = None
    ) -> tuple[StoredTable | LazyRows, AnyArray, tuple[str, ...] | None]:
        """Return inputs, labels and names of inputs, as :meth:`Table.split_target` does.

        Parameters
        ----------
        target : str or int, optional
            Name or position of the column of labels; the default is as in
            :meth:`Table.split_target`.
        features : sequence of str or int, optional
            Columns to keep; by default all but the target.
        """
        _, _, names = self.head.split_target(target, features)
        position = self.head.target_position(target)
        y = np.asarray(self.target) if position is None else self.column(position)
        if self.head.columns is None:
            return self.select(names), y, names
        return self.of_columns([self.head.index_of(name) for name in names or ()]), y, names
