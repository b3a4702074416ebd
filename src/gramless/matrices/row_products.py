"""Products ``Z @ Z.T @ v`` in single precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gramless.base.threads import cached_property, map_blocks, one_blas_thread, row_blocks
from gramless.base.types import AnyArray, FloatArray
from gramless.loops.dense import responses_to_few
from gramless.matrices.base import FeatureMatrix, Rows, Vector, WrappedMatrix
from gramless.matrices.binned import BinnedMatrix
from gramless.matrices.dense import ChunkedMatrix, DenseMatrix, take_array_rows
from gramless.matrices.stacked import stacked_parts

Floats = NDArray[np.float32]
BlockProduct = Callable[[int, int], AnyArray]  # returns the product of rows ``first:last``

# For this range of numbers of vectors, the compiled loop takes less time than BLAS.
_MIN_LOOP_VECTORS, _MAX_LOOP_VECTORS = 2, 12
_BLOCK_ROWS, _PART_ROWS, _SUMMED_ROWS = 256, 1024, 128  # rows per task


class SingleRowProducts(WrappedMatrix):
    """A feature matrix that computes row products in single precision, enough to compare fits.

    If ``gram``, which is ``Z @ Z.T`` (n_rows, n_rows), is given, row products use it.

    Examples
    --------
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> SingleRowProducts(Z, single_row_gram(Z)).row_products(np.array([[1.0], [2.0], [4.0]]))
    array([[3.],
           [3.],
           [4.]])
    """

    def __init__(self, matrix: FeatureMatrix, gram: Floats | None = None) -> None:
        super().__init__(matrix)
        self.gram = gram
        self._selection: tuple[NDArray[np.intp], list[Floats]] | None = None

    @property
    def has_row_products(self) -> bool:
        return True

    @cached_property
    def values(self) -> list[Floats]:
        """The dense parts in single precision, times their scales."""
        return [
            _scale_to_single(part.array, scale, self.n_jobs)
            for scale, part in stacked_parts(self.matrix)
            if isinstance(part, DenseMatrix)
        ]

    def _add_rmatvec(self, v: Vector, out: Vector) -> None:
        self.matrix.add_rmatvec(v, out)

    def take_rows(self, rows: Rows) -> SingleRowProducts:
        matrix = self.matrix.take_rows(rows)
        if self.gram is None:
            return SingleRowProducts(matrix)
        is_slice = isinstance(rows, slice)
        gram = self.gram[rows, rows] if is_slice else self.gram[rows][:, rows]
        return SingleRowProducts(matrix, np.ascontiguousarray(gram))

    def row_gram(self) -> FloatArray:
        return self.matrix.row_gram() if self.gram is None else self.gram.astype(np.float64)

    def row_products(
        self, v: Vector, rows: NDArray[np.intp] | None = None, *, single: bool = True
    ) -> Vector:
        if self.gram is None:
            return self._sum_part_products(v, rows)
        gram = self.gram if rows is None else self._select(rows)[0]
        product, out = product_of_rows(gram, v), np.empty((self.shape[0], v.shape[1]))

        def multiply(first: int, last: int) -> None:
            out[first:last] = product(first, last)

        with one_blas_thread():
            map_blocks(multiply, row_blocks(len(out), _BLOCK_ROWS), self.n_jobs)
        return out

    def _select(self, rows: NDArray[np.intp]) -> list[Floats]:
        """Return columns of the Gram matrix or, without one, the dense values of some rows."""
        # Preconditioners pass the same array of rows many times, so the selection is kept.
        if self._selection is None or self._selection[0] is not rows:
            if self.gram is None:
                selected = [take_array_rows(values, rows, self.n_jobs) for values in self.values]
            else:
                selected = [np.ascontiguousarray(self.gram[:, rows])]
            self._selection = rows, selected
        return self._selection[1]

    def _sum_part_products(self, v: Vector, rows: NDArray[np.intp] | None) -> Vector:
        out = np.zeros((self.shape[0], v.shape[1]))
        for scale, part in stacked_parts(self.matrix):
            if not isinstance(part, DenseMatrix):
                out += scale**2 * part.row_products(v, rows, single=True)
        v_single = np.asarray(v, np.float32)
        selected = self.values if rows is None else self._select(rows)

        def add_product(values: Floats, selected_values: Floats) -> None:
            parts = map_blocks(
                lambda first, last: selected_values[first:last].T @ v_single[first:last],
                row_blocks(len(selected_values), _PART_ROWS),
                self.n_jobs,
            )
            product = product_of_rows(values, np.sum(parts, axis=0))

            def add(first: int, last: int) -> None:
                out[first:last] += product(first, last)

            map_blocks(add, row_blocks(len(out), _PART_ROWS), self.n_jobs)

        with one_blas_thread():
            for values, selected_values in zip(self.values, selected, strict=True):
                add_product(values, selected_values)
        return out


def _scale_to_single(array: AnyArray, scale: float, n_jobs: int | None) -> Floats:
    """Return ``scale * array`` in float32; no copy is made if nothing has to change."""
    if scale == 1.0 and array.dtype == np.float32:
        return array
    result = np.empty(array.shape, np.float32)

    def scale_rows(first: int, last: int) -> None:
        np.multiply(array[first:last], scale, out=result[first:last], casting="same_kind")

    map_blocks(scale_rows, row_blocks(len(array), _BLOCK_ROWS), n_jobs)
    return result


def product_of_rows(rows: Floats, v: AnyArray) -> BlockProduct:
    """Return a function that multiplies blocks of ``rows`` (n_rows, m) by ``v`` (m, K).

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0], [0.0, 1.0]], np.float32)
    >>> product_of_rows(rows, np.array([[1.0, 0.0], [1.0, 2.0]]))(0, 2)
    array([[3., 4.],
           [1., 2.]])
    """
    n_outputs = v.shape[1]
    if not _MIN_LOOP_VECTORS <= n_outputs <= _MAX_LOOP_VECTORS:
        v_single = np.asarray(v, np.float32)
        return lambda first, last: rows[first:last] @ v_single
    # The loop needs a multiple of 3 vectors, so zeros are appended.
    vectors = np.zeros((-(-n_outputs // 3) * 3, len(v)), np.float32)
    vectors[:n_outputs] = v.T

    def multiply(first: int, last: int) -> FloatArray:
        out = np.empty((last - first, len(vectors)))
        responses_to_few(rows[first:last], vectors, out)
        return out[:, :n_outputs]

    return multiply


def single_row_gram(matrix: FeatureMatrix) -> Floats:
    """Return ``Z @ Z.T`` in single precision.

    For bins, this takes one comparison for each grid and pair of rows.
    """
    if isinstance(matrix, BinnedMatrix):
        counts = matrix.shared_bins()
        counts *= np.float32(matrix.scale**2)
        return counts
    if not isinstance(matrix, ChunkedMatrix):
        return matrix.row_gram().astype(np.float32)
    n_rows = matrix.shape[0]
    values, gram = matrix.rows_as(np.float32), np.empty((n_rows, n_rows), np.float32)

    def multiply(first: int, last: int) -> None:
        products = values[first:last] @ values[:last].T
        gram[first:last, :last] = products
        gram[:first, first:last] = products[:, :first].T

    with one_blas_thread():
        # The last blocks take longest, so they come first.
        map_blocks(multiply, row_blocks(n_rows, _BLOCK_ROWS)[::-1], matrix.n_jobs)
    return gram


def weighted_sum(parts: Sequence[tuple[np.float32, Floats]], n_jobs: int | None) -> Floats:
    """Return the sum of arrays of one shape, each times its factor."""
    (factor, first_part), *others = parts
    total = np.empty_like(first_part)

    def add_up(first: int, last: int) -> None:
        rows = slice(first, last)
        np.multiply(first_part[rows], factor, out=total[rows])
        for part_factor, part in others:
            total[rows] += part_factor * part[rows]

    map_blocks(add_up, row_blocks(len(total), _SUMMED_ROWS), n_jobs)
    return total
