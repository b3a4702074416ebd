"""A table of named columns of mixed types, or of one dense or sparse matrix."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse
from sklearn.utils import _safe_indexing

from gramless.base.arrays import as_floats
from gramless.base.columns import PlainColumn, plain_column
from gramless.base.errors import InputError
from gramless.base.threads import cached_property
from gramless.base.types import AnyArray, NamedColumns, RowTable

Matrix: TypeAlias = AnyArray | sparse.csr_matrix
T = TypeVar("T")
_TYPES = {"M": "datetime", "m": "timedelta", "b": "boolean"}
TARGET_NAMES = ("target", "label", "class", "y")  # in order of priority


@dataclass(frozen=True, eq=False, repr=False)
class Table(NamedColumns):
    """A table as read from a file, before any encoding.

    Exactly one of ``columns`` and ``matrix`` is given. Numbers are float32 or float64, with NaN for
    missing values; text, boolean and categorical columns are object arrays of str, with ``""`` for
    missing values.

    Parameters
    ----------
    columns : mapping of str to ndarray of shape (n_rows,), default=None
        Columns by name.
    matrix : ndarray or CSR matrix of shape (n_rows, n_columns), default=None
        Numbers only.
    names : sequence of str, default=None
        Column names of ``matrix``; by default x1, x2, ... A sparse matrix accepts the default names
        without storing them, and its ``names`` are None.
    target : ndarray of shape (n_rows,) or (n_rows, n_outputs), default=None
        Labels that the file stores separately from its columns (LIBSVM, NPZ).
    source : str, default="the table"
        Origin of the table, for messages.
    declared : collection of str, default=()
        Names of columns that are categories even if their text looks like numbers or dates.
        Estimators read other text columns as numbers if this is the only possible reading.
    types : mapping of str to str, default={}
        Types of columns, by name, that their values do not show: "datetime", "zoned" (with a time
        zone), "timedelta" or "time" for columns in seconds, and "boolean" for text.

    Examples
    --------
    >>> table = Table({"age": np.array([3.0, 5.0]), "sex": np.array(["f", "m"], dtype=object)})
    >>> table.shape, table.names, table.is_categorical("sex")
    ((2, 2), ('age', 'sex'), True)
    """

    columns: Mapping[str, AnyArray] | None = None
    matrix: Matrix | None = None
    names: Sequence[str] | None = None
    target: AnyArray | None = None
    source: str = "the table"
    declared: Collection[str] = ()
    types: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.columns is None) == (self.matrix is None):
            raise InputError("Table needs exactly one of columns and matrix.")
        # The dataclass is frozen, so attributes are set by object.__setattr__.
        if self.columns is not None:
            kinds = {name: np.asarray(values).dtype.kind for name, values in self.columns.items()}
            known = {name: _TYPES[kind] for name, kind in kinds.items() if kind in _TYPES}
            object.__setattr__(self, "types", {**known, **self.types})
            object.__setattr__(
                self, "columns", {k: _convert_column(v) for k, v in self.columns.items()}
            )
            names: tuple[str, ...] | None = tuple(self.columns)
        else:
            matrix = _convert_matrix(self._numbers)
            object.__setattr__(self, "matrix", matrix)
            names = tuple(self.names) if self.names is not None else None
            if names is None and not sparse.issparse(matrix):
                names = tuple(f"x{j + 1}" for j in range(matrix.shape[1]))
        object.__setattr__(self, "names", names)
        if self.columns is not None and len({len(v) for v in self.columns.values()}) != 1:
            raise InputError(f"{self.source}: the columns must be of one length, at least one.")
        if self.names is not None and len(self.names) != self.shape[1]:
            counts = f"{len(self.names)} names for {self.shape[1]} columns"
            raise InputError(f"{self.source}: {counts}; give one name per column.")
        if self.names is not None and len(set(self.names)) != len(self.names):
            raise InputError(f"{self.source}: column names must differ from each other.")
        if self.target is not None and len(self.target) != self.shape[0]:
            counts = f"{len(self.target)} labels for {self.shape[0]} rows"
            raise InputError(f"{self.source}: {counts}; give one label per row.")

    def __repr__(self) -> str:
        kind = "columns" if self.columns is not None else type(self.matrix).__name__
        return f"Table({self.shape[0]:,} x {self.shape[1]:,}, {kind}, from {self.source})"

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> AnyArray:
        """Return all columns as one array, of objects if any column is text."""
        columns = [self.column(j) for j in range(self.shape[1])]
        return np.asarray(np.column_stack(columns), dtype)

    def __getitem__(self, rows: slice | AnyArray | tuple[slice | AnyArray, EllipsisType]) -> Table:
        """Return some rows, as scikit-learn indexes tables."""
        return self.take_rows(rows[0] if isinstance(rows, tuple) else rows)

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns, without a separate target."""
        if self.columns is not None:
            return len(next(iter(self.columns.values()), ())), len(self.columns)
        return int(self._numbers.shape[0]), int(self._numbers.shape[1])

    @property
    def _numbers(self) -> Matrix:
        return cast(Matrix, self.matrix)

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of the text, boolean and categorical columns."""
        if self.columns is None:
            return ()
        return tuple(name for name, values in self.columns.items() if values.dtype.kind == "O")

    def is_categorical(self, name: str) -> bool:
        """Return whether a column holds text, booleans or categories."""
        self.index_of(name)
        return self.columns is not None and self.columns[name].dtype.kind == "O"

    def column(self, name: str | int) -> AnyArray:
        """Return the column with a name or position (negative from the end) as a dense array.

        No copy is made if the table is dense. Raises ``InputError`` if there is no such column.

        Examples
        --------
        >>> Table(matrix=np.eye(2)).column("x2")
        array([0., 1.])
        """
        index = self.index_of(name)
        if self.columns is not None:
            return self.columns[self._name(index)]
        # A slice of a sparse matrix takes less memory than a list of one column.
        column = self._numbers[:, index : index + 1]
        dense = column.toarray() if isinstance(column, sparse.csr_matrix) else column
        return dense[:, 0]

    def index_of(self, name: str | int) -> int:
        """Return the position of a column; raise ``InputError`` if it does not exist."""
        width = self.shape[1]
        if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
            if -width <= name < width:
                return int(name) % width
        elif isinstance(name, str) and name in self._positions:
            return self._positions[name]
        elif self.names is None and re.fullmatch(r"x[1-9]\d{0,9}", str(name)):
            index = int(str(name)[1:]) - 1
            if index < width:
                return index
        listing = f"x1 to x{width}" if self.names is None else ", ".join(self.names[:20])
        more = f", ... ({width} columns)" if self.names is not None and width > 20 else ""
        raise InputError(f"{self.source} has no column {name!r}; it has {listing}{more}.")

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names or ())}

    def select(self, features: Sequence[str | int] | None = None) -> Matrix | Table:
        """Return columns in the given order, as the input of an estimator.

        Parameters
        ----------
        features : sequence of str or int, default=None
            Names or positions; by default every column.

        Returns
        -------
        ndarray, CSR matrix or Table
            An array or a CSR matrix of shape (n_rows, n_features); a Table if any column is
            categorical or has a type. A whole matrix is not copied.

        Examples
        --------
        >>> Table({"a": np.array([1.0]), "b": np.array([2.0])}).select(["b", "a"])
        array([[2., 1.]])
        """
        if self.columns is None and features is None:
            return self._numbers
        order = self._find_positions(features)
        if self.columns is None:
            is_whole = order == list(range(self.shape[1]))
            return self._numbers if is_whole else self._numbers[:, order]
        table = self._take_columns(order)
        return table if table.types or table.categorical else np.asarray(table)

    def _take_columns(self, positions: Sequence[int]) -> Table:
        names = [self._name(j) for j in positions]
        columns = {name: self.column(name) for name in names}
        types = {name: self.types[name] for name in names if name in self.types}
        return Table(columns, source=self.source, declared=self.declared, types=types)

    def split_target(
        self, target: str | int | None = None, features: Sequence[str | int] | None = None
    ) -> tuple[Matrix | Table, AnyArray, tuple[str, ...] | None]:
        """Split the table into inputs and labels.

        Parameters
        ----------
        target : str, int or None, default=None
            Name or position of the column of labels. The default is the separate target of the
            file; without one, the column called target, label, class or y (in this order, in upper
            or lower case); without one, the last column.
        features : sequence of str or int, default=None
            Columns to keep; by default all but the target.

        Returns
        -------
        X : Table, ndarray or CSR matrix of shape (n_rows, n_features)
            A Table, which estimators match to that of the fit by the names of its columns, or a
            matrix if the file holds one (LIBSVM, NPZ, NPY).
        y : ndarray of shape (n_rows,)
            Numbers, or an object array of str.
        feature_names : tuple of str or None
            None for a sparse matrix without names and without ``features``.

        Examples
        --------
        >>> table = Table({"y": np.array([1.0, 0.0]), "a": np.array([3.0, 4.0])})
        >>> X, y, names = table.split_target()
        >>> X.column("a"), y, names
        (array([3., 4.]), array([1., 0.]), ('a',))
        """
        position = self.target_position(target)
        y = np.asarray(self.target) if position is None else self.column(position)
        if features is None and position is not None and self.shape[1] == 1:
            raise InputError(f"{self.source} has one column only; nothing is left to learn from.")
        if features is None and self.names is None:
            X = self._numbers
            if position is not None:
                X = sparse.hstack([X[:, :position], X[:, position + 1 :]], format="csr")
            return X, y, None
        order = self._find_positions(features)
        if features is None and position is not None:
            order.remove(position)
        if position in order:
            raise InputError(f"The target {self._name(position)!r} is also among the features.")
        X = self.select(order) if self.columns is None else self._take_columns(order)
        return X, y, tuple(map(self._name, order))

    def _find_positions(self, features: Sequence[str | int] | None) -> list[int]:
        if isinstance(features, str):
            raise InputError(f"features must be a list of column names, got {features!r}.")
        wanted = range(self.shape[1]) if features is None else features
        order = [self.index_of(feature) for feature in wanted]
        if not order or len(set(order)) != len(order):
            raise InputError(f"{self.source}: features must name at least one column, each once.")
        return order

    def target_position(self, target: str | int | None) -> int | None:
        """Return the position of the column of labels, or None for a separate target.

        A name such as "target" or "y" also stands for a separate target if no column has it.
        """
        is_separate = target is None
        if isinstance(target, str) and target not in (self.names or ()):
            is_separate = target.lower() in TARGET_NAMES
        if is_separate and self.target is not None:
            return None
        if target is not None:
            return self.index_of(target)
        names = [name.lower() for name in self.names or ()]
        positions = (names.index(name) for name in TARGET_NAMES if name in names)
        return next(positions, self.shape[1] - 1)

    def target_name(self, target: str | int | None) -> str | None:
        """Return the name of the column of labels, or None for a separate target."""
        position = self.target_position(target)
        return None if position is None else self._name(position)

    def _name(self, index: int) -> str:
        return f"x{index + 1}" if self.names is None else self.names[index]

    def take_rows(self, rows: slice | AnyArray) -> Table:
        """Return the rows of a slice, an array of positions or a mask as a new table."""
        target = None if self.target is None else self.target[rows]
        if self.columns is not None:
            columns = {name: values[rows] for name, values in self.columns.items()}
            return replace(self, columns=columns, target=target)
        matrix = self._numbers[rows]
        return Table(matrix=matrix, names=self.names, target=target, source=self.source)


def take_rows(X: T, rows: AnyArray) -> T:
    """Return the rows at some positions of a table of any kind."""
    if isinstance(X, Table | RowTable):
        return cast(T, X.take_rows(rows))
    return cast(T, _safe_indexing(X, rows))


def with_text(table: Table, categorical: Sequence[str]) -> Table:
    """Return a table in which the ``categorical`` columns are text, even if they hold numbers."""
    columns = {name: table.column(name) for name in table.names or ()}
    for name in categorical:
        if name not in columns:
            names = ", ".join([*columns][:20])
            raise InputError(
                f"{table.source} has no column {name!r} to take as text; it has {names}."
            )
        column = columns[name]
        # From 2^53 on, float64 does not hold every integer.
        if column.dtype.kind == "f" and bool((np.abs(column) >= 2**53).any()):
            raise InputError(
                f"{table.source}: column {name!r} holds numbers beyond 2^53, which are rounded "
                "when they are read; write the column as text."
            )
        plain = PlainColumn(column, table.types.get(name, "category"))
        columns[name] = np.array([*plain.category_labels(), None], dtype=object)[:-1]
    declared = {*table.declared, *categorical}
    types = {name: type_ for name, type_ in table.types.items() if name not in categorical}
    return Table(columns, target=table.target, source=table.source, declared=declared, types=types)


def _convert_column(values: AnyArray) -> AnyArray:
    values = np.asarray(values)
    if values.ndim != 1:
        raise InputError(f"A column must be one-dimensional, got shape {values.shape}.")
    if values.dtype.kind in "iuf":
        return as_floats(values)
    if values.dtype.kind == "b":
        return values.astype(str).astype(object)
    if values.dtype.kind in "mM":
        return plain_column("", values).values
    return values.astype(object)


def _convert_matrix(matrix: Matrix) -> Matrix:
    if sparse.issparse(matrix):
        rows = sparse.csr_matrix(matrix)
        rows.sort_indices()
        rows.data = as_floats(rows.data)
        return rows
    dense = np.asarray(matrix)
    if dense.ndim != 2 or dense.dtype.kind not in "biuf":
        raise InputError(f"A matrix of numbers is needed, got {dense.dtype} of {dense.ndim} axes.")
    return as_floats(dense)
