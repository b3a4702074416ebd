"""Dense matrices, such as Fourier features: stored as an array or computed on demand."""

from __future__ import annotations

import math
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import ClassVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from gramless.base.arrays import positions_of, readonly
from gramless.base.errors import InputError
from gramless.base.memory import large_array_budget_for, user_memory_limit
from gramless.base.numeric import is_whole
from gramless.base.threads import (
    cached_property,
    map_blocks,
    one_blas_thread,
    row_blocks,
    run_serially,
)
from gramless.base.types import AnyArray, FloatArray
from gramless.loops import dense as loops
from gramless.matrices.base import (
    Columns,
    FeatureMatrix,
    RowFunction,
    Rows,
    Vector,
    as_operand,
    check_out,
    copy_to_out,
    row_weights_of,
)

_CHUNK_NUMBERS = 1 << 20  # numbers per chunk
_MIN_ROWS, _MAX_ROWS = 1 << 8, 1 << 11  # rows per chunk
_PARTIAL_SUM_NUMBERS = 1 << 22  # numbers in all partial sums that are in memory at once
_MIN_PARTIAL_SUMS, _MAX_PARTIAL_SUMS = 8, 64
_GRAM_NUMBERS = 1 << 20  # numbers of the rows that are multiplied by themselves at a time
# Widths of the tiles of a Gram matrix, and the minimum number of columns for each width. Tiles are
# wide enough for BLAS, and there are enough of them for all threads.
_TILES = ((1 << 9, 1 << 11), (1 << 8, 1 << 9))
_MIN_TILE = 1 << 7
_CACHED_NUMBERS = 1 << 18  # 2 MB of float64
# OpenBLAS first copies (packs) the factors of products of more than _SMALL_PRODUCT multiplications,
# which costs more than it saves with up to _FEW_OUTPUTS outputs.
_SMALL_PRODUCT, _FEW_OUTPUTS = 1_000_000, 15
_COPIED_NUMBERS = 1 << 18  # numbers that a task copies
# A task of a product with one output has about _TASK_NUMBERS numbers and a multiple of _TASK_ROWS
# rows. Larger tasks would leave threads without work; smaller ones wait for the interpreter.
_TASK_NUMBERS, _TASK_ROWS = 1 << 20, 1 << 9
# Fraction of the large-array budget that one matrix may keep if the user set a memory limit. Three
# matrices can be in use at once: of training rows, of validation rows and of a sample.
_LIMITED_SHARE = 1 / 3


class ChunkedMatrix(FeatureMatrix):
    """A dense matrix that yields chunks of consecutive rows, from which products are computed.

    A subclass implements ``shape``, ``dtype``, :meth:`chunk` and :meth:`take_rows`. Each thread
    processes some of the chunks. The bounds of chunks depend on the shape alone, and sums over
    chunks are added in order, so results are the same to the last bit for any ``n_jobs``.

    Sums are float64. Rows of float32 are converted in registers if there is one output and in
    pieces of at most 2 MB if there are several; :meth:`column_gram` multiplies them in float32.

    Attributes
    ----------
    max_chunk_rows : int
        Maximum number of rows of a chunk, a power of two.
    """

    max_chunk_rows: ClassVar[int] = _MAX_ROWS

    @property
    def has_one_pass(self) -> bool:
        return True

    @property
    def has_column_gram(self) -> bool:
        return True

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[np.floating]:
        """Data type of the chunks: float32 or float64."""

    @abstractmethod
    def chunk(self, start: int, stop: int, scratch: AnyArray | None = None) -> AnyArray:
        """Return the rows ``start:stop``, which the caller must not change.

        Pool threads call this method. It is cheapest if the bounds are multiples of ``chunk_rows``.
        Computed rows may be written to ``scratch``, which has at least (stop - start, n_columns)
        entries and is C-contiguous and of ``dtype``.
        """

    @abstractmethod
    def take_rows(self, rows: Rows) -> ChunkedMatrix: ...

    @property
    def stored(self) -> float:
        """Fraction of the rows that are stored; the others are computed in every pass."""
        return 1.0

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def chunk_rows(self) -> int:
        """Number of rows per chunk, a power of two that depends on the class and ``n_columns``."""
        n_rows = _CHUNK_NUMBERS // max(1, self.shape[1])
        # The shifts round down to a power of two.
        return min(max(1 << n_rows.bit_length() >> 1, _MIN_ROWS), self.max_chunk_rows)

    def _matvec(self, w: Vector, out: Vector) -> None:
        scratch = self._scratch()

        def multiply(start: int, stop: int) -> None:
            for rows, piece in self._pieces(start, stop, scratch, w.shape[1:]):
                out[rows] = matvec_of(piece, w)

        with one_blas_thread():
            map_blocks(multiply, row_blocks(self.shape[0], self.chunk_rows), self.n_jobs)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        out[...] = self._sum(lambda rows, piece: rmatvec_of(piece, v[rows]), v.shape[1:])

    def pull_back(self, w: Vector, function: RowFunction, out: Vector | None = None) -> Vector:
        w = as_operand(self, w, self.shape[1], "w")

        def multiply_back(rows: slice, piece: AnyArray) -> Vector:
            return rmatvec_of(piece, function(rows, matvec_of(piece, w)))

        return copy_to_out(self, out, self._sum(multiply_back, w.shape[1:]))

    def rows_as(self, dtype: type[np.floating]) -> AnyArray:
        """Return all rows as an array of the given type."""
        result = np.empty(self.shape, dtype)

        def fill(start: int, stop: int) -> None:
            result[start:stop] = self.chunk(start, stop)

        with one_blas_thread():
            map_blocks(fill, row_blocks(self.shape[0], self.chunk_rows), self.n_jobs)
        return result

    def row_gram(self) -> FloatArray:
        gram = np.zeros((self.shape[0], self.shape[0]))
        rows = self.rows_as(np.float64)
        with one_blas_thread():
            _add_gram(rows.T, gram, self.n_jobs)
        _mirror(gram, self.n_jobs)
        return gram

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        row_weights = row_weights_of(self, weights)

        def squares(rows: slice, piece: AnyArray) -> Vector:
            return np.square(piece, dtype=np.float64).T @ row_weights[rows]

        return self._sum(squares, ())

    def column_gram(
        self,
        weights: FloatArray | None = None,
        columns: Columns | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return ``Z.T @ diag(weights) @ Z`` for all or some columns.

        Rows of float32 are multiplied in float32, at most 2,048 at a time, and the products are
        added in float64. The error of entry (i, j) is some 1e-7 of the square root of the product
        of the diagonal entries i and j.
        """
        if weights is not None:
            weights = row_weights_of(self, weights)
            # Rows are multiplied by the roots of weights, which must not be negative.
            if (weights < 0.0).any():
                total = self.column_gram(np.maximum(weights, 0.0), columns, out)
                total -= self.column_gram(np.maximum(-weights, 0.0), columns)
                return total
        n_columns = len(np.arange(self.shape[1])[slice(None) if columns is None else columns])
        total = np.empty((n_columns, n_columns)) if out is None else out
        check_out(self, total, (n_columns, n_columns))
        total[...] = 0.0
        with one_blas_thread():
            for rows in self._gram_rows(weights):
                selected = rows if columns is None else np.ascontiguousarray(rows[:, columns])
                _add_gram(selected, total, self.n_jobs)
        total *= _largest_weight(weights)
        _mirror(total, self.n_jobs)
        return total

    def tocsr(self) -> sp.csr_array:
        bounds = row_blocks(self.shape[0], self.chunk_rows) or [(0, 0)]
        with one_blas_thread():
            parts = [sp.csr_array(self.chunk(a, b), dtype=np.float64) for a, b in bounds]
        return sp.vstack(parts, format="csr")

    def _sum(self, product: Callable[[slice, AnyArray], Vector], tail: tuple[int, ...]) -> Vector:
        """Return the sum over pieces of rows of ``product(rows, piece)``, (n_columns, *tail)."""
        shape = (self.shape[1], *tail)
        chunks, scratch = row_blocks(self.shape[0], self.chunk_rows), self._scratch()
        n_sums = max_partial_sums(math.prod(shape))

        def add_up(first: int, last: int) -> Vector:
            total = np.zeros(shape)
            for start, stop in chunks[first:last]:
                for rows, piece in self._pieces(start, stop, scratch, tail):
                    total += product(rows, piece)
            return total

        runs = row_blocks(len(chunks), max(1, -(-len(chunks) // n_sums)))
        result = np.zeros(shape)
        with one_blas_thread():
            for total in map_blocks(add_up, runs, self.n_jobs):
                result += total
        return result

    def _pieces(
        self, start: int, stop: int, scratch: _Scratch, tail: tuple[int, ...]
    ) -> Iterator[tuple[slice, AnyArray]]:
        """Yield pieces of a chunk that fit into the cache, for an operand (n, *tail)."""
        chunk = self.chunk(start, stop, scratch.array)
        for a, b, piece in cached_pieces(chunk, math.prod(tail)):
            yield slice(start + a, start + b), piece

    def _scratch(self) -> _Scratch:
        return _Scratch(min(self.chunk_rows, self.shape[0]), self.shape[1], self.dtype)

    def _gram_rows(self, weights: FloatArray | None) -> Iterator[AnyArray]:
        """Yield runs of rows, multiplied by the square roots of weights relative to the largest."""
        n_rows, n_columns = self.shape
        largest, roots = _largest_weight(weights), None
        if weights is not None and not (weights == largest).all():
            roots = np.sqrt(weights / largest).astype(self.dtype)
        n_block_rows = _MAX_ROWS * max(1, _GRAM_NUMBERS // (_MAX_ROWS * max(1, n_columns)))
        scratch = np.empty((min(n_block_rows, n_rows), n_columns), self.dtype)
        for start, stop in row_blocks(n_rows, n_block_rows):
            if roots is None:
                yield self.chunk(start, stop, scratch)
            else:
                yield self._scaled(start, roots[start:stop], scratch[: stop - start])

    def _scaled(self, start: int, factors: AnyArray, out: AnyArray) -> AnyArray:
        def scale(a: int, b: int) -> None:
            chunk = self.chunk(start + a, start + b, out[a:b])
            np.multiply(chunk, factors[a:b, None], out=out[a:b])

        map_blocks(scale, row_blocks(len(out), self.chunk_rows), self.n_jobs)
        return out


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
    max_chunk_rows: ClassVar[int] = 512

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
        if not self._converts_in_registers(w):
            super()._matvec(w, out)
            return

        def multiply(start: int, stop: int) -> None:
            out[start:stop] = matvec_of(self.array[start:stop], w)

        map_blocks(multiply, self._tasks(), self.n_jobs)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        if not self._converts_in_registers(v):
            super()._rmatvec(v, out)
            return

        def add_up(start: int, stop: int) -> Vector:
            return rmatvec_of(self.array[start:stop], v[start:stop])

        out[...] = 0.0
        for sums in map_blocks(add_up, self._tasks(), self.n_jobs):
            out += sums

    def _converts_in_registers(self, vector: Vector) -> bool:
        """Return whether loops convert float32 to float64 in registers, as for one output."""
        is_single = self.dtype == np.float32 and self.array.flags.c_contiguous
        return is_single and vector.size == len(vector)

    def _tasks(self) -> list[tuple[int, int]]:
        n_rows, n_columns = self.shape
        min_rows = -(-n_rows // max_partial_sums(n_columns))
        task_rows = max(_TASK_NUMBERS // max(1, n_columns), min_rows)
        return row_blocks(n_rows, -(-task_rows // _TASK_ROWS) * _TASK_ROWS)

    def take_rows(self, rows: Rows) -> DenseMatrix:
        return DenseMatrix(take_array_rows(self.array, rows, self.n_jobs), self.n_jobs)


class ComputedMatrix(ChunkedMatrix):
    """A matrix whose rows are computed from rows of inputs, such as Fourier features.

    The first chunks of rows are computed once and kept, as many as fit into ``budget``. The other
    chunks are computed in every pass.

    Parameters
    ----------
    rows : array or sparse array (n_rows, ...)
        Inputs; anything that has a shape and can be indexed by slices.
    compute : callable
        ``compute(rows[a:b], out)`` writes features into ``out``, which is C-contiguous and of
        ``dtype``. It is called from pool threads, with BLAS in one thread. The features of a row
        must not depend on other rows.
    n_columns : int
        Number of features.
    dtype : dtype, default=float32
        float32 or float64.
    budget : int, optional
        Bytes of the chunks that are kept. The default is the budget for large arrays, which is half
        of the free memory, or a third of that budget if the user set a memory limit.
    n_jobs : int, optional
        Number of threads; None means every processor.
    """

    def __init__(
        self,
        rows: AnyArray | sp.csr_array | sp.csr_matrix,
        compute: Callable[..., None],
        n_columns: int,
        *,
        dtype: DTypeLike = np.float32,
        budget: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        kind = cast("np.dtype[np.floating]", np.dtype(dtype))
        if kind not in (np.float32, np.float64):
            raise InputError(f"ComputedMatrix: dtype must be float32 or float64, got {kind}.")
        for name, value in (("n_columns", n_columns), ("budget", budget)):
            if not is_whole(value, 0) and not (name == "budget" and value is None):
                raise InputError(
                    f"ComputedMatrix: {name} must be an integer, at least 0; got {value!r}."
                )
        self.rows, self.compute, self.n_jobs = rows, compute, n_jobs
        self._n_columns, self._dtype, self._budget = int(n_columns), kind, budget
        n_rows, row_bytes = rows.shape[0], self._n_columns * kind.itemsize
        if budget is None:
            limit = large_array_budget_for(n_rows * row_bytes)
            if user_memory_limit() is not None:
                limit = int(_LIMITED_SHARE * limit)
        else:
            limit = int(budget)
        full_chunks = limit // max(1, row_bytes * self.chunk_rows) * self.chunk_rows
        self._n_kept = n_rows if n_rows * row_bytes <= limit else full_chunks
        n_chunks = -(-self._n_kept // self.chunk_rows)
        self._chunk_locks = [threading.Lock() for _ in range(n_chunks)]
        self._is_computed = [False] * n_chunks

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.rows.shape[0]), self._n_columns

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return self._dtype

    @property
    def stored(self) -> float:
        return self._n_kept / self.shape[0] if self.shape[0] else 1.0

    def chunk(self, start: int, stop: int, scratch: AnyArray | None = None) -> AnyArray:
        pieces = self._cut(start, stop)
        if stop <= self._n_kept:
            map_blocks(self._keep, pieces, self.n_jobs)
            return self._kept[start:stop]
        shape = (stop - start, self._n_columns)
        out = np.empty(shape, self._dtype) if scratch is None else scratch[: stop - start]

        def fill(a: int, b: int) -> None:
            part = out[a - start : b - start]
            if b <= self._n_kept:
                self._keep(a, b)
                part[...] = self._kept[a:b]
            else:
                self.compute(self.rows[a:b], part)

        map_blocks(fill, pieces, self.n_jobs)
        return out

    def take_rows(self, rows: Rows) -> ComputedMatrix:
        return ComputedMatrix(
            self.rows[rows],
            self.compute,
            self._n_columns,
            dtype=self._dtype,
            budget=self._budget,
            n_jobs=self.n_jobs,
        )

    def _keep(self, start: int, stop: int) -> None:
        """Compute the kept chunk that contains the rows, unless it has been computed."""
        k = start // self.chunk_rows
        with self._chunk_locks[k], run_serially():
            if not self._is_computed[k]:
                a = k * self.chunk_rows
                b = min(a + self.chunk_rows, self._n_kept)
                self.compute(self.rows[a:b], self._kept[a:b])
                self._is_computed[k] = True

    @cached_property
    def _kept(self) -> AnyArray:
        return np.empty((self._n_kept, self._n_columns), self._dtype)

    def _cut(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Split a range of rows at the starts of chunks."""
        step = self.chunk_rows
        edges = [start, *range(start - start % step + step, stop, step), stop]
        return list(pairwise(edges)) if stop > start else []


class _Scratch(threading.local):
    """A work array for one chunk per thread, allocated when the thread first accesses it."""

    def __init__(self, n_rows: int, n_columns: int, dtype: np.dtype[np.floating]) -> None:
        self.array = np.empty((n_rows, n_columns), dtype)


def max_partial_sums(n_numbers: int) -> int:
    """Return how many partial sums of ``n_numbers`` numbers each may be in memory at once."""
    n_sums = _PARTIAL_SUM_NUMBERS // max(1, n_numbers)
    return min(max(n_sums, _MIN_PARTIAL_SUMS), _MAX_PARTIAL_SUMS)


def _largest_weight(weights: FloatArray | None) -> float:
    """Return the largest weight, or 1 if no weight is positive."""
    # Square roots of weights relative to the largest cannot overflow float32.
    largest = 1.0 if weights is None else float(weights.max(initial=0.0))
    return largest if largest > 0.0 else 1.0


def _add_gram(rows: AnyArray, total: FloatArray, n_jobs: int | None) -> None:
    """Add ``rows.T @ rows`` to the tiles of ``total`` on and above the diagonal."""
    width = next((width for width, n_columns in _TILES if len(total) >= n_columns), _MIN_TILE)
    tiles = row_blocks(len(total), width)
    runs = row_blocks(len(rows), _MAX_ROWS)

    def add(i: int, j: int) -> None:
        left, right = slice(*tiles[i]), slice(*tiles[j])
        for start, stop in runs:
            # If both factors are the same array, NumPy computes only one triangle.
            total[left, right] += rows[start:stop, left].T @ rows[start:stop, right]

    pairs = [(i, j) for j in range(len(tiles)) for i in range(j + 1)]
    # Tiles on the diagonal take half the time. If they come last, threads end together.
    map_blocks(add, sorted(pairs, key=lambda pair: pair[0] == pair[1]), n_jobs)


def _mirror(gram: FloatArray, n_jobs: int | None) -> None:
    def copy(start: int, stop: int) -> None:
        gram[stop:, start:stop] = gram[start:stop, stop:].T
        square = gram[start:stop, start:stop]
        square[...] = np.triu(square) + np.triu(square, 1).T

    map_blocks(copy, row_blocks(len(gram), _TILES[0][0]), n_jobs)


def cached_pieces(chunk: AnyArray, n_outputs: int) -> Iterator[tuple[int, int, AnyArray]]:
    """Yield the start, the stop and the rows of pieces of a chunk that fit into the cache.

    Pieces are float64, but keep their type if there is one output, because :func:`matvec_of` and
    :func:`rmatvec_of` then convert rows in registers.
    """
    n_rows, n_columns = chunk.shape
    n_numbers = _CACHED_NUMBERS
    if 1 <= n_outputs <= _FEW_OUTPUTS:
        n_numbers = min(n_numbers, _SMALL_PRODUCT // n_outputs)
    keeps_type = n_outputs == 1 and chunk.flags.c_contiguous
    # With at least as many rows as outputs, costs per piece do not exceed those per row.
    for a, b in row_blocks(n_rows, max(n_numbers // max(1, n_columns), n_outputs, 1)):
        yield a, b, chunk[a:b] if keeps_type else np.asarray(chunk[a:b], np.float64)


def matvec_of(piece: AnyArray, w: Vector) -> Vector:
    """Return ``piece @ w``; float32 is converted to float64 in registers."""
    if piece.dtype == np.float64:
        return np.asarray(piece @ w)
    out = np.empty((len(piece), *w.shape[1:]))
    loops.responses(readonly(piece), readonly(w.reshape(-1)), out.reshape(-1))
    return out


def rmatvec_of(piece: AnyArray, v: Vector) -> Vector:
    """Return ``piece.T @ v``; float32 is converted to float64 in registers."""
    if piece.dtype == np.float64:
        return np.asarray(piece.T @ v)
    out = np.zeros((piece.shape[1], *v.shape[1:]))
    flat = readonly(np.ascontiguousarray(v).reshape(-1))
    loops.add_rows(readonly(piece), flat, out.reshape(-1))
    return out


def take_array_rows(array: AnyArray, rows: Rows, n_jobs: int | None) -> AnyArray:
    """Return the selected rows of an array (n_rows, n_columns), copied in parallel."""
    if isinstance(rows, slice):
        return array[rows]
    positions, n_columns = positions_of(rows), max(1, array.shape[1])
    result = np.empty((len(positions), array.shape[1]), array.dtype)

    def take(first: int, last: int) -> None:
        result[first:last] = array.take(positions[first:last], axis=0)

    map_blocks(take, row_blocks(len(positions), max(1, _COPIED_NUMBERS // n_columns)), n_jobs)
    return result
