"""Tables larger than memory: read from a file once, and kept in a temporary file as numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from gramless.base.columns import labels
from gramless.base.errors import InputError
from gramless.base.lazy_rows import Columns, LazyRows, OrderedRows, take_rows
from gramless.base.mapped import BlockFile, MappedBlock, MappedRows
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
    r"""Read a table that is larger than memory, once, and keep its numbers in a temporary file.

    The file has no name and goes with the table, however the process ends; the environment
    variable ``TMPDIR`` says on which disk it lies. Rows of a plain NPY file stay where they are.

    Parameters
    ----------
    path : str or path-like
        CSV, TSV (plain or compressed), Parquet, Arrow IPC, NPZ or NPY with dense rows; columns may
        hold text.
    target : path-like, optional
        Of a NPY file, another one that holds the labels.
    format, delimiter, header, limits
        As in :func:`open_chunks`.
    categorical : sequence of str, default=()
        Columns of numbers to take as text.
    report : callable, optional
        Given a line for every piece that has been read.

    Returns
    -------
    StoredTable
        ``split_target`` returns inputs and labels for the ``fit`` of ``KernelRegressor`` and
        ``KernelClassifier``, as that of :func:`read_table` does.

    Raises
    ------
    InputError
        For sparse rows.
    DataFileError
        As :func:`open_chunks`, and if the disk is full.

    Notes
    -----
    4 or 8 bytes of disk a number. As fast as reading in chunks.

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
    mapped = None if categorical else _mapped(path, pieces.head)
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
            file.append(np.stack([column.numbers(piece.column(column.name)) for column in columns]))
        if report is not None:
            report(f"reading, {n_rows:,} rows")
    labels_apart = np.concatenate(targets) if targets else None
    rows = StoredRows(file.blocks()) if mapped is None else mapped
    named = {column.name: column for column in columns}
    return StoredTable(head, n_rows, labels_apart, rows, named)


def _mapped(path: str | os.PathLike[str], head: Table) -> LazyRows | None:
    """Return the rows of a plain NPY file of floats, which need not be copied."""
    where = plain_path(path)
    if head.matrix is None or is_compressed(where) or where.suffix.lower() != ".npy":
        return None
    array = np.load(where, mmap_mode="r", allow_pickle=False)
    floats = array.dtype.isnative and array.dtype in (np.float32, np.float64)
    return MappedRows(array) if floats and MappedRows.can_map(array) else None


@dataclass
class _Column:
    """A column while it is read: the type of its numbers, or its texts by their numbers."""

    name: str
    is_text: bool
    dtype: np.dtype[np.generic] | None = None
    texts: dict[str, int] = field(default_factory=dict, repr=False)

    def numbers(self, values: AnyArray) -> AnyArray:
        """Return values as numbers; texts are numbered in order of appearance."""
        if self.is_text:
            own = self.texts
            found = (own.setdefault(text, len(own)) for text in labels(values))
            return np.fromiter(found, np.float64, len(values))
        # A piece without any value has a type of its own.
        if not np.isnan(values).all():
            self.dtype = np.result_type(values.dtype, self.dtype or values.dtype)
        return np.asarray(values)

    def restored(self, numbers: AnyArray) -> AnyArray:
        """Return the values that numbers stand for."""
        if self.is_text:
            return np.array([*self.texts, None], dtype=object)[:-1][numbers.astype(np.intp)]
        return numbers.astype(self.dtype or np.float64, copy=False)


class StoredRows(LazyRows):
    """Columns of numbers in a mapped file, as rows; of those read, each column is in one piece."""

    def __init__(self, blocks: list[MappedBlock], columns: Sequence[int] | None = None) -> None:
        self._blocks = blocks
        self._columns = np.arange(blocks[0].stored[0]) if columns is None else np.array(columns)
        self._ends = np.cumsum([0, *(block.n_rows for block in blocks)])
        self.shape = int(self._ends[-1]), len(self._columns)
        self.dtype = np.result_type(*(block.dtype for block in blocks))

    def read(self, rows: slice | IntArray) -> AnyArray:
        numbers = np.arange(len(self))[rows] if isinstance(rows, slice) else rows
        found = np.empty((len(numbers), len(self._columns)), self.dtype, order="F")
        owner = np.searchsorted(self._ends, numbers, "right") - 1
        for k in np.unique(owner):
            places, block = np.flatnonzero(owner == k), self._blocks[k]
            inside = numbers[places] - self._ends[k]
            stored = block.columns
            for j, column in enumerate(self._columns):
                found[places, j] = stored[column][inside]
            block.forget()
        return found

    def read_columns(self, columns: Columns) -> AnyArray:
        chosen, parts = self._columns[columns], []
        for block in self._blocks:
            parts.append(np.array(block.columns[chosen].T))
            block.forget()
        return np.concatenate(parts).astype(self.dtype, copy=False)

    def of_columns(self, columns: Sequence[int]) -> StoredRows:
        """Return some of the columns."""
        return StoredRows(self._blocks, self._columns[list(columns)].tolist())


@dataclass(frozen=True, eq=False, repr=False)
class StoredTable(RowTable):
    r"""A table whose numbers lie on a disk; made by :func:`store_table`.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    target : array (n_rows,) or None
        Labels that the file keeps apart from its columns.
    rows : LazyRows (n_rows, n_columns)
        The numbers, and of text its codes, read when they are asked for.
    head : Table
        The first rows, which say what the columns are.
    stored : dict
        What each column keeps beside its numbers, by name.

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
        """Names of columns of text that are categories, whatever their text looks like."""
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
        """Where the table came from, for messages."""
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
        """Return the column with a name or position as an array: numbers, or str."""
        index = self.head.index_of(name)
        column = self.stored[self.names[index]]
        return column.restored(self.rows[:, index])

    def take_rows(self, rows: slice | AnyArray) -> Table:
        """Return some rows as a table in memory."""
        numbers, columns = self.rows[rows], self.stored.values()
        values = {c.name: c.restored(numbers[:, j]) for j, c in enumerate(columns)}
        return Table(values, source=self.source, declared=self.declared, types=self.types)

    def keep_rows(self, rows: IntArray) -> StoredTable:
        """Return the table of some rows, which stay on the disk."""
        target = None if self.target is None else self.target[rows]
        return replace(self, n_rows=len(rows), target=target, rows=take_rows(self.rows, rows))

    def select(self, features: Sequence[str | int] | None = None) -> StoredTable | LazyRows:
        """Return columns for an estimator: rows of numbers, or a table if any holds text."""
        head = self.head.select(features)
        chosen = range(self.shape[1]) if features is None else features
        table = self.of_columns([self.head.index_of(name) for name in chosen])
        return table if isinstance(head, Table) else table.rows

    def of_columns(self, positions: Sequence[int]) -> StoredTable:
        """Return the table of some columns."""
        names = [self.names[j] for j in positions]
        numbers, rows = list(positions), self.rows
        if numbers == list(range(self.shape[1])):
            own: LazyRows = rows
        elif isinstance(rows, StoredRows):
            own = rows.of_columns(numbers)
        else:
            own = OrderedRows(rows, transform=lambda part: part[:, numbers], width=len(numbers))
        columns = {name: self.head.column(name) for name in names}
        types = {name: kind for name, kind in self.types.items() if name in columns}
        head = Table(columns, source=self.source, declared=self.declared, types=types)
        return replace(self, head=head, rows=own, stored={n: self.stored[n] for n in names})

    def split_target(
        self, target: str | int | None = None, features: Sequence[str | int] | None = None
    ) -> tuple[StoredTable | LazyRows, AnyArray, tuple[str, ...] | None]:
        """Return inputs, labels and names of inputs, as :meth:`Table.split_target` does.

        Parameters
        ----------
        target : str or int, optional
            Name or position of the column of labels; None takes those that the file keeps apart.
        features : sequence of str or int, optional
            Columns to take as inputs; by default all others.
        """
        _, _, names = self.head.split_target(target, features)
        position = self.head.target_position(target)
        y = np.asarray(self.target) if position is None else self.column(position)
        if self.head.columns is None:
            return self.select(names), y, names
        return self.of_columns([self.head.index_of(name) for name in names or ()]), y, names
