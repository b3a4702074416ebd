"""Kernel values with fixed landmarks as features."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from gramless.base.state import State, array_in, check_columns, require
from gramless.base.threads import cached_property, one_blas_thread
from gramless.base.types import AnyArray, BoolArray, FloatArray, IntArray, TableLike
from gramless.features.base import SeparableMap
from gramless.features.landmarks import InputKernel, Values, dense_rows, fill
from gramless.kernels import KernelLike, as_kernel
from gramless.matrices.dense import ComputedMatrix
from gramless.preprocessing.rows import Rows, check_rows, check_width


class KernelExpansion(SeparableMap):
    """The kernel values of rows with fixed landmarks; see :meth:`of`.

    A linear function of these features is the expansion ``f(x) = sum_i a_i k(l_i, x)`` of a kernel
    machine. They are not whitened, so the map has no (n, n) matrix, unlike :class:`ExactKernel`.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        The kernel.
    n_jobs : int or None, default=None
        Number of threads; None means all processors.

    Attributes
    ----------
    landmarks_ : array (n, n_features) of float64
    bandwidth_ : array (n_features,)
        Infinite for ignored inputs.
    categorical_ : array (n_features,) of bool
    n_features_in_ : int
        As in scikit-learn.

    Notes
    -----
    The features of a row take ``n * n_features`` operations, the map ``8 * n * n_features`` bytes.
    """

    fitted_name: ClassVar[str] = "landmarks_"
    size_unit: ClassVar[str] = "landmarks"
    _rebuilt = frozenset(("_values",))

    landmarks_: FloatArray
    bandwidth_: FloatArray
    categorical_: BoolArray
    n_features_in_: int

    def __init__(self, kernel: KernelLike = "gaussian", *, n_jobs: int | None = None) -> None:
        self.kernel = kernel
        self.n_jobs = n_jobs

    @classmethod
    def of(cls, source: InputKernel, landmarks: FloatArray, n_jobs: int | None = None) -> Self:
        """Return the map of a kernel with its bandwidth, for given landmarks."""
        expansion = cls(source.kernel, n_jobs=n_jobs)
        expansion.landmarks_, expansion.bandwidth_ = landmarks, source.bandwidth
        expansion.categorical_ = np.asarray(source.categorical, bool)
        expansion.n_features_in_ = landmarks.shape[1]
        return expansion

    def fit(self, X: TableLike, y: object = None) -> Self:
        """Replace the landmarks by other rows."""
        self._check_fitted()
        self.landmarks_ = dense_rows(check_rows(self, X, reset=True))
        self.__dict__.pop("_values", None)
        return self

    def transform(self, X: TableLike) -> FloatArray:
        self._check_fitted()
        rows = check_rows(self, X, reset=False)
        out = np.empty((rows.shape[0], self.n_features_out))
        with one_blas_thread():
            self.compute(rows, out)
        return out

    def rows_matrix(self, X: Rows) -> ComputedMatrix:
        check_width(type(self).__name__, X, self.n_inputs)
        n_columns = self.n_features_out
        return ComputedMatrix(X, self.compute, n_columns, dtype=np.float64, n_jobs=self.n_jobs)

    def compute(self, X: Rows, out: AnyArray) -> None:
        """Write the kernel values of a block of validated rows to ``out``."""
        fill(self._values, X, out)

    @property
    def is_separable(self) -> bool:
        return as_kernel(self.kernel).is_separable

    def terms(self, weights: FloatArray) -> FloatArray:
        return weights

    def factors(self, X: FloatArray, columns: IntArray) -> FloatArray:
        return self._source().gram_of_columns(X, self.landmarks_, columns)

    def check_state(self, state: State) -> None:
        as_kernel(self.kernel)
        landmarks = array_in(state, "landmarks_", np.float64, (None, None), finite=True)
        n, n_inputs = landmarks.shape
        require(n > 0 and n_inputs > 0, "landmarks_ is empty")
        bandwidth = array_in(state, "bandwidth_", np.float64, (n_inputs,))
        require(bool((bandwidth > 0).all()), "bandwidth_ must be positive")
        array_in(state, "categorical_", np.bool_, (n_inputs,))
        check_columns(state, n_inputs)

    @property
    def n_inputs(self) -> int:
        return self.landmarks_.shape[1]

    @property
    def used_columns(self) -> BoolArray:
        return np.isfinite(self.bandwidth_)

    @property
    def n_features_out(self) -> int:
        return len(self.landmarks_)

    @cached_property
    def _values(self) -> Values:
        # Not part of the state: models from files have none at first.
        return self._source().values_with(self.landmarks_)

    def _source(self) -> InputKernel:
        return InputKernel(as_kernel(self.kernel), self.bandwidth_, self.categorical_)
