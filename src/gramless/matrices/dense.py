"""Features without zeros, such as Fourier features, stored as they are."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gramless.base.errors import InputError
from gramless.base.lazy_rows import numbers_of
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray
from gramless.matrices.base import Rows, Vector
from gramless.matrices.chunked import ChunkedMatrix, matvec_of, most_totals, rmatvec_of

_TAKEN_NUMBERS = 1 << 18
"""Numbers that are copied at a time."""
_TASK_NUMBERS, _TASK_ROWS = 1 << 20, 1 << 9
"""Of a product with one output a thread takes so many numbers at once, and a multiple of so many
rows: while it waits for the interpreter, others multiply."""


class DenseMatrix(ChunkedMatrix):
    """A matrix stored as an array.

    Parameters
    ----------
    array : array (n_rows, n_columns) of float64 or float32
        It is not copied.
    n_jobs : int, optional
        Number of threads; None means every processor.

    Examples
    --------
    >>> DenseMatrix(np.eye(2)).matvec(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    # They are not computed: more tasks let few rows keep all threads busy.
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
        if not self._is_read_as_it_is(w):
            super()._matvec(w, out)
            return

        def multiply(start: int, stop: int) -> None:
            out[start:stop] = matvec_of(self.array[start:stop], w)

        map_blocks(multiply, self._tasks(), self.n_jobs)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        if not self._is_read_as_it_is(v):
            super()._rmatvec(v, out)
            return

        def add_up(start: int, stop: int) -> Vector:
            return rmatvec_of(self.array[start:stop], v[start:stop])

        out[...] = 0.0
        for sums in map_blocks(add_up, self._tasks(), self.n_jobs):
            out += sums

    def _is_read_as_it_is(self, vector: Vector) -> bool:
        """Tell whether loops widen single precision in registers: for one output."""
        is_single = self.dtype == np.float32 and self.array.flags.c_contiguous
        return is_single and vector.size == len(vector)

    def _tasks(self) -> list[tuple[int, int]]:
        n_rows, n_columns = self.shape
        wanted = max(_TASK_NUMBERS // max(1, n_columns), -(-n_rows // most_totals(n_columns)))
        return row_blocks(n_rows, -(-wanted // _TASK_ROWS) * _TASK_ROWS)

    def take_rows(self, rows: Rows) -> DenseMatrix:
        return DenseMatrix(taken_rows(self.array, rows, self.n_jobs), self.n_jobs)


def taken_rows(array: AnyArray, rows: Rows, n_jobs: int | None) -> AnyArray:
    """Return some rows of an array (n_rows, n_columns), in parallel where they are copied."""
    if isinstance(rows, slice):
        return array[rows]
    numbers, n_columns = numbers_of(rows), max(1, array.shape[1])
    found = np.empty((len(numbers), array.shape[1]), array.dtype)

    def take(first: int, last: int) -> None:
        found[first:last] = array.take(numbers[first:last], axis=0)

    map_blocks(take, row_blocks(len(numbers), max(1, _TAKEN_NUMBERS // n_columns)), n_jobs)
    return found
