"""Rows that are read or computed on demand, a block at a time, and arrays in files.

Files are mapped into memory, and the pages of a block are released after use. The system keeps them
in its cache while there is room, so that the next pass need not read the disk.
"""

from __future__ import annotations

import mmap
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import IO, Any, TypeAlias, TypeGuard, cast

import numpy as np
from numpy.typing import DTypeLike

from gramless.base.arrays import padded_rows, positions_of
from gramless.base.errors import DataFileError
from gramless.base.files import reason_of
from gramless.base.formatting import format_bytes
from gramless.base.threads import row_blocks
from gramless.base.types import AnyArray, BoolArray, IntArray

_NUMBERS_PER_BLOCK = 1 << 21  # numbers that one block of rows holds
_MAX_DISK_SHARE = 0.95  # fraction of the free disk space that may be used

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
        blocks = self.row_blocks() or [(0, 0)]
        return np.concatenate([self.read(slice(a, b))[:, columns] for a, b in blocks])

    @property
    def size(self) -> int:
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
        return np.asarray(self.read(slice(0, len(self))), dtype)

    def row_blocks(self) -> list[tuple[int, int]]:
        """Return ``(start, stop)`` of blocks of a good size for reading."""
        return row_blocks(len(self), max(1, _NUMBERS_PER_BLOCK // max(1, self.shape[1])))

    def _positions(self, rows: slice | IntArray | BoolArray) -> slice | IntArray:
        if isinstance(rows, slice):
            first, last, step = rows.indices(len(self))
            return slice(first, max(first, last)) if step == 1 else np.arange(first, last, step)
        return positions_of(rows)


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


class MappedRows(LazyRows):
    """The rows of a mapped array, such as ``numpy.load`` returns with ``mmap_mode="r"``.

    Reading copies the rows and releases the pages of the file.
    """

    def __init__(self, array: np.memmap[tuple[int, int], np.dtype[np.generic]]) -> None:
        self._array = array.view(np.ndarray)
        self._content = cast(mmap.mmap, array.base)
        self.shape, self.dtype = array.shape, array.dtype

    @staticmethod
    def can_map(array: object) -> TypeGuard[np.memmap[tuple[int, int], np.dtype[np.generic]]]:
        """Return whether an array is a matrix mapped to a file, and not a view of one.

        An array of mode "c" does not qualify, because its changes are in memory only.
        """
        if not isinstance(array, np.memmap) or array.ndim != 2 or array.filename is None:
            return False
        # The base of a view is another array.
        return isinstance(array.base, mmap.mmap) and array.mode != "c"

    def read(self, rows: slice | IntArray) -> AnyArray:
        if isinstance(rows, slice):
            return self._copy(rows)
        # Rows are read in the order of the file, a block at a time, so that each page is read once.
        result = np.empty((len(rows), self.shape[1]), self.dtype)
        order = np.argsort(rows, kind="stable")
        starts = [first for first, _ in self.row_blocks()]
        bounds = np.searchsorted(rows[order], [*starts, len(self)])
        for a, b in pairwise(bounds.tolist()):
            if a < b:
                result[order[a:b]] = self._copy(rows[order[a:b]])
        return result

    def read_columns(self, columns: Columns) -> AnyArray:
        if self._array.flags.c_contiguous:
            return super().read_columns(columns)
        return self._copy((slice(None), columns))

    def _copy(self, key: slice | IntArray | tuple[slice, Columns]) -> AnyArray:
        result = np.array(self._array[key])
        _release_pages(self._content, 0, len(self._content))
        return result


def take_rows(rows: Any, selection: IntArray | BoolArray) -> Any:
    """Return the rows at some positions or in a mask; lazy rows stay lazy."""
    if isinstance(rows, LazyRows):
        return OrderedRows(rows, positions_of(selection))
    return rows[selection]


class BlockFile:
    """A temporary file of blocks of rows, each stored by columns (n_columns, n_rows).

    The system removes the file even if the process is killed, because it has no name.

    Parameters
    ----------
    what : str
        The name of the content in messages.
    advice : str
        What messages recommend if the disk is too small.
    n_bytes : float, default=0
        The expected size. Raises ``DataFileError`` if it exceeds 95 % of the free disk space.
    """

    def __init__(self, what: str, advice: str, n_bytes: float = 0) -> None:
        self._what = what
        try:
            folder = tempfile.gettempdir()
            free = shutil.disk_usage(folder).free
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="gramless-")  # noqa: SIM115
        except OSError as error:
            raise DataFileError(
                f"{what} cannot be written to a temporary file ({reason_of(error)}): name a folder "
                f"by the environment variable TMPDIR, or {advice}."
            ) from error
        self._advice = (
            f"in {folder!r}: name another folder by the environment variable TMPDIR, or {advice}"
        )
        if n_bytes > _MAX_DISK_SHARE * free:
            raise DataFileError(
                f"{what} would take {format_bytes(int(n_bytes))} of the disk, and "
                f"{format_bytes(free)} are free {self._advice}."
            )
        # Offset in the file, shape with padding, type and number of rows of each block.
        self._entries: list[tuple[int, tuple[int, int], np.dtype[np.generic], int]] = []
        self._end = 0

    def append(self, columns: AnyArray) -> None:
        padded = padded_rows(columns.shape, columns.dtype)
        # The file also holds the padding, which is set to 0, because it is uninitialised.
        whole = padded if padded.base is None else padded.base
        whole[:, columns.shape[1] :] = 0
        padded[...] = columns
        self._entries.append((self._end, whole.shape, columns.dtype, columns.shape[1]))
        # Each block starts on a page, so that its pages can be released.
        self._end += -(-whole.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            self._file.write(whole.data)
            self._file.seek(self._end)
        except OSError as error:
            raise DataFileError(
                f"{self._what} cannot be written ({error.strerror}) {self._advice}."
            ) from error

    def blocks(self) -> list[MappedBlock]:
        """Return the blocks, mapped into memory, and close the file for writing."""
        self._file.truncate(max(self._end, 1))
        content = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self._file.close()
        return [
            MappedBlock(content, offset, shape, dtype, 0, n_rows)
            for offset, shape, dtype, n_rows in self._entries
        ]


@dataclass(frozen=True)
class MappedBlock:
    """A range of rows in a mapped file: columns ``first:last`` of a stored array."""

    content: mmap.mmap
    offset: int  # bytes
    stored: tuple[int, int]  # shape of the stored array, with padding
    dtype: np.dtype[np.generic]
    first: int
    last: int

    @property
    def n_rows(self) -> int:
        return self.last - self.first

    @property
    def columns(self) -> AnyArray:
        """The read-only array (n_columns, n_rows)."""
        size = self.stored[0] * self.stored[1]
        whole = np.frombuffer(self.content, self.dtype, size, self.offset)
        return whole.reshape(self.stored)[:, self.first : self.last]

    def part(self, first: int, last: int) -> MappedBlock:
        """Return the rows ``first:last`` of the block."""
        return replace(self, first=self.first + first, last=self.first + last)

    def release_pages(self) -> None:
        n_bytes = self.stored[0] * self.stored[1] * self.dtype.itemsize
        _release_pages(self.content, self.offset, n_bytes)


def _release_pages(content: mmap.mmap, start: int, n_bytes: int) -> None:
    if sys.platform != "win32":
        content.madvise(mmap.MADV_DONTNEED, start, n_bytes)
