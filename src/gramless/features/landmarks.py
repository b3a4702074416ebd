"""The kernel between rows and landmarks, and the features that whitening makes of it."""

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
from gramless.base.numeric import in_range
from gramless.base.threads import map_blocks, row_blocks
from gramless.base.types import AnyArray, FloatArray, IntArray
from gramless.kernels import Gaussian, Kernel, RadialKernel
from gramless.preprocessing.categories import Mask
from gramless.preprocessing.rows import Rows

Values = Callable[[Rows], FloatArray]
"""Kernel values between a few rows and fixed landmarks, (m, n_landmarks)."""

ROWS_AT_ONCE = 1024
_STRIP_NUMBERS, _TILE_NUMBERS = 1 << 16, 1 << 18
_LARGEST_CENTRE = 1e290
_NEAR = 2.0**-16
_FEW_PAIRS = 4
"""Near landmarks a row, on average, up to which only these distances are computed again."""
_PANEL = 128


@dataclass(frozen=True)
class Precomputed(Kernel):
    """A kernel of which only the values between rows are known: rows hold those."""

    name: ClassVar[str] = "precomputed"
    is_separable = False
    no_binning_because: ClassVar[str] = "only its values between rows are known"
    no_fourier_because: ClassVar[str] = "only its values between rows are known"

    def profile(self, distance: FloatArray) -> FloatArray:
        raise KernelError("a precomputed kernel has no profile: only its values are known.")


@dataclass(frozen=True)
class InputKernel:
    """A kernel between rows of inputs, at its bandwidth; landmarks are rows of float64."""

    kernel: Kernel
    bandwidth: FloatArray
    categorical: Mask

    def subset(self, X: Rows, index: NDArray[np.integer]) -> Rows:
        """Return some of the training rows, as if there were no others."""
        return X[index]

    def landmarks(self, X: Rows, index: NDArray[np.integer]) -> AnyArray:
        """Return some of the training rows as landmarks."""
        return dense_rows(X[index])

    def gram(self, X: Rows, landmarks: AnyArray, n_jobs: int | None) -> FloatArray:
        """Return the landmarks' kernel matrix as a new array, with no avoidable rounding."""
        return kernel_matrix(self.by_differences(landmarks), landmarks, ROWS_AT_ONCE, n_jobs)

    def towards(self, landmarks: AnyArray) -> Values:
        """Return the function from rows to their kernel values with landmarks."""
        if isinstance(self.kernel, RadialKernel) and not self.categorical.any():
            return RadialValues(self.kernel, landmarks, self.bandwidth)
        return self.by_differences(landmarks)

    def by_differences(self, landmarks: AnyArray) -> Values:
        """Do as :meth:`towards` by ``Kernel.gram``, without matrix products."""
        return lambda X: self.kernel.gram(
            dense_rows(X), landmarks, bandwidth=self.bandwidth, categorical=self.categorical
        )

    def of_columns(self, X: FloatArray, landmarks: FloatArray, columns: IntArray) -> FloatArray:
        """Return the kernel values of some inputs alone, those of the others taken as equal."""
        return self.kernel.gram(
            X[:, columns],
            landmarks[:, columns],
            bandwidth=self.bandwidth[columns],
            categorical=self.categorical[columns],
        )

    def diagonal(self, X: Rows) -> FloatArray:
        """Return the kernel of each training row with itself."""
        return np.ones(X.shape[0])


@dataclass(frozen=True)
class GivenKernel:
    """A precomputed kernel, as :class:`InputKernel`; landmarks are the numbers of columns."""

    def subset(self, X: Rows, index: NDArray[np.integer]) -> Rows:
        return X[index][:, index]

    def landmarks(self, X: Rows, index: NDArray[np.integer]) -> AnyArray:
        return np.asarray(index)

    def gram(self, X: Rows, landmarks: AnyArray, n_jobs: int | None) -> FloatArray:
        if sp.issparse(X):
            return dense_rows(X[landmarks][:, landmarks])
        return X[np.ix_(landmarks, landmarks)].astype(np.float64, copy=False)

    def towards(self, landmarks: AnyArray) -> Values:
        return lambda X: dense_rows(X[:, landmarks])

    def diagonal(self, X: Rows) -> FloatArray:
        return np.asarray(X.diagonal(), np.float64)


RowKernel = InputKernel | GivenKernel


class RadialValues:
    """Values of a kernel of the Euclidean distance, by matrix products.

    ``|x - l|^2 = |x|^2 + |l|^2 - 2 x'l`` loses as many digits as ``|x|`` exceeds the distance by.
    Rows are therefore measured from the landmarks' mean (sparse ones from 0). Distances so small
    that more than about six digits would be lost are computed from differences instead.
    """

    def __init__(self, kernel: RadialKernel, landmarks: AnyArray, bandwidth: FloatArray) -> None:
        self.kernel = kernel
        with np.errstate(over="ignore", invalid="ignore"):
            # Division by the least numbers would give infinity, and that times 0 no number.
            self.inverse = in_range(1.0 / bandwidth)
            centre = landmarks.mean(axis=0) if len(landmarks) else np.zeros(len(bandwidth))
            # Differences from a larger one may overflow.
            self.centre = np.where(np.abs(centre) <= _LARGEST_CENTRE, centre, 0.0)
            self.landmarks = in_range((landmarks - self.centre) * self.inverse)
            squares = np.einsum("ij,ij->i", self.landmarks, self.landmarks)
            # Products of sparse rows copy anything that is not C-contiguous, each time.
            self.factors = np.empty((len(bandwidth) + 2, len(squares)))
            np.multiply(self.landmarks.T, -2.0, out=self.factors[:-2])
        self.factors[-2], self.factors[-1] = 1.0, squares

    def __call__(self, X: Rows) -> FloatArray:
        """Return the kernel values of rows."""
        return self._by_strips(X, self._values)

    def squared_distances(self, X: Rows) -> FloatArray:
        """Return the squared distances of rows from the landmarks, in bandwidths."""
        return self._by_strips(X, lambda squares: None)

    def _by_strips(self, X: Rows, finish: Callable[[FloatArray], None]) -> FloatArray:
        """Return squared distances, those of some rows after the other changed in place."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares, size = self._squares(X)
            for a, b in row_blocks(len(size), _strip(squares.shape[1])):
                self._correct(X[a:b], size[a:b], squares[a:b])
                finish(squares[a:b])
        return squares

    def _correct(self, X: Rows, size: FloatArray, squares: FloatArray) -> None:
        """Compute squared distances that lost their digits from differences, in place."""
        doubtful = np.flatnonzero(~(squares.min(axis=1, initial=np.inf) >= _NEAR * size))
        if len(doubtful):
            rows = in_range((dense_rows(X[doubtful]) - self.centre) * self.inverse)
            row, column = np.nonzero(~(squares[doubtful] >= _NEAR * size[doubtful, None]))
            if len(row) <= _FEW_PAIRS * len(doubtful):
                apart = rows[row] - self.landmarks[column]
                squares[doubtful[row], column] = np.einsum("ij,ij->i", apart, apart)
            else:
                squares[doubtful] = cdist(rows, self.landmarks, "sqeuclidean")

    def _values(self, squares: FloatArray) -> None:
        """Turn squared distances into kernel values, in place."""
        if isinstance(self.kernel, Gaussian):
            # The Gaussian needs no square roots, which would take half of the time.
            squares *= -0.5
            np.exp(squares, out=squares)
        else:
            squares[...] = self.kernel.profile(np.sqrt(squares, out=squares))

    def _squares(self, X: Rows) -> tuple[FloatArray, FloatArray]:
        """Return ``-2 x'l + |x|^2 + |l|^2``, and the size of the squares that cancel."""
        if not sp.issparse(X):
            rows = np.ones((X.shape[0], X.shape[1] + 2))
            inputs = rows[:, :-2]
            np.multiply(np.subtract(X, self.centre, out=inputs), self.inverse, out=inputs)
            np.einsum("ij,ij->i", inputs, inputs, out=rows[:, -2])
            return rows @ self.factors, rows[:, -2]
        factors, centre = self.factors[:-2], self.centre * self.inverse
        scaled = sp.csr_array(X.multiply(self.inverse[None, :]))
        size = scaled.power(2).sum(axis=1) + centre @ centre
        squares = scaled @ factors
        squares += (size - 2.0 * (scaled @ centre))[:, None]
        squares += self.factors[-1] - centre @ factors
        return squares, size


class Whitening:
    """``z = L^-1 k`` in place: forward substitution in panels of 128 columns, mostly products."""

    def __init__(self, factor: FloatArray, dtype: DTypeLike) -> None:
        self.panels = row_blocks(len(factor), _PANEL)
        self.inverses = [
            solve_triangular(factor[a:b, a:b], np.eye(b - a), lower=True).T.astype(dtype)
            for a, b in self.panels
        ]
        self.factor = np.ascontiguousarray(factor, dtype)

    def __call__(self, block: AnyArray) -> None:
        """Write features over the kernel values (m, n) of some rows."""
        for (a, b), inverse in zip(self.panels, self.inverses, strict=True):
            if a:
                block[:, a:b] -= block[:, :a] @ self.factor[a:b, :a].T
            block[:, a:b] = block[:, a:b] @ inverse


class MixedWhitening:
    """``z = L^-1 k`` in float32, except for the first columns and what they explain of others.

    Where a kernel is smooth, its values differ only after many digits. Single precision loses these
    before the first ``n_double`` columns are subtracted, and hardly needs them afterwards.
    """

    def __init__(self, factor: FloatArray, n_double: int) -> None:
        self.n_double = n = n_double
        self.first = Whitening(factor[:n, :n], np.float64)
        self.cross = np.ascontiguousarray(factor[n:, :n])
        self.others = Whitening(factor[n:, n:], np.float32)

    def begin(self, out: NDArray[np.float32], values: FloatArray) -> None:
        """Do what takes float64 on kernel values (m, n), in place, and round to ``out``."""
        if self.n_double:
            first = values[:, : self.n_double]
            self.first(first)
            values[:, self.n_double :] -= first @ self.cross.T
        out[...] = values

    def finish(self, out: NDArray[np.float32]) -> None:
        """Write features over what was begun, any number of rows at once."""
        self.others(out[:, self.n_double :])


def fill(values: Values, X: Rows, out: AnyArray) -> None:
    """Write the kernel values of rows into ``out``, in its precision, some rows at a time."""
    # Matrix products need many rows; everything else is faster while its data stay in cache.
    numbers = _TILE_NUMBERS if isinstance(values, RadialValues) else _STRIP_NUMBERS
    for a, b in row_blocks(X.shape[0], _strip(out.shape[1], numbers)):
        out[a:b] = values(X[a:b])


def kernel_matrix(
    values: Values, landmarks: AnyArray, block_rows: int, n_jobs: int | None
) -> FloatArray:
    """Return the kernel values of landmarks with each other, blocks of rows side by side."""
    gram = np.empty((len(landmarks), len(landmarks)))
    blocks = row_blocks(len(landmarks), block_rows)
    map_blocks(lambda a, b: fill(values, landmarks[a:b], gram[a:b]), blocks, n_jobs)
    return gram


def _strip(n_columns: int, numbers: int = _STRIP_NUMBERS) -> int:
    return max(1, numbers // max(1, n_columns))


def pivoted_cholesky(gram: FloatArray, cut: float) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return a factor of a kernel matrix of as few of its rows as represent all.

    Rows are taken one by one, each time the one that those before represent worst, until no
    diagonal entry is short of ``cut`` times the largest (LAPACK's ``pstrf``). ``gram`` must be
    C-contiguous and is overwritten. Returns the lower factor and the numbers of the rows kept.
    """
    largest = float(gram.diagonal().max(initial=0.0))
    if not largest > 0.0:
        raise InputError("the kernel matrix has nothing above 0 on its diagonal.")
    factor, order, rank, _ = lapack.dpstrf(gram.T, tol=cut * largest, lower=1, overwrite_a=1)
    return np.tril(factor[:rank, :rank]), order[:rank].astype(np.intp) - 1


def dense_rows(X: Rows) -> FloatArray:
    """Return rows as a C-contiguous array of float64, without a copy where possible."""
    return np.ascontiguousarray(X.toarray() if sp.issparse(X) else X, np.float64)
