"""What matrices of bins share: a bin number per grid and row, (n_grids, n_rows)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.arrays import padded_rows
from gramless.base.errors import InputError
from gramless.base.lazy_rows import numbers_of
from gramless.base.threads import map_blocks, row_blocks, thread_count
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.matrices.base import ColumnBlock, FeatureMatrix, Rows

_CODE_BYTES, _INPUT_BYTES, _TABLE_BYTES = 2, 56, 24_000
"""Measured bytes of a grid: for each row, for each input, and for its tables."""
_ALIGNED_ROWS = 32
"""Threads take multiples of so many rows, so that their codes start on a cache line."""
_TAKEN_NUMBERS = 1 << 18
_FEW = 8


@dataclass(frozen=True)
class TaskSizes:
    """Sizes of the tasks into which work on bins is cut.

    Only ``leaf_grids`` can change the last bits of sums.

    Parameters
    ----------
    nonzeros : int, default=2**18
        Non-zeros that are not worth a second thread.
    grids_nonzeros : int, default=2**20
        Non-zeros of a task over grids if every thread gets one: threads wait for the interpreter
        between tasks.
    rows : int, default=2**17
        Rows of a task at most: the results of more would not stay in the cache.
    leaf_grids : int, default=128
        Number of grids whose weights are added in sequence; those of more are added by halves.
    shared_bytes : int, default=2**21
        Bytes of weights up to which all threads read all weights; beyond, threads share the grids.
    part_rows : int, default=2**15
        Rows of a part of the lists of the rows of each bin.
    most_parts : int, default=16
        Number of such parts at most, a power of two.

    Examples
    --------
    >>> TaskSizes(leaf_grids=64).leaf_grids
    64
    """

    nonzeros: int = 1 << 18
    grids_nonzeros: int = 1 << 20
    rows: int = 1 << 17
    leaf_grids: int = 128
    shared_bytes: int = 1 << 21
    part_rows: int = 1 << 15
    most_parts: int = 16


class CodedMatrix(FeatureMatrix):
    """A matrix with at most one non-zero per grid and row, in the column of the row's bin."""

    codes: NDArray[np.unsignedinteger]
    offsets: IntArray
    scale: float
    tasks: TaskSizes

    def _check_codes(self, codes: NDArray[np.unsignedinteger]) -> None:
        name = type(self).__name__
        if codes.ndim != 2 or codes.dtype not in (np.uint8, np.uint16, np.uint32):
            got = f"{codes.ndim}-D {codes.dtype}"
            raise InputError(f"{name}: codes must be 2-D of uint8, uint16 or uint32, got {got}.")
        n, given = len(codes), self.offsets.shape
        if given != (n + 1,):
            raise InputError(f"{name}: {n} grids need {n + 1} offsets, got shape {given}.")

    @property
    def shape(self) -> tuple[int, int]:
        return self.codes.shape[1], int(self.offsets[-1])

    @property
    def n_grids(self) -> int:
        """Number of grids: non-zeros per row."""
        return self.codes.shape[0]

    def blocks(self) -> Iterator[ColumnBlock]:
        for r in range(self.n_grids):
            start, stop = int(self.offsets[r]), int(self.offsets[r + 1])
            yield ColumnBlock(start, stop, self._grid(r, np.array([0, stop - start])))

    @abstractmethod
    def _grid(self, r: int, offsets: IntArray) -> FeatureMatrix:
        """Return the matrix of one grid."""

    def _csr(self, is_nonzero: BoolArray, values: FloatArray) -> sp.csr_array:
        """Return SciPy's CSR, given which of (n_rows, n_grids) are non-zeros, and their values."""
        columns = self.codes.T.astype(np.int64) + (self.offsets[:-1] - 1)
        indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(is_nonzero, axis=1))])
        index = np.int32 if max(int(indptr[-1]), self.shape[1]) < 2**31 else np.int64
        parts = values, columns[is_nonzero].astype(index), indptr.astype(index)
        return sp.csr_array(parts, shape=self.shape)

    def _task_rows(self, n_columns: int, n_shares: int = 1) -> int:
        """Return how many rows a thread takes at once, so that no thread idles."""
        # Each pass over a few grids reads all their weights again, so long runs of rows pay as long
        # as their results stay in the cache.
        n_rows = self.shape[0]
        if n_rows * self.n_grids * n_columns < self.tasks.nonzeros:
            return max(1, n_rows)
        threads = -(-thread_count(self.n_jobs) // n_shares)
        rounds = -(-n_rows // (threads * self.tasks.rows))
        return -(-n_rows // (threads * rounds * _ALIGNED_ROWS)) * _ALIGNED_ROWS

    def _over_grids(
        self, work: Callable[[int, int], None], n_grids: int, n_columns: int, per_pass: int
    ) -> None:
        """Map work over runs of grids: as many as a loop takes in one pass, or a multiple.

        One thread takes all at once.
        """
        n_threads, per_grid = thread_count(self.n_jobs), max(1, self.shape[0] * n_columns)
        most = min(self.tasks.grids_nonzeros // per_grid, -(-n_grids // n_threads))
        if n_threads == 1 or n_grids * per_grid < self.tasks.nonzeros:
            most = n_grids
        map_blocks(work, row_blocks(n_grids, max(per_pass, most - most % per_pass)), self.n_jobs)


def taken(per_grid: AnyArray, rows: Rows, n_jobs: int | None) -> AnyArray:
    """Return some rows of an array (n_grids, n_rows), those of each grid contiguous."""
    # Without a grid, take would not see whether the rows exist.
    if isinstance(rows, slice) or len(per_grid) == 0:
        return per_grid[:, rows]
    numbers = numbers_of(rows)
    result = padded_rows((len(per_grid), len(numbers)), per_grid.dtype)
    # From several grids, which are not contiguous, NumPy copies all rows before it takes any.
    few = _FEW * len(numbers) < per_grid.shape[1]

    def take(a: int, b: int) -> None:
        if few:
            for g in range(a, b):
                result[g] = per_grid[g].take(numbers)
        else:
            # Indexing with an array would interleave the grids: another pass over all of them.
            result[a:b] = np.take(per_grid[a:b], numbers, axis=1)

    grids = max(1, _TAKEN_NUMBERS // max(1, len(numbers)))
    map_blocks(take, row_blocks(len(per_grid), grids), n_jobs)
    return result


def bytes_of_codes(n_rows: int, n_grids: int) -> int:
    """Estimate the bytes of the codes of rows."""
    return _CODE_BYTES * n_rows * n_grids


def bytes_of_grid(n_rows: int, n_inputs: int) -> int:
    """Estimate the bytes that a grid takes while its bins are learned: codes, grid and tables."""
    return _CODE_BYTES * n_rows + _INPUT_BYTES * n_inputs + _TABLE_BYTES
