"""Arrays on a disk, of which a process holds a few blocks of rows at a time.

Files are mapped into memory, and the pages of a block are released after use. The system keeps them
in its cache while there is room, so that the next pass need not read the disk.
"""

from __future__ import annotations

import mmap
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import IO, TypeGuard, cast

import numpy as np

from gramless.base.arrays import padded_rows
from gramless.base.errors import DataFileError
from gramless.base.files import reason_of
from gramless.base.formatting import sized
from gramless.base.lazy_rows import Columns, LazyRows
from gramless.base.types import AnyArray, IntArray

_MAX_DISK_SHARE = 0.95  # of the free space


class BlockFile:
    """A temporary file of columns (n_columns, n_rows), written one block of rows after the other.

    The file has no name, so that the system removes it however the process ends.

    Parameters
    ----------
    what : str
        The name of the content in messages.
    advice : str
        What messages recommend if the disk is too small.
    n_bytes : float, default=0
        The expected size. Raises ``DataFileError`` if the disk has less free space.
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
                f"{what} would take {sized(int(n_bytes))} of the disk, and {sized(free)} are free "
                f"{self._advice}."
            )
        # Offset in the file, shape with padding, type and number of rows of each block.
        self._entries: list[tuple[int, tuple[int, int], np.dtype[np.generic], int]] = []
        self._end = 0

    def append(self, columns: AnyArray) -> None:
        """Write the next block of rows."""
        padded = padded_rows(columns.shape, columns.dtype)
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
        """Number of rows."""
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

    def forget(self) -> None:
        """Release the pages of the block."""
        n_bytes = self.stored[0] * self.stored[1] * self.dtype.itemsize
        _release_pages(self.content, self.offset, n_bytes)


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
        """Return whether an array is a whole mapped matrix without changes in memory only."""
        if not isinstance(array, np.memmap) or array.ndim != 2 or array.filename is None:
            return False
        # The base of a view is another array. Mode "c" keeps changes in memory.
        return isinstance(array.base, mmap.mmap) and array.mode != "c"

    def read(self, rows: slice | IntArray) -> AnyArray:
        if isinstance(rows, slice):
            return self._copy(rows)
        # Rows are read in the order of the file, a block at a time.
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


def _release_pages(content: mmap.mmap, start: int, n_bytes: int) -> None:
    if sys.platform != "win32":
        content.madvise(mmap.MADV_DONTNEED, start, n_bytes)
