"""Feature matrices side by side, or beside a column of ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.cached import cached_property
from gramless.base.errors import InputError
from gramless.base.types import AnyArray, FloatArray
from gramless.matrices.abilities import (
    Columns,
    SupportsColumnGram,
    SupportsOnePass,
    SupportsRowLists,
    SupportsRowProducts,
)
from gramless.matrices.base import (
    ColumnBlock,
    FeatureMatrix,
    RowFunction,
    Rows,
    Vector,
    WrappedMatrix,
    check_out,
    into,
    operand,
)
from gramless.matrices.chunked import ChunkedMatrix
from gramless.matrices.row_lists import RowLists


class WithIntercept(WrappedMatrix):
    """A matrix with one more column, of ones, at its end.

    It can list rows, multiply columns and go there and back in one pass where the matrix can: it
    is then an instance of a subclass that declares the ability.
    """

    def __new__(cls, matrix: FeatureMatrix | None = None) -> WithIntercept:
        """Return an instance of the subclass that has the abilities of the matrix."""
        if cls is not WithIntercept:
            return object.__new__(cls)
        if isinstance(matrix, SupportsColumnGram):
            return object.__new__(_DenseWithIntercept)
        if isinstance(matrix, SupportsOnePass):
            return object.__new__(_OnePassWithIntercept)
        if isinstance(matrix, SupportsRowLists):
            return object.__new__(_BinnedWithIntercept)
        return object.__new__(cls)

    @property
    def shape(self) -> tuple[int, int]:
        n_rows, n_columns = self.matrix.shape
        return n_rows, n_columns + 1

    def _matvec(self, w: Vector, out: Vector) -> None:
        self.matrix.matvec(w[:-1], out)
        out += w[-1]

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        self.matrix.rmatvec(v, out[:-1])
        out[-1] = v.sum(axis=0)

    def _add_rmatvec(self, v: Vector, out: Vector) -> None:
        self.matrix.add_rmatvec(v, out[:-1])
        out[-1] += v.sum(axis=0)

    def row_factors(self) -> tuple[FeatureMatrix, FeatureMatrix]:
        one, other = self.matrix.row_factors()
        return WithIntercept(one), WithIntercept(other)

    def row_gram(self) -> FloatArray:
        gram = self.matrix.row_gram()
        gram += 1.0
        return gram

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        total = self.shape[0] if weights is None else weights.sum()
        return np.append(self.matrix.gram_diagonal(weights), total)

    def blocks(self) -> Iterator[ColumnBlock]:
        """Yield the matrix's blocks; the column of ones belongs to none."""
        return self.matrix.blocks()

    def take_rows(self, rows: Rows) -> WithIntercept:
        return WithIntercept(self.matrix.take_rows(rows))

    def tocsr(self) -> sp.csr_array:
        ones = sp.csr_array(np.ones((self.shape[0], 1)))
        return sp.hstack([self.matrix.tocsr(), ones], format="csr")


class _BinnedWithIntercept(WithIntercept, SupportsRowLists):
    """Bins and a column of ones, which is a group of its own."""

    matrix: SupportsRowLists

    def _list_rows(self) -> RowLists:
        return self.matrix.row_lists.with_ones()


class _OnePassWithIntercept(WithIntercept, SupportsOnePass):
    """A matrix that goes there and back in one pass, and a column of ones."""

    matrix: SupportsOnePass

    def pull_back(self, w: Vector, function: RowFunction, out: Vector | None = None) -> Vector:
        w = operand(self, w, self.shape[1], "w")
        values = np.empty((self.shape[0], *w.shape[1:]))

        def shifted(rows: slice, responses: Vector) -> Vector:
            responses += w[-1]
            values[rows] = function(rows, responses)
            return values[rows]

        result = np.empty(w.shape)
        self.matrix.pull_back(w[:-1], shifted, result[:-1])
        result[-1] = values.sum(axis=0)
        return into(self, out, result)


class _DenseWithIntercept(_OnePassWithIntercept, SupportsColumnGram):
    """A matrix without zeros and a column of ones."""

    matrix: SupportsColumnGram

    def column_gram(
        self,
        weights: FloatArray | None = None,
        columns: Columns | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Multiply columns, that of ones included, in one more pass over the rows."""
        n_own = self.matrix.shape[1]
        numbers = np.arange(n_own + 1)[slice(None) if columns is None else columns]
        own, ones = np.flatnonzero(numbers < n_own), np.flatnonzero(numbers == n_own)
        gram = np.empty((len(numbers), len(numbers))) if out is None else out
        check_out(self, gram, (len(numbers), len(numbers)))
        if columns is None:
            self.matrix.column_gram(weights, out=gram[:-1, :-1])
        else:
            gram[np.ix_(own, own)] = self.matrix.column_gram(weights, numbers[own])
        of_rows = np.ones(self.shape[0]) if weights is None else np.asarray(weights, np.float64)
        sums = self.matrix.rmatvec(of_rows)[numbers[own]]
        gram[np.ix_(own, ones)] = sums[:, None]
        gram[np.ix_(ones, own)] = sums
        gram[np.ix_(ones, ones)] = of_rows.sum()
        return gram


class HStack(FeatureMatrix):
    """The columns of several matrices over the same rows, each times its scale, as one matrix.

    Hybrid features (Rahimi & Recht 2007, section 6): their kernel is the sum of the parts' kernels,
    times the squares of the scales, which are 1 by default. Parts that are themselves stacked are
    taken apart. It can multiply columns where all parts are read in chunks, and list rows where all
    parts can: it is then an instance of a subclass that declares the ability.
    """

    def __new__(
        cls, parts: Sequence[FeatureMatrix] = (), scales: Sequence[float] | FloatArray | None = None
    ) -> HStack:
        """Return an instance of the subclass that has the abilities of all parts."""
        if cls is HStack and parts:
            if all(isinstance(part, ChunkedMatrix | _DenseHStack) for part in parts):
                return object.__new__(_DenseHStack)
            if all(isinstance(part, SupportsRowLists) for part in parts):
                return object.__new__(_BinnedHStack)
            if any(isinstance(part, SupportsRowProducts) for part in parts):
                return object.__new__(_RowProductsHStack)
        return object.__new__(cls)

    def __init__(
        self, parts: Sequence[FeatureMatrix], scales: Sequence[float] | FloatArray | None = None
    ) -> None:
        given = [1.0] * len(parts) if scales is None else [float(scale) for scale in scales]
        if not parts or len(given) != len(parts):
            sizes = f"{len(parts)} matrices and {len(given)} scales"
            raise InputError(
                f"HStack: needs at least one matrix, and a scale for each; got {sizes}."
            )
        rows = [part.shape[0] for part in parts]
        if len(set(rows)) > 1:
            raise InputError(f"HStack: the matrices must have the same rows, got {rows}.")
        self.parts: list[FeatureMatrix] = []
        self.scales: list[float] = []
        for part, scale in zip(parts, given, strict=True):
            if isinstance(part, HStack):
                self.parts += part.parts
                self.scales += [scale * own for own in part.scales]
            else:
                self.parts.append(part)
                self.scales.append(scale)
        self.n_jobs = self.parts[0].n_jobs
        self._bounds = [0, *np.cumsum([part.shape[1] for part in self.parts]).tolist()]

    @property
    def shape(self) -> tuple[int, int]:
        return self.parts[0].shape[0], self._bounds[-1]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def _matvec(self, w: Vector, out: Vector) -> None:
        out[...] = 0.0
        for columns, part, scale in self._placed():
            out += scale * part.matvec(w[columns])

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        for columns, part, scale in self._placed():
            part.rmatvec(scale * v, out=out[columns])

    def _add_rmatvec(self, v: Vector, out: Vector) -> None:
        for columns, part, scale in self._placed():
            part.add_rmatvec(scale * v, out[columns])

    def row_factors(self) -> tuple[FeatureMatrix, FeatureMatrix]:
        ones, others = zip(*(part.row_factors() for part in self.parts), strict=True)
        return HStack(ones, self.scales), HStack(others, self.scales)

    def row_gram(self) -> FloatArray:
        gram = np.zeros((self.shape[0], self.shape[0]))
        for _, part, scale in self._placed():
            gram += scale**2 * part.row_gram()
        return gram

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        diagonals = [scale**2 * part.gram_diagonal(weights) for _, part, scale in self._placed()]
        return np.concatenate(diagonals)

    def blocks(self) -> Iterator[ColumnBlock]:
        for columns, part, scale in self._placed():
            for block in part.blocks():
                matrix = block.matrix if scale == 1.0 else HStack([block.matrix], [scale])
                start = columns.start
                yield ColumnBlock(start + block.start, start + block.stop, matrix)

    def take_rows(self, rows: Rows) -> HStack:
        return HStack([part.take_rows(rows) for part in self.parts], self.scales)

    def tocsr(self) -> sp.csr_array:
        parts = [scale * part.tocsr() for _, part, scale in self._placed()]
        return sp.hstack(parts, format="csr")

    def _placed(self) -> Iterator[tuple[slice, FeatureMatrix, float]]:
        """Yield each part with its columns and its scale."""
        bounds = pairwise(self._bounds)
        for (start, stop), part, scale in zip(bounds, self.parts, self.scales, strict=True):
            yield slice(start, stop), part, scale


class _BinnedHStack(HStack, SupportsRowLists):
    """Bins beside bins; their lists take the bytes of those of the parts once more."""

    def _list_rows(self) -> RowLists:
        lists = [cast(SupportsRowLists, part).row_lists for part in self.parts]
        placed = list(zip(lists, self._bounds, self.scales, strict=False))
        offsets = [own.offsets[:-1] + start for own, start, _ in placed]
        return RowLists(
            offsets=np.append(np.concatenate(offsets), self.shape[1]),
            values=np.concatenate([scale * own.values for own, _, scale in placed]),
            parts=lists[0].parts,
            rows=np.concatenate([own.rows for own in lists]),
            bounds=np.concatenate([own.bounds for own in lists], axis=1),
        )


class _RowProductsHStack(HStack, SupportsRowProducts):
    """Bins beside values, by which is multiplied there and back."""

    def row_products(
        self, v: Vector, rows: NDArray[np.intp] | None = None, *, single: bool = False
    ) -> Vector:
        total = np.zeros((self.shape[0], v.shape[1]))
        for scale, part in zip(self.scales, self.parts, strict=True):
            total += scale**2 * row_products_of(part, v, rows, single)
        return total


def row_products_of(
    matrix: FeatureMatrix, v: Vector, rows: NDArray[np.intp] | None, single: bool
) -> Vector:
    """Return ``Z @ Z[rows].T @ v``, there and back where a matrix has no products of rows."""
    if isinstance(matrix, SupportsRowProducts):
        return matrix.row_products(v, rows, single=single)
    return matrix.matvec((matrix if rows is None else matrix.take_rows(rows)).rmatvec(v))


class _DenseHStack(HStack, SupportsColumnGram):
    """Chunked matrices side by side."""

    @cached_property
    def _joined(self) -> ChunkedMatrix:
        """All parts as one matrix, without the scales."""
        return _JoinedChunks([cast(ChunkedMatrix, part) for part in self.parts])

    def column_gram(
        self,
        weights: FloatArray | None = None,
        columns: Columns | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        gram = self._joined.column_gram(weights, columns, out)
        scales = self._column_scales()[slice(None) if columns is None else columns]
        for row, scale in zip(gram, scales, strict=True):
            row *= scale * scales
        return gram

    def pull_back(self, w: Vector, function: RowFunction, out: Vector | None = None) -> Vector:
        w = operand(self, w, self.shape[1], "w")
        scales = self._column_scales().reshape(-1, *[1] * (w.ndim - 1))
        return into(self, out, scales * self._joined.pull_back(scales * w, function))

    def _column_scales(self) -> FloatArray:
        return np.repeat(self.scales, np.diff(self._bounds))


def stacked_parts(matrix: FeatureMatrix) -> Iterator[tuple[float, FeatureMatrix]]:
    """Yield the matrices that a matrix is made of, with their scales."""
    if isinstance(matrix, HStack):
        yield from zip(matrix.scales, matrix.parts, strict=True)
    else:
        yield 1.0, matrix


class _JoinedChunks(ChunkedMatrix):
    """Chunks of several matrices side by side, copied into one array."""

    def __init__(self, parts: Sequence[ChunkedMatrix]) -> None:
        self.parts = parts
        self.n_jobs = parts[0].n_jobs
        self._bounds = [0, *np.cumsum([part.shape[1] for part in parts]).tolist()]

    @property
    def shape(self) -> tuple[int, int]:
        return self.parts[0].shape[0], self._bounds[-1]

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return np.result_type(*(part.dtype for part in self.parts))

    def chunk(self, start: int, stop: int, scratch: AnyArray | None = None) -> AnyArray:
        shape = (stop - start, self.shape[1])
        out = np.empty(shape, self.dtype) if scratch is None else scratch[: stop - start]
        for (a, b), part in zip(pairwise(self._bounds), self.parts, strict=True):
            out[:, a:b] = part.chunk(start, stop)
        return out

    def take_rows(self, rows: Rows) -> _JoinedChunks:
        return _JoinedChunks([part.take_rows(rows) for part in self.parts])
