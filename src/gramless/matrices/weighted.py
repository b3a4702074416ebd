"""Matrices of bins whose non-zeros differ: a value per grid and row, or a factor per column."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gramless.base.arrays import contiguous_rows, flat_rows, readonly
from gramless.base.errors import InputError
from gramless.base.threads import cached_property, map_blocks, row_blocks
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.loops import weighted_gather as loops
from gramless.matrices.base import FeatureMatrix, Rows, Vector, WrappedMatrix, row_weights_of
from gramless.matrices.codes import CodedMatrix, PlainBins, TaskSizes, take_grid_rows
from gramless.matrices.stacked import HStack

_FRACTION_STEPS = 1 << 12  # factors have 12 bits, so that float32 holds their squares exactly
_TASK_WEIGHTS = 1 << 17  # weights that a task multiplies


class WeightedBinnedMatrix(CodedMatrix):
    """The sparse matrix of smooth bins, stored as a code and a value per grid and row.

    Row i has ``scale * values[r, i]`` in column ``offsets[r] + codes[r, i] - 1`` of each grid r. It
    has no non-zero in a grid whose code is 0, which is the code of bins without training rows.

    Parameters are those of :class:`~gramless.matrices.binned.BinnedMatrix`, and ``values``
    (n_grids, n_rows) of float32 or float16. Values must be finite, also if the code is 0, and those
    in half precision must not be negative.

    Attributes
    ----------
    unseen_squares : array (n_rows,)
        Sums of the squares of ``scale * values`` of each row in bins without training rows. The
        matrix does not contain these entries.
    """

    def __init__(
        self,
        codes: NDArray[np.unsignedinteger],
        values: NDArray[np.floating],
        offsets: IntArray,
        *,
        scale: float | None = None,
        has_unseen: bool | None = None,
        n_jobs: int | None = None,
        tasks: TaskSizes = TaskSizes(),  # noqa: B008
    ) -> None:
        self.offsets = np.asarray(offsets, np.int64)
        self._check_codes(codes)
        if values.shape != codes.shape or values.dtype not in (np.float32, np.float16):
            raise InputError(
                f"WeightedBinnedMatrix: values must be float32 or float16 of the codes' shape "
                f"{codes.shape}, got {values.dtype} of shape {values.shape}."
            )
        if values.dtype == np.float16 and (values.view(np.uint16) > loops.MAX_HALF).any():
            raise InputError(
                "WeightedBinnedMatrix: values in half precision must be finite and not negative."
            )
        self.scale = float(scale) if scale is not None else 1.0 / np.sqrt(max(1, len(codes)))
        self.unseen_squares = np.zeros(codes.shape[1])
        if has_unseen or (has_unseen is None and not codes.all()):
            # Code 1 with value 0 replaces code 0, so loops need no branch.
            unseen = np.where(codes == 0, values, values.dtype.type(0))
            squares = np.einsum("ri,ri->i", unseen, unseen, dtype=float)
            self.unseen_squares += squares * self.scale**2
            values, codes = values - unseen, np.maximum(codes, codes.dtype.type(1))
        self.codes, self.values = contiguous_rows(codes), contiguous_rows(values)
        self.n_jobs, self.tasks = n_jobs, tasks
        # Loops read flat arrays of the grids that have columns, and half precision as bits.
        used = np.flatnonzero(np.diff(self.offsets))
        kept = slice(None) if len(used) == len(codes) else used
        is_single = values.dtype == np.float32
        self._stored = self.values if is_single else self.values.view(np.uint16)
        self._unit = self.scale * (1.0 if is_single else loops.HALF_UNIT)
        self._codes, self._code_stride = flat_rows(self.codes[kept])
        self._values, self._value_stride = flat_rows(self._stored[kept])
        self._starts = self.offsets[used].astype(np.uint64) - np.uint64(1)

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.values.nbytes + self.offsets.nbytes

    def _matvec(self, w: Vector, out: Vector) -> None:
        weights, n_columns = readonly(w.reshape(-1)), w.shape[1] if w.ndim == 2 else 1
        out[...] = 0.0

        def gather(a: int, b: int) -> None:
            bins, part = self._bins(0, a), out[a:b].reshape(-1)
            if w.ndim == 1:
                loops.gather_sum(*bins, self._starts, weights, part)
            else:
                loops.gather_rows(*bins, self._starts, weights, n_columns, part)
            part *= self._unit

        map_blocks(gather, row_blocks(self.shape[0], self._task_rows(n_columns)), self.n_jobs)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        out[...] = 0.0
        self._add_rmatvec(v, out)

    def _add_rmatvec(self, v: Vector, out: Vector) -> None:
        factors, flat = v * self._unit, out.reshape(-1)
        n_columns = v.shape[1] if v.ndim == 2 else 1

        def scatter(a: int, b: int) -> None:
            bins, starts = self._bins(a, 0), self._starts[a:b]
            if v.ndim == 1:
                loops.scatter_add(*bins, starts, factors, flat)
            else:
                loops.scatter_add_rows(*bins, starts, factors.reshape(-1), n_columns, flat)

        self._map_grids(scatter, len(self._starts), n_columns, per_pass=4)

    def row_gram(self) -> FloatArray:
        """Return ``Z @ Z.T`` by comparing the codes of each two rows, some 6 comparisons per ns."""
        by_rows = self.codes.T, self._stored.T
        codes, values = (readonly(np.ascontiguousarray(part)) for part in by_rows)
        n_rows = self.shape[0]
        gram = np.zeros((n_rows, n_rows))
        parts = row_blocks(n_rows, max(1, -(-n_rows // 16)))
        map_blocks(
            lambda a, b: loops.write_row_products(codes, values, a, b, gram), parts, self.n_jobs
        )
        gram *= self._unit**2
        return gram

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        """Return the weighted sum of the squared values in each bin."""
        factors, result = row_weights_of(self, weights) * self._unit**2, np.zeros(self.shape[1])

        def scatter(a: int, b: int) -> None:
            loops.scatter_squares(*self._bins(a, 0), self._starts[a:b], factors, result)

        self._map_grids(scatter, len(self._starts), 1, per_pass=4)
        return result

    def _bins(self, grid: int, row: int) -> tuple[AnyArray, int, AnyArray, int]:
        """Return flat codes and values from a grid and row on, each with its stride."""
        codes = self._codes[grid * self._code_stride + row :]
        values = self._values[grid * self._value_stride + row :]
        return codes, self._code_stride, values, self._value_stride

    def _grid(self, r: int, offsets: IntArray) -> WeightedBinnedMatrix:
        return self._copy_with(self.codes[r : r + 1], self.values[r : r + 1], offsets)

    def take_rows(self, rows: Rows) -> WeightedBinnedMatrix:
        codes = take_grid_rows(self.codes, rows, self.n_jobs)
        values = take_grid_rows(self.values, rows, self.n_jobs)
        part = self._copy_with(codes, values, self.offsets)
        part.unseen_squares = self.unseen_squares[rows]
        return part

    def tocsr(self) -> sp.csr_array:
        is_nonzero = (self.values != 0).T
        values = self.values.T[is_nonzero].astype(np.float64) * self.scale
        return self._csr(is_nonzero, values)

    def _copy_with(
        self, codes: AnyArray, values: AnyArray, offsets: IntArray
    ) -> WeightedBinnedMatrix:
        return WeightedBinnedMatrix(
            codes,
            values,
            offsets,
            scale=self.scale,
            has_unseen=False,
            n_jobs=self.n_jobs,
            tasks=self.tasks,
        )


class ScaledBins(WrappedMatrix):
    """A matrix of bins whose columns are multiplied by factors.

    A ridge penalty on the weights of the scaled columns equals one on the weights of the bins,
    divided by the squared factors. :func:`unscale_weights` returns the weights of the bins.

    Parameters
    ----------
    matrix : PlainBins (n_rows, n_columns)
        The bins.
    factors : array (n_columns,)
        Factors of the columns, rounded to 12 bits by :func:`round_factors` so that float32
        holds their squares exactly.

    Examples
    --------
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> ScaledBins(Z, np.array([0.5, 2.0])).toarray()
    array([[0.5, 0. ],
           [0.5, 0. ],
           [0. , 2. ]])
    """

    matrix: PlainBins

    def __init__(self, matrix: PlainBins, factors: FloatArray) -> None:
        super().__init__(matrix)
        self.factors = np.asarray(factors, np.float64)
        # Matrices of subsets of the rows share these lists: the squared factors and a work array.
        self._squares: list[FloatArray] = []
        self._work_arrays: list[Vector] = []

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes + self.factors.nbytes

    def _matvec(self, w: Vector, out: Vector) -> None:
        if self._has_few_nonzeros:
            self._weighted.matvec(w, out)
            return
        # Allocating memory would cost more than the multiplication by the factors.
        scaled = self._work_arrays.pop() if self._work_arrays else np.empty_like(w)
        if scaled.shape != w.shape:
            scaled = np.empty_like(w)
        _scale_rows(w, self.factors, scaled, self.n_jobs)
        self.matrix.matvec(scaled, out)
        self._work_arrays.append(scaled)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        self.matrix.rmatvec(v, out)
        _scale_rows(out, self.factors, out, self.n_jobs)

    def _add_rmatvec(self, v: Vector, out: Vector) -> None:
        if self._has_few_nonzeros:
            self._weighted.add_rmatvec(v, out)
        else:
            super()._add_rmatvec(v, out)

    def row_factors(self) -> tuple[FeatureMatrix, FeatureMatrix]:
        return self._with_squared_factors, self.matrix

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        return self.factors**2 * self.matrix.gram_diagonal(weights)

    def row_gram(self) -> FloatArray:
        return self._weighted.row_gram()

    def take_rows(self, rows: Rows) -> ScaledBins:
        return self._with_shared_memory(self.matrix.take_rows(rows), self.factors)

    def tocsr(self) -> sp.csr_array:
        return sp.csr_array(self.matrix.tocsr() @ sp.diags_array(self.factors))

    @property
    def _has_few_nonzeros(self) -> bool:
        n_rows, n_columns = self.shape
        return n_rows * self.matrix.n_grids < n_columns

    @cached_property
    def _with_squared_factors(self) -> ScaledBins:
        if not self._squares:
            self._squares.append(self.factors**2)
        return self._with_shared_memory(self.matrix, self._squares[0])

    def _with_shared_memory(self, matrix: PlainBins, factors: FloatArray) -> ScaledBins:
        result = ScaledBins(matrix, factors)
        result._work_arrays = self._work_arrays
        if factors is self.factors:
            result._squares = self._squares
        return result

    @cached_property
    def _weighted(self) -> WeightedBinnedMatrix:
        """The same matrix with the factor of each non-zero stored."""
        bins = self.matrix.loaded()
        padded = np.append(0.0, self.factors).astype(np.float32)
        positions = np.where(bins.codes != 0, bins.codes + bins.offsets[:-1, None], 0)
        return WeightedBinnedMatrix(
            bins.codes,
            padded[positions],
            bins.offsets,
            scale=self.matrix.scale,
            n_jobs=self.n_jobs,
        )


def round_factors(factors: FloatArray) -> FloatArray:
    """Return factors of columns rounded to 12 bits, which changes them by at most 0.02 %.

    Examples
    --------
    >>> round_factors(np.array([1.0, 1.0001, 0.3]))
    array([1.        , 1.        , 0.30004883])
    """
    fractions, exponents = np.frexp(factors)
    return np.ldexp(np.round(fractions * _FRACTION_STEPS) / _FRACTION_STEPS, exponents)


def unscale_weights(matrix: FeatureMatrix, weights: Vector) -> Vector:
    """Return the weights of the bins, given those of a matrix that may have scaled bins.

    Weights of other columns, such as the intercept, do not change.

    Examples
    --------
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> unscale_weights(ScaledBins(Z, np.array([0.5, 2.0])), np.array([2.0, 3.0, 9.0]))
    array([1., 6., 9.])
    """
    bins = first_part(matrix)
    return multiply_first(weights, bins.factors) if isinstance(bins, ScaledBins) else weights


def scale_weights(matrix: FeatureMatrix, weights: Vector) -> Vector:
    """Return the weights of a matrix that may have scaled bins, given those of the bins."""
    bins = first_part(matrix)
    return multiply_first(weights, 1.0 / bins.factors) if isinstance(bins, ScaledBins) else weights


def multiply_first(weights: Vector, factors: FloatArray) -> Vector:
    """Return a copy of the weights, the first ``len(factors)`` of them times the factors."""
    result, n = weights.copy(), len(factors)
    result[:n] *= factors if result.ndim == 1 else factors[:, None]
    return result


def scale_bins(matrix: FeatureMatrix, factors: FloatArray) -> FeatureMatrix:
    """Return the matrix with the columns of its first part, which are bins, times factors."""
    bins = first_part(matrix)
    assert isinstance(bins, PlainBins)
    return _with_first_part(matrix, ScaledBins(bins, factors))


def remove_factors(matrix: FeatureMatrix) -> FeatureMatrix:
    """Return the matrix without the factors of :func:`scale_bins`, if it has any."""
    scaled = first_part(matrix)
    return _with_first_part(matrix, scaled.matrix) if isinstance(scaled, ScaledBins) else matrix


def first_part(matrix: FeatureMatrix) -> FeatureMatrix:
    """Return the first part of a stack, or the matrix itself if it is not a stack."""
    return matrix.parts[0] if isinstance(matrix, HStack) else matrix


def _with_first_part(matrix: FeatureMatrix, first: FeatureMatrix) -> FeatureMatrix:
    if isinstance(matrix, HStack):
        return HStack([first, *matrix.parts[1:]], matrix.scales)
    return first


def _scale_rows(weights: Vector, factors: FloatArray, out: Vector, n_jobs: int | None) -> None:
    column = factors if weights.ndim == 1 else factors[:, None]

    def multiply(first: int, last: int) -> None:
        np.multiply(weights[first:last], column[first:last], out=out[first:last])

    map_blocks(multiply, row_blocks(len(factors), _TASK_WEIGHTS), n_jobs)
