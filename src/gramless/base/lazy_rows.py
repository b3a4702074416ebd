"""Dense rows that are read or computed on demand, a block at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray, BoolArray, IntArray

_NUMBERS_AT_ONCE = 1 << 21

RowKey: TypeAlias = slice | IntArray | BoolArray
Columns: TypeAlias = int | slice | Sequence[int] | IntArray | BoolArray


class LazyRows(ABC):
    """A matrix (n_rows, n_columns) whose rows are read on demand.

    Indexing works as with arrays and returns arrays: ``rows[a:b]``, ``rows[positions]``,
    ``rows[mask]``, and ``rows[:, j]``, which reads all rows a block at a time. A subclass sets
    ``shape`` and ``dtype``, and defines :meth:`read`.
    """

    ndim = 2
    shape: tuple[int, int]
    dtype: np.dtype[np.generic]

    @abstractmethod
    def read(self, rows: slice | IntArray) -> AnyArray:
        """Return a slice of the rows with a step of 1, or the rows at non-negative positions."""

    def read_columns(self, columns: Columns) -> AnyArray:
        """Return some columns of all rows."""
        blocks = self.row_blocks() or [(0, 0)]
        return np.concatenate([self.read(slice(a, b))[:, columns] for a, b in blocks])

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: RowKey | tuple[RowKey, Columns]) -> AnyArray:
        rows, columns = key if isinstance(key, tuple) else (key, None)
        if columns is None:
            return self.read(self._positions(rows))
        if not isinstance(rows, slice) or rows != slice(None):
            return self.read(self._positions(rows))[:, columns]
        return self.read_columns(columns)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> AnyArray:
        """Return all rows."""
        return np.asarray(self.read(slice(0, len(self))), dtype)

    def row_blocks(self) -> list[tuple[int, int]]:
        """Return ``(start, stop)`` of blocks of a good size for reading."""
        return row_blocks(len(self), max(1, _NUMBERS_AT_ONCE // max(1, self.shape[1])))

    def _positions(self, rows: slice | IntArray | BoolArray) -> slice | IntArray:
        if isinstance(rows, slice):
            first, last, step = rows.indices(len(self))
            return slice(first, max(first, last)) if step == 1 else np.arange(first, last, step)
        return numbers_of(rows)


class OrderedRows(LazyRows):
    """Selected rows of an array or of other lazy rows, transformed when they are read.

    Parameters
    ----------
    rows : array or LazyRows
    order : array of int or slice, optional
        The positions of the rows; all rows by default.
    transform : callable, optional
        Is called with each block that is read, and returns a block of the given width and dtype.
    width : int, optional
        Number of columns of transformed rows, by default that of ``rows``.
    dtype : dtype, optional
        Type of transformed rows, by default that of ``rows``.
    """

    def __init__(
        self,
        rows: AnyArray | LazyRows,
        order: IntArray | slice = slice(None),
        transform: Callable[[AnyArray], AnyArray] | None = None,
        width: int | None = None,
        dtype: np.dtype[np.generic] | None = None,
    ) -> None:
        self._rows, self._transform = rows, transform
        self._order: IntArray | None = None
        if not isinstance(order, slice):
            self._order = order
        elif order != slice(None):
            self._order = np.arange(len(rows))[order]
        self.shape = (
            len(rows) if self._order is None else len(self._order),
            rows.shape[1] if width is None else width,
        )
        self.dtype = rows.dtype if dtype is None else dtype

    def read(self, rows: slice | IntArray) -> AnyArray:
        block = self._rows[rows if self._order is None else self._order[rows]]
        return block if self._transform is None else self._transform(block)


def take_rows(rows: Any, selection: IntArray | BoolArray) -> Any:
    """Return the rows at some positions or in a mask; lazy rows stay lazy."""
    if isinstance(rows, LazyRows):
        return OrderedRows(rows, numbers_of(selection))
    return rows[selection]


def numbers_of(selection: NDArray[np.integer] | BoolArray) -> IntArray:
    """Return the positions of rows, which may be given as a mask."""
    is_mask = selection.dtype == bool
    return np.flatnonzero(selection) if is_mask else np.asarray(selection, np.int64)
