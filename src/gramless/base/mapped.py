"""Arrays on a disk, of which a process holds a few blocks of rows at a time.

They are mapped into memory, and the pages of a block are given back once it has been used. The
system keeps them in its cache while there is room, so that the next pass need not read the disk.
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

_LEFT_FREE = 0.95
"""Of the free part of a disk, what a file may take."""


class BlockFile:
    """A temporary file of columns (n_columns, n_rows), written a block of rows after the other.

    It has no name, so that the system removes it however the process ends. ``what`` it holds and
    ``advice`` are for messages; ``n_bytes`` are refused where the disk has less.
    """

    def __init__(self, what: str, advice: str, n_bytes: float = 0) -> None:
        self._what = what
        try:
            place = tempfile.gettempdir()
            free = shutil.disk_usage(place).free
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="gramless-")  # noqa: SIM115
        except OSError as fault:
            raise DataFileError(
                f"{what} cannot be written to a temporary file ({reason_of(fault)}): name a folder "
                f"by the environment variable TMPDIR, or {advice}."
            ) from fault
        self._advice = (
            f"in {place!r}: name another folder by the environment variable TMPDIR, or {advice}"
        )
        if n_bytes > _LEFT_FREE * free:
            raise DataFileError(
                f"{what} would take {sized(int(n_bytes))} of the disk, and {sized(free)} are free "
                f"{self._advice}."
            )
        self._places: list[tuple[int, tuple[int, int], np.dtype[np.generic], int]] = []
        self._end = 0

    def append(self, columns: AnyArray) -> None:
        """Write the next rows."""
        padded = padded_rows(columns.shape, columns.dtype)
        whole = padded if padded.base is None else padded.base
        whole[:, columns.shape[1] :] = 0
        padded[...] = columns
        self._places.append((self._end, whole.shape, columns.dtype, columns.shape[1]))
        self._end += -(-whole.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            self._file.write(whole.data)
            self._file.seek(self._end)
        except OSError as fault:
            raise DataFileError(
                f"{self._what} cannot be written ({fault.strerror}) {self._advice}."
            ) from fault

    def blocks(self) -> list[MappedBlock]:
        """Return what was written, mapped into memory; nothing can be added any more."""
        self._file.truncate(max(self._end, 1))
        content = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self._file.close()
        return [
            MappedBlock(content, place, shape, dtype, 0, n_rows)
            for place, shape, dtype, n_rows in self._places
        ]


@dataclass(frozen=True)
class MappedBlock:
    """Some rows in a mapped file: columns ``first:last`` of a stored array."""

    content: mmap.mmap
    place: int
    stored: tuple[int, int]
    dtype: np.dtype[np.generic]
    first: int
    last: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.last - self.first

    @property
    def columns(self) -> AnyArray:
        """The numbers (n_columns, n_rows), read-only, as they lie in the file."""
        size = self.stored[0] * self.stored[1]
        whole = np.frombuffer(self.content, self.dtype, size, self.place)
        return whole.reshape(self.stored)[:, self.first : self.last]

    def part(self, first: int, last: int) -> MappedBlock:
        """Return some of the rows."""
        return replace(self, first=self.first + first, last=self.first + last)

    def forget(self) -> None:
        """Let the process hold no page of the block."""
        n_bytes = self.stored[0] * self.stored[1] * self.dtype.itemsize
        _forget(self.content, self.place, n_bytes)


class MappedRows(LazyRows):
    """The rows of a mapped array, such as ``numpy.load`` returns with ``mmap_mode="r"``.

    Rows that were asked for are copied, and the pages that they lie on given back.
    """

    def __init__(self, array: np.memmap[tuple[int, int], np.dtype[np.generic]]) -> None:
        self._array = array.view(np.ndarray)
        self._content = cast(mmap.mmap, array.base)
        self.shape, self.dtype = array.shape, array.dtype

    @staticmethod
    def can_map(array: object) -> TypeGuard[np.memmap[tuple[int, int], np.dtype[np.generic]]]:
        """Tell whether an array is the whole of a mapped file's array, with what the file holds."""
        if not isinstance(array, np.memmap) or array.ndim != 2 or array.filename is None:
            return False
        # Views have the offset of the array that they are of.
        return isinstance(array.base, mmap.mmap) and array.mode != "c"

    def read(self, rows: slice | IntArray) -> AnyArray:
        if isinstance(rows, slice):
            return self._copied(rows)
        found = np.empty((len(rows), self.shape[1]), self.dtype)
        places = np.argsort(rows, kind="stable")
        starts = [first for first, _ in self.row_blocks()]
        bounds = np.searchsorted(rows[places], [*starts, len(self)])
        for a, b in pairwise(bounds.tolist()):
            if a < b:
                found[places[a:b]] = self._copied(rows[places[a:b]])
        return found

    def read_columns(self, columns: Columns) -> AnyArray:
        if self._array.flags.c_contiguous:
            return super().read_columns(columns)
        return self._copied((slice(None), columns))

    def _copied(self, part: slice | IntArray | tuple[slice, Columns]) -> AnyArray:
        found = np.array(self._array[part])
        _forget(self._content, 0, len(self._content))
        return found


def _forget(content: mmap.mmap, start: int, n_bytes: int) -> None:
    if sys.platform != "win32":
        content.madvise(mmap.MADV_DONTNEED, start, n_bytes)
