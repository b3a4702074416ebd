"""What all maps to dense features share: bandwidth, categories, blocks of rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError

from gramless.base.memory import check_memory
from gramless.base.random import seed_from
from gramless.base.threads import map_blocks, one_blas_thread, row_blocks
from gramless.features.sized import SizedMap
from gramless.kernels import Kernel
from gramless.matrices.computed import ComputedMatrix
from gramless.matrices.slabs import SlabMatrix
from gramless.preprocessing.rows import Rows, check_rows, check_width

_ROWS_AT_ONCE = 1024


class DenseMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SizedMap):
    """Rows to features without zeros, of a kernel that a subclass approximates.

    A subclass has the parameters ``kernel``, ``bandwidth``, ``categorical``,
    ``random_state`` and ``n_jobs``, and says how its features are learned and computed.
    """

    kernel: Any

    @abstractmethod
    def learn(self, X: Rows, kernel: Kernel) -> None:
        """Learn what :meth:`compute` needs; ``seed_`` and ``bandwidth_`` are known."""

    @abstractmethod
    def compute(self, X: Rows, out: NDArray[Any]) -> None:
        """Write the features of a block of validated rows into ``out``, in its precision.

        Raises
        ------
        InputError
            If the rows have another number of inputs than those of the fit.
        """

    @property
    @abstractmethod
    def _n_features_out(self) -> int:
        """The number of features, once fitted."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the features from rows.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)
        y : ignored

        Returns
        -------
        The map itself.

        Raises
        ------
        KernelError, InputError
            If a parameter cannot be used.
        """
        self._fit_checked(self._checked(X))
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Return the features of rows.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)

        Returns
        -------
        array (n_samples, n_features_out)
            float32 for float32 rows, else float64.
        """
        self._check_fitted()
        rows = check_rows(self, X, reset=False)
        single = rows.dtype == np.float32
        shape = (rows.shape[0], self._n_features_out)
        check_memory(
            f"{type(self).__name__}: {shape[1]:,} features of {shape[0]:,} rows",
            (4.0 if single else 8.0) * shape[0] * shape[1],
            f"transform fewer rows at a time, or {self._lighter}",
        )
        out = np.empty(shape, np.float32 if single else np.float64)
        blocks = row_blocks(rows.shape[0], _ROWS_AT_ONCE)
        with one_blas_thread():
            map_blocks(lambda a, b: self.compute(rows[a:b], out[a:b]), blocks, self.n_jobs)
        return out

    def fit_matrix(self, X: Any, y: Any = None) -> SlabMatrix:
        """Fit to the rows and return their feature matrix; see :meth:`feature_matrix`."""
        return self.fit_rows(self._checked(X))

    def feature_matrix(self, X: Any) -> SlabMatrix:
        """Return the feature matrix of rows, computed as it is needed.

        Parameters
        ----------
        X : array-like or sparse matrix (n_samples, n_features)

        Returns
        -------
        SlabMatrix (n_samples, n_features_out)
            Of float32; kept where memory allows.
        """
        self._check_fitted()
        return self.rows_matrix(check_rows(self, X, reset=False))

    def fit_rows(self, X: Rows) -> SlabMatrix:
        """Do as :meth:`fit_matrix` on rows that are validated already."""
        self._fit_checked(X)
        return self._matrix_of(X)

    def rows_matrix(self, X: Rows) -> SlabMatrix:
        """Do as :meth:`feature_matrix` on rows that are validated already.

        Raises
        ------
        InputError
            If the rows have another number of inputs than those of the fit.
        """
        self._check_inputs(X)
        return self._matrix_of(X)

    def _matrix_of(self, X: Rows) -> SlabMatrix:
        """Return the feature matrix of rows with as many inputs as those of the fit."""
        return ComputedMatrix(X, self.compute, self._n_features_out, n_jobs=self.n_jobs)

    def _fit_checked(self, X: Rows) -> None:
        kernel = self.check_parameters()
        self.check_memory(X.shape)
        self.seed_ = seed_from(self.random_state)
        self.bandwidth_ = self._bandwidth_of(X, kernel)
        try:
            self.learn(X, kernel)
        except Exception:
            # What was refused must not look fitted.
            del self.bandwidth_
            raise

    def _check_inputs(self, X: Rows) -> None:
        check_width(type(self).__name__, X, len(self.bandwidth_))

    def _check_fitted(self) -> None:
        if not hasattr(self, "bandwidth_"):
            raise NotFittedError(f"{type(self).__name__} knows no features yet; fit it first.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
