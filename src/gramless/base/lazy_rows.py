"""Dense rows that are read or computed when they are asked for, a block at a time."""

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
"""Which rows: a part of them, their numbers or a mask."""
Columns: TypeAlias = int | slice | Sequence[int] | IntArray | BoolArray
"""Which columns; of a single one the values are (n_rows,)."""


class LazyRows(ABC):
    """Rows (n_rows, n_columns) known by a function that returns some of them.

    Indexing returns arrays, as with arrays: ``rows[a:b]``, ``rows[numbers]``, ``rows[mask]``, and
    ``rows[:, j]``, which reads all rows a block at a time. A subclass sets ``shape`` and
    ``dtype``, and gives :meth:`read`.
    """

    ndim = 2
    shape: tuple[int, int]
    dtype: np.dtype[np.generic]

    @abstractmethod
    def read(self, rows: slice | IntArray) -> AnyArray:
        """Return a slice of the rows with a step of 1, or rows by their numbers, from 0 on."""

    def read_columns(self, columns: Columns) -> AnyArray:
        """Return some columns of all rows."""
        blocks = self.row_blocks() or [(0, 0)]
        return np.concatenate([self.read(slice(a, b))[:, columns] for a, b in blocks])

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: RowKey | tuple[RowKey, Columns]) -> AnyArray:
        rows, columns = key if isinstance(key, tuple) else (key, None)
        if columns is None:
            return self.read(self._numbers(rows))
        if not isinstance(rows, slice) or rows != slice(None):
            return self.read(self._numbers(rows))[:, columns]
        return self.read_columns(columns)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> AnyArray:
        """Return all rows."""
        return np.asarray(self.read(slice(0, len(self))), dtype)

    def row_blocks(self) -> list[tuple[int, int]]:
        """Return ``(start, stop)`` of blocks that are worth reading at once."""
        return row_blocks(len(self), max(1, _NUMBERS_AT_ONCE // max(1, self.shape[1])))

    def _numbers(self, rows: slice | IntArray | BoolArray) -> slice | IntArray:
        if isinstance(rows, slice):
            first, last, step = rows.indices(len(self))
            return slice(first, max(first, last)) if step == 1 else np.arange(first, last, step)
        return numbers_of(rows)


class OrderedRows(LazyRows):
    """Rows of an array, or of other lazy rows, in some order, each block transformed when read.

    ``transform`` turns blocks into blocks of the given width and type.
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
        own = self._rows[rows if self._order is None else self._order[rows]]
        return own if self._transform is None else self._transform(own)


def take_rows(rows: Any, chosen: IntArray | BoolArray) -> Any:
    """Return some of the rows; lazy rows stay lazy."""
    return OrderedRows(rows, numbers_of(chosen)) if isinstance(rows, LazyRows) else rows[chosen]


def numbers_of(chosen: NDArray[np.integer] | BoolArray) -> IntArray:
    """Return the numbers of rows that may be given as a mask."""
    return np.flatnonzero(chosen) if chosen.dtype == bool else np.asarray(chosen, np.int64)
