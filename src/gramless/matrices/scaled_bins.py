"""Bins that do not all count alike: the columns of bins, each times a factor of its own."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gramless.base.cached import cached_property
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import FloatArray
from gramless.matrices.base import FeatureMatrix, Rows, Vector, WrappedMatrix
from gramless.matrices.plain_bins import PlainBins
from gramless.matrices.stacked import HStack
from gramless.matrices.weighted import WeightedBinnedMatrix

_STEPS, _AT_ONCE = 1 << 12, 1 << 17
"""Multiples to which the fraction of a factor is rounded; weights that a thread multiplies at a
time."""


class ScaledBins(WrappedMatrix):
    """The columns of bins, each times its factor.

    A ridge penalty on the weights of scaled columns is one on those of the bins themselves, divided
    by the squares of the factors. :func:`unscaled_weights` returns these weights.

    Parameters
    ----------
    matrix : PlainBins (n_rows, n_columns)
        The bins.
    factors : array (n_columns,)
        Of the columns: numbers of 12 bits, whose squares single precision holds; see
        :func:`rounded_factors`.

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
        # Matrices of some of the rows share both: the squares, if they are known, and free memory.
        self._squares: list[FloatArray] = []
        self._rooms: list[Vector] = []

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes + self.factors.nbytes

    def _matvec(self, w: Vector, out: Vector) -> None:
        if self._is_small:
            self._written_out.matvec(w, out)
            return
        # Fresh memory would cost more than the product with the factors.
        room = self._rooms.pop() if self._rooms else np.empty_like(w)
        if room.shape != w.shape:
            room = np.empty_like(w)
        _multiply(w, self.factors, room, self.n_jobs)
        self.matrix.matvec(room, out)
        self._rooms.append(room)

    def _rmatvec(self, v: Vector, out: Vector) -> None:
        self.matrix.rmatvec(v, out)
        _multiply(out, self.factors, out, self.n_jobs)

    def _add_rmatvec(self, v: Vector, out: Vector) -> None:
        if self._is_small:
            self._written_out.add_rmatvec(v, out)
        else:
            super()._add_rmatvec(v, out)

    def row_factors(self) -> tuple[FeatureMatrix, FeatureMatrix]:
        return self._scaled_twice, self.matrix

    def gram_diagonal(self, weights: FloatArray | None = None) -> FloatArray:
        return self.factors**2 * self.matrix.gram_diagonal(weights)

    def row_gram(self) -> FloatArray:
        return self._written_out.row_gram()

    def take_rows(self, rows: Rows) -> ScaledBins:
        return self._sharing(self.matrix.take_rows(rows), self.factors)

    def tocsr(self) -> sp.csr_array:
        return sp.csr_array(self.matrix.tocsr() @ sp.diags_array(self.factors))

    @property
    def _is_small(self) -> bool:
        """Whether there are more columns than non-zeros."""
        n_rows, n_columns = self.shape
        return n_rows * self.matrix.n_grids < n_columns

    @cached_property
    def _scaled_twice(self) -> ScaledBins:
        if not self._squares:
            self._squares.append(self.factors**2)
        return self._sharing(self.matrix, self._squares[0])

    def _sharing(self, matrix: PlainBins, factors: FloatArray) -> ScaledBins:
        made = ScaledBins(matrix, factors)
        made._rooms = self._rooms
        if factors is self.factors:
            made._squares = self._squares
        return made

    @cached_property
    def _written_out(self) -> WeightedBinnedMatrix:
        """The same matrix with a number for each non-zero."""
        bins = self.matrix.loaded()
        padded = np.append(0.0, self.factors).astype(np.float32)
        places = np.where(bins.codes != 0, bins.codes + bins.offsets[:-1, None], 0)
        return WeightedBinnedMatrix(
            bins.codes,
            padded[places],
            bins.offsets,
            scale=self.matrix.scale,
            n_jobs=self.n_jobs,
        )


def rounded_factors(factors: FloatArray) -> FloatArray:
    """Return factors of columns rounded to 12 bits, by at most 0.02 %.

    Examples
    --------
    >>> rounded_factors(np.array([1.0, 1.0001, 0.3]))
    array([1.        , 1.        , 0.30004883])
    """
    fractions, exponents = np.frexp(factors)
    return np.ldexp(np.round(fractions * _STEPS) / _STEPS, exponents)


def unscaled_weights(matrix: FeatureMatrix, weights: Vector) -> Vector:
    """Return weights of the bins themselves, given those of a matrix with scaled ones.

    Weights of other columns, such as the intercept, stay as they are.

    Examples
    --------
    >>> from gramless.matrices.binned import BinnedMatrix
    >>> Z = BinnedMatrix(np.array([[1, 1, 2]], np.uint8), np.array([0, 2]), scale=1.0)
    >>> unscaled_weights(ScaledBins(Z, np.array([0.5, 2.0])), np.array([2.0, 3.0, 9.0]))
    array([1., 6., 9.])
    """
    found = first_part(matrix)
    return multiplied(weights, found.factors) if isinstance(found, ScaledBins) else weights


def scaled_weights(matrix: FeatureMatrix, weights: Vector) -> Vector:
    """Return weights of a matrix with scaled bins, given those of the bins themselves."""
    found = first_part(matrix)
    return multiplied(weights, 1.0 / found.factors) if isinstance(found, ScaledBins) else weights


def multiplied(weights: Vector, factors: FloatArray) -> Vector:
    """Return weights of which the first, one for each factor, are multiplied by these."""
    made, n = weights.copy(), len(factors)
    made[:n] *= factors if made.ndim == 1 else factors[:, None]
    return made


def scale_bins(matrix: FeatureMatrix, factors: FloatArray) -> FeatureMatrix:
    """Return a matrix with the columns of its bins, those of its first part, times factors."""
    bins = first_part(matrix)
    assert isinstance(bins, PlainBins)
    return _with_first_part(matrix, ScaledBins(bins, factors))


def plain_matrix(matrix: FeatureMatrix) -> FeatureMatrix:
    """Return a matrix with the bins themselves where its first part is scaled bins."""
    scaled = first_part(matrix)
    return _with_first_part(matrix, scaled.matrix) if isinstance(scaled, ScaledBins) else matrix


def first_part(matrix: FeatureMatrix) -> FeatureMatrix:
    """Return the first of the matrices that stand side by side, or the only one."""
    return matrix.parts[0] if isinstance(matrix, HStack) else matrix


def _with_first_part(matrix: FeatureMatrix, first: FeatureMatrix) -> FeatureMatrix:
    if isinstance(matrix, HStack):
        return HStack([first, *matrix.parts[1:]], matrix.scales)
    return first


def _multiply(weights: Vector, factors: FloatArray, out: Vector, n_jobs: int | None) -> None:
    """Write weights times factors, one for each row of the weights, into ``out``."""
    by = factors if weights.ndim == 1 else factors[:, None]

    def multiply(first: int, last: int) -> None:
        np.multiply(weights[first:last], by[first:last], out=out[first:last])

    map_blocks(multiply, row_blocks(len(factors), _AT_ONCE), n_jobs)
