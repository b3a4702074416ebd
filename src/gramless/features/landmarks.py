"""Kernel values between rows and landmarks, and their whitening."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import lapack, solve_triangular
from scipy.spatial.distance import cdist

from gramless.base.errors import InputError, KernelError
from gramless.base.numeric import clip_infinities
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.kernels import Gaussian, Kernel, RadialKernel
from gramless.preprocessing.categories import Mask
from gramless.preprocessing.rows import Rows

# The kernel values of rows with fixed landmarks, (n_rows, n_landmarks).
Values = Callable[[Rows], FloatArray]

BLOCK_ROWS = 1024
# Kernel values computed at a time: matrix products need many rows, and everything else is faster
# while its data stay in the cache.
_STRIP_NUMBERS, _TILE_NUMBERS = 1 << 16, 1 << 18
_MAX_CENTRE = 1e290  # differences from a larger centre could overflow
# Matrix products give |x - l|^2 as |x|^2 + |l|^2 - 2 x'l. Below this fraction of |x|^2, the result
# has too few correct digits, and is computed from the differences x - l instead.
_MIN_PRECISE_SHARE = 2.0**-16
# With at most this many imprecise distances per row, on average, they are computed one by one.
_MAX_NEAR_LANDMARKS = 4
_PANEL = 128  # columns of a step of forward substitution


@dataclass(frozen=True)
class Precomputed(Kernel):
    """A placeholder for a precomputed kernel: rows contain kernel values instead of inputs."""

    name: ClassVar[str] = "precomputed"
    is_separable = False
    no_binning_because: ClassVar[str] = "only its values are known"
    no_fourier_because: ClassVar[str] = "only its values are known"

    def profile(self, distance: FloatArray) -> FloatArray:
        raise KernelError("a precomputed kernel has no profile: only its values are known.")


@dataclass(frozen=True)
class InputKernel:
    """A kernel with its bandwidth; landmarks are rows of float64."""

    kernel: Kernel
    bandwidth: FloatArray
    categorical: Mask

    def take_rows(self, X: Rows, index: NDArray[np.integer]) -> Rows:
        """Return the training rows at ``index``."""
        return X[index]

    def landmarks(self, X: Rows, index: NDArray[np.integer]) -> AnyArray:
        """Return the training rows at ``index`` as landmarks."""
        return dense_rows(X[index])

    def gram(self, X: Rows, landmarks: AnyArray, n_jobs: int | None) -> FloatArray:
        """Return the kernel matrix of landmarks as a new array, computed from differences."""
        return kernel_matrix(self.values_by_differences(landmarks), landmarks, BLOCK_ROWS, n_jobs)

    def values_with(self, landmarks: AnyArray) -> Values:
        """Return a function from rows to their kernel values with landmarks."""
        if isinstance(self.kernel, RadialKernel) and not self.categorical.any():
            return RadialValues(self.kernel, landmarks, self.bandwidth)
        return self.values_by_differences(landmarks)

    def values_by_differences(self, landmarks: AnyArray) -> Values:
        """Return the function of :meth:`values_with` without matrix products: precise, but slow."""
        return lambda X: self.kernel.gram(
            dense_rows(X), landmarks, bandwidth=self.bandwidth, categorical=self.categorical
        )

    def gram_of_columns(
        self, X: FloatArray, landmarks: FloatArray, columns: IntArray
    ) -> FloatArray:
        """Return the kernel values of rows that agree with the landmarks in all other columns."""
        return self.kernel.gram(
            X[:, columns],
            landmarks[:, columns],
            bandwidth=self.bandwidth[columns],
            categorical=self.categorical[columns],
        )

    def diagonal(self, X: Rows) -> FloatArray:
        """Return the kernel value of each training row with itself."""
        return np.ones(X.shape[0])


@dataclass(frozen=True)
class GivenKernel:
    """A precomputed kernel with the methods of :class:`InputKernel`; landmarks are columns."""

    def take_rows(self, X: Rows, index: NDArray[np.integer]) -> Rows:
        return X[index][:, index]

    def landmarks(self, X: Rows, index: NDArray[np.integer]) -> AnyArray:
        return np.asarray(index)

    def gram(self, X: Rows, landmarks: AnyArray, n_jobs: int | None) -> FloatArray:
        if sp.issparse(X):
            return dense_rows(X[landmarks][:, landmarks])
        return X[np.ix_(landmarks, landmarks)].astype(np.float64, copy=False)

    def values_with(self, landmarks: AnyArray) -> Values:
        return lambda X: dense_rows(X[:, landmarks])

    def diagonal(self, X: Rows) -> FloatArray:
        return np.asarray(X.diagonal(), np.float64)


RowKernel = InputKernel | GivenKernel


class RadialValues:
    """Values of a kernel of the Euclidean distance, computed by matrix products.

    ``|x - l|^2 = |x|^2 + |l|^2 - 2 x'l`` cancels digits if the distance is smaller than ``|x|``.
    Therefore the mean of the landmarks is subtracted first, except from sparse rows. Distances that
    would still lose more than about five digits are computed from differences.
    """

    def __init__(self, kernel: RadialKernel, landmarks: AnyArray, bandwidth: FloatArray) -> None:
        self.kernel = kernel
        with np.errstate(over="ignore", invalid="ignore"):
            # The inverse of a denormal number is infinite, and NaN times 0.
            self.inverse = clip_infinities(1.0 / bandwidth)
            centre = landmarks.mean(axis=0) if len(landmarks) else np.zeros(len(bandwidth))
            self.centre = np.where(np.abs(centre) <= _MAX_CENTRE, centre, 0.0)
            self.landmarks = clip_infinities((landmarks - self.centre) * self.inverse)
            squares = np.einsum("ij,ij->i", self.landmarks, self.landmarks)
            # C-contiguous, because products of sparse rows would copy other arrays each time.
            self.factors = np.empty((len(bandwidth) + 2, len(squares)))
            np.multiply(self.landmarks.T, -2.0, out=self.factors[:-2])
        # Their product with [x, |x|^2, 1] is the squared distance.
        self.factors[-2], self.factors[-1] = 1.0, squares

    def __call__(self, X: Rows) -> FloatArray:
        return self._apply_by_strips(X, self._to_kernel_values)

    def squared_distances(self, X: Rows) -> FloatArray:
        """Return the squared distances of rows from the landmarks, in units of the bandwidth."""
        return self._apply_by_strips(X, lambda squares: None)

    def _apply_by_strips(self, X: Rows, function: Callable[[FloatArray], None]) -> FloatArray:
        """Return squared distances after an in-place function of some rows at a time."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares, squared_norms = self._squared_distances(X)
            for a, b in row_blocks(len(squared_norms), _strip_rows(squares.shape[1])):
                self._correct(X[a:b], squared_norms[a:b], squares[a:b])
                function(squares[a:b])
        return squares

    def _correct(self, X: Rows, squared_norms: FloatArray, squares: FloatArray) -> None:
        """Replace imprecise squared distances by those of differences."""
        # Negated comparisons, because squares may be NaN.
        limits = _MIN_PRECISE_SHARE * squared_norms
        is_precise = squares.min(axis=1, initial=np.inf) >= limits
        imprecise = np.flatnonzero(~is_precise)
        if len(imprecise):
            rows = clip_infinities((dense_rows(X[imprecise]) - self.centre) * self.inverse)
            row, column = np.nonzero(~(squares[imprecise] >= limits[imprecise, None]))
            if len(row) <= _MAX_NEAR_LANDMARKS * len(imprecise):
                differences = rows[row] - self.landmarks[column]
                squares[imprecise[row], column] = np.einsum("ij,ij->i", differences, differences)
            else:
                squares[imprecise] = cdist(rows, self.landmarks, "sqeuclidean")

    def _to_kernel_values(self, squares: FloatArray) -> None:
        if isinstance(self.kernel, Gaussian):
            # Without square roots, which would take half of the time.
            squares *= -0.5
            np.exp(squares, out=squares)
        else:
            squares[...] = self.kernel.profile(np.sqrt(squares, out=squares))

    def _squared_distances(self, X: Rows) -> tuple[FloatArray, FloatArray]:
        """Return ``|x|^2 + |l|^2 - 2 x'l``, and the squared norms that bound its rounding errors.

        These are ``|x|^2`` of centred dense rows. For sparse rows, which are not centred, they are
        ``|x|^2`` plus the squared norm of the centre.
        """
        if not sp.issparse(X):
            # One matrix product gives the whole sum: [x, |x|^2, 1] @ [-2 l; 1; |l|^2].
            rows = np.ones((X.shape[0], X.shape[1] + 2))
            inputs = rows[:, :-2]
            np.multiply(np.subtract(X, self.centre, out=inputs), self.inverse, out=inputs)
            np.einsum("ij,ij->i", inputs, inputs, out=rows[:, -2])
            return rows @ self.factors, rows[:, -2]
        factors, centre = self.factors[:-2], self.centre * self.inverse
        scaled = sp.csr_array(X.multiply(self.inverse[None, :]))
        squared_norms = scaled.power(2).sum(axis=1) + centre @ centre
        squares = scaled @ factors
        squares += (squared_norms - 2.0 * (scaled @ centre))[:, None]
        squares += self.factors[-1] - centre @ factors
        return squares, squared_norms


class Whitening:
    """Forward substitution ``z = L^-1 k`` in place, mostly by matrix products of panels."""

    def __init__(self, factor: FloatArray, dtype: DTypeLike) -> None:
        self.panels = row_blocks(len(factor), _PANEL)
        self.inverses = [
            solve_triangular(factor[a:b, a:b], np.eye(b - a), lower=True).T.astype(dtype)
            for a, b in self.panels
        ]
        self.factor = np.ascontiguousarray(factor, dtype)

    def __call__(self, block: AnyArray) -> None:
        """Overwrite the kernel values (n_rows, n) of rows with features."""
        for (a, b), inverse in zip(self.panels, self.inverses, strict=True):
            if a:
                block[:, a:b] -= block[:, :a] @ self.factor[a:b, :a].T
            block[:, a:b] = block[:, a:b] @ inverse


class MixedWhitening:
    """Forward substitution ``z = L^-1 k`` in float32, except for the first columns.

    The values of a smooth kernel agree in many digits. Float64 is needed until the contributions of
    the first ``n_double`` columns are subtracted; afterwards float32 is precise enough.
    """

    def __init__(self, factor: FloatArray, n_double: int) -> None:
        self.n_double = n = n_double
        self.first = Whitening(factor[:n, :n], np.float64)
        self.cross = np.ascontiguousarray(factor[n:, :n])
        self.others = Whitening(factor[n:, n:], np.float32)

    def begin(self, out: NDArray[np.float32], values: FloatArray) -> None:
        """Write the part in float64 to ``out``; kernel values (n_rows, n) are overwritten."""
        if self.n_double:
            first = values[:, : self.n_double]
            self.first(first)
            values[:, self.n_double :] -= first @ self.cross.T
        out[...] = values

    def finish(self, out: NDArray[np.float32]) -> None:
        """Overwrite ``out`` with features.

        ``out`` may hold the results of several calls of :meth:`begin`.
        """
        self.others(out[:, self.n_double :])


def fill(values: Values, X: Rows, out: AnyArray) -> None:
    """Write the kernel values of rows to ``out``, converted to its dtype."""
    numbers = _TILE_NUMBERS if isinstance(values, RadialValues) else _STRIP_NUMBERS
    for a, b in row_blocks(X.shape[0], _strip_rows(out.shape[1], numbers)):
        out[a:b] = values(X[a:b])


def kernel_matrix(
    values: Values, landmarks: AnyArray, block_rows: int, n_jobs: int | None
) -> FloatArray:
    """Return the kernel matrix of landmarks, computed by several threads."""
    gram = np.empty((len(landmarks), len(landmarks)))
    blocks = row_blocks(len(landmarks), block_rows)
    map_blocks(lambda a, b: fill(values, landmarks[a:b], gram[a:b]), blocks, n_jobs)
    return gram


def _strip_rows(n_columns: int, numbers: int = _STRIP_NUMBERS) -> int:
    return max(1, numbers // max(1, n_columns))


def pivoted_cholesky(gram: FloatArray, cut: float) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the pivoted Cholesky factor of a kernel matrix and the indices of the pivots.

    Each pivot is the row that the earlier ones represent worst. The factorization ends when the
    largest entry of the residual's diagonal is below ``cut`` times that of ``gram`` (LAPACK's
    ``pstrf``). The factor is the lower one of the pivots' kernel matrix. ``gram`` must be
    C-contiguous and is overwritten.
    """
    largest = float(gram.diagonal().max(initial=0.0))
    if not largest > 0.0:
        raise InputError("the kernel matrix has no positive number on its diagonal.")
    factor, order, rank, _ = lapack.dpstrf(gram.T, tol=cut * largest, lower=1, overwrite_a=1)
    return np.tril(factor[:rank, :rank]), order[:rank].astype(np.intp) - 1


def dense_rows(X: Rows) -> FloatArray:
    """Return rows as a C-contiguous array of float64, without a copy if possible."""
    return np.ascontiguousarray(X.toarray() if sp.issparse(X) else X, np.float64)
