"""Matrices without zeros, read in chunks of consecutive rows that are stored or computed."""

from __future__ import annotations

import math
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from gramless.base.arrays import readonly
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.base.types import AnyArray, FloatArray
from gramless.loops import dense as loops
from gramless.matrices.base import (
    Columns,
    FeatureMatrix,
    RowFunction,
    Rows,
    Vector,
    check_out,
    into,
    operand,
    row_weights_of,
)

_CHUNK_NUMBERS = 1 << 20
_FEWEST_ROWS, _MOST_ROWS = 1 << 8, 1 << 11
_TOTALS_NUMBERS = 1 << 22
_FEWEST_TOTALS, _MOST_TOTALS = 8, 64
_WAVE_NUMBERS = 1 << 20
_TILES = ((1 << 9, 1 << 11), (1 << 8, 1 << 9))
"""Widths of tiles of a Gram matrix, and from how many columns on: wide enough for BLAS, and enough
of them for threads."""
_LEAST_TILE = 1 << 7
_CACHED_NUMBERS = 1 << 18
_SMALL_PRODUCT, _FEW_OUTPUTS = 1_000_000, 15
"""OpenBLAS packs the factors of larger products, which does not pay with so few outputs."""


class ChunkedMatrix(FeatureMatrix):
    """A matrix known by chunks of consecutive rows, from which all products follow.

    A subclass gives ``shape``, ``dtype``, :meth:`chunk` and :meth:`take_rows`. Threads take chunks,
    whose bounds depend on the shape alone and whose sums are added in order, so results are the
    same to the last bit for any ``n_jobs``. Sums are float64: float32 rows are widened in registers
    for one output, at most 2 MB at a time for several, and not at all in :meth:`column_gram`.

    Attributes
    ----------
    most_chunk_rows : int
        Rows of the longest chunks, a power of two.
    """

    most_chunk_rows: ClassVar[int] = _MOST_ROWS

    @property
    def has_one_pass(self) -> bool:
        return True

    @property
    def has_column_gram(self) -> bool:
        return True

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[np.floating]:
        """The type of the chunks: float32 or float64."""

    @abstractmethod
    def chunk(self, start: int, stop: int, scratch: AnyArray | None = None) -> AnyArray:
        """Return rows ``start`` to ``stop``, which nobody writes to; pool threads call this.

        Multiples of ``chunk_rows`` cost least. Computed rows may be written to ``scratch``, at
        least (stop - start, n_columns), C-contiguous and of ``dtype``.
        """

    @abstractmethod
    def take_rows(self, rows: Rows) -> ChunkedMatrix:
        """Return the matrix of some rows, columns unchanged."""

    @property
    def stored(self) -> float:
        """Fraction of the rows that are stored and not computed in every pass."""
        return 1.0

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk: a power of two from 256 on that depends on n_columns alone."""
        wanted = _CHUNK_NUMBERS // max(1, self.shape[1])
        return min(max(1 << wanted.bit_length() >> 1, _FEWEST_ROWS), self.most_chunk_rows)

    def _matvec(self, w: Vector, out: Vector) -> None:
        room = self._scratch()

        def multiply(start: int, stop: int) -> None:
            for rows, piece in self._pieces(start, stop, room, w.shape[1:]):
                out[rows] = matvec_of(piece, w)

        with one_blas_thread():
            map_blocks(multiply, row_blocks(self.shape[0], self.chunk_rows), self.n_jobs)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        out[...] = self._sum(lambda rows, piece: rmatvec_of(piece, v[rows]), v.shape[1:])

    def pull_back(self, w: Vector, function: RowFunction, out: Vector | None = None) -> Vector:
        w = operand(self, w, self.shape[1], "w")

        def there_and_back(rows: slice, piece: AnyArray) -> Vector:
            return rmatvec_of(piece, function(rows, matvec_of(piece, w)))

        return into(self, out, self._sum(there_and_back, w.shape[1:]))

    def rows_as(self, dtype: type[np.floating]) -> AnyArray:
        """Return all rows as an array of a type."""
        found = np.empty(self.shape, dtype)

        def fill(start: int, stop: int) -> None:
            found[start:stop] = self.chunk(start, stop)

        with one_blas_thread():
            map_blocks(fill, row_blocks(self.shape[0], self.chunk_rows), self.n_jobs)
        return found

    def row_gram(self) -> FloatArray:
        gram = np.zeros((self.shape[0], self.shape[0]))
        wide = self.rows_as(np.float64)
        with one_blas_thread():
            _add_gram(wide.T, gram, self.n_jobs)
        _mirror(gram, self.n_jobs)
        return gram

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        of_rows = row_weights_of(self, weights)

        def squares(rows: slice, piece: AnyArray) -> Vector:
            return np.square(piece, dtype=np.float64).T @ of_rows[rows]

        return self._sum(squares, ())

    def column_gram(
        self,
        weights: FloatArray | None = None,
        columns: Columns | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return ``Z.T @ diag(weights) @ Z``, of all columns or some.

        Chunks of float32 are multiplied in float32, at most 2,048 rows at a time, and added in
        float64: entries are within some 1e-7 of the root of the product of their diagonal entries.
        """
        if weights is not None:
            weights = row_weights_of(self, weights)
            if (weights < 0.0).any():
                total = self.column_gram(np.maximum(weights, 0.0), columns, out)
                total -= self.column_gram(np.maximum(-weights, 0.0), columns)
                return total
        n_columns = len(np.arange(self.shape[1])[slice(None) if columns is None else columns])
        total = np.empty((n_columns, n_columns)) if out is None else out
        check_out(self, total, (n_columns, n_columns))
        total[...] = 0.0
        with one_blas_thread():
            for rows in self._waves(weights):
                chosen = rows if columns is None else np.ascontiguousarray(rows[:, columns])
                _add_gram(chosen, total, self.n_jobs)
        total *= _largest(weights)
        _mirror(total, self.n_jobs)
        return total

    def tocsr(self) -> sp.csr_array:
        bounds = row_blocks(self.shape[0], self.chunk_rows) or [(0, 0)]
        with one_blas_thread():
            parts = [sp.csr_array(self.chunk(a, b), dtype=np.float64) for a, b in bounds]
        return sp.vstack(parts, format="csr")

    def _sum(self, product: Callable[[slice, AnyArray], Vector], tail: tuple[int, ...]) -> Vector:
        """Add up a product of every piece of rows, (n_columns, *tail)."""
        shape = (self.shape[1], *tail)
        chunks, room = row_blocks(self.shape[0], self.chunk_rows), self._scratch()
        n_totals = most_totals(math.prod(shape))

        def add_up(first: int, last: int) -> Vector:
            total = np.zeros(shape)
            for start, stop in chunks[first:last]:
                for rows, piece in self._pieces(start, stop, room, tail):
                    total += product(rows, piece)
            return total

        runs = row_blocks(len(chunks), max(1, -(-len(chunks) // n_totals)))
        result = np.zeros(shape)
        with one_blas_thread():
            for total in map_blocks(add_up, runs, self.n_jobs):
                result += total
        return result

    def _pieces(
        self, start: int, stop: int, room: _Scratch, tail: tuple[int, ...]
    ) -> Iterator[tuple[slice, AnyArray]]:
        """Yield the rows of a chunk in cached pieces, for an operand (n, *tail)."""
        chunk = self.chunk(start, stop, room.array)
        for a, b, piece in cached_pieces(chunk, math.prod(tail)):
            yield slice(start + a, start + b), piece

    def _scratch(self) -> _Scratch:
        return _Scratch(min(self.chunk_rows, self.shape[0]), self.shape[1], self.dtype)

    def _waves(self, weights: FloatArray | None) -> Iterator[AnyArray]:
        """Yield runs of chunks, times the roots of their weights relative to the largest."""
        n_rows, n_columns = self.shape
        largest, roots = _largest(weights), None
        if weights is not None and not (weights == largest).all():
            roots = np.sqrt(weights / largest).astype(self.dtype)
        tall = _MOST_ROWS * max(1, _WAVE_NUMBERS // (_MOST_ROWS * max(1, n_columns)))
        room = np.empty((min(tall, n_rows), n_columns), self.dtype)
        for start, stop in row_blocks(n_rows, tall):
            if roots is None:
                yield self.chunk(start, stop, room)
            else:
                yield self._scaled(start, roots[start:stop], room[: stop - start])

    def _scaled(self, start: int, factors: AnyArray, out: AnyArray) -> AnyArray:
        """Return the rows from ``start`` on, each times its factor, in ``out``."""

        def scale(a: int, b: int) -> None:
            chunk = self.chunk(start + a, start + b, out[a:b])
            np.multiply(chunk, factors[a:b, None], out=out[a:b])

        map_blocks(scale, row_blocks(len(out), self.chunk_rows), self.n_jobs)
        return out


class _Scratch(threading.local):
    """Room for one chunk in each thread, allocated when the thread first asks."""

    def __init__(self, n_rows: int, n_columns: int, dtype: np.dtype[np.floating]) -> None:
        self.array = np.empty((n_rows, n_columns), dtype)


def most_totals(n_numbers: int) -> int:
    """Return how many sums of so many numbers are kept side by side."""
    return min(max(_TOTALS_NUMBERS // max(1, n_numbers), _FEWEST_TOTALS), _MOST_TOTALS)


def _largest(weights: FloatArray | None) -> float:
    """Return the largest weight, relative to which roots are safe in float32; 1 for none."""
    largest = 1.0 if weights is None else float(weights.max(initial=0.0))
    return largest if largest > 0.0 else 1.0


def _add_gram(rows: AnyArray, total: FloatArray, n_jobs: int | None) -> None:
    """Add ``rows.T @ rows`` to the tiles of ``total`` on and above the diagonal."""
    width = next((width for width, least in _TILES if len(total) >= least), _LEAST_TILE)
    tiles = row_blocks(len(total), width)
    runs = row_blocks(len(rows), _MOST_ROWS)

    def add(i: int, j: int) -> None:
        left, right = slice(*tiles[i]), slice(*tiles[j])
        for start, stop in runs:
            # NumPy computes one triangle where both factors are one array.
            total[left, right] += rows[start:stop, left].T @ rows[start:stop, right]

    pairs = [(i, j) for j in range(len(tiles)) for i in range(j + 1)]
    # Tiles on the diagonal take half the time: last, they let threads end together.
    map_blocks(add, sorted(pairs, key=lambda pair: pair[0] == pair[1]), n_jobs)


def _mirror(gram: FloatArray, n_jobs: int | None) -> None:
    """Copy the upper triangle to the lower one."""

    def copy(start: int, stop: int) -> None:
        gram[stop:, start:stop] = gram[start:stop, stop:].T
        square = gram[start:stop, start:stop]
        square[...] = np.triu(square) + np.triu(square, 1).T

    map_blocks(copy, row_blocks(len(gram), _TILES[0][0]), n_jobs)


def cached_pieces(chunk: AnyArray, n_outputs: int) -> Iterator[tuple[int, int, AnyArray]]:
    """Cut consecutive rows into pieces that a cache holds, for products with so many outputs.

    Yields where each piece starts and stops, and the piece: in float64, or as it is where one
    output needs no wider rows.
    """
    n_rows, n_columns = chunk.shape
    numbers = _CACHED_NUMBERS
    if 1 <= n_outputs <= _FEW_OUTPUTS:
        numbers = min(numbers, _SMALL_PRODUCT // n_outputs)
    as_it_is = n_outputs == 1 and chunk.flags.c_contiguous
    # No fewer rows than outputs: what is done once a piece takes no longer than what once a row.
    for a, b in row_blocks(n_rows, max(numbers // max(1, n_columns), n_outputs, 1)):
        yield a, b, chunk[a:b] if as_it_is else np.asarray(chunk[a:b], np.float64)


def matvec_of(piece: AnyArray, w: Vector) -> Vector:
    """Return ``piece @ w``; a piece of float32 is widened in registers."""
    if piece.dtype == np.float64:
        return np.asarray(piece @ w)
    found = np.empty((len(piece), *w.shape[1:]))
    loops.responses(readonly(piece), readonly(w.reshape(-1)), found.reshape(-1))
    return found


def rmatvec_of(piece: AnyArray, v: Vector) -> Vector:
    """Return ``piece.T @ v``; a piece of float32 is widened in registers."""
    if piece.dtype == np.float64:
        return np.asarray(piece.T @ v)
    found = np.zeros((piece.shape[1], *v.shape[1:]))
    flat = readonly(np.ascontiguousarray(v).reshape(-1))
    loops.add_rows(readonly(piece), flat, found.reshape(-1))
    return found
