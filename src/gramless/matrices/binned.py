"""Random binning features: one non-zero per grid and row, stored as a small integer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.arrays import contiguous_rows, empty_on_cache_line, flat_rows, readonly
from gramless.base.errors import InputError
from gramless.base.threads import map_blocks, row_blocks, thread_count
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.loops import gather as loops
from gramless.loops.row_lists import last_rows
from gramless.matrices.base import FeatureMatrix, Rows, Vector, WrappedMatrix, row_weights_of
from gramless.matrices.codes import CodedMatrix, CodePiece, PlainBins, TaskSizes, take_grid_rows
from gramless.matrices.row_lists import RowLists, list_bins

# With up to this many bins per grid, consecutive rows often share a bin. Additions to one bin wait
# for each other, so another loop is faster.
_FEW_BINS = 1024
_TASK_GRIDS = 8  # grids per task of ``row_of_each_bin`` and of products in single precision
_LANES = 16  # numbers of float32 per cache line
_GATHERED_ROWS = 8192  # rows per task of ``matvec``: their sums stay in the cache of a core
# In single precision, sums over blocks of rows are added to totals. A block has at least
# _SUMMED_ROWS rows, and _SUMMED_PER_BIN rows for each bin of a grid with the mean number of bins.
# Longer sums of equal numbers would lose digits. With shorter ones, adding the sums of all bins to
# the totals would take much of the time.
_SUMMED_ROWS, _SUMMED_PER_BIN = 4096, 32
_COPIED_ROWS = 1 << 14  # rows that a task copies

CodeRun = tuple[AnyArray, int, slice]  # flat codes, the stride between grids, and the grids
GridRuns = Callable[[int, int, int], Iterable[CodeRun]]  # see ``BinnedMatrix.runs``


class BinnedMatrix(CodedMatrix, PlainBins):
    """The sparse matrix of random binning (RB16, section 3.1); all its non-zeros are equal.

    Row i has the value ``scale`` in column ``offsets[r] + codes[r, i] - 1`` of each grid r. It has
    no non-zero in a grid whose code is 0, which is the code of bins without training rows.

    Parameters
    ----------
    codes : array (n_grids, n_rows) of uint8, uint16 or uint32, or list of such arrays
        Bin numbers from 1; 0 for a bin without training rows. The array is copied unless the
        codes of each grid are contiguous. Arrays of a list hold the codes of consecutive grids, a
        multiple of 8 in each but the last.
    offsets : array (n_grids + 1,) of int
        First column of each grid; ``offsets[-1]`` is the number of columns.
    scale : float, default=1/sqrt(n_grids)
        The value of every non-zero.
    has_unseen : bool, optional
        Whether some code is 0. By default, all codes are read to check.
    n_jobs : int, optional
        Number of threads; None means every processor.
    tasks : TaskSizes, optional
        Sizes of the tasks of threads. The default suits most machines.

    Notes
    -----
    The matrix takes 1, 2 or 4 bytes per non-zero (SciPy's CSR: 12). ``matvec`` is parallel over
    rows, or over grids if ``w`` is larger than the caches; ``rmatvec`` is parallel over grids. Sums
    are always added in the same order.

    Examples
    --------
    >>> import numpy as np
    >>> codes = np.array([[1, 2, 1], [1, 1, 0]], np.uint8)
    >>> Z = BinnedMatrix(codes, np.array([0, 2, 3]), scale=1.0)
    >>> Z.toarray()
    array([[1., 0., 1.],
           [0., 1., 1.],
           [1., 0., 0.]])
    >>> Z.matvec(np.array([1.0, 2.0, 4.0]))
    array([5., 6., 1.])
    """

    def __init__(
        self,
        codes: NDArray[np.unsignedinteger] | list[NDArray[np.unsignedinteger]],
        offsets: NDArray[np.int64],
        *,
        scale: float | None = None,
        has_unseen: bool | None = None,
        n_jobs: int | None = None,
        tasks: TaskSizes = TaskSizes(),  # noqa: B008
    ) -> None:
        self.offsets = np.asarray(offsets, np.int64)
        parts = codes if isinstance(codes, list) else [codes]
        self._check_codes(*parts)
        self._parts = [contiguous_rows(part) for part in parts]
        ranges = pairwise(accumulate(map(len, parts), initial=0))
        self._flat = [
            (*ends, *flat_rows(part)) for ends, part in zip(ranges, self._parts, strict=True)
        ]
        self.scale = float(scale) if scale is not None else unit_scale(self.n_grids)
        all_seen = has_unseen is None and all(part.all() for part in parts)
        self.has_unseen = bool(not all_seen if has_unseen is None else has_unseen)
        self.n_jobs, self.tasks = n_jobs, tasks
        # If codes may be 0, a zero precedes the weights of each grid, so loops need no branch.
        shifts = np.arange(self.n_grids) if self.has_unseen else -1
        self._starts = (self.offsets[:-1] + shifts).astype(np.uint64)

    @property
    def codes(self) -> NDArray[np.unsignedinteger]:  # type: ignore[override]
        """The codes of all grids in one array, which is a copy if there are several."""
        return self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self._parts, self.offsets, self._starts))

    def runs(self, first: int, last: int, row: int = 0) -> Iterator[CodeRun]:
        """Yield the flat codes of grids ``first:last`` from a row on, one array at a time."""
        for start, stop, flat, stride in self._flat:
            a, b = max(first, start), min(last, stop)
            if a < b:
                yield flat[(a - start) * stride + row :], stride, slice(a, b)

    def _matvec(self, w: Vector, out: Vector) -> None:
        n_columns = w.shape[1] if w.ndim == 2 else 0
        runs, starts, weights = self._gatherable(w)
        flat = readonly(weights.reshape(-1))
        add_up = partial(_add_up, runs, starts, flat, n_columns, self.tasks.leaf_grids)
        branches = self._divide_grids(weights.nbytes, out.nbytes)
        rows = row_blocks(self.shape[0], self._task_rows(max(1, n_columns), len(branches)))
        # Each branch of grids needs separate sums, which are then added in pairs.
        sums = [out, *(np.empty_like(out) for _ in branches[1:])]
        tasks = [
            (*branch, a, branch_sums[a:b].reshape(-1))
            for branch, branch_sums in zip(branches, sums, strict=True)
            for a, b in rows
        ]
        map_blocks(add_up, tasks, self.n_jobs)
        while len(sums) > 1:
            for left, right in zip(sums[::2], sums[1::2], strict=True):
                left += right
            sums = sums[::2]
        out *= self.scale

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        sums = out
        if self.has_unseen:
            sums = np.empty((self.shape[1] + self.n_grids, *v.shape[1:]))
        values, flat = self._scaled(v), sums.reshape(-1)
        bounds = self.offsets + self.has_unseen * np.arange(self.n_grids + 1)
        bounds *= sums.size // max(1, len(sums))

        def scatter(a: int, b: int) -> None:
            flat[bounds[a] : bounds[b]] = 0.0
            self._scatter(values, a, b, flat)

        self._map_scatter(scatter, values)
        if self.has_unseen:
            for r, (a, b) in enumerate(pairwise(self.offsets)):
                out[a:b] = sums[a + r + 1 : b + r + 1]

    def _add_rmatvec(self, v: Vector, out: Vector) -> None:
        if self.has_unseen:
            super()._add_rmatvec(v, out)
            return
        values, flat = self._scaled(v), out.reshape(-1)
        self._map_scatter(lambda a, b: self._scatter(values, a, b, flat), values)

    def to_single(self) -> FeatureMatrix:
        return self if self.has_unseen else SingleBins(self)

    def row_gram(self) -> FloatArray:
        return self.shared_bins().astype(np.float64) * self.scale**2

    def shared_bins(self) -> NDArray[np.float32]:
        """Return the number of bins that each two rows share, at some 8 comparisons per ns."""
        codes, n_rows = readonly(np.ascontiguousarray(self.codes.T)), self.shape[0]
        counts = np.empty((n_rows, n_rows), np.float32)
        parts = row_blocks(n_rows, max(1, -(-n_rows // 16)))
        map_blocks(lambda a, b: loops.count_shared_bins(codes, a, b, counts), parts, self.n_jobs)
        return counts

    def _code_pieces(self, first: int, last: int) -> Iterator[CodePiece]:
        n_bins = np.diff(self.offsets)
        for codes, stride, grids in self.runs(first, last):
            yield codes, stride, n_bins[grids], 0, grids.stop - grids.start

    def _scatter(self, values: Vector, a: int, b: int, sums: FloatArray) -> None:
        """Add the values of each row to the flat ``sums`` of its bins in grids ``a:b``."""
        has_few_bins = self.shape[1] <= _FEW_BINS * self.n_grids
        for codes, stride, grids in self.runs(a, b):
            if values.ndim == 1:
                add = loops.scatter_add_few if has_few_bins else loops.scatter_add
                add(codes, stride, self._starts[grids], values, sums)
            else:
                of_rows = values.reshape(-1), values.shape[1]
                loops.scatter_add_rows(codes, stride, self._starts[grids], *of_rows, sums)

    def _scaled(self, v: Vector) -> Vector:
        # Loops are compiled for writable arrays only; read-only ones would be another type.
        return v if self.scale == 1.0 and v.flags.writeable else v * self.scale

    def _map_scatter(self, work: Callable[[int, int], None], values: Vector) -> None:
        n_columns = values.shape[1] if values.ndim == 2 else 1
        self._map_grids(work, self.n_grids, n_columns, per_pass=8 if n_columns == 1 else 4)

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        """Return the sum of the weights in each bin, times ``scale**2``."""
        return self.rmatvec(row_weights_of(self, weights)) * self.scale

    def bin_counts(self) -> FloatArray:
        # With scale 1, all sums are whole numbers, so they are exact.
        return self._copy_with(self._parts, self.offsets, 1.0).rmatvec(np.ones(self.shape[0]))

    def row_of_each_bin(self) -> IntArray:
        """Return the index of one row in each bin; 0 for bins without rows."""
        rows = np.zeros(self.shape[1], np.int64)
        tasks = [
            (part[a:b], self.offsets[first + a : first + b], rows)
            for (first, *_), part in zip(self._flat, self._parts, strict=True)
            for a, b in row_blocks(len(part), _TASK_GRIDS)
        ]
        map_blocks(last_rows, tasks, self.n_jobs)
        return rows

    def loaded(self) -> BinnedMatrix:
        return self

    def first_grids(self, n_grids: int) -> BinnedMatrix:
        """Return the matrix of the first grids, which shares the codes."""
        return self._copy_with(self._codes_of(0, n_grids), self.offsets[: n_grids + 1])

    def _list_rows(self) -> RowLists:
        parts = self.tasks.part_rows, self.tasks.most_parts
        return list_bins(self.codes, self.offsets, self.scale, self.n_jobs, *parts)

    def _grid(self, r: int, offsets: IntArray) -> BinnedMatrix:
        return self._copy_with(self._codes_of(r, r + 1), offsets)

    def _codes_of(self, first: int, last: int) -> list[AnyArray]:
        return [
            part[max(first - start, 0) : last - start]
            for (start, stop, *_), part in zip(self._flat, self._parts, strict=True)
            if start < last and first < stop
        ]

    def take_rows(self, rows: Rows) -> BinnedMatrix:
        parts = [take_grid_rows(part, rows, self.n_jobs) for part in self._parts]
        return self._copy_with(parts, self.offsets)

    def _copy_with(
        self, codes: list[AnyArray], offsets: IntArray, scale: float | None = None
    ) -> BinnedMatrix:
        return BinnedMatrix(
            codes,
            offsets,
            scale=self.scale if scale is None else scale,
            has_unseen=self.has_unseen,
            n_jobs=self.n_jobs,
            tasks=self.tasks,
        )

    def tocsr(self) -> sp.csr_array:
        is_nonzero = self.codes.T != 0
        return self._csr(is_nonzero, np.full(np.count_nonzero(is_nonzero), self.scale))

    def _divide_grids(self, weight_bytes: int, sum_bytes: int) -> list[tuple[int, int]]:
        """Divide the grids into 1, 2, 4, ... runs, about one per thread.

        Each run is a branch of the tree of pairwise summation, so the number of runs does not
        change the sums. Each additional run takes ``sum_bytes`` of memory.
        """
        runs = [(0, self.n_grids)]
        if weight_bytes < self.tasks.shared_bytes or self.shape[0] > self.tasks.rows:
            return runs
        n_threads = thread_count(self.n_jobs)
        while len(runs) < n_threads and 2 * len(runs) * sum_bytes <= weight_bytes:
            if min(last - first for first, last in runs) <= self.tasks.leaf_grids:
                break
            middles = [_middle(*run) for run in runs]
            runs = [
                part
                for (first, last), middle in zip(runs, middles, strict=True)
                for part in ((first, middle), (middle, last))
            ]
        return runs

    def _gatherable(self, w: Vector) -> tuple[GridRuns, NDArray[np.uint64], Vector]:
        """Return :meth:`runs`, starts and weights, with a weight for every code."""
        if not self.has_unseen:
            return self.runs, self._starts, w
        if self.n_grids * self.shape[0] > self.shape[1]:
            # A zero precedes the weights of each grid.
            padded = np.zeros((len(w) + self.n_grids, *w.shape[1:]))
            for r, (a, b) in enumerate(pairwise(self.offsets)):
                padded[a + r + 1 : b + r + 1] = w[a:b]
            return self.runs, self._starts, padded
        # Padding all weights would cost more than a product of few rows, so only the weights of
        # their bins are copied. Sums have the same terms in the same order.
        n_rows = self.shape[0]
        codes = self.codes
        columns = codes + (self.offsets[:-1, None] - 1)
        needed = np.zeros((self.n_grids, n_rows, *w.shape[1:]))
        needed[codes != 0] = w[columns[codes != 0]]
        # Row i has weight i in every grid. Training has compiled the loop for codes of 16 bits.
        rows = readonly(np.arange(n_rows, dtype=np.uint16 if n_rows <= 1 << 16 else np.uint32))
        starts = np.arange(self.n_grids, dtype=np.uint64) * np.uint64(n_rows)
        return lambda first, last, row: [(rows[row:], 0, slice(first, last))], starts, needed


class SingleBins(WrappedMatrix):
    """A matrix of bins of training rows that multiplies several columns in single precision.

    Products with 16 columns at a time take less than half of the time; products with a vector are
    those of ``matrix``. Operands and results are float64. Errors are some 1e-6 of the largest
    number, or 1e-4 if thousands of numbers in a bin are equal.
    """

    matrix: BinnedMatrix

    def __init__(self, matrix: BinnedMatrix) -> None:
        super().__init__(matrix)
        self._starts = (matrix.offsets[:-1] - 1).astype(np.uint64)

    def _matvec(self, w: Vector, out: Vector) -> None:
        if w.ndim == 1:
            super()._matvec(w, out)
            return
        for columns in _column_groups(w):
            weights = readonly(self._cache_lines(w[:, columns], self.matrix.scale).reshape(-1))

            def gather(
                a: int, b: int, columns: slice = columns, weights: AnyArray = weights
            ) -> None:
                sums = empty_on_cache_line((b - a) * _LANES, np.float32)
                sums[:] = 0.0
                for codes, stride, grids in self.matrix.runs(0, self.matrix.n_grids, a):
                    loops.gather_rows_16(codes, stride, self._starts[grids], weights, sums)
                target = out[a:b, columns]
                target[...] = sums.reshape(-1, _LANES)[:, : target.shape[1]]

            map_blocks(gather, row_blocks(len(out), _GATHERED_ROWS), self.n_jobs)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        if v.ndim == 1:
            super()._rmatvec(v, out)
            return
        offsets, n_grids = self.matrix.offsets, self.matrix.n_grids
        n_summed = max(_SUMMED_ROWS, _SUMMED_PER_BIN * self.shape[1] // max(1, n_grids))
        rows = row_blocks(len(v), n_summed)
        for columns in _column_groups(v):
            values = self._cache_lines(v[:, columns], self.matrix.scale)

            def scatter(
                a: int, b: int, columns: slice = columns, values: AnyArray = values
            ) -> None:
                first, last = int(offsets[a]), int(offsets[b])
                total, sums = (
                    empty_on_cache_line((last - first) * _LANES, np.float32) for _ in range(2)
                )
                total[:] = 0.0
                starts = self._starts - np.uint64(first)
                for i, j in rows:
                    sums[:] = 0.0
                    block = values[i:j].reshape(-1)
                    for codes, stride, grids in self.matrix.runs(a, b, i):
                        loops.scatter_add_rows_16(codes, stride, starts[grids], block, sums)
                    total += sums
                target = out[first:last, columns]
                target[...] = total.reshape(-1, _LANES)[:, : target.shape[1]]

            map_blocks(scatter, row_blocks(n_grids, _TASK_GRIDS), self.n_jobs)

    def take_rows(self, rows: Rows) -> SingleBins:
        return SingleBins(self.matrix.take_rows(rows))

    def _cache_lines(self, values: Vector, scale: float) -> AnyArray:
        """Return ``scale * values`` in single precision, (n, 16), padded with zeros."""
        lines = empty_on_cache_line(len(values) * _LANES, np.float32).reshape(-1, _LANES)
        n_columns = values.shape[1]

        def fill(a: int, b: int) -> None:
            lines[a:b, n_columns:] = 0.0
            np.multiply(values[a:b], scale, out=lines[a:b, :n_columns], casting="same_kind")

        map_blocks(fill, row_blocks(len(values), _COPIED_ROWS), self.n_jobs)
        return lines


def _add_up(
    runs: GridRuns,
    starts: NDArray[np.uint64],
    weights: FloatArray,
    n_columns: int,
    leaf_grids: int,
    first: int,
    last: int,
    a: int,
    part: Vector,
) -> None:
    """Write the sums of grids ``first:last`` for the rows from ``a`` on, added pairwise."""
    # This is a module function because a recursive closure would keep the weights alive.
    fixed = runs, starts, weights, n_columns, leaf_grids
    if last - first > leaf_grids:
        middle, second_half = _middle(first, last), np.empty_like(part)
        _add_up(*fixed, first, middle, a, part)
        _add_up(*fixed, middle, last, a, second_half)
        part += second_half
        return
    part[:] = 0.0
    for codes, stride, grids in runs(first, last, a):
        if n_columns == 0:
            loops.gather_sum(codes, stride, starts[grids], weights, part)
        else:
            loops.gather_rows(codes, stride, starts[grids], weights, n_columns, part)


def fullest_shares(matrix: PlainBins) -> FloatArray:
    """Return the fraction of the rows in the fullest bin of each grid (RB16, Definition 1)."""
    if matrix.shape[0] == 0:
        raise InputError("BinnedMatrix: fractions of the rows need at least one row.")
    fullest = np.zeros(matrix.n_grids)
    # For a grid without bins, ``reduceat`` would return a bin of the next grid.
    occupied = np.flatnonzero(np.diff(matrix.offsets))
    fullest[occupied] = np.maximum.reduceat(matrix.bin_counts(), matrix.offsets[occupied])
    return fullest / matrix.shape[0]


def unit_scale(n_grids: int) -> float:
    """Return the value of non-zeros with which every row has length 1."""
    return float(1.0 / np.sqrt(max(1, n_grids)))


def _middle(first: int, last: int) -> int:
    """Return the middle of a run of grids, rounded so that loops get multiples of 8 grids."""
    return first + -(-(last - first) // 16) * 8


def _column_groups(values: Vector) -> Iterator[slice]:
    return (slice(a, b) for a, b in row_blocks(values.shape[1], _LANES))
