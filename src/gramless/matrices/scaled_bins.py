"""Matrices of bins with a factor for each column."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gramless.base.threads import cached_property, map_blocks, row_blocks
from gramless.base.types import FloatArray
from gramless.matrices.base import FeatureMatrix, Rows, Vector, WrappedMatrix
from gramless.matrices.plain_bins import PlainBins
from gramless.matrices.stacked import HStack
from gramless.matrices.weighted import WeightedBinnedMatrix

_FRACTION_STEPS = 1 << 12  # factors have 12 bits, so that float32 holds their squares
_TASK_WEIGHTS = 1 << 17  # weights that a task multiplies


class ScaledBins(WrappedMatrix):
    """A matrix of bins whose columns are multiplied by factors.

    A ridge penalty on the weights of the scaled columns equals one on the weights of the bins,
    divided by the squared factors. :func:`unscaled_weights` returns the weights of the bins.

    Parameters
    ----------
    matrix : PlainBins (n_rows, n_columns)
        The bins.
    factors : array (n_columns,)
        Factors of the columns, rounded to 12 bits by :func:`rounded_factors` so that float32
        holds their squares.

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
        _multiply(w, self.factors, scaled, self.n_jobs)
        self.matrix.matvec(scaled, out)
        self._work_arrays.append(scaled)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        self.matrix.rmatvec(v, out)
        _multiply(out, self.factors, out, self.n_jobs)

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


def rounded_factors(factors: FloatArray) -> FloatArray:
    """Return factors of columns rounded to 12 bits, which changes them by at most 0.02 %.

    Examples
    --------
    >>> rounded_factors(np.array([1.0, 1.0001, 0.3]))
    array([1.        , 1.        , 0.30004883])
    """
    fractions, exponents = np.frexp(factors)
    return np.ldexp(np.round(fractions * _FRACTION_STEPS) / _FRACTION_STEPS, exponents)


def unscaled_weights(matrix: FeatureMatrix, weights: Vector) -> Vector:
    """Return the weights of the bins, given those of a matrix that may have scaled bins.

    Weights of other columns, such as the intercept, do not change.

    Examples
    --------
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> unscaled_weights(ScaledBins(Z, np.array([0.5, 2.0])), np.array([2.0, 3.0, 9.0]))
    array([1., 6., 9.])
    """
    bins = first_part(matrix)
    return multiplied(weights, bins.factors) if isinstance(bins, ScaledBins) else weights


def scaled_weights(matrix: FeatureMatrix, weights: Vector) -> Vector:
    """Return the weights of a matrix that may have scaled bins, given those of the bins."""
    bins = first_part(matrix)
    return multiplied(weights, 1.0 / bins.factors) if isinstance(bins, ScaledBins) else weights


def multiplied(weights: Vector, factors: FloatArray) -> Vector:
    """Return a copy of the weights, the first ``len(factors)`` of them times the factors."""
    result, n = weights.copy(), len(factors)
    result[:n] *= factors if result.ndim == 1 else factors[:, None]
    return result


def scale_bins(matrix: FeatureMatrix, factors: FloatArray) -> FeatureMatrix:
    """Return the matrix with the bins that are its first part multiplied by factors."""
    bins = first_part(matrix)
    assert isinstance(bins, PlainBins)
    return _with_first_part(matrix, ScaledBins(bins, factors))


def plain_matrix(matrix: FeatureMatrix) -> FeatureMatrix:
    """Return the matrix without the factors of bins, if its first part has any."""
    scaled = first_part(matrix)
    return _with_first_part(matrix, scaled.matrix) if isinstance(scaled, ScaledBins) else matrix


def first_part(matrix: FeatureMatrix) -> FeatureMatrix:
    """Return the first part of a stack, or the matrix itself if it is not a stack."""
    return matrix.parts[0] if isinstance(matrix, HStack) else matrix


def _with_first_part(matrix: FeatureMatrix, first: FeatureMatrix) -> FeatureMatrix:
    if isinstance(matrix, HStack):
        return HStack([first, *matrix.parts[1:]], matrix.scales)
    return first


def _multiply(weights: Vector, factors: FloatArray, out: Vector, n_jobs: int | None) -> None:
    """Write each row of the weights times its factor into ``out``."""
    column = factors if weights.ndim == 1 else factors[:, None]

    def multiply(first: int, last: int) -> None:
        np.multiply(weights[first:last], column[first:last], out=out[first:last])

    map_blocks(multiply, row_blocks(len(factors), _TASK_WEIGHTS), n_jobs)
