"""Horizontal stacks of feature matrices, and the column of ones of the intercept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.arrays import positions_of
from gramless.base.errors import InputError
from gramless.base.threads import cached_property
from gramless.base.types import AnyArray, FloatArray
from gramless.matrices.base import (
    ColumnBlock,
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
from gramless.matrices.dense import ChunkedMatrix
from gramless.matrices.row_lists import RowLists


class OnesColumn(FeatureMatrix):
    """A column of ones, which takes no memory; used as the last part of an :class:`HStack`."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, 1

    @property
    def nbytes(self) -> int:
        return 0

    def _matvec(self, w: Vector, out: Vector) -> None:
        out[...] = w

    def add_matvec(self, w: Vector, scale: float, out: Vector) -> None:
        out += scale * w

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        out[0] = v.sum(axis=0)

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        return np.array([row_weights_of(self, weights).sum()])

    def row_gram(self) -> FloatArray:
        return np.ones((self.n_rows, self.n_rows))

    def blocks(self) -> Iterator[ColumnBlock]:
        """Yield no blocks, because the intercept belongs to none."""
        return iter(())

    def take_rows(self, rows: Rows) -> OnesColumn:
        if isinstance(rows, slice):
            return OnesColumn(len(range(self.n_rows)[rows]))
        return OnesColumn(len(positions_of(rows)))

    def tocsr(self) -> sp.csr_array:
        return sp.csr_array(np.ones(self.shape))


class HStack(FeatureMatrix):
    """A horizontal stack of matrices with the same rows, each multiplied by a scale.

    These are the hybrid features of Rahimi & Recht (2007), section 6. Their kernel is the sum of
    the kernels of the parts, each times its squared scale. Nested stacks are flattened.

    The stack supports ``column_gram`` if all parts are read in chunks, and ``row_lists`` if all
    parts do, in both cases apart from a last column of ones. It has fast row products if one part
    has them.

    Parameters
    ----------
    parts : sequence of FeatureMatrix
        Matrices of the same number of rows, at least one.
    scales : sequence of float, optional
        Factor of each part; 1 by default.
    """

    def __init__(
        self, parts: Sequence[FeatureMatrix], scales: Sequence[float] | FloatArray | None = None
    ) -> None:
        factors = [1.0] * len(parts) if scales is None else [float(scale) for scale in scales]
        if not parts or len(factors) != len(parts):
            sizes = f"{len(parts)} matrices and {len(factors)} scales"
            raise InputError(
                f"HStack: needs at least one matrix, and a scale for each; got {sizes}."
            )
        rows = [part.shape[0] for part in parts]
        if len(set(rows)) > 1:
            raise InputError(f"HStack: the matrices must have the same rows, got {rows}.")
        self.parts: list[FeatureMatrix] = []
        self.scales: list[float] = []
        for part, scale in zip(parts, factors, strict=True):
            if isinstance(part, HStack):
                self.parts += part.parts
                self.scales += [scale * inner for inner in part.scales]
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

    @property
    def has_ones(self) -> bool:
        """True if there are several parts and the last one is a column of ones."""
        return len(self.parts) > 1 and isinstance(self.parts[-1], OnesColumn)

    @cached_property
    def before_ones(self) -> FeatureMatrix:
        """The matrix without its last part, which must be a column of ones."""
        parts, scales = self.parts[:-1], self.scales[:-1]
        return parts[0] if scales == [1.0] else HStack(parts, scales)

    @property
    def is_chunked(self) -> bool:
        return all(isinstance(part, ChunkedMatrix) for part in self.parts)

    @property
    def has_one_pass(self) -> bool:
        return self.before_ones.has_one_pass if self.has_ones else self.is_chunked

    @property
    def has_column_gram(self) -> bool:
        return self.before_ones.has_column_gram if self.has_ones else self.is_chunked

    @property
    def has_row_lists(self) -> bool:
        parts = self.parts[:-1] if self.has_ones else self.parts
        return all(part.has_row_lists for part in parts)

    @property
    def has_row_products(self) -> bool:
        return any(part.has_row_products for part in self.parts)

    def _matvec(self, w: Vector, out: Vector) -> None:
        (columns, first, scale), *others = self._scaled_parts()
        first.matvec(w[columns], out)
        if scale != 1.0:
            out *= scale
        for columns, part, scale in others:
            part.add_matvec(w[columns], scale, out)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        for columns, part, scale in self._scaled_parts():
            part.rmatvec(v if scale == 1.0 else scale * v, out[columns])

    def _add_rmatvec(self, v: Vector, out: Vector) -> None:
        for columns, part, scale in self._scaled_parts():
            part.add_rmatvec(v if scale == 1.0 else scale * v, out[columns])

    def row_factors(self) -> tuple[FeatureMatrix, FeatureMatrix]:
        left, right = zip(*(part.row_factors() for part in self.parts), strict=True)
        return HStack(left, self.scales), HStack(right, self.scales)

    def row_gram(self) -> FloatArray:
        (_, first, scale), *others = self._scaled_parts()
        gram = first.row_gram()
        if scale != 1.0:
            gram *= scale**2
        for _, part, scale in others:
            gram += scale**2 * part.row_gram()
        return gram

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        diagonals = [
            scale**2 * part.gram_diagonal(weights) for _, part, scale in self._scaled_parts()
        ]
        return np.concatenate(diagonals)

    def blocks(self) -> Iterator[ColumnBlock]:
        for columns, part, scale in self._scaled_parts():
            for block in part.blocks():
                matrix = block.matrix if scale == 1.0 else HStack([block.matrix], [scale])
                start = columns.start
                yield ColumnBlock(start + block.start, start + block.stop, matrix)

    def take_rows(self, rows: Rows) -> HStack:
        return HStack([part.take_rows(rows) for part in self.parts], self.scales)

    def tocsr(self) -> sp.csr_array:
        parts = [scale * part.tocsr() for _, part, scale in self._scaled_parts()]
        return sp.hstack(parts, format="csr")

    def row_products(
        self, v: Vector, rows: NDArray[np.intp] | None = None, *, single: bool = False
    ) -> Vector:
        total = np.zeros((self.shape[0], v.shape[1]))
        for scale, part in zip(self.scales, self.parts, strict=True):
            total += scale**2 * part.row_products(v, rows, single=single)
        return total

    def _list_rows(self) -> RowLists:
        if self.has_ones:
            return self.before_ones.row_lists.with_ones()
        lists = [part.row_lists for part in self.parts]
        starts = self._bounds[:-1]
        offsets = [part.offsets[:-1] + a for part, a in zip(lists, starts, strict=True)]
        values = [scale * part.values for part, scale in zip(lists, self.scales, strict=True)]
        return RowLists(
            offsets=np.append(np.concatenate(offsets), self.shape[1]),
            values=np.concatenate(values),
            parts=lists[0].parts,
            rows=np.concatenate([part.rows for part in lists]),
            bounds=np.concatenate([part.bounds for part in lists], axis=1),
        )

    def pull_back(self, w: Vector, function: RowFunction, out: Vector | None = None) -> Vector:
        if not self.has_one_pass:
            return super().pull_back(w, function, out)
        w = as_operand(self, w, self.shape[1], "w")
        if not self.has_ones:
            scales = self._column_scales().reshape(-1, *[1] * (w.ndim - 1))
            return copy_to_out(self, out, scales * self._joined.pull_back(scales * w, function))
        shift = self.scales[-1] * w[-1]
        # Kept for the column of ones: threads process rows in any order, but one sum must have one
        # order.
        values = np.empty((self.shape[0], *w.shape[1:]))

        def add_shift(rows: slice, responses: Vector) -> Vector:
            responses += shift
            values[rows] = function(rows, responses)
            return values[rows]

        result = np.empty(w.shape)
        self.before_ones.pull_back(w[:-1], add_shift, result[:-1])
        result[-1] = self.scales[-1] * values.sum(axis=0)
        return copy_to_out(self, out, result)

    def column_gram(
        self,
        weights: FloatArray | None = None,
        columns: Columns | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        if self.has_ones:
            return self._bordered_gram(weights, columns, out)
        gram = self._joined.column_gram(weights, columns, out)
        scales = self._column_scales()[slice(None) if columns is None else columns]
        for row, scale in zip(gram, scales, strict=True):
            row *= scale * scales
        return gram

    def _bordered_gram(
        self, weights: FloatArray | None, columns: Columns | None, out: FloatArray | None
    ) -> FloatArray:
        """Return the Gram matrix of columns that may include the last one, of ones."""
        inner, ones_scale, n_inner = self.before_ones, self.scales[-1], self.shape[1] - 1
        indices = np.arange(n_inner + 1)[slice(None) if columns is None else columns]
        others, ones = np.flatnonzero(indices < n_inner), np.flatnonzero(indices == n_inner)
        gram = np.empty((len(indices), len(indices))) if out is None else out
        check_out(self, gram, (len(indices), len(indices)))
        if columns is None:
            inner.column_gram(weights, out=gram[:-1, :-1])
        else:
            gram[np.ix_(others, others)] = inner.column_gram(weights, indices[others])
        # Products with the column of ones are weighted sums of the other columns.
        row_weights = np.ones(self.shape[0]) if weights is None else np.asarray(weights, np.float64)
        sums = ones_scale * inner.rmatvec(row_weights)[indices[others]]
        gram[np.ix_(others, ones)] = sums[:, None]
        gram[np.ix_(ones, others)] = sums
        gram[np.ix_(ones, ones)] = ones_scale**2 * row_weights.sum()
        return gram

    @cached_property
    def _joined(self) -> ChunkedMatrix:
        return _JoinedChunks([cast(ChunkedMatrix, part) for part in self.parts])

    def _column_scales(self) -> FloatArray:
        return np.repeat(self.scales, np.diff(self._bounds))

    def _scaled_parts(self) -> Iterator[tuple[slice, FeatureMatrix, float]]:
        bounds = pairwise(self._bounds)
        for (start, stop), part, scale in zip(bounds, self.parts, self.scales, strict=True):
            yield slice(start, stop), part, scale


def with_ones(matrix: FeatureMatrix) -> HStack:
    return HStack([matrix, OnesColumn(matrix.shape[0])])


def without_ones(matrix: FeatureMatrix) -> tuple[FeatureMatrix, int]:
    """Return the matrix without a last column of ones, and whether there was one (1 or 0)."""
    if isinstance(matrix, HStack) and matrix.has_ones:
        return matrix.before_ones, 1
    return matrix, 0


def stacked_parts(matrix: FeatureMatrix) -> Iterator[tuple[float, FeatureMatrix]]:
    """Yield the scale and the matrix of each part of a stack, or of a single matrix."""
    if isinstance(matrix, HStack):
        yield from zip(matrix.scales, matrix.parts, strict=True)
    else:
        yield 1.0, matrix


class _JoinedChunks(ChunkedMatrix):
    """Several matrices read in chunks, whose columns are copied into one array."""

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
