"""Base classes of matrices of bins, which store one bin number (code) per grid and row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.arrays import padded_rows, positions_of, readonly
from gramless.base.errors import InputError
from gramless.base.threads import map_blocks, row_blocks, thread_count
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray
from gramless.loops.gather import add_row_products
from gramless.matrices.base import ColumnBlock, FeatureMatrix, Rows, Vector

# Measured bytes that a grid takes: per row, per input, and for its tables.
_CODE_BYTES, _INPUT_BYTES, _TABLE_BYTES = 2, 56, 24_000
_ALIGNED_ROWS = 32  # tasks of a multiple of these rows start on a cache line
_COPIED_CODES = 1 << 18  # codes that a task copies
_SPARSE_SELECTION = 8  # with fewer than 1/8 of the rows, grids are copied one by one
_PASS_GRIDS = 4  # grids that one pass over the rows sums in ``row_products``
# Row products are added up in at most _MAX_PARTS partial sums, which take at most _PARTS_BYTES in
# single precision and twice as much in double precision.
_MAX_PARTS, _PARTS_BYTES = 8, 1 << 26
_TASK_NUMBERS = 1 << 14  # numbers of partial sums that a task adds up

# Flat codes of some grids, the stride from one grid to the next, the number of bins of each grid,
# and the first and the last (exclusive) of the grids to use.
CodePiece = tuple[NDArray[np.unsignedinteger], int, IntArray, int, int]


@dataclass(frozen=True)
class TaskSizes:
    """Sizes of the tasks into which threads divide work on bins.

    ``leaf_grids`` can change the last bits of products; ``part_rows`` and ``most_parts`` can change
    those of coordinate descent over grids. No other size changes results.

    Parameters
    ----------
    nonzeros : int, default=2**18
        Matrices with fewer non-zeros are multiplied in one thread.
    grids_nonzeros : int, default=2**20
        Maximum number of non-zeros of a task over grids. Larger tasks wait less often for the
        interpreter; smaller ones spread more evenly over the threads.
    rows : int, default=2**17
        Maximum number of rows of a task. The results of more rows would not stay in the cache.
    leaf_grids : int, default=128
        Number of grids whose weights are added in sequence. Sums over more grids are split into
        halves, recursively (pairwise summation).
    shared_bytes : int, default=2**21
        If the weights take fewer bytes, every thread reads all of them. Otherwise the grids are
        divided among the threads.
    part_rows : int, default=2**15
        Number of rows of a part of the lists of the rows of each bin.
    most_parts : int, default=16
        Maximum number of such parts, a power of two.

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

    def _check_codes(self, *parts: NDArray[np.unsignedinteger]) -> None:
        name = type(self).__name__
        for codes in parts:
            if codes.ndim != 2 or codes.dtype not in (np.uint8, np.uint16, np.uint32):
                got = f"{codes.ndim}-D {codes.dtype}"
                raise InputError(
                    f"{name}: codes must be 2-D of uint8, uint16 or uint32, got {got}."
                )
        self._n_rows = parts[0].shape[1]
        n, shape = sum(map(len, parts)), self.offsets.shape
        if shape != (n + 1,):
            raise InputError(f"{name}: {n} grids need {n + 1} offsets, got shape {shape}.")

    @property
    def shape(self) -> tuple[int, int]:
        return self._n_rows, int(self.offsets[-1])

    @property
    def n_grids(self) -> int:
        """Number of grids, which is the number of non-zeros per row."""
        return len(self.offsets) - 1

    def blocks(self) -> Iterator[ColumnBlock]:
        for r in range(self.n_grids):
            start, stop = int(self.offsets[r]), int(self.offsets[r + 1])
            yield ColumnBlock(start, stop, self._grid(r, np.array([0, stop - start])))

    @abstractmethod
    def _grid(self, r: int, offsets: IntArray) -> FeatureMatrix:
        """Return the matrix of grid ``r``, with ``offsets`` (2,) counted from its first column."""

    def _csr(self, is_nonzero: BoolArray, values: FloatArray) -> sp.csr_array:
        """Return the matrix as CSR, given the mask (n_rows, n_grids) and values of non-zeros."""
        columns = self.codes.T.astype(np.int64) + (self.offsets[:-1] - 1)
        indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(is_nonzero, axis=1))])
        index = np.int32 if max(int(indptr[-1]), self.shape[1]) < 2**31 else np.int64
        parts = values, columns[is_nonzero].astype(index), indptr.astype(index)
        return sp.csr_array(parts, shape=self.shape)

    def _task_rows(self, n_columns: int, n_runs: int = 1) -> int:
        """Return the number of rows per task, so that all threads have about equal work.

        Each block of rows is processed by ``n_runs`` tasks, one for each run of the grids.
        """
        # Each task reads the weights of all grids again, so tasks have as many rows as the cache
        # can hold results.
        n_rows = self.shape[0]
        if n_rows * self.n_grids * n_columns < self.tasks.nonzeros:
            return max(1, n_rows)
        n_threads = -(-thread_count(self.n_jobs) // n_runs)
        n_rounds = -(-n_rows // (n_threads * self.tasks.rows))
        return -(-n_rows // (n_threads * n_rounds * _ALIGNED_ROWS)) * _ALIGNED_ROWS

    def _map_grids(
        self, work: Callable[[int, int], None], n_grids: int, n_columns: int, per_pass: int
    ) -> None:
        """Call ``work(first, last)`` for runs of grids, in parallel.

        Each run except the last has a multiple of ``per_pass`` grids, the number that a compiled
        loop adds up in one pass over the rows.
        """
        n_threads, per_grid = thread_count(self.n_jobs), max(1, self.shape[0] * n_columns)
        size = min(self.tasks.grids_nonzeros // per_grid, -(-n_grids // n_threads))
        if n_threads == 1 or n_grids * per_grid < self.tasks.nonzeros:
            size = n_grids
        map_blocks(work, row_blocks(n_grids, max(per_pass, size - size % per_pass)), self.n_jobs)


class PlainBins(FeatureMatrix):
    """Base class of matrices of bins whose non-zeros all have the value ``scale``."""

    offsets: IntArray
    scale: float

    @property
    def has_row_lists(self) -> bool:
        return True

    @property
    def has_row_products(self) -> bool:
        return True

    @property
    def n_grids(self) -> int:
        return len(self.offsets) - 1

    @abstractmethod
    def bin_counts(self) -> FloatArray:
        """Return the exact number of rows in each bin."""

    @abstractmethod
    def take_rows(self, rows: Rows) -> PlainBins: ...

    @abstractmethod
    def loaded(self) -> CodedMatrix:
        """Return the same matrix in memory."""

    def row_products(
        self, v: Vector, rows: NDArray[np.intp] | None = None, *, single: bool = False
    ) -> Vector:
        """Return ``Z @ Z[rows].T @ v``, computed by sums over the bins of four grids at a time."""
        n_rows, n_columns = self.shape[0], v.shape[1]
        dtype: type[np.floating] = np.float32 if single else np.float64
        width, selected = -(-n_columns // 4) * 4, np.arange(n_rows) if rows is None else rows
        values = np.zeros((len(v), width), dtype)
        values[:, :n_columns] = v * self.scale**2
        values, max_bins = readonly(values), int(np.diff(self.offsets).max(initial=0))
        sums_size = _PASS_GRIDS * (max_bins + 1) * width
        n_parts = _PARTS_BYTES // max(1, 4 * n_rows * width)

        def add_up(first: int, last: int) -> FloatArray:
            out, sums = np.zeros((n_rows, width), dtype), np.empty(sums_size, dtype)
            for piece in self._code_pieces(first, last):
                add_row_products(*piece, selected, values, sums, out)
            return out

        n_passes = -(-self.n_grids // (_PASS_GRIDS * min(max(1, n_parts), _MAX_PARTS)))
        # Groups of grids must not depend on where codes are stored, so that sums are the same.
        blocks = row_blocks(self.n_grids, _PASS_GRIDS * max(1, n_passes)) or [(0, 0)]
        parts = map_blocks(add_up, blocks, self.n_jobs)
        result = np.empty((n_rows, n_columns))

        def join(first: int, last: int) -> None:
            total = parts[0][first:last]
            for part in parts[1:]:
                total += part[first:last]
            result[first:last] = total[:, :n_columns]

        map_blocks(join, row_blocks(n_rows, max(1, _TASK_NUMBERS // width)), self.n_jobs)
        return result

    @abstractmethod
    def _code_pieces(self, first: int, last: int) -> Iterator[CodePiece]:
        """Yield codes of grids ``first:last``, a multiple of four per piece except the last."""

    @abstractmethod
    def first_grids(self, n_grids: int) -> PlainBins: ...


def take_grid_rows(per_grid: AnyArray, rows: Rows, n_jobs: int | None) -> AnyArray:
    """Return the selected rows of an array (n_grids, n_rows), contiguous within each grid."""
    # Without grids, ``take`` would not raise an error if a row does not exist.
    if isinstance(rows, slice) or len(per_grid) == 0:
        return per_grid[:, rows]
    positions = positions_of(rows)
    result = padded_rows((len(per_grid), len(positions)), per_grid.dtype)
    # ``np.take`` of several grids copies all their rows first, because they are not contiguous.
    is_sparse = _SPARSE_SELECTION * len(positions) < per_grid.shape[1]

    def take(a: int, b: int) -> None:
        if is_sparse:
            for g in range(a, b):
                result[g] = per_grid[g].take(positions)
        else:
            # Indexing with an array would interleave the grids, and undoing that costs a pass.
            result[a:b] = np.take(per_grid[a:b], positions, axis=1)

    n_grids = max(1, _COPIED_CODES // max(1, len(positions)))
    map_blocks(take, row_blocks(len(per_grid), n_grids), n_jobs)
    return result


def bytes_of_codes(n_rows: int, n_grids: int) -> int:
    """Return an estimate of the bytes of the codes of all grids."""
    return _CODE_BYTES * n_rows * n_grids


def bytes_of_grid(n_rows: int, n_inputs: int) -> int:
    """Return an estimate of the bytes of one grid, its codes and its tables during training."""
    return _CODE_BYTES * n_rows + _INPUT_BYTES * n_inputs + _TABLE_BYTES
