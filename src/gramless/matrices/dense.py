"""Dense features, such as Fourier features, stored as an array."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.arrays import positions_of
from gramless.base.errors import InputError
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray
from gramless.matrices.base import Rows, Vector
from gramless.matrices.chunked import ChunkedMatrix, matvec_of, max_partial_sums, rmatvec_of

_COPIED_NUMBERS = 1 << 18  # numbers that a task copies
# Products with one output are divided into tasks of about so many numbers and a multiple of so many
# rows. Larger tasks would leave threads without work; smaller ones wait for the interpreter.
_TASK_NUMBERS, _TASK_ROWS = 1 << 20, 1 << 9


class DenseMatrix(ChunkedMatrix):
    """A matrix stored as an array.

    Parameters
    ----------
    array : array (n_rows, n_columns) of float64 or float32
        The entries. The array is not copied.
    n_jobs : int, optional
        Number of threads; None means every processor.

    Examples
    --------
    >>> DenseMatrix(np.eye(2)).matvec(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    # Stored chunks cost nothing to read, and shorter ones keep all threads busy with few rows.
    most_chunk_rows: ClassVar[int] = 512

    def __init__(self, array: NDArray[np.floating], n_jobs: int | None = None) -> None:
        array = np.asarray(array)
        if array.ndim != 2 or array.dtype not in (np.float64, np.float32):
            got = f"{array.ndim}-D {array.dtype}"
            raise InputError(f"DenseMatrix: needs a 2-D array of float64 or float32, got {got}.")
        self.array, self.n_jobs = array, n_jobs

    @property
    def shape(self) -> tuple[int, int]:
        n_rows, n_columns = self.array.shape
        return n_rows, n_columns

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return self.array.dtype

    def chunk(self, start: int, stop: int, scratch: AnyArray | None = None) -> AnyArray:
        return self.array[start:stop]

    def _matvec(self, w: Vector, out: Vector) -> None:
        if not self._keeps_type(w):
            super()._matvec(w, out)
            return

        def multiply(start: int, stop: int) -> None:
            out[start:stop] = matvec_of(self.array[start:stop], w)

        map_blocks(multiply, self._tasks(), self.n_jobs)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        if not self._keeps_type(v):
            super()._rmatvec(v, out)
            return

        def add_up(start: int, stop: int) -> Vector:
            return rmatvec_of(self.array[start:stop], v[start:stop])

        out[...] = 0.0
        for sums in map_blocks(add_up, self._tasks(), self.n_jobs):
            out += sums

    def _keeps_type(self, vector: Vector) -> bool:
        """Return whether loops convert the array in registers: float32 and one output."""
        is_single = self.dtype == np.float32 and self.array.flags.c_contiguous
        return is_single and vector.size == len(vector)

    def _tasks(self) -> list[tuple[int, int]]:
        n_rows, n_columns = self.shape
        min_rows = -(-n_rows // max_partial_sums(n_columns))
        task_rows = max(_TASK_NUMBERS // max(1, n_columns), min_rows)
        return row_blocks(n_rows, -(-task_rows // _TASK_ROWS) * _TASK_ROWS)

    def take_rows(self, rows: Rows) -> DenseMatrix:
        return DenseMatrix(take_array_rows(self.array, rows, self.n_jobs), self.n_jobs)


def take_array_rows(array: AnyArray, rows: Rows, n_jobs: int | None) -> AnyArray:
    """Return the selected rows of an array (n_rows, n_columns), copied in parallel."""
    if isinstance(rows, slice):
        return array[rows]
    numbers, n_columns = positions_of(rows), max(1, array.shape[1])
    result = np.empty((len(numbers), array.shape[1]), array.dtype)

    def take(first: int, last: int) -> None:
        result[first:last] = array.take(numbers[first:last], axis=0)

    map_blocks(take, row_blocks(len(numbers), max(1, _COPIED_NUMBERS // n_columns)), n_jobs)
    return result
